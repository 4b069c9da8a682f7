"""Result files, tables, and how a part ends: a failure is one plain line, and what was measured before it is kept."""
import argparse
import json
import sys
from pathlib import Path

MOST_BYTES = 16 << 20  # of a result file


class WriteError(RuntimeError):
    """A result that could not be kept, with the file and the reason."""


def write(path: Path, value):
    """Writes JSON, or text, whole or not at all."""
    text = value if isinstance(value, str) else json.dumps(value, indent=1) + "\n"
    data = text.encode()
    if len(data) > MOST_BYTES:
        data = data[:MOST_BYTES - 64] + b"\n... cut at 16 MB\n"
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        try:
            part.unlink(missing_ok=True)
        except OSError:
            pass
        raise WriteError(f"{path} was not written: {error.strerror}") from None


def table(work: Path, part: str, title: str, head, rows, notes=()):
    """Keeps a part's table for the end of the run, with lines below it, and prints its title."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(f"{cell!s:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in (head, *rows)]
    write(work / f"{part}.table", f"{title}\n" + "\n".join([*lines, *notes]) + "\n")
    print(title, flush=True)


def part(main, doc: str, *options) -> int:
    """Calls `main(results, work, dry, …)` with the command line's arguments; `options` are (name, default) of numbers."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    for name, default in options:
        parser.add_argument(f"--{name}", type=float, default=default)
    given = parser.parse_args()
    try:
        return main(given.results, given.work, given.dry_run, *(getattr(given, name) for name, _ in options))
    except ModuleNotFoundError as error:
        print(f"the Python module {error.name} is missing", file=sys.stderr)
    except (RuntimeError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 1
