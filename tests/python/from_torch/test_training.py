"""Training: gradients through functions, and 20 steps of SGD under torch.compile beside eager."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

import heddle  # noqa: E402

N = torch.tensor
STEPS = 20


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def gradients(function, *args):
    leaves = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
    result = function(*leaves)
    total = sum(r.pow(2).sum() for r in torch.utils._pytree.tree_leaves(result) if torch.is_tensor(r) and r.requires_grad)
    wanted = [a for a in leaves if a.requires_grad]
    return result, torch.autograd.grad(total, wanted, allow_unused=True)


def agree(found, wanted):
    flat = torch.utils._pytree.tree_leaves
    for a, b in zip(flat(found), flat(wanted), strict=True):
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-4, atol=1e-5, check_dtype=False)


def power(x, n):
    y = x * 0 + 1
    for _ in range(n):
        if y.sum() > 100:
            break
        y = y * x
    return y, n + 1


def halves(x, y):
    while x.abs().max() > 1:
        x = x / 2 + y
    return {"x": x, "far": x * y.detach()}


@pytest.mark.parametrize("n", [0, 1, 5])
def test_gradients_of_a_loop(n):
    x = torch.tensor([0.5, -1.25, 2.0], requires_grad=True)
    made = heddle.function(device="interp")(power)
    agree(gradients(made, x, N(n)), gradients(power, x, N(n)))


def test_gradients_of_a_dictionary():
    x, y = torch.tensor([8.0, -3.0], requires_grad=True), torch.tensor([0.1, 0.2], requires_grad=True)
    made = heddle.function(device="interp")(halves)
    agree(gradients(made, x, y), gradients(halves, x, y))


def test_gradients_of_arguments_that_do_not_matter_are_zero():
    made = heddle.function(lambda x, y: x * 2, device="interp")
    x, y = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    made(x, y).sum().backward()
    assert x.grad.tolist() == [2, 2] and (y.grad is None or y.grad.tolist() == [0, 0, 0])


def test_gradients_of_tensors_that_python_reads_around():
    scale = torch.tensor([2.0, 3.0], requires_grad=True)
    made = heddle.function(lambda x: x * scale, device="interp")
    x = torch.ones(2, requires_grad=True)
    made(x).sum().backward()
    assert x.grad.tolist() == [2, 3] and scale.grad.tolist() == [1, 1]
    fast = torch.compile(lambda x: made(x) + 1, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception) as caught:
        fast(x)
    error, texts = caught.value, []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    assert any("does not see" in text for text in texts), texts


def test_gradients_of_random_numbers_are_refused():
    made = heddle.function(lambda x: x * torch.rand_like(x), device="interp")
    with pytest.raises(heddle.Unsupported, match="random") as caught:
        made(torch.ones(3, requires_grad=True))
    assert "test_training.py" in caught.value.place
    with torch.no_grad():
        assert made(torch.ones(3)).shape == (3,)


class Layers(nn.Module):
    """Layers that could draw random numbers, and do not."""

    def __init__(self):
        super().__init__()
        self.lstm, self.drop = nn.LSTM(4, 4, batch_first=True), nn.Dropout(0.5)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    @heddle.function(device="interp")
    def run(self, x):
        y = self.drop(self.lstm(x)[0])
        return self.attention(y, y, y, need_weights=False)[0]


def test_gradients_of_layers_that_draw_no_numbers():
    model = Layers().eval()
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def run():
        return torch.autograd.grad(model.run(x).pow(2).sum(), (x, *model.parameters()))

    found = run()
    with heddle.eager():
        agree(found, run())
    with pytest.raises(heddle.Unsupported, match="random"):
        model.train()
        run()


def test_second_gradients_are_refused():
    made = heddle.function(lambda x: x * x, device="interp")
    x = torch.ones(3, requires_grad=True)
    (first,) = torch.autograd.grad(made(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(first.sum(), x)


def test_other_weights_have_gradients_of_their_own():
    model = Tree()
    weights = {name: torch.randn_like(t).requires_grad_() for name, t in model.named_parameters()}

    def run(eager):
        for t in weights.values():
            t.grad = None
        with heddle.eager() if eager else torch.enable_grad():
            torch.func.functional_call(model, weights, tree(5, 1)).sum().backward()
        return [t.grad.clone() for t in weights.values()]

    agree(run(False), run(True))


# Steps


class Tree(nn.Module):
    """A recursive TreeLSTM."""

    def __init__(self, words=20, width=4):
        super().__init__()
        self.word, self.leaf, self.inner = nn.Embedding(words, width), nn.Linear(width, 2 * width), nn.Linear(2 * width, 5 * width)

    @heddle.function
    def node(self, left, right, words, i):
        if left[i] < 0:
            h, c = self.leaf(self.word(words[i])).chunk(2)
            return torch.tanh(h), c
        left_h, left_c = self.node(left, right, words, left[i])
        right_h, right_c = self.node(left, right, words, right[i])
        i_gate, f_left, f_right, o_gate, update = self.inner(torch.cat([left_h, right_h])).chunk(5)
        c = torch.sigmoid(i_gate) * torch.tanh(update) + torch.sigmoid(f_left) * left_c + torch.sigmoid(f_right) * right_c
        return torch.sigmoid(o_gate) * torch.tanh(c), c

    def forward(self, left, right, words):
        return self.node(left, right, words, torch.zeros_like(left[0]))[0]


def tree(leaves, seed):
    """A tree with its root in front: children are at higher places."""
    generator = torch.Generator().manual_seed(seed)
    left, right, open_ = [-1], [-1], [0]
    for _ in range(leaves - 1):
        at = open_.pop(int(torch.randint(len(open_), (), generator=generator)))
        left[at], right[at] = len(left), len(left) + 1
        open_ += [len(left), len(left) + 1]
        left += [-1, -1]
        right += [-1, -1]
    return N(left), N(right), torch.randint(20, (len(left),), generator=generator)


class Recurrent(nn.Module):
    """An LSTM by `scan`."""

    def __init__(self, inputs=3, width=5):
        super().__init__()
        self.cell, self.out, self.width = nn.Linear(inputs + width, 4 * width), nn.Linear(width, 1), width

    def forward(self, x):
        def step(carried, row):
            h, c = carried
            i, f, o, update = self.cell(torch.cat([row, h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(update)
            h = torch.sigmoid(o) * torch.tanh(c)
            return [h.clone(), c.clone()], h.clone()

        start = [x.new_zeros(x.shape[1], self.width), x.new_zeros(x.shape[1], self.width)]
        return self.out(scan(step, start, x)[1])


class Gated(nn.Module):
    """Layers of which each row of the batch may skip one, by `cond`."""

    def __init__(self, inputs=3, width=6):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, width), nn.Linear(width, 1)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        y = torch.tanh(self.first(x))
        for layer in self.layers:
            y = torch.cond(y.sum() > 0, lambda y, w, b: y + torch.relu(y @ w.t() + b), lambda y, w, b: y * 0.5 + b - b, (y, layer.weight, layer.bias))
        return self.last(y)


def batches(kind):
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        if kind is Tree:
            yield tree(3 + step % 5, step), torch.rand((), generator=generator)
        elif kind is Recurrent:
            x = torch.randn(7, 2, 3, generator=generator)
            yield (x,), x.cumsum(0).mean(2, keepdim=True)
        else:
            x = torch.randn(4, 3, generator=generator)
            yield (x,), x.sum(1, keepdim=True)


def train(kind, wrap):
    """The losses of some steps, and the files of the cache after each."""
    torch.manual_seed(0)
    model = kind()
    fast, losses, files = wrap(model), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for given, wanted in batches(kind):
        loss = (fast(*given) - wanted).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        files.append(wrap.builds() if hasattr(wrap, "builds") else 0)
    return losses, files


class Compiled:
    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, model):
        return torch.compile(model, backend="heddle", dynamic=True, options={"cache": str(self.folder)})

    def builds(self):
        return sum(1 for path in self.folder.rglob("*.so"))


@pytest.mark.parametrize("kind", [Recurrent, Gated, Tree], ids=lambda k: k.__name__)
def test_twenty_steps_follow_eager(kind, tmp_path):
    with heddle.eager():
        wanted, _ = train(kind, lambda model: model)
    found, files = train(kind, Compiled(tmp_path))
    assert found == pytest.approx(wanted, rel=1e-4)
    assert files[1] > 0 and files[-1] == files[1], files
