"""Measures Heddle on an NVIDIA GPU: one command, at most 8 minutes, most valuable first.
usage: python3 run.py RESULTS [--only PART ...] [--work DIR] [--dry-run] [--limit PART=SECONDS ...]

  micro   what the driver says; costs of barriers, waits, launches, graphs and memories    RESULTS/h200.json
  draw    the zoo's weights and ONNX files, into the work folder; other parts need them
  right   models, corpus and random programs against references; memcheck on a sample      RESULTS/right.json
  race    models at batch 1 and 64 beside their peers, in turns                            RESULTS/times.json

Needs Python 3.12, numpy, torch, jax, onnx and NVIDIA's driver; no network. The card's settings are not touched. Each part has a limit of
its own, and what it wrote before it fails or is cut off is kept. RESULTS/log.txt has what the parts said, RESULTS/table.txt the table that
ends the run. The exit status is 0 only if every part is."""
import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
# Seconds; together less than 8 minutes.
LIMITS = {"micro": 60, "draw": 45, "right": 125, "race": 235}
GRACE = 5  # seconds between a part's own end and the end that it is given
NEEDS = {"micro": (), "draw": ("numpy", "onnx"), "right": ("numpy", "onnx"), "race": ("numpy",)}
TIMED = ("right", "race")  # parts that end by themselves in time


def end(process):
    """Ends a part and all that it started."""
    for word, wait in ((signal.SIGTERM, 2), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, word)
        except ProcessLookupError:
            pass
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
    return process.returncode


def run_part(name: str, command, limit: float, log) -> str:
    """Runs one part; `ok`, or what went wrong."""
    missing = [module for module in NEEDS.get(name, ()) if importlib.util.find_spec(module) is None]
    if missing:
        return f"the Python module {', '.join(missing)} is missing"
    begin = log.tell()
    process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        end(process)
        return f"cut off after {limit:.0f} s"
    except KeyboardInterrupt:
        end(process)
        raise
    # Whatever it left running would disturb the next one.
    end(process)
    if status == 0:
        return "ok"
    log.flush()
    log.seek(begin)
    lines = [line.strip() for line in log.read().splitlines() if line.strip()]
    log.seek(0, os.SEEK_END)
    return f"failed ({status}): {lines[-1][:200] if lines else 'it says nothing'}"


def table(work: Path, outcomes) -> str:
    """The table of the run: its parts, then what each of them found."""
    lines = ["part      seconds  outcome"]
    lines += [f"{name:8}  {seconds:7.1f}  {outcome}" for name, seconds, outcome in outcomes]
    for name, _, _ in outcomes:
        found = work / f"{name}.table"
        if found.exists():
            lines += ["", f"== {name}: {found.read_text().rstrip()}"]
    return "\n".join(lines) + "\n"


def keep(path: Path, text: str) -> str | None:
    """Writes a result; what went wrong."""
    try:
        report.write(path, text)
    except report.WriteError as error:
        return str(error)
    return None


def main() -> int:
    """Runs the parts, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", action="append", choices=LIMITS, help="this part alone (may be repeated)")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "heddle-gpu-kit",
                        help="folder for weights, compiled programs and inputs; kept for the next run")
    parser.add_argument("--dry-run", action="store_true", help="a few cases of each part, as a machine without a GPU can")
    parser.add_argument("--limit", action="append", default=[], metavar="PART=SECONDS", help="another limit for a part")
    args = parser.parse_args()
    limits = dict(LIMITS)
    for word in args.limit:
        name, _, value = word.partition("=")
        if name not in LIMITS or not value.isdecimal():
            parser.error(f"--limit {word}: it has to be PART=SECONDS, with one of {', '.join(LIMITS)}")
        limits[name] = int(value)
    chosen = [name for name in LIMITS if not args.only or name in args.only]
    if args.only and "draw" not in chosen and {"right", "race"} & set(chosen):
        chosen.insert(chosen.index("right") if "right" in chosen else chosen.index("race"), "draw")
    try:
        for folder in (args.results, args.work):
            folder.mkdir(parents=True, exist_ok=True)
        for old in args.work.glob("*.table"):
            old.unlink()
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    outcomes, unwritten = [], []
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        for name in chosen:
            print(f"{name}: at most {limits[name]:.0f} s", flush=True)
            command = [sys.executable, "-u", HERE / f"{name}.py", args.results, args.work]
            command += ["--dry-run"] * args.dry_run
            command += ["--seconds", max(limits[name] - GRACE, 1)] * (name in TIMED)
            log.write(f"=== {name}\n")
            log.flush()
            begin = time.monotonic()
            outcome = run_part(name, command, limits[name], log)
            outcomes.append((name, time.monotonic() - begin, outcome))
            print(f"{name}: {outcome}", flush=True)
            text = table(args.work, outcomes)
            log.seek(0)
            unwritten = list(filter(None, (keep(args.results / "log.txt", log.read()), keep(args.results / "table.txt", text))))
            log.seek(0, os.SEEK_END)
    print("\n" + table(args.work, outcomes), end="")
    for line in unwritten:
        print(line)
    return 0 if all(outcome == "ok" for _, _, outcome in outcomes) and not unwritten else 1


if __name__ == "__main__":
    sys.exit(main())
