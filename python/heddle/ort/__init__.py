"""The interface of ONNX Runtime: `import heddle.ort as onnxruntime`.

A session runs on the processor, compiled by Heddle. Options of ONNX Runtime that mean nothing here are named in a warning, once.
"""

from __future__ import annotations

from .. import __version__
from . import capi
from ._binding import IOBinding
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._process import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from ._session import InferenceSession, ModelMetadata, NodeArg
from ._value import OrtValue

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtValue",
    "RunOptions", "SessionOptions", "__version__", "capi", "disable_telemetry_events", "enable_telemetry_events", "get_all_providers",
    "get_available_providers", "get_build_info", "get_device", "get_version_string", "set_default_logger_severity",
    "set_default_logger_verbosity", "set_seed",
]
