"""Loops that end: counters of all kinds, lengths, conditions with And; branches."""
import torch
from torch import nn

from .sizes import rows, words
from .table import DYNAMO, small


@small([(rows(2, 4), torch.tensor(7)), (rows(3, 4), torch.tensor(1))], [{0: "batch"}, {}],
       scripted=True)
class CountFromOne(nn.Module):
    """A counter that begins at 1; results in a list."""

    def forward(self, x, n: int):
        outs = [x]
        i = 1
        while i < n:
            x = torch.tanh(x) + float(i)
            outs.append(x)
            i += 1
        return torch.stack(outs)


@small([(rows(2, 4), torch.tensor(8)), (rows(3, 4), torch.tensor(3))], [{0: "batch"}, {}],
       scripted=True)
class CountByTwo(nn.Module):
    """A counter from 3 by steps of 2, up to and with the limit."""

    def forward(self, x, n: int):
        out = x.unsqueeze(0)
        i = 3
        while i <= n:
            x = torch.tanh(x) + float(i)
            out = torch.cat([out, x.unsqueeze(0)])
            i += 2
        return out, i


@small([(rows(2, 4), torch.tensor(6)), (rows(3, 4), torch.tensor(0))], [{0: "batch"}, {}],
       scripted=True)
class CountDown(nn.Module):
    """A counter that falls to 0."""

    def forward(self, x, n: int):
        out = x.unsqueeze(0)
        while n > 0:
            x = torch.tanh(x) + float(n)
            out = torch.cat([out, x.unsqueeze(0)])
            n -= 1
        return out


@small([(rows(1, 4), torch.tensor(6)), (rows(1, 4), torch.tensor(2))], [{}, {}], scripted=True)
class LengthLimit(nn.Module):
    """The condition reads the length of what grows."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x, limit: int):
        out = x.unsqueeze(1)
        while out.shape[1] < limit:
            x = torch.tanh(self.net(x))
            out = torch.cat([out, x.unsqueeze(1)], 1)
        return out


@small([(torch.tensor([[1]]), torch.tensor(9)), (torch.tensor([[4]]), torch.tensor(3))],
       [{0: "batch", 1: "prompt"}, {}], scripted=True)
class GreedyUntilEnd(nn.Module):
    """Greedy decoding without a cache: until the end word, or the length."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, ids, most: int):
        done = torch.zeros(ids.shape[0], dtype=torch.bool)
        while ids.shape[1] < most and not bool(done.all()):
            h = torch.tanh(self.words(ids).cumsum(1))[:, -1]
            best = self.head(h).argmax(-1)
            best = torch.where(done, torch.zeros_like(best), best)
            done = done | (best == 2)
            ids = torch.cat([ids, best.unsqueeze(1)], 1)
        return ids


@small([(words(9), torch.tensor(5)), (words(4), torch.tensor(2))], [{0: "time"}, {}],
       scripted=True)
class CollapseRepeats(nn.Module):
    """As CTC's decoding: what is appended depends on a branch, the counter does not."""

    def forward(self, ids, blank: int):
        out = torch.zeros(0, dtype=torch.int64)
        last = -1
        for i in range(ids.size(0)):
            word = int(ids[i])
            if word != last and word != blank:
                out = torch.cat([out, ids[i].unsqueeze(0)])
            last = word
        return out


@small([(rows(6, 4), torch.tensor(9)), (rows(3, 4), torch.tensor(4))], [{0: "time"}, {}],
       scripted=True)
class MovedInBranch(nn.Module):
    """As in a transducer: each turn either emits a word or moves on in time, at most so often."""

    def forward(self, x, most: int):
        out = torch.zeros(0, dtype=torch.int64)
        t = 0
        state = torch.zeros(4)
        while t < x.size(0) and out.size(0) < most:
            state = torch.tanh(state + x[t])
            best = state.argmax()
            if bool(best == 0):
                t += 1
            else:
                out = torch.cat([out, best.unsqueeze(0)])
                state = state * -0.5
        return out, t


@small([(rows(2, 4),), (rows(2, 4) * 3,)], [{0: "batch"}], scripted=True)
class UntilSmall(nn.Module):
    """A fixed point: until the change is small, or 20 times."""

    def forward(self, x):
        steps = 0
        change = torch.ones([])
        while bool(change > 1e-2) and steps < 20:
            y = torch.tanh(x) * 0.5 + 0.1
            change = (y - x).abs().max()
            x = y
            steps = steps + 1
        return x, steps


@small([(rows(2, 3),), (-rows(2, 3) - 2,)], [{0: "batch"}], exporters=(DYNAMO,))
class HigherOrderCond(nn.Module):
    """torch.cond whose branches give a named size."""

    def forward(self, x):
        def more(x):
            return torch.cat([x, x]).sin() + 1

        def less(x):
            return torch.cat([x, -x]).cos() * 2
        return torch.cond(x.sum() > 0, more, less, (x,))[: x.shape[0]]


@small([(rows(2, 3), torch.tensor(5)), (rows(4, 3), torch.tensor(0))], [{0: "batch"}, {}],
       exporters=(DYNAMO,))
class HigherOrderWhile(nn.Module):
    """torch's while_loop with a counter, as dynamo exports it."""

    def forward(self, x, n):
        from torch._higher_order_ops.while_loop import while_loop

        def go(i, x):
            return i < n

        def body(i, x):
            return i + 1, torch.tanh(x) + 0.1
        return while_loop(go, body, (torch.tensor(0), x))


@small([(rows(2, 5, 4), rows(2, 3, 4)), (rows(1, 2, 4), rows(1, 6, 4))],
       [{0: "batch", 1: "n"}, {0: "batch", 1: "m"}], scripted=True)
class RankFromBranch(nn.Module):
    """Branches whose results have different ranks by type, one by use."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x, y):
        if x.size(1) > y.size(1):
            z = torch.cat([x, y], 1)
        else:
            z = y.reshape(-1, 4).unsqueeze(0) if y.size(0) == 1 else y
        return self.conv(z.transpose(1, 2)).mean(-1)
