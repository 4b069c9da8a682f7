"""The models of examples/python with PyTorch's operators for control flow in the place of Python's, for comparisons.

`torch.while_loop` carries arrays of fixed sizes, so that results lie in arrays with room for the longest ones; each module gives the
same as its model once `trim` cut them. Recursion has no operator: the tree is a loop over its nodes, children first."""
import torch
from torch import nn
from torch._higher_order_ops import while_loop

START, END, BLANK = 0, 1, 0


class Translator(nn.Module):
    def __init__(self, model, limit):
        super().__init__()
        self.model, self.limit = model, limit

    def forward(self, source, limit):
        memory, state = self.model.encode(source[:, None])
        memory = memory.clone()

        def more(count, word, state, words):
            return (word[0] != END) & (count < self.limit)

        def turn(count, word, state, words):
            scores, state = self.model.step(word, state, memory)
            word = scores.argmax(1)
            return count + 1, word, state.clone(), torch.where(torch.arange(self.limit) == count, word, words)

        first = torch.full((1,), START), state.clone(), torch.zeros(self.limit, dtype=torch.int64)
        count, _, _, words = while_loop(more, turn, (torch.zeros((), dtype=torch.int64), *first))
        return words, count

    def trim(self, words, count):
        return words[:count]


class Transducer(nn.Module):
    """One loop: a turn hears a symbol, or goes on to the next frame."""

    def __init__(self, model, frames):
        super().__init__()
        self.model, self.frames, self.room = model, frames, frames * model.most

    def forward(self, sound):
        model = self.model
        frames, _ = model.encoder(sound[:, None])
        frames = model.of_frame(frames[:, 0])
        zeros = torch.zeros(1, frames.shape[1])
        h, c = model.predictor(model.embed(torch.full((1,), BLANK)), (zeros, zeros))

        def more(at, emitted, count, h, c, heard):
            return at < self.frames

        def turn(at, emitted, count, h, c, heard):
            frame = frames.index_select(0, at.reshape(1))[0]
            symbol = model.joint(torch.tanh(frame + model.of_symbols(h)[0])).argmax()
            hears = (symbol != BLANK) & (emitted < model.most)
            next_h, next_c = model.predictor(model.embed(symbol[None]), (h, c))
            heard = torch.where((torch.arange(self.room) == count) & hears, symbol, heard)
            return (at + (~hears).to(torch.int64), torch.where(hears, emitted + 1, 0), count + hears.to(torch.int64),
                    torch.where(hears, next_h, h), torch.where(hears, next_c, c), heard)

        zero = torch.zeros((), dtype=torch.int64)
        state = zero.clone(), zero.clone(), zero.clone(), h.clone(), c.clone(), torch.zeros(self.room, dtype=torch.int64)
        _, _, count, _, _, heard = while_loop(more, turn, state)
        return heard, count

    def trim(self, heard, count):
        return heard[:count]


class Classifier(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words):
        model = self.model
        x = model.embed(words)
        chances, depth = torch.zeros(model.exits[0].out_features), torch.zeros((), dtype=torch.int64)
        for layer, leave in zip(model.layers, model.exits):
            def run(x, chances, depth, layer=layer, leave=leave):
                x = layer(x)
                return x, torch.softmax(leave(x.mean(0)), 0), depth + 1

            def skip(x, chances, depth):
                return x.clone(), chances.clone(), depth.clone()

            x, chances, depth = torch.cond(chances.max() > model.sure, skip, run, (x, chances, depth))
        return chances, depth

    def trim(self, chances, depth):
        return chances, depth


class TreeLSTM(nn.Module):
    def __init__(self, model, nodes):
        super().__init__()
        self.model, self.nodes = model, nodes

    def forward(self, left, right, words):
        model, width = self.model, self.model.word.embedding_dim

        def leaf(h, c, at):
            enter, leave, update = model.leaf(model.word(words.index_select(0, at)))[0].chunk(3)
            c = torch.sigmoid(enter) * torch.tanh(update)
            return torch.sigmoid(leave) * torch.tanh(c), c

        def inner(h, c, at):
            a, b = left.index_select(0, at), right.index_select(0, at)
            children = torch.cat([h.index_select(0, a), h.index_select(0, b)], 1)
            enter, leave, update, keep_a, keep_b = model.inner(children)[0].chunk(5)
            c = torch.sigmoid(enter) * torch.tanh(update) + (
                torch.sigmoid(keep_a) * c.index_select(0, a)[0] + torch.sigmoid(keep_b) * c.index_select(0, b)[0])
            return torch.sigmoid(leave) * torch.tanh(c), c

        def more(i, h, c):
            return i < self.nodes

        def turn(i, h, c):
            at = i.reshape(1)
            own_h, own_c = torch.cond(left.index_select(0, at)[0] < 0, leaf, inner, (h, c, at))
            here = (torch.arange(self.nodes) == i)[:, None]
            return i + 1, torch.where(here, own_h, h), torch.where(here, own_c, c)

        state = torch.zeros((), dtype=torch.int64), torch.zeros(self.nodes, width), torch.zeros(self.nodes, width)
        _, h, _ = while_loop(more, turn, state)
        return (model.out(h[self.nodes - 1]),)

    def trim(self, scores):
        return scores


class Solver(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, end):
        field, tolerance = self.model.field, self.model.tolerance

        def more(t, h, x, slope, taken, refused):
            return t < end

        def turn(t, h, x, slope, taken, refused):
            h = torch.minimum(h, end - t)
            second = field(t + h / 2, x + h / 2 * slope)
            third = field(t + h * 3 / 4, x + h * 3 / 4 * second)
            ahead = x + h * (2 / 9 * slope + 1 / 3 * second + 4 / 9 * third)
            last = field(t + h, ahead)
            error = h * (-5 / 72 * slope + 1 / 12 * second + 1 / 9 * third - 1 / 8 * last)
            ratio = (error / (tolerance + tolerance * torch.maximum(x.abs(), ahead.abs()))).square().mean().sqrt()
            good = ratio <= 1
            step = h * torch.clamp(0.9 * ratio.clamp(min=1e-10) ** (-1 / 3), 0.2, 5)
            return (torch.where(good, t + h, t), step, torch.where(good, ahead, x), torch.where(good, last, slope),
                    taken + good.to(torch.int64), refused + (~good).to(torch.int64))

        t, zero = torch.zeros(()), torch.zeros((), dtype=torch.int64)
        state = t, end / 16, x.clone(), field(t, x), zero.clone(), zero.clone()
        _, _, x, _, taken, refused = while_loop(more, turn, state)
        return x, taken, refused

    def trim(self, x, taken, refused):
        return x, taken, refused


class GPT(nn.Module):
    """Keys and values lie in arrays with room for all words."""

    def __init__(self, model, prompt, limit):
        super().__init__()
        self.model, self.limit, self.room = model, limit, prompt + limit

    def block(self, block, x, cache, at):
        q, k, v = block.qkv(block.first(x)).reshape(x.shape[0], 3, block.heads, -1).permute(1, 2, 0, 3)
        here = (torch.arange(self.room) == at)[None, None, :, None]
        cache = torch.where(here, torch.stack([k, v]), cache)
        attended = nn.functional.scaled_dot_product_attention(q, cache[0], cache[1], attn_mask=(torch.arange(self.room) <= at)[None, None])
        x = x + block.out(attended.transpose(0, 1).reshape(x.shape))
        return x + block.inner(block.second(x)), cache

    def forward(self, prompt, limit):
        model = self.model
        x, caches = model.word(prompt) + model.place(torch.arange(prompt.shape[0])), []
        for block in model.blocks:
            x, cache = block(x)
            caches.append(torch.nn.functional.pad(cache, (0, 0, 0, self.limit)))
        first = model.out(model.norm(x[-1])).argmax()

        def more(count, word, words, caches):
            return (word != 0) & (count < self.limit)

        def turn(count, word, words, caches):
            at = prompt.shape[0] + count - 1
            x, grown = model.word(word[None]) + model.place(at.reshape(1)), []
            for block, cache in zip(model.blocks, caches.unbind(0)):
                x, cache = self.block(block, x, cache, at)
                grown.append(cache)
            word = model.out(model.norm(x[0])).argmax()
            return count + 1, word, torch.where(torch.arange(self.limit) == count, word, words), torch.stack(grown)

        one = torch.ones((), dtype=torch.int64)
        words = torch.where(torch.arange(self.limit) == 0, first, 0)
        count, _, words, _ = while_loop(more, turn, (one, first.clone(), words, torch.stack(caches)))
        return words, count

    def trim(self, words, count):
        return words[:count]


def of(name, model, call):
    """The module for one call of an example's model."""
    made = {
        "translation": lambda: Translator(model, int(call[-1])), "transducer": lambda: Transducer(model, len(call[0])),
        "early_exit": lambda: Classifier(model), "tree_lstm": lambda: TreeLSTM(model, len(call[0])),
        "ode": lambda: Solver(model), "gpt": lambda: GPT(model, len(call[0]), int(call[1])),
    }
    return made[name]().eval()
