"""Entries of functions by signature, kept where they die with what they are of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .entry import Entry
    from .function import Function

#: Name under which an object keeps the entries of its methods.
_NAME = "_heddle_entries"
#: Signatures of a function for one object; the oldest makes room for a new one.
MOST = 256
_lock = threading.Lock()


class Entries:
    """Entries by signature, of each function that is a method of an object or takes it. A copy of the object begins without any."""

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner
        self.of: dict[Function, dict[Any, list[Entry]]] = {}

    def __reduce__(self) -> Any:
        # The pickle of a module needs no Heddle.
        return dict, ()

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return {}


def entries_of(function: Function, owner: Any, leaves: Sequence[Any]) -> dict[Any, list[Entry]]:
    """A function's entries. They lie with the object that it is a method of, or else with the first module among the leaves of its
    arguments. The function keeps all others, and an object without `__dict__`."""
    if owner is None:
        owner = next((leaf for leaf in leaves if isinstance(leaf, torch.nn.Module)), None)
        if owner is None:
            return function.entries.setdefault(None, {})
    known = getattr(owner, "__dict__", None)
    if not isinstance(known, dict):
        return function.entries.setdefault(id(owner), {})
    found = known.get(_NAME)
    if not isinstance(found, Entries) or found.owner is not owner:
        with _lock:
            found = known.get(_NAME)
            if not isinstance(found, Entries) or found.owner is not owner:
                found = known[_NAME] = Entries(owner)
    return found.of.setdefault(function, {})


def keep(known: dict[Any, list[Entry]], key: Any, entries: list[Entry]) -> None:
    """Keeps the entries of a signature."""
    if key not in known and len(known) >= MOST:
        del known[next(iter(known))]
    known[key] = entries
