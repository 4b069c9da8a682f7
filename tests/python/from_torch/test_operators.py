"""Functions as operators of PyTorch: one node in torch.compile and torch.export, and IR calls in Heddle's own graphs."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402

import heddle  # noqa: E402

N = torch.tensor
BACKENDS = ["aot_eager", "heddle"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def compiled(function, backend, **options):
    options = {"options": {"device": "interp", "fallback": "error", **options}} if backend == "heddle" else {}
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=True, **options)


@heddle.function(device="interp")
def collatz(n, limit: int = 100):
    steps = 0
    while n != 1 and steps < limit:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@heddle.function(device="interp")
def half(x, keep=True):
    while x.abs().max() > 1:
        x = x / 2
    return {"x": x, "kept": x if keep else -x, "sizes": (x.shape[0], 2)}


@heddle.function(device="interp")
def even(n):
    return torch.ones(()) if n == 0 else odd(n - 1)


@heddle.function(device="interp")
def odd(n):
    return torch.zeros(()) if n == 0 else even(n - 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_is_one_node(backend):
    def f(x, n):
        found = half(x * 3, keep=False)
        return found["x"] + found["kept"] * collatz(n, 7) + even(n), found["sizes"][1]

    fast = compiled(f, backend)
    with torch.no_grad():
        for size, n in ((5, 27), (2, 6), (11, 1)):
            x = torch.linspace(-4, 9, size)
            with heddle.eager():
                wanted = f(x, N(n))
            found = fast(x, N(n))
            torch.testing.assert_close(found[0], wanted[0].to(found[0].dtype))
            assert found[1:] == wanted[1:]


def test_results_that_no_graph_has_end_it():
    @heddle.function(device="interp")
    def named(x):
        return x * 2, "double"

    def f(x):
        y, name = named(x)
        return y + len(name)

    with torch.no_grad():
        assert torch.compile(f, backend="aot_eager")(torch.ones(2)).tolist() == [8, 8]
        with pytest.raises(Exception, match="output type"):
            compiled(f, "aot_eager")(torch.ones(2))


def test_a_graph_is_not_made_again_for_other_sizes():
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    fast = torch.compile(lambda x: half(x)["x"] * 2, backend=backend, fullgraph=True, dynamic=True)
    for size in (5, 3, 17):
        fast(torch.ones(size))
    assert len(graphs) == 1


class Node(nn.Module):
    """A sum over a tree, by recursion."""

    def __init__(self, width=3):
        super().__init__()
        self.word, self.inner = nn.Embedding(9, width), nn.Linear(2 * width, width)
        self.register_buffer("scale", N(0.5))

    @heddle.function(device="interp")
    def node(self, left, right, i):
        if left[i] < 0:
            return self.word(i) * self.scale
        children = self.node(left, right, left[i]), self.node(left, right, right[i])
        return torch.tanh(self.inner(torch.cat(children)))

    def forward(self, left, right):
        return self.node(left, right, torch.zeros_like(left[0])) * 2


TREES = [(N([1, -1, 3, -1, -1]), N([2, -1, 4, -1, -1])), (N([1, 3, -1, -1, -1, -1, -1]), N([2, 4, -1, -1, -1, -1, -1]))]


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_recursion_in_a_module(backend):
    torch.manual_seed(0)
    model = Node()
    fast = compiled(model, backend)
    with torch.no_grad():
        for given in TREES:
            with heddle.eager():
                wanted = model(*given)
            torch.testing.assert_close(fast(*given), wanted)
        model.word.weight.mul_(-2)
        with heddle.eager():
            wanted = model(*TREES[0])
        torch.testing.assert_close(fast(*TREES[0]), wanted)


def test_heddle_takes_the_node_apart():
    torch.manual_seed(0)
    model = Node()
    with torch.no_grad():
        shape = {0: torch.export.Dim("nodes", min=3)}
        exported = torch.export.export(model, TREES[0], dynamic_shapes=(shape, shape))
    names = [str(n.target) for n in exported.graph.nodes if n.op == "call_function"]
    assert sum(name.startswith("heddle_function.") for name in names) == 1 and not any("cond" in name for name in names)
    program = heddle.compile(exported, device="interp")
    text = program.source("ir")
    assert "call @" in text and "if " in text
    with torch.no_grad():
        for given in TREES:
            with heddle.eager():
                wanted = model(*given)
            torch.testing.assert_close(program(*given), wanted)
            torch.testing.assert_close(exported.module()(*given), wanted)


def test_the_body_has_the_node_in_an_arm():
    """Exported by itself: `cond` of PyTorch with a call of the function in an arm."""

    def body(n):
        return torch.cond(n == 0, lambda n: torch.ones(()), lambda n: odd(n - 1) + 0, (n,))

    with torch.no_grad():
        exported = torch.export.export(Wrap(body), (N(3),))
    assert "heddle_function" in str(exported.graph_module.code) + "".join(m.code for _, m in exported.graph_module.named_children())
    program = heddle.compile(exported, device="interp")
    assert [float(program(N(n))) for n in (0, 1, 2, 7)] == [1, 0, 1, 0]


class Wrap(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@heddle.function(device="interp")
def apply(layer, x):
    while x.abs().sum() < 10:
        x = layer(x) * 0.1 + x + 1
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_modules_among_the_arguments(backend):
    torch.manual_seed(0)
    layer = nn.Linear(3, 3)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return apply(self.layer, x) * 2

    model, x = Outer(), torch.ones(3)
    with heddle.eager():
        wanted = model(x)
        wanted.sum().backward()
    grads = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    found = compiled(model, backend, fallback="eager")(x)
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    for p, grad in zip(layer.parameters(), grads):
        torch.testing.assert_close(p.grad, grad)


def test_stated_results_give_the_shapes():
    @heddle.function(results=lambda x: x, device="interp")
    def shrink(x):
        return shrink(x / 2) if x.abs().max() > 1 else x

    with torch.no_grad():
        torch.testing.assert_close(compiled(lambda x: shrink(x) + 1, "heddle")(N([8.0, 1.0])), N([2.0, 1.125]))


def test_results_of_a_size_that_the_run_decides():
    @heddle.function(device="interp")
    def positive(x):
        rows = torch.zeros(0)
        for row in x:
            if row > 0:
                rows = torch.cat([rows, row[None]])
        return rows

    x = N([1.0, -1.0, 3.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        for backend in ("aot_eager", "heddle"):
            torch._dynamo.reset()
            assert compiled(lambda x: positive(x) * 2, backend)(x).tolist() == [2, 6]


def test_pytorch_checks_the_operator():
    x = torch.ones(3) * 4
    collatz(N(3))
    half(x)
    entry = half.entry(None, (x,), {})
    torch.library.opcheck(half.operator.default, (entry.key, False, [x], []))
