"""Programs that are called as the function that they come from."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import _pytree as pytree

from .. import Program, _errors, _native, _native_options, _progress
from . import graph
from .flat import flatten
from .lists import Grown
from .weights import is_foreign

#: Programs that keep weights as constants are compiled anew this often when weights change; then weights become inputs.
CHANGES = 2


class _Open:
    def __repr__(self) -> str:
        return "an input"


#: A leaf of the arguments that is an input.
OPEN = _Open()


@dataclass
class Trace:
    """A model that was traced, with what it takes to call it as the function that it comes from."""

    source: graph.Source
    #: Structure of (args, kwargs), and of the result.
    takes: pytree.TreeSpec
    gives: pytree.TreeSpec
    #: For each leaf of the arguments: `OPEN`, or the constant that it was.
    leaves: list[Any]
    #: Tensors that are inputs besides the arguments: buffers that a run changes.
    state: list[torch.Tensor] = field(default_factory=list)
    #: Where each output goes: ("result", leaf), ("state", index) or ("input", leaf).
    goes: list[tuple[str, int]] = field(default_factory=list)
    #: Leaves of the result that are no arrays, and those that are arguments, which the run changes in place.
    fixed: dict[int, Any] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)
    #: What was taken to hold of the sizes of the arguments' leaves.
    guards: Callable[[Sequence[Any]], bool] | None = None
    #: Whether a part of the result is a list whose length only the run knows.
    lists: bool = False
    #: Constants that are inputs behind the arguments, and all that were read.
    lifted: list[torch.Tensor] = field(default_factory=list)
    #: Positions of these among the weights of an operator.
    order: list[int] = field(default_factory=list)
    read: list[torch.Tensor] = field(default_factory=list)
    #: It met tensors of another tracer, which have no elements.
    is_foreign: bool = False
    #: Types of the arrays among the results. Their sizes are numbers and expressions, whose names are sizes of tensors among the arguments,
    #: by their position and axis, or sizes that only the run knows.
    types: list[tuple[torch.dtype, list[int | str]]] = field(default_factory=list)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    #: The line that draws random numbers.
    random: graph.Place | None = None

    @functools.cached_property
    def is_plain(self) -> bool:
        """Is the only output the result?"""
        return self.goes == [("result", 0)] and self.gives.is_leaf() and not self.lists

    @functools.cached_property
    def _all_open(self) -> bool:
        return not self.state and all(leaf is OPEN for leaf in self.leaves)

    @functools.cached_property
    def changes(self) -> bool:
        """Does a run change arguments in place?"""
        return any(kind == "input" for kind, _ in self.goes)

    def inputs(self, flat: list[Any]) -> list[Any]:
        """The model's inputs of a call, by the leaves of its arguments."""
        if self._all_open:
            return flat
        found: list[Any] = list(self.state)
        for position, (value, leaf) in enumerate(zip(flat, self.leaves)):
            if leaf is OPEN:
                found.append(value)
            elif value is not leaf and not same_constant(value, leaf):
                raise _errors.InputError(f"argument {position} is {value!r:.60}, but was {leaf!r:.60} when this was compiled, and is a constant")
        return found

    def check_memory(self, flat: Sequence[Any], weights: Sequence[torch.Tensor] = ()) -> None:
        """Refuses arguments, and weights and other tensors that are read, that share memory with an argument which the run changes in place:
        the program takes them for arrays of their own."""
        for position in (position for kind, position in self.goes if kind == "input"):
            changed = flat[position]
            named = [(f"arguments {position} and {i}", leaf) for i, leaf in enumerate(flat) if i != position and isinstance(leaf, (torch.Tensor, np.ndarray))]
            for names, other in [*named, *((f"argument {position} and a tensor that the function reads", t) for t in weights)]:
                if _overlap(changed, other):
                    error = _errors.InputError(f"{names} share memory, and the run changes one in place")
                    error.hint = "x.clone()"
                    raise error

    def results(self, flat: list[Any], outputs: Sequence[Any]) -> Any:
        """The result of a call, once what it changes in place is changed."""
        if self.is_plain:
            return outputs[0]
        leaves: dict[int, Any] = dict(self.fixed)
        for (kind, index), value in zip(self.goes, outputs):
            if kind == "result":
                leaves[index] = value
                continue
            target = (self.state if kind == "state" else flat)[index]
            if isinstance(target, np.ndarray):
                np.copyto(target, value)
                continue
            with torch.no_grad():
                target.copy_(value)
        leaves.update((i, flat[position]) for i, position in self.same.items())
        made = pytree.tree_unflatten([leaves[i] for i in range(len(leaves))], self.gives)
        return pytree.tree_map(_listed, made, is_leaf=lambda value: isinstance(value, Grown)) if self.lists else made


def same_constant(value: Any, other: Any) -> bool:
    """Are two constants of Python the same? Floats are by their bits: 0.0 and -0.0 differ, and a NaN is itself."""
    if type(value) is not type(other):
        return False
    if isinstance(value, (float, complex)):
        return struct.pack("dd", value.real, value.imag) == struct.pack("dd", other.real, other.imag)
    return bool(value == other)


def _overlap(one: Any, other: Any) -> bool:
    """May two arrays have an element in common?"""
    foreign = [is_foreign(one), is_foreign(other)]
    if all(foreign):
        # Their elements have no addresses yet.
        return torch._C._is_alias_of(_inner(one), _inner(other))
    if any(foreign):
        return False
    (start, end), (begin, last) = _span(one), _span(other)
    return begin < end and start < last


def _inner(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.elem if isinstance(tensor, FunctionalTensor) else tensor


def _span(array: Any) -> tuple[int, int]:
    """The addresses that an array's elements lie between."""
    if isinstance(array, np.ndarray):
        return np.lib.array_utils.byte_bounds(array) if hasattr(np.lib, "array_utils") else np.byte_bounds(array)
    size, start = array.element_size(), array.data_ptr()
    if not array.numel():
        return start, start
    return start, start + size * (1 + sum((n - 1) * stride for n, stride in zip(array.shape, array.stride())))


def _listed(value: Any) -> Any:
    return list(value.data) if isinstance(value, Grown) else value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _asks(value: Any) -> bool:
    """Is it a tensor that asks for its gradient?"""
    return isinstance(value, torch.Tensor) and value.requires_grad


class TracedProgram(Program):
    """A compiled PyTorch module or Python function. It takes and gives what that did."""

    __slots__ = ("trace", "_weights")

    def __init__(self, native: _native.Program, trace: Trace, weights: list[tuple[torch.Tensor, int, int]]) -> None:
        super().__init__(native)
        self.trace = trace
        #: Constants with their address and version.
        self._weights = weights

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = self.trace
        flat, spec = flatten(args, kwargs)
        if torch.is_grad_enabled() and any(map(_asks, flat)):
            error = _errors.InputError("a program gives no gradients, and an argument asks for one")
            error.hint = "with torch.no_grad(), or x.detach()"
            raise error
        if spec is not trace.takes and spec != trace.takes:
            raise _errors.InputError(f"the arguments are {spec}, but were {trace.takes} when this was compiled")
        if trace.changes:
            trace.check_memory(flat)
        return trace.results(flat, self.on(trace.inputs(flat), ()))

    def on(self, operands: Sequence[Any], weights: Sequence[torch.Tensor]) -> Sequence[Any]:
        """The outputs for arrays and the weights that are inputs."""
        trace = self.trace
        outputs = super().__call__(*operands, *weights) if trace.goes else ()
        if len(trace.goes) == 1:
            outputs = (outputs,)
        if all(map(_is_tensor, outputs)) or any(isinstance(operand, np.ndarray) for operand in operands):
            return outputs
        return [o if isinstance(o, torch.Tensor) else torch.as_tensor(o) for o in outputs]

    def is_current(self) -> bool:
        """Whether the constants are what they were."""
        return all(t.data_ptr() == at and (t.is_inference() or t._version == version) for t, at, version in self._weights)


def compile_trace(trace: Trace, options: dict[str, Any]) -> TracedProgram:
    """The program of a traced model."""
    weights = [(t, t.data_ptr(), 0 if t.is_inference() else t._version) for t in trace.source.constants.given.values()]
    return TracedProgram(_progress.compile(trace.source.model(), _native_options(options)), trace, weights)
