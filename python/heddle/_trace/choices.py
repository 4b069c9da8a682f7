"""Elements of lists of Python at an index that only the run knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .checks import checked
from .graph import unsupported
from .record import Recorder


class Choice:
    """A function or module among several. A call of it calls the one that the run chooses."""

    def __init__(self, rec: Recorder, functions: list[Any], index: torch.Tensor) -> None:
        self._rec, self._functions, self._index = rec, functions, index

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .convert import converted_call

        return _choose(self._rec, self._index, [lambda f=f: converted_call(f, args, kwargs) for f in self._functions])


def element(rec: Recorder, values: list[Any], key: torch.Tensor) -> Any:
    """`values[key]`. Tensors of one shape are stacked, others chosen by branches."""
    from . import control, index

    place = rec.place()
    if not values:
        raise unsupported("an element of a list that is empty", place)
    if key.dim() or key.dtype.is_floating_point or key.dtype == torch.bool:
        raise unsupported(f"a list is read at {control.describe(key)}", place, "an index is an integer without axes")
    if all(isinstance(v, (torch.Tensor, int, float)) and not isinstance(v, bool) for v in values):
        tensors = [control.as_tensor(rec, v) for v in values]
        first = tensors[0]
        if all(t.dtype == first.dtype and rec.is_weak(t) == rec.is_weak(first) and _same_shape(t, first) for t in tensors):
            made = index.row(torch.stack(tensors), key)
            return rec.set_weak(made) if rec.is_weak(first) else made
    inside = torch.logical_and(key >= -len(values), key < len(values))
    (key,) = checked(rec, inside, f"list index out of range: the list has {len(values)} elements", [key], place)
    key = torch.where(key < 0, key + len(values), key)
    if all(callable(v) and not isinstance(v, torch.Tensor) for v in values):
        return Choice(rec, values, key)
    for value in values:
        for leaf in pytree.tree_leaves(value):
            if not isinstance(leaf, (torch.Tensor, bool, int, float)):
                raise unsupported(f"a list with a {type(leaf).__name__} is read at an index that only the run knows", place)
    return _choose(rec, key, [lambda v=v: v for v in values])


def _same_shape(a: torch.Tensor, b: torch.Tensor) -> bool:
    from .control import same_size

    return a.dim() == b.dim() and all(map(same_size, a.shape, b.shape))


def _choose(rec: Recorder, index: torch.Tensor, values: list[Callable[[], Any]], first: int = 0) -> Any:
    """The value of an index, searched by halves. The first of `values` has the number `first`."""
    from .control import branch_on

    if len(values) == 1:
        return values[0]()
    half = len(values) // 2
    arms = [
        lambda: [_choose(rec, index, values[:half], first)],
        lambda: [_choose(rec, index, values[half:], first + half)],
    ]
    return branch_on(rec, index < first + half, arms, ["list[i]"])[0]
