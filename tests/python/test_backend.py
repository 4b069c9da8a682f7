"""ONNX's own tests of back ends on `heddle.backend`: node cases, simple models, and those that PyTorch exported.

Cases that fail are listed with reasons, here and in tests/onnx/known.txt; one that passes though it is listed fails. `HEDDLE_BACKEND_DEVICE=interp`
runs them on the interpreter."""

import os
import re
import unittest
import warnings
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import heddle  # noqa: E402
import heddle.backend  # noqa: E402

KNOWN = Path(__file__).parent.parent / "onnx" / "known.txt"

#: Besides those of known.txt: name, reason.
LISTED = {
    "test_gradient_of_add": "unsupported: the operator Gradient",
    "test_gradient_of_add_and_mul": "unsupported: the operator Gradient",
    "test_loop16_seq_none": "the runner asks for the length of a sequence's elements, which are scalars",
}


class Backend(heddle.backend.HeddleBackend):
    """On the device that the environment names."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        # What is not supported fails, and is listed.
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        return super().prepare(model, device, interpret=os.environ.get("HEDDLE_BACKEND_DEVICE") == "interp", **kwargs)


def listed():
    lines = (line.split("#")[0].split(None, 1) for line in KNOWN.read_text().splitlines())
    return {name for name, _ in filter(None, lines)} | set(LISTED)


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

        tests = BackendTest(Backend, __name__)
    # Large models, whose files are not in the package.
    tests.exclude(r"^test_(bvlc_alexnet|densenet121|inception_v1|inception_v2|resnet50|shufflenet|squeezenet|vgg19|zfnet512)_")
    for name in listed():
        tests.xfail(f"^{re.escape(name)}_cpu$")
    return tests.test_cases


globals().update(cases())


def test_each_listed_case_exists():
    names = {name for case in globals().values() if isinstance(case, type) and issubclass(case, unittest.TestCase) for name in dir(case)}
    assert [name for name in listed() if f"{name}_cpu" not in names] == []


def test_a_node_alone():
    node = onnx.helper.make_node("Concat", ["a", "b", "a"], ["c"], axis=0)
    a, b = np.ones((1, 2), np.float32), np.zeros((3, 2), np.float32)
    for inputs in ([a, b], {"a": a, "b": b}):
        outputs = heddle.backend.run_node(node, inputs)
        assert outputs[0].tolist() == np.concatenate([a, b, a]).tolist() and outputs["c"] is not None
    node = onnx.helper.make_node("Split", ["x"], ["p", "q"], axis=0)
    p, q = heddle.backend.run_node(node, [np.arange(4)], opset_version=13, outputs_info=[(np.int64, (2,)), (np.int64, (2,))])
    assert (p.tolist(), q.tolist()) == ([0, 1], [2, 3])


def test_models_and_devices():
    import onnx_models

    model = onnx.load_from_string(onnx_models.added())
    x = np.ones((2, 3), np.float32)
    assert heddle.backend.run_model(model, [x, x])[0].sum() == 12
    prepared = heddle.backend.prepare(model, threads=1)
    assert prepared.run({"x": x, "y": x}).z.sum() == 12
    with pytest.raises(heddle.InputError):
        prepared.run([x, x, x])
    assert heddle.backend.is_compatible(model)
    assert not heddle.backend.is_compatible(onnx.load_from_string(onnx_models.unknown_operator()))
    assert heddle.backend.supports_device("CPU") and not heddle.backend.supports_device("CUDA")
    assert not heddle.backend.supports_device("TPU")
    with pytest.raises(heddle.InputError):
        heddle.backend.prepare(model, "CUDA")
