"""`scan` and `associative_scan` in converted code: axes, structures and lengths beside PyTorch, and what is refused."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import heddle  # noqa: E402


def affine(left, right):
    """Composition of the maps x -> a * x + b, which is associative and not commutative."""
    return {"a": left["a"] * right["a"], "b": left["b"] * right["a"] + right["b"]}


@pytest.mark.parametrize("length", [0, 1, 2, 7])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_an_associative_scan_follows_a_loop(length, reverse, dim):
    shape = [3, 3]
    shape[dim] = length
    generator = torch.Generator().manual_seed(length)
    given = [torch.randn(*shape, generator=generator), torch.randn(*shape, generator=generator)]

    def run(a, b):
        made = associative_scan(affine, {"a": a, "b": b}, dim, reverse=reverse, combine_mode="generic")
        return made["a"], made["b"]

    rows = [x.movedim(dim, 0).flip(0) if reverse else x.movedim(dim, 0) for x in given]
    a, b = torch.empty_like(rows[0]), torch.empty_like(rows[1])
    for i in range(length):
        here = {"a": rows[0][i], "b": rows[1][i]}
        here = affine({"a": a[i - 1], "b": b[i - 1]}, here) if i else here
        a[i], b[i] = here["a"], here["b"]
    for found, wanted in zip(heddle.function(run, device="interp")(*given), (a, b)):
        torch.testing.assert_close(found, (wanted.flip(0) if reverse else wanted).movedim(0, dim), rtol=1e-4, atol=1e-5)


def test_the_first_array_says_which_axis_a_negative_number_is():
    def sums(x, y):
        made = scan(lambda c, rows: (c + rows[0].sum() + rows[1].sum(), rows[1].clone()), x.new_zeros(()), [x, y], dim=-1)
        return *made, associative_scan(lambda a, b: [s + t for s, t in zip(a, b)], [x, y], -1, combine_mode="generic")[1]

    x, y = torch.arange(10.0).reshape(2, 5), torch.arange(30.0).reshape(2, 5, 3)
    total, rows, sums_of_y = heddle.function(sums, device="interp")(x, y)
    assert total == x.sum() + y.sum()
    assert torch.equal(rows, y)
    torch.testing.assert_close(sums_of_y, y.cumsum(1))


def more(a, b):
    return [a[0], b[0], a[0]]


def with_assert(a, b):
    assert (b[0] > 0).all()
    return [a[0] + b[0]]


def other_type(a, b):
    return [(a[0] + b[0]).to(torch.float64)]


X = torch.ones(3, 2)


@pytest.mark.parametrize("run,words", [
    (lambda x: associative_scan(more, [x], 0)[0], "1 arrays to 3"),
    (lambda x: associative_scan(with_assert, [x], 0)[0], "assert"),
    (lambda x: associative_scan(other_type, [x], 0)[0], "float64"),
    (lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="fast"), "combine_mode='fast'"),
    (lambda x: associative_scan(lambda a, b: a + b, x, 2), "axis 2"),
    (lambda x: associative_scan(lambda a, b: a + b, x, -3), "axis -3"),
    (lambda x: associative_scan(lambda a, b: a, [], 0), "no arrays"),
    (lambda x: associative_scan(lambda a, b: a, [3], 0), "int"),
    (lambda x: associative_scan(lambda a, b: [a[0] + b[0], b[1]], [x.new_ones(4), x.new_ones(5)], 0)[0], "lengths 4 and 5"),
    (lambda x: scan(lambda c, row: ([c[0], c[0]], row), [x[0]], x)[1], "1 arrays, and then 2"),
    (lambda x: scan(lambda c, row: (c, row), x[0], x, dim=5)[1], "axis 5"),
])
def test_scans_that_cannot_be(run, words):
    with pytest.raises(heddle.Unsupported, match=words) as caught:
        heddle.function(run, device="interp")(X)
    assert "test_scans.py" in (caught.value.place or "")
