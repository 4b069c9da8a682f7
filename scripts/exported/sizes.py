"""Size arithmetic as models write it: ranges, halves, splits, slices, masks, pads."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .table import DYNAMO, TORCHSCRIPT, small


def rows(*sizes):
    """Numbers without a pattern, the same in every process."""
    count = math.prod(sizes)
    return torch.sin(torch.arange(count, dtype=torch.float32) * 1.7 + len(sizes)).reshape(sizes)


def words(*sizes):
    """Token numbers below 11."""
    return (torch.arange(math.prod(sizes)) * 7 % 11).reshape(sizes)


@small([(rows(1, 4), rows(1, 5, 4)), (rows(1, 4), rows(1, 2, 4))], [{}, {1: "past"}])
class PositionOfStep(nn.Module):
    """range(p, p + 1): the position of one new token after a cache."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(16, 4)

    def forward(self, x, cache):
        past = cache.shape[1]
        place = torch.arange(past, past + 1, device=x.device)
        y = x + self.places(place)
        return torch.cat([cache, y[:, None]], 1), place


@small([(words(2, 3), rows(2, 5, 4)), (words(1, 4), rows(1, 1, 4))],
       [{0: "batch", 1: "step"}, {0: "batch", 1: "past"}])
class CausalCache(nn.Module):
    """arange(past, past + t), a causal mask from it, keys kept from before."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 4), nn.Embedding(32, 4)
        self.qkv = nn.Linear(4, 12)

    def forward(self, ids, cache):
        past, step = cache.shape[1], ids.shape[1]
        place = torch.arange(past, past + step, device=ids.device)
        x = self.words(ids) + self.places(place)
        q, k, v = self.qkv(x).chunk(3, -1)
        keys = torch.cat([cache, k], 1)
        values = torch.cat([cache * 0.5, v], 1)
        seen = torch.arange(past + step)[None] <= place[:, None]
        scores = (q @ keys.transpose(1, 2)).masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ values, keys


@small([(rows(3, 4),), (rows(5, 4),)], [{0: "batch"}])
class HalfOfDouble(nn.Module):
    """floordiv(2 * b + 1, 2) is b."""

    def forward(self, x):
        both = torch.cat([x, x * 2, x[:1]])
        half = both.shape[0] // 2
        return both[:half] + x


@small([(rows(3, 4),), (rows(5, 4),)], [{0: "batch"}], exporters=(TORCHSCRIPT,))
class GuidanceChunks(nn.Module):
    """cat([x, x]).chunk(2), as diffusion models guide."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        plain, led = torch.tanh(self.net(torch.cat([x, x * 0.5]))).chunk(2)
        return plain + 7.5 * (led - plain) + x


@small([(rows(2, 7, 3),), (rows(1, 12, 3),)], [{0: "batch", 1: "time"}])
class Slices(nn.Module):
    """Slices to the end, from the end, all but the last, every other one, reversed."""

    def forward(self, x):
        shifted = torch.cat([x[:, 1:], x[:, :1]], 1)
        ahead = torch.cat([x[:, -3:], x[:, :-3]], 1)
        pairs = x[:, ::2].sum(1, keepdim=True)
        return shifted + ahead + pairs + x.flip(1), x[:, 1:] - x[:, :-1], x.roll(2, 1)


@small([(rows(2, 6),), (rows(2, 9),)], [{1: "time"}])
class UnevenSplit(nn.Module):
    """split([n // 2, n - n // 2]); the parts are joined in another order."""

    def forward(self, x):
        half = x.shape[1] // 2
        a, b = torch.split(x, [half, x.shape[1] - half], 1)
        return torch.cat([b * 2, a], 1) + x


@small([(words(2, 5), torch.tensor([5, 3])), (words(3, 4), torch.tensor([1, 4, 2]))],
       [{0: "batch", 1: "time"}, {0: "batch"}])
class PaddingMask(nn.Module):
    """Lengths become a mask that is expanded to all pairs, and used by Where."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 4)

    def forward(self, ids, lengths):
        b, t = ids.shape
        x = self.words(ids)
        real = torch.arange(t)[None].expand(b, t) < lengths[:, None]
        pairs = real[:, None, None, :].expand(b, 1, t, t) & torch.ones(t, t).tril().bool()
        scores = torch.where(pairs, (x @ x.transpose(1, 2))[:, None], torch.tensor(-1e9))
        y = (scores.softmax(-1) @ x[:, None]).squeeze(1)
        return y.masked_fill(~real[..., None], 0.0)


@small([(rows(2, 7, 4),), (rows(1, 8, 4),), (rows(1, 3, 4),)], [{0: "batch", 1: "time"}])
class Windows(nn.Module):
    """Padded to a multiple of 4, seen in windows of 4, cut to the length again."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x):
        b, t, c = x.shape
        more = (4 - t % 4) % 4
        y = F.pad(x, (0, 0, 0, more))
        w = y.view(b, (t + more) // 4, 4 * c)
        return self.mix(w).view(b, t + more, c)[:, :t] + x


@small([(rows(2, 3, 9), torch.tensor([9, 5])), (rows(1, 3, 14), torch.tensor([13]))],
       [{0: "batch", 2: "time"}, {0: "batch"}], exporters=(TORCHSCRIPT,))
class FloatSizes(nn.Module):
    """Lengths after strided convolutions by way of floats: ceil(n / 2), floor."""

    def __init__(self):
        super().__init__()
        self.net = nn.Conv1d(3, 4, 3, 2, 1)

    def forward(self, x, lengths):
        y = self.net(x)
        n = torch.ceil(lengths.float() / 2).to(torch.int64)
        most = torch.ceil(torch.as_tensor(x.shape[2]).float() / 2).long()
        real = torch.arange(y.shape[2])[None] < n[:, None]
        return y * real[:, None] + torch.arange(most), n


@small([(rows(2, 3, 5, 6), rows(2, 3, 9, 11)), (rows(1, 3, 4, 4), rows(1, 3, 8, 9))],
       [{0: "batch", 2: "h", 3: "w"}, {0: "batch", 2: "H", 3: "W"}])
class ResizeLike(nn.Module):
    """Resized to another tensor's size, and by a factor."""

    def forward(self, x, y):
        up = F.interpolate(x, size=y.shape[2:], mode="nearest") + y
        return up, F.interpolate(x, scale_factor=2.0, mode="nearest")


@small([(rows(2, 6, 8),), (rows(3, 4, 8),)], [{0: "batch", 1: "time"}])
class Rotary(nn.Module):
    """Angles from a table cut to the length; halves of features exchanged."""

    def __init__(self):
        super().__init__()
        angle = torch.arange(32)[:, None] / 100 ** (torch.arange(4) / 4)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def forward(self, x):
        t = x.shape[1]
        a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
        return x * self.cos[:t] + torch.cat([-b, a], -1) * self.sin[:t]


@small([(rows(2, 5, 8),), (rows(1, 7, 8),)], [{0: "batch", 1: "time"}])
class RelativeBias(nn.Module):
    """A bias by distance: differences of ranges, clamped, looked up."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(9, 2)

    def forward(self, x):
        b, t, c = x.shape
        h = x.view(b, t, 2, c // 2).transpose(1, 2)
        far = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        bias = self.bias(far.clamp(-4, 4) + 4).permute(2, 0, 1)
        scores = (h @ h.transpose(2, 3)) * (c // 2) ** -0.5 + bias
        return (scores.softmax(-1) @ h).transpose(1, 2).reshape(b, t, c)


@small([(rows(2, 3, 4),), (rows(1, 5, 4),)], [{0: "batch", 1: "time"}])
class Repeats(nn.Module):
    """repeat, repeat_interleave, tile and expand, merged into the batch."""

    def forward(self, x):
        b, t, c = x.shape
        beams = x[:, None].expand(b, 3, t, c).reshape(b * 3, t, c)
        again = x.repeat(3, 1, 1) + x.repeat_interleave(3, 0)
        return beams + again, x.repeat(1, 2, 1)[:, : t + 1]


@small([(rows(2, 5, 4), rows(1, 3)), (rows(1, 9, 4), rows(1, 1))],
       [{0: "batch", 1: "time"}, {1: "most"}])
class TopByShape(nn.Module):
    """The largest k, with k from another input's size."""

    def forward(self, x, like):
        score = x.sum(-1)
        k = min(like.shape[1], 4) if not torch.jit.is_tracing() else like.shape[1]
        values, places = score.topk(k, 1)
        return values, places, x.gather(1, places[..., None].expand(-1, -1, x.shape[2]))


@small([(rows(1, 2, 12),), (rows(3, 2, 20),)], [{0: "batch", 2: "time"}], exporters=(DYNAMO,))
class Frames(nn.Module):
    """Overlapping frames by unfold, weighted and added up."""

    def forward(self, x):
        f = x.unfold(2, 4, 2)
        w = torch.hann_window(4)
        return (f * w).sum(-1), f.mean((1, 2))


@small([(words(2, 6),), (words(1, 3),)], [{0: "batch", 1: "time"}])
class CountedPlaces(nn.Module):
    """Positions as RoBERTa counts them: a running sum over what is no padding."""

    def __init__(self):
        super().__init__()
        self.places, self.words = nn.Embedding(32, 4), nn.Embedding(11, 4)

    def forward(self, ids):
        real = ids.ne(1).int()
        place = (real.cumsum(1).type_as(real) * real).long() + 1
        x = self.words(ids) + self.places(place)
        first = ids.argmax(-1)
        return x[torch.arange(x.shape[0]), first], x


@small([(rows(2, 3, 6, 6),), (rows(1, 3, 8, 4),)], [{0: "batch", 2: "h", 3: "w"}])
class Patches(nn.Module):
    """Windows of 2 x 2 of a picture as tokens, and back; a cyclic shift."""

    def forward(self, x):
        b, c, h, w = x.shape
        x = torch.roll(x, (-1, -1), (2, 3))
        y = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1)
        y = y.reshape(-1, 4, c)
        y = (y @ y.transpose(1, 2)).softmax(-1) @ y
        y = y.view(b, h // 2, w // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)
        return F.adaptive_avg_pool2d(y, 1), torch.roll(y, (1, 1), (2, 3))
