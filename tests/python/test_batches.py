"""Programs for many instances."""

import pickle

import numpy as np
import pytest

import heddle

# The state after the words of a sentence, and each state on the way; fails for a word that is not in the table.
NETWORK = """fn @main(%words: i64[n], %table: f32[v,2], %w: f32[4,2], %h0: f32[2]) -> (%h: f32[2], %all: f32[?,2]) {
  %n = squeeze(shape(%words), axes=[0])
  %h: f32[2], %all: f32[?,2] = loop %t trip %n carry (%h1: f32[2] = %h0) {
    %x = gather(%table, gather(%words, %t, axis=0), axis=0)
    %next = squeeze(tanh(dot(unsqueeze(concat(%x, %h1, axis=0), axes=[0]), %w)), axes=[0])
    continue carry %next stack %next
  }
  return %h, %all
}
"""
RNG = np.random.default_rng(0)
WEIGHTS = {"table": RNG.normal(size=(7, 2)).astype("f"), "w": RNG.normal(size=(4, 2)).astype("f")}
DEVICES = pytest.mark.parametrize("device", ["interp", "cpu"])


def model():
    return heddle.load(NETWORK.encode(), format="heddle")


def instance(length):
    return {"words": RNG.integers(0, 7, length), "h0": RNG.normal(size=2).astype("f")}


def alone(instances):
    program = heddle.compile(model(), device="interp")
    return [program.run({**i, **WEIGHTS}) for i in instances]


@DEVICES
@pytest.mark.parametrize("lengths", [[], [3], [0, 5, 1, 2, 2, 7, 0]])
def test_results_are_those_of_each_alone(device, lengths):
    program = heddle.compile(model(), batch_of=["words", "h0"], device=device, threads=2)
    assert program.forms == {"words": "ragged", "h0": "stacked", "h": "stacked", "all": "ragged"}
    instances = [instance(n) for n in lengths]
    found = program.run_batch(instances, weights=WEIGHTS)
    assert len(found) == len(instances)
    for got, want in zip(found, alone(instances)):
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


@DEVICES
@pytest.mark.parametrize("shapes", [[], [(2, 3)], [(1, 4), (0, 2), (3, 3), (5, 1)]])
def test_arrays_that_differ_in_several_axes_are_flat(device, shapes):
    text = "fn @main(%x: f32[n,m]) -> (%y: f32[n,m]) {\n  return mul(%x, 2.0)\n}\n"
    program = heddle.compile(heddle.load(text.encode(), format="heddle"), batch_of={"x": "flat"}, device=device)
    assert program.forms == {"x": "flat", "y": "flat"}
    instances = [{"x": RNG.normal(size=shape).astype("f")} for shape in shapes]
    found = program.run_batch(instances)
    assert [r["y"].shape for r in found] == shapes
    for got, given in zip(found, instances):
        np.testing.assert_array_equal(got["y"], 2 * given["x"])


def test_batched_arrays_go_in_as_they_are():
    program = heddle.compile(model(), batch_of=["words", "h0"], device="interp")
    words = {"words": np.array([3, 1, 4], "i8"), "words.offsets": np.array([0, 2, 3], "i8")}
    results = program.run({**words, "h0": np.zeros((2, 2), "f"), **WEIGHTS})
    assert results["h"].shape == (2, 2) and results["all.offsets"].tolist() == [0, 2, 3]


@DEVICES
def test_an_instance_that_fails_is_named_or_left_out(device):
    program = heddle.compile(model(), batch_of=["words", "h0"], device=device)
    instances = [instance(n) for n in (2, 3, 0, 4)]
    instances[1]["words"] = np.array([1, 99, 0])
    with pytest.raises(heddle.Error, match="instance 1"):
        program.run_batch(instances, weights=WEIGHTS)
    found = program.run_batch(instances, weights=WEIGHTS, keep_going=True)
    assert isinstance(found[1], heddle.Error) and "99" in str(found[1])
    rest = [0, 2, 3]
    for got, want in zip([found[k] for k in rest], alone([instances[k] for k in rest])):
        np.testing.assert_allclose(got["h"], want["h"], rtol=1e-5, atol=1e-6)


def test_forms_and_the_report():
    program = heddle.compile(model(), batch_of={"words": None, "h0": "stacked"}, device="interp")
    assert program.one_by_one == []
    blocks = program.activity([instance(2), instance(4)], weights=WEIGHTS)
    assert any(b["steps"] == 4 and b["activations"] == 6 for b in blocks), blocks


def test_limits_hold():
    program = heddle.compile(model(), batch_of=["words", "h0"], device="interp")
    with pytest.raises(heddle.LimitReached) as error:
        program.run_batch([instance(50)], weights=WEIGHTS, max_iterations=10)
    assert error.value.limit == "max_iterations"


def test_wrong_instances():
    program = heddle.compile(model(), batch_of=["words", "h0"], device="interp")
    good = instance(2)
    for instances, text in [
        ([good, {"words": good["words"]}], "instance 1 has no input `h0`"),
        ([{**good, "table": WEIGHTS["table"]}], "in which instances do not differ"),
        ([good, {**good, "h0": np.zeros(3, "f")}], "instances have the shapes"),
        ([{**good, "words": 3}], "differ in more than their first axis"),
        ([{**good, "h0": ["a"]}], "h0 of instance 0"),
    ]:
        with pytest.raises(heddle.InputError, match=text):
            program.run_batch(instances, weights=WEIGHTS)
    with pytest.raises(heddle.Error, match="is no form"):
        heddle.compile(model(), batch_of={"words": "padded"})
    with pytest.raises(heddle.Error, match="nothing"):
        heddle.compile(model(), batch_of=["nothing"])


SCALARS = "fn @main(%x: f32[], %n: i64[]) -> (%y: f32[], %m: i64[]) {\n  return mul(%x, 2.0), mul(%n, %n)\n}\n"


@DEVICES
def test_instances_of_scalars(device):
    program = heddle.compile(heddle.load(SCALARS.encode(), format="heddle"), batch_of=["x", "n"], device=device)
    found = program.run_batch([{"x": 1.5, "n": 3}, {"x": np.float32(-1), "n": np.int64(2)}, {"x": np.array(0, "f"), "n": 7}])
    assert [(float(r["y"]), int(r["m"])) for r in found] == [(3, 9), (-2, 4), (0, 49)]
    for result in found:
        assert isinstance(result["y"], np.ndarray) and result["y"].shape == () and result["y"].dtype == np.float32


def test_the_name_of_one_input():
    words = {"words": np.array([1, 2])}
    program = heddle.compile(model(), batch_of="words", device="interp")
    assert program.forms == heddle.compile(model(), batch_of=["words"], device="interp").forms
    weights = {**WEIGHTS, "h0": np.zeros(2, "f")}
    np.testing.assert_array_equal(program.run_batch([words], weights=weights)[0]["h"], alone_with(words, weights)["h"])
    with pytest.raises(TypeError, match=r"entries=\['main'\]"):
        heddle.compile(model(), entries="main")


def alone_with(given, weights):
    return heddle.compile(model(), device="interp").run({**given, **weights})


def test_pickles_run_many_instances():
    program = heddle.compile(model(), batch_of={"words": None, "h0": "stacked"}, device="interp", threads=1, max_frames=5)
    again = pickle.loads(pickle.dumps(program))
    assert isinstance(again, heddle.BatchProgram) and again.forms == program.forms and again.threads == program.threads
    instances = [instance(n) for n in (3, 0, 2)]
    for got, want in zip(again.run_batch(instances, weights=WEIGHTS), program.run_batch(instances, weights=WEIGHTS), strict=True):
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])


def test_compiling_shows_its_progress(monkeypatch):
    from heddle import _progress

    seen, shown = [], _progress.shown
    monkeypatch.setattr(_progress, "shown", lambda work: seen.append(work) or shown(work))
    heddle.compile(model(), batch_of="words", device="interp")
    assert len(seen) == 1


def test_tensors_in_and_out():
    torch = pytest.importorskip("torch")
    scalars = heddle.compile(heddle.load(SCALARS.encode(), format="heddle"), batch_of=["x", "n"], device="interp")
    (found,) = scalars.run_batch([{"x": torch.tensor(2.0), "n": torch.tensor(3)}])
    assert found["y"].shape == () and found["y"] == 4 and found["m"] == 9
    program = heddle.compile(model(), batch_of=["words", "h0"], device="interp")
    found = program.run_batch([{"words": torch.tensor([1, 2]), "h0": torch.zeros(2)}], weights=WEIGHTS)
    assert isinstance(found[0]["all"], torch.Tensor) and found[0]["all"].shape == (2, 2)
