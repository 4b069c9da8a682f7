"""Programs in the workers of PyTorch's DataLoader."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset  # noqa: E402

import heddle  # noqa: E402


class Halved(Dataset):
    """Items that a program prepares."""

    def __init__(self, program):
        self.program = program

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.program(torch.full((3,), float(i + 1)))


class Halve(torch.nn.Module):
    def forward(self, x):
        while x.sum() > 1:
            x = x / 2
        return x


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers(way):
    model = Halve()
    program = heddle.compile(model, torch.ones(3), threads=2)
    wanted = [model(torch.full((3,), float(i + 1))) for i in range(12)]
    items = Halved(program)
    torch.testing.assert_close(items[4], wanted[4])
    loader = DataLoader(items, batch_size=None, num_workers=2, multiprocessing_context=way, timeout=300)
    for found, right in zip(loader, wanted, strict=True):
        torch.testing.assert_close(found, right)
