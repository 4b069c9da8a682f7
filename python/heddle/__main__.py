"""The `heddle` command, as the script `heddle` and as `python -m heddle`."""
import signal
import sys

from heddle import _native


def main() -> int:
    """Runs the command with the process's arguments; its exit code."""
    # Python would keep Ctrl-C for after the command; like this it ends the process, as it ends the program written in Rust.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.command(["heddle", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
