"""Models too deep or too long for the text form: nested Ifs written as bytes, and a long chain."""
from pathlib import Path

import numpy as np
from onnx import (AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
                  helper)
from program import write_case

MODEL_GRAPH, GRAPH_NODE, NODE_ATTRIBUTE, ATTRIBUTE_GRAPH = 7, 1, 5, 6  # field numbers in onnx.proto


def header(number: int, length: int) -> bytes:
    """The key and length of a length-delimited field."""
    key, size = number << 3 | 2, bytearray()
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([key]) + bytes(size) + bytes([length])


def nest(layers, innermost: bytes) -> bytes:
    """Each layer, outermost first, is (a message's bytes, the field that holds the next)."""
    chunks, length = [innermost], len(innermost)
    for fixed, number in reversed(layers):
        chunk = fixed + header(number, length)
        chunks.append(chunk)
        length += len(chunk)
    return b"".join(reversed(chunks))


def model_layer(inputs, outputs):
    """The model's own layers: what stands around the first node."""
    graph = GraphProto(name="deep", input=inputs, output=outputs)
    model = ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    return [(model.SerializeToString(), MODEL_GRAPH), (graph.SerializeToString(), GRAPH_NODE)]


def nested_ifs(depth: int) -> tuple[bytes, tuple]:
    """y = -x if c, through `depth` Ifs on c one inside the other; x otherwise. And its ports."""
    value = helper.make_tensor_value_info
    inputs = [value("c", TensorProto.BOOL, ()), value("x", TensorProto.FLOAT, ())]
    outputs = [value("y0", TensorProto.FLOAT, ())]
    layers = model_layer(inputs, outputs)
    for level in range(depth):
        other = helper.make_graph([helper.make_node("Identity", ["x"], [f"z{level}"])], "no", [],
                                  [value(f"z{level}", TensorProto.FLOAT, ())])
        node = helper.make_node("If", ["c"], [f"y{level}"], f"if_{level}", else_branch=other)
        branch = AttributeProto(name="then_branch", type=AttributeProto.GRAPH)
        result = value(f"y{level + 1}", TensorProto.FLOAT, ())
        graph = GraphProto(name="yes", output=[result])
        layers += [(node.SerializeToString(), NODE_ATTRIBUTE),
                   (branch.SerializeToString(), ATTRIBUTE_GRAPH),
                   (graph.SerializeToString(), GRAPH_NODE)]
    last = NodeProto(op_type="Neg", input=["x"], output=[f"y{depth}"])
    return nest(layers, last.SerializeToString()), (inputs, outputs)


def nested_types(depth: int) -> bytes:
    """A model whose input is a sequence of sequences of ... of floats."""
    graph_input, info_type, type_sequence, sequence_element = 11, 2, 4, 1
    layers = model_layer([], [])
    layers[1] = (GraphProto(name="deep").SerializeToString(), graph_input)
    layers.append((ValueInfoProto(name="deep_input").SerializeToString(), info_type))
    layers += [(b"", type_sequence), (b"", sequence_element)] * depth
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, ())
    return nest(layers, element.SerializeToString())


def chain(length: int) -> ModelProto:
    """y = x + length, one at a time."""
    value = helper.make_tensor_value_info
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    nodes = [helper.make_node("Add", [a, "one"], [b]) for a, b in zip(names, names[1:])]
    one = helper.make_tensor("one", TensorProto.FLOAT, (), [1.0])
    graph = helper.make_graph(nodes, "chain", [value("x", TensorProto.FLOAT, ["N"])],
                              [value("y", TensorProto.FLOAT, ["N"])], [one])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(folder: Path) -> int:
    """Writes the cases that must work; returns how many."""
    model, ports = nested_ifs(100)
    x = np.float32(3)
    sets = [([np.array(True), x], [-x]), ([np.array(False), x], [x])]
    write_case(folder / "if_100_deep", model, sets, ports=ports)
    x = np.float32([0, 5])
    write_case(folder / "chain_of_10000_nodes", chain(10_000), [([x], [x + 10_000])])
    return 2
