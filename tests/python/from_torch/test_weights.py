"""Weights, hooks, settings of PyTorch and constants of Python: a later call sees each change, and gradients are those of plain Python."""

import copy
import gc
import io
import math
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from torch import nn  # noqa: E402
from torch.nn.modules import module as modules  # noqa: E402

import heddle  # noqa: E402
from heddle._trace import entries, operators  # noqa: E402

X = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight

    @heddle.function(device="interp")
    def run(self, x):
        return self.second(torch.tanh(self.first(x)))


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner.run(x) * 2


class Doubles(nn.Module):
    """It branches, so that its forward pass has to be converted."""

    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def both(run):
    """What something gives compiled, and as plain Python."""
    found = run()
    with heddle.eager():
        return found, run()


# Gradients


def weight_gradient(model, run):
    model.zero_grad()
    run().sum().backward()
    return model.first.weight.grad.clone()


def test_a_weight_under_two_names_has_the_sum_of_its_gradients():
    model = Tied()
    close(*both(lambda: weight_gradient(model, lambda: model.run(X))))


def test_a_weight_under_two_names_in_torch_compile():
    torch._dynamo.reset()
    model = Tied()
    around = Around(model)
    compiled = torch.compile(around, backend="aot_eager", fullgraph=True)
    found = weight_gradient(model, lambda: compiled(X))
    with heddle.eager():
        close(found, weight_gradient(model, lambda: around(X)))


def test_a_weight_under_two_names_that_another_one_replaces():
    around, other = Around(Tied()), torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def run():
        return torch.autograd.grad(torch.func.functional_call(around, {"inner.first.weight": other}, (X,)).sum(), other)[0]

    close(*both(run))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, grad * x


def test_a_function_of_autograd_hands_gradients_on():
    weight = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    made = heddle.function(lambda x: Scale.apply(x, weight) + weight, device="interp")
    x = torch.ones(3, requires_grad=True)

    def run():
        return torch.autograd.grad(made(x).pow(2).sum(), (x, weight))

    close(*both(run))


def test_a_function_of_autograd_with_a_weight_that_has_hooks_is_refused():
    weight = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    weight.register_hook(lambda grad: grad * 2)
    made = heddle.function(lambda x: Scale.apply(x, weight), device="interp")
    with pytest.raises(heddle.Unsupported, match="hooks"):
        made(torch.ones(3)).sum().backward()


def test_gradients_in_several_threads():
    model, rows = Tied(), [X * i for i in range(1, 7)]

    def gradient(x):
        return torch.autograd.grad(model.run(x).sum(), model.first.weight)[0]

    with heddle.eager():
        wanted = [gradient(x) for x in rows]
    faults = []

    def work(x, grad):
        try:
            for _ in range(10):
                close(gradient(x), grad)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(rows, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]


def test_a_change_between_the_passes_is_refused():
    outside = torch.ones(3)
    made = heddle.function(lambda x: x * outside, device="interp")
    result = made(torch.ones(3, requires_grad=True))
    outside.mul_(2)
    with pytest.raises(heddle.Unsupported, match="changed in place since the forward pass"):
        result.sum().backward()
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0)).eval()
    made = heddle.function(lambda m, x: m(x), device="interp")
    result = made(model, X)
    model.train()
    with pytest.raises(heddle.Unsupported, match="between training and evaluation"):
        result.sum().backward()


# Changes


def test_weights_that_change_or_are_replaced():
    model = Tied()
    with torch.no_grad():
        for _ in range(4):
            model.first.weight.mul_(1.5)
            close(*both(lambda: model.run(X)))
            model.first.weight = nn.Parameter(torch.randn(3, 3))
            close(*both(lambda: model.run(X)))
            model.second = nn.Linear(3, 3, bias=True)
            close(*both(lambda: model.run(X)))


def test_weights_as_inputs_leave_other_tensors_constants_that_may_change():
    outside = torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    made = heddle.function(lambda x: x * weight + outside, device="interp")
    for step in range(4):
        assert made(torch.ones(3)).tolist() == [step + 2.0] * 3
        outside.add_(1)


def test_modules_that_others_replace():
    model = nn.Sequential(nn.Tanh(), nn.Linear(3, 3))
    made = heddle.function(lambda m, x: m(x), device="interp")
    with torch.no_grad():
        close(*both(lambda: made(model, X)))
        model[0] = nn.Sigmoid()
        close(*both(lambda: made(model, X)))
        model.append(nn.Tanh())
        close(*both(lambda: made(model, X)))


def test_training_and_evaluation_are_told_apart():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(1.0))
    made = heddle.function(lambda m, x: m(x), device="interp")
    with torch.no_grad():
        for _ in range(2):
            assert made(model.eval(), X).abs().sum() > 0
            assert made(model.train(), X).abs().sum() == 0


def test_settings_of_pytorch_are_told_apart():
    product = heddle.function(lambda x: x @ x.T, device="interp")
    mode = heddle.function(lambda x: x * 2 if torch.is_grad_enabled() else x * 3, device="interp")
    fresh = heddle.function(lambda x: x + torch.ones(3, 3), device="interp")
    for _ in range(2):
        assert product(X).dtype == torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            assert product(X).dtype == torch.bfloat16
            torch.testing.assert_close(product(X).float(), X @ X.T, rtol=0.02, atol=0.02, check_dtype=False)
        assert mode(torch.ones(1)) == 2
        with torch.no_grad():
            assert mode(torch.ones(1)) == 3
        assert fresh(torch.ones(3, 3)).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert fresh(torch.ones(3, 3, dtype=torch.float32)).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


def test_zeros_of_both_signs_and_nan_are_constants():
    sign = heddle.function(lambda x, c: x + math.copysign(1, c), device="interp")
    x = torch.zeros(1)
    for c in (0.0, -0.0, 0.0, float("nan"), float("nan")):
        assert sign(x, c) == math.copysign(1, c)
    assert len(sign.entries[None]) == 3
    with pytest.raises(heddle.InputError, match="-0.0"):
        sign.compile(x, 0.0)(x, -0.0)
    assert sign.compile(x, float("nan"))(x, float("nan")) == 1
    kind = heddle.function(lambda x, c: x + (1 if isinstance(c, bool) else 2 if isinstance(c, int) else 3), device="interp")
    assert [float(kind(x, c)) for c in (True, 1, 1.0, 1 + 0j)] == [1, 2, 3, 3]
    for _ in range(3):
        kind(x, complex("1+2j"))
    assert len(kind.entries[None]) == 5


# Hooks


def test_hooks_of_modules_run():
    model = nn.Sequential(nn.Linear(3, 3), Doubles())
    made = heddle.function(lambda m, x: m(x), device="interp")

    def check():
        with torch.no_grad():
            close(*both(lambda: made(model, X)))

    check()
    handles = [
        model[0].register_forward_hook(lambda m, args, result: result * 0 + 7),
        model[1].register_forward_pre_hook(lambda m, args: (args[0] + 1,)),
        model[1].register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 3,), kwargs), with_kwargs=True),
        model[1].register_forward_hook(lambda m, args, kwargs, result: result + args[0], with_kwargs=True),
    ]
    check()
    handles.append(modules.register_module_forward_hook(lambda m, args, result: result - 1))
    handles.append(modules.register_module_forward_pre_hook(lambda m, args: args[0] / 2))
    try:
        check()
    finally:
        for handle in handles[::-1]:
            handle.remove()
    check()


def test_hooks_of_gradients_run_once():
    model, seen = Tied(), []
    model.first.weight.register_hook(lambda grad: (seen.append("weight"), grad * 2)[1])
    model.first.register_full_backward_hook(lambda *_: seen.append("module"))
    x = X.clone().requires_grad_()
    found = weight_gradient(model, lambda: model.run(x))
    assert sorted(seen) == ["module", "weight"]
    with heddle.eager():
        close(found, weight_gradient(model, lambda: model.run(x)))


# Memory


def test_a_changed_argument_shares_no_memory_with_a_weight():
    held = torch.zeros(3)

    def add(x):
        x += 1
        return x + held

    made = heddle.function(add, device="interp")
    assert made(torch.zeros(3)).tolist() == [1, 1, 1]
    with pytest.raises(heddle.InputError, match="share memory") as caught:
        made(held[:])
    assert "clone" in caught.value.hint and held.tolist() == [0, 0, 0]


@pytest.mark.parametrize("grad", [False, True])
def test_results_share_no_memory(grad):
    def several(x):
        y = x + 1
        return y, y, x, x[:1], y.view(-1)

    x = torch.ones(2, requires_grad=grad)
    results = heddle.function(several, device="interp")(x)
    assert len({t.data_ptr() for t in (x, *results)}) == 6
    assert [t.tolist() for t in results] == [[2, 2], [2, 2], [1, 1], [1], [2, 2]]


def test_programs_die_with_their_modules():
    model, plain = Tied(), nn.Linear(3, 3)
    made = heddle.function(lambda m, x: m(x), device="interp")
    close(*both(lambda: model.run(X)))
    close(*both(lambda: made(plain, X)))
    there = weakref.ref(model), weakref.ref(plain)
    assert not made.entries
    del model, plain
    gc.collect()
    assert [ref() for ref in there] == [None, None]


def test_tokens_of_dynamo_hold_nothing():
    model = nn.Linear(3, 3)
    text = operators.token(model)
    assert operators.object_of(text) is model and operators.token(model) == text and operators.object_of(operators.token(None)) is None
    del model
    gc.collect()
    with pytest.raises(heddle.Unsupported, match="no longer there"):
        operators.object_of(text)


def test_signatures_are_bounded(monkeypatch):
    monkeypatch.setattr(entries, "MOST", 3)
    made = heddle.function(lambda x, n: x + n, device="interp")
    for n in (*range(6), 0):
        assert made(torch.zeros(1), n) == n
    assert len(made.entries[None]) == 3


def test_copies_and_pickles_begin_anew():
    model = Tied()
    with torch.no_grad():
        before = model.run(X)
        clone = copy.deepcopy(model)
        clone.first.weight.zero_()
        assert clone.run(X).abs().sum() == 0 and torch.equal(model.run(X), before)
        shallow = copy.copy(model)
        assert torch.equal(shallow.run(X), before)
    plain, made = nn.Linear(3, 3), heddle.function(lambda m, x: m(x), device="interp")
    close(*both(lambda: made(plain, X)))
    file = io.BytesIO()
    torch.save(plain, file)
    assert b"heddle._trace" not in file.getvalue()
    file.seek(0)
    close(made(torch.load(file, weights_only=False), X), made(plain, X))
