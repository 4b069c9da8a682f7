"""Programs for many instances: arrays of each in, results of each out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _errors, _native, _values

_OFFSETS, _SHAPES = ".offsets", ".shapes"


def joined(forms: Mapping[str, str], types: Mapping[str, str], instances: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The inputs of instances as those of the batch, in their forms: `types` are those of the batch's inputs."""
    unknown = sorted({key for instance in instances for key in instance} - set(forms))
    if unknown:
        raise _fail(f"an instance has `{unknown[0]}`, in which instances do not differ", "give it as weights={...}")
    inputs: dict[str, np.ndarray] = {}
    for name, form in forms.items():
        arrays = []
        for number, instance in enumerate(instances):
            if name not in instance:
                raise _fail(f"instance {number} has no input `{name}`")
            arrays.append(_values.as_array(f"{name} of instance {number}", _dtype(types[name]), instance[name]))
        inputs |= _FORMS[form][0](name, types, arrays)
    return inputs


def parted(forms: Mapping[str, str], results: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """The results of each of `count` instances."""
    parts: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, form in forms.items():
        for part, value in zip(parts, _FORMS[form][1](name, results)):
            part[name] = value
    return parts


def _stack(name: str, types: Mapping[str, str], arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        raise _fail(f"{name}: instances have the shapes {', '.join(map(str, sorted(shapes)))}", f'batch_of={{"{name}": "ragged"}}, if the first axis differs')
    return {name: np.stack(arrays) if arrays else _no_instances(types[name])}


def _concatenate(name: str, types: Mapping[str, str], arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    if any(a.ndim == 0 or a.shape[1:] != arrays[0].shape[1:] for a in arrays):
        raise _fail(f"{name}: instances differ in more than their first axis", f'batch_of={{"{name}": "flat"}}')
    offsets = np.cumsum([0, *(len(a) for a in arrays)], dtype=np.int64)
    data = np.concatenate(arrays) if arrays else _no_instances(types[name])
    return {name: data, name + _OFFSETS: offsets}


def _flatten(name: str, types: Mapping[str, str], arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    ranks = {a.ndim for a in arrays}
    if len(ranks) > 1:
        raise _fail(f"{name}: instances have {', '.join(map(str, sorted(ranks)))} axes")
    offsets = np.cumsum([0, *(a.size for a in arrays)], dtype=np.int64)
    data = np.concatenate([a.ravel() for a in arrays]) if arrays else _no_instances(types[name])
    shapes = np.array([a.shape for a in arrays], np.int64) if arrays else _no_instances(types[name + _SHAPES])
    return {name: data, name + _OFFSETS: offsets, name + _SHAPES: shapes}


def _rows(name: str, results: Mapping[str, Any]) -> list[Any]:
    # The ellipsis makes arrays without axes of scalars, which are no arrays else.
    array = results[name]
    return [array[k, ...] for k in range(len(array))]


def _ranges(name: str, results: Mapping[str, Any]) -> list[Any]:
    offsets = results[name + _OFFSETS]
    return [results[name][start:end] for start, end in zip(offsets[:-1], offsets[1:])]


def _shaped(name: str, results: Mapping[str, Any]) -> list[Any]:
    return [part.reshape(tuple(shape)) for part, shape in zip(_ranges(name, results), results[name + _SHAPES])]


# How inputs of each form are put together, and results taken apart.
_FORMS: dict[str, Any] = {"stacked": (_stack, _rows), "ragged": (_concatenate, _ranges), "flat": (_flatten, _shaped)}

_NUMPY = {"f": "float", "i": "int", "u": "uint"}


def _dtype(type: str) -> str:
    """NumPy's name of the elements of a type such as `f32[n,3]`."""
    name = type.split("[")[0]
    kind, width = name[:1], name[1:]
    if kind in _NUMPY and width.isdigit():
        return _NUMPY[kind] + width
    return {"bf16": "bfloat16", "str": "object"}.get(name, name)


def _no_instances(type: str) -> np.ndarray:
    """The array of no instances: sizes that are stated stay."""
    sizes = type.partition("[")[2].rstrip("]").split(",")
    shape = (0, *(int(size) if size.isdigit() else 0 for size in sizes[1:] if size))
    return np.empty(shape, _values.dtype_named(_dtype(type)))


def _fail(message: str, hint: str | None = None) -> _errors.InputError:
    error = _errors.InputError(message)
    error.hint = hint
    return error


def run(
    native: _native.Batch, types: Mapping[str, str], instances: Sequence[Mapping[str, Any]], weights: Mapping[str, Any], limits: Mapping[str, Any],
    keep_going: bool,
) -> list[dict[str, Any] | _errors.Error]:
    """The results of instances, in their order; with `keep_going` the error of one in the place of its results."""
    instances = list(instances)
    inputs = {**joined(native.inputs, types, instances), **weights}
    results, numbers, failed = native.run(inputs, dict(limits), keep_going)
    numbers = range(len(instances)) if numbers is None else numbers
    found: dict[int, Any] = dict(zip(numbers, parted(native.outputs, results, len(numbers))))
    found.update(failed)
    library = _values.library_of([value for instance in instances for value in instance.values()])
    if library is not None:
        found = {
            k: v if isinstance(v, _errors.Error) else {n: _values.to_library(library, np.asarray(r, order="C")) for n, r in v.items()} for k, v in found.items()
        }
    return [found[k] for k in range(len(instances))]
