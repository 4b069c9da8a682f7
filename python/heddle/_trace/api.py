"""What `heddle.compile` and `heddle.function` do with modules and functions."""

from __future__ import annotations

import types
from typing import Any

try:
    import torch
except ImportError as error:
    raise ImportError("PyTorch modules and Python functions need PyTorch: pip install heddle-compiler[torch]") from error

from . import export
from .graph import ChangesConstant
from .program import TracedProgram, compile_trace


def compile(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, options: dict[str, Any]) -> TracedProgram:
    """The program of a module, a function or an exported program."""
    if isinstance(model, torch.export.ExportedProgram):
        return compile_trace(export.trace(model), options)
    if isinstance(model, torch.nn.Module):
        if dynamic_shapes not in ("auto", None) or model.training and any(True for _ in model.buffers()):
            return compile_trace(export.trace(export.export(model, args, kwargs, dynamic_shapes)), options)
        try:
            trace = _recorder().record_module(model, args, kwargs, dynamic_shapes)
        except ChangesConstant:
            # A module that changes its buffers: PyTorch's export makes inputs and outputs of them.
            trace = export.trace(export.export(model, args, kwargs, dynamic_shapes))
        return compile_trace(trace, options)
    recorder = _recorder()
    if isinstance(model, recorder.Method):
        return compile_trace(recorder.record(model.__func__, model.__self__, args, kwargs, dynamic_shapes), options)
    if not isinstance(model, (types.FunctionType, types.MethodType, recorder.Function)):
        call = getattr(model, "__call__", None)
        if not isinstance(call, types.MethodType):
            return compile_trace(recorder.record_callable(model, args, kwargs, dynamic_shapes), options)
        model = call
    return compile_trace(recorder.record(model, None, args, kwargs, dynamic_shapes), options)


def function(target: Any, results: Any, options: dict[str, Any]) -> Any:
    """The function of a decorator."""
    return _recorder().Function(target, results, options)


def eager() -> Any:
    return _recorder().eager()


def _recorder() -> Any:
    try:
        from . import function
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "malt":
            raise
        raise ImportError("Python functions need diastatic-malt: pip install heddle-compiler[torch]") from error
    return function
