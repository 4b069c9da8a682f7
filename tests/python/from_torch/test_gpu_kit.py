"""The kit for GPU machines, as far as PyTorch can run it without one: its peers on the CPU, and the graphs that its conditional nodes make."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[3]
KIT = ROOT / "scripts/gpu_kit/kit"
sys.path.insert(0, str(KIT))
import draw  # noqa: E402
import nodes  # noqa: E402
import small  # noqa: E402
import zoo  # noqa: E402


# ---------------------------------------------------------------- a graph that the host runs


class Tape(TorchDispatchMode):
    """A captured segment: operators run as they are recorded; a replay computes each anew into the tensors of the capture."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.steps.append((function, args, kwargs or {}, result))
        return result

    def capture_end(self):
        """Ends the capture."""
        self.__exit__(None, None, None)

    def raw_cuda_graph(self):
        """Itself stands for the graph."""
        return self

    def run(self):
        """Replays it."""
        for function, args, kwargs, result in self.steps:
            again = function(*args, **kwargs)
            for old, new in zip(leaves(result), leaves(again), strict=True):
                if old.data_ptr() != new.data_ptr():  # else a view, or a change in place
                    old.copy_(new)


def leaves(value):
    """The tensors of a result."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class HostGraph:
    """What nodes.py uses of driver.Graph, run by the host. A kernel sets a condition to a flag by its address, as on the device."""

    def __init__(self):
        self.nodes, self.conditions = [], {}

    def child(self, segment):
        """A copy of a segment."""
        self.nodes.append(("child", segment))

    def condition(self, default):
        """A condition of this graph."""
        key = len(self.conditions)
        self.conditions[key] = default
        return key

    def kernel(self, decide, blocks, threads, handle, address, negate):
        """The kernel that sets a condition."""
        assert (decide, blocks, threads) == ("decide", 1, 1)
        self.nodes.append(("set", handle, address.value, negate.value, self.conditions))

    def conditional(self, handle, kind):
        """A node with a body, whose kernels may set this graph's conditions, too."""
        body = HostGraph()
        body.conditions = self.conditions
        self.nodes.append(("conditional", handle, kind, body))
        return body

    def run(self):
        """Runs all nodes; the number of bodies that ran."""
        import ctypes
        bodies = 0
        for kind, *node in self.nodes:
            if kind == "child":
                node[0].run()
            elif kind == "set":
                handle, address, negate, conditions = node
                conditions[handle] = bool(ctypes.c_uint8.from_address(address).value) != bool(negate)
            else:
                handle, loops, body = node
                while self.conditions[handle]:
                    bodies += 1 + body.run()
                    assert bodies < 1000, "it does not end"
                    if not loops:
                        break
        return bodies


def recorded(make, arguments):
    """(outputs, graph) of a function that gets a recorder and the arguments."""
    def capture():
        tape = Tape()
        tape.__enter__()
        return tape
    graph = HostGraph()
    recorder = nodes.Recorder(graph, "decide", capture)
    with torch.no_grad():
        return recorder.record(lambda *args: make(recorder, *args), arguments), graph


def test_a_loop_is_a_while_node():
    """The small model: other inputs in the same memory take another number of steps."""
    inputs = torch.from_numpy(small.inputs(1, 0)["x"])
    net = small.TorchGraph(small.weights())

    def run(recorder, x):
        sys.modules["small_torch"].while_loop = recorder.while_loop
        return net(x)
    outputs, graph = recorded(run, (inputs,))
    counts = set()
    for scale in (1.0, 3.0, 0.0):
        inputs.copy_(torch.from_numpy(small.inputs(1, 0)["x"]) * scale)
        bodies = graph.run()
        want = small.reference(small.weights(), {"x": inputs.numpy()})
        assert zoo.relative_error([value.numpy() for value in outputs], want) < 1e-5
        assert bodies == want[1]
        counts.add(bodies)
    assert len(counts) == 3


def test_a_branch_is_two_if_nodes():
    """Both arms write the results of the first; operators behind it see them."""
    x = torch.ones(3)

    def run(recorder, x):
        y = recorder.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 10, (x,))
        return y * 2
    y, graph = recorded(run, (x,))
    for value, want in ((1.0, 4.0), (-1.0, -20.0), (2.0, 6.0)):
        x.fill_(value)
        assert graph.run() == 1
        assert y.tolist() == [want] * 3


def test_values_that_change_places_in_a_loop():
    """A loop that swaps two carried values copies neither over the other."""
    x, n = torch.tensor([1.0, 2.0]), torch.tensor(3)

    def run(recorder, x, n):
        return recorder.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a), (torch.zeros((), dtype=torch.int64), x[0], x[1]))
    (_, a, b), graph = recorded(run, (x, n))
    for count, want in ((3, (2.0, 1.0)), (2, (1.0, 2.0)), (0, (1.0, 2.0))):
        n.fill_(count)
        graph.run()
        assert (float(a), float(b)) == want


def test_a_branch_in_a_loop():
    """Collatz: nested nodes."""
    n = torch.tensor(6)

    def run(recorder, n):
        def body(n, steps):
            return recorder.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, (n,)), steps + 1
        return recorder.while_loop(lambda n, steps: n > 1, body, (n, torch.zeros((), dtype=torch.int64)))
    (_, steps), graph = recorded(run, (n,))
    for start, want in ((6, 8), (7, 16), (1, 0)):
        n.fill_(start)
        graph.run()
        assert int(steps) == want


# ---------------------------------------------------------------- peers on the CPU


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A work folder with the small model, and a kit's references in the place that peers look in first."""
    folder = tmp_path_factory.mktemp("work")
    np.savez(folder / "small.weights.npz", **small.weights())
    inputs = small.inputs(1, 0)
    outputs = small.reference(small.weights(), inputs)
    draw.save_data(folder / "small_b1_s0.npz", inputs, outputs, small.fixed(inputs, outputs))
    return folder


@pytest.mark.parametrize("peer", ["torch-eager", "torch-step", "torch-graph", "reference"])
def test_peer_answers(work, peer):
    """It is ready, answers with times, and its results are right."""
    done = subprocess.run([sys.executable, KIT / "peers.py", work, "small", "1", peer, "cpu"], input="2\n1\n", capture_output=True, text=True)
    ready, *times = map(json.loads, done.stdout.splitlines())
    assert "prepare_s" in ready, ready
    assert [len(some) for some in times] == [2, 1]
    with np.load(work / f"small_b1.{peer}.npz") as arrays:
        got = [arrays[f"arr_{i}"] for i in range(2)]
    assert zoo.relative_error(got, small.reference(small.weights(), small.inputs(1, 0))) < 1e-5


@pytest.mark.parametrize("peer, said", [
    ("nodes", {"no": "needs a GPU; this is a dry run"}), ("torch-builtin", {"absent": True})])
def test_peer_declines(work, peer, said):
    """One line says that it can't, or that the model has no such form."""
    done = subprocess.run([sys.executable, KIT / "peers.py", work, "small", "1", peer, "cpu"], input="", capture_output=True, text=True)
    assert json.loads(done.stdout) == said


def test_new_tensors_are_on_the_device(monkeypatch, tmp_path):
    """Factories of a model's text get the device; torch.tensor(n) copies nothing from the host."""
    (tmp_path / "models").mkdir()
    text = "import torch\n\n\ndef make():\n    return torch.zeros(2), torch.tensor(5), torch.arange(3, dtype=torch.int32)\n"
    (tmp_path / "models/made.py").write_text(text)
    monkeypatch.setattr(zoo, "ZOO", tmp_path)
    zeros, five, some = zoo.load("made", "meta").make()
    assert {value.device.type for value in (zeros, five, some)} == {"meta"}
    assert five.shape == () and five.dtype == torch.int64 and some.dtype == torch.int32
