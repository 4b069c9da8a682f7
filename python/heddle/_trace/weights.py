"""Parameters and buffers of modules, found again without a walk over modules that are as they were."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn.modules import module as _modules


def is_foreign(value: Any) -> bool:
    """Whether a tensor is one of another tracer, such as those of `torch.export`."""
    return isinstance(value, (FakeTensor, FunctionalTensor))


def modules_of(owner: Any, leaves: Sequence[Any]) -> list[torch.nn.Module]:
    """The object that a function is a method of, and the leaves of its arguments, as far as they are modules."""
    return [m for m in (owner, *leaves) if isinstance(m, torch.nn.Module)]


class _Walk(NamedTuple):
    """Modules with all in them, the dictionaries that these keep their parts and hooks in, and what these held."""

    modules: list[torch.nn.Module]
    full: list[dict[Any, Any]]
    empty: list[dict[Any, Any]]
    seen: list[Any]
    tensors: list[torch.Tensor]
    hooks: list[Any]
    foreign: bool


class Weights:
    """The parameters and buffers of modules, with their hooks and modes."""

    def __init__(self, roots: list[torch.nn.Module]) -> None:
        self.roots = roots
        self._walked = self._walk()

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors as `now` last found them."""
        return self._walked.tensors

    def now(self) -> list[torch.Tensor]:
        """The tensors in their order: the same list as before if all are the same."""
        walked = self._walked
        # This is done at each call, for each module of a model: none of it runs in Python.
        seen = list(chain.from_iterable(map(dict.values, walked.full)))
        if any(walked.empty) or len(seen) != len(walked.seen) or not all(map(operator.is_, seen, walked.seen)):
            walked = self._walked = self._walk()
        return walked.tensors

    def modes(self) -> list[bool]:
        """For each module, as `now` last found them: does it train?"""
        return list(map(_training, self._walked.modules))

    def structure(self) -> tuple[list[torch.nn.Module], list[Any]]:
        """The modules and their hooks, as `now` last found them."""
        return self._walked.modules, self._walked.hooks

    def is_foreign(self) -> bool:
        """Was one of the tensors, as `now` last found them, one of another tracer?"""
        return self._walked.foreign

    def _walk(self) -> _Walk:
        modules = list(dict.fromkeys(m for root in self.roots for m in root.modules()))
        hooks = [part for m in modules for part in (m._forward_hooks, m._forward_pre_hooks)]
        if modules:
            hooks += [_modules._global_forward_hooks, _modules._global_forward_pre_hooks]
        parts: list[dict[Any, Any]] = [part for m in modules for part in (m._modules, m._parameters, m._buffers)]
        full = [part for part in (*parts, *hooks) if part]
        tensors = [t for root in self.roots for t in (*root.parameters(), *root.buffers())]
        return _Walk(
            modules, full, [part for part in (*parts, *hooks) if not part], [value for part in full for value in part.values()], tensors,
            [(i, hook) for i, part in enumerate(hooks) for hook in part.values()], any(map(is_foreign, tensors)),
        )


_training = operator.attrgetter("training")
