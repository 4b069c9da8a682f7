"""Gradients of a `@heddle.function`: the function once more, as plain Python under autograd."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from .. import _errors

if TYPE_CHECKING:
    from .entry import Entry

# Weights of modules are replaced for a moment, by one thread at a time.
_lock = threading.RLock()


def gradient(
    entry: Entry, wanted: Sequence[int], given: Sequence[int], args: Sequence[torch.Tensor], weights: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Gradients of the operands `wanted`, arguments and then weights, for those of the results `given`."""
    from .function import eager

    operands = [*args, *weights]
    with _autograd(), torch.enable_grad(), eager(), _lock, ExitStack() as stack:
        leaves = [t.detach().requires_grad_(i in wanted) for i, t in enumerate(operands)]
        held = list(leaves)
        for module, names in entry.placed(leaves[len(args) :]):
            stack.enter_context(torch.nn.utils.stateless._reparametrize_module(module, names))
        for i, tensor in entry.outer(len(args)):
            # A tensor that Python reads where it is: its own gradient is asked for.
            held[i] = tensor
        results = entry.results_of(entry.plain(leaves[: len(args)]))
        pairs = [(results[i], grad) for i, grad in zip(given, grads) if results[i].requires_grad]
        asked = [held[i] for i in wanted]
        found: Any = [None] * len(asked)
        if pairs and asked:
            found = torch.autograd.grad([r for r, _ in pairs], asked, [g.to(r.dtype) for r, g in pairs], allow_unused=True)
    return [torch.zeros_like(t) if g is None else _own(g, operands, grads) for g, t in zip(found, asked)]


def _own(grad: torch.Tensor, *others: Sequence[torch.Tensor]) -> torch.Tensor:
    """A gradient that shares no memory with what an operator is given, and is dense."""
    made = grad.detach()
    shared = any(made.data_ptr() == t.data_ptr() for part in others for t in part)
    return made.clone(memory_format=torch.contiguous_format) if shared or not made.is_contiguous() else made


@contextmanager
def _autograd() -> Iterator[None]:
    """Autograd as it is outside of an operator."""
    exclude = torch._C._dispatch_tls_local_exclude_set()
    for name in ("AutogradCPU", "AutogradOther", "ADInplaceOrView", "AutogradFunctionality"):
        exclude = exclude.remove(getattr(torch._C.DispatchKey, name))
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), exclude):
        yield


def refused(message: str, hint: str) -> _errors.Unsupported:
    """The error for a gradient that can't be had."""
    error = _errors.Unsupported(message)
    error.hint = hint
    return error
