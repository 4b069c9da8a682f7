"""A `@heddle.function` for one signature: what it is recorded as, its programs, and its results."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .. import _errors
from . import graph, operators
from .program import CHANGES, Trace, TracedProgram, compile_trace
from .weights import Weights, is_foreign, modules_of

if TYPE_CHECKING:
    from .function import Function


class Settings(NamedTuple):
    """What PyTorch is told besides arguments: are gradients on, the type of autocast or None, and the type of new arrays."""

    grad: bool
    autocast: torch.dtype | None
    default: torch.dtype

    @staticmethod
    def now() -> Settings:
        autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        return Settings(torch.is_grad_enabled(), autocast, torch.get_default_dtype())


class Entry:
    """One signature of a function. Weights are constants of its programs, which are fast, or inputs, if they change or ask for gradients."""

    def __init__(self, function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> None:
        from .function import outline

        self.function, self.owner, self.settings = function, owner, settings
        self.example, self.spec = pytree.tree_flatten(pytree.tree_map(outline, (args, kwargs)))
        self._lock = threading.RLock()
        self._changes = 0
        self._traces: dict[bool, Trace] = {}
        self._programs: dict[bool, TracedProgram] = {}
        self._shape: Trace
        self.weights = Weights(modules_of(owner, self.example))
        self._tensors, self._modes, self._structure = self.weights.now(), self.weights.modes(), self.weights.structure()
        # Weights whose types and shapes were compared.
        self._seen = self._tensors
        # Where gradients are on, weights that ask for them are inputs.
        lifted = settings.grad and any(t.requires_grad for t in self._tensors)
        first = self._record(lifted)
        places: dict[int, int] = {}
        for i, tensor in enumerate(self._tensors):
            places.setdefault(id(tensor), i)
        #: Positions of the weights that it reads, each tensor once, and tensors that it reads elsewhere and that ask for gradients.
        self.used = sorted({places[id(t)] for t in first.read if id(t) in places})
        self._kinds = [(self._tensors[i].dtype, self._tensors[i].shape) for i in self.used]
        self._outside = [t for t in first.read if id(t) not in places]
        self._asking = [(t, t.requires_grad) for t in self._outside if t.is_floating_point() or t.is_complex()]
        self.others = [t for t, asks in self._asking if asks]
        self._add(lifted, first)
        self.key = operators.add(self)

    def is_outdated(self) -> bool:
        """Are modules, hooks, or types or shapes of weights others, or ask other tensors for gradients, than when it was recorded?"""
        now, structure = self.weights.now(), self.weights.structure()
        if structure[0] is self._structure[0] and now is self._seen:
            return any(t.requires_grad != asks for t, asks in self._asking)
        if structure != self._structure or len(now) != len(self._tensors):
            return True
        if any((now[i].dtype, now[i].shape) != kind for i, kind in zip(self.used, self._kinds)):
            return True
        self._structure, self._seen = structure, now
        return any(t.requires_grad != asks for t, asks in self._asking)

    def matches(self, flat: Sequence[Any]) -> bool:
        """Is it right for arguments of its signature, with their sizes, and with modules in their mode? It is not outdated."""
        guards = self._shape.guards
        return (guards is None or guards(flat)) and self._modes == self.weights.modes()

    def refresh(self, now: list[torch.Tensor]) -> list[torch.Tensor]:
        """Sees weights that were replaced by other tensors. Gives those that it reads, of all as they are now."""
        before = self._tensors
        used = [now[i] for i in self.used]
        if now is not before and not self.weights.is_foreign():
            with self._lock:
                before, self._tensors = self._tensors, now
                if any(before[i] is not tensor for i, tensor in zip(self.used, used)):
                    # With weights as inputs it is right as it is.
                    self._traces.pop(False, None)
                    self._programs.pop(False, None)
                    self._changes += 1
        return used

    # Recordings

    def trace(self, lifted: bool) -> Trace:
        """The recording, with weights as inputs or as constants."""
        with self._lock:
            found = self._traces.get(lifted)
            if found is None and self._traces and not self._shape.read:
                # There are no constants: both are the same.
                found = self._traces[lifted] = self._shape
            if found is None or (found.is_foreign and not any(map(is_foreign, self.weights.now()))):
                found = self._add(lifted, self._record(lifted))
        return found

    def _record(self, lifted: bool) -> Trace:
        from .function import record

        args, kwargs = pytree.tree_unflatten(self.example, self.spec)
        lifts = {id(t) for t in self.weights.now()} if lifted else set()
        with torch.set_grad_enabled(self.settings.grad), self.autocast():
            return record(self.function, self.owner, args, kwargs, lifts=lambda t: lifted and (id(t) in lifts or t.requires_grad))

    def _add(self, lifted: bool, trace: Trace) -> Trace:
        """Takes a recording, with the positions of its inputs among the weights that an operator has."""
        places = {id(t): i for i, t in enumerate([*self.used_now(), *self.others])}
        if any(id(t) not in places for t in trace.lifted):
            raise graph.unsupported(
                f"{self.function.__qualname__} reads other weights than at its first call", self.place,
                "weights that an attribute chooses are seen when a function is traced; choose by an argument",
            )
        trace.order = [places[id(t)] for t in trace.lifted]
        self._traces[lifted] = self._shape = trace
        return trace

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Autocast as it was where the function was called."""
        with torch.autocast("cpu", dtype=self.settings.autocast, enabled=self.settings.autocast is not None):
            yield

    @property
    def place(self) -> graph.Place:
        """The function's line."""
        from .calls import place_of_def

        return place_of_def(self.function)

    def results_like(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Empty tensors of the types and shapes of results, for arguments of another tracer."""
        trace, named = self._shape, {}
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
        used = self.refresh(self.weights.tensors)
        operands = self.operands(flat)
        tensors = [o for o in operands if isinstance(o, torch.Tensor)]
        # Where only arrays of NumPy come in, results are such, too, which have no gradients.
        if self.settings.grad and (tensors or not operands):
            if any(t.requires_grad for t in (*tensors, *used, *self.others)):
                if len(tensors) < len(operands):
                    error = _errors.InputError(f"{self.function.__qualname__}: a gradient is asked for, and an argument is an array of NumPy")
                    error.hint = "torch.from_numpy(x), or with torch.no_grad()"
                    raise error
                self.check_differentiable(True)
                self.check_memory(flat, used)
                return self.finish(flat, self.function.operator(self.key, True, operands, [*used, *self.others]))
        self.check_memory(flat, used)
        program, weights = self._program(used)
        return self.finish(flat, program.on(operands, weights))

    def check_memory(self, flat: Sequence[Any], used: Sequence[torch.Tensor]) -> None:
        """Refuses arguments that share memory with what the run changes in place."""
        if self._shape.changes:
            self._shape.check_memory(flat, [*used, *self._outside])

    def finish(self, flat: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The result of a call, of the operator's results."""
        trace = self._shape
        if trace.lists and any(map(is_foreign, outputs)):
            raise graph.unsupported(
                f"{self.function.__qualname__} gives a list whose length only the run knows", self.place, "return torch.stack(x)",
            )
        return trace.results(list(flat), outputs)

    def forward(self, grad: bool, args: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the operator gives."""
        used = self.refresh(self.weights.now())
        # Other weights than the object's own are those of `torch.func.functional_call`, and the like.
        lifted = grad or any(w.data_ptr() != t.data_ptr() for w, t in zip(weights, used))
        program, inputs = self._program(used, lifted)
        if inputs:
            inputs = [weights[i] if i < len(weights) else self.others[i - len(self.used)] for i in program.trace.order]
        outputs = program.on([a.detach() for a in args], [t.detach() for t in inputs])
        given = {t.data_ptr() for t in (*args, *weights)}
        return [o.clone() if o.data_ptr() in given else o for o in outputs]

    def program(self) -> TracedProgram:
        """The program with weights as constants."""
        self.refresh(self.weights.now())
        with self._lock:
            self._drop_stale()
            return self._compiled(False)

    def _drop_stale(self) -> None:
        """Drops programs whose constants are no longer what they were. With weights as inputs other tensors are constants."""
        for lifted, found in list(self._programs.items()):
            if not found.is_current():
                self._changes += 1
                del self._programs[lifted]

    def _compiled(self, lifted: bool) -> TracedProgram:
        lifted = lifted and bool(self._shape.read)
        if lifted not in self._programs:
            self._programs[lifted] = compile_trace(self.trace(lifted), self.function.options)
        return self._programs[lifted]

    def _program(self, used: Sequence[torch.Tensor], lifted: bool = False) -> tuple[TracedProgram, list[torch.Tensor]]:
        """A program, and the weights that are inputs of it."""
        with self._lock:
            self._drop_stale()
            made = self._compiled(lifted or self._changes >= CHANGES)
        order = made.trace.order
        weights = [*used, *self.others] if order else []
        return made, [weights[i] for i in order]

    def used_now(self) -> list[torch.Tensor]:
        """The weights that it reads, as they are now."""
        weights = self.weights.now()
        return [weights[i] for i in self.used]

    # Gradients

    def check_differentiable(self, wanted: bool, seen_only: bool = False) -> None:
        """Refuses gradients that would be wrong."""
        trace, name = self._shape, self.function.__qualname__
        if seen_only and self.others:
            raise graph.unsupported(
                f"{name} reads a tensor that asks for its gradient, and that torch.compile does not see", self.place,
                "make it a method of the module, or give the module as an argument",
            )
        if not wanted:
            return
        if any(kind == "input" for kind, _ in trace.goes):
            raise graph.unsupported(
                f"{name} changes an argument in place, and its gradient is asked for", self.place, "x = x.clone() in front, and return x",
            )
        if trace.lists:
            raise graph.unsupported(
                f"{name} gives a list whose length only the run knows, and its gradient is asked for", self.place, "return torch.stack(x)",
            )
        if trace.random is not None:
            raise graph.unsupported(
                f"{name} draws random numbers, which its gradient would draw again", trace.random, "draw them in front, and give them",
            )

    def check_mode(self) -> None:
        """Refuses a gradient by modules that were put to another mode since the forward pass."""
        if self._modes != self.weights.modes():
            raise graph.unsupported(
                f"a module of {self.function.__qualname__} changed between training and evaluation since the forward pass", self.place,
                "model.train() and model.eval() behind the backward pass",
            )

    def versions(self) -> list[int]:
        """Counts of the changes of tensors that Python reads elsewhere than in modules and arguments."""
        return [0 if t.is_inference() else t._version for t in self._outside]

    def check_unchanged(self, versions: list[int]) -> None:
        """Refuses a gradient where such a tensor changed since the forward pass, as PyTorch does."""
        if any(map(operator.ne, versions, self.versions())):
            raise graph.unsupported(
                f"a tensor that {self.function.__qualname__} reads was changed in place since the forward pass", self.place,
                "change it behind the backward pass, or give it as an argument",
            )

    def placed(self, weights: Sequence[torch.Tensor]) -> Iterator[tuple[torch.nn.Module, dict[str, torch.Tensor]]]:
        """Modules with the tensors that take the place of their weights."""
        given = {id(t): weight for t, weight in zip(self.used_now(), weights)}
        for module in self.weights.roots:
            names = [*module.named_parameters(), *module.named_buffers()]
            yield module, {name: given[id(t)] for name, t in names if id(t) in given}

    def plain(self, args: Sequence[torch.Tensor]) -> Any:
        """The result of the function as plain Python."""
        given = iter(args)
        flat = [next(given) if _is_array(leaf) else leaf for leaf in self.example]
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return self.function.function(*(() if self.owner is None else (self.owner,)), *args, **kwargs)

    def results_of(self, value: Any) -> list[torch.Tensor]:
        """The tensors of a result of Python, in the order of the operator's results."""
        trace, leaves = self._shape, pytree.tree_leaves(value)
        found = [leaves[i] for kind, i in trace.goes if kind == "result"] if len(leaves) == trace.gives.num_leaves else []
        if len(found) != len(trace.goes):
            raise graph.unsupported(
                f"{self.function.__qualname__} gives another structure in its backward pass than in its forward pass", self.place,
                "what it reads of Python has to stay the same until the backward pass",
            )
        return [torch.as_tensor(t) for t in found]


def _is_array(leaf: Any) -> bool:
    from .function import Outline

    return isinstance(leaf, Outline)
