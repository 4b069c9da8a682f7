"""The models: those of the zoo's folder, and `small`, which is our own, in the same form (`BATCHES`, `weights`, `inputs`, `fixed`, `Torch`,
`TorchGraph`, `run_jax`, and `ONNX` or `save_onnx`)."""
import ast
import importlib
import os
import sys
import types
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ZOO = HERE / "zoo"
DYNAMIC = ("lstm", "seq2seq", "attention", "rae", "nasrnn", "blockdrop", "skipnet")
FACTORIES = ("zeros", "ones", "full", "arange", "tensor")


def names() -> list[str]:
    """Models of this kit, those with the shortest runs first."""
    return [name for name in DYNAMIC if path(name).exists()]


def path(name: str) -> Path:
    """The file of a model."""
    return HERE / "small.py" if name == "small" else ZOO / "models" / f"{name}.py"


def text(name: str) -> str:
    """The text of a model."""
    return path(name).read_text() + ((HERE / "small_torch.py").read_text() if name == "small" else "")


class OnDevice(ast.NodeTransformer):
    """Has torch.zeros and the like make their tensors on DEVICE. A default device would cost each call of eager PyTorch time.
    torch.tensor(n) becomes torch.full((), n), which copies nothing from the host, so that a CUDA graph can capture it."""

    def visit_Call(self, node):
        self.generic_visit(node)
        made = isinstance(node.func, ast.Attribute) and node.func.attr in FACTORIES
        if made and isinstance(node.func.value, ast.Name) and node.func.value.id == "torch":
            if node.func.attr == "tensor":
                node.func.attr = "full"
                node.args.insert(0, ast.Tuple([], ast.Load()))
            node.keywords.append(ast.keyword("device", ast.Name("DEVICE", ast.Load())))
        return node


def load(name: str, device: str = "cpu") -> types.ModuleType:
    """A model's module, whose new tensors are on this device."""
    if str(ZOO) not in sys.path:
        sys.path.insert(0, str(ZOO))
    if device == "cpu":
        return importlib.import_module("small" if name == "small" else f"models.{name}")
    module = types.ModuleType(f"models_{name}")
    file = path(name)
    module.__file__, module.DEVICE = str(file), device
    sys.modules[module.__name__] = module
    tree = ast.fix_missing_locations(OnDevice().visit(ast.parse(file.read_text(), str(file))))
    exec(compile(tree, str(file), "exec"), module.__dict__)
    return module


def relative_error(got, want) -> float:
    """max|got - want| / max|want| over all outputs; infinite where shapes, numbers of outputs or integers differ."""
    if len(got) != len(want):
        return float("inf")
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        if g.shape != w.shape:
            return float("inf")
        if w.dtype.kind in "ib":
            error = 0.0 if (g == w).all() else float("inf")
        else:
            error = float(np.abs(g.astype(np.float64) - w).max(initial=0) / max(np.abs(w).max(initial=0), 1e-30))
        worst = max(worst, error if np.isfinite(error) else float("inf"))
    return worst


def save_onnx(module, name: str, weights, batch: int, folder: Path) -> list[str]:
    """Writes a model's ONNX files for a batch size; their names."""
    if hasattr(module, "save_onnx"):
        file = f"{name}_loop_b{batch}.onnx"
        module.save_onnx(weights, batch, folder / file)
        return [file]
    from common import Graph
    files = []
    for kind, build in module.ONNX.items():
        graph = Graph()
        build(graph, weights, batch)
        files.append(f"{name}_{kind}_b{batch}.onnx")
        # All kinds of a model but the built-in one have the same weights in their file.
        graph.save(os.path.join(folder, files[-1]), f"{name}{'_builtin' * (kind == 'builtin')}.weights")
    return files


def data(path: Path):
    """(inputs by name, outputs, decisions) of a file of references."""
    with np.load(path) as arrays:
        outputs = [arrays[f"out_{i}"] for i in range(sum(key.startswith("out_") for key in arrays))]
        inputs = {key[3:]: arrays[key] for key in arrays if key.startswith("in_")}
        return inputs, outputs, arrays["fixed"].tolist() if "fixed" in arrays else []
