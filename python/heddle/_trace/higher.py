"""PyTorch's own control flow operators, where converted code calls them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import checks, control, loops
from .graph import Place, unsupported
from .record import active


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """`torch.cond`."""
    from .convert import converted_call

    return control.if_exp(
        pred, lambda: converted_call(true_fn, tuple(operands), None), lambda: converted_call(false_fn, tuple(operands), None), "torch.cond",
    )


def switch(index: Any, branches: Any, operands: Any = ()) -> Any:
    """`switch` of `torch._higher_order_ops`; an index out of range takes the nearest branch. The branch is searched by halves."""

    def choose(first: int, last: int) -> Any:
        if first == last:
            from .convert import converted_call

            return converted_call(branches[first], tuple(operands), None)
        half = (first + last + 1) // 2
        return control.if_exp(index < half, lambda: choose(first, half - 1), lambda: choose(half, last), "switch")

    if isinstance(index, torch.Tensor):
        index = index.reshape(())
    return choose(0, len(branches) - 1)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """`while_loop` of `torch._higher_order_ops`."""
    from .convert import converted_call

    state = [tuple(carried_inputs)]

    def body() -> None:
        result = converted_call(body_fn, state[0], None)
        state[0] = tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def set_state(value: Any) -> None:
        state[0] = value[0]

    loops.while_stmt(lambda: converted_call(cond_fn, state[0], None), body, lambda: (state[0],), set_state, ["carried"], {})
    return state[0]


def scan(combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """`scan` of `torch._higher_order_ops`."""
    from .convert import converted_call

    rec = active()
    assert rec is not None
    place = rec.place()
    carried, carried_spec = pytree.tree_flatten(init)
    arrays, arrays_spec, dim = _along("scan", xs, dim, reverse, place)
    with rec.inside(rec.nested()) as region:
        state = [rec.input(region, "carried", c.dtype, c.shape) for c in carried]
        rows = [rec.input(region, "row", a.dtype, a.shape[1:]) for a in arrays]
        following, made = converted_call(
            combine_fn, (pytree.tree_unflatten(state, carried_spec), pytree.tree_unflatten(rows, arrays_spec)), None,
        )
        following = pytree.tree_leaves(following)
        each, made_spec = pytree.tree_flatten(made)
        if len(following) != len(carried):
            raise unsupported(f"scan carries {len(carried)} arrays, and then {len(following)}", place)
        for now, was in zip(following, carried):
            if now.dtype != was.dtype or not all(map(control.same_size, now.shape, was.shape)):
                raise unsupported(f"scan carries {control.describe(was)}, and then {control.describe(now)}", place)
        token = checks.pending(region, rec)
        region.graph.outputs = [rec.read(t) for t in (*following, *each, *([] if token is None else [token]))]
    operands = [{"list": [rec.read(t) for t in part]} for part in (carried, arrays)]
    captured = control.share_captures(rec, [region])
    length = arrays[0].shape[0]
    results = [rec.fresh(c.dtype, c.shape) for c in carried] + [rec.fresh(y.dtype, (length, *y.shape)) for y in each]
    if token is not None:
        results.append(rec.fresh(torch.int64, [length]))
    values = []
    for result in results:
        values.append(rec.region.graph.tensor("scan", result))
        rec.bind(result, {"value": values[-1]["id"]})
    rec.region.graph.node("scan", [{"graph": region.graph.json()}, *operands, {"list": captured}], {}, values, place)
    rec.finish([region])
    if token is not None:
        rec.region.checks.append(results.pop().sum())
    stacked = results[len(carried) :]
    if reverse:
        stacked = [y.flip(0) for y in stacked]
    if dim:
        stacked = [torch.movedim(y, 0, dim) for y in stacked]
    return pytree.tree_unflatten(results[: len(carried)], carried_spec), pytree.tree_unflatten(stacked, made_spec)


def _along(name: str, xs: Any, dim: int, reverse: bool, place: Place | None) -> tuple[list[torch.Tensor], Any, int]:
    """The arrays that a scan takes slices of along their first axes, their structure, and the number of the axis that was moved there."""
    arrays, spec = pytree.tree_flatten(xs)
    if not arrays:
        raise unsupported(f"{name} over no arrays", place, "a loop with a count")
    for array in arrays:
        if not isinstance(array, torch.Tensor):
            raise unsupported(f"{name} over a {type(array).__name__}", place, "give tensors")
    # As in PyTorch, the first array's axes are those that a negative number counts.
    axis = dim + arrays[0].dim() if dim < 0 else dim
    if axis < 0 or any(array.dim() <= axis for array in arrays):
        raise unsupported(f"{name} along axis {dim} of arrays of {', '.join(str(a.dim()) for a in arrays)} axes", place)
    lengths = {array.shape[axis] for array in arrays if isinstance(array.shape[axis], int)}
    if len(lengths) > 1:
        raise unsupported(f"{name} over arrays of lengths {' and '.join(map(str, sorted(lengths)))}", place)
    arrays = [torch.movedim(array, axis, 0) if axis else array for array in arrays]
    return [array.flip(0) for array in arrays] if reverse else arrays, spec, axis


def associative_scan(combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise") -> Any:
    """`associative_scan` of `torch._higher_order_ops`, in each of its modes as a loop over the axis."""
    from .convert import converted_call

    rec = active()
    assert rec is not None
    place = rec.place()
    if combine_mode not in ("pointwise", "generic"):
        raise unsupported(f"associative_scan with combine_mode={combine_mode!r}", place, 'combine_mode="pointwise" or "generic"')
    arrays, spec, dim = _along("associative_scan", xs, dim, reverse, place)
    with rec.inside(rec.nested()) as region:
        sides = [[rec.input(region, name, a.dtype, a.shape[1:]) for a in arrays] for name in ("left", "right")]
        made = pytree.tree_leaves(converted_call(combine_fn, tuple(pytree.tree_unflatten(side, spec) for side in sides), None))
        if len(made) != len(arrays):
            raise unsupported(f"associative_scan combines {len(arrays)} arrays to {len(made)}", place)
        for now, was in zip(made, sides[0]):
            if now.dtype != was.dtype or not all(map(control.same_size, now.shape, was.shape)):
                raise unsupported(f"associative_scan combines {control.describe(was)} to {control.describe(now)}", place)
        if region.checks:
            raise unsupported("an `assert`, or a variable that may be unassigned, in the function of associative_scan", place, "scan takes them")
        region.graph.outputs = [rec.read(t) for t in made]
    operands = [{"list": [rec.read(a) for a in arrays]}, {"list": control.share_captures(rec, [region])}]
    results = [rec.fresh(a.dtype, a.shape) for a in arrays]
    values = []
    for result in results:
        values.append(rec.region.graph.tensor("associative_scan", result))
        rec.bind(result, {"value": values[-1]["id"]})
    rec.region.graph.node("associative_scan", [{"graph": region.graph.json()}, *operands], {}, values, place)
    rec.finish([region])
    if reverse:
        results = [y.flip(0) for y in results]
    if dim:
        results = [torch.movedim(y, 0, dim) for y in results]
    return pytree.tree_unflatten(results, spec)


def map_(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`map` of `functorch.experimental.control_flow`."""
    from .convert import converted_call

    return scan(lambda _, row: ((), converted_call(f, (row, *args), None)), (), xs)[1]


SPECIALS: dict[Any, Any] = {torch.cond: cond}
for _module, _name, _own in (
    ("torch._higher_order_ops", "switch", switch), ("torch._higher_order_ops", "while_loop", while_loop),
    ("torch._higher_order_ops.while_loop", "while_loop", while_loop),
    ("torch._higher_order_ops.scan", "scan", scan), ("torch._higher_order_ops", "scan", scan), ("torch._higher_order_ops.map", "map", map_),
    ("torch._higher_order_ops", "map", map_), ("torch._higher_order_ops.associative_scan", "associative_scan", associative_scan),
    ("torch._higher_order_ops", "associative_scan", associative_scan),
):
    try:
        SPECIALS[getattr(importlib.import_module(_module), _name)] = _own
    except (ImportError, AttributeError, TypeError):
        # Another version of PyTorch, without this operator.
        continue
