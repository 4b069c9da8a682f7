"""Voice activity detection in the form of Silero VAD: networks for two rates in the branches of an
If, an LSTM behind an If on the rank of its input, the state in and out."""
import torch
from torch import nn

from .sizes import rows
from .table import small


class Rate(nn.Module):
    """The network for one rate: a spectrum by convolution, an encoder, a cell, a head."""

    def __init__(self, window: int, width: int):
        super().__init__()
        self.hop = window // 2
        self.basis = nn.Conv1d(1, 2 * width, window, stride=self.hop, bias=False)
        self.first = nn.Conv1d(width, 8, 3, padding=1, stride=2)
        self.second = nn.Conv1d(8, 8, 3, padding=1, stride=2)
        self.third = nn.Conv1d(8, 6, 3, padding=1, stride=2)
        self.cell = nn.LSTMCell(6, 6)
        self.head = nn.Conv1d(6, 1, 1)

    def forward(self, x, state):
        padded = nn.functional.pad(x.unsqueeze(1), [0, self.hop], "reflect")
        parts = self.basis(padded)
        half = parts.size(1) // 2
        y = torch.sqrt(parts[:, :half] ** 2 + parts[:, half:] ** 2)
        y = torch.relu(self.second(torch.relu(self.first(y))))
        y = torch.relu(self.third(y)).squeeze(-1)
        h, c = self.cell(y, (state[0], state[1]))
        score = torch.sigmoid(self.head(torch.relu(h.float()).unsqueeze(-1)))
        return score.mean(2), torch.stack([h, c])


class Detector(nn.Module):
    """Picks the network by the rate; takes a state or none."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = Rate(16, 5), Rate(8, 4)

    def forward(self, x, state, rate: int):
        if state.size(0) == 0:
            state = torch.zeros(2, x.size(0), 6)
        if rate == 16000:
            score, state = self.wide(x, state)
        else:
            score, state = self.narrow(x, state)
        return score, state


RUNS = [(rows(2, 64), rows(2, 2, 6), torch.tensor(16000)),
        (rows(3, 32), rows(2, 3, 6), torch.tensor(8000)),
        (rows(1, 64), torch.zeros(0, 1, 6), torch.tensor(16000))]
AXES = [{0: "batch", 1: "samples"}, {0: "layers", 1: "batch"}, {}]


@small(RUNS, AXES, scripted=True)
class VoiceActivity(Detector):
    """Shapes are declared where TorchScript knows them."""


@small(RUNS, AXES, scripted=True, ranks=False)
class VoiceActivityUnranked(Detector):
    """No shape is declared but the inputs'."""
