"""Lists in converted code. A list that a loop of the program makes longer is one tensor with a row for each element."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from .graph import unsupported
from .record import active

# Methods that change an object, which a branch or loop must not do unseen.
CHANGING = {
    list: {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"},
    dict: {"update", "pop", "popitem", "clear", "setdefault"},
    set: {"add", "update", "remove", "discard", "pop", "clear"},
}


class Grown:
    """A list whose length only the run knows: its elements stacked along a new first axis."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def __len__(self) -> int:
        raise unsupported("the length of a list that grows, where Python needs a number", _place(), "len(x) in a function that Heddle converts")

    def __iter__(self) -> Any:
        raise unsupported("a list that grows, where Python needs its elements", _place(), "torch.stack(x) makes a tensor of it")


pytree.register_pytree_node(Grown, lambda g: ([g.data], None), lambda leaves, _: Grown(leaves[0]), serialized_type_name="heddle.Grown")


def _place() -> Any:
    rec = active()
    return None if rec is None else rec.place()


def _row(value: Any) -> torch.Tensor:
    from .control import as_tensor

    rec = active()
    assert rec is not None
    return torch.ops.aten.unsqueeze.default(as_tensor(rec, value), 0)


def grown(values: list[Any], like: torch.Tensor | None) -> Grown:
    """The list of some elements, or of none that would be like a row of a tensor."""
    if values:
        return Grown(torch.cat([_row(v) for v in values]) if len(values) > 1 else _row(values[0]))
    assert like is not None
    return Grown(torch.full((0, *like.shape[1:]), 0, dtype=like.dtype))


def append(target: Any, value: Any) -> Any:
    """`target.append(value)`, which gives what `target` is from then on."""
    rec = active()
    if isinstance(target, Grown):
        row = _row(value)
        return Grown(torch.cat([target.data, row.to(target.data.dtype) if row.dtype != target.data.dtype else row]))
    if rec is None or not isinstance(target, list) or rec.region.parent is None:
        target.append(value)
        return target
    return [*target, value]


def change(target: Any, name: str) -> None:
    """A method that changes an object of Python is called."""
    rec = active()
    if rec is not None and rec.region.parent is not None:
        raise unsupported(
            f".{name}() on a {type(target).__name__} in a branch or loop that a tensor decides", rec.place(),
            "x.append(y) on a local list, and x[i] = y, are converted",
        )


def stack(tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    """`torch.stack`."""
    if not isinstance(tensors, Grown):
        return torch.stack(tensors, dim, **kwargs)
    return torch.movedim(tensors.data, 0, dim) if dim else tensors.data


def cat(tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    """`torch.cat`."""
    if not isinstance(tensors, Grown):
        return torch.cat(tensors, dim, **kwargs)
    data = tensors.data
    dim = dim % (data.dim() - 1)
    shape = list(data.shape[1:])
    shape[dim] = shape[dim] * data.shape[0]
    return torch.movedim(data, 0, dim).reshape(shape)


def tensor(data: Any, **kwargs: Any) -> Any:
    """`torch.tensor`."""
    if isinstance(data, Grown):
        return data.data.to(kwargs["dtype"]) if kwargs.get("dtype") is not None else data.data.clone()
    if isinstance(data, torch.Tensor):
        return data.to(kwargs["dtype"]) if kwargs.get("dtype") is not None else data.clone()
    leaves = pytree.tree_leaves(data)
    if any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return _nested(data, kwargs.get("dtype"))
    if active() is None:
        return torch.tensor(data, **kwargs)
    with torch.utils._python_dispatch._disable_current_modes():
        made = torch.tensor(data, **kwargs)
        number = made.item() if made.dim() == 0 else None
    if number is not None:
        return torch.full((), number, dtype=made.dtype)
    return torch.ops.aten.clone.default(made)


def _nested(data: Any, dtype: Any) -> torch.Tensor:
    from .control import as_tensor

    rec = active()
    if isinstance(data, (list, tuple)):
        return torch.stack([_nested(d, dtype) for d in data])
    return as_tensor(rec, data, dtype)  # type: ignore[arg-type]


SPECIALS: dict[Any, Any] = {torch.stack: stack, torch.cat: cat, torch.concat: cat, torch.tensor: tensor, torch.as_tensor: tensor}
