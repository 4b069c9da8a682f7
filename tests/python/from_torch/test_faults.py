"""Wrong inputs and programs: the type of the error, its text, and the line of Python."""

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402

import heddle  # noqa: E402

N = torch.tensor


def line_of(function, text):
    """`file:line` of a line of a function."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if text in line)}"


def caught(kind, run, *args, **kwargs):
    with pytest.raises(kind) as error:
        run(*args, **kwargs)
    return error.value


def net(x):
    return torch.relu(x) * 2


# Inputs. No line of Python made them: the text names the input.


@pytest.fixture(scope="module")
def program():
    return heddle.compile(net, torch.ones(3, 2), device="interp")


@pytest.mark.parametrize("given,words", [
    (torch.ones(3, 2, dtype=torch.float64), ["x", "f64", "f32"]), (np.ones((3, 2)), ["x", "f64"]), (torch.ones(3), ["x"]), (torch.ones(3, 5), []),
    (torch.ones(3, 2, device="meta"), ["x", "meta", "x.cpu()"]), (torch.ones(3, 2).to_sparse(), ["x", "sparse", "to_dense"]),
    (torch.ones(3, 2).to(torch.complex64), ["x", "c64"]), ("text", []), (None, []),
])
def test_inputs_that_do_not_fit(program, given, words):
    if isinstance(given, torch.Tensor) and given.shape == (3, 5):
        # Sizes of 2 and more are open.
        assert program(given).shape == (3, 5)
        return
    error = caught(heddle.InputError, program, given)
    assert isinstance(error, ValueError) and error.place is None
    for word in words:
        assert word in str(error), error


def test_a_name_that_no_input_has(program):
    error = caught(heddle.InputError, program.run, {"z": torch.ones(3, 2)})
    assert "z" in str(error) and "x" in str(error)


def test_a_size_that_is_fixed():
    fixed = heddle.compile(net, torch.ones(3, 2), dynamic_shapes=None, device="interp")
    error = caught(heddle.InputError, fixed, torch.ones(4, 2))
    assert "4" in str(error) and "3" in str(error)


def test_functions_on_tensors_that_are_elsewhere():
    made = heddle.function(net, device="interp")
    assert "meta" in str(caught(heddle.InputError, made, torch.ones(3, device="meta")))
    assert "sparse" in str(caught(heddle.InputError, made, torch.ones(3).to_sparse()))


# Programs


def loop_with_svd(x):
    while x.sum() < 10:
        x = torch.linalg.svdvals(x)[None] * 2
    return x


def comprehension(x):
    y = x * 2
    rows = [row for row in y if row.sum() > 0]
    return rows


def grows(x):
    y = x
    while y.sum() < 10:
        y = torch.stack([y, y])
    return y


def changes_type(x):
    y = x
    while y.sum() < 10:
        y = (y + 1).to(torch.float64)
    return y


@pytest.mark.parametrize("function,args,text,words", [
    (loop_with_svd, (torch.ones(1, 1),), "svdvals", ["svd"]),
    (comprehension, (torch.ones(2, 2),), "rows = [", []),
    (grows, (torch.ones(2),), "while", ["`y`", "axes"]),
    (changes_type, (torch.ones(2),), "while", ["`y`", "float64"]),
])
def test_programs_that_cannot_be(function, args, text, words):
    error = caught(heddle.Unsupported, heddle.function(function, device="interp"), *args)
    assert error.place == line_of(function, text), (error, error.place)
    for word in words:
        assert word in str(error)


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def test_a_branch_outside_of_a_function_under_torch_compile():
    torch._dynamo.reset()
    with pytest.raises(Exception, match="(?i)data-dependent"):
        torch.compile(Branches(), backend="heddle", fullgraph=True)(torch.ones(2))
    assert heddle.compile(Branches(), torch.ones(2), device="interp")(-torch.ones(2)).tolist() == [1, 1]


# Runs


def far(x, n):
    total = x[0]
    for i in range(n):
        total = total + x[i]
    return total


@heddle.function(device="interp")
def deep(n):
    return deep(n - 1) + 1 if n > 0 else n


def endless(x):
    while x.sum() != 0:
        x = x + 1
    return x


def to_size(x):
    return torch.zeros(int(x))


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_runs_that_stop_name_their_line(device):
    program = heddle.compile(far, torch.ones(4), N(2), device=device)
    assert program(torch.ones(4), N(4)) == 5
    error = caught(heddle.Error, program, torch.ones(4), N(9))
    assert error.place == line_of(far, "total + x[i]") and "aten.index.Tensor" in error.node
    program = heddle.compile(endless, torch.ones(4), device=device)
    error = caught(heddle.LimitReached, program.run, {"x": torch.ones(4)}, max_iterations=50)
    assert error.limit == "max_iterations" and error.place == line_of(endless, "while")


def test_a_call_that_is_too_deep_names_its_line():
    error = caught(heddle.LimitReached, deep.compile(N(3)).run, {"n": N(500)}, max_depth=50)
    assert error.limit == "max_depth" and (error.place or "").startswith(__file__)


def test_a_size_that_is_no_number():
    made = heddle.function(to_size, device="interp")
    assert made(N(3.0)).shape == (3,)
    for bad in (float("nan"), float("inf")):
        error = caught(heddle.CheckFailed, made, N(bad))
        assert "integer" in str(error) and error.place == line_of(to_size, "zeros")
    assert caught(heddle.Error, made, N(-2.0)).place == line_of(to_size, "zeros")


def test_lines_survive_saving(tmp_path):
    program = heddle.compile(far, torch.ones(4), N(2), device="interp")
    program.save(tmp_path / "far.hprog")
    error = caught(heddle.Error, heddle.open(tmp_path / "far.hprog").run, {"x": np.ones(4, np.float32), "n": np.int64(9)})
    assert error.place == line_of(far, "total + x[i]")
