"""Times of the programs of examples/python: PyTorch eager and compiled, ONNX Runtime, Heddle, in turns, as a table.
usage: python bench_gallery.py [NAME ...] [--threads N] [--rounds N]

Results are compared with eager's first. The columns: plain Python run by PyTorch; the same under torch.compile; the
model with torch.while_loop and torch.cond (gallery_operators.py) under torch.compile; that one exported to ONNX
Runtime; plain Python by heddle.compile. Exit status 1 if Heddle is slower than eager, or gives other results. Needs the
wheel with its extra `torch`, onnxruntime and onnxscript."""
import argparse
import copy
import importlib
import io
import logging
import signal
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch.utils import _pytree as pytree

import gallery_operators
import heddle

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
NAMES = ["translation", "transducer", "early_exit", "tree_lstm", "ode", "gpt"]
COLUMNS = ["eager", "torch.compile", "while_loop", "ONNX Runtime", "Heddle"]
# Seconds that a peer may take to compile, and to be measured in each turn.
PATIENCE, TURN = 120, 0.25


class TooLong(Exception):
    """A peer takes longer to compile than anyone waits."""


def patient(make):
    """The result of `make`, unless it takes too long."""
    def stop(*_):
        raise TooLong(f"over {PATIENCE} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        return make()
    finally:
        signal.alarm(0)


def in_plain_python(model):
    """The same model, whose methods are those of Python without Heddle's decorator."""
    methods = {name: f.function for name, f in vars(type(model)).items() if getattr(f, "__heddle_function__", False)}
    plain = copy.copy(model)
    plain.__class__ = type(type(model).__name__, (type(model),), methods)
    return plain


def leaves(value):
    return [np.asarray(leaf.detach() if isinstance(leaf, torch.Tensor) else leaf) for leaf in pytree.tree_leaves(value)]


def agree(found, wanted):
    """Are results equal, floats up to rounding?"""
    return len(found) == len(wanted) and all(
        a.shape == b.shape and (np.allclose(a, b, 1e-4, 1e-4) if b.dtype.kind == "f" else np.array_equal(a, b))
        for a, b in zip(found, wanted))


def by_compile(module, call, finish, **options):
    """Under torch.compile, warm: it compiles in its first calls."""
    torch._dynamo.reset()
    # Recurrent modules are kept in the graph.
    torch._dynamo.config.allow_rnn = True
    compiled = torch.compile(module, **options)
    for _ in range(3):
        compiled(*call)
    return lambda: finish(compiled(*call))


class NotExported(Exception):
    """PyTorch's exporter to ONNX refuses a model."""


def by_onnx_runtime(module, call, finish, threads):
    file = io.BytesIO()
    try:
        torch.onnx.export(module, call, file, dynamo=True, verbose=False)
    except Exception as error:  # noqa: BLE001 - whatever it refuses
        raise NotExported(error) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, threads
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    names = {port.name: np.asarray(value) for port, value in zip(session.get_inputs(), _used(session, call))}
    return lambda: finish([torch.from_numpy(np.asarray(r)) for r in session.run(None, names)])


def _used(session, call):
    """Arguments that the graph reads: the exporter leaves out the others, from the end."""
    return call[: len(session.get_inputs())]


def ways(name, model, call, threads):
    """By column, a function that runs the model on its own arguments, or why there is none."""
    plain = in_plain_python(model)
    operators = gallery_operators.of(name, model, call)
    finish = lambda found: operators.trim(*found)  # noqa: E731
    program = heddle.compile(model, *call, threads=threads)
    if program.report["interpreted"]:
        sys.exit(f"{name}: Heddle leaves a part to the interpreter")
    made = {"eager": lambda: plain(*call), "Heddle": lambda: program(*call)}
    peers = {
        "torch.compile": lambda: by_compile(plain, call, lambda found: found),
        "while_loop": lambda: by_compile(operators, call, finish, fullgraph=True),
        "ONNX Runtime": lambda: by_onnx_runtime(operators, call, finish, threads),
    }
    wanted = leaves(plain(*call))
    for column, make in peers.items():
        try:
            run = patient(make)
            made[column] = run if agree(leaves(run()), wanted) else "other results"
        except TooLong as error:
            made[column] = str(error)
        except Exception as error:  # noqa: BLE001 - whatever a peer refuses
            made[column] = "not exported" if isinstance(error, NotExported) else "refuses"
            print(f"{name}, {column}: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}", file=sys.stderr)
    if not agree(leaves(made["Heddle"]()), wanted):
        sys.exit(f"{name}: Heddle's results differ from eager's")
    return made


def medians(made, rounds):
    """Median milliseconds of each way, in turns."""
    times = {column: [] for column, run in made.items() if callable(run)}
    for _ in range(rounds):
        for column in times:
            run, end = made[column], time.perf_counter() + TURN
            run()
            while time.perf_counter() < end or not times[column]:
                begin = time.perf_counter()
                run()
                times[column].append((time.perf_counter() - begin) * 1e3)
    return {column: statistics.median(all_) for column, all_ in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4, help="turns of each way")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(args.threads)
    sys.path.insert(0, str(EXAMPLES))
    rows, slower = [], []
    with torch.no_grad():
        prepared = {}
        for name in args.names:
            model, calls, *_ = importlib.import_module(name).make()
            prepared[name] = ways(name, model, calls[0], args.threads)
        for name, made in prepared.items():
            times = medians(made, args.rounds)
            cells = [f"{times[c]:.3g}" if c in times else made[c] for c in COLUMNS]
            best = min(time for column, time in times.items() if column != "Heddle")
            rows.append([name, *cells, f"{times['eager'] / times['Heddle']:.1f}", f"{best / times['Heddle']:.2f}"])
            if times["Heddle"] > times["eager"]:
                slower.append(name)
    head = ["ms", *COLUMNS, "eager / Heddle", "best other / Heddle"]
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")
    if slower:
        print(f"slower than eager: {', '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
