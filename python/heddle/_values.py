"""Inputs that are no arrays of NumPy, and results in the kind that came in."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from . import _errors


def _fail(message: str, hint: str | None = None) -> _errors.InputError:
    error = _errors.InputError(message)
    error.hint = hint
    return error


def as_array(name: str, dtype: str, value: Any) -> np.ndarray:
    """An input as an array: without a copy if it is an array of another library in the processor's memory. Numbers and lists take
    the type that the program wants, if they are exact in it."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(name, value, torch)
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        return _of_dlpack(name, value)
    if value is None:
        raise _fail(f"{name}: None is no array")
    if isinstance(value, np.generic):
        return np.asarray(value)
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise _fail(f"{name}: {error}") from None
    if dtype == "object":
        return given.astype(object) if given.dtype.kind == "U" else given
    wanted = dtype_named(dtype)
    if given.dtype == object or given.dtype.kind in "US":
        raise _fail(f"{name}: {type(value).__name__} can't be given for an array of {dtype}")
    with np.errstate(all="ignore"):
        made = given.astype(wanted)
        # Integers wrap there and back again, which their signs show.
        same = (made.astype(given.dtype) == given) & ((made < 0) == (given < 0))
    if not np.all(same | (given != given) & (made != made)):
        raise _fail(f"{name}: {value!r:.80} is not exact in {dtype}", f"np.asarray(x).astype({dtype!r}) rounds it")
    return made


def dtype_named(name: str) -> np.dtype:
    """NumPy's type of a name, which may be one of ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(ml_dtypes_for(name), name))


def ml_dtypes_for(kind: str) -> Any:
    """The package with the types that NumPy does not have."""
    try:
        import ml_dtypes
    except ImportError:
        raise _fail(f"arrays of {kind} need the package ml_dtypes", "pip install ml_dtypes") from None
    return ml_dtypes


def _of_torch(name: str, value: Any, torch: Any) -> np.ndarray:
    try:
        # Most tensors are arrays of NumPy as they are.
        return value.numpy()
    except (TypeError, RuntimeError):
        pass
    if value.layout != torch.strided:
        raise _fail(f"{name}: a sparse tensor can't be given", "x.to_dense() makes an array of it")
    if value.device.type != "cpu":
        raise _fail(f"{name}: a tensor on {value.device} can't be given", "x.cpu() copies it")
    value = value.detach().resolve_conj().resolve_neg()
    if value.dtype in _torch_types(torch):
        kind, width = _torch_types(torch)[value.dtype]
        return value.view(getattr(torch, width)).numpy().view(dtype_named(kind))
    try:
        return value.numpy()
    except TypeError:
        raise _fail(f"{name}: a tensor of {value.dtype} can't be given") from None


@functools.cache
def _torch_types(torch: Any) -> dict[Any, tuple[str, str]]:
    """PyTorch's types that NumPy does not have, with those of ml_dtypes and integers of the same width."""
    types = {torch.bfloat16: ("bfloat16", "int16")}
    for kind in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        if hasattr(torch, kind):
            types[getattr(torch, kind)] = (kind, "uint8")
    return types


def _of_dlpack(name: str, value: Any) -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError, ValueError) as error:
        # JAX's bfloat16, among others, has no DLPack that NumPy reads.
        if hasattr(value, "__array__"):
            return np.asarray(value)
        raise _fail(f"{name}: {error}") from None


def as_target(name: str, value: Any) -> np.ndarray:
    """An array of NumPy in the memory of one that takes a result."""
    if isinstance(value, np.ndarray):
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad:
            raise _fail(f"{name}: a tensor that requires its gradient can't take a result", "x.detach() can")
        return _of_torch(name, value, torch)
    raise _fail(f"{name}: a result can be written to an array of NumPy or PyTorch, not to {type(value).__name__}")


def like_inputs(args: tuple[Any, ...], kwargs: dict[str, Any] | None, results: Any) -> Any:
    """The results of a call in the kind of its inputs."""
    library = library_of(args) or (library_of(kwargs.values()) if kwargs else None)
    return results if library is None else to_library(library, results)


def library_of(values: Any) -> str | None:
    """The library whose arrays are among the inputs: its results come in the same kind."""
    for value in values:
        library = _library_of_class(type(value))
        if library is not None:
            return library
    return None


@functools.lru_cache(maxsize=1024)
def _library_of_class(kind: type) -> str | None:
    return next((library for library in ("torch", "jax") if kind.__module__.startswith(library)), None)


def to_library(library: str | None, value: Any) -> Any:
    """A result in the kind of a library, without a copy."""
    if isinstance(value, (list, tuple)):
        return type(value)([to_library(library, item) for item in value])
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    if library == "torch":
        import torch

        if value.dtype.isbuiltin == 1:
            return torch.from_numpy(value)
        for torch_type, (kind, width) in _torch_types(torch).items():
            if value.dtype.name == kind:
                return torch.from_numpy(value.view(width)).view(torch_type)
        return torch.from_numpy(value)
    import jax

    return jax.numpy.asarray(value)
