"""`.pt2` archives of several models."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import heddle  # noqa: E402


class Prefill(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x)


class Step(nn.Module):
    """Changes parts of its argument, and a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, y):
        y = y * 1
        first, _ = y.split([1, 2])
        first.mul_(2)
        self.count.add_(1)
        return y[:2] + self.count


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    from torch.export.pt2_archive._package import package_pt2

    models = {"prefill": (Prefill(), torch.randn(4, 3)), "step": (Step(), torch.randn(3))}
    path = tmp_path_factory.mktemp("archive") / "two.pt2"
    package_pt2(str(path), exported_programs={name: torch.export.export(model, (x,)) for name, (model, x) in models.items()})
    return path, models


def test_models_are_entries(archive):
    path, models = archive
    assert heddle.load(path).entries == ["prefill", "step"]
    programs = heddle.compile(path, entries=["prefill", "step"], device="interp")
    for name, (model, x) in models.items():
        found = programs[name](x)
        found = found[0] if isinstance(found, tuple) else found
        with torch.no_grad():
            torch.testing.assert_close(found, Step()(x) if name == "step" else model(x))


def test_an_entry_is_read_alone(archive):
    path, _ = archive
    step = heddle.load(path, entry="step")
    assert step.entries == ["step"] and [name for name, _ in step.optional_inputs] == ["count"]
    assert heddle.load(path).optional_inputs == []
    with pytest.raises(heddle.Error, match="prefill"):
        heddle.load(path, entry="other")
