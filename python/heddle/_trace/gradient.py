"""Gradients of a `@heddle.function`: the function once more, as plain Python under autograd.

Python reads weights where they are; a mode of this thread gives PyTorch the leaves of the gradient in their place, under all of their
names. Other threads see nothing of it, and hooks of the weights do not run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from .graph import unsupported

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

    entry.check_mode()
    operands, count = [*args, *weights], len(args)
    held = [*entry.used_now(), *entry.others]
    with _autograd(), torch.enable_grad(), eager(), entry.autocast(), ExitStack() as stack:
        leaves = [t.detach().requires_grad_(i in wanted) for i, t in enumerate(operands)]
        replaced = any(t.data_ptr() != w.data_ptr() for t, w in zip(held, weights))
        if replaced:
            # Weights of `torch.func.functional_call`, which replaces those of the module as well.
            stack.enter_context(_lock)
            for module, names in entry.placed(leaves[count:]):
                stack.enter_context(torch.nn.utils.stateless._reparametrize_module(module, names, tie_weights=True))
        places = _Places(held, leaves[count:])
        with places:
            value = entry.plain(leaves[:count])
        results = [places.of(t) for t in entry.results_of(value)]
        pairs = [(results[i], grad) for i, grad in zip(given, grads) if results[i].requires_grad]
        if not pairs or not wanted:
            return [torch.zeros_like(operands[i]) for i in wanted]
        # Tensors that reached autograd by a way that no mode sees.
        missed = [t for t in held if t.requires_grad]
        asked = [*(leaves[i] for i in wanted), *missed]
        found = torch.autograd.grad([r for r, _ in pairs], asked, [g.to(r.dtype) for r, g in pairs], allow_unused=True)
    made = dict(zip(wanted, found))
    for tensor, grad in zip(missed, found[len(wanted) :]):
        if grad is not None:
            _check_missed(entry, tensor, replaced)
            position = count + next(i for i, t in enumerate(held) if t is tensor)
            if position in made:
                made[position] = grad if made[position] is None else made[position] + grad
    return [torch.zeros_like(operands[i]) if grad is None else _own(grad, operands, grads) for i, grad in made.items()]


def _check_missed(entry: Entry, tensor: torch.Tensor, replaced: bool) -> None:
    """Refuses a gradient that came by way of a weight itself where it would not be the one of the forward pass, or count twice."""
    if replaced or not tensor.is_leaf or tensor._backward_hooks:
        raise unsupported(
            f"{entry.function.__qualname__} gives a weight to a torch.autograd.Function or to code in C++, and the weight"
            f" {'is replaced in the call' if replaced else 'has hooks' if tensor.is_leaf else 'follows from another one'}",
            entry.place, "give it as an argument",
        )


class _Places(TorchFunctionMode):
    """Tensors that take the place of others in what a thread asks of PyTorch."""

    def __init__(self, others: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._made: dict[int, torch.Tensor] = {}
        for other, tensor in zip(others, tensors):
            self._made.setdefault(id(other), tensor)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*self.of(args), **self.of(kwargs or {}))

    def of(self, value: Any) -> Any:
        """A value, in which tensors are those that take their place."""
        if isinstance(value, torch.Tensor):
            return self._made.get(id(value), value)
        if type(value) in (list, tuple):
            return type(value)([self.of(part) for part in value])
        if type(value) is dict:
            return {key: self.of(part) for key, part in value.items()}
        return value


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
