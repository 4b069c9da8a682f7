"""Modules of PyTorch and exported programs, beside eager: open sizes at three lengths, PyTorch's control flow, recurrent modules."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._higher_order_ops import while_loop  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import heddle  # noqa: E402

DEVICES = pytest.mark.parametrize("device", ["interp", "cpu"])


def same(found, wanted, rtol=1e-4, atol=1e-5):
    flat = torch.utils._pytree.tree_leaves
    found, wanted = flat(found), flat(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.is_floating_point:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
        else:
            assert torch.equal(a, b)


def check(module, *examples, **options):
    """Compiles for the first example and runs on all."""
    module = module.eval()
    program = heddle.compile(module, *examples[0], **options)
    for example in examples:
        with torch.no_grad():
            same(program(*example), module(*example))
    return program


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x, *, scale=1.0):
        return self.norm(x + self.second(torch.relu(self.first(x)))) * scale


@DEVICES
def test_a_module_at_three_sizes(device):
    torch.manual_seed(0)
    program = check(Residual(), (torch.randn(5, 8),), (torch.randn(2, 8),), (torch.randn(31, 8),), device=device)
    assert list(program.inputs) == ["x"] and list(program.outputs) == ["y"]


def test_keywords_and_constants():
    torch.manual_seed(0)
    module, x = Residual().eval(), torch.randn(3, 8)
    program = heddle.compile(module, x, kwargs={"scale": 2.0}, device="interp")
    same(program(x, scale=2.0), module(x, scale=2.0).detach())
    with pytest.raises(heddle.InputError, match="constant"):
        program(x, scale=3.0)
    with pytest.raises(heddle.InputError, match="arguments"):
        program(x)


class Structured(nn.Module):
    def forward(self, pair, named):
        return {"sum": pair[0] + named["z"], "rest": [pair[1] * 2, None, 3]}


def test_structures_go_in_and_come_out():
    a, b, z = torch.randn(3), torch.arange(4), torch.randn(3)
    program = heddle.compile(Structured(), (a, b), {"z": z}, device="interp")
    found = program((a, b), {"z": z})
    assert torch.equal(found["sum"], a + z) and torch.equal(found["rest"][0], b * 2) and found["rest"][1:] == [None, 3]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_modules_at_three_lengths(kind, bidirectional, layers):
    torch.manual_seed(1)
    module = kind(6, 5, num_layers=layers, bidirectional=bidirectional, batch_first=layers == 2)
    check(module, (torch.randn(4, 3, 6),), (torch.randn(7, 2, 6),), (torch.randn(2, 11, 6),), device="interp")


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.up(x), lambda x: self.down(x).tanh(), (x,))


class While(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x, n):
        def test(i, h):
            return i < n

        def body(i, h):
            return i + 1, torch.cond(h.sum() > 0, lambda h: torch.tanh(self.cell(h)), lambda h: h + 0.5, (h,))

        return while_loop(test, body, (torch.zeros((), dtype=torch.int64), x.clone()))


class Scan(nn.Module):
    def forward(self, x):
        return scan(lambda h, row: (h * 0.5 + row, h + row), torch.zeros(4), x)


EXPORTED = [
    (Cond, [(torch.randn(3, 4),), (-torch.rand(5, 4),), (torch.rand(2, 4),)]),
    (While, [(torch.randn(3, 4), torch.tensor(3)), (torch.randn(5, 4), torch.tensor(0)), (torch.randn(2, 4), torch.tensor(7))]),
    (Scan, [(torch.randn(3, 4),), (torch.randn(5, 4),), (torch.randn(2, 4),)]),
]


@pytest.mark.parametrize("kind,examples", EXPORTED, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_control_flow_of_exported_programs(kind, examples, device):
    torch.manual_seed(2)
    module = kind().eval()
    auto = torch.export.Dim.AUTO
    shapes = tuple({0: auto} if a.dim() else None for a in examples[0])
    with torch.no_grad():
        exported = torch.export.export(module, examples[0], dynamic_shapes=shapes)
        program = heddle.compile(exported, device=device)
        for example in examples:
            same(program(*example), module(*example))


@pytest.mark.parametrize("kind,examples", EXPORTED[:2], ids=lambda v: getattr(v, "__name__", ""))
def test_control_flow_of_modules(kind, examples):
    torch.manual_seed(2)
    check(kind(), *examples, device="interp")


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_buffers_that_a_run_changes_are_written_back():
    module = Counting()
    program = heddle.compile(module, torch.ones(3), device="interp")
    calls = int(module.calls)
    assert program(torch.ones(3)).tolist() == [calls + 1] * 3
    assert program(torch.ones(3)).tolist() == [calls + 2] * 3 and int(module.calls) == calls + 2


def test_lines_are_named():
    class Bad(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[1]

    with pytest.raises(heddle.Unsupported) as caught:
        heddle.compile(Bad(), torch.randn(3, 3))
    assert "svd" in str(caught.value) and "test_modules.py" in str(caught.value)


def test_numpy_goes_in_too():
    program = heddle.compile(Residual().eval(), torch.randn(5, 8), device="interp")
    assert isinstance(program.run({"x": np.zeros((2, 8), np.float32)})["y"], np.ndarray)


def test_one_source_for_any_length():
    torch.manual_seed(1)
    module = nn.LSTM(6, 5, num_layers=2).eval()
    first, second = (heddle.compile(module, torch.randn(n, 3, 6)).source("c") for n in (5, 50))
    assert first == second


class Spectrum(nn.Module):
    """Complex numbers between real ones, one of them a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x):
        y = torch.fft.rfft(x)
        return torch.fft.irfft(y * self.turn, n=6), y.abs(), torch.view_as_real(y.transpose(0, 1)), torch.fft.fft(x).real


def test_fourier_transforms():
    check(Spectrum(), (torch.randn(5, 6),), (torch.randn(7, 6),), (torch.randn(2, 6),), device="interp")


def test_dropout_between_layers_is_ours():
    torch.manual_seed(1)
    module = nn.LSTM(6, 5, num_layers=3, dropout=0.5).train()
    program, x = heddle.compile(module, torch.randn(4, 3, 6), device="interp"), torch.randn(4, 3, 6)
    inputs = dict(zip(program.inputs, [x]))
    one, again, other = (program.run(inputs, seed=s) for s in (1, 1, 2))
    first = next(iter(one))
    assert torch.equal(one[first], again[first]) and not torch.equal(one[first], other[first])


def test_as_strided_of_an_exported_program():
    class Strided(nn.Module):
        def forward(self, x):
            return x.t().contiguous().as_strided((3, 2), (2, 1), 1), (x * 2).t().as_strided((2, 2), (1, 2))

    x = torch.randn(4, 5)
    program = heddle.compile(torch.export.export(Strided(), (x,)), device="interp")
    same(program(x), Strided()(x))
    module = heddle.compile(Strided(), x, device="interp")
    same(module(x), Strided()(x))
