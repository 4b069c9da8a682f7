"""Programs that are called as the function that they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .. import Program, _errors, _native, _native_options, _progress
from . import graph
from .flat import flatten


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
    #: The object whose method was traced. While this lives no other object has its identity.
    bound: Any = None
    #: Whether a part of the result is a list whose length only the run knows.
    lists: bool = False
    #: Constants that are inputs behind the arguments, and all that were read.
    lifted: list[torch.Tensor] = field(default_factory=list)
    #: Positions of these among the weights of an operator, once that is known.
    order: list[int] | None = None
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

    def inputs(self, flat: list[Any]) -> list[Any]:
        """The model's inputs of a call, by the leaves of its arguments."""
        found: list[Any] = list(self.state)
        for position, (value, leaf) in enumerate(zip(flat, self.leaves)):
            if leaf is OPEN:
                found.append(value)
            elif value is not leaf and not (type(value) is type(leaf) and value == leaf):
                raise _errors.InputError(f"argument {position} is {value!r:.60}, but was {leaf!r:.60} when this was compiled, and is a constant")
        return found

    def check_memory(self, flat: Sequence[Any]) -> None:
        """Refuses arguments that share memory with one that the run changes in place: the program takes them for arrays of their own."""
        for kind, position in self.goes:
            if kind == "input":
                start, end = _span(flat[position])
                for other, leaf in enumerate(flat):
                    if other != position and isinstance(leaf, (torch.Tensor, np.ndarray)):
                        begin, last = _span(leaf)
                        if begin < end and start < last:
                            error = _errors.InputError(f"arguments {position} and {other} share memory, and the run changes one in place")
                            error.hint = "x.clone()"
                            raise error

    def results(self, flat: list[Any], outputs: Sequence[Any]) -> Any:
        """The result of a call, once what it changes in place is changed."""
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
        return pytree.tree_map(_listed, made, is_leaf=_is_grown) if self.lists else made


def _span(array: Any) -> tuple[int, int]:
    """The addresses that an array's elements lie between."""
    if isinstance(array, np.ndarray):
        return np.lib.array_utils.byte_bounds(array) if hasattr(np.lib, "array_utils") else np.byte_bounds(array)
    size, start = array.element_size(), array.data_ptr()
    if not array.numel():
        return start, start
    return start, start + size * (1 + sum((n - 1) * stride for n, stride in zip(array.shape, array.stride())))


def _is_grown(value: Any) -> bool:
    return type(value).__name__ == "Grown"


def _listed(value: Any) -> Any:
    return list(value.data) if _is_grown(value) else value


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
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in flat):
            error = _errors.InputError("a program gives no gradients, and an argument asks for one")
            error.hint = "with torch.no_grad(), or x.detach()"
            raise error
        if spec is not trace.takes and spec != trace.takes:
            raise _errors.InputError(f"the arguments are {spec}, but were {trace.takes} when this was compiled")
        trace.check_memory(flat)
        return trace.results(flat, self.on(trace.inputs(flat), ()))

    def on(self, operands: Sequence[Any], weights: Sequence[torch.Tensor]) -> Sequence[Any]:
        """The outputs for arrays and the weights that are inputs."""
        trace = self.trace
        outputs = super().__call__(*operands, *weights) if trace.goes else ()
        if len(trace.goes) == 1:
            outputs = (outputs,)
        if any(isinstance(operand, np.ndarray) for operand in operands):
            return outputs
        return [o if isinstance(o, torch.Tensor) else torch.as_tensor(o) for o in outputs]

    def is_current(self) -> bool:
        """Whether the constants are what they were."""
        return all(t.data_ptr() == at and (t.is_inference() or t._version == version) for t, at, version in self._weights)


def compile_trace(trace: Trace, options: dict[str, Any]) -> TracedProgram:
    """The program of a traced model."""
    weights = [(t, t.data_ptr(), 0 if t.is_inference() else t._version) for t in trace.source.constants.given.values()]
    return TracedProgram(_progress.compile(trace.source.model(), _native_options(options)), trace, weights)
