"""Comparisons, times, entries, and what notebooks show."""

import os
import signal
import threading

import numpy as np
import pytest

import heddle
from heddle import _html

TEXT = """entry @main
entry next = @step
fn @main(%x: f32[n,4], %k: i64[]) -> (%y: f32[n,4], %steps: i64[]) {
  %y = loop trip %k carry (%h: f32[n,4] = %x) {
    continue carry call @step(%h)
  }
  return %y, add(%k, 0)
}

fn @step(%h: f32[n,4]) -> (%y: f32[n,4]) {
  %w = const splat 0.25: f32[4,4]
  %big = const splat 0.125: f32[70,4]
  return tanh(add(dot(%h, %w), gather(%big, 3, axis=0)))
}
"""
#: Changes of case, which are left to the interpreter.
REPEATED = """fn @main(%s: str[?], %k: i64[]) -> (%t: str[?]) {
  %t = loop trip %k carry (%u: str[?] = %s) {
    continue carry str_normalize(concat(%u, %u, axis=0), case=upper)
  }
  return %t
}
"""
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def model():
    return heddle.load(TEXT.encode(), format="heddle")


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_check_beside_the_interpreter_and_expected_values(device):
    p = heddle.compile(model(), device=device)
    for n in (0, 1, 3):
        checked = heddle.check(p, {"x": X[:n], "k": 3}, rtol=1e-5)
        assert checked and [o.name for o in checked.outputs] == ["y", "steps"]
        assert checked.outputs[0].elements == 4 * n and "agrees" in str(checked)
    y, _ = p(X, 3)
    assert heddle.check(p, {"x": X, "k": 3}, {"y": y.astype(np.float64)}, rtol=0, atol=0)
    wrong = y.copy()
    wrong[1, 2] += 1
    checked = heddle.check(p, {"x": X, "k": 3}, {"y": wrong, "steps": 4})
    assert not checked and [o.agrees for o in checked.outputs] == [False, False]
    assert "[1, 2]" in checked.outputs[0].text and "DIFFERS" in checked._repr_html_()
    assert not heddle.check(p, {"x": X, "k": 3}, {"y": y[:1]})
    with pytest.raises(heddle.InputError, match="z"):
        heddle.check(p, {"x": X, "k": 3}, {"z": y})
    with pytest.raises(heddle.InputError, match="tolerance"):
        heddle.check(p, {"x": X, "k": 3}, {"y": y}, rtol=-1)
    with pytest.raises(heddle.LimitReached):
        heddle.check(p, {"x": X, "k": 1000}, max_iterations=10)
    with pytest.raises(TypeError, match="depth"):
        heddle.check(p, {"x": X, "k": 3}, depth=10)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_bench(device):
    p = heddle.compile(model(), device=device)
    times = heddle.bench(p, {"x": X, "k": 3}, seconds=0, runs=5)
    assert len(times.times) == 5 and 0 < times.least <= times.median <= times.most < 10
    assert "5 runs" in str(times) and "median" in repr(times)
    assert len(heddle.bench(p, {"x": X, "k": 3}, seconds=0.05).times) >= 3
    with pytest.raises(heddle.InputError, match="seconds"):
        heddle.bench(p, {"x": X, "k": 3}, seconds=-1)
    with pytest.raises(heddle.Timeout):
        heddle.bench(p, {"x": X, "k": 1 << 40}, timeout=0.05, max_iterations=1 << 62)


def test_ctrl_c_ends_a_bench():
    p = heddle.compile(model())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            heddle.bench(p, {"x": X, "k": 1 << 40}, max_iterations=1 << 62, timeout=60)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_entries(device):
    programs = heddle.compile(model(), entries=["main", "next"], device=device)
    assert list(programs) == ["main", "next"] and programs["next"].inputs == {"h": "f32[n,4]"}
    y = X
    for _ in range(3):
        y = programs["next"](y)
    np.testing.assert_allclose(programs["main"](X, 3)[0], y, rtol=1e-6)
    assert model().entry == "main" and model().with_entry("next").entry == "next"
    with pytest.raises(heddle.Error, match="other"):
        heddle.compile(model(), entries=["other"])


def test_notebooks():
    m = heddle.load("fn @main(%x: str[n], %y: f32[n]) -> (%\"<b>\": f32[n]) {\n  return add(%y, %y)\n}\n".encode(), format="heddle")
    p = heddle.compile(m)
    for shown in (m._repr_html_(), p._repr_html_()):
        assert "&lt;b&gt;" in shown and "<b>:" not in shown and "f32[n]" in shown
        assert shown.count("<table>") == shown.count("</table>")
    assert "next" in model()._repr_html_()
    report = heddle.compile(model(), verify=True).report
    assert report["verified"] and "proven sound" in report._repr_html_()
    assert report["stages"]["lower"] >= 0 and report["compiled_parts"] is None
    interpreted = heddle.compile(heddle.load(
        b"fn @main(%x: f32[n], %s: str[m]) -> (%y: f32[n], %t: str[?]) {\n  return mul(%x, %x), str_normalize(%s)\n}\n", format="heddle")).report
    assert len(interpreted["interpreted"]) >= 1 and "left to the interpreter" in interpreted._repr_html_()


def test_outlines():
    outline = model().outline()
    assert [p["name"] for p in outline["inputs"]] == ["x", "k"] and outline["ir_ops"]["dot"] == 1
    main, step = outline["functions"]
    (loop,) = main["control_flow"]
    assert (loop["kind"], loop["trip"], step["control_flow"]) == ("loop", "input k", [])
    (body,) = loop["inside"]
    assert [(node["kind"], node["name"]) for node in body["inside"]] == [("call", "@step")]
    # A program of which something is left to the interpreter says so at its node.
    p = heddle.compile(heddle.load(REPEATED.encode(), format="heddle"))
    assert p.outline()["compiled"]["interpreted"] and "interpreted" in str(p.outline()["functions"])


def test_notebooks_show_control_flow_as_a_tree():
    # A program has the call inlined.
    for shown, inside in ((model()._repr_html_(), "<b>call</b> @step"), (heddle.compile(model())._repr_html_(), "")):
        assert shown.index("<summary><b>loop</b>") < shown.index("<b>body</b>", shown.index("loop")) and inside in shown
        assert shown.count("<details") == shown.count("</details>") >= 1
    plain = heddle.load(b"fn @main(%x: f32[n]) -> (%y: f32[n]) {\n  return mul(%x, %x)\n}\n", format="heddle")
    assert "control flow" not in plain._repr_html_()
    outline = model().outline()
    outline["functions"][1]["name"] = "<script>"
    outline["functions"][0]["control_flow"][0]["name"] = "<script>"
    outline["functions"][0]["control_flow"][0]["trip"] = "<script>"
    outline["recursion"] = [["<script>"]]
    shown = _html.control_flow(outline)
    assert "<script>" not in shown and shown.count("&lt;script&gt;") >= 3


def test_a_bar_counts_the_seconds_of_compiling(monkeypatch, capsys):
    pytest.importorskip("tqdm")
    from heddle import _progress

    native = _progress._native.compile
    slow = threading.Event()

    def compile_slowly(m, options):
        slow.wait(0.1)
        return native(m, options)

    monkeypatch.setattr(_progress, "_native", type("", (), {"compile": staticmethod(compile_slowly)}))
    heddle.compile(model(), device="interp")
    assert "compiling" not in capsys.readouterr().err
    monkeypatch.setattr(_progress, "_is_seen", lambda: True)
    monkeypatch.setattr(_progress, "DELAY", 0.01)
    p = heddle.compile(model(), device="interp")
    assert "compiling" in capsys.readouterr().err
    assert heddle.check(p, {"x": X, "k": 3})
    with pytest.raises(heddle.Error):
        heddle.compile(model(), device="none")
    assert not any(thread.name.endswith("(_show)") for thread in threading.enumerate())
