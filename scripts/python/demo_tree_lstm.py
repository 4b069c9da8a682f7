"""A TreeLSTM over parse trees, called with arrays of NumPy: one program for trees of all shapes, beside the same recursion in NumPy.
usage: python demo_tree_lstm.py

It needs the wheel and NumPy. examples/python/tree_lstm.py is the same in plain Python on PyTorch's tensors."""
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import heddle

ROOT = Path(__file__).resolve().parents[2]
WIDTH, RUNS = 256, 20


def parse(text, index):
    """A tree in brackets as children of nodes, -1 for none, and their words; the root is the last node."""
    left, right, words, below = [], [], [], [[]]
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            below.append([])
        elif token == ")":
            _, *parts = below.pop()
            leaf = isinstance(parts[0], str)
            left.append(-1 if leaf else parts[0])
            right.append(-1 if leaf else parts[1])
            words.append(index.setdefault(parts[0], len(index)) if leaf else 0)
            below[-1].append(len(left) - 1)
        else:
            below[-1].append(token)
    return tuple(np.array(side, np.int64) for side in (left, right, words))


def in_numpy(tree, weights):
    left, right, words = tree
    embed, w_iou, u_iou, b_iou, w_f, u_f, b_f = weights

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def node(k):
        x = embed[words[k]]
        gates, kept = x @ w_iou + b_iou, 0
        if left[k] >= 0:
            (left_h, left_c), (right_h, right_c) = node(left[k]), node(right[k])
            gates = gates + (left_h + right_h) @ u_iou
            forget = x @ w_f + b_f
            kept = sigmoid(forget + left_h @ u_f) * left_c + sigmoid(forget + right_h @ u_f) * right_c
        enter, leave, update = np.split(gates, 3)
        c = sigmoid(enter) * np.tanh(update) + kept
        return sigmoid(leave) * np.tanh(c), c

    return node(len(left) - 1)


def milliseconds(run):
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def main():
    index = {}
    lines = (ROOT / "examples" / "python" / "data" / "trees.txt").read_text(encoding="utf-8").splitlines()
    trees = [parse(line, index) for line in lines]
    random = np.random.default_rng(0)
    shapes = (len(index), WIDTH), (WIDTH, 3 * WIDTH), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,)
    weights = [(random.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]
    program = heddle.compile(ROOT / "tests" / "models" / "batching" / "treelstm.heddle")
    failed = 0
    print("words  depth of calls  largest error  NumPy ms  Heddle ms")
    for tree in sorted(trees, key=lambda tree: len(tree[0]))[::3]:
        wanted, found = in_numpy(tree, weights), program(*tree, *weights)
        error = max(float(abs(a - b).max()) for a, b in zip(found, wanted))
        depth = [0] * len(tree[0])
        for k, (a, b) in enumerate(zip(*tree[:2])):
            depth[k] = 1 + max((depth[c] for c in (a, b) if c >= 0), default=0)
        good = error <= 1e-4
        failed += not good
        times = milliseconds(lambda: in_numpy(tree, weights)), milliseconds(lambda: program(*tree, *weights))
        print(f"{int((tree[0] < 0).sum()):5}  {depth[-1]:14}  {error:13.1e}  {times[0]:8.3f}  {times[1]:9.3f}  {'ok' if good else 'FAILED'}")
    print(f"{len(trees[::3]) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
