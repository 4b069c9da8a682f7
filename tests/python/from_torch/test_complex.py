"""Complex numbers as arguments and results, and what changes a tensor's shape in place."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import heddle  # noqa: E402


def complexes(*shape, dtype=torch.complex64):
    return torch.randn(shape, dtype=dtype)


def same(found, wanted):
    found, wanted = pytree.tree_leaves(found), pytree.tree_leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


CASES = {
    "product": lambda x, y: x * y - 2.5 * x,
    "quotient": lambda x, y: x / (y + 3) + 1 / (x + 3j),
    "number": lambda x, y: x * 1j + y / (1 - 2j),
    "exponential": lambda x, y: torch.exp(x) - torch.polar(x.abs(), y.angle()),
    "matrices": lambda x, y: (x @ y.mH, x.conj() @ y.real.T.to(x.dtype)),
    "parts": lambda x, y: (x.real, y.imag, x.abs(), y.angle(), x == y, torch.isnan(x)),
    "moved": lambda x, y: (torch.stack([x, y]).flip(1), x.t(), torch.cat([x, y])[1:], torch.where(x.real > 0, x, y), x.sum()),
    "kept": lambda x, y: {"x": x, "real": y.real},
    "spectrum": lambda x, y: (torch.fft.fft(x), torch.fft.ifft2(y)),
}


@pytest.mark.parametrize("name", CASES)
def test_arguments_and_results(name):
    torch.manual_seed(0)
    call = CASES[name]
    program = heddle.compile(call, complexes(5, 3), complexes(5, 3), device="interp")
    for rows in (5, 7, 2):
        x, y = complexes(rows, 3), complexes(rows, 3)
        same(program(x, y), call(x, y))
    # Lazily conjugated, and neither dense nor at the start of their memory.
    x, y = complexes(3, 5).mH, complexes(8, 6)[2:7, ::2]
    same(program(x, y), call(x, y))


def test_compiled():
    call = CASES["quotient"]
    x, y = complexes(7, 3), complexes(7, 3)
    same(heddle.compile(call, x, y)(x, y), call(x, y))


def test_double_precision_none_and_no_axes():
    x = complexes(3, dtype=torch.complex128)
    found = heddle.compile(lambda x: x * 0.1 + 1, x, device="interp")(x)
    assert found.dtype == torch.complex128 and (found - (x * 0.1 + 1)).abs().max() < 1e-15
    for x in (complexes(0, 3), complexes(3, 0), complexes()):
        same(heddle.compile(lambda x: x * 2j, x, device="interp")(x), x * 2j)


def test_arrays_of_numpy():
    x = np.asarray(complexes(4, 3))
    program = heddle.compile(lambda x: (x * 2, x.abs()), x, device="interp")
    for given in (x, x[::2], np.asfortranarray(x)):
        double, size = program(given)
        assert type(double) is np.ndarray and double.dtype == np.complex64
        np.testing.assert_allclose(double, 2 * given, rtol=1e-6)
        np.testing.assert_allclose(size, np.abs(given), rtol=1e-6)


def test_by_name_they_are_pairs():
    x = complexes(3)
    program = heddle.compile(lambda x: x + 1, x, device="interp")
    found = program.run({"x": torch.view_as_real(x)})["y"]
    torch.testing.assert_close(torch.view_as_complex(found), x + 1)


@heddle.function(device="interp")
def power(x, n):
    if n < 1:
        return torch.ones_like(x)
    return x * power(x, n - 1)


def squares(x, n):
    i = torch.zeros((), dtype=torch.int64)
    while i < n:
        if x.real.sum() > 0:
            x = x * x
        else:
            x = x / 2
        i = i + 1
    return x


def test_control_flow():
    x = complexes(4)
    program = heddle.compile(squares, x, torch.tensor(3), device="interp")
    for n in (0, 1, 5):
        same(program(x, torch.tensor(n)), squares(x, torch.tensor(n)))
    with torch.no_grad():
        same(power(x, torch.tensor(3)), x * x * x)


def test_graphs_of_dynamo_and_of_exports():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", complexes(3))

        def forward(self, x):
            return x * self.turn + 1j

    model, x = Model(), complexes(5, 3)
    with torch.no_grad():
        same(torch.compile(model, backend="heddle", options={"fallback": "error", "device": "interp"})(x), model(x))
    same(heddle.compile(torch.export.export(model, (x,)), device="interp")(x), model(x))


def test_a_complex_array_for_real_numbers():
    program = heddle.compile(lambda x: x + 1, torch.ones(3), device="interp")
    with pytest.raises(heddle.InputError, match="c64"):
        program(complexes(3))


def beside_numbers(x):
    number = 0.1 if x.real.sum() > 0 else 0.7
    turned = number * 1j
    return x + number, number * x, x == number, torch.where(x.real > 0, x, number), x + turned, turned * x


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64, torch.float64, torch.float32])
def test_numbers_take_the_precision_of_the_array(dtype):
    """Also those that a branch or loop decides."""
    program = heddle.compile(beside_numbers, torch.ones(3, dtype=dtype), device="interp")
    for x in (torch.full((3,), 0.1, dtype=dtype), torch.randn(5, dtype=dtype)):
        found, wanted = program(x), beside_numbers(x)
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b, rtol=0 if a.dtype == torch.bool else 4 * torch.finfo(a.dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float32, torch.float64, torch.int64])
def test_comparisons_with_numbers(dtype):
    calls = (lambda x: x == (0.1 + 0.2j), lambda x: x != (0.1 + 0j), lambda x: x == (1 + 0j), lambda x: x == 1j)
    for call in calls:
        program = heddle.compile(call, torch.ones(3, dtype=dtype), device="interp")
        for number in (0.1 + 0.2j, 0.1, 1, 0):
            x = torch.full((3,), number, dtype=torch.complex128)
            x = x.to(dtype) if dtype.is_complex else x.real.to(dtype)
            assert torch.equal(program(x), call(x))


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("turn", complexes(3))
        self.register_buffer("real", torch.ones(2))

    def forward(self, x):
        return x + 1, self.turn, self.real, self.turn


def test_constants_as_results():
    model, x = Constants(), torch.ones(3)
    options = {"fallback": "error", "device": "interp"}
    with torch.no_grad():
        same(heddle.compile(model, x, device="interp")(x), model(x))
        same(heddle.compile(torch.export.export(model, (x,)), device="interp")(x), model(x))
        same(torch.compile(model, backend="heddle", options=options)(x), model(x))


def test_integers_take_the_place_of_complex_numbers():
    ones = torch.ones(3, dtype=torch.int64)
    calls = (
        lambda x: torch.select_scatter(x, ones, 0, 0), lambda x: torch.slice_scatter(x, ones[None], 0, 1),
        lambda x: x[torch.tensor([1, 0])], lambda x: torch.gather(x, 0, ones[None]), lambda x: torch.index_select(x, 1, ones),
    )
    x = complexes(2, 3)
    for call in calls:
        same(heddle.compile(call, x, device="interp")(x), call(x))


class Spectrogram(nn.Module):
    """The spectrum of each window, and the signal of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        spectrum = torch.stft(x, 16, hop_length=4, window=self.window, return_complex=True)
        back = torch.istft(spectrum * 2, 16, hop_length=4, window=self.window, length=x.shape[-1])
        return spectrum, spectrum.abs(), back


@pytest.mark.parametrize("shape", [(64,), (2, 61)])
def test_spectra_of_windows(shape):
    torch.manual_seed(0)
    model, x = Spectrogram(), torch.randn(*shape)
    same(heddle.compile(model, x, device="interp")(x), model(x))


def test_shapes_that_change_in_place():
    def call(x):
        y = x + 1
        row = y[0]
        y.transpose_(0, 1)
        y.add_(1)
        row.mul_(2)
        y.unsqueeze_(0)
        y[0, 1].zero_()
        z = y.squeeze_(0).t_()
        return y, z, row, z.swapaxes_(0, 1)

    program = heddle.compile(call, torch.ones(2, 3), device="interp")
    for shape in ((2, 3), (5, 7)):
        x = torch.randn(*shape)
        same(program(x), call(x))


def test_shapes_of_others_do_not_change():
    with pytest.raises(heddle.Unsupported, match="changes the shape of an argument"):
        heddle.compile(lambda x: x.transpose_(0, 1) + 1, torch.ones(2, 3), device="interp")
