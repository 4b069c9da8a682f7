"""Layers with a classifier behind each, of which the first that is sure answers (BranchyNet, BERxiT): an early `return`.
usage: python early_exit.py"""

import torch
from torch import nn

import heddle


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).reshape(x.shape[0], 3, self.heads, -1).permute(1, 2, 0, 3)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(0, 1).reshape(x.shape))
        return x + self.inner(self.second(x))


class Classifier(nn.Module):
    def __init__(self, words, width, layers, classes, sure):
        super().__init__()
        self.embed, self.sure = nn.Embedding(words, width), sure
        self.layers = nn.ModuleList(Layer(width, width // 32) for _ in range(layers))
        self.exits = nn.ModuleList(nn.Linear(width, classes) for _ in range(layers))

    def forward(self, words):
        """Probabilities of the classes, and the number of layers that ran."""
        x = self.embed(words)
        for depth, (layer, leave) in enumerate(zip(self.layers, self.exits), 1):
            x = layer(x)
            chances = torch.softmax(leave(x.mean(0)), 0)
            if chances.max() > self.sure:
                return chances, depth
        return chances, depth


def make(words=1000, width=256, layers=8, length=24, sure=0.6):
    """A model, and arguments for some calls."""
    torch.manual_seed(3)
    model = Classifier(words, width, layers, 3, sure).eval()
    with torch.no_grad():
        for leave in model.exits:
            leave.weight.mul_(3)
    return model, [(torch.randint(words, (n,)),) for n in (length, length // 2, length // 3, 2, 5, 7)]


def main():
    model, calls = make()
    classify = heddle.compile(model, *calls[0])
    for (words,) in calls:
        chances, depth = classify(words)
        print(f"{len(words)} words: class {int(chances.argmax())}, {float(chances.max()):.2f} sure, {int(depth)} of {len(model.layers)} layers")


if __name__ == "__main__":
    main()
