"""Comparisons of results, and times of runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _html, _native
from ._errors import InputError

if TYPE_CHECKING:
    from . import Program


@dataclass(frozen=True)
class Agreement:
    """An output beside its expected value."""

    name: str
    agrees: bool
    #: Elements that were compared.
    elements: int
    #: The largest absolute difference, if it agrees.
    max_abs: float | None
    #: The largest difference relative to the expected element, likewise.
    max_rel: float | None
    #: The difference in words, if it does not agree.
    text: str | None

    def __str__(self) -> str:
        if not self.agrees:
            return f"{self.name}: DIFFERS, {self.text}"
        return f"{self.name}: agrees, {self.elements} elements, largest difference {self.max_abs:.1e}, relative {self.max_rel:.1e}"


@dataclass(frozen=True)
class Check:
    """Outputs beside their expected values. It is true if all agree."""

    outputs: tuple[Agreement, ...]

    def __bool__(self) -> bool:
        return all(output.agrees for output in self.outputs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.outputs))

    def _repr_html_(self) -> str:
        rows = [(o.name, "agrees" if o.agrees else "DIFFERS", o.elements, o.max_abs, o.max_rel, o.text or "") for o in self.outputs]
        return _html.table(("output", "", "elements", "largest difference", "relative", ""), rows)


@dataclass(frozen=True)
class Bench:
    """Seconds of runs."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one; of an even number the mean of the two."""
        return statistics.median(self.times)

    @property
    def least(self) -> float:
        """The shortest."""
        return min(self.times)

    @property
    def most(self) -> float:
        """The longest."""
        return max(self.times)

    def __str__(self) -> str:
        return f"median {_html.seconds(self.median)}, from {_html.seconds(self.least)} to {_html.seconds(self.most)}, {len(self.times)} runs"

    def __repr__(self) -> str:
        return f"<heddle.Bench {self}>"


def check(
    program: Program,
    inputs: Mapping[str, Any],
    expected: Mapping[str, Any] | None = None,
    *,
    rtol: float = 1e-3,
    atol: float = 1e-7,
    **limits: Any,
) -> Check:
    """Runs a program on inputs by name and compares its outputs with expected ones by name, or with those of the interpreter.

    Elements agree when `|got - want| <= atol + rtol * |want|`; NaN agrees with NaN. Integers, bools and text must be equal. Expected floats may
    be of any width. Outputs that nothing is expected of are left out. `limits` are those of `Program.run`.
    """
    results = program._run(inputs, None, **limits)
    if expected is None:
        expected, _ = program._native.on_interpreter().run(dict(inputs), program._limits(limits), None)
    unknown = [name for name in expected if name not in results]
    if unknown:
        raise InputError(f"there is no output {', '.join(unknown)}; the outputs are {', '.join(results)}")
    compared = _native.compare(program._native, results, dict(expected), rtol, atol)
    return Check(tuple(Agreement(*one) for one in compared))


def bench(program: Program, inputs: Mapping[str, Any], *, seconds: float = 1.0, runs: int = 3, **limits: Any) -> Bench:
    """Runs a program on the same inputs, by name, for so many seconds and at least so many times, after a first run that is not counted.

    A time is that of taking the workers and of the program itself, up to its results in memory; making arrays of Python is not in it.
    """
    return Bench(tuple(_native.bench(program._native, dict(inputs), program._limits(limits), seconds, runs)))
