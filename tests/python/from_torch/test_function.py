"""Functions of plain Python, beside Python itself: loops, branches, recursion, lists, changes in place, and what is refused."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402

import heddle  # noqa: E402

ROW = torch.tensor([0.25, -1.5, 3.0, 0.5])


def same(found, wanted):
    flat = torch.utils._pytree.tree_leaves
    found, wanted = flat(found), flat(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        a, b = torch.as_tensor(a), torch.as_tensor(b)
        if b.dtype.is_floating_point:
            torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert a.shape == b.shape and torch.equal(a.to(b.dtype), b)


def check(function, *examples, device="interp"):
    made = heddle.function(device=device)(function)
    for example in examples:
        wanted = function(*[a.clone() if isinstance(a, torch.Tensor) else a for a in example])
        same(made(*example), wanted)
    return made


class TreeLSTM(nn.Module):
    """A binary TreeLSTM: the recursion is Python's, and its base case depends on a tensor."""

    def __init__(self, words=20, width=6):
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.leaf = nn.Linear(width, 2 * width)
        self.inner = nn.Linear(2 * width, 5 * width)

    @heddle.function
    def node(self, left, right, words, i):
        if left[i] < 0:
            h, c = self.leaf(self.word(words[i])).chunk(2)
            return torch.tanh(h), c
        left_h, left_c = self.node(left, right, words, left[i])
        right_h, right_c = self.node(left, right, words, right[i])
        gates = self.inner(torch.cat([left_h, right_h]))
        i_gate, f_left, f_right, o_gate, update = gates.chunk(5)
        c = torch.sigmoid(i_gate) * torch.tanh(update) + torch.sigmoid(f_left) * left_c + torch.sigmoid(f_right) * right_c
        return torch.sigmoid(o_gate) * torch.tanh(c), c

    def forward(self, left, right, words):
        return self.node(left, right, words, left.shape[0] - 1)


def tree(leaves, seed):
    """A random binary tree, as indices of children, -1 for none; its root is the last node."""
    generator = torch.Generator().manual_seed(seed)
    left, right, roots = [-1] * leaves, [-1] * leaves, list(range(leaves))
    while len(roots) > 1:
        at = int(torch.randint(len(roots) - 1, (), generator=generator))
        left.append(roots[at])
        right.append(roots[at + 1])
        roots[at : at + 2] = [len(left) - 1]
    words = torch.randint(20, (len(left),), generator=generator)
    return torch.tensor(left), torch.tensor(right), words


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_a_recursive_tree_lstm(device):
    torch.manual_seed(0)
    model = TreeLSTM().eval()
    program = heddle.compile(model, *tree(5, 0), device=device)
    with torch.no_grad():
        for leaves, seed in [(5, 0), (1, 1), (2, 2), (17, 3)]:
            if leaves == 1:
                continue
            with heddle.eager():
                wanted = model(*tree(leaves, seed))
            same(program(*tree(leaves, seed)), wanted)
    assert "call @" in program.source("ir")


class Decoder(nn.Module):
    """Greedy decoding: a `while` that tensors decide, with an `if` inside."""

    def __init__(self, words=12, width=8):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(words, width), nn.GRUCell(width, width), nn.Linear(width, words)

    def forward(self, state, limit):
        word = torch.zeros((), dtype=torch.int64)
        tokens = []
        quiet = 0
        while word != 1 and len(tokens) < limit:
            state = self.cell(self.embed(word)[None], state)
            scores = self.out(state)[0]
            word = scores.argmax()
            if scores.max() < 0.3:
                quiet += 1
                state = state * 0.5
            tokens.append(word)
        return torch.stack(tokens), state, quiet


@pytest.mark.parametrize("device", ["interp", "cpu"])
def test_a_greedy_decoder(device):
    torch.manual_seed(3)
    model = Decoder().eval()
    program = heddle.compile(model, torch.randn(1, 8), torch.tensor(5), device=device)
    with torch.no_grad():
        for seed, limit in [(0, 5), (1, 1), (2, 40)]:
            state = torch.randn(1, 8, generator=torch.Generator().manual_seed(seed))
            same(program(state, torch.tensor(limit)), model(state, torch.tensor(limit)))


def halve(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def break_and_continue(x, n):
    total = 0.0
    for i in range(n):
        if i == 2:
            continue
        if x[i] > 2:
            break
        total += x[i]
    return total, i


def early(x):
    for row in x:
        if row.sum() > 1:
            return row * 2
    return x[0]


def nested(x, n):
    y = torch.zeros_like(x)
    for i in range(n):
        for j in range(i + 1):
            if (i + j) % 2 == 0:
                y = y + x[i] * j
            else:
                while y.sum() > 10:
                    y = y * 0.5
    return y


def short(x, n):
    i = 0
    while i < n and x[i] < 1:
        i += 1
    return i


def chooses(x):
    a = x if x.sum() > 0 else -x
    return a if x[0] > 0 or x[1] > 0 else a * 2


def steps(a, b):
    out = []
    for i in range(a, b, 3):
        out.append(i)
    for i in range(b, a, -2):
        out.append(i * 10)
    return torch.tensor(out) if len(out) else torch.zeros(0, dtype=torch.int64)


def writes(x, n):
    y = x.clone()
    for i in range(n):
        if x[i].sum() > 0:
            y[i] = y[i - 1] + 1
        else:
            y[i, 0] = 5
        y[0] += x[i]
    v = y[1]
    v *= 2
    return y


def views(x, i):
    y = x.clone()
    row = y[i]
    other = y[0]
    row += 10
    y[1] = y[1] * 2
    z = y.t()
    z[0] = 7
    return y, row, other


def pairs(x, y):
    s = 0
    for i, (a, b) in enumerate(zip(x, y)):
        s = s + a * b * i
    return s


def numbers(n):
    a, b = 0, 1.5
    while a < n:
        a += 2
        b = b / 2 + a
    return a, b, min(a, 7), max(b, 3.0)


N = torch.tensor
CASES = [
    (halve, [(ROW * 10,), (ROW,), (torch.zeros(7),)]),
    (collatz, [(N(27),), (N(1),), (N(97),)]),
    (break_and_continue, [(ROW, N(4)), (ROW, N(2)), (torch.ones(7), N(7))]),
    (early, [(torch.randn(5, 3),), (-torch.ones(2, 3),), (torch.ones(4, 3),)]),
    (nested, [(ROW, N(3)), (ROW, N(0)), (torch.ones(5) * 3, N(5))]),
    (short, [(ROW, N(4)), (ROW, N(1)), (-torch.ones(5), N(5))]),
    (chooses, [(ROW,), (-ROW,), (-torch.ones(3),)]),
    (steps, [(N(0), N(10)), (N(10), N(0)), (N(3), N(3)), (N(-5), N(5))]),
    (writes, [(torch.randn(5, 3), N(4)), (-torch.ones(3, 2), N(0)), (torch.ones(2, 7), N(2))]),
    (views, [(torch.ones(3, 2), N(0)), (torch.ones(3, 2), N(2)), (torch.ones(5, 7), N(1))]),
    (pairs, [(ROW, ROW), (torch.ones(7), torch.arange(7.0)), (ROW[:2], ROW[2:])]),
    (numbers, [(N(5),), (N(0),), (N(11),)]),
]


@pytest.mark.parametrize("function,examples", CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_statements(function, examples):
    check(function, *examples)


@pytest.mark.parametrize("function,examples", CASES[:5], ids=lambda v: getattr(v, "__name__", ""))
def test_statements_compiled(function, examples):
    check(function, *examples, device="cpu")


@heddle.function(device="interp")
def even(n):
    if n == 0:
        return torch.ones(())
    return odd(n - 1)


@heddle.function(device="interp")
def odd(n):
    if n == 0:
        return torch.zeros(())
    return even(n - 1)


class Doubling:
    def __call__(self, x):
        while x.sum() < 100:
            x = x * 2
        return x


def halved(times, x):
    for _ in range(times):
        x = x / 2 if x.sum() > 0 else x
    return x


@pytest.mark.parametrize("call", [Doubling(), Doubling().__call__, functools.partial(halved, 3), torch.tanh, torch.ops.aten.relu.default, torch.nn.functional.gelu])
def test_whatever_can_be_called(call):
    x = torch.rand(3, 5) + 1
    same(heddle.compile(call, x, device="interp")(x), call(x))


def test_mutual_recursion():
    assert [float(even(N(n))) for n in (0, 1, 6, 7)] == [1, 0, 1, 0]


@heddle.function(device="interp")
def total(x):
    if x.shape[0] == 1:
        return x[0]
    half = x.shape[0] // 2
    return total(x[:half]) + total(x[half:])


def test_recursion_over_parts_of_an_array():
    for n in (1, 2, 7, 31):
        x = torch.arange(float(n))
        assert float(total(x)) == float(x.sum())


@heddle.function(device="interp")
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def test_recursion_in_an_expression():
    assert [int(fibonacci(N(n))) for n in (0, 1, 2, 10)] == [0, 1, 1, 55]


@heddle.function(device="interp")
def deep(n):
    if n == 0:
        return n
    return deep(n - 1) + 1


def test_depth_over_the_limit_is_an_error_with_its_name():
    program = deep.compile(N(3))
    assert int(program(N(200))) == 200
    with pytest.raises(heddle.LimitReached) as caught:
        program.run({"n": N(500)}, max_depth=100)
    assert caught.value.limit == "max_depth"


def test_a_function_is_traced_once_for_a_signature():
    traced = []

    @heddle.function(device="interp")
    def f(x):
        traced.append(tuple(x.shape))
        return x * 2 if x.sum() > 0 else x

    for n in (3, 5, 11):
        f(torch.ones(n))
    assert len(traced) == 1
    f(torch.ones(3, dtype=torch.float64))
    assert len(traced) == 2
    with heddle.eager():
        assert f(torch.ones(3)).tolist() == [2, 2, 2] and len(traced) == 3


def test_weights_that_change_are_seen():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        @heddle.function(device="interp")
        def double(self, x):
            return x * self.weight

    model = Scale()
    with torch.no_grad():
        assert model.double(torch.ones(3)).tolist() == [1, 1, 1]
        model.weight.mul_(3)
        assert model.double(torch.ones(3)).tolist() == [3, 3, 3]
        model.weight = nn.Parameter(torch.full((3,), 5.0))
        assert model.double(torch.ones(3)).tolist() == [5, 5, 5]


def test_closures_and_lists():
    scale = torch.tensor([2.0, 3.0])
    layers = [nn.Linear(2, 2) for _ in range(3)]

    def f(x):
        for layer in layers:
            if x.sum() > 0:
                x = layer(x)
        return x * scale

    with torch.no_grad():
        check(f, (torch.ones(2),), (-torch.ones(2),))


def grows(x, n):
    rows = []
    for i in range(n):
        if x[i].sum() > 0:
            rows.append(x[i] * 2)
        else:
            rows.append(x[i])
    return rows, torch.stack(rows)


def test_lists_that_grow():
    check(grows, (torch.randn(5, 3), N(4)), (torch.ones(2, 3), N(2)))


def picks(x, n):
    rows, signs = [x[0]], []
    for i in range(n):
        if x[i].sum() > 0:
            rows.append(x[i] * 2)
            if x[i, 0] > 1:
                continue
        else:
            signs.append(-1)
        signs.append(i)
    if n > 2:
        rows.append(x[1])
    return torch.stack(rows), len(rows), torch.tensor(signs) if len(signs) else torch.zeros(0, dtype=torch.int64)


def test_lists_that_grow_in_one_arm():
    torch.manual_seed(0)
    check(picks, (torch.randn(7, 3), N(7)), (torch.ones(2, 3), N(2)), (-torch.ones(5, 3), N(3)), (torch.ones(3, 2) * 2, N(0)))


def test_arms_that_leave_lists_of_other_kinds_are_refused():
    def mixes(x):
        rows = []
        if x.sum() > 0:
            rows.append(x)
        else:
            rows.append(x[0])
            rows.append(x)
        return rows

    assert "`rows`" in refused(mixes, torch.ones(3))


def attends(x):
    return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=x.shape[0] > 1)


def test_conditions_on_sizes_as_options_of_pytorch():
    check(attends, (torch.randn(3, 4),), (torch.randn(1, 4),), (torch.randn(7, 4),))


def test_arrays_of_numpy():
    @heddle.function(device="interp")
    def f(x):
        return x * 2 if x.sum() > 0 else x

    for n in (3, 5):
        found = f(np.ones(n, np.float32))
        assert isinstance(found, np.ndarray) and found.tolist() == [2] * n
    assert isinstance(f(torch.ones(3)), torch.Tensor)


def test_a_program_gives_no_gradients():
    double = heddle.compile(lambda x: x * 2, torch.ones(3), device="interp")
    with pytest.raises(heddle.InputError, match="gradient"):
        double(torch.ones(3, requires_grad=True))
    with torch.no_grad():
        assert double(torch.ones(3, requires_grad=True)).tolist() == [2, 2, 2]


def test_two_objects_have_programs_of_their_own():
    class Scale:
        def __init__(self, by):
            self.by = by

        @heddle.function(device="interp")
        def __call__(self, x):
            return x * self.by

    assert [Scale(by)(torch.ones(1)).item() for by in (2.0, 3.0, 4.0)] == [2, 3, 4]


class Base(nn.Module):
    def step(self, x):
        return x * 1.5


class Derived(Base):
    def forward(self, x):
        y = super().step(x)
        while y.sum() < 10:
            y = super().step(y)
        return y


def test_methods_of_a_base_class():
    program = heddle.compile(Derived(), torch.ones(3), device="interp")
    same(program(torch.ones(5)), Derived()(torch.ones(5)))


def test_functions_that_read_variables_around():
    def outer(x):
        y = x * 2

        @heddle.function
        def inner(z):
            return z + y if z.sum() > 0 else z

        return inner(x)

    with heddle.eager():
        wanted = outer(torch.ones(3))
    same(heddle.function(device="interp")(outer)(torch.ones(3)), wanted)


# What is refused


def refused(function, *args):
    with pytest.raises(heddle.Unsupported) as caught:
        heddle.function(device="interp")(function)(*args)
    assert "test_function.py" in (caught.value.place or ""), caught.value
    return f"{caught.value} {caught.value.hint}"


def test_what_can_t_be_converted_names_its_line():
    def ranks(x):
        if x.sum() > 0:
            y = x
        else:
            y = x[None]
        return y

    assert "`y`" in refused(ranks, torch.ones(3))

    def types(x):
        y = x
        while y.sum() < 10:
            y = (y + 1).to(torch.float64)
        return y

    assert "float64" in refused(types, torch.ones(3))

    def loses(x):
        y = None
        while x.sum() < 10:
            x = x + 1
            y = x
        return y

    assert "None" in refused(loses, torch.ones(3))

    def picks(x):
        return [x, "text"][x.sum().to(torch.int64)]

    assert "list" in refused(picks, torch.ones(3))

    def updates(x):
        seen = {}
        for row in x:
            seen.update(a=row)
        return x

    assert "update" in refused(updates, torch.ones(3, 2))

    def hides(x):
        y = x + 1
        z = y
        for row in x:
            y += row
            y = y * 2
        return z

    assert "another name" in refused(hides, torch.ones(3))

    def sometimes(x):
        if x.sum() > 0:
            return x

    assert "paths" in refused(sometimes, torch.ones(3))

    def rows(x):
        y = x.clone()
        for row in y:
            row += 1
        return y

    assert "changes in place" in refused(rows, torch.ones(3, 2))

    def argument(x):
        for row in x:
            x += row
            x = x * 2
        return x

    assert "argument" in refused(argument, torch.ones(3))

    def unassigned(x):
        if x.sum() > 0:
            y = "text"
        return y

    assert "`y`" in refused(unassigned, torch.ones(3))


def test_recursion_without_an_end_asks_for_its_results():
    @heddle.function(device="interp")
    def forever(x):
        return forever(x) + 1

    with pytest.raises(heddle.Unsupported, match="results"):
        forever(torch.ones(3))

    @heddle.function(results=lambda x: x, device="interp")
    def stated(x):
        return stated(x) + 1

    with pytest.raises(heddle.LimitReached):
        stated.compile(torch.ones(3)).run({"x": torch.ones(3)}, max_depth=50)
