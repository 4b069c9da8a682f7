"""PyTorch's operators of higher order in graphs of FX, each alone and each in each, beside plain Python; sizes 0, 1 and primes, and trip counts."""

import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402
from torch._higher_order_ops import associative_scan, map, scan, switch, while_loop  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import heddle  # noqa: E402
from heddle import _native, _native_options  # noqa: E402
from heddle._trace import fx, graph  # noqa: E402

higher = torch.ops.higher_order


def compiled(function, *examples):
    """The program of a function, by way of a graph of FX as AOTAutograd makes them."""
    with torch.no_grad():
        module = make_fx(function, tracing_mode="symbolic")(*examples)
    constants = graph.Constants()
    functions = {}
    main = fx.walk(module, constants, functions).json()
    model = graph.Source({**functions, "main": main}, "main", constants).model()
    return heddle.Program(_native.compile(model, _native_options({"device": "interp"})))


def sliced(x):
    return torch.stack([x, x * 0.5, 0.25 - x])


# Each kind as an operator around `body`, and as the Python that it stands for. All keep shapes.

def op_cond(body):
    return lambda x: higher.cond(x.sum() > 0.5, lambda x: (body(x) * 0.5,), lambda x: (x + 0.25,), (x,))[0]


def py_cond(body):
    return lambda x: body(x) * 0.5 if x.sum() > 0.5 else x + 0.25


def op_switch(body):
    def run(x):
        # Out of range at both ends, too.
        index = (x.sum() * 2).to(torch.int64)
        return higher.switch(index, (lambda x: (x * 0.5,), lambda x: (body(x),), lambda x: (body(x) - 1,)), (x,))[0]

    return run


def py_switch(body):
    def run(x):
        index = min(max(int(x.sum() * 2), 0), 2)
        return [lambda: x * 0.5, lambda: body(x), lambda: body(x) - 1][index]()

    return run


def step(body):
    return lambda i, h: (i + 1, torch.tanh(body(h)))


def op_while(body):
    return lambda x: higher.while_loop(lambda i, h: i < 3, step(body), (torch.zeros((), dtype=torch.int64), x.clone()), ())[1]


def py_while(body):
    def run(x):
        for _ in range(3):
            x = torch.tanh(body(x))
        return x

    return run


def op_stack(body):
    def run(x):
        start = (torch.zeros((), dtype=torch.int64), x.clone())
        return higher.while_loop_stack_output(lambda i, h: i < 3, step(body), start, ())[1].sum(0)

    return run


def py_stack(body):
    def run(x):
        made = []
        for _ in range(3):
            x = torch.tanh(body(x))
            made.append(x)
        return torch.stack(made).sum(0)

    return run


def op_scan(body):
    def run(x):
        last, made = higher.scan(lambda h, row: (torch.tanh(body(h) + row), h * 2), [x.clone()], [sliced(x)], ())
        return last + made.sum(0)

    return run


def py_scan(body):
    def run(x):
        h, made = x, []
        for row in sliced(x):
            made.append(h * 2)
            h = torch.tanh(body(h) + row)
        return h + torch.stack(made).sum(0)

    return run


def op_map(body):
    return lambda x: higher.map_impl(lambda row: (body(row),), (sliced(x),), ())[0].sum(0)


def py_map(body):
    return lambda x: torch.stack([body(row) for row in sliced(x)]).sum(0)


def op_invoke(body):
    return lambda x: higher.invoke_subgraph(lambda x: (body(x) + 1,), "part", x)[0]


def py_invoke(body):
    return lambda x: body(x) + 1


def op_grad(body):
    return lambda x: higher.wrap_with_set_grad_enabled(False, lambda x: (body(x) * 2,), x)[0]


def py_grad(body):
    return lambda x: body(x) * 2


def op_associative(body):
    # The sum is what makes it associative.
    return lambda x: higher.associative_scan(lambda a, b: [a + b + 0 * body(a)], [sliced(x)], ())[0].sum(0)


def py_associative(body):
    return lambda x: sliced(x).cumsum(0).sum(0)


KINDS = {
    "cond": (op_cond, py_cond), "switch": (op_switch, py_switch), "while_loop": (op_while, py_while),
    "while_loop_stack_output": (op_stack, py_stack), "scan": (op_scan, py_scan), "map_impl": (op_map, py_map),
    "invoke_subgraph": (op_invoke, py_invoke), "wrap_with_set_grad_enabled": (op_grad, py_grad), "associative_scan": (op_associative, py_associative),
}
DEEP = [k for k in itertools.product(("cond", "while_loop", "switch"), repeat=3) if "switch" not in k[:2]]
NESTS = [(a,) for a in KINDS] + list(itertools.product(KINDS, KINDS)) + DEEP


def nest(kinds, which):
    body = torch.sin
    for kind in reversed(kinds):
        body = KINDS[kind][which](body)
    return body


def example(n, seed=0):
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed)) * 0.5


@pytest.mark.parametrize("kinds", NESTS, ids="-".join)
def test_nested(kinds):
    program, plain = compiled(nest(kinds, 0), example(5)), nest(kinds, 1)
    for n, seed in ((5, 0), (13, 1), (2, 2), (1, 3), (1, 4), (0, 5)):
        torch.testing.assert_close(program(example(n, seed)), plain(example(n, seed)), rtol=1e-4, atol=1e-5)


# The same by `heddle.compile`, whose faces in PyTorch are these.

def face_cond(body):
    return lambda x: torch.cond(x.sum() > 0.5, lambda x: body(x) * 0.5, lambda x: x + 0.25, (x,))


def face_switch(body):
    return lambda x: switch((x.sum() * 2).to(torch.int64), [lambda x: x * 0.5, lambda x: body(x), lambda x: body(x) - 1], (x,))


def face_while(body):
    return lambda x: while_loop(lambda i, h: i < 3, step(body), (torch.zeros((), dtype=torch.int64), x.clone()))[1]


def face_scan(body):
    def run(x):
        last, made = scan(lambda h, row: (torch.tanh(body(h) + row), h * 2), x.clone(), sliced(x))
        return last + made.sum(0)

    return run


def face_map(body):
    return lambda x: map(body, sliced(x)).sum(0)


def face_associative(body):
    return lambda x: associative_scan(lambda a, b: a + b + 0 * body(a), sliced(x), 0, combine_mode="generic").sum(0)


@heddle.function(results=lambda x, n: x)
def again(x, n):
    """Recursion: `n` turns."""
    if n <= 0:
        return torch.sin(x)
    return again(x, n - 1) * 0.5 + x


def face_recursion(body):
    return lambda x: again(body(x), 3)


def py_recursion(body):
    def run(x):
        x = body(x)
        y = torch.sin(x)
        for _ in range(3):
            y = y * 0.5 + x
        return y

    return run


FACES = {
    "cond": (face_cond, py_cond), "switch": (face_switch, py_switch), "while_loop": (face_while, py_while), "scan": (face_scan, py_scan),
    "map_impl": (face_map, py_map), "associative_scan": (face_associative, py_associative), "recursion": (face_recursion, py_recursion),
}
FACE_NESTS = [
    *((a,) for a in FACES), *itertools.product(FACES, FACES),
    *(k for k in itertools.product(("cond", "while_loop", "recursion"), repeat=3) if len(set(k)) > 1),
]


class Nest(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.body = torch.sin
        for kind in reversed(kinds):
            self.body = FACES[kind][0](self.body)

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("kinds", FACE_NESTS, ids="-".join)
def test_nested_in_a_module(kinds):
    program, plain = heddle.compile(Nest(kinds), example(5), device="interp"), torch.sin
    for kind in reversed(kinds):
        plain = FACES[kind][1](plain)
    for n, seed in ((5, 0), (13, 1), (2, 2)):
        torch.testing.assert_close(program(example(n, seed)), plain(example(n, seed)), rtol=1e-4, atol=1e-5)


def counted(stacks):
    def run(x, n):
        op = higher.while_loop_stack_output if stacks else higher.while_loop
        return op(lambda i, h, n: i < n, lambda i, h, n: (i + 1, h * 0.5 + 1), (torch.zeros((), dtype=torch.int64), x.clone()), (n,))

    return run


@pytest.mark.parametrize("stacks", [False, True])
def test_trip_counts(stacks):
    program = compiled(counted(stacks), example(5), torch.tensor(3))
    for turns, rows in itertools.product((-(2**62), -1, 0, 1, 5, 101), (0, 1, 7)):
        h, made = example(rows), []
        for _ in range(max(turns, 0)):
            h = h * 0.5 + 1
            made.append(h)
        i, last = program(example(rows), torch.tensor(turns))
        if stacks:
            assert i.tolist() == list(range(1, len(made) + 1)) and last.shape == (len(made), rows, 4)
            if made:
                torch.testing.assert_close(last, torch.stack(made))
        else:
            assert int(i) == max(turns, 0)
            torch.testing.assert_close(last, h)


def test_huge_trip_counts_reach_the_limit():
    program = compiled(counted(False), example(2), torch.tensor(3))
    with pytest.raises(heddle.LimitReached) as caught:
        program.run(dict(zip(program.inputs, (example(2), torch.tensor(2**62)))), max_iterations=1000)
    assert caught.value.limit == "max_iterations"


@pytest.mark.parametrize("kind", ["scan", "map_impl", "associative_scan"])
def test_lengths(kind):
    def run(xs):
        if kind == "scan":
            return higher.scan(lambda h, row: (h + row, h * row), [torch.zeros(4)], [xs], ())
        if kind == "map_impl":
            return higher.map_impl(lambda row: (row.sum(), row * 2), (xs,), ())
        return higher.associative_scan(lambda f, g, h, k: [f * h, g * h + k], [xs, xs * 2], ())

    def plain(xs):
        if kind == "scan":
            return [xs.sum(0), (xs.cumsum(0) - xs) * xs]
        if kind == "map_impl":
            return [xs.sum(1), xs * 2]
        made, (f, g) = [], (torch.ones(4), torch.zeros(4))
        for row in xs:
            f, g = f * row, g * row + row * 2
            made.append((f, g))
        return [torch.stack(m) for m in zip(*made)] if made else [xs, xs]

    program = compiled(run, example(5))
    for n in (0, 1, 2, 5, 13):
        for a, b in zip(program(example(n)), plain(example(n))):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
