"""Functional forms of changes in place, and how a change of a view changes what it is a view of."""

from __future__ import annotations

from typing import Any

import torch

from .graph import Place, unsupported

aten = torch.ops.aten


def is_view(func: Any) -> bool:
    """Whether an operator's result shares the memory of its first argument."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns) or func in (
        aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints,
    )


def functional(func: Any, args: Any, kwargs: Any, place: Place | None) -> torch.Tensor:
    """The value that a change in place gives its first argument."""
    target = args[0]
    name = func._schema.name.removeprefix("aten::")
    if name == "copy_":
        return aten._to_copy.default(args[1], dtype=target.dtype).expand(target.shape)
    if name == "fill_":
        if isinstance(args[1], torch.Tensor):
            return aten._to_copy.default(args[1], dtype=target.dtype).expand(target.shape)
        return torch.full(target.shape, args[1], dtype=target.dtype)
    if name == "zero_":
        return torch.full(target.shape, 0, dtype=target.dtype)
    # `__iand__` is the form in place of `__and__`.
    plain = name.replace("__i", "__", 1) if name.startswith("__i") else name.removesuffix("_")
    packet = getattr(aten, plain, None)
    overload = func._overloadname
    if packet is None or plain == name or overload not in packet.overloads():
        raise unsupported(f"{func} has no form that leaves its argument as it is", place)
    made = getattr(packet, overload)(*args, **kwargs)
    return made if isinstance(made, torch.Tensor) else made[0]


def write_back(func: Any, parent: torch.Tensor, made: torch.Tensor, args: Any, kwargs: Any, place: Place | None) -> torch.Tensor:
    """The value of `parent` once its view, `func(parent, …)`, is `made`."""
    name = func._schema.name.removeprefix("aten::")
    if name in ("alias", "detach"):
        return made
    if name == "diagonal":
        return aten.diagonal_scatter.default(parent, made, *args, **kwargs)
    if name == "select":
        return aten.select_scatter.default(parent, made, *args, **kwargs)
    if name == "slice":
        return aten.slice_scatter.default(parent, made, *args, **kwargs)
    if name == "index":
        return aten.index_put.default(parent, args[0], made)
    if name in ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten"):
        return made.reshape(parent.shape)
    if name in ("t", "transpose"):
        return made.t() if name == "t" else made.transpose(*args)
    if name in ("swapaxes", "swapdims"):
        return made.transpose(*args)
    if name == "permute":
        order = [d % len(args[0]) for d in args[0]]
        return made.permute([order.index(d) for d in range(len(order))])
    raise unsupported(f"a change in place of what {func} gives", place, "write x = x + y for x += y")
