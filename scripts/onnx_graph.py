"""ONNX graphs built node by node, with random weights."""
import numpy as np
from onnx import helper, numpy_helper

F32, I64 = np.float32, np.int64


class Graph:
    """A graph under construction."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def constant(self, value, dtype=I64):
        """The name of a constant."""
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape):
        """The name of a matrix of small random numbers."""
        return self.constant(self.rng.standard_normal(shape, F32) * F32(0.05), F32)

    def vector(self, size, around=0.0):
        """The name of random numbers around one number."""
        return self.constant(self.rng.standard_normal(size, F32) * F32(0.05) + around, F32)

    def norm(self, size):
        """The names of scale and shift."""
        return self.vector(size, 1.0), self.vector(size)

    def node(self, op, *inputs, outputs=1, name=None, **attributes):
        """The name of a node's output, or a list of them."""
        stem = name or f"{op.lower()}_{len(self.nodes)}"
        names = [stem] if outputs == 1 else [f"{stem}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, stem + "_node", **attributes))
        return names[0] if outputs == 1 else names

    def linear(self, x, inner, outer):
        """x·w + b."""
        product = self.node("MatMul", x, self.weight(inner, outer))
        return self.node("Add", product, self.vector(outer))


def model(graph):
    """A model of opsets that both runtimes know."""
    opsets = [helper.make_opsetid(*o) for o in (("", 17), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
