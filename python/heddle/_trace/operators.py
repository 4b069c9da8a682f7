"""One operator of PyTorch for each `@heddle.function`, so that `torch.compile`, `torch.export` and autograd keep a call of it as one node.

The operator takes the key of an entry, whether a gradient is wanted, the tensors among the arguments, and the weights that the function
reads. Its forward pass is a program. Its backward pass is an operator as well: it runs the function once more as plain Python under
autograd, whatever its branches and loops are, and takes the gradient there."""

from __future__ import annotations

import functools
import itertools
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from . import graph
from .gradient import gradient

if TYPE_CHECKING:
    from .entry import Entry
    from .function import Function

#: Namespaces of the operators of functions and of their gradients.
FORWARD, BACKWARD = "heddle_function", "heddle_gradient"

#: Entries by their keys. Graphs of other tracers know only the key, so that an entry that is in one is held for good.
_entries: weakref.WeakValueDictionary[str, Entry] = weakref.WeakValueDictionary()
_in_graphs: dict[str, Entry] = {}
#: Objects by their tokens, as long as others hold them, and tokens by the objects' identities.
_held: dict[str, Callable[[], Any]] = {}
_tokens: dict[int, str] = {}
_numbers = itertools.count()
_TOKEN = "\0heddle "
_lock = threading.Lock()


def add(entry: Entry) -> str:
    """Gives an entry a key, by which operators find it. No other process has the same: programs of `torch.export` are loaded elsewhere."""
    key = f"{entry.function.__qualname__}#{uuid.uuid4().hex}"
    _entries[key] = entry
    return key


def entry_of(key: str) -> Entry:
    """The entry of an operator's key."""
    found = _entries.get(key)
    if found is None:
        raise graph.unsupported(f"{key!r} is a @heddle.function of another process, or is no longer there", None, "export the module again")
    return found


# Operators


def define(name: str) -> Any:
    """The operator of functions of a name. PyTorch holds operators for good, so that functions share one."""
    with _lock:
        return _define(re.sub(r"[^0-9A-Za-z_]", "_", name))


@functools.cache
def _define(name: str) -> Any:

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
        # The entry lives as long as the graph of autograd.
        ctx.entry = entry_of(ctx.key)
        ctx.versions = ctx.entry.versions()

    def differentiate(ctx: Any, grads: Sequence[torch.Tensor | None]) -> Any:
        saved = list(ctx.saved_tensors)
        ctx.entry.check_unchanged(ctx.versions)
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


def in_graph(function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that Dynamo traces: this runs in Dynamo, up to the call of `node`, which stays one node of its graph."""
    weights: list[torch.Tensor] = []

    def read(module: torch.nn.Module) -> None:
        weights.extend([*module.parameters(), *module.buffers()])
        for part in module.modules():
            # Dynamo compiles anew where what a branch reads changes.
            if part.training:
                continue

    if isinstance(owner, torch.nn.Module):
        read(owner)

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            read(leaf)
            return token(leaf) + ""
        if leaf is None or isinstance(leaf, (torch.Tensor, int, float, bool, str)):
            return leaf
        return token(leaf) + ""

    # Dynamo is there now; importing it takes seconds.
    from .node import node

    args, kwargs = pytree.tree_map(plain, (args, kwargs))
    return node(token(function) + "", token(owner) + "", weights, args, kwargs)


def _nothing() -> None:
    return None


def token(value: Any) -> str:
    """A text that stands for an object of Python where Dynamo wants plain arguments."""
    with _lock:
        made = _tokens.get(id(value))
        if made is None or _held.get(made, _nothing)() is not value:
            made = _tokens[id(value)] = f"{_TOKEN}{next(_numbers)}"
            try:
                _held[made] = weakref.ref(value, functools.partial(_forget, made, id(value)))
            except TypeError:
                # Of a type without weak references: it is held for good.
                _held[made] = lambda: value
    return made


def _forget(made: str, identity: int, _: Any) -> None:
    """Drops the token of an object that is no longer there. The garbage collector may run this anywhere: it takes no lock."""
    _held.pop(made, None)
    if _tokens.get(identity) == made:
        _tokens.pop(identity, None)


# As `torch._dynamo.assume_constant_result` marks it.
token._dynamo_marked_constant = True  # type: ignore[attr-defined]


def object_of(leaf: Any) -> Any:
    """The object that a token stands for; anything else itself."""
    if not isinstance(leaf, str) or not leaf.startswith(_TOKEN):
        return leaf
    found = _held.get(leaf, _nothing)()
    if found is None and leaf != token(None):
        raise graph.unsupported("a graph calls a @heddle.function of an object that is no longer there", None, "keep the module that was compiled")
    return found


def node_call(function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], weights: Sequence[torch.Tensor]) -> Any:
    """A call of a function's operator on tensors of another tracer."""
    entry = function.entry(owner, args, kwargs)
    _in_graphs[entry.key] = entry
    flat = pytree.tree_leaves((args, kwargs))
    used = [weights[i] for i in entry.used]
    tensors = entry.operands(flat)
    entry.check_memory(flat, used)
    grad = torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *used))
    if torch.is_grad_enabled():
        entry.check_differentiable(grad, seen_only=True)
    return entry.finish(flat, function.operator(entry.key, grad, tensors, used))
