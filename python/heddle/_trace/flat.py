"""Arguments of calls as leaves, at little cost where they are arrays and numbers by position."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

#: Types of which each object is a leaf.
_LEAVES = {torch.Tensor, torch.nn.Parameter, np.ndarray, int, float, bool, str}


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of (args, kwargs) and their structure: the same object for the same number of plain arguments."""
    if not kwargs and _LEAVES.issuperset(map(type, args)):
        return list(args), _positional(len(args))
    return pytree.tree_flatten((args, kwargs))


def key_of(spec: pytree.TreeSpec) -> Any:
    """A key for a structure that `flatten` gave: the number of arguments, if all are plain, whose hash is cheap."""
    return _numbers.get(id(spec), spec)


@functools.cache
def _positional(count: int) -> pytree.TreeSpec:
    made = pytree.tree_structure(((0,) * count, {}))
    # The cache holds it, so that no other structure has its identity.
    _numbers[id(made)] = count
    return made


_numbers: dict[int, int] = {}
