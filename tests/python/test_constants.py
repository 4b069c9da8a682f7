"""Other values for initializers, without another build."""

import os
import shutil

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import heddle  # noqa: E402
import heddle.ort as ours  # noqa: E402
import onnx_models as models  # noqa: E402
from onnx import helper  # noqa: E402

SIZE = 33


def dense():
    """`z = tanh(x @ w)`."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["p"], ["z"])]
    w = helper.make_tensor("w", models.FLOAT, [SIZE, SIZE], np.full(SIZE * SIZE, 0.01, np.float32))
    return models.model(nodes, [models.value("x", shape=["n", SIZE])], [models.value("z", shape=["n", SIZE])], [w])


X = np.linspace(-1, 1, 5 * SIZE, dtype=np.float32).reshape(5, SIZE)
W = np.linspace(-1, 1, SIZE * SIZE, dtype=np.float32).reshape(SIZE, SIZE)


@pytest.mark.parametrize("w", [W, W.T, W[::-1], W * 0])
@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_other_weights(device, w):
    p = heddle.compile(heddle.load(dense(), constants={"w": w}), device=device)
    np.testing.assert_allclose(p(X), np.tanh(X @ w), rtol=1e-4, atol=1e-5)


def test_the_compiler_is_called_once(tmp_path):
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("there is no gcc")
    own, calls = tmp_path / "own", tmp_path / "calls"
    own.write_text(f'#!/bin/sh\necho call >> "{calls}"\nPATH="{os.environ["PATH"]}" exec "{gcc}" "$@"\n')
    own.chmod(0o755)
    options, counts = dict(compiler=str(own), cache=tmp_path / "cache"), []
    for k in range(4):
        p = heddle.compile(heddle.load(dense(), constants={"w": W * k}), **options)
        np.testing.assert_allclose(p(X), np.tanh(X @ (W * k)), rtol=1e-4, atol=1e-5)
        counts.append(len(calls.read_text().split()))
    assert counts == counts[:1] * 4


def test_what_does_not_fit_is_named():
    for name, w, part in (("v", W, "no initializer"), ("w", W[0], r"f32\[33,33\]"), ("w", W.astype(np.float64), "f64")):
        with pytest.raises(heddle.InputError, match=part):
            heddle.load(dense(), constants={name: w})
    with pytest.raises(heddle.InputError, match=r"\.onnx and \.pt2 models only"):
        heddle.load(b"fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  return %x\n}\n", format="heddle", constants={"w": W})


def test_sessions_take_initializers_as_theirs_do():
    theirs = pytest.importorskip("onnxruntime")
    results = []
    for runtime in (theirs, ours):
        options, value = runtime.SessionOptions(), runtime.OrtValue.ortvalue_from_numpy(W)
        options.add_initializer("w", value)
        results.append(runtime.InferenceSession(dense(), options, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)
    options = ours.SessionOptions()
    options.add_external_initializers(["nope"], [ours.OrtValue.ortvalue_from_numpy(W)])
    with pytest.raises(ours.capi.onnxruntime_pybind11_state.InvalidArgument):
        ours.InferenceSession(dense(), options)
