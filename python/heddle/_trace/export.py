"""Exported programs as models, and programs that take and give what the exported function did."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import graph
from .fx import Functions, walk
from .program import OPEN, Trace

# Operators that Heddle reads whole, where PyTorch would take them apart.
_WHOLE = (
    "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input", "scaled_dot_product_attention.default", "upsample_linear1d.vec",
    "upsample_bilinear2d.vec", "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec",
)


def export(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Any:
    """The exported program of a module, with sizes open unless `dynamic_shapes` states them."""
    if dynamic_shapes == "auto":
        auto = torch.export.Dim.AUTO
        shapes = pytree.tree_map(
            lambda leaf: {i: auto for i in range(leaf.dim())} if isinstance(leaf, torch.Tensor) else None, (args, kwargs),
        )
        dynamic_shapes = _by_name(model, args, kwargs, *shapes)
    with torch.no_grad():
        return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)


def _by_name(model: Any, args: Any, kwargs: Any, arg_shapes: Any, kwarg_shapes: Any) -> Any:
    """Shapes in the form that `torch.export` wants: by the names of parameters if there are keywords."""
    if not kwargs:
        return arg_shapes
    import inspect

    signature = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    return dict(signature.bind(*arg_shapes, **kwarg_shapes).arguments)


def trace(exported: Any) -> Trace:
    """The model of an exported program."""
    table = torch.export.default_decompositions()
    for name in _WHOLE:
        packet, overload = name.split(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    with torch.no_grad():
        exported = exported.run_decompositions(table)
    signature, kinds = exported.graph_signature, torch.export.graph_signature
    changed = {
        spec.target for spec in signature.output_specs
        if spec.kind in (kinds.OutputKind.BUFFER_MUTATION, kinds.OutputKind.PARAMETER_MUTATION) and spec.target
    }
    fixed: dict[str, torch.Tensor] = {}
    state: dict[str, torch.Tensor] = {}
    user: dict[str, int] = {}
    leaves: list[Any] = []
    for spec in signature.input_specs:
        if spec.kind == kinds.InputKind.USER_INPUT:
            constant = isinstance(spec.arg, kinds.ConstantArgument)
            user[spec.arg.name] = len(leaves)
            leaves.append(spec.arg.value if constant else OPEN)
            continue
        tensor = exported.constants.get(spec.target)
        if tensor is None:
            tensor = exported.state_dict[spec.target]
        if spec.target in changed:
            state[spec.target] = tensor
        else:
            fixed[spec.arg.name] = tensor
    constants = graph.Constants()
    functions = Functions()
    body = walk(exported.graph_module, constants, functions, fixed=fixed)
    goes: list[tuple[str, int]] = []
    results, outputs = 0, []
    constant_results: dict[int, Any] = {}
    for spec, output in zip(signature.output_specs, body.outputs):
        if spec.kind == kinds.OutputKind.USER_OUTPUT:
            if isinstance(spec.arg, kinds.ConstantArgument):
                constant_results[results] = spec.arg.value
            else:
                goes.append(("result", results))
                outputs.append(output)
            results += 1
        elif spec.target in state:
            goes.append(("state", list(state).index(spec.target)))
            outputs.append(output)
        elif spec.kind == kinds.OutputKind.USER_INPUT_MUTATION:
            goes.append(("input", user[spec.target]))
            outputs.append(output)
        else:
            raise graph.unsupported(f"an exported program with an output of kind {spec.kind}")
    body.outputs = outputs
    source = graph.Source({**functions, "main": body.json()}, "main", constants)
    spec = exported.call_spec
    return Trace(source, spec.in_spec, spec.out_spec, leaves, list(state.values()), goes, constant_results)
