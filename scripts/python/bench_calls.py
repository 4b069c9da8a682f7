"""Time of a call from Python beside the run itself, on the small tree model of the demo.
usage: python bench_calls.py [--threads N] [--calls N]

A run is timed by `heddle.bench`, from Rust. The other rows are medians of groups of calls from Python, whose results are dropped; the
overhead is their difference. Needs the wheel with its extra `torch`, and onnx."""
import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

import heddle

# Behind the rest: its module `heddle` is not the package.
sys.path.append(str(Path(__file__).resolve().parent.parent))
from demo_models import DEMOS  # noqa: E402

GROUP = 100


def microseconds(call, calls):
    """Median of a call in µs, over groups of calls."""
    times = []
    for _ in range(calls // GROUP):
        begin = time.perf_counter()
        for _ in range(GROUP):
            call()
        times.append((time.perf_counter() - begin) / GROUP * 1e6)
    return statistics.median(times)


class Small(torch.nn.Module):
    """Hardly any work beside the call."""

    def forward(self, x, n):
        for _ in range(n):
            x = x * 0.5
        return x


def table(title, run, rows):
    print(f"{title}: the run itself {run:.2f} µs")
    for name, time_ in rows:
        print(f"  {name:42} {time_:7.2f} µs   overhead {time_ - run:6.2f} µs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--calls", type=int, default=20_000)
    args = parser.parse_args()
    demo = DEMOS[-1]()
    program = heddle.compile(demo.model, threads=args.threads)
    inputs = demo.inputs[0]
    arrays = [np.array(inputs[name]) for name in program.inputs]
    tensors = [torch.from_numpy(array) for array in arrays]
    by_name = dict(zip(program.inputs, arrays))

    def rust(program, inputs):
        return heddle.bench(program, inputs, seconds=0, runs=args.calls).median * 1e6

    with torch.no_grad():
        table(demo.name, rust(program, by_name), [
            ("program(*arrays of NumPy)", microseconds(lambda: program(*arrays), args.calls)),
            ("program(*tensors of PyTorch)", microseconds(lambda: program(*tensors), args.calls)),
            ("program(**arrays of NumPy)", microseconds(lambda: program(**by_name), args.calls)),
            ("program.run({name: array})", microseconds(lambda: program.run(by_name), args.calls)),
        ])
        model, call = Small(), (torch.ones(4), torch.tensor(1))
        compiled = heddle.compile(model, *call, threads=1)
        function = heddle.function(lambda x, n: x * 0.5 if n > 0 else x, threads=1)
        table("a module", rust(compiled, dict(zip(compiled.inputs, call))), [
            ("heddle.compile(module, ...)(*tensors)", microseconds(lambda: compiled(*call), args.calls)),
        ])
        made = function.compile(*call)
        table("a function", rust(made, dict(zip(made.inputs, call))), [
            ("@heddle.function: f(*tensors)", microseconds(lambda: function(*call), args.calls)),
        ])


if __name__ == "__main__":
    sys.exit(main())
