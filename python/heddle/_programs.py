"""Programs of one model by what its inputs leave open."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import Model, Program, _native, compile, load
from ._errors import Unsupported


def describe(source: str | os.PathLike[str] | bytes, model: Model | None = None) -> dict[str, Any]:
    """What an ONNX file says of itself: `metadata`, and `inputs`, `optional` (inputs with a default value) and `outputs` as triples of
    a name, a type such as `tensor(float)`, and the dims as numbers, names and `None`, or `None` for any rank. What it does not say of
    outputs, it is told by the model that was read of it, if that is given."""
    data = source if isinstance(source, bytes) else None
    return _native.describe(Path("model" if data is not None else source), data, model)


class Programs:
    """Compiles a model anew for each choice of what a file may leave open: inputs with a default value that are given, and ranks of
    inputs that are declared without one. For all other models that is one program."""

    def __init__(self, source: str | os.PathLike[str] | bytes, *, constants: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._source, self._constants, self._options = source, constants, options
        self._lock = threading.Lock()
        self._programs: dict[Any, Program] = {}
        #: What the file says of itself; see `describe`.
        self.description = describe(source)
        self._optional = {name for name, _, _ in self.description["optional"]}
        self._unranked = [
            name for name, notation, dims in self.description["inputs"] if dims is None and notation.startswith("tensor")
        ]
        try:
            model = load(source, constants=constants)
        except Unsupported:
            # Operators that depend on the rank are read once it is known.
            if not self._unranked:
                raise
            return
        self.description = describe(source, model)
        if not self._unranked:
            self._programs[(), ()] = compile(model, **options)

    @property
    def needs_ranks(self) -> bool:
        """Does the model declare an input without a rank? Then it is compiled at the first run."""
        return bool(self._unranked)

    def of(self, feeds: Mapping[str, Any]) -> Program:
        """The program for runs on inputs of these names and ranks."""
        overrides = tuple(sorted(self._optional.intersection(feeds)))
        ranks = tuple((name, np.ndim(feeds[name])) for name in self._unranked if feeds.get(name) is not None)
        with self._lock:
            program = self._programs.get((overrides, ranks))
            if program is None:
                model = load(self._source, overrides=overrides, ranks=dict(ranks), constants=self._constants)
                program = self._programs[overrides, ranks] = compile(model, **self._options)
        return program
