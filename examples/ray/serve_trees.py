"""Ray Serve: two replicas answer requests in batches with a TreeLSTM in plain Python, which is compiled once, here.
usage: python serve_trees.py"""

import sys
from pathlib import Path

import ray
from ray import serve

import heddle

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

#: Cores of a replica, and threads of its program.
CPUS = 1


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": CPUS})
class Classifier:
    def __init__(self, program):
        self.program = program

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.01)
    async def classify(self, trees):
        return [int(self.program(*tree).argmax()) for tree in trees]

    async def __call__(self, tree):
        return await self.classify(tree)


def start(model, trees):
    """A handle of the replicas."""
    program = heddle.compile(model, *trees[0], threads=CPUS)
    return serve.run(Classifier.bind(program))


def ask(handle, trees):
    """The class of each tree; requests are under way together."""
    pending = [handle.remote(tuple(side.numpy() for side in tree)) for tree in trees]
    return [one.result() for one in pending]


def main():
    import tree_lstm

    ray.init(log_to_driver=False)
    model, trees = tree_lstm.make()
    handle = start(model, trees)
    print("classes:", *ask(handle, trees))
    serve.shutdown()


if __name__ == "__main__":
    main()
