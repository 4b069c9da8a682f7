"""Programs that are called as the function that they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .. import Program, _errors, _native, _native_options, _progress
from .flat import flatten


class _Open:
    def __repr__(self) -> str:
        return "an input"


#: A leaf of the arguments that is an input.
OPEN = _Open()


@dataclass
class Trace:
    """A model that was traced, with what it takes to call it as the function that it comes from."""

    model: _native.Model
    #: Structure of (args, kwargs), and of the result.
    takes: pytree.TreeSpec
    gives: pytree.TreeSpec
    #: For each leaf of the arguments: `OPEN`, or the constant that it was.
    leaves: list[Any]
    #: Tensors that are inputs besides the arguments: buffers that a run changes.
    state: list[torch.Tensor] = field(default_factory=list)
    #: Where each output goes: ("result", leaf), ("state", index) or ("input", leaf).
    goes: list[tuple[str, int]] = field(default_factory=list)
    #: Leaves of the result that are no arrays.
    fixed: dict[int, Any] = field(default_factory=dict)
    #: What was taken to hold of the sizes of the arguments' leaves.
    guards: Callable[[list[Any]], bool] | None = None
    #: Constants with their address and version, and the module whose they are with the identities of all of its tensors.
    weights: list[tuple[torch.Tensor, int, int]] = field(default_factory=list)
    owner: torch.nn.Module | None = None
    #: The object whose method was traced. While this lives no other object has its identity.
    bound: Any = None
    owned: list[int] = field(default_factory=list)

    #: Whether a part of the result is a list whose length only the run knows.
    lists: bool = False

    def inputs(self, flat: list[Any]) -> list[Any]:
        """The model's inputs of a call, by the leaves of its arguments."""
        found: list[Any] = list(self.state)
        for position, (value, leaf) in enumerate(zip(flat, self.leaves)):
            if leaf is OPEN:
                found.append(value)
            elif value is not leaf and not (type(value) is type(leaf) and value == leaf):
                raise _errors.InputError(f"argument {position} is {value!r:.60}, but was {leaf!r:.60} when this was compiled, and is a constant")
        return found

    def results(self, flat: list[Any], outputs: Sequence[Any]) -> Any:
        """The result of a call, once what it changes in place is changed."""
        leaves: dict[int, Any] = dict(self.fixed)
        for (kind, index), value in zip(self.goes, outputs):
            if kind == "result":
                leaves[index] = value
            else:
                with torch.no_grad():
                    (self.state if kind == "state" else flat)[index].copy_(value)
        made = pytree.tree_unflatten([leaves[i] for i in range(len(leaves))], self.gives)
        return pytree.tree_map(_listed, made, is_leaf=_is_grown) if self.lists else made


def _is_grown(value: Any) -> bool:
    return type(value).__name__ == "Grown"


def _listed(value: Any) -> Any:
    return list(value.data) if _is_grown(value) else value


def like(leaf: Any) -> Any:
    """A tensor of the type and shape of an array of NumPy; anything else itself."""
    if not isinstance(leaf, np.ndarray) or leaf.dtype == object:
        return leaf
    return torch.empty(leaf.shape, dtype=torch.from_numpy(np.empty(0, leaf.dtype)).dtype)


class TracedProgram(Program):
    """A compiled PyTorch module or Python function. It takes and gives what that did."""

    __slots__ = ("_trace",)

    def __init__(self, native: _native.Program, trace: Trace) -> None:
        super().__init__(native)
        self._trace = trace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = self._trace
        flat, spec = flatten(args, kwargs)
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in flat):
            error = _errors.InputError("a program gives no gradients, and an argument asks for one")
            error.hint = "with torch.no_grad(), or x.detach()"
            raise error
        if spec is not trace.takes and spec != trace.takes:
            raise _errors.InputError(f"the arguments are {spec}, but were {trace.takes} when this was compiled")
        outputs = super().__call__(*trace.inputs(flat)) if trace.goes else ()
        if len(trace.goes) == 1:
            outputs = (outputs,)
        if not any(isinstance(leaf, np.ndarray) for leaf in flat):
            outputs = [o if isinstance(o, torch.Tensor) else torch.as_tensor(o) for o in outputs]
        return trace.results(flat, outputs)

    def fits(self, flat: list[Any]) -> bool:
        """Whether the sizes of arguments are like those that it was compiled for."""
        return self._trace.guards is None or self._trace.guards(flat)

    def is_current(self) -> bool:
        """Whether the constants are what they were."""
        trace = self._trace
        if any(t.data_ptr() != at or (not t.is_inference() and t._version != version) for t, at, version in trace.weights):
            return False
        owner = trace.owner
        return owner is None or trace.owned == [id(t) for t in owner.parameters()] + [id(t) for t in owner.buffers()]


def compile_trace(trace: Trace, options: dict[str, Any]) -> TracedProgram:
    """The program of a traced model."""
    return TracedProgram(_progress.compile(trace.model, _native_options(options)), trace)
