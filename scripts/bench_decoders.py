"""Times of decoders on Heddle and on ONNX Runtime, in turns, as a table.
usage: python bench_decoders.py FOLDER [--heddle HEDDLE] [--threads N] [--runs N]

FOLDER keeps the exported models. The last column is ONNX Runtime's better median (threads that
spin or sleep) by Heddle's; where ONNX Runtime cannot run a model or its results differ from
PyTorch's, it says so. Needs torch, onnx and onnxruntime."""
import sys
from pathlib import Path

import numpy as np
import onnx
import torch

from beside import BY_ONNX_RUNTIME, arguments, by_heddle, by_onnx_runtime, head, row, same, times
from exported import decoders
from exported.table import TABLE, TORCHSCRIPT
from exported.write import export, flat

TURN = 10


def write(folder: Path, program, module, inputs):
    """The model's path, the inputs' path, and PyTorch's results."""
    torch.manual_seed(0)
    network = torch.jit.script(module(decoders.LARGE).eval())
    program.runs = [inputs]
    with torch.no_grad():
        results = [np.asarray(r) for r in flat(network(*inputs))]
    path, data = folder / f"{program.name}.onnx", folder / f"{program.name}.npz"
    model = export(network, program, TORCHSCRIPT)
    onnx.save(model, path)
    places = [int(i.name.removeprefix("in")) for i in model.graph.input]
    np.savez(data, **{f"in{k}": np.asarray(inputs[k]) for k in places})
    return path, data, results


def refusal_of_onnx_runtime(path, data, results):
    """An error, or nothing if its results are PyTorch's."""
    try:
        outputs = by_onnx_runtime(path, data)
    except Exception as error:  # whatever it refuses
        return "refuses: " + type(error).__name__
    return "" if same(outputs, results) else "wrong results"


def main():
    args = arguments(__doc__, 50).parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(head("decoder"))
    for module, inputs in decoders.INPUTS.items():
        program = next(p for p in TABLE if p.make is module)
        path, data, results = write(args.folder, program, module, inputs)
        how = by_heddle(args.heddle, path, data, results, args.threads)
        refusal = refusal_of_onnx_runtime(path, data, results)
        peers = () if refusal else BY_ONNX_RUNTIME
        medians = times(args.heddle, path, data, args.threads, args.runs, TURN, peers)
        print(row(program.name, how, medians, refusal=refusal), flush=True)


if __name__ == "__main__":
    sys.exit(main())
