"""A GPT writes on until its end word: a `while` that carries the keys and values of all layers, which grow.
usage: python gpt.py"""

import torch
from torch import nn

import heddle

END = 0


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cache=None):
        """The next `x` [n, width], and the keys and values [2, heads, past + n, size] so far."""
        q, *kv = self.qkv(self.first(x)).reshape(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        kv = torch.stack(kv)
        cache = kv if cache is None else torch.cat([cache, kv], 2)
        # The prompt comes as a whole, and its words see those before them; then comes one word at a time.
        attended = nn.functional.scaled_dot_product_attention(q, *cache, is_causal=x.shape[0] > 1)
        x = x + self.out(attended.transpose(0, 1).reshape(x.shape))
        return x + self.inner(self.second(x)), cache


class GPT(nn.Module):
    def __init__(self, words, width, layers, heads, longest=256):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, prompt, limit):
        """The words [m] that follow a prompt [n], of which there are `limit` at most."""
        x, caches = self.word(prompt) + self.place(torch.arange(prompt.shape[0])), []
        for block in self.blocks:
            x, cache = block(x)
            caches.append(cache)
        word = self.out(self.norm(x[-1])).argmax()
        words = [word]
        while word != END and len(words) < limit:
            x = self.word(word[None]) + self.place(prompt.shape[0] + len(words) - torch.ones(1, dtype=torch.int64))
            grown = []
            for block, cache in zip(self.blocks, caches):
                x, cache = block(x, cache)
                grown.append(cache)
            caches = grown
            word = self.out(self.norm(x[0])).argmax()
            words.append(word)
        return torch.stack(words)


def make(words=128, width=256, layers=4, length=16, limit=48):
    """A model, and arguments for some calls."""
    torch.manual_seed(3)
    model = GPT(words, width, layers, heads=width // 32).eval()
    return model, [(torch.randint(words, (n,)), torch.tensor(limit)) for n in (length, length // 2, 3, 5)]


def main():
    model, calls = make()
    write = heddle.compile(model, *calls[0])
    for prompt, limit in calls:
        print(*prompt.tolist(), "→", *write(prompt, limit).tolist())


if __name__ == "__main__":
    main()
