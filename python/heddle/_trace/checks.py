"""Checks that the run makes: of `assert`, and of variables that are assigned on some paths only.

A check gives values that it lets through. A variable that a branch or loop may leave unassigned is a `Maybe`: its value with a flag beside it,
which a read checks. An `assert` gives no value: what it lets through is a number 0, which goes with the results of the region that it stands
in, so that the check is made in any case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from malt.operators import ld
from torch.utils import _pytree as pytree

from .graph import Place, unsupported
from .record import Recorder, Region, active


def checked(rec: Recorder, predicate: torch.Tensor, message: str, values: Sequence[torch.Tensor], place: Place | None) -> list[torch.Tensor]:
    """Values, where a predicate holds; else the run stops with a message."""
    graph = rec.region.graph
    args = [rec.read(predicate), {"str": message}, {"list": [rec.read(v) for v in values]}]
    made, results = [], []
    for value in values:
        result = rec.fresh(value.dtype, value.shape)
        made.append(graph.tensor("check", result))
        rec.bind(result, {"value": made[-1]["id"]}, weak=rec.is_weak(value))
        results.append(result)
    graph.node("check", args, {}, made, place)
    return results


# Variables


class Maybe:
    """The value of a variable that is not assigned on all paths, and whether it was."""

    def __init__(self, name: str, value: Any, defined: Any) -> None:
        self.name, self.value, self.defined = name, value, defined
        #: Reads: regions, and what the variable is in them.
        self._read: list[tuple[Region, Any]] = []

    def now(self) -> tuple[Any, Any]:
        """Its value and flag in the region that is open: one that was read there is assigned."""
        rec = active()
        for region, value in self._read:
            if rec is not None and rec.region.begins_in(region):
                return value, True
        return self.value, self.defined

    def read(self) -> Any:
        """The value, which the run checks."""
        rec = active()
        assert rec is not None
        value, defined = self.now()
        if defined is True:
            return value
        place = rec.place()
        message = f"`{self.name}` is read where nothing was assigned to it"
        if defined is False:
            raise unsupported(message, place, f"assign `{self.name}` on all paths")
        leaves, spec = pytree.tree_flatten(value)
        tensors = []
        for leaf in leaves:
            if not isinstance(leaf, (torch.Tensor, bool, int, float, torch.SymInt)):
                raise unsupported(
                    f"`{self.name}` is assigned on some paths only, and a {type(leaf).__name__} is no array that the run can check", place,
                    f"assign `{self.name}` on all paths",
                )
            tensors.append(_tensor(rec, leaf))
        value = pytree.tree_unflatten(checked(rec, _tensor(rec, defined), message, tensors, place), spec)
        self._read.append((rec.region, value))
        return value


pytree.register_pytree_node(
    Maybe, lambda m: (list(m.now()), m.name), lambda leaves, name: Maybe(name, *leaves), serialized_type_name="heddle.Maybe",
)


def _tensor(rec: Recorder, value: Any) -> torch.Tensor:
    from .control import as_tensor

    return as_tensor(rec, value)


def read(variable: Any) -> Any:
    """A read of a variable."""
    return variable.read() if isinstance(variable, Maybe) else ld(variable)


def settled(value: Any) -> Any:
    """The value of a variable that is known to be assigned."""
    return value.value if isinstance(value, Maybe) and value.defined is True else value


# Assertions


def assert_(test: Any, message: Any, text: str) -> None:
    """`assert test, message`."""
    from .control import is_staged, predicate

    rec = active()
    if rec is None or not is_staged(test):
        if not test:
            raise AssertionError(message()) if message is not None else AssertionError(text)
        return
    said = text if message is None else f"{message()}"
    token = torch.full((), 0, dtype=torch.int64)
    rec.region.checks += checked(rec, predicate(rec, test), f"AssertionError: {said}", [token], rec.place())


def pending(region: Region, rec: Recorder) -> torch.Tensor | None:
    """What all checks of a region let through, as one number."""
    if not region.checks:
        return None
    with rec.inside(region):
        total = region.checks[0]
        for other in region.checks[1:]:
            total = total + other
    return total
