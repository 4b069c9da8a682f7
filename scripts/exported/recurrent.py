"""Recurrent networks: state in and out, lengths, a branch on the rank."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .sizes import rows
from .table import DYNAMO, TORCHSCRIPT, small

BATCH_TIME = {0: "batch", 1: "time"}


@small([(rows(5, 2, 4), rows(1, 2, 6), rows(1, 2, 6)), (rows(1, 2, 4), rows(1, 2, 6),
                                                        rows(1, 2, 6))],
       [{0: "time"}, {}, {}])
class LstmState(nn.Module):
    """An LSTM that takes and returns its state."""

    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(4, 6)

    def forward(self, x, h, c):
        y, (h, c) = self.net(x, (h, c))
        return y, h, c


@small([(rows(3, 5, 4), torch.tensor([5, 4, 1])), (rows(2, 7, 4), torch.tensor([7, 2]))],
       [BATCH_TIME, {0: "batch"}], exporters=(TORCHSCRIPT,))
class PackedGru(nn.Module):
    """A bidirectional GRU over packed sequences: sequence_lens is [batch]."""

    def __init__(self):
        super().__init__()
        self.net = nn.GRU(4, 6, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        y, h = self.net(packed)
        y, _ = pad_packed_sequence(y, batch_first=True)
        return y, h


@small([(rows(2, 5, 4),), (rows(1, 3, 4),)], [BATCH_TIME])
class StackedGru(nn.Module):
    """Two bidirectional layers, zeros as the first state."""

    def __init__(self):
        super().__init__()
        self.net = nn.GRU(4, 5, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        y, h = self.net(x)
        return self.head(y).log_softmax(-1), h[-1]


@small([(rows(5, 4),), (rows(2, 4),)], [{0: "time"}], scripted=True)
class AnyRank(nn.Module):
    """A branch on the rank: one sequence or a batch of them."""

    def __init__(self):
        super().__init__()
        self.net = nn.LSTM(4, 6, batch_first=True)

    def forward(self, x):
        alone = x.dim() == 2
        if alone:
            x = x.unsqueeze(0)
        y = self.net(x)[0]
        return y.mean(1)


@small([(rows(4, 2, 4), rows(2, 4)), (rows(7, 2, 4), rows(2, 4))], [{0: "time"}, {}],
       exporters=(DYNAMO,))
class HigherOrderScan(nn.Module):
    """torch's scan, as dynamo exports it."""

    def forward(self, x, h):
        from torch._higher_order_ops.scan import scan

        def step(h, x):
            h = torch.tanh(h * 0.5 + x)
            return h, h * 2.0
        return scan(step, h, x, dim=0)
