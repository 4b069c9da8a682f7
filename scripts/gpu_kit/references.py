"""Writes a kit's references at batch 1: inputs and their outputs in float64; prints the checksums of the weights behind them as JSON.
usage: python references.py KIT"""
import json
import sys
from pathlib import Path

import numpy as np

LARGE = 1 << 20  # bytes of an output from which on it is kept in float32


def outputs_of(module, weights, inputs):
    """A model's outputs in float64."""
    if hasattr(module, "reference"):
        return module.reference(weights, inputs)
    import torch
    net = module.Torch(weights).eval().to(torch.float64)
    tensors = [torch.from_numpy(np.asarray(value)) for value in inputs.values()]
    with torch.no_grad():
        return [value.numpy() for value in net(*(t.to(torch.float64) if t.is_floating_point() else t for t in tensors))]


def main(kit: Path):
    """All models of the kit, on each set of inputs that the zoo has."""
    sys.path.insert(0, str(kit))
    import draw
    import zoo
    sums = {}
    for name in ["small", *zoo.names()]:
        module = zoo.load(name)
        weights = module.weights()
        sums[name] = draw.checksum(weights)
        for seed in range(3):
            inputs = module.inputs(1, seed)
            outputs = [np.asarray(value) for value in outputs_of(module, weights, inputs)]
            kept = [value if value.nbytes < LARGE else value.astype(np.float32) for value in outputs]
            draw.save_data(kit / "references" / f"{name}_b1_s{seed}.npz", inputs, kept, module.fixed(inputs, outputs))
    print(json.dumps(sums))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
