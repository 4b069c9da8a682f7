"""`heddle.ort` beside ONNX Runtime on the same models."""

import threading
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
theirs = pytest.importorskip("onnxruntime")

import heddle  # noqa: E402
import heddle.ort as ours  # noqa: E402
import onnx_models as models  # noqa: E402
from heddle.ort import _process  # noqa: E402
from heddle.ort.capi.onnxruntime_pybind11_state import (  # noqa: E402
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented,
)

X = models.ones
#: Models with inputs, by name.
RUNS = {
    "added": (models.added(), [{"x": X, "y": X}, {"x": X[:0], "y": X[:0]}, {"x": X[:1], "y": np.ones((7, 3), np.float32)}]),
    "doubled_until": (models.doubled_until(), [{"x": X[0], "limit": np.array(k, np.float32)} for k in (0, 3, 1e6)]),
    "with_default": (models.with_default(), [{"x": X[0]}, {"x": X[0], "w": X[0, :1]}, {"x": X[0, :0]}]),
    "unranked": (models.unranked(), [{"x": X}, {"x": X[None]}, {"x": X[0]}]),
    "sequence_and_optional": (models.sequence_and_optional(), [{"x": np.array([1, 2])}]),
    "text": (models.text(), [{"x": np.array(["a", "", "ü"])}, {"x": np.array(["a"], object)}]),
}


def both(model, **options):
    return theirs.InferenceSession(model, providers=["CPUExecutionProvider"]), ours.InferenceSession(model, **options)


def same(got, want):
    assert type(got) is type(want)
    if isinstance(want, list):
        assert len(got) == len(want)
        for pair in zip(got, want):
            same(*pair)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", RUNS)
def test_runs_give_the_same(name):
    model, feeds = RUNS[name]
    their, our = both(model, providers=["CPUExecutionProvider"])
    for feed in feeds:
        same(our.run(None, feed), their.run(None, feed))


@pytest.mark.parametrize("name", RUNS)
def test_ports_are_described_the_same(name):
    their, our = both(RUNS[name][0])
    for ports in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        assert [str(arg) for arg in getattr(our, ports)()] == [str(arg) for arg in getattr(their, ports)()], ports


def test_metadata_is_the_same():
    their, our = (session.get_modelmeta() for session in both(models.added()))
    names = ("producer_name", "graph_name", "domain", "description", "graph_description", "version", "custom_metadata_map")
    assert {n: getattr(our, n) for n in names} == {n: getattr(their, n) for n in names}
    assert our.custom_metadata_map == {"a": "b"} and our.version == 4


def test_outputs_are_chosen_by_name():
    their, our = both(models.doubled_until())
    feed = {"x": X[0], "limit": np.array(9, np.float32)}
    for names in (["steps"], ["steps", "y"], ["y", "y"], [], None):
        same(our.run(names, feed), their.run(names, feed))


def test_files_are_models(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(models.added())
    for source in (str(path), path):
        assert ours.InferenceSession(source).run(None, {"x": X, "y": X})[0].sum() == 12


@pytest.mark.parametrize("feed", [
    {"x": X, "y": X.astype(np.float64)}, {"x": X, "y": X[0]}, {"x": X, "y": np.ones((2, 4), np.float32)}, {"x": X, "y": X, "q": X}, {"x": X},
])
def test_wrong_inputs_have_the_names_of_their_errors(feed):
    their, our = both(models.added())
    with pytest.raises(Exception) as wanted:  # noqa: B017 - whichever it is
        their.run(None, feed)
    with pytest.raises(Exception) as caught:  # noqa: B017
        our.run(None, feed)
    assert caught.type.__name__ == wanted.type.__name__


def test_other_errors_have_the_names_of_theirs(tmp_path):
    session = ours.InferenceSession(models.added())
    with pytest.raises(InvalidArgument, match="nope"):
        session.run(["nope"], {"x": X, "y": X})
    with pytest.raises(NoSuchFile):
        ours.InferenceSession(str(tmp_path / "none.onnx"))
    with pytest.raises(InvalidProtobuf):
        ours.InferenceSession(b"garbage")
    with pytest.raises(NotImplemented, match="Foo") as caught:
        ours.InferenceSession(models.unknown_operator())
    assert isinstance(caught.value, heddle.Error)
    with pytest.raises(TypeError):
        ours.InferenceSession(3)
    with pytest.raises(NotImplemented):
        ours.SessionOptions().register_custom_ops_library("ops.so")


def test_terminate_ends_a_run_and_the_next_is_right():
    session, options = ours.InferenceSession(models.forever()), ours.RunOptions()
    threading.Timer(0.1, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(Fail, match="terminate"):
        session.run(None, {"x": np.array(1, np.float32)}, options)
    with pytest.raises(Fail, match="terminate"):
        session.run(None, {"x": np.array(2, np.float32)}, options)
    options.terminate = False
    assert session.run(None, {"x": np.array(2, np.float32)}, options)[0] == 4


def test_options_without_meaning_are_named_once():
    _process._WARNED.clear()
    options = ours.SessionOptions()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        options.enable_mem_pattern = True
        options.intra_op_num_threads = 2
        options.graph_optimization_level = ours.GraphOptimizationLevel.ORT_DISABLE_ALL
        assert seen == []
        for _ in range(2):
            options.enable_mem_pattern = False
            options.execution_mode = ours.ExecutionMode.ORT_PARALLEL
            options.add_session_config_entry("session.x", "1")
        ours.InferenceSession(models.added(), options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    texts = [str(w.message) for w in seen]
    assert len(texts) == 4
    for part in ("enable_mem_pattern", "execution_mode", "session.x", "CUDAExecutionProvider"):
        assert sum(part in text for text in texts) == 1
    assert options.get_session_config_entry("session.x") == "1" and options.enable_mem_pattern is False
    with pytest.raises(RuntimeError):
        options.get_session_config_entry("y")
    with pytest.raises(AttributeError):
        options.nope = 1
    with pytest.raises(TypeError):
        options.intra_op_num_threads = "two"


def test_session_options_and_run_options_have_the_defaults_of_theirs():
    for name in ("SessionOptions", "RunOptions"):
        their, our = getattr(theirs, name)(), getattr(ours, name)()
        for attribute in dir(their):
            value = getattr(their, attribute)
            if attribute.startswith("_") or callable(value):
                continue
            got = getattr(our, attribute)
            assert (int(got), got.name) == (int(value), value.name) if hasattr(value, "name") else got == value, attribute


def bound(runtime, session):
    binding, memory = session.io_binding(), np.zeros((2, 3), np.float32)
    binding.bind_cpu_input("x", X)
    binding.bind_input("y", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, memory.shape, memory.ctypes.data)
    session.run_with_iobinding(binding)
    first = memory.copy()
    value = runtime.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_input("y", runtime.OrtValue.ortvalue_from_numpy(2 * X))
    binding.bind_ortvalue_output("z", value)
    session.run_with_iobinding(binding)
    second = value.numpy().copy()
    binding.clear_binding_outputs()
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    return [first, second, *binding.copy_outputs_to_cpu(), binding.get_outputs()[0].numpy()]


def test_bindings_give_the_same():
    their, our = both(models.added())
    same(bound(ours, our), bound(theirs, their))
    binding = our.io_binding()
    with pytest.raises(InvalidArgument):
        binding.bind_cpu_input("nope", X)
    with pytest.raises(InvalidArgument):
        binding.bind_output("z", "cuda")
    with pytest.raises(ValueError):
        ours.InferenceSession(models.added()).run_with_iobinding(binding)
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", X)
    small = ours.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
    binding.bind_ortvalue_output("z", small)
    with pytest.raises(InvalidArgument, match="shape"):
        our.run_with_iobinding(binding)


def test_values_say_what_theirs_do():
    for array in (X, np.array([1, 2]), np.zeros((0, 2), bool), np.array(3, np.float16)):
        values = [runtime.OrtValue.ortvalue_from_numpy(array) for runtime in (theirs, ours)]
        told = [(v.shape(), v.data_type(), v.element_type(), v.device_name(), v.is_tensor(), v.has_value()) for v in values]
        assert told[0] == told[1]
        assert values[1].data_ptr() == array.ctypes.data
    value = ours.OrtValue.ortvalue_from_numpy(X.copy())
    value.update_inplace(3 * X)
    assert value.numpy().sum() == 18 and np.asarray(value).sum() == 18
    with pytest.raises(InvalidArgument):
        value.update_inplace(X[:1])
    session = ours.InferenceSession(models.added())
    assert session.run_with_ort_values(["z"], {"x": value, "y": value})[0].numpy().sum() == 36


def test_run_async_calls_back():
    session, seen, done = ours.InferenceSession(models.added()), [], threading.Event()

    def callback(results, user_data, error):
        seen.append((results, user_data, error))
        done.set()

    session.run_async(None, {"x": X, "y": X}, callback, "mine")
    assert done.wait(60)
    results, user_data, error = seen[0]
    assert results[0].sum() == 12 and user_data == "mine" and error == ""
    done.clear()
    session.run_async(None, {"x": X, "y": np.ones((2, 4), np.float32)}, callback, None)
    assert done.wait(60)
    assert seen[1][0] == [] and "y" in seen[1][2]
    with pytest.raises(ValueError):
        session.run_async(None, {"x": X}, callback, None)


def test_threads_share_a_session():
    session, results = ours.InferenceSession(models.unranked()), [None] * 8

    def work(k):
        x = np.full((1,) * (k % 4) + (2, 3), k, np.float32)
        results[k] = all((session.run(None, {"x": x})[0] == x.T).all() for _ in range(20))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [True] * 8


def test_the_process():
    assert ours.get_device() == "CPU" and ours.get_available_providers() == ["CPUExecutionProvider"]
    session = ours.InferenceSession(models.added())
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
