"""Decoders: greedy with caches of all kinds, beam search, speculation, a transducer, CTC.

The small ones are programs of the table; `scripts/bench_decoders.py` measures large ones."""
import math
from dataclasses import dataclass
from typing import List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .table import small


@dataclass
class Size:
    """Sizes of a decoder; `most` words are said."""
    width: int
    layers: int
    heads: int
    words: int
    longest: int
    most: int
    prompt: int
    frames: int


SMALL = Size(16, 2, 2, 40, 24, 9, 4, 11)
LARGE = Size(256, 4, 4, 2000, 160, 64, 16, 60)


def gpt_of(size):
    return Gpt(size.width, size.layers, size.heads, size.words, size.longest)


def counted(size):
    """First word, most words and the word that ends."""
    return torch.tensor([3]), torch.tensor(size.most), torch.tensor(size.words - 1)


def with_cache(size, batch):
    """The same with an empty cache."""
    start, most, end = counted(size)
    return start, torch.zeros(2 * size.layers, batch, size.heads, 0,
                              size.width // size.heads), most, end


def prompt(size):
    return torch.arange(size.prompt).unsqueeze(0) * 7 % size.words


def sound(size):
    """Features of a sound, [1, T, 5]."""
    steps = torch.arange(size.frames * 5, dtype=torch.float32)
    return (steps * 1.7).sin().reshape(1, size.frames, 5) * 2


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.depth = width // heads
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def project(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """x: [B, T, width]; queries, keys, values: [B, heads, T, depth]."""
        b, t = x.shape[0], x.shape[1]
        q, k, v = self.qkv(self.one(x)).chunk(3, dim=2)
        shape = [b, t, self.heads, self.depth]
        return (q.reshape(shape).transpose(1, 2), k.reshape(shape).transpose(1, 2),
                v.reshape(shape).transpose(1, 2))

    def finish(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.depth) + mask
        mixed = torch.matmul(scores.softmax(3), v).transpose(1, 2)
        x = x + self.out(mixed.reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.two(x))))


class Gpt(nn.Module):
    """Words in, scores of the next word out; `longest` places."""

    def __init__(self, width: int, layers: int, heads: int, words: int, longest: int):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.last = nn.LayerNorm(width)
        self.heads, self.depth, self.count = heads, width // heads, layers
        self.head = nn.Linear(width, words)
        nn.init.normal_(self.head.weight)

    def forward(self, ids: Tensor, cache: Tensor) -> Tuple[Tensor, Tensor]:
        """ids: int64[B, T]; cache: [2 layers, B, heads, P, depth]. Scores [B, T, words] and the
        cache with P + T places."""
        past, t = cache.shape[3], ids.shape[1]
        place = torch.arange(past, past + t)
        x = self.words(ids) + self.places(place)
        seen = torch.arange(past + t).unsqueeze(0) <= place.unsqueeze(1)
        mask = torch.where(seen, 0.0, -1e9)
        kept: List[Tensor] = []
        for i, layer in enumerate(self.layers):
            q, k, v = layer.project(x)
            k = torch.cat([cache[2 * i], k], 2)
            v = torch.cat([cache[2 * i + 1], v], 2)
            x = layer.finish(x, q, k, v, mask)
            kept.append(k)
            kept.append(v)
        return self.head(self.last(x)), torch.stack(kept)

    def empty(self, batch: int) -> Tensor:
        return torch.zeros(2 * self.count, batch, self.heads, 0, self.depth)


@small([with_cache(SMALL, 1)], [{}, {3: "past"}, {}, {}], scripted=True)
class GrowingCache(nn.Module):
    """Greedy; the keys and values of all layers are one array that grows by a word."""

    def __init__(self, size=SMALL):
        super().__init__()
        self.gpt = gpt_of(size)

    def forward(self, start: Tensor, cache: Tensor, most: Tensor, end: Tensor) -> Tensor:
        word = start.reshape(1, 1)
        said = word
        n = 0
        going = True
        while going and n < int(most):
            scores, cache = self.gpt(word, cache)
            word = scores[:, -1].argmax(1, keepdim=True)
            said = torch.cat([said, word], 1)
            going = int(word) != int(end)
            n += 1
        return said


@small([counted(SMALL)], [{}, {}, {}], scripted=True)
class ListedCache(nn.Module):
    """Greedy; a list of keys and one of values, whose elements grow; words in a list."""

    def __init__(self, size=SMALL):
        super().__init__()
        self.gpt = gpt_of(size)

    def forward(self, start: Tensor, most: Tensor, end: Tensor) -> Tensor:
        keys: List[Tensor] = []
        values: List[Tensor] = []
        nothing = torch.zeros(1, self.gpt.heads, 0, self.gpt.depth)
        for _ in range(self.gpt.count):
            keys.append(nothing)
            values.append(nothing)
        word = start.reshape(1)
        said: List[Tensor] = [word]
        n = 0
        going = True
        while going and n < int(most):
            x = self.gpt.words(word.unsqueeze(0)) + self.gpt.places(torch.tensor([n]))
            for i, layer in enumerate(self.gpt.layers):
                q, k, v = layer.project(x)
                keys[i] = torch.cat([keys[i], k], 2)
                values[i] = torch.cat([values[i], v], 2)
                shape = [1, self.gpt.heads, -1, self.gpt.depth]
                k = keys[i].reshape(shape)
                v = values[i].reshape(shape)
                x = layer.finish(x, q, k, v, torch.zeros(1))
            scores = self.gpt.head(self.gpt.last(x))
            word = scores[0].argmax(1)
            said.append(word)
            going = int(word) != int(end)
            n += 1
        return torch.cat(said)


@small([(prompt(SMALL), *counted(SMALL)[1:])], [{1: "T"}, {}, {}], scripted=True)
class PromptFirst(nn.Module):
    """A prompt of any length at once, then word by word."""

    def __init__(self, size=SMALL):
        super().__init__()
        self.gpt = gpt_of(size)

    def forward(self, prompt: Tensor, most: Tensor, end: Tensor) -> Tensor:
        cache = self.gpt.empty(1)
        ids = prompt
        said = prompt
        going = True
        while going and said.shape[1] < int(most):
            scores, cache = self.gpt(ids, cache)
            ids = scores[:, -1].argmax(1, keepdim=True)
            said = torch.cat([said, ids], 1)
            going = int(ids) != int(end)
        return said


@small([counted(SMALL)[:2]], [{}, {}], scripted=True)
class StaticCache(nn.Module):
    """A cache of fixed length, written in place."""

    def __init__(self, size=SMALL):
        super().__init__()
        self.gpt = gpt_of(size)
        self.longest = size.longest

    def forward(self, start: Tensor, most: Tensor) -> Tensor:
        gpt = self.gpt
        cache = torch.zeros(2 * gpt.count, 1, gpt.heads, self.longest, gpt.depth)
        word = start.reshape(1, 1)
        said = torch.zeros(1, self.longest, dtype=torch.int64)
        for n in range(int(most)):
            place = torch.tensor([n])
            x = gpt.words(word) + gpt.places(place)
            mask = torch.where(torch.arange(self.longest) <= n, 0.0, -1e9)
            for i, layer in enumerate(gpt.layers):
                q, k, v = layer.project(x)
                cache[2 * i, :, :, n] = k[:, :, 0]
                cache[2 * i + 1, :, :, n] = v[:, :, 0]
                x = layer.finish(x, q, cache[2 * i], cache[2 * i + 1], mask)
            scores = gpt.head(gpt.last(x))
            word = scores[:, -1].argmax(1, keepdim=True)
            said[:, n] = word[:, 0]
        return said


@small([with_cache(SMALL, 4)], [{}, {3: "past"}, {}, {}], scripted=True)
class BeamSearch(nn.Module):
    """Four beams, whose caches grow and are put into a new order at each word."""

    def __init__(self, size=SMALL):
        super().__init__()
        self.gpt = gpt_of(size)
        self.width = 4

    def forward(self, start: Tensor, cache: Tensor, most: Tensor,
                end: Tensor) -> Tuple[Tensor, Tensor]:
        w = self.width
        said = start.reshape(1, 1).repeat(w, 1)
        first = torch.arange(w) > 0
        total = torch.where(first, -1e9, 0.0)
        done = torch.zeros(w, dtype=torch.bool)
        n = 0
        while n < int(most) and not bool(done.all()):
            scores, cache = self.gpt(said[:, -1:], cache)
            odds = scores[:, -1].log_softmax(1)
            words = odds.shape[1]
            rest = torch.where(torch.arange(words) == end, 0.0, -1e9)
            odds = torch.where(done.unsqueeze(1), rest.unsqueeze(0), odds)
            total, best = (total.unsqueeze(1) + odds).reshape(-1).topk(w)
            parent = torch.div(best, words, rounding_mode="floor")
            word = best - parent * words
            said = torch.cat([said.index_select(0, parent), word.unsqueeze(1)], 1)
            cache = cache.index_select(1, parent)
            done = done.index_select(0, parent) | (word == end)
            n += 1
        return said, total


@small([(prompt(SMALL), counted(SMALL)[1])], [{1: "T"}, {}], scripted=True)
class Speculation(nn.Module):
    """The draft says `ahead` words, the large network checks them in one step; caches roll back."""

    def __init__(self, size=SMALL):
        super().__init__()
        self.gpt = gpt_of(size)
        width = size.width // 2
        self.draft = Gpt(width, 1, size.heads, size.words, size.longest)
        self.draft.words.weight.data = self.gpt.words.weight.data[:, :width].clone()
        self.draft.head.weight.data = self.gpt.head.weight.data[:, :width].clone()
        self.ahead = 4

    def forward(self, prompt: Tensor, most: Tensor) -> Tuple[Tensor, Tensor]:
        large, small = self.gpt.empty(1), self.draft.empty(1)
        said = prompt
        steps = torch.tensor(0)
        while said.shape[1] < int(most):
            known = said.shape[1]
            guess = said
            for _ in range(self.ahead):
                scores, small = self.draft(guess[:, small.shape[3]:], small)
                guess = torch.cat([guess, scores[:, -1].argmax(1, keepdim=True)], 1)
            scores, large = self.gpt(guess[:, large.shape[3]:], large)
            # The large network's word behind each of the last `ahead + 1` words.
            mine = scores[:, -(self.ahead + 1):].argmax(2)
            wrong = (mine[:, :-1] != guess[:, known:]).to(torch.int64)
            right = int((wrong.cumsum(1) == 0).sum())
            said = torch.cat([guess[:, :known + right], mine[:, right:right + 1]], 1)
            keep = known + right
            large = large[:, :, :, :keep]
            small = small[:, :, :, :min(keep, small.shape[3])]
            steps = steps + 1
        return said, steps


@small([(sound(SMALL),)], [{1: "T"}], scripted=True)
class Transducer(nn.Module):
    """Frames outside, words inside until a blank; words in a list."""

    def __init__(self, size=SMALL):
        super().__init__()
        width, words = size.width, size.words
        self.encoder = nn.LSTM(5, width, batch_first=True)
        self.meaning = nn.Embedding(words, width)
        self.gates = nn.Linear(2 * width, 4 * width)
        self.joint = nn.Linear(width, words)
        self.width = width
        nn.init.normal_(self.joint.weight, std=0.5)
        self.joint.bias.data[0] = 0.2

    def predict(self, word: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:
        gates = self.gates(torch.cat([self.meaning(word), h], 1))
        i, f, g, o = gates.chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def forward(self, x: Tensor) -> Tensor:
        frames = self.encoder(x)[0][0]
        h = torch.zeros(1, self.width)
        c = torch.zeros(1, self.width)
        h, c = self.predict(torch.zeros(1, dtype=torch.int64), h, c)
        said = [torch.zeros(0, dtype=torch.int64)]
        for t in range(frames.shape[0]):
            n = 0
            going = True
            while going and n < 4:
                word = self.joint(torch.tanh(frames[t] + h)).argmax(1)
                if int(word) == 0:
                    going = False
                else:
                    said.append(word)
                    h, c = self.predict(word, h, c)
                    n += 1
        return torch.cat(said)


@small([(sound(SMALL),)], [{1: "T"}], scripted=True)
class CtcCollapse(nn.Module):
    """The best path without repeats and blanks."""

    def __init__(self, size=SMALL):
        super().__init__()
        width, words = size.width, 12
        self.encoder = nn.GRU(5, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, words)

    def forward(self, x: Tensor) -> Tensor:
        best = self.head(self.encoder(x)[0])[0].argmax(1)
        said = torch.zeros(0, dtype=torch.int64)
        before = 0
        for t in range(best.shape[0]):
            word = int(best[t])
            if word != 0 and word != before:
                said = torch.cat([said, best[t:t + 1]])
            before = word
        return said


# Inputs of the large ones, by class.
INPUTS = {
    GrowingCache: with_cache(LARGE, 1), ListedCache: counted(LARGE),
    PromptFirst: (prompt(LARGE), *counted(LARGE)[1:]), StaticCache: counted(LARGE)[:2],
    BeamSearch: with_cache(LARGE, 4), Speculation: (prompt(LARGE), counted(LARGE)[1]),
    Transducer: (sound(LARGE),), CtcCollapse: (sound(LARGE),),
}
