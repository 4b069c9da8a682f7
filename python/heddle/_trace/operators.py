"""One operator of PyTorch for each `@heddle.function`, so that `torch.compile`, `torch.export` and autograd keep a call of it as one node.

The operator takes the key of an entry, whether a gradient is wanted, the tensors among the arguments, and the weights that the function
reads. Its forward pass is a program. Its backward pass is an operator as well: it runs the function once more as plain Python under
autograd, whatever its branches and loops are, and takes the gradient there."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import _pytree as pytree

from . import graph
from .gradient import gradient

if TYPE_CHECKING:
    from .entry import Entry
    from .function import Function

#: Namespaces of the operators of functions and of their gradients.
FORWARD, BACKWARD = "heddle_function", "heddle_gradient"

_entries: dict[str, Entry] = {}
_names = itertools.count()
_held: dict[str, Any] = {}
_TOKEN = "\0heddle "
_lock = threading.Lock()


def add(entry: Entry) -> str:
    """Gives an entry a key, by which operators find it."""
    with _lock:
        key = f"{entry.function.__qualname__}#{len(_entries)}"
        _entries[key] = entry
    return key


def entry_of(key: str) -> Entry:
    """The entry of an operator's key."""
    found = _entries.get(key)
    if found is None:
        raise graph.unsupported(f"{key!r} is a @heddle.function of another process", None, "export the module again")
    return found


# Operators


def define(function: Function) -> Any:
    """The operator of a function."""
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', function.__name__)}_{next(_names)}"

    @torch.library.custom_op(f"{FORWARD}::{name}", mutates_args=(), schema="(str key, bool grad, Tensor[] args, Tensor[] weights) -> Tensor[]")
    def forward(key: str, grad: bool, args: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return entry_of(key).forward(grad, args, weights)

    @forward.register_fake
    def _(key: str, grad: bool, args: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        return entry_of(key).results_like(args)

    schema = "(str key, int[] wanted, int[] given, Tensor[] args, Tensor[] weights, Tensor[] grads) -> Tensor[]"

    @torch.library.custom_op(f"{BACKWARD}::{name}", mutates_args=(), schema=schema)
    def backward(
        key: str, wanted: list[int], given: list[int], args: list[torch.Tensor], weights: list[torch.Tensor], grads: list[torch.Tensor],
    ) -> list[torch.Tensor]:
        return gradient(entry_of(key), wanted, given, args, weights, grads)

    @backward.register_fake
    def _(
        key: str, wanted: list[int], given: list[int], args: list[torch.Tensor], weights: list[torch.Tensor], grads: list[torch.Tensor],
    ) -> list[torch.Tensor]:
        operands = [*args, *weights]
        return [torch.empty_like(operands[i]) for i in wanted]

    backward_op = getattr(getattr(torch.ops, BACKWARD), name)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.key, _, args, weights = inputs
        ctx.count = len(args)
        ctx.save_for_backward(*args, *weights)

    def differentiate(ctx: Any, grads: Sequence[torch.Tensor | None]) -> Any:
        saved = list(ctx.saved_tensors)
        needs = [*ctx.needs_input_grad[2], *ctx.needs_input_grad[3]]
        wanted = [i for i, needed in enumerate(needs) if needed]
        given = [i for i, grad in enumerate(grads) if grad is not None]
        found = backward_op(ctx.key, wanted, given, saved[: ctx.count], saved[ctx.count :], [grads[i] for i in given])
        made: list[Any] = [None] * len(saved)
        for i, grad in zip(wanted, found):
            made[i] = grad
        return None, None, made[: ctx.count], made[ctx.count :]

    forward.register_autograd(differentiate, setup_context=setup)
    return getattr(getattr(torch.ops, FORWARD), name)


# Calls while another tracer runs


def is_foreign(value: Any) -> bool:
    """Whether a tensor is one of another tracer, such as those of `torch.export`."""
    return isinstance(value, (FakeTensor, FunctionalTensor))


def weights_of(owner: Any, flat: Sequence[Any]) -> list[torch.Tensor]:
    """Parameters and buffers of the object that a function is a method of, and of modules among its arguments."""
    modules = [m for m in (owner, *flat) if isinstance(m, torch.nn.Module)]
    return [t for module in modules for t in (*module.parameters(), *module.buffers())]


def in_graph(function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that Dynamo traces: this runs in Dynamo, up to the call of `node`, which stays one node of its graph."""
    weights = [] if not isinstance(owner, torch.nn.Module) else [*owner.parameters(), *owner.buffers()]

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            weights.extend([*leaf.parameters(), *leaf.buffers()])
            return token(leaf) + ""
        if leaf is None or isinstance(leaf, (torch.Tensor, int, float, bool, str)):
            return leaf
        return token(leaf) + ""

    # Dynamo is there now; importing it takes seconds.
    from .node import node

    args, kwargs = pytree.tree_map(plain, (args, kwargs))
    return node(token(function) + "", token(owner) + "", weights, args, kwargs)


def token(value: Any) -> str:
    """A text that stands for an object of Python where Dynamo wants plain arguments."""
    with _lock:
        # What is held has an identity of its own.
        made = f"{_TOKEN}{id(value)}"
        _held[made] = value
    return made


# As `torch._dynamo.assume_constant_result` marks it.
token._dynamo_marked_constant = True  # type: ignore[attr-defined]


def object_of(leaf: Any) -> Any:
    """What a token stands for; anything else itself."""
    return _held[leaf] if isinstance(leaf, str) and leaf.startswith(_TOKEN) else leaf


def node_call(function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], weights: Sequence[torch.Tensor]) -> Any:
    """A call of a function's operator on tensors of another tracer."""
    entry = function.entry(owner, args, kwargs)
    flat = pytree.tree_leaves((args, kwargs))
    used = [weights[i] for i in entry.used]
    tensors = entry.operands(flat)
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *used))
    if torch.is_grad_enabled():
        entry.check_differentiable(grad, seen_only=True)
    return entry.finish(flat, function.operator(entry.key, grad, tensors, used))
