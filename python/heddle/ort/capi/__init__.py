"""The modules in which users find ONNX Runtime's exceptions."""

from . import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
