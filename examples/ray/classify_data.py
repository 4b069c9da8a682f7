"""Ray Data: two actors classify parse trees with a TreeLSTM in plain Python, which is compiled once, here.
usage: python classify_data.py [TREES]

Actors get the program by its graph, with weights, and find the compiled code in the cache, which all processes of a machine share. They need
no PyTorch. TREES is a file as for ../python/tree_lstm.py."""

import sys
from pathlib import Path

import numpy as np
import ray

import heddle

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

#: Cores of an actor, and threads of its program.
CPUS = 1


class Classify:
    def __init__(self, program):
        self.program = program

    def __call__(self, batch):
        trees = zip(batch["left"], batch["right"], batch["words"])
        scores = [self.program(*(np.asarray(side, np.int64) for side in tree)) for tree in trees]
        return {"row": batch["row"], "class": np.array([each.argmax() for each in scores])}


def classify(model, trees, actors=2):
    """The class of each tree."""
    program = heddle.compile(model, *trees[0], threads=CPUS)
    rows = [dict(zip(("left", "right", "words"), (side.tolist() for side in tree)), row=k) for k, tree in enumerate(trees)]
    done = ray.data.from_items(rows).map_batches(
        Classify, fn_constructor_args=(program,), concurrency=actors, num_cpus=CPUS, batch_size=8, batch_format="numpy",
    )
    return [row["class"] for row in sorted(done.take_all(), key=lambda row: row["row"])]


def main():
    import tree_lstm

    ray.init(log_to_driver=False)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else tree_lstm.TREES
    model, trees = tree_lstm.make(path=path, count=sys.maxsize)
    classes = classify(model, trees)
    print(f"{len(classes)} trees:", *(f"{classes.count(k)} of class {k}" for k in range(5)), sep="\n  ")


if __name__ == "__main__":
    main()
