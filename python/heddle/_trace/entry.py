"""A `@heddle.function` for one signature: what it is recorded as, its programs, and its results."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .. import _errors
from . import operators
from .gradient import refused
from .program import Trace, TracedProgram, compile_trace

if TYPE_CHECKING:
    from .function import Function

# Programs that keep weights as constants are compiled anew this often when weights change; then weights become inputs.
_CHANGES = 2


class Entry:
    """One signature of a function. Weights are constants of its programs, which are fast, or inputs, if they change or ask for gradients."""

    def __init__(self, function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from .function import outline

        self.function, self.owner = function, owner
        self.example, self.spec = pytree.tree_flatten(pytree.tree_map(outline, (args, kwargs)))
        self._lock = threading.RLock()
        self._changes = 0
        self._begin()
        self.key = operators.add(self)

    def _begin(self) -> None:
        self._traces: dict[bool, Trace] = {}
        self._shape: Trace
        self._programs: dict[bool, TracedProgram] = {}
        weights = self._now()
        first = self.trace(torch.is_grad_enabled() and any(t.requires_grad for t in weights))
        self._ids, self._kinds = [id(t) for t in weights], [_kind(t) for t in weights]
        #: Positions of the weights that it reads, and tensors that it reads elsewhere and that ask for gradients.
        read, known = {id(t) for t in first.read}, set(self._ids)
        self.used = [i for i, t in enumerate(weights) if id(t) in read]
        self.others = [t for t in first.read if id(t) not in known and t.requires_grad]

    def refresh(self) -> None:
        """Sees weights that were replaced by other tensors."""
        weights = self._now()
        ids = [id(t) for t in weights]
        if ids == self._ids or _in_tracer(weights):
            return
        with self._lock:
            if [_kind(t) for t in weights] != self._kinds:
                self._begin()
            else:
                # With weights as inputs it is right as it is.
                self._ids = ids
                self._traces.pop(False, None)
                self._programs.pop(False, None)
                self._changes += 1

    # Recordings

    def trace(self, lifted: bool) -> Trace:
        """The recording, with weights as inputs or as constants."""
        from .function import record

        with self._lock:
            found = self._traces.get(lifted)
            if found is None and self._traces and not self._shape.read:
                # There are no constants: both are the same.
                found = self._traces[lifted] = self._shape
            if found is None or (found.is_foreign and not _in_tracer(self._now())):
                args, kwargs = pytree.tree_unflatten(self.example, self.spec)
                lifts = {id(t) for t in self._now()} if lifted else set()
                found = record(
                    self.function, self.owner, args, kwargs, lifts=lambda t: lifted and (id(t) in lifts or t.requires_grad),
                )
                self._traces[lifted] = self._shape = found
        return found

    @property
    def outline(self) -> Trace:
        """A recording, for what all have in common."""
        return self._shape

    @property
    def order(self) -> list[int]:
        """Positions among the operator's weights of those that are inputs of the recording."""
        trace = self.trace(True)
        if trace.order is None:
            found = {id(t): i for i, t in enumerate([*self.used_now(), *self.others])}
            trace.order = [found[id(t)] for t in trace.lifted]
        return trace.order

    def _now(self) -> list[torch.Tensor]:
        return operators.weights_of(self.owner, self.example)

    def fits(self, flat: Sequence[Any]) -> bool:
        """Whether it is right for arguments of its signature: their sizes."""
        guards = self.outline.guards
        return guards is None or guards(flat)

    def results_like(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Empty tensors of the types and shapes of results, for arguments of another tracer."""
        trace, named = self.outline, {}
        for name, (position, axis) in trace.sizes.items():
            named[name] = args[position].shape[axis]
        context = None
        made = []
        for dtype, shape in trace.types:
            sizes = []
            for size in shape:
                if isinstance(size, str):
                    for name in trace.opened:
                        if name in size and name not in named:
                            context = context or torch.library.get_ctx()
                            named[name] = context.new_dynamic_size()
                    size = eval(size, {"math": math, **named})
                sizes.append(size)
            made.append(torch.empty(sizes, dtype=dtype))
        return made

    # Calls

    def operands(self, flat: Sequence[Any]) -> list[Any]:
        """The tensors among the leaves of arguments."""
        return [leaf for leaf in flat if isinstance(leaf, (torch.Tensor, np.ndarray))]

    def __call__(self, flat: Sequence[Any]) -> Any:
        """A call on arrays."""
        self.refresh()
        operands = self.operands(flat)
        if torch.is_grad_enabled() and not any(isinstance(o, np.ndarray) for o in operands):
            used = [*self.used_now(), *self.others]
            if any(t.requires_grad for t in (*operands, *used)):
                self.check_differentiable(True)
                return self.finish(flat, self.function.operator(self.key, True, operands, used))
        self.outline.check_memory(flat)
        program, weights = self._program()
        return self.finish(flat, program.on(operands, weights))

    def finish(self, flat: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The result of a call, of the operator's results."""
        trace = self.outline
        if trace.lists and any(operators.is_foreign(o) for o in outputs):
            raise refused(f"{self.function.__qualname__} gives a list whose length only the run knows", "return torch.stack(x)")
        return trace.results(list(flat), outputs)

    def forward(self, grad: bool, args: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the operator gives."""
        # Other weights than the object's own are those of `torch.func.functional_call`, and the like.
        lifted = grad or any(w.data_ptr() != t.data_ptr() for w, t in zip(weights, self.used_now()))
        program, inputs = self._program(lifted)
        if inputs:
            inputs = [weights[i] if i < len(weights) else self.others[i - len(self.used)] for i in self.order]
        outputs = program.on([a.detach() for a in args], [t.detach() for t in inputs])
        given = {t.data_ptr() for t in (*args, *weights)}
        return [o.clone() if o.data_ptr() in given else o for o in outputs]

    def program(self) -> TracedProgram:
        """The program with weights as constants."""
        with self._lock:
            self._drop_stale()
            found = self._programs.get(False)
            if found is None:
                found = self._programs[False] = compile_trace(self.trace(False), self.function.options)
            return found

    def _drop_stale(self) -> None:
        """Drops the program whose constants are no longer what they were."""
        found = self._programs.get(False)
        if found is not None and not found.is_current():
            self._changes += 1
            del self._programs[False]

    def _program(self, lifted: bool = False) -> tuple[TracedProgram, list[torch.Tensor]]:
        """A program, and the weights that are inputs of it."""
        with self._lock:
            self._drop_stale()
            if not self._shape.read or not lifted and self._changes < _CHANGES:
                return self.program(), []
            made = self._programs.get(True)
            if made is None:
                made = self._programs[True] = compile_trace(self.trace(True), self.function.options)
        return made, [([*self.used_now(), *self.others])[i] for i in self.order]

    def used_now(self) -> list[torch.Tensor]:
        """The weights that it reads, as they are now."""
        weights = self._now()
        return [weights[i] for i in self.used]

    # Gradients

    def check_differentiable(self, wanted: bool, seen_only: bool = False) -> None:
        """Refuses gradients that would be wrong."""
        trace, name = self.outline, self.function.__qualname__
        if seen_only and self.others:
            raise refused(
                f"{name} reads a tensor that asks for its gradient, and that torch.compile does not see",
                "make it a method of the module, or give the module as an argument",
            )
        if wanted and any(kind == "input" for kind, _ in trace.goes):
            raise refused(f"{name} changes an argument in place, and its gradient is asked for", "x = x.clone() in front, and return x")
        if wanted and trace.random is not None:
            error = refused(f"{trace.random}: {name} draws random numbers, which its gradient would draw again", "draw them in front, and give them")
            error.place = str(trace.random)
            raise error

    def placed(self, weights: Sequence[torch.Tensor]) -> Iterator[tuple[torch.nn.Module, dict[str, torch.Tensor]]]:
        """Modules with the tensors that take the place of their weights."""
        given = dict(zip(self.used, weights))
        position = 0
        for module in (self.owner, *self.example):
            if not isinstance(module, torch.nn.Module):
                continue
            names = [n for n, _ in module.named_parameters()] + [n for n, _ in module.named_buffers()]
            found = {name: given[position + i] for i, name in enumerate(names) if position + i in given}
            position += len(names)
            yield module, found

    def outer(self, count: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Tensors that Python reads elsewhere, with their positions among the operands."""
        return ((count + len(self.used) + i, t) for i, t in enumerate(self.others))

    def plain(self, args: Sequence[torch.Tensor]) -> Any:
        """The result of the function as plain Python."""
        given = iter(args)
        flat = [next(given) if _is_array(leaf) else leaf for leaf in self.example]
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return self.function.function(*(() if self.owner is None else (self.owner,)), *args, **kwargs)

    def results_of(self, value: Any) -> list[torch.Tensor]:
        """The tensors of a result of Python, in the order of the operator's results."""
        trace, leaves = self.outline, pytree.tree_leaves(value)
        found = [leaves[i] for kind, i in trace.goes if kind == "result"] if len(leaves) == trace.gives.num_leaves else []
        if len(found) != len(trace.goes):
            raise _errors.InternalError(f"{self.function.__qualname__} gives another structure in Python than compiled")
        return [torch.as_tensor(t) for t in found]


def _kind(tensor: torch.Tensor) -> Any:
    return tensor.dtype, tuple(tensor.shape)


def _is_array(leaf: Any) -> bool:
    from .function import Outline

    return isinstance(leaf, Outline)


def _in_tracer(weights: Sequence[torch.Tensor]) -> bool:
    return any(operators.is_foreign(t) for t in weights)

