"""Small models of the kinds that the tests compile, each with examples of three sizes. Control flow is PyTorch's own, so that export and
torch.compile see it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import while_loop


def number(n=0):
    return torch.tensor(n)


class Block(nn.Module):
    """A block of BERT (whole) or GPT (causal)."""

    def __init__(self, causal, width=16, heads=4):
        super().__init__()
        self.causal, self.heads = causal, heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, n, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(h.transpose(1, 2).reshape(b, n, width))
        return x + self.mlp(self.second(x))


class Cell(nn.Module):
    """An LSTM's step."""

    def __init__(self, width):
        super().__init__()
        self.x, self.h = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class LoopedLstm(nn.Module):
    """Two layers of an LSTM, stepped by a loop over time."""

    def __init__(self, width=8):
        super().__init__()
        self.first, self.second = Cell(width), Cell(width)

    def forward(self, x):
        def step(t, h, c, k, d):
            h, c = self.first(x.index_select(0, t[None])[0], h, c)
            k, d = self.second(h, k, d)
            return t + 1, h, c, k, d

        zero = torch.zeros_like(x[0])
        length = x.shape[0]
        return while_loop(lambda t, *rest: t < length, step, (number(), zero, zero.clone(), zero.clone(), zero.clone()))[1:]


class NasRnn(nn.Module):
    """A cell of eight gates, stepped by a loop over time."""

    def __init__(self, width=8):
        super().__init__()
        self.x, self.h = nn.Linear(width, 8 * width, bias=False), nn.Linear(width, 8 * width, bias=False)

    def step(self, x, c, m):
        z = (self.x(x) + self.h(m)).chunk(8, -1)
        a = torch.tanh(torch.sigmoid(z[0]) * torch.relu(z[1])) + c
        b = torch.tanh(torch.sigmoid(z[2]) + torch.relu(z[3]))
        d = torch.tanh(torch.tanh(z[4]) * torch.sigmoid(z[5]))
        e = torch.sigmoid(torch.tanh(z[6]) + torch.sigmoid(z[7]))
        c = torch.tanh(a) * b
        return c, torch.tanh(c * torch.tanh(d + e))

    def forward(self, x):
        zero, length = torch.zeros_like(x[0]), x.shape[0]
        _, c, m = while_loop(
            lambda t, c, m: t < length, lambda t, c, m: (t + 1, *self.step(x.index_select(0, t[None])[0], c, m)), (number(), zero, zero.clone()),
        )
        return c + m


class CachedAttention(nn.Module):
    """Attention over keys and values that a loop appends to arrays of a fixed length."""

    def __init__(self, width=8, length=7):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.length = length

    def forward(self, x):
        def step(t, x, k, v):
            k, v = k.index_copy(1, t[None], self.k(x)), v.index_copy(1, t[None], self.v(x))
            scores = self.q(x) @ k.transpose(1, 2) * 0.35
            scores = scores.masked_fill(torch.arange(self.length) > t, -1e30)
            return t + 1, self.out(torch.softmax(scores, -1) @ v), k, v

        cache = torch.zeros(x.shape[0], self.length, x.shape[2])
        return while_loop(lambda t, *rest: t < self.length, step, (number(), x.clone(), cache, cache.clone()))[1:]


class Seq2Seq(nn.Module):
    """An LSTM that reads its own most likely word until each row of the batch said the end word."""

    END, MOST = 0, 9

    def __init__(self, words=11, width=8):
        super().__init__()
        self.words, self.cell, self.scores = nn.Embedding(words, width), Cell(width), nn.Linear(width, words)
        for weights in (self.cell.x.weight, self.cell.h.weight, self.scores.weight):
            nn.init.normal_(weights)
        # The end word grows more likely.
        self.register_buffer("end", torch.eye(words)[self.END] * 0.9)

    def forward(self, h, c):
        def goes_on(n, word, done, h, c, out):
            return (n < self.MOST) & ~done.all()

        def step(n, word, done, h, c, out):
            h, c = self.cell(self.words(word), h, c)
            word = (self.scores(h) + self.end * n).argmax(1).masked_fill(done, self.END)
            return n + 1, word, done | (word == self.END), h, c, out.index_copy(0, n[None], word[None])

        rows = h.shape[0]
        start = (
            number(), torch.ones(rows, dtype=torch.int64), torch.zeros(rows, dtype=torch.bool), h.clone(), c.clone(),
            torch.zeros(self.MOST, rows, dtype=torch.int64),
        )
        made = while_loop(goes_on, step, start)
        return made[5], made[3]


class Autoencoder(nn.Module):
    """A recursive autoencoder: a loop over a tree's nodes, children first."""

    def __init__(self, width=8):
        super().__init__()
        self.join = nn.Linear(2 * width, width)

    def forward(self, left, right, x):
        count = left.shape[0]

        def step(i, nodes):
            at = i[None]
            l, r = left.index_select(0, at), right.index_select(0, at)
            both = torch.cat([nodes.index_select(0, l.clamp(min=0)), nodes.index_select(0, r.clamp(min=0))], 1)
            made = torch.cond((l >= 0).all(), lambda both, own: torch.tanh(self.join(both)), lambda both, own: own.clone(), (both, nodes.index_select(0, at)))
            return i + 1, nodes.index_copy(0, at, made)

        return while_loop(lambda i, nodes: i < count, step, (number(), x.clone()))[1][-1]


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class SkipNet(nn.Module):
    """Residual blocks, each behind a gate that a recurrent cell decides by the mean of the batch."""

    def __init__(self, width=4, blocks=3):
        super().__init__()
        self.stem, self.gate, self.decide, self.head = nn.Conv2d(3, width, 3, padding=1), Cell(width), nn.Linear(width, 1), nn.Linear(width, 5)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(blocks))
        nn.init.normal_(self.decide.weight, std=20)
        nn.init.constant_(self.decide.bias, -2.2)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        h = torch.zeros(x.shape[0], x.shape[1])
        c, scores = h.clone(), []
        for block in self.blocks:
            h, c = self.gate(x.mean((2, 3)), h, c)
            scores.append(self.decide(h))
            x = torch.cond(scores[-1].mean() > 0, lambda x, block=block: block(x), lambda x: x.clone(), (x,))
        return self.head(x.mean((2, 3))), torch.cat(scores, 1)


class BlockDrop(nn.Module):
    """Residual blocks, of which a policy network drops some for each row; a block that no row keeps is not computed."""

    def __init__(self, width=4, blocks=3):
        super().__init__()
        self.policy = nn.Sequential(nn.Conv2d(3, width, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, blocks))
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Linear(width, 5)
        self.blocks = nn.ModuleList(Residual(width) for _ in range(blocks))

    def forward(self, x):
        scores = self.policy(x)
        scores = (scores - scores.mean(0) + 0.01) * 50
        keeps, x = scores > 0, torch.relu(self.stem(x))
        for i, block in enumerate(self.blocks):
            keep = keeps[:, i]
            x = torch.cond(
                keep.any(), lambda x, keep, block=block: torch.where(keep.view(-1, 1, 1, 1), block(x), x), lambda x, keep: x.clone(), (x, keep),
            )
        return self.head(x.mean((2, 3))), torch.sigmoid(scores)


class Basic(nn.Module):
    """A block of a ResNet."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.second, self.norm2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(y)) + self.down(x))


def resnet18(width=8):
    """The layers of ResNet-18, narrow."""
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage in range(4):
        layers += [Basic(width << max(stage - 1, 0), width << stage, 1 if stage == 0 else 2), Basic(width << stage, width << stage, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << 3, 10))


class Excitation(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(width, 8, 1), nn.Conv2d(8, width, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    """A block of MobileNet v3."""

    def __init__(self, inner, wide, outer, kernel, stride, excites, act):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, wide, 1, bias=False), nn.BatchNorm2d(wide), act(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide), act(),
            *([Excitation(wide)] if excites else []), nn.Conv2d(wide, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )
        self.adds = stride == 1 and inner == outer

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v3():
    """The kinds of layers of MobileNet v3 (small), narrow."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(), Inverted(8, 8, 8, 3, 2, True, nn.ReLU),
        Inverted(8, 24, 12, 3, 2, False, nn.ReLU), Inverted(12, 32, 12, 3, 1, False, nn.ReLU), Inverted(12, 32, 16, 5, 2, True, nn.Hardswish),
        Inverted(16, 48, 16, 5, 1, True, nn.Hardswish), nn.Conv2d(16, 48, 1, bias=False), nn.BatchNorm2d(48), nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(48, 64), nn.Hardswish(), nn.Dropout(), nn.Linear(64, 10),
    )


def tree(leaves, seed):
    """A random binary tree over `leaves` leaves: children of each node, -1 for none, the root last."""
    generator = torch.Generator().manual_seed(seed)
    left, right, roots = [-1] * leaves, [-1] * leaves, list(range(leaves))
    while len(roots) > 1:
        at = int(torch.randint(len(roots) - 1, (), generator=generator))
        left.append(roots[at])
        right.append(roots[at + 1])
        roots[at : at + 2] = [len(left) - 1]
    return torch.tensor(left), torch.tensor(right), torch.randn(len(left), 8, generator=generator)


def randoms(*shapes):
    return [tuple(torch.randn(*s, generator=torch.Generator().manual_seed(i)) for s in ((shape,) if isinstance(shape[0], int) else shape)) for i, shape in enumerate(shapes)]


#: A maker and examples of three sizes of batch, length or image.
MODELS = {
    "lstm": (LoopedLstm, randoms((5, 2, 8), (11, 3, 8), (2, 7, 8))),
    "nasrnn": (NasRnn, randoms((5, 2, 8), (11, 3, 8), (2, 7, 8))),
    "attention": (CachedAttention, randoms((2, 1, 8), (3, 1, 8), (5, 1, 8))),
    "seq2seq": (Seq2Seq, randoms(((2, 8), (2, 8)), ((3, 8), (3, 8)), ((7, 8), (7, 8)))),
    "rae": (Autoencoder, [tree(5, 0), tree(2, 1), tree(17, 2)]),
    "skipnet": (SkipNet, randoms((2, 3, 8, 10), (5, 3, 10, 8), (7, 3, 8, 12))),
    "blockdrop": (BlockDrop, randoms((2, 3, 8, 10), (5, 3, 10, 8), (7, 3, 8, 12))),
    "bert": (lambda: Block(False), randoms((2, 5, 16), (3, 7, 16), (2, 11, 16))),
    "gpt": (lambda: Block(True), randoms((2, 5, 16), (3, 7, 16), (2, 11, 16))),
    "resnet18": (resnet18, randoms((2, 3, 40, 48), (5, 3, 48, 40), (7, 3, 40, 56))),
    "mobilenet_v3": (mobilenet_v3, randoms((2, 3, 40, 48), (5, 3, 48, 40), (7, 3, 40, 56))),
    "bidirectional": (lambda: nn.LSTM(8, 6, num_layers=2, bidirectional=True), randoms((5, 2, 8), (11, 3, 8), (2, 7, 8))),
}
