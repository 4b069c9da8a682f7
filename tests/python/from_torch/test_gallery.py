"""The programs of examples/python, at small sizes, beside PyTorch itself."""

import functools
import importlib
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

import heddle  # noqa: E402

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "python"
SMALL = {
    "translation": dict(width=16, steps=3),
    "transducer": dict(frames=12, features=5, width=16, symbols=7),
    "early_exit": dict(words=50, width=32, layers=3),
    "tree_lstm": dict(width=8),
    "ode": dict(points=7, width=8),
    "gpt": dict(words=20, width=64, layers=2, length=5, limit=12),
}


@pytest.fixture
def example(request, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module(request.param)
    monkeypatch.setattr(module, "make", functools.partial(module.make, **SMALL[request.param]))
    return module


def test_all_are_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL)


@pytest.mark.parametrize("example", SMALL, indirect=True)
def test_results_are_eager_ones(example, monkeypatch, capsys):
    model, calls, *_ = example.make()
    program = heddle.compile(model, *calls[0], threads=2)
    # One program for all sizes, without a part for the interpreter.
    assert program.device == "cpu" and not program.report["interpreted"]
    with torch.no_grad():
        for call in calls:
            with heddle.eager():
                wanted = torch.utils._pytree.tree_leaves(model(*call))
            found = torch.utils._pytree.tree_leaves(program(*call))
            assert len(found) == len(wanted)
            for a, b in zip(found, wanted):
                torch.testing.assert_close(a, torch.as_tensor(b), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(sys, "argv", [example.__name__])
    example.main()
    assert len(capsys.readouterr().out.splitlines()) >= 3
