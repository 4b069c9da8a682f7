"""Exports functions of other frameworks than torch, with their results; ../export_models.py names
the packages."""
import importlib
import os
import tempfile
from pathlib import Path

import numpy as np
import onnx

from .table import JAX, SKLEARN, TF

OPSET = 18


def foreign(program, exporter: str):
    """The model, and (inputs, outputs) of each run in the graph's order."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return {TF: from_tf, JAX: from_jax, SKLEARN: from_sklearn}[exporter](program)


def flat(results):
    """The arrays of a result, in order."""
    if isinstance(results, (tuple, list)):
        return [r for part in results for r in flat(part)]
    return [np.asarray(results)]


def from_tf(program):
    """By tf2onnx, results by TensorFlow."""
    tf, tf2onnx = (importlib.import_module(name) for name in ("tensorflow", "tf2onnx"))
    dtypes = [value.dtype for value in program.runs[0]]
    signature = [tf.TensorSpec(shape, dtype, name=f"in{k}")
                 for k, (shape, dtype) in enumerate(zip(program.axes, dtypes))]
    function = tf.function(program.make(tf), input_signature=signature)
    model, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=OPSET)
    places = [int(i.name.removeprefix("in").split(":")[0]) for i in model.graph.input]
    data = []
    for inputs in program.runs:
        results = flat(function(*(tf.constant(v) for v in inputs)))
        data.append(([inputs[k] for k in places], results))
    return model, data


def from_jax(program):
    """By jax2onnx, results by JAX."""
    jax, jax2onnx = (importlib.import_module(name) for name in ("jax", "jax2onnx"))
    function = program.make(jax)
    shapes = [jax.ShapeDtypeStruct(shape, value.dtype) if all(isinstance(n, int) for n in shape)
              else shape for shape, value in zip(program.axes, program.runs[0])]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        jax2onnx.to_onnx(function, shapes, model_name="model", opset=OPSET, return_mode="file",
                         output_path=str(path))
        model = onnx.load(path)
    data = [(list(inputs), flat(function(*inputs))) for inputs in program.runs]
    return model, data


def from_sklearn(program):
    """By skl2onnx, results by scikit-learn."""
    skl2onnx = importlib.import_module("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType
    fitted = program.make(importlib.import_module("sklearn"))
    shape = list(program.axes[0])
    model = skl2onnx.convert_sklearn(fitted, initial_types=[("in0", FloatTensorType(shape))],
                                     target_opset={"": OPSET, "ai.onnx.ml": 3})
    data = []
    for (x,) in program.runs:
        y = fitted.predict(x).astype(np.float32)
        data.append(([x], [y.reshape(-1, 1)]))
    return model, data
