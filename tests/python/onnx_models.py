"""Small ONNX models for the tests."""

import numpy as np
from onnx import TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, initializers=(), **fields):
    """The bytes of a model."""
    graph = helper.make_graph(nodes, "g1", inputs, outputs, list(initializers), doc_string="of the graph")
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="tests", **fields).SerializeToString()


def added():
    """`z = x + y`, with a named size, one without a name, and an output without a shape."""
    inputs = [value("x", shape=["n", 3]), value("y", shape=[None, 3])]
    made = helper.make_model(
        helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "g1", inputs, [value("z")], doc_string="of the graph"),
        opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name="tests", domain="ours", model_version=4,
        doc_string="of the model",
    )
    helper.set_model_props(made, {"a": "b"})
    return made.SerializeToString()


def doubled_until():
    """A loop: `x` is doubled until an element is over the limit; `steps` is the number of iterations."""
    scalar = [value("i", INT64, []), value("go", TensorProto.BOOL, [])]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["h", "h"], ["h2"]),
            helper.make_node("ReduceMax", ["h2"], ["most"], keepdims=0),
            helper.make_node("Less", ["most", "limit"], ["on"]),
            helper.make_node("Add", ["k", "one"], ["k2"]),
        ],
        "body", [*scalar, value("h", shape=["n"]), value("k", INT64, [])],
        [value("on", TensorProto.BOOL, []), value("h2", shape=["n"]), value("k2", INT64, [])],
        [helper.make_tensor("one", INT64, [], [1])],
    )
    nodes = [helper.make_node("Loop", ["", "true", "x", "zero"], ["y", "steps"], body=body)]
    constants = [helper.make_tensor("true", TensorProto.BOOL, [], [True]), helper.make_tensor("zero", INT64, [], [0])]
    return model(nodes, [value("x", shape=["n"]), value("limit", shape=[])], [value("y", shape=["n"]), value("steps", INT64, [])], constants)


def with_default():
    """`z = x + w`, where `w` is 5 unless it is given."""
    inputs = [value("x", shape=["n"]), value("w", shape=[1])]
    return model([helper.make_node("Add", ["x", "w"], ["z"])], inputs, [value("z", shape=["n"])], [helper.make_tensor("w", FLOAT, [1], [5.0])])


def unranked():
    """`z = transpose(x)`, for any rank."""
    return model([helper.make_node("Transpose", ["x"], ["z"])], [value("x")], [value("z")])


def sequence_and_optional():
    """A list of two arrays, and an optional array."""
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]), helper.make_node("Optional", ["x"], ["o"])]
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(INT64, [2]))
    outputs = [helper.make_tensor_sequence_value_info("s", INT64, None), helper.make_value_info("o", optional)]
    return model(nodes, [value("x", INT64, [2])], outputs)


def text():
    """`z = x`, of text."""
    return model([helper.make_node("Identity", ["x"], ["z"])], [value("x", TensorProto.STRING, ["n"])], [value("z", TensorProto.STRING)])


def forever():
    """A loop that never ends by itself."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["h", "h"], ["h2"]), helper.make_node("Equal", ["h2", "h"], ["on"])],
        "body", [value("i", INT64, []), value("go", TensorProto.BOOL, []), value("h", shape=[])],
        [value("on", TensorProto.BOOL, []), value("h2", shape=[])],
    )
    nodes = [helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)]
    return model(nodes, [value("x", shape=[])], [value("y", shape=[])], [helper.make_tensor("true", TensorProto.BOOL, [], [True])])


def unknown_operator():
    """An operator of a domain that nobody knows."""
    made = helper.make_model(
        helper.make_graph([helper.make_node("Foo", ["x"], ["z"], domain="of.ours")], "g", [value("x", shape=[2])], [value("z")]),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("of.ours", 1)], ir_version=10,
    )
    return made.SerializeToString()


ones = np.ones((2, 3), np.float32)
