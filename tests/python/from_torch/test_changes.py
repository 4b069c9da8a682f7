"""Weights that change: what is compiled again, counted."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402

import heddle  # noqa: E402
from heddle._trace import function as functions  # noqa: E402


class Counts:
    """Compilations, recordings, and libraries in a cache of its own."""

    def __init__(self, monkeypatch, folder):
        self.folder, self.compiled, self.recorded = folder, 0, 0
        compile, record = heddle._native.compile, functions.record

        def counted(*args):
            self.compiled += 1
            return compile(*args)

        def recorded(*args, **kwargs):
            self.recorded += 1
            return record(*args, **kwargs)

        monkeypatch.setattr(heddle._native, "compile", counted)
        monkeypatch.setattr(functions, "record", recorded)

    def __call__(self):
        return self.compiled, self.recorded, sum(1 for _ in self.folder.rglob("*.so"))


def change(model):
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.9)


def model_of(cache):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            # Constants of this size are no part of the source.
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

        @heddle.function(cache=str(cache))
        def step(self, x):
            while x.abs().max() > 1:
                x = self.first(x) * 0.1
            return self.second(x)

        def forward(self, x):
            return torch.relu(self.second(torch.tanh(self.first(x))))

    torch.manual_seed(0)
    return Model()


def test_a_function_compiles_again_twice_at_most(monkeypatch, tmp_path):
    counts, model = Counts(monkeypatch, tmp_path), model_of(tmp_path)
    x, seen = torch.randn(64) * 4, []
    with torch.no_grad():
        for _ in range(8):
            with heddle.eager():
                wanted = model.step(x)
            torch.testing.assert_close(model.step(x), wanted, rtol=1e-4, atol=1e-5)
            seen.append(counts())
            change(model)
    compiled, recorded, libraries = zip(*seen)
    # The constants' program, once more with other constants and without a C build, and the one whose weights are inputs.
    assert compiled == (1, 2, 3, 3, 3, 3, 3, 3)
    assert recorded == (1, 1, 2, 2, 2, 2, 2, 2)
    assert libraries[0] == libraries[1] and libraries[2] == libraries[-1], libraries


def test_steps_of_an_optimizer_compile_nothing(monkeypatch, tmp_path):
    counts, model = Counts(monkeypatch, tmp_path), model_of(tmp_path)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(6):
        optimizer.zero_grad()
        model.step(torch.randn(64)).pow(2).sum().backward()
        optimizer.step()
        seen.append(counts())
    assert len(set(seen)) == 1 and seen[0][0] == 1, seen


def test_torch_compile_compiles_again_twice_at_most(monkeypatch, tmp_path):
    torch._dynamo.reset()
    counts, model = Counts(monkeypatch, tmp_path), model_of(tmp_path).eval()
    fast = torch.compile(model, backend="heddle", options={"cache": str(tmp_path), "fallback": "error"})
    x, seen = torch.randn(3, 64), []
    with torch.no_grad():
        for _ in range(6):
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
            seen.append(counts())
            change(model)
    compiled, _, libraries = zip(*seen)
    assert compiled == (1, 2, 3, 3, 3, 3)
    assert libraries[0] == libraries[1] and libraries[2] == libraries[-1], libraries
