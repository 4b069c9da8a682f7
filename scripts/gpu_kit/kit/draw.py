"""Part `draw`: weights of the zoo's models, their ONNX files, and inputs of the larger batch, into the work folder.
usage: python draw.py RESULTS WORK [--dry-run]

A model that is there already is not drawn again. Weights whose checksum differs from that of the weights behind the references, since
PyTorch or NumPy rounds otherwise here, are named; references hold within 1e-4 all the same."""
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

import report
import zoo


def checksum(weights) -> int:
    """Of all weights in their order."""
    total = 0
    for value in weights.values():
        total = zlib.crc32(np.ascontiguousarray(value).tobytes(), total)
    return total


def save_data(path: Path, inputs, outputs=(), fixed=()):
    """Writes inputs, and references where there are some."""
    np.savez(path, fixed=np.array(fixed, np.int64), **{f"in_{key}": value for key, value in inputs.items()},
             **{f"out_{i}": value for i, value in enumerate(outputs)})


def draw(name: str, work: Path):
    """Draws one model, and says how."""
    module = zoo.load(name)
    weights = module.weights()
    for batch in module.BATCHES:
        zoo.save_onnx(module, name, weights, batch, work)
        if batch > 1:
            inputs = module.inputs(batch, 0)
            # References of the zoo's models are computed in the race, in float64 on the GPU.
            outputs = module.reference(weights, inputs) if hasattr(module, "reference") else ()
            save_data(work / f"{name}_b{batch}_s0.npz", inputs, outputs, module.fixed(inputs, outputs) if outputs else ())
    np.savez(work / f"{name}.weights.npz", **weights)
    report.write(work / f"{name}.drawn", {"checksum": checksum(weights), "batches": module.BATCHES})


def main(_: Path, work: Path, dry: bool) -> int:
    """Draws all models side by side, each in a process of its own."""
    names = ["small"] if dry or not zoo.names() else zoo.names()
    threads = str(max(2, (os.cpu_count() or 2) // len(names)))
    environment = os.environ | {"OMP_NUM_THREADS": threads}
    missing = [name for name in names if not (work / f"{name}.drawn").exists()]
    running = {name: subprocess.Popen([sys.executable, __file__, "--model", name, work], env=environment, stderr=subprocess.PIPE, text=True)
               for name in missing}
    failed = {name: process.communicate()[1] for name, process in running.items()}
    known = json.loads((zoo.HERE / "contents.json").read_text()).get("checksums", {})
    rows, bad = [], 0
    for name in names:
        try:
            drawn = json.loads((work / f"{name}.drawn").read_text())
        except OSError:
            lines = failed.get(name, "").strip().splitlines() or ["it says nothing"]
            rows.append((name, f"failed: {lines[-1]}"))
            bad += 1
            continue
        same = known.get(name) in (None, drawn["checksum"])
        rows.append((name, "as for the references" if same else "weights differ from those of the references in their last bits"))
    report.table(work, "draw", f"{len(names) - bad} of {len(names)} models drawn", ("model", "weights"), rows)
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--model"]:
        draw(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(report.part(main, __doc__))
