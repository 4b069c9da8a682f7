"""A TreeLSTM (Tai et al. 2015) over parse trees: a method that calls itself, with a base case that a tensor decides.
usage: python tree_lstm.py [TREES]

TREES is a file of trees in brackets, one in each line, such as the Stanford Sentiment Treebank's `train.txt` (Socher et al. 2013);
without it there are a few beside this file."""

import sys
from pathlib import Path

import torch
from torch import nn

import heddle

TREES = Path(__file__).parent / "data" / "trees.txt"


class TreeLSTM(nn.Module):
    def __init__(self, words, width, classes=5):
        super().__init__()
        self.word, self.leaf = nn.Embedding(words, width), nn.Linear(width, 3 * width)
        self.inner, self.out = nn.Linear(2 * width, 5 * width), nn.Linear(width, classes)

    @heddle.function
    def node(self, left, right, words, i):
        """The state of node `i` and of what is below it."""
        if left[i] < 0:
            enter, leave, update = self.leaf(self.word(words[i])).chunk(3)
            c = torch.sigmoid(enter) * torch.tanh(update)
            return torch.sigmoid(leave) * torch.tanh(c), c
        left_h, left_c = self.node(left, right, words, left[i])
        right_h, right_c = self.node(left, right, words, right[i])
        enter, leave, update, keep_left, keep_right = self.inner(torch.cat([left_h, right_h])).chunk(5)
        c = torch.sigmoid(enter) * torch.tanh(update) + torch.sigmoid(keep_left) * left_c + torch.sigmoid(keep_right) * right_c
        return torch.sigmoid(leave) * torch.tanh(c), c

    def forward(self, left, right, words):
        """Scores of the classes of a tree, whose root is the last node."""
        h, _ = self.node(left, right, words, torch.tensor(-1))
        return self.out(h)


def parse(text, index):
    """A tree in brackets as the children of its nodes, -1 for none, and their words: `(label word)` or `(label tree tree)`."""
    left, right, words, open_nodes, tokens = [], [], [], [[]], text.replace("(", " ( ").replace(")", " ) ").split()
    for token in tokens:
        if token == "(":
            open_nodes.append([])
        elif token == ")":
            _, *below = open_nodes.pop()
            leaf = isinstance(below[0], str)
            left.append(-1 if leaf else below[0])
            right.append(-1 if leaf else below[1])
            words.append(index.setdefault(below[0], len(index)) if leaf else 0)
            open_nodes[-1].append(len(left) - 1)
        else:
            open_nodes[-1].append(token)
    return torch.tensor(left), torch.tensor(right), torch.tensor(words)


def make(width=128, path=TREES, count=16):
    """A model, and arguments for some calls."""
    torch.manual_seed(0)
    index = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    trees = [parse(line, index) for line in lines]
    return TreeLSTM(len(index), width).eval(), trees[:: max(len(trees) // count, 1)][:count]


def main():
    model, trees = make(path=Path(sys.argv[1]) if len(sys.argv) > 1 else TREES)
    classify = heddle.compile(model, *trees[0])
    for tree in trees:
        print(f"{int((tree[0] < 0).sum())} words: class {int(classify(*tree).argmax())}")


if __name__ == "__main__":
    main()
