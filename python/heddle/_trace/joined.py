"""Lists that the arms of a branch leave with different lengths: behind the branch they are one tensor with a row for each element."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import control, lists
from .record import Recorder


def join_lists(rec: Recorder, pair: list[Any]) -> control._Tree | None:
    """A variable that is such a list after either arm; None if the elements are not of one type and rank."""
    if not all(isinstance(value, (list, lists.Grown)) for value in pair):
        return None
    types: set[Any] = set()
    shapes: list[Any] = []
    weak = True
    for value in pair:
        for row in value if isinstance(value, list) else [value.data]:
            is_tensor = isinstance(row, torch.Tensor)
            types.add(row.dtype if is_tensor else control.number_type(row))
            shapes.append(row.shape[1:] if row is getattr(value, "data", None) else row.shape if is_tensor else ())
            weak = weak and control._weak(rec, row)
    if len(types) != 1 or None in types or len({len(shape) for shape in shapes}) != 1:
        return None
    sizes = [
        first if control._outer(rec, first) and all(control.same_size(first, size) for size in others) else None
        for first, *others in zip(*shapes)
    ]
    return control._Tree([_Rows(pair, types.pop(), [None, *sizes], weak)], pytree.tree_structure(lists.Grown(0)))  # type: ignore[arg-type]


class _Rows(control._Joined):
    """The elements, stacked."""

    def made(self, rec: Recorder, part: Any) -> torch.Tensor:
        if isinstance(part, lists.Grown):
            return part.data
        if not part:
            return torch.full([0 if size is None else size for size in self.sizes], 0, dtype=self.dtype)
        return lists.grown(part, None).data
