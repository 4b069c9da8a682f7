"""Translates English into French, word by word until the end word: a `while` that a tensor decides, with attention in it.
usage: python translation.py [PAIRS] [--steps N]

PAIRS is a file with an English and a French sentence in each line, with a tab between them, such as those of Tatoeba
(https://www.manythings.org/anki); without it the few pairs beside this file are learned by heart."""

import argparse
import random
from collections import defaultdict
from pathlib import Path

import torch
from torch import nn

import heddle

START, END = 0, 1
PAIRS = Path(__file__).parent / "data" / "eng-fra.txt"


class Translator(nn.Module):
    def __init__(self, sources, targets, width):
        super().__init__()
        self.source, self.target = nn.Embedding(sources, width), nn.Embedding(targets, width)
        self.encoder = nn.GRU(width, width)
        self.decoder = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(2 * width, targets)

    def encode(self, source):
        """From words [length, batch]: the memory [batch, length, width], and the decoder's first state."""
        memory, state = self.encoder(self.source(source))
        return memory.transpose(0, 1), state[0]

    def step(self, words, state, memory):
        """From the words before these [batch]: scores of the next ones, and the next state."""
        weights = torch.softmax(torch.bmm(memory, state[:, :, None]), 1)
        context = (weights * memory).sum(1)
        state = self.decoder(torch.cat([self.target(words), context], 1), state)
        return self.out(torch.cat([state, context], 1)), state

    def forward(self, source, limit):
        """The words [m] of the translation of words [n], of which there are `limit` at most."""
        memory, state = self.encode(source[:, None])
        word = torch.full((1,), START)
        words = []
        while word[0] != END and len(words) < limit:
            scores, state = self.step(word, state, memory)
            word = scores.argmax(1)
            words.append(word[0])
        return torch.stack(words)


def split(sentence):
    return "".join(c if c.isalpha() or c in " '-" else f" {c} " for c in sentence.lower()).split()


def read(path):
    """Pairs of lists of words, and the words of either language."""
    pairs = [[split(text) for text in line.split("\t")[:2]] for line in path.read_text(encoding="utf-8").splitlines()]
    words = [["<start>", "<end>", *sorted({w for pair in pairs for w in pair[k]})] for k in (0, 1)]
    return pairs, words


def train(model, pairs, steps):
    """Learns from pairs of tensors; a batch has sentences of equal lengths, so that nothing is padded."""
    alike = defaultdict(list)
    for pair in pairs:
        alike[tuple(map(len, pair))].append(pair)
    pick, optimizer = random.Random(0), torch.optim.Adam(model.parameters(), lr=3e-3)
    groups, sizes = list(alike.values()), [len(group) for group in alike.values()]
    for _ in range(steps):
        (group,) = pick.choices(groups, sizes)
        source, target = (torch.stack(side, 1) for side in zip(*pick.choices(group, k=min(64, 2 * len(group)))))
        memory, state = model.encode(source)
        words, loss = torch.full_like(target[0], START), 0.0
        for wanted in target:
            scores, state = model.step(words, state, memory)
            loss, words = loss + nn.functional.cross_entropy(scores, wanted), wanted
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def make(width=256, path=PAIRS, steps=0):
    """A model, and arguments for some calls."""
    torch.manual_seed(0)
    pairs, words = read(path)
    index = [{word: i for i, word in enumerate(side)} for side in words]
    pairs = [tuple(torch.tensor([index[k][w] for w in pair[k]] + [END]) for k in (0, 1)) for pair in pairs]
    model = Translator(*map(len, words), width)
    train(model, pairs, steps)
    return model.eval(), [(source, torch.tensor(24)) for source, _ in pairs[:: len(pairs) // 8]], words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="?", type=Path, default=PAIRS)
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    model, calls, (english, french) = make(path=args.pairs, steps=args.steps)
    translate = heddle.compile(model, *calls[0])
    for source, limit in calls:
        print(*(english[i] for i in source[:-1]), "→", *(french[i] for i in translate(source, limit) if i != END))


if __name__ == "__main__":
    main()
