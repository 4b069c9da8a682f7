"""Reads and writes of elements, whose indices may be tensors without axes or sizes that only the run knows."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import choices
from .graph import unsupported
from .lists import Grown
from .record import Recorder, active

aten = torch.ops.aten


def get_item(target: Any, key: Any) -> Any:
    """`target[key]`."""
    rec = active()
    if isinstance(target, Grown):
        target = target.data
    if rec is None or not isinstance(target, torch.Tensor):
        if rec is not None and isinstance(key, torch.Tensor) and isinstance(target, (list, tuple, torch.nn.ModuleList)):
            return choices.element(rec, list(target), key)
        return target[key]
    key = _clean(rec, key)
    if _is_index(key):
        return row(target, key)
    return view(rec, target, key) if _is_dynamic(key) else target[key]


def row(target: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """`target[key]` for an index that is a tensor without axes: a view, as in PyTorch."""
    made = aten.index.Tensor(target, [key])
    rec = active()
    if rec is not None:
        rec.is_view(made, target if isinstance(target, FakeTensor) else rec.held(target), (aten.index.Tensor, ([key],), {}))
    return made


def set_item(target: Any, key: Any, value: Any) -> Any:
    """The tensor that `target[key] = value` makes of `target`; another object than a tensor itself."""
    rec = active()
    if isinstance(target, Grown):
        return Grown(set_item(target.data, key, value))
    if rec is None or not isinstance(target, torch.Tensor):
        if rec is not None and isinstance(key, torch.Tensor) and isinstance(target, list):
            raise unsupported(
                "an element of a list is replaced at an index that only the run knows", rec.place(), "torch.stack makes a tensor of the list",
            )
        if rec is not None and rec.region.parent is not None and type(target) in (list, dict):
            target = target.copy()
        target[key] = value
        return target
    key = _clean(rec, key)
    if not isinstance(target, FakeTensor):
        raise unsupported("a constant is changed in place", rec.place(), "x = x.clone() in front")
    if not rec.is_own(target):
        made = target.clone()
        rec.replaced(target, made)
        target = made
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=target.dtype) if not isinstance(value, torch.SymInt) else aten.scalar_tensor.default(value)
    if _is_index(key):
        if value.dtype != target.dtype:
            value = value.to(target.dtype)
        aten.index_put_.default(target, [key], value)
    elif _is_dynamic(key):
        view(rec, target, key).copy_(value)
    else:
        target[key] = value
    return target


def _clean(rec: Recorder, key: Any) -> Any:
    """A key, in which slices have sizes for bounds that are tensors."""
    if isinstance(key, tuple):
        return tuple(_clean(rec, k) for k in key)
    if isinstance(key, slice):
        return slice(*(_size(rec, b) for b in (key.start, key.stop, key.step)))
    return key


def _size(rec: Recorder, bound: Any) -> Any:
    if isinstance(bound, torch.Tensor):
        return aten._local_scalar_dense.default(bound)
    return bound


def _is_index(key: Any) -> bool:
    return isinstance(key, torch.Tensor) and key.dim() == 0 and key.dtype != torch.bool


def _is_dynamic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return any(
        _is_index(k) or isinstance(k, torch.SymInt)
        or (isinstance(k, slice) and any(isinstance(b, torch.SymInt) for b in (k.start, k.stop)))
        for k in keys
    )


def view(rec: Recorder, target: torch.Tensor, key: Any) -> torch.Tensor:
    """`target[key]` as a view, for a key of numbers, slices, None and tensors without axes."""
    keys = list(key) if isinstance(key, tuple) else [key]
    axis = 0
    for position, k in enumerate(keys):
        if k is None:
            target = target.unsqueeze(axis)
            axis += 1
        elif k is Ellipsis:
            axis = target.dim() - sum(1 for later in keys[position + 1 :] if later is not None)
        elif isinstance(k, slice):
            if k.step not in (None, 1) and not isinstance(k.step, int):
                raise unsupported("a slice whose step only the run knows", rec.place())
            if (k.start, k.stop, k.step) != (None, None, None):
                target = aten.slice.Tensor(target, axis, k.start, k.stop, k.step or 1)
            axis += 1
        elif isinstance(k, (int, torch.SymInt)) and not isinstance(k, bool):
            target = aten.select.int(target, axis, k)
        elif _is_index(k):
            target = aten.select.int(target, axis, _size(rec, k))
        else:
            raise unsupported("an index that mixes arrays with numbers that only the run knows", rec.place())
    return target
