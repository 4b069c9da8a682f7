"""Models that must end in a clean error: what is wrong with each, and what its message must name.

Each folder holds model.onnx and expect.txt. A line `error: TEXT` there asks for TEXT in the
message, whatever its case; a line `may succeed` says that a result is as good as a refusal."""
import os
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, parser

from deep import nested_ifs, nested_types

DOMAINS = 'opset_import: ["": OPSET, "local": 1, "other": 1]'
F = '<domain: "local", opset_import: ["": 17, "local": 1]>'
LOOP = "(int64 i, bool c, float s) => (bool d, float t)"

# name: (the graph from its inputs on, then functions; what the message must contain)
TEXTS = {
    "endless_loop": ("""(float x) => (float y) {
        [spinner] y = Loop <body = b """ + LOOP + """ {
          d = Identity(c)  t = Add(s, s) }> ("", "", x)
        }""", "spinner"),
    "endless_while": ("""(float x) => (float y) <bool yes = {1}> {
        [spinner] y = Loop <body = b """ + LOOP + """ {
          d = Identity(yes)  t = Neg(s) }> ("", yes, x)
        }""", "spinner"),
    "endless_huge_trip_count": ("""(float x) => (float y) {
        big = Constant <value = int64 {9223372036854775807}> ()
        [spinner] y = Loop <body = b """ + LOOP + """ { d = Identity(c)  t = Neg(s) }> (big, "", x)
        }""", "spinner"),
    "endless_stacking": ("""() => (int64[N] y) {
        [spinner] y = Loop <body = b (int64 i, bool c) => (bool d, int64 u) {
          d = Identity(c)  u = Mul(i, i) }> ("", "")
        }""", "spinner"),
    "endless_inner_loop": ("""(float x) => (float y) <int64 n = {3}> {
        [outer] y = Loop <body = b """ + LOOP + """ { d = Identity(c)  t = local.f (s) }> (n, "", x)
        }
        """ + F + """ f (x) => (y) {
        [spinner] y = Loop <body = b """ + LOOP + """ { d = Identity(c)  t = Neg(s) }> ("", "", x) }
        """, "spinner"),
    "endless_recursion": ("(float x) => (float y) { y = local.bottomless (x) }\n" + F
                          + " bottomless (x) => (y) { a = Neg(x)  y = local.bottomless (a) }",
                          "bottomless", "depth"),
    "endless_recursion_with_work_after": (
        "(float x) => (float y) { y = local.bottomless (x) }\n" + F
        + " bottomless (x) => (y) { a = local.bottomless (x)  y = Neg(a) }", "bottomless", "depth"),
    "endless_mutual_recursion": (
        "(float x) => (float y) { y = local.deep_ping (x) }\n" + F
        + " deep_ping (x) => (y) { y = local.deep_pong (x) }\n" + F
        + " deep_pong (x) => (y) { y = local.deep_ping (x) }", "deep_p", "depth"),
    "endless_recursion_node": ("""(float x) => (float y) {
        y = Recursion <body = bottomless (float a) => (float b) { b = bottomless(a) }> (x)
        }""", "bottomless", "depth"),
    "endless_doubling_calls": (
        "(float x) => (float y) { y = local.f0 (x) }\n" + "\n".join(
            f"{F} f{i} (x) => (y) {{ a = local.f{i + 1} (x)  y = local.f{i + 1} (a) }}"
            for i in range(60)) + f"\n{F} f60 (x) => (y) {{ y = Neg(x) }}", ),
    "memory_doubles_in_loop": ("""(float[1] x) => (float[N] y) <int64 n = {60}> {
        y = Loop <body = b (int64 i, bool c, float[P] s) => (bool d, float[Q] t) {
          d = Identity(c)  [doubler] t = Concat <axis = 0> (s, s) }> (n, "", x)
        }""", "memory"),
    "memory_constant_of_shape": ("""() => (float[N] y) <int64[1] n = {4611686018427387904}> {
        [giant] y = ConstantOfShape (n)
        }""", "giant"),
    "memory_constant_of_shape_overflows": ("""() => (float[A, B] y)
        <int64[2] n = {4294967296, 4294967296}> { [giant] y = ConstantOfShape (n) }""", "giant"),
    "memory_expand": ("""(float x) => (float[N] y) <int64[2] n = {1000000, 1000000}> {
        [giant] y = Expand (x, n)
        }""", "giant"),
    "memory_range": ("""() => (int64[N] y)
        <int64 a = {0}, int64 b = {9223372036854775807}, int64 s = {1}> {
        [giant] y = Range (a, b, s)
        }""", "giant"),
    "memory_tile": ("""(float[2] x) => (float[N] y) <int64[1] n = {1000000000000}> {
        [giant] y = Tile (x, n)
        }""", "giant"),
    "memory_pad": ("""(float[2] x) => (float[N] y) <int64[2] n = {0, 4611686018427387904}> {
        [giant] y = Pad (x, n)
        }""", "giant"),
    "undefined_name": ("(float x) => (float y) { [user] y = Add(x, missing_value) }",
                       "missing_value"),
    "undefined_name_in_branch": ("""(bool c, float x) => (float y) {
        y = If <then_branch = a () => (float p) { p = Neg(x) },
                else_branch = b () => (float q) { q = Neg(missing_value) }> (c)
        }""", "missing_value"),
    "undefined_name_from_sibling_branch": ("""(bool c, float x) => (float y) {
        y = If <then_branch = a () => (float p) { inside = Neg(x)  p = Abs(inside) },
                else_branch = b () => (float q) { q = Neg(inside) }> (c)
        }""", "inside"),
    "undefined_name_from_loop_body": ("""(float x) => (float y) <int64 n = {2}> {
        z = Loop <body = b """ + LOOP + """ { d = Identity(c)  inside = Neg(s)  t = Abs(inside)
        }> (n, "", x)
        y = Add(z, inside)
        }""", "inside"),
    "undefined_name_in_function": (
        "(float x) => (float y) { y = local.f (x) }\n" + F + " f (a) => (b) { b = Add(a, x) }",
        "x"),
    "undefined_output": ("(float x) => (float nowhere) { y = Neg(x) }", "nowhere"),
    "defined_twice": ("(float x) => (float again) { again = Neg(x)  again = Abs(x) }", "again"),
    "cyclic_graph": ("""(float x) => (float y) {
        snake_a = Add(x, snake_b)  snake_b = Neg(snake_a)  y = Neg(snake_b)
        }""", "snake_"),
    "cyclic_through_itself": ("(float x) => (float y) { snake = Add(x, snake)  y = Neg(snake) }",
                              "snake"),
    "attribute_missing_cast": ("(float x) => (float y) { [caster] y = Cast(x) }", "caster", "to"),
    "attribute_missing_body": ("(float x) => (float y) <int64 n = {2}> "
                               "{ [looper] y = Loop(n, \"\", x) }", "looper", "body"),
    "attribute_missing_branch": ("""(bool c, float x) => (float y) {
        [fork] y = If <then_branch = a () => (float p) { p = Neg(x) }> (c)
        }""", "fork", "else_branch"),
    "attribute_of_wrong_type": ("(float x) => (float y) { [caster] y = Cast <to = \"float\"> (x) }",
                                "caster", "to"),
    "attribute_of_function_missing": ("(float x) => (float y) { y = local.f (x) }\n" + F
                                      + " f <slope> (x) => (y) "
                                      "{ [leak] y = LeakyRelu <alpha: float = @slope> (x) }",
                                      "slope"),
    "unknown_operators_all_listed": ("""(bool c, float x) => (float y) <int64 n = {2}> {
        a = FancyOp(x)
        b = If <then_branch = t () => (float p) { p = WobbleOp(a) },
                else_branch = e () => (float q) { q = FancyOp(a) }> (c)
        k = Loop <body = l """ + LOOP + """ { d = Identity(c)  t = com.acme.SpinOp(s) }> (n, "", b)
        y = local.f (k)
        }
        """ + F + " f (x) => (y) { y = TwistOp(x) }", "FancyOp", "WobbleOp", "SpinOp", "com.acme",
                                     "TwistOp"),
    "unknown_function": ("(float x) => (float y) { y = local.absent (x) }", "absent"),
    "unknown_opset": ("(float x) => (float y) { y = Neg(x) }", "999"),
    "type_mismatch": ("(float x, int64 n) => (float y) { [adder] y = Add(x, n) }", "adder"),
    "type_not_allowed": ("(bool c) => (float y) { [rooter] y = Sqrt(c) }", "rooter"),
    "type_of_condition": ("""(float c, float x) => (float y) {
        [fork] y = If <then_branch = a () => (float p) { p = Neg(x) },
                       else_branch = b () => (float q) { q = Abs(x) }> (c)
        }""", "fork"),
    "type_of_trip_count": ("""(float n, float x) => (float y) {
        [looper] y = Loop <body = b """ + LOOP + """ { d = Identity(c)  t = Neg(s) }> (n, "", x)
        }""", "looper"),
    "type_changes_in_loop": ("""(float x) => (float y) <int64 n = {2}> {
        [looper] y = Loop <body = b (int64 i, bool c, float s) => (bool d, int64 t) {
          d = Identity(c)  t = Cast <to = 7> (s) }> (n, "", x)
        }""", "looper"),
    "condition_of_two_elements": ("""(bool[2] c, float x) => (float y) {
        [fork] y = If <then_branch = a () => (float p) { p = Neg(x) },
                       else_branch = b () => (float q) { q = Abs(x) }> (c)
        }""", "fork"),
    "branches_of_different_count": ("""(bool c, float x) => (float y, float z) {
        [fork] y, z = If <then_branch = a () => (float p, float r) { p = Neg(x)  r = Abs(x) },
                          else_branch = b () => (float q) { q = Abs(x) }> (c)
        }""", "fork"),
    "branches_give_too_few": ("""(bool c, float x) => (float y, float z) {
        [fork] y, z = If <then_branch = a () => (float p) { p = Neg(x) },
                          else_branch = b () => (float q) { q = Abs(x) }> (c)
        }""", "fork"),
    "branches_of_different_type": ("""(bool c, float x) => (float y) {
        [fork] y = If <then_branch = a () => (float p) { p = Neg(x) },
                       else_branch = b () => (int64 q) { q = Cast <to = 7> (x) }> (c)
        }""", "fork"),
    "branch_with_inputs": ("""(bool c, float x) => (float y) {
        [fork] y = If <then_branch = a (float k) => (float p) { p = Neg(k) },
                       else_branch = b () => (float q) { q = Abs(x) }> (c)
        }""", "fork"),
    "loop_body_with_few_inputs": ("""(float x) => (float y) <int64 n = {2}> {
        [looper] y = Loop <body = b (int64 i, bool c) => (bool d, float t) {
          d = Identity(c)  t = Neg(x) }> (n, "", x)
        }""", "looper"),
    "loop_body_with_few_outputs": ("""(float x) => (float y) <int64 n = {2}> {
        [looper] y = Loop <body = b (int64 i, bool c, float s) => (bool d) {
          d = Identity(c) }> (n, "", x)
        }""", "looper"),
    "loop_stacks_different_shapes": ("""() => (int64[N, M] y) <int64 n = {3}, int64[1] m1 = {-1}> {
        [stacker] y = Loop <body = b (int64 i, bool c) => (bool d, int64[K] u) {
          d = Identity(c)  k = Reshape(i, m1)  u = Expand(i, k) }> (n, "")
        }""", "stacker"),
    "scan_inputs_of_different_length": ("""(float[2] x, float[3] z) => (float[N] y) {
        [scanner] y = Scan <num_scan_inputs = 2, body = b (float p, float q) => (float r) {
          r = Add(p, q) }> (x, z)
        }""", "scanner"),
    "scan_inputs_that_turn_out_of_different_length": ("""(float[N] x) => (float[N] y) {
        xx = Concat <axis = 0> (x, x)
        [scanner] y = Scan <num_scan_inputs = 2, body = b (float p, float q) => (float r) {
          r = Add(p, q) }> (x, xx)
        }""", "scanner"),
    "split_lengths_that_turn_out_wrong": ("""(float[5] x, float[N] w) => (float[A] y, float[B] z) {
        n = Shape (w)
        lengths = Concat <axis = 0> (n, n)
        [cutter] y, z = Split <axis = 0> (x, lengths)
        }""", "cutter", "lengths"),
    "call_with_too_many_inputs": ("(float x) => (float y) { [caller] y = local.f (x, x, x) }\n" + F
                                  + " f (a) => (b) { b = Neg(a) }", "caller"),
    "call_without_a_needed_input": ("(float x) => (float y) { [caller] y = local.f (x) }\n" + F
                                    + " f (a, needed) => (c) { c = Add(a, needed) }",),
    "operator_with_too_many_inputs": ("(float x) => (float y) { [negator] y = Neg (x, x, x) }",
                                      "negator"),
    "operator_with_too_few_inputs": ("(float x) => (float y) { [adder] y = Add (x) }", "adder"),
    "rank_of_matmul": ("(float x, float[2] z) => (float y) { [product] y = MatMul(x, z) }",
                       "product"),
    "rank_of_conv": ("(float[3] x, float[1, 1, 3, 3] w) => (float y) "
                     "{ [conv] y = Conv(x, w) }", "conv"),
    "shape_of_broadcast": ("(float[2] x, float[3] z) => (float[N] y) { [adder] y = Add(x, z) }",
                           "adder"),
    "shape_of_matmul": ("(float[2, 3] x, float[2, 3] z) => (float[N, M] y) "
                        "{ [product] y = MatMul(x, z) }", "product"),
    "shape_of_concat": ("(float[2, 3] x, float[3, 2] z) => (float[N, M] y) "
                        "{ [joiner] y = Concat <axis = 0> (x, z) }", "joiner"),
    "shape_of_conv_channels": ("(float[1, 3, 4, 4] x, float[1, 2, 3, 3] w) "
                               "=> (float[A, B, C, D] y) "
                               "{ [conv] y = Conv(x, w) }", "conv"),
    "shape_of_squeeze": ("(float[2, 3] x) => (float[N] y) <int64[1] axes = {0}> "
                         "{ [squeezer] y = Squeeze(x, axes) }", "squeezer"),
    "shape_of_split": ("(float[5] x) => (float[A] y, float[B] z) <int64[2] parts = {2, 2}> "
                       "{ [splitter] y, z = Split(x, parts) }", "splitter"),
    "shape_unknown_until_run": ("""(float[2] x) => (float[N] y) <int64 n = {3}> {
        y = Loop <body = b (int64 i, bool c, float[P] s) => (bool d, float[Q] t) {
          d = Identity(c)  g = Concat <axis = 0> (s, s)  [adder] t = Add(g, x) }> (n, "", x)
        }""", "adder"),
    "reshape_negative": ("(float[6] x) => (float[A, B] y) <int64[2] shape = {-2, 3}> "
                         "{ [reshaper] y = Reshape(x, shape) }", "reshaper"),
    "reshape_two_unknown": ("(float[6] x) => (float[A, B] y) <int64[2] shape = {-1, -1}> "
                            "{ [reshaper] y = Reshape(x, shape) }", "reshaper"),
    "reshape_not_divisible": ("(float[5] x) => (float[A, B] y) <int64[2] shape = {-1, 2}> "
                              "{ [reshaper] y = Reshape(x, shape) }", "reshaper"),
    "reshape_other_size": ("(float[6] x) => (float[A, B] y) <int64[2] shape = {2, 2}> "
                           "{ [reshaper] y = Reshape(x, shape) }", "reshaper"),
    "gather_out_of_range": ("(float[3] x) => (float y) <int64 at = {7}> "
                            "{ [gatherer] y = Gather(x, at) }", "gatherer", "7"),
    "gather_below_range": ("(float[3] x) => (float y) <int64 at = {-4}> "
                           "{ [gatherer] y = Gather(x, at) }", "gatherer", "-4"),
    "gather_of_one_out_of_range": ("""(float[N] x, int64[M] at) => (float[M, N] y)
        <int64[1] zero = {0}> { u = Unsqueeze(x, zero)  [gatherer] y = Gather(u, at) }""",
                                   "gatherer"),
    "gather_of_broadcast_out_of_range": ("""(float[N] x) => (float y)
        <int64[2] sizes = {3, 1}, int64[2] at = {3, 0}> {
        u = Expand(x, sizes)  [gatherer] y = GatherND(u, at) }""", "gatherer", "3"),
    "gather_in_loop_out_of_range": ("""(float[3] x) => (float[N] y) <int64 n = {5}> {
        y = Loop <body = b (int64 i, bool c) => (bool d, float u) {
          d = Identity(c)  [gatherer] u = Gather(x, i) }> (n, "")
        }""", "gatherer"),
    "scatter_out_of_range": ("(float[3] x, float[1] z) => (float[3] y) <int64[1, 1] at = {9}> "
                             "{ [scatterer] y = ScatterND(x, at, z) }", "scatterer"),
    "axis_out_of_range": ("(float[3] x) => (float[3] y) { [soft] y = Softmax <axis = 5> (x) }",
                          "soft"),
    "transpose_not_a_permutation": ("(float[2, 3] x) => (float[A, B] y) "
                                    "{ [turner] y = Transpose <perm = [0, 0]> (x) }", "turner"),
    "range_step_zero": ("() => (int64[N] y) <int64 a = {0}, int64 b = {5}, int64 s = {0}> "
                        "{ [ranger] y = Range(a, b, s) }", "ranger"),
    "slice_step_zero": ("(float[3] x) => (float[N] y) <int64[1] a = {0}, int64[1] b = {3}> "
                        "{ [slicer] y = Slice(x, a, b, a, a) }", "slicer"),
    "conv_stride_zero": ("(float[1, 1, 4, 4] x, float[1, 1, 3, 3] w) => (float[A, B, C, D] y) "
                         "{ [conv] y = Conv <strides = [0, 0]> (x, w) }", "conv"),
    "conv_group_zero": ("(float[1, 1, 4, 4] x, float[1, 1, 3, 3] w) => (float[A, B, C, D] y) "
                        "{ [conv] y = Conv <group = 0> (x, w) }", "conv"),
    "sequence_at_out_of_range": ("(float x) => (float y) <int64 five = {5}> "
                                 "{ s = SequenceConstruct(x)"
                                 "  [picker] y = SequenceAt(s, five) }", "picker"),
    "optional_without_value": ("() => (float y) { o = Optional <type = float> ()  "
                               "[opener] y = OptionalGetElement(o) }", "opener"),
    "concat_of_empty_sequence": ("() => (float[N] y) { s = SequenceEmpty <dtype = 1> ()  "
                                 "[joiner] y = ConcatFromSequence <axis = 0> (s) }", "joiner"),
}


def text_model(name: str, text: str):
    """Parses one of TEXTS, without any check."""
    domains = DOMAINS.replace("OPSET", "999" if name == "unknown_opset" else "17")
    return parser.parse_model(f"<ir_version: 8, {domains}> {name} {text}")


def weight_model(tensor: TensorProto):
    """A model whose only content is the initializer: y = Identity(weight)."""
    info = helper.make_tensor_value_info("y", tensor.data_type, None)
    node = helper.make_node("Identity", [tensor.name], ["y"], "reader")
    graph = helper.make_graph([node], "weights", [], [info], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external(location, dims=(4,), **place):
    """A float tensor called `weights` whose data is in another file."""
    tensor = TensorProto(name="weights", dims=dims, data_type=TensorProto.FLOAT,
                         data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **place}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def inline(dims, data=None, data_type=TensorProto.FLOAT):
    """A tensor called `weights` with raw data that need not fit its dims."""
    tensor = TensorProto(name="weights", dims=dims, data_type=data_type)
    if data is not None:
        tensor.raw_data = data
    return tensor


# name: (tensor, what the message must contain); the folder has good.bin, of 16 bytes
TENSORS = {
    "external_above_folder": (external("../secret.bin"), "../secret.bin"),
    "external_above_folder_inside_path": (external("a/../../secret.bin"), "secret.bin"),
    "external_absolute_path": (external("/etc/passwd"), "/etc/passwd"),
    "external_symlink_out": (external("link.bin"), "link.bin"),
    "external_through_linked_folder": (external("linked/secret.bin"), "secret.bin"),
    "external_missing_file": (external("not_there.bin"), "not_there.bin"),
    "external_is_a_folder": (external("folder"), "folder"),
    "external_without_location": (external(""), "weights"),
    "external_device_file": (external("/dev/zero"), "/dev/zero"),
    "external_offset_beyond_end": (external("good.bin", offset=64), "good.bin"),
    "external_offset_overflows": (external("good.bin", offset=2**64 - 8, length=16), "weights"),
    "external_offset_negative": (external("good.bin", offset=-4, length=16), "weights"),
    "external_offset_not_a_number": (external("good.bin", offset="zero"), "weights"),
    "external_length_beyond_end": (external("good.bin", (8,), length=32), "good.bin"),
    "external_length_unlike_dims": (external("good.bin", (2,), length=16), "weights"),
    "external_dims_beyond_file": (external("good.bin", (1000,)), "weights"),
    "dims_absurd": (inline([2**62], b""), "weights"),
    "dims_absurd_external": (external("good.bin", [2**62]), "weights"),
    "dims_overflow_to_zero": (inline([2**32, 2**32], b""), "weights"),
    "dims_overflow_to_four": (inline([2**62 + 1, 4], b"\0" * 16), "weights"),
    "dims_negative": (inline([-3], b""), "weights"),
    "dims_two_negative": (inline([-2, -2], b"\0" * 16), "weights"),
    "data_shorter_than_dims": (inline([4], b"\0" * 12), "weights"),
    "data_longer_than_dims": (inline([4], b"\0" * 20), "weights"),
    "data_of_odd_length": (inline([4], b"\0" * 15), "weights"),
    "data_absent": (inline([4]), "weights"),
    "data_type_unknown": (inline([4], b"\0" * 16, 999), "weights"),
    "data_type_undefined": (inline([4], b"\0" * 16, 0), "weights"),
}


def broken_bytes():
    """(name, bytes): files that are cut short or no ONNX at all."""
    whole = text_model("whole", TEXTS["endless_inner_loop"][0])
    extra = numpy_helper.from_array(np.arange(64, dtype=np.float32), "extra")
    whole.graph.initializer.append(extra)
    data = whole.SerializeToString()
    yield "file_empty", b""
    for percent in (1, 10, 25, 50, 75, 90, 99):
        yield f"file_cut_at_{percent}_percent", data[:len(data) * percent // 100]
    yield "file_without_last_byte", data[:-1]
    yield "file_of_text", b"this is no ONNX model\n" * 20
    yield "file_of_zeros", bytes(4096)
    yield "file_of_ones", b"\xff" * 4096
    yield "file_of_noise", np.random.default_rng(0).bytes(4096)
    yield "file_with_length_beyond_end", b"\x3a\xff\xff\xff\xff\x0f" + data
    yield "file_with_invalid_utf8", data.replace(b"spinner", b"spin\xff\xfe\xfd")


def call_chain(depth: int) -> str:
    """Functions that each call the next: deep, but not recursive."""
    text = "(float x) => (float y) { y = local.f0 (x) }\n"
    text += "\n".join(f"{F} f{i} (x) => (y) {{ y = local.f{i + 1} (x) }}" for i in range(depth))
    return text + f"\n{F} f{depth} (x) => (y) {{ y = Neg(x) }}"


def put(folder: Path, model, *needles: str, lines=()):
    """Writes one broken model, what its folder may need, and what is expected of the message."""
    folder.mkdir(parents=True)
    data = model if isinstance(model, bytes) else model.SerializeToString()
    (folder / "model.onnx").write_bytes(data)
    expected = [*lines, *(f"error: {needle}" for needle in needles)]
    (folder / "expect.txt").write_text("".join(line + "\n" for line in expected))


def write(out: Path) -> int:
    """Writes all of them; returns how many."""
    for name, (text, *needles) in TEXTS.items():
        put(out / name, text_model(name, text), *needles)
    outside = out.parent / "outside"
    outside.mkdir(exist_ok=True)
    for secret in (outside / "secret.bin", out / "secret.bin"):
        secret.write_bytes(bytes(16))
    for name, (tensor, *needles) in TENSORS.items():
        folder = out / name
        put(folder, weight_model(tensor), *needles)
        (folder / "good.bin").write_bytes(bytes(16))
        (folder / "folder").mkdir()
        os.symlink("../../outside/secret.bin", folder / "link.bin")
        os.symlink("../../outside", folder / "linked")
    for name, data in broken_bytes():
        put(out / name, data)
    put(out / "deep_ifs_10000", nested_ifs(10_000)[0], lines=["may succeed"])
    put(out / "deep_types_10000", nested_types(10_000), lines=["may succeed"])
    put(out / "deep_calls_10000", text_model("deep", call_chain(10_000)), lines=["may succeed"])
    return sum(1 for path in out.iterdir() if path.is_dir())
