"""torch.compile with Heddle as its back end, beside eager."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import heddle  # noqa: E402
import heddle.torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="heddle", dynamic=True, options={"device": "interp", **options})


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


def test_the_backend_is_registered():
    assert "heddle" in torch._dynamo.list_backends()


def test_inference_at_three_sizes():
    model = net().eval()
    fast = compiled(model, fallback="error")
    with torch.no_grad():
        for n in (5, 2, 31):
            x = torch.randn(n, 4)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


def test_weights_that_change_are_seen():
    model = net().eval()
    fast = compiled(model, fallback="error")
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        model[0].weight.mul_(2)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
        model[3].bias = nn.Parameter(torch.ones(3))
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_compiled_device():
    model = net().eval()
    fast = torch.compile(model, backend="heddle", options={"fallback": "error"})
    x = torch.randn(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


def test_training_follows_eager():
    losses = []
    for way in ("eager", "heddle"):
        model = net()
        step = model if way == "eager" else compiled(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(1)
        found = []
        for _ in range(5):
            x = torch.randn(6, 4, generator=generator)
            loss = (step(x) - x.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss))
        losses.append(found)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def unsupported(x):
    y = torch.relu(x) + 1
    return torch.linalg.svdvals(y) * 2


def test_what_is_not_supported_stays_in_pytorch_and_is_named():
    from heddle._trace import dynamo

    dynamo._named.clear()
    x = torch.randn(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.testing.assert_close(compiled(unsupported)(x), unsupported(x), rtol=1e-4, atol=1e-4)
    assert any("svd" in str(w.message) and "test_backend.py" in str(w.message) for w in caught)


def test_what_is_not_supported_can_be_an_error():
    with pytest.raises(Exception, match="svd"):
        compiled(unsupported, fallback="error")(torch.randn(4, 4))


def test_options_are_checked():
    with pytest.raises(Exception, match="fallback"):
        compiled(unsupported, fallback="maybe")(torch.randn(4, 4))


def test_control_flow_of_pytorch():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    fast = compiled(f, fallback="error")
    with torch.no_grad():
        for x in (torch.ones(3), -torch.ones(5), torch.ones(7)):
            torch.testing.assert_close(fast(x), f(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_prepared_recurrent_modules_are_one_graph(kind):
    torch.manual_seed(0)
    plain = kind(4, 5, num_layers=2, bidirectional=True).eval()
    prepared = heddle.torch.prepare(nn.Sequential(plain)).eval()
    fast = torch.compile(prepared, backend="heddle", dynamic=True, fullgraph=True, options={"device": "interp", "fallback": "error"})
    with torch.no_grad():
        for n in (3, 7, 12):
            x = torch.randn(n, 2, 4)
            for a, b in zip(torch.utils._pytree.tree_leaves(fast(x)), torch.utils._pytree.tree_leaves(plain(x))):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_subclasses_of_recurrent_modules_stay():
    class Own(nn.LSTM):
        pass

    assert isinstance(heddle.torch.prepare(nn.Sequential(Own(2, 2)))[0], Own)


def branches(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def test_explain_names_the_line_and_what_to_write():
    found = heddle.torch.explain(branches, torch.ones(3))
    assert len(found.graphs) >= 1 and "test_backend.py" in str(found) and "@heddle.function" in str(found)
    assert heddle.torch.explain(unsupported, torch.randn(3, 3)).eager


def test_explain_warns_of_a_line_that_makes_many_graphs():
    def halves(x):
        while x.sum() > 1:
            x = x * 0.5
        return x

    with pytest.warns(UserWarning, match="8 graphs of this line") as caught:
        heddle.torch.explain(halves, torch.ones(3) * 1000)
    assert any("test_backend.py" in str(w.message) and "@heddle.function" in str(w.message) for w in caught)


def test_explain_does_not_warn_of_one_graph():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert len(heddle.torch.explain(net(), torch.ones(2, 4)).graphs) == 1
