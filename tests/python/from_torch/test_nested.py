"""PyTorch's control flow operators by export, each alone and each in each (test_matrix.py has the others and the other ways), and trip counts of
Python's loops."""

import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402
from torch._higher_order_ops import while_loop  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import heddle  # noqa: E402


def of_cond(body):
    return lambda x: torch.cond(x.sum() > 0.5, lambda x: body(x) * 0.5, lambda x: x + 0.25, (x,))


def of_while(body):
    def run(x):
        def test(i, h):
            return i < 3

        def step(i, h):
            return i + 1, torch.tanh(body(h))

        return while_loop(test, step, (torch.zeros((), dtype=torch.int64), x.clone()))[1]

    return run


def of_scan(body):
    def run(x):
        rows = torch.stack([x, x * 0.5, -x])
        last, made = scan(lambda h, row: (torch.tanh(body(h) + row), h * 2), x.clone(), rows)
        return last + made.sum(0)

    return run


KINDS = {"cond": of_cond, "while": of_while, "scan": of_scan}
NESTS = [(a,) for a in KINDS] + list(itertools.product(KINDS, KINDS))


def nest(kinds):
    body = torch.sin
    for kind in reversed(kinds):
        body = KINDS[kind](body)

    class Nest(nn.Module):
        def forward(self, x):
            return body(x)

    return Nest()


def example(n, seed=0):
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kinds", NESTS, ids="-".join)
def test_nested_in_an_exported_program(kinds):
    module = nest(kinds)
    with torch.no_grad():
        exported = torch.export.export(module, (example(5),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        program = heddle.compile(exported, device="interp")
        for n, seed in ((5, 0), (2, 1), (13, 2)):
            torch.testing.assert_close(program(example(n, seed)), module(example(n, seed)), rtol=1e-4, atol=1e-5)


@heddle.function(device="interp")
def counts(x, n):
    total = torch.zeros(x.shape[1])
    i = 0
    while i < n:
        for row in x:
            if row.sum() > 0:
                total = total + row
        i += 1
    return total, i


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
@pytest.mark.parametrize("turns", [-(2**40), -1, 0, 1, 5])
def test_sizes_and_trip_counts(rows, turns):
    x = example(rows, rows)
    with heddle.eager():
        wanted = counts(x, torch.tensor(turns))
    found = counts(x, torch.tensor(turns))
    torch.testing.assert_close(found[0], wanted[0])
    assert int(found[1]) == wanted[1]


def test_a_huge_trip_count_reaches_the_limit():
    program = counts.compile(example(2), torch.tensor(3))
    with pytest.raises(heddle.LimitReached) as caught:
        program.run({"x": example(2), "n": torch.tensor(2**62)}, max_iterations=1000)
    assert caught.value.limit == "max_iterations"
