"""Measures batches of instances, and prints the figures as Markdown.
usage: python bench_batching.py OUT [--tables termination,ablation,threads] [--models a,b] [--batch N]
                                    [--threads N] [--seconds S] [--heddle PATH] [--programs DIR]

OUT is what make.py of the zoo for batches wrote. Tables:
  termination  64 instances of a recurrent loop, of which one iterates 1,000 times and 63 ten times,
               beside the same rows at the rates of its kernels for 64 rows and for one row;
  ablation     ACROBAT's Figure 6: the gain of each technique, by the steps of `heddle bench --ablate`;
  threads      one thread and two, arithmetic beside the measured peak, a batch of one beside a run
               without --batch.
With --steps the table of the ablation has a row for each step that changes the program. Exit status
1 if a model cannot be measured, or the loop takes over 1.3 times what its rows do."""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from heddle import HEDDLE

PROGRAMS = Path(__file__).resolve().parent.parent / "tests/models/batching"
MODELS = ("treelstm", "mvrnn", "birnn", "nestedrnn", "drnn", "stackrnn", "berxit", "varlstm",
          "fixedlstm", "treefc")
LARGEST = {"berxit": 8}
TERMINATION = 1.3  # times what the rows take at the kernels' rates

# The techniques of Figure 6 as steps of compiling, by name. A build may lack some.
TECHNIQUES = {
    "block grain": ("fuse", "place_syncs", "coalesce_copies", "cut_shares", "choose_levels",
                    "unroll_loops", "merge_branches"),
    "order of blocks": ("level_recursion", "level_loops", "order_waves", "fork_calls"),
    "eager and lazy work": ("eager_work", "lazy_work", "hoist_invariant", "distribute_loops",
                            "tabulate_products", "pipeline_layers"),
    "gathered rows": ("read_rows", "split_dots"),
    "packing": ("select_kernels", "choose_kernels", "stack_dots"),
}

# A recurrent network whose iterations a tensor ends.
LOOP = """fn @main(%h: f32[{n}], %limit: f32[], %w: f32[{n},{n}], %b: f32[{n}]) -> (%y: f32[{n}], %steps: f32[]) {{
  %y: f32[{n}], %steps: f32[] = loop %i while lt(0.0, %limit) carry (%a: f32[{n}] = %h, %t: f32[] = 0.0) {{
    %next = squeeze(tanh(add(dot(unsqueeze(%a, axes=[0]), %w), %b)), axes=[0])
    %t1 = add(%t, 1.0)
    continue while lt(%t1, %limit) carry %next, %t1
  }}
  return %y, %steps
}}
"""
# The same for rows that all iterate alike, without anything but their products and elements.
ROWS = """fn @main(%h: f32[{rows},{n}], %w: f32[{n},{n}], %b: f32[{n}]) -> (%y: f32[{rows},{n}]) {{
  %y: f32[{rows},{n}] = loop %i trip {trips} carry (%a: f32[{rows},{n}] = %h) {{
    continue carry tanh(add(dot(%a, %w), %b))
  }}
  return %y
}}
"""
PEAK = """fn @main(%x: f32[768,768], %w: f32[768,768]) -> (%y: f32[768,768]) {
  %y: f32[768,768] = loop %i trip 8 carry (%a: f32[768,768] = %x) {
    continue carry dot(%a, %w)
  }
  return %y
}
"""


def bench(args, model, arguments, threads):
    """The document of `heddle bench --json`; raises with its message."""
    command = [args.heddle, "bench", model, *arguments, "--threads", threads, "--seconds",
               args.seconds, "--json", "-"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
    return json.loads(done.stdout)


def row(cells):
    """Prints a row of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def head(*cells):
    """Prints the head of a table."""
    print()
    row(cells)
    row(["---"] * len(cells))


def ms(times) -> str:
    """Median and least, in milliseconds."""
    return f"{times['median_ms']:.3g} ({times['min_ms']:.3g})" if times else ""


def termination(args) -> int:
    """The loop of which one instance iterates 1,000 times; 1 if it takes too long."""
    n, count, few, many = args.hidden, 64, 10, 1000
    r = np.random.default_rng(0)
    weights = {"w": (r.standard_normal((n, n)) / math.sqrt(n)).astype(np.float32),
               "b": r.standard_normal(n).astype(np.float32) / 8}
    states = r.standard_normal((count, n)).astype(np.float32)
    limits = np.full(count, few, np.float32)
    limits[count // 2] = many
    print(f"\n{count} instances of h = tanh(h W + b), {n} wide: one iterates {many:,} times, "
          f"{count - 1} {few} times")
    head("threads", "batch, ms", "64 rows, µs an iteration", "one row", "rows alone, ms", "ratio",
         "by least times")
    late = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "loop.heddle").write_text(LOOP.format(n=n))
        np.savez(folder / "in.npz", h=states, limit=limits)
        np.savez(folder / "w.npz", **weights)
        for rows in (count, 1):
            text = ROWS.format(n=n, rows=rows, trips=many)
            (folder / f"rows{rows}.heddle").write_text(text)
            np.savez(folder / f"rows{rows}.npz", h=states[:rows], **weights)
        for threads in thread_counts(args):
            given = ["--batch", folder / "in.npz", "--weights", folder / "w.npz"]
            batch = bench(args, folder / "loop.heddle", given, threads)
            alike = [bench(args, folder / f"rows{rows}.heddle",
                           ["--input", folder / f"rows{rows}.npz"], threads) for rows in (count, 1)]
            bounds = {}
            for kind in ("median_ms", "min_ms"):
                wide, one = (times[kind] / many for times in alike)
                bounds[kind] = few * wide + (many - few) * one
            ratio, least = (batch[kind] / bound for kind, bound in bounds.items())
            late |= ratio > TERMINATION
            row([str(threads), ms(batch), *(f"{1000 * t['median_ms'] / many:.3g}" for t in alike),
                 f"{bounds['median_ms']:.3g}", f"{ratio:.2f} (≤ {TERMINATION})", f"{least:.2f}"])
    return int(late)


def files(args, model, batch):
    """The model, and the options that name its inputs."""
    given = args.out / f"{model}_b{batch}.in.npz"
    options = ["--batch", given, "--weights", args.out / f"{model}.weights.npz"]
    return args.programs / f"{model}.heddle", options


def sizes(args):
    """The chosen models with their batch sizes."""
    chosen = list(filter(None, args.models.split(","))) or MODELS
    return [(model, min(args.batch, LARGEST.get(model, args.batch))) for model in chosen]


def thread_counts(args):
    """One thread and, if there are more, all."""
    return sorted({1, args.threads})


def ablation(args) -> int:
    """Figure 6; the number of models that could not be measured."""
    found = []
    failed = 0
    for model, batch in sizes(args):
        program, given = files(args, model, batch)
        try:
            rows = bench(args, program, [*given, "--ablate"], args.threads)["ablation"]
        except RuntimeError as error:
            failed += 1
            print(f"\n{model}: {str(error).splitlines()[-1]}", file=sys.stderr)
            continue
        found.append((model, batch, rows))
    if not found:
        return failed
    known = [r["name"] for r in found[0][2]]
    for technique, steps in TECHNIQUES.items():
        own = [step for step in steps if step in known]
        print(f"\n{technique}: {', '.join(own) or 'no step of this build'}", end="")
    print("\n\nMs with all steps, and factors by which each technique makes the batch faster, in the order "
          "in which steps are added. `alone`: each instance by itself, with all steps.")
    head("model, batch", "alone, ms", "host, ms", "no steps, ms", *TECHNIQUES, "other steps",
         "all steps, ms", "beside alone")
    for model, batch, rows in found:
        by = {r["name"]: r for r in rows}
        gains = dict.fromkeys([*TECHNIQUES, None], 1.0)
        before = None
        for r in rows[[r["name"] for r in rows].index("control flow"):]:
            if before and r["changed"]:
                names = (t for t, steps in TECHNIQUES.items() if r["name"] in steps)
                gains[next(names, None)] *= before / r["median_ms"]
            before = r["median_ms"]
        last = rows[-1]
        row([f"{model}, {batch}", *(ms(by.get(name)) for name in ("alone", "host", "control flow")),
             *(f"{gain:.2f}" for gain in gains.values()), ms(last),
             f"{by['alone']['median_ms'] / last['median_ms']:.2f}"])
    if args.steps:
        for model, batch, rows in found:
            print(f"\n{model}, {batch}")
            head("step", "ms", "factor")
            before = None
            for r in (r for r in rows if r["changed"]):
                row([r["name"], ms(r), f"{before / r['median_ms']:.2f}" if before else ""])
                before = r["median_ms"]
    return failed


def operations(args, model, batch) -> float:
    """Floating-point operations of the products of a batch, as the model is written."""
    with np.load(args.out / f"{model}_b{batch}.in.npz") as arrays:
        given = dict(arrays)
    with np.load(args.out / f"{model}_b{batch}.want.npz") as arrays:
        want = dict(arrays)
    nodes = given["left"].size if "left" in given else 0
    inner = int((given["left"] >= 0).sum()) if nodes else 0
    words = given["word"].size if "word" in given else 0
    n = 256
    if model == "treelstm":
        products = nodes * 3 * n * n + inner * (n * n + 3 * n * n + 2 * n * n)
    elif model == "treefc":
        products = inner * 2 * n * n
    elif model == "mvrnn":
        products = inner * (2 * 64 * 64 + 128 * 64 + 64 * 128 * 64)
    elif model == "birnn":
        products = words * (2 * 2 * n * n + 2 * n * 16)
    elif model in ("varlstm", "fixedlstm"):
        products = words * 2 * n * 4 * n
    elif model == "nestedrnn":
        counts = given["inner"]
        products = int(counts.sum()) * 2 * n * n + counts.size * (4 * n * n + 2 * n * n)
    elif model == "drnn":
        grown = int(want["out_0"].sum())
        products = grown * (3 * 2 * n * n + 2 * n + n * n)
    elif model == "stackrnn":
        actions = want["out_0"]
        reduced = int((actions != 0).sum())
        products = words * 2 * n * n + reduced * 2 * n * n
        products += actions.size * (3 * n * n + 3 * n + 2 * 2 * n * n)
    else:
        layers, d, t = int(want["out_0"].sum()), 768, 128
        products = layers * (4 * t * d * d + 2 * t * t * d + 2 * t * d * 4 * d + 8 * d)
    return 2.0 * products


def scaling(args) -> int:
    """One thread and more, arithmetic beside the peak, and batches of one beside runs without any."""
    counts = thread_counts(args)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "peak.heddle")
        path.write_text(PEAK)
        rates = {threads: 8 * 2 * 768**3 / bench(args, path, ["--random", 0], threads)["min_ms"] / 1e6
                 for threads in counts}
    peaks = ", ".join(f"{rate:.1f} on {threads}" for threads, rate in rates.items())
    print(f"\nMeasured peak in GFLOP/s by threads, products of 768: {peaks}")
    head("model, batch", "GFLOP", *(f"ms on {threads}" for threads in counts), "faster",
         *(f"over peak on {threads}" for threads in counts), "batch of 1, ms", "without --batch",
         "ratio")
    failed = 0
    for model, batch in sizes(args):
        program, given = files(args, model, batch)
        try:
            times = {threads: bench(args, program, given, threads) for threads in counts}
            of_one = bench(args, program, files(args, model, 1)[1], args.threads)
            alone = bench_alone(args, model, program)
            work = operations(args, model, batch)
        except (RuntimeError, OSError) as error:
            failed += 1
            row([f"{model}, {batch}", str(error).splitlines()[-1]])
            continue
        medians = {threads: t["median_ms"] for threads, t in times.items()}
        bound = {threads: work / rates[threads] / 1e6 for threads in counts}
        row([f"{model}, {batch}", f"{work / 1e9:.3g}", *(ms(t) for t in times.values()),
             f"{medians[counts[0]] / medians[counts[-1]]:.2f}",
             *(f"{medians[threads] / bound[threads]:.2f}" for threads in counts), ms(of_one),
             ms(alone), f"{of_one['median_ms'] / alone['median_ms']:.2f}"])
    return failed


def bench_alone(args, model, program):
    """The times of a batch of one without --batch."""
    with np.load(args.out / f"{model}_b1.in.npz") as arrays:
        given = dict(arrays)
    ragged = {name.removesuffix(".offsets") for name in given if name.endswith(".offsets")}
    one = {name: array if name in ragged else array[0] for name, array in given.items()
           if not name.endswith(".offsets")}
    text = program.read_text()
    with np.load(args.out / f"{model}.weights.npz") as arrays:
        one |= {name: arrays[name] for name in arrays if f"%{name}:" in text}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.npz")
        np.savez(path, **one)
        return bench(args, program, ["--input", path], args.threads)


def main() -> int:
    """Prints the tables."""
    tables = {"termination": termination, "threads": scaling, "ablation": ablation}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", default=",".join(tables), help="separated by commas")
    parser.add_argument("--models", default="", help="separated by commas; default: all ten")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--hidden", type=int, default=256, help="width of the loop for termination")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--heddle", default=HEDDLE)
    parser.add_argument("--programs", type=Path, default=PROGRAMS)
    args = parser.parse_args()
    chosen = args.tables.split(",")
    unknown = [name for name in chosen if name not in tables]
    if unknown:
        parser.error(f"no table named {', '.join(unknown)}; there are {', '.join(tables)}")
    return 1 if sum(tables[name](args) for name in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
