"""ATen's core set, each overload beside eager: integers and truth values exact, floats within 1e-4; sizes 0, 1 and primes.

`aten_known.txt` lists overloads that fail, with reasons. `pytest -s -k counted` prints the set."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import aten_cases  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import heddle  # noqa: E402

OVERLOADS = aten_cases.overloads()
REFUSED = (RuntimeError, IndexError, ValueError)
KNOWN = dict(line.split(": ", 1) for line in (Path(__file__).parent / "aten_known.txt").read_text().splitlines() if line and line[0] != "#")
# One of each family that lowers in a way of its own.
COMPILED = (
    "remainder.Scalar", "gelu.default", "cat.default", "slice.Tensor", "argmin.default", "var.correction", "sort.default", "bmm.default",
    "index_put.default", "nonzero.default", "max_pool2d_with_indices.default", "native_dropout.default", "_embedding_bag.default", "_fft_r2c.default",
    "as_strided.default",
)


class Calls(nn.Module):
    """Calls of an operator as a module, whose arguments are the calls' arguments."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, calls):
        return [self.function(*args, **kwargs) for args, kwargs in calls]


def split(case):
    return (case[:-1], case[-1]) if isinstance(case[-1], dict) else (case, {})


def leaves(value):
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(value) if leaf is not None]


def same(found, wanted, drawn):
    found, wanted = leaves(found), leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{a.dtype}{list(a.shape)}, wanted {b.dtype}{list(b.shape)}"
        if drawn is not None:
            assert drawn.holds(a), a
        elif a.dtype.is_floating_point or a.dtype.is_complex:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert torch.equal(a, b), f"{a}\nwanted {b}"


def calls_at(name, n):
    """The calls of a size that PyTorch does not refuse, by number, with their results. It refuses none at a prime."""
    make, call, _ = aten_cases.CASES[name]
    function, found = OVERLOADS[name] if call is None else call(OVERLOADS[name]), {}
    try:
        cases = make(n)
    except REFUSED:
        assert n < 2
        return {}
    for number, case in enumerate(cases):
        args, kwargs = split(case)
        try:
            found[number] = (args, kwargs), function(*args, **kwargs)
        except REFUSED:
            assert n < 2, f"{name}, case {number} at {n} is refused"
    return found


def constants(call):
    return [a for a in pytree.tree_leaves(call) if not isinstance(a, torch.Tensor)]


def check(name, device, sizes=(7, 1, 0)):
    for n in sizes:
        found = calls_at(name, n)
        if n < 2:
            run(name, device, found)
            continue
        # Those whose sizes are all that differs run at another size, too.
        other = calls_at(name, 5)
        is_open = [i for i, (call, _) in found.items() if constants(call) == constants(other[i][0])]
        run(name, device, {i: found[i] for i in is_open}, {i: other[i] for i in is_open})
        run(name, device, {i: c for i, c in found.items() if i not in is_open})


def run(name, device, calls, other=None):
    """Compiles calls as one program and runs it. If that fails each is compiled by itself, for the error to name it."""
    _, call, drawn = aten_cases.CASES[name]
    function = OVERLOADS[name] if call is None else call(OVERLOADS[name])
    if not calls:
        return
    try:
        given = [c for c, _ in calls.values()]
        program = heddle.compile(Calls(function), given, device=device)
        same(program(given), [wanted for _, wanted in calls.values()], drawn)
        again = [c for c, _ in (other or {}).values()]
        guards = program.trace.guards
        if again and (guards is None or guards(pytree.tree_leaves(([again], {})))):
            same(program(again), [wanted for _, wanted in other.values()], drawn)
    except (heddle.Error, AssertionError) as error:
        if len(calls) > 1:
            for i in calls:
                run(name, device, {i: calls[i]}, other and {i: other[i]})
        sizes = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in pytree.tree_leaves(next(iter(calls.values()))[0])]
        raise AssertionError(f"{name}, case {list(calls)} of {sizes}: {type(error).__name__}: {error}") from None


def test_the_core_set_is_counted():
    print("\n".join(OVERLOADS), f"\n{len(OVERLOADS)} overloads, {len({n.split('.')[0] for n in OVERLOADS})} operators")
    assert len(OVERLOADS) == 193 and len({n.split(".")[0] for n in OVERLOADS}) == 164
    assert set(aten_cases.CASES) == set(OVERLOADS)
    assert set(KNOWN) <= set(OVERLOADS) and len(OVERLOADS) - len(KNOWN) >= 185


@pytest.mark.parametrize("name", OVERLOADS)
def test_interpreted(name):
    if name not in KNOWN:
        return check(name, "interp")
    try:
        check(name, "interp")
    except (heddle.Error, AssertionError):
        return None
    pytest.fail(f"{name} passes, but is listed in aten_known.txt")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name):
    check(name, "cpu", sizes=(7,))
