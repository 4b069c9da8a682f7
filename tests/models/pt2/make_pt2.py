"""Writes small `.pt2` files of PyTorch, with inputs and the module's own results.

    python tests/models/pt2/make_pt2.py      (needs torch 2.15; the files beside this script are what it wrote)

NAME.pt2 is as `torch.export.export` makes it; NAME.core.pt2 the same after `run_decompositions()`, without changes in place, and
compressed, which PyTorch does not do. NAME.K.in.npz
and NAME.K.out.npz are inputs and results, by the names that Heddle gives them. Sizes marked `D` are open, so that K = 1, 2 have others.
"""

import copy
import io
import json
import pathlib
import zipfile
from collections import namedtuple

import numpy as np
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

HERE = pathlib.Path(__file__).parent
D = torch.export.Dim.AUTO
Pair = namedtuple("Pair", "low high")
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="Pair")


class Branches(nn.Module):
    """`cond` in a `while_loop`, with captures."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x, n):
        def more(i, a):
            return i < n

        def step(i, a):
            a = torch.cond(a.sum() > 0, lambda a: torch.tanh(a @ self.weight), lambda a: a - 1, (a,))
            return i + 1, a

        return while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))


class Scans(nn.Module):
    """`scan` and `map`, with captures."""

    def forward(self, x, y):
        total, products = scan(lambda c, r: (c + r * y, c * r), torch.zeros(3), x)
        return {"total": total, "products": products, "rows": torch_map(lambda r, y: (r * y).sum(), x, y)}


class Combined(nn.Module):
    """`associative_scan` of a linear recurrence, in both directions; without `pointwise` its steps are nodes of their own."""

    def forward(self, x, y):
        def combine(a, b):
            return a[0] * b[0], b[0] * a[1] + b[1]

        def scanned(reverse):
            return associative_scan(combine, (x, y), dim=0, combine_mode="pointwise", reverse=reverse)

        return (*scanned(False), *scanned(True))


class Recurrent(nn.Module):
    """Two layers in both directions, and a GRU, whose length PyTorch fixes."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 3)
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
        self.gru = nn.GRU(8, 3)

    def forward(self, words):
        y, (h, c) = self.lstm(self.embed(words))
        return y, (h, c), self.gru(y)[0]


class State(nn.Module):
    """Buffers that a run changes, by name, through views, and by a normalisation that is trained."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(2, 3))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        self.calls += 1
        self.last[1] = x.mean(0)
        self.last.t()[0] *= 2
        return self.norm(x) + self.last.sum()


class InPlace(nn.Module):
    """Changes of views, which what they are views of sees, and the other way."""

    def forward(self, x, i):
        y = x.clone()
        row = y[0]
        y += 1
        row.mul_(3)
        y[i] = 0
        y[:, 1:] -= 1
        y.transpose(0, 1)[2].relu_()
        first, second = y[:, :2].unbind(1)
        second.fill_(7)
        flat = y.view(-1)
        flat[1:3] = flat[0:2].clone()
        z = y.unsqueeze(0).permute(2, 0, 1)
        z.clamp_(-1, 5)
        y.masked_fill_(y > 4, -4)
        return y, row, z, y[:, None, i], x.size(0)


class Vision(nn.Module):
    """Convolutions with activations in place and pooling."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, groups=2), nn.Hardswish(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 5),
        )

    def forward(self, image):
        return self.body(image).softmax(-1)


class Attention(nn.Module):
    """A transformer's block."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, t, 8))


class Types(nn.Module):
    """Element types, weights that do not lie densely, and one that is shared."""

    def __init__(self):
        super().__init__()
        base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
        self.plain = nn.Parameter(base)
        self.same = self.plain
        self.register_buffer("turned", base.t()[1:])
        self.register_buffer("wide", torch.tensor([1.5, -2.5]).expand(3, 2), persistent=False)
        self.short = nn.Parameter(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float16))
        self.brain = nn.Parameter(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.bfloat16))
        self.table = torch.tensor([3, 1, 2], dtype=torch.int32)
        self.small = torch.tensor([250, 251, 252], dtype=torch.uint8)
        self.flags = torch.tensor([True, False, True])

    def forward(self, x):
        low = (self.plain * self.short).float() + (self.same * self.brain).double().float()
        small = (self.small + 10).to(torch.int16) + self.table.to(torch.int8)
        more = {"wide": self.wide.double() + x[0, :2], "small": small, "flags": ~self.flags}
        return Pair(low[:, 1:] @ self.turned, (x @ self.turned.t()).to(torch.float64)), more, None, 3


class Dynamic(nn.Module):
    """Sizes that data decides, and sizes as results."""

    def forward(self, x, n, scale: float = 1.5):
        found = (x > 0).nonzero()
        count = n.item()
        torch._check(count >= 0)
        torch._check(count < 100)
        half = x.reshape(-1)[: x.shape[0] // 2]
        return found, half, torch.arange(count) * 2, x.shape[0] * 3, torch.full((2,), float("-inf")), x[0] * scale


class Sizes(nn.Module):
    """An integer among the inputs."""

    def forward(self, x, n: int):
        return torch.cat([x, torch.ones(n)]), x.sum() * n


def save(exported, name: str, method: int = zipfile.ZIP_STORED) -> None:
    """Writes the file, with the lines of Python relative to where the sources are, and nothing else about the nodes' origin."""
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    folders = {str(HERE): "tests/models/pt2", str(pathlib.Path(torch.__file__).parent): "torch"}
    with zipfile.ZipFile(buffer) as archive, zipfile.ZipFile(HERE / name, "w", method) as out:
        for entry in archive.infolist():
            data = archive.read(entry)
            if entry.filename.endswith("models/model.json"):
                program = json.loads(data)
                lean(program["graph_module"]["graph"], folders)
                data = json.dumps(program, separators=(",", ":")).encode()
            out.writestr(zipfile.ZipInfo(entry.filename), data, method)


def lean(graph: dict, folders: dict[str, str]) -> None:
    for node in graph["nodes"]:
        trace = node["metadata"].get("stack_trace", "")
        for folder, short in folders.items():
            trace = trace.replace(folder, short)
        node["metadata"] = {"stack_trace": trace}
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                lean(argument["arg"]["as_graph"]["graph"], folders)


def arrays(*values):
    return tuple(values)


f, i = torch.randn, torch.tensor
CASES = {
    # name: (module, sizes that are open, [inputs], names of results, names of buffers)
    "branches": (Branches, ({0: D}, None), [arrays(f(3, 4), i(5)), arrays(f(7, 4), i(0))], ["y0", "y1"], []),
    "scans": (Scans, ({0: D}, None), [arrays(f(5, 3), f(3)), arrays(f(2, 3), f(3))], ["total", "products", "rows"], []),
    "recurrent": (
        Recurrent, ({0: D, 1: D},), [arrays(torch.randint(11, (3, 5))), arrays(torch.randint(11, (3, 7)))], ["y0", "y1", "y2", "y3"], [],
    ),
    "state": (State, ({0: D},), [arrays(f(5, 3)), arrays(f(7, 3))], ["y0"], ["calls", "last", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]),
    "in_place": (InPlace, ({0: D}, {0: D}), [arrays(f(4, 3), i([1, 2])), arrays(f(7, 3), i([0, 2, 1]))], ["y0", "y1", "y2", "y3", "y4"], []),
    "vision": (Vision, ({0: D, 2: D, 3: D},), [arrays(f(2, 3, 8, 9)), arrays(f(3, 3, 13, 11))], ["y0"], []),
    "attention": (Attention, ({0: D, 1: D},), [arrays(f(2, 5, 8)), arrays(f(3, 7, 8))], ["y0"], []),
    "types": (Types, ({0: D},), [arrays(f(3, 3)), arrays(f(5, 3))], ["y0.low", "y0.high", "y1.wide", "y1.small", "y1.flags", None, "y6"], []),
    "dynamic": (Dynamic, ({0: D}, None, None), [arrays(f(5, 4), i(6), 1.5), arrays(f(8, 4), i(0), 1.5)], ["y0", "y1", "y2", "y3", "y4", "y5"], []),
    "combined": (Combined, ({0: D}, {0: D}), [arrays(f(5, 3), f(5, 3)), arrays(f(8, 3), f(8, 3))], ["y0", "y1", "y2", "y3"], []),
    "sizes": (Sizes, ({0: D}, D), [arrays(f(3), 4), arrays(f(5), 7)], ["y0", "y1"], []),
}
# A program of these is trained.
TRAINED = ["state"]


def main() -> None:
    torch.manual_seed(0)
    for name, (kind, shapes, runs, names, buffers) in CASES.items():
        module = kind().train(name in TRAINED)
        with torch.no_grad():
            exported = torch.export.export(module, runs[0], dynamic_shapes=shapes)
            save(exported, f"{name}.pt2")
            if name != "recurrent":  # Its core has a node for each step of a fixed length.
                save(exported.run_decompositions(), f"{name}.core.pt2", zipfile.ZIP_DEFLATED)
            inputs = list(exported.graph_signature.user_inputs)
            for number, args in enumerate(runs, 1):
                own = copy.deepcopy(module)
                results = torch.utils._pytree.tree_leaves(own(*copy.deepcopy(args)))
                found = {n: np.asarray(r) for n, r in zip(names, results, strict=True) if n}
                state = dict(own.named_buffers())
                found |= {n: state[n].numpy() for n in buffers}
                given = {n: np.asarray(a) for n, a in zip(["x", "n"] if name == "sizes" else inputs, args) if not isinstance(a, float)}
                np.savez(HERE / f"{name}.{number}.in.npz", **given)
                np.savez(HERE / f"{name}.{number}.out.npz", **found)
        print(name)


if __name__ == "__main__":
    main()
