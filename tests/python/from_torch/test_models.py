"""Models as modules, exported and by torch.compile, with dynamic batch and length: one compile for three sizes, within 1e-4 of eager."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("malt")

from models import MODELS, Residual  # noqa: E402
from test_modules import same  # noqa: E402
from torch import nn  # noqa: E402

import heddle  # noqa: E402
import heddle.torch  # noqa: E402
from heddle._trace import dynamo  # noqa: E402

# Those that the C compiler sees, too.
COMPILED = ("seq2seq", "skipnet", "rae")


def made(name):
    torch.manual_seed(0)
    make, examples = MODELS[name]
    return make().eval(), examples


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model, examples = made(name)
    program = heddle.compile(model, *examples[0], device="cpu" if name in COMPILED else "interp")
    with torch.no_grad():
        for example in examples:
            same(program(*example), model(*example), atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_exported_models(name):
    model, examples = made(name)
    auto = torch.export.Dim.AUTO
    # The arrays of a cache keep their length.
    shapes = tuple({i: auto for i, size in enumerate(a.shape) if size > 1 and size != 3} for a in examples[0])
    with torch.no_grad():
        wanted = [model(*example) for example in examples]
        if name == "bidirectional":
            # PyTorch's export of nn.LSTM itself fixes the length.
            model = heddle.torch.prepare(nn.Sequential(model))
        program = heddle.compile(torch.export.export(model, examples[0], dynamic_shapes=shapes), device="interp")
        for example, right in zip(examples, wanted):
            same(program(*example), right, atol=1e-4)


@pytest.fixture
def compiles(monkeypatch):
    """Counts the programs that torch.compile asks for."""
    found = []
    compile_part = dynamo._Part._compile

    def counted(self, args):
        found.append(self)
        return compile_part(self, args)

    monkeypatch.setattr(dynamo._Part, "_compile", counted)
    torch._dynamo.reset()
    return found


# PyTorch fails to trace the loop of the other one, for its own back end "eager", too.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "seq2seq"])
def test_models_by_torch_compile(name, compiles):
    model, examples = made(name)
    with torch.no_grad():
        wanted = [model(*example) for example in examples]
        if name == "bidirectional":
            model = heddle.torch.prepare(nn.Sequential(model))
        program = torch.compile(model, backend="heddle", dynamic=True, fullgraph=True, options={"device": "interp", "fallback": "error"})
        for example, right in zip(examples, wanted):
            same(program(*example), right, atol=1e-4)
    assert len(compiles) == 1


def test_models_of_torchvision():
    vision = pytest.importorskip("torchvision")
    for make in (vision.models.resnet18, vision.models.mobilenet_v3_small):
        torch.manual_seed(0)
        model, x = make(weights=None).eval(), torch.randn(2, 3, 64, 64)
        program = heddle.compile(model, x)
        with torch.no_grad():
            for shape in ((2, 3, 64, 64), (3, 3, 96, 64), (1 + 4, 3, 64, 80)):
                x = torch.randn(*shape)
                same(program(x), model(x), atol=1e-4)


def test_training_goes_on_as_eager_does():
    """Gradients of a residual block by torch.compile."""
    losses = []
    for way in ("eager", "heddle"):
        torch.manual_seed(0)
        model = Residual(4)
        step = model if way == "eager" else torch.compile(model, backend="heddle", dynamic=True, options={"device": "interp"})
        optimizer, found = torch.optim.SGD(model.parameters(), lr=0.1), []
        for i in range(4):
            x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(i))
            loss = step(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
        losses.append(found)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
