"""Times of static models and of recurrent layers on Heddle and on its peers, in turns, as a table.
usage: python bench_static.py FOLDER [--heddle HEDDLE] [--threads N] [--runs N] [--only NAME,NAME]

FOLDER keeps the models; their weights are random. ONNX Runtime's results are the reference. The
last column is the best peer's median by Heddle's. Models whose name contains one of NAME: conv_…,
one convolution each; block_…, blocks of well-known networks (blocks.py); gru_… and lstm_…, 100 steps
of one layer, by its width and batch; bert_…, a layer of BERT-base by its words, whose number is fixed or
open; unet, 20 steps of a diffusion model in a Loop. Times of peers hold the call from Python, some microseconds. Needs onnx, onnxruntime and openvino."""
import sys
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from beside import PEERS, arguments, beside_peers, head
from blocks import BLOCKS, Block
from onnx_graph import F32, Graph, model


def normal(*shape):
    """Random inputs."""
    return np.random.default_rng(1).standard_normal(shape, F32)


def finish(g, name, outputs, **inputs):
    """A model of a graph and its inputs; each output has a shape."""
    ports = [[helper.make_tensor_value_info(port, TensorProto.FLOAT, shape)
              for port, shape in all_.items()]
             for all_ in ({port: x[1] for port, x in inputs.items()}, outputs)]
    made = model(helper.make_graph(g.nodes, name, *ports, g.initializers))
    return made, {port: x[0] for port, x in inputs.items()}


def given(*shape):
    """A random input of a fixed shape."""
    return normal(*shape), shape


def recurrent(op, width, batch):
    """100 steps of a layer, of which the last state is the result."""
    g = Graph(0)
    gates = width * {"GRU": 3, "LSTM": 4}[op]
    w, r, b = g.weight(1, gates, width), g.weight(1, gates, width), g.weight(1, 2 * gates)
    g.nodes.append(helper.make_node(op, ["x", w, r, b], ["", "y"], op, hidden_size=width))
    return finish(g, op, {"y": [1, batch, width]}, x=given(100, batch, width))


def bert(words, is_open):
    """A layer of BERT-base."""
    g, width, heads = Graph(0), 768, 12
    length = "words" if is_open else words
    apart, together = g.constant([0, 0, heads, width // heads]), g.constant([0, 0, width])
    q, k, v = (g.node("Transpose", g.node("Reshape", g.linear("x", width, width), apart),
                      perm=[0, 2, 1, 3]) for _ in range(3))
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.node("Div", scores, g.constant((width / heads) ** 0.5, F32))
    mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
    mixed = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), together)
    x = g.node("Add", "x", g.linear(mixed, width, width))
    x = g.node("LayerNormalization", x, *g.norm(width))
    y = g.linear(x, width, 4 * width)
    gate = g.node("Erf", g.node("Div", y, g.constant(2 ** 0.5, F32)))
    y = g.node("Mul", y, g.node("Add", gate, g.constant(1, F32)))
    y = g.node("Mul", y, g.constant(0.5, F32))
    x = g.node("Add", x, g.linear(y, 4 * width, width))
    g.node("LayerNormalization", x, *g.norm(width), name="y")
    return finish(g, "bert", {"y": [1, length, width]}, x=(normal(1, words, width), [1, length, width]))


class UNet(Graph):
    """The noise of a map of 4 channels by a small U-net of 320 and 640 channels, as PyTorch exports one."""

    def conv(self, x, inner, outer, size=3, stride=1):
        """A convolution with a bias."""
        w = self.constant(self.rng.standard_normal((outer, inner, size, size), F32)
                          * F32((inner * size * size) ** -0.5), F32)
        return self.node("Conv", x, w, self.vector(outer), pads=[size // 2] * 4,
                         strides=[stride, stride])

    def group_norm(self, x, channels, size):
        """In 32 groups."""
        parts = self.node("Reshape", x, self.constant([0, 32, -1]))
        one = self.constant(np.ones(32), F32), self.constant(np.zeros(32), F32)
        y = self.node("InstanceNormalization", parts, *one, epsilon=1e-5)
        y = self.node("Reshape", y, self.constant([1, channels, size, size]))
        scale, shift = (self.constant(self.rng.standard_normal((channels, 1, 1), F32) * F32(0.05) + n,
                                      F32) for n in (1, 0))
        return self.node("Add", self.node("Mul", y, scale), shift)

    def silu(self, x):
        """x·sigmoid(x)."""
        return self.node("Mul", x, self.node("Sigmoid", x))

    def block(self, x, inner, outer, size):
        """Two convolutions beside the map itself, or a 1x1 convolution of it."""
        y = self.conv(self.silu(self.group_norm(x, inner, size)), inner, outer)
        y = self.conv(self.silu(self.group_norm(y, outer, size)), outer, outer)
        return self.node("Add", x if inner == outer else self.conv(x, inner, outer, 1), y)

    def attention(self, x, width, size):
        """All places of the map attend to all."""
        heads, places = width // 64, size * size
        y = self.group_norm(x, width, size)
        y = self.node("Transpose", self.node("Reshape", y, self.constant([1, width, places])),
                      perm=[0, 2, 1])
        apart, together = (self.constant(shape) for shape in ([1, places, heads, 64],
                                                              [1, places, width]))
        q, k, v = (self.node("Transpose", self.node("Reshape", self.linear(y, width, width), apart),
                             perm=[0, 2, 1, 3]) for _ in range(3))
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Softmax", self.node("Mul", scores, self.constant(0.125, F32)), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        mixed = self.linear(self.node("Reshape", mixed, together), width, width)
        mixed = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1]),
                          self.constant([1, width, size, size]))
        return self.node("Add", x, mixed)

    def noise(self, x, size):
        """The network."""
        half = size // 2
        first = self.conv(x, 4, 320)
        wide = self.attention(self.block(first, 320, 320, size), 320, size)
        deep = self.conv(wide, 320, 320, stride=2)
        deep = self.attention(self.block(deep, 320, 640, half), 640, half)
        deep = self.block(deep, 640, 640, half)
        scales = self.constant([1, 1, 2, 2], F32)
        up = self.node("Resize", deep, "", scales, mode="nearest",
                       coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        up = self.conv(up, 640, 640)
        both = self.node("Concat", up, wide, axis=1)
        x = self.attention(self.block(both, 960, 320, size), 320, size)
        return self.conv(self.silu(self.group_norm(x, 320, size)), 320, 4)


def unet(size=32, steps=20):
    """Steps of a diffusion model in a loop."""
    g = UNet(0)
    step = g.node("Mul", g.noise("map", size), g.constant(0.05, F32))
    g.node("Sub", "map", step, name="next")
    g.node("Identity", "on", name="still")
    shape = [1, 4, size, size]
    body = helper.make_graph(g.nodes, "step", [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("map", TensorProto.FLOAT, shape),
    ], [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_value_info("next", TensorProto.FLOAT, shape),
    ])
    g.nodes = []
    g.node("Loop", g.constant(steps), g.constant(True, bool), "x", name="y", body=body)
    return finish(g, "unet", {"y": shape}, x=given(*shape))


@dataclass
class Conv:
    """A convolution of a square kernel and map, but for speech."""
    kernel: tuple
    channels: tuple
    map: tuple
    pads: tuple
    stride: int = 1
    groups: int = 1
    batch: int = 1

    def name(self):
        """All that tells it from the others."""
        parts = [f"{self.kernel[0]}x{self.kernel[1]}", f"{self.channels[0]}to{self.channels[1]}",
                 f"{self.map[0]}x{self.map[1]}"]
        parts += [f"{word}{n}" for word, n in (("by", self.stride), ("groups", self.groups),
                                               ("batch", self.batch)) if n > 1]
        return "_".join(["conv", *parts])

    def make(self):
        """A model of one node, and its input."""
        g, (inner, outer) = Graph(0), self.channels
        w = g.weight(outer, inner // self.groups, *self.kernel)
        g.node("Conv", "x", w, g.vector(outer), pads=[*self.pads, *self.pads], name="y",
               strides=[self.stride] * 2, group=self.groups)
        sizes = [(m + 2 * p - k) // self.stride + 1
                 for m, p, k in zip(self.map, self.pads, self.kernel)]
        return finish(g, "conv", {"y": [self.batch, outer, *sizes]},
                      x=given(self.batch, inner, *self.map))


def conv(kernel, inner, outer, size, **how):
    """A convolution whose map keeps its size but for the stride."""
    return Conv((kernel, kernel), (inner, outer), (size, size), (kernel // 2, kernel // 2), **how)


CONVS = [
    conv(3, 64, 64, 56), conv(3, 128, 128, 28), conv(3, 256, 256, 14), conv(3, 512, 512, 7),
    conv(3, 320, 320, 32), conv(3, 16, 16, 32, batch=64),
    conv(3, 1024, 1024, 32, groups=16), conv(3, 4096, 4096, 8, groups=16),
    conv(3, 128, 128, 56, groups=32), conv(7, 3, 64, 224, stride=2),
    Conv((11, 11), (3, 64), (224, 224), (2, 2), stride=4),
    Conv((41, 11), (1, 32), (161, 100), (20, 5), stride=2),
    Conv((21, 11), (32, 32), (81, 50), (10, 5)),
    conv(1, 1024, 256, 32), conv(1, 4096, 1024, 8),
    conv(5, 32, 32, 32, groups=32), conv(7, 64, 64, 32, stride=2, groups=64),
]


def block(shape, make, how):
    """A block, and its input."""
    g = Block(0)
    g.node("Identity", make(g, *how), name="y")
    return finish(g, "block", {"y": None}, x=given(*shape))


def cases():
    """Name, function that makes model and inputs, and runs at a time."""
    for one in CONVS:
        yield one.name(), one.make, 20
    for name, *of in BLOCKS:
        yield f"block_{name}", lambda of=of: block(*of), 10
    for op in ("GRU", "LSTM"):
        for width in (128, 256, 512):
            for batch in (1, 8, 64):
                yield (f"{op.lower()}_{width}_{batch}",
                       lambda op=op, width=width, batch=batch: recurrent(op, width, batch), 10)
    for words in (16, 64, 128, 256):
        for is_open in (False, True):
            yield (f"bert_{words}_{'open' if is_open else 'fixed'}",
                   lambda words=words, is_open=is_open: bert(words, is_open), 10)
    yield "unet", unet, 1


def main():
    parser = arguments(__doc__, 60, "of the unet a twentieth")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(head("model", PEERS))
    ratios = []
    for name, make, turn in cases():
        if not any(word in name for word in args.only.split(",")):
            continue
        made, inputs = make()
        medians = beside_peers(args, name, made, inputs, turn)
        ratios.append(min(medians[peer] for peer in PEERS) / medians["heddle"])
    print(f"\nGeometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    sys.exit(main())
