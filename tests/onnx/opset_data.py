"""The cases that opset_cases.py writes: operators in the versions and forms that models use."""
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Case:
    """One node; `parameters` are the inputs that most models give as constants. The expected outputs
    are those of `twin`, if there is one: a node of a later version that means the same."""
    name: str
    op: str
    opset: int
    inputs: list
    attributes: dict = field(default_factory=dict)
    parameters: tuple = ()
    outputs: int = 1
    oracle: str | None = None
    expected: list | None = None
    tolerance: tuple | None = None
    twin: "Case | None" = None
    domain: str = ""


RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf


def f32(*shape):
    """Normal numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


def ints(low, high, shape, dtype=np.int64):
    """Random integers."""
    return RNG.integers(low, high, shape).astype(dtype)


def i64(*values):
    """A vector."""
    return np.array(values, np.int64)


def scalar(value, dtype=np.int64):
    """An array without axes."""
    return np.array(value, dtype)


def cases():
    """All cases."""
    for family in (elementwise, activations, reductions, axes, slices, pads, splits, shapes,
                   indexing, order, recurrent, contractions, losses):
        yield from family()


def elementwise():
    """Old and integer forms of arithmetic."""
    x = np.array([-INF, -4e38, -1.5, -0.0, 0.5, 7, INF, NAN], np.float32)
    for opset in (7, 10):
        yield Case(f"clip_{opset}", "Clip", opset, [f32(3, 4)], {"min": -0.5, "max": 0.5})
        yield Case(f"clip_{opset}_low", "Clip", opset, [f32(3, 4)], {"min": 0.1})
    for opset in (11, 12, 13):
        low, high = scalar(-0.5, np.float32), scalar(0.25, np.float32)
        yield Case(f"clip_{opset}", "Clip", opset, [x, low, high], {}, (1, 2))
        # Without a bound infinities stay, as in the operator's definition by others.
        yield Case(f"clip_{opset}_high", "Clip", opset, [x, None, high], {}, (2,),
                   oracle="reference")
        yield Case(f"clip_{opset}_none", "Clip", opset, [x], oracle="reference")
    yield Case("clip_12_crossed", "Clip", 12, [ints(-9, 9, (5,), np.int32), scalar(4, np.int32),
                                               scalar(-4, np.int32)], {}, (1, 2))
    for dtype in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        low = 0 if np.dtype(dtype).kind == "u" else -9
        a = ints(low, 9, (4, 5), dtype)
        b = ints(1, 4, (5,), dtype) * (1 if low == 0 else np.array([1, -1, 1, -1, 1], dtype))
        name = np.dtype(dtype).name
        for fmod in (0, 1):
            yield Case(f"mod_{name}_{fmod}", "Mod", 13, [a, b], {"fmod": fmod})
        yield Case(f"div_{name}", "Div", 14, [a, b])
        if dtype in (np.int32, np.int64):
            yield Case(f"pow_{name}", "Pow", 15, [a, np.abs(b)])
            yield Case(f"pow_{name}_f32", "Pow", 15, [a, f32(5) * 0 + 2])
        yield Case(f"max_{name}", "Max", 13, [a, b, ints(1, 9, (4, 1), dtype)])
    yield Case("mod_f32", "Mod", 13, [x[2:6], np.array([2, -3, 0.25, 3], np.float32)], {"fmod": 1})
    yield Case("pow_f32_i64", "Pow", 13, [f32(3, 4), ints(-2, 4, (4,))])
    yield Case("pow_f32_f64", "Pow", 13, [np.abs(f32(3)), np.array([0.5, 2, -1])])
    yield Case("pow_f32_i32_odd", "Pow", 13, [np.array([-1, -1], np.float32),
                                              np.array([16777217, 16777216], np.int32)],
               expected=[np.array([-1, 1], np.float32)])
    yield Case("max_nan", "Max", 12, [x, x[::-1].copy()])
    yield Case("min_8", "Min", 8, [f32(2, 1), f32(3), f32(1, 1)])
    yield Case("sum_8", "Sum", 8, [f32(2, 1), f32(3), f32(1, 1)])
    yield Case("mean_13", "Mean", 13, [f32(2, 1), f32(3), f32(1, 1)])
    yield Case("mean_one", "Mean", 8, [f32(2, 1)])
    yield Case("prelu_7", "PRelu", 7, [f32(2, 3, 4), f32(3, 1)])
    yield Case("isinf_negative", "IsInf", 10, [x], {"detect_positive": 0})
    yield Case("isinf_positive", "IsInf", 10, [x], {"detect_negative": 0})
    yield Case("isinf_none", "IsInf", 20, [x], {"detect_negative": 0, "detect_positive": 0},
               expected=[np.zeros(8, bool)])
    yield Case("round_even", "Round", 11, [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49],
                                                    np.float32)])
    yield Case("sign_nan", "Sign", 13, [x], expected=[np.sign(x)])
    yield Case("erf_wide", "Erf", 13, [np.linspace(-6, 6, 49, dtype=np.float32)])
    yield Case("equal_bool", "Equal", 7, [np.array([True, False]), np.array([[True], [False]])])
    yield Case("where_strings", "Where", 9, [np.array([True, False]), np.array(["a", "b"], object),
                                             np.array("z", object)])
    x = np.array([-128, -7, -1, 0, 5, 127], np.int8)
    for name, want in (("RIGHT", [-16, -1, -1, 0, 0, 15]), ("LEFT", [0, -56, -8, 0, 40, -8])):
        yield Case(f"bit_shift_{name.lower()}", "BitShift", 28, [x, scalar(3, np.int8)],
                   {"direction": name}, expected=[np.array(want, np.int8)])
    far = np.array([8, -1, 100, 9, -128, 127], np.int8)
    yield Case("bit_shift_far", "BitShift", 28, [x, far], {"direction": "RIGHT"},
               expected=[np.array([-1, -1, -1, 0, 0, 0], np.int8)])
    yield Case("cast_saturates_not", "Cast", 13, [np.array([300, -1, 255], np.int32)], {"to": 2})
    yield Case("cast_text", "Cast", 13, [np.array(["1.5", "-3", "1e3", "INF", "NaN"], object)],
               {"to": 1})
    yield Case("cast_to_bool", "Cast", 9, [np.array([0.0, -0.0, 0.1, NAN], np.float32)], {"to": 9})


def activations():
    """Softmaxes that see a matrix before version 13, and extreme operands."""
    x = np.array([-1e4, -90, -20, -1, -0.0, 0.1, 3, 30, 95, 1e4], np.float32)
    for op in ("Softplus", "Softsign", "Elu", "Selu", "HardSigmoid", "LeakyRelu",
               "ThresholdedRelu", "Sigmoid", "Tanh", "Celu"):
        yield Case(f"{op.lower()}_extreme", op, 12, [x])
    yield Case("mish_extreme", "Mish", 18, [x])
    yield Case("celu_negative_alpha", "Celu", 12, [f32(7)], {"alpha": 2.5})
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (7, 11, 13):
            for axis in (0, 1, 2) if opset < 11 else (0, 1, -1, -3):
                yield Case(f"{op.lower()}_{opset}_axis_{axis}", op, opset, [f32(2, 3, 4)],
                           {"axis": axis})
            yield Case(f"{op.lower()}_{opset}", op, opset, [f32(2, 3, 4)])
        yield Case(f"{op.lower()}_large", op, 13, [np.array([[1e4, 1e4 - 1, -1e4]], np.float32)])
        if op != "Hardmax":
            yield Case(f"{op.lower()}_empty", op, 13, [f32(0, 3)])
    for bias, lambd in ((0.0, 0.5), (1.5, 1.0)):
        yield Case(f"shrink_{lambd}", "Shrink", 9, [f32(9) * 2], {"bias": bias, "lambd": lambd})


def reductions():
    """Axes as attribute and input, empty ones, integers, empty tensors."""
    ops = ("Sum", "Prod", "Max", "Min", "Mean", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
    for op in ops:
        x = np.abs(f32(2, 3, 4)) + 0.1 if op == "LogSum" else f32(2, 3, 4)
        old, new = (11, 13) if op == "Sum" else (13, 18)
        name = f"reduce_{op.lower()}"
        for opset in (7, old):
            yield Case(f"{name}_{opset}_all", f"Reduce{op}", opset, [x])
            yield Case(f"{name}_{opset}", f"Reduce{op}", opset, [x],
                       {"axes": [2, 0], "keepdims": 0})
        yield Case(f"{name}_{old}_negative", f"Reduce{op}", old, [x], {"axes": [-2]})
        for keep in (0, 1):
            at = {"keepdims": keep}
            yield Case(f"{name}_{new}_keep_{keep}", f"Reduce{op}", new, [x, i64(-1, 0)], at, (1,))
            yield Case(f"{name}_{new}_none_{keep}", f"Reduce{op}", new, [x], at)
            yield Case(f"{name}_{new}_empty_axes_{keep}", f"Reduce{op}", new, [x, i64()], at, (1,))
            at = at | {"noop_with_empty_axes": 1}
            yield Case(f"{name}_{new}_noop_{keep}", f"Reduce{op}", new, [x, i64()], at, (1,),
                       oracle="reference")
        yield Case(f"{name}_scalar", f"Reduce{op}", new, [scalar(0.5, np.float32)])
        if op not in ("LogSum", "LogSumExp"):
            yield Case(f"{name}_int", f"Reduce{op}", new, [ints(-9, 9, (3, 4), np.int32), i64(1)],
                       {}, (1,))
        if op != "Mean":
            yield Case(f"{name}_no_elements", f"Reduce{op}", 18 if op != "Sum" else 13,
                       [f32(2, 0, 3), i64(1)], {}, (1,), oracle="reference")
    x = np.array([[INF, 1], [-INF, -INF], [-INF, 2], [900, 901]], np.float32)
    yield Case("reduce_logsumexp_infinite", "ReduceLogSumExp", 18, [x, i64(1)], {}, (1,),
               expected=[np.array([[INF], [-INF], [2], [901.3132617]], np.float32)])
    yield Case("reduce_max_nan", "ReduceMax", 18, [np.array([1, NAN, 3], np.float32)],
               oracle="reference")
    yield Case("reduce_max_bool", "ReduceMax", 20, [np.array([[True, False], [False, False]]),
                                                    i64(1)], {}, (1,))


def axes():
    """Squeeze and Unsqueeze, whose axes moved from an attribute to an input."""
    x = f32(1, 3, 1, 4)
    for opset in (7, 11):
        yield Case(f"squeeze_{opset}", "Squeeze", opset, [x], {"axes": [2, 0]})
        yield Case(f"squeeze_{opset}_all", "Squeeze", opset, [x])
        yield Case(f"unsqueeze_{opset}", "Unsqueeze", opset, [x[0, :, 0]], {"axes": [3, 0]})
    yield Case("squeeze_11_negative", "Squeeze", 11, [x], {"axes": [-2]})
    yield Case("unsqueeze_11_negative", "Unsqueeze", 11, [x[0, :, 0]], {"axes": [-1, 1]})
    for opset in (13, 21):
        yield Case(f"squeeze_{opset}", "Squeeze", opset, [x, i64(-2, 0)], {}, (1,))
        yield Case(f"squeeze_{opset}_all", "Squeeze", opset, [x])
        yield Case(f"unsqueeze_{opset}", "Unsqueeze", opset, [x[0, :, 0], i64(-1, 0)], {}, (1,))
        yield Case(f"unsqueeze_{opset}_scalar", "Unsqueeze", opset,
                   [scalar(3, np.float32), i64(0, 1)], {}, (1,))
    for axis in (0, 1, 2, 3):
        yield Case(f"flatten_9_axis_{axis}", "Flatten", 9, [f32(2, 3, 4)], {"axis": axis})
    yield Case("flatten_negative", "Flatten", 13, [f32(2, 3, 4)], {"axis": -1})
    yield Case("flatten_empty", "Flatten", 13, [f32(0, 3, 4)], {"axis": 2})


def slices():
    """Slice before and after its bounds became inputs."""
    x = f32(5, 6, 7)
    for opset in (7, 9):
        yield Case(f"slice_{opset}", "Slice", opset, [x], {"starts": [1, -3], "ends": [4, 1000],
                                                          "axes": [2, 0]})
        yield Case(f"slice_{opset}_no_axes", "Slice", opset, [x], {"starts": [1], "ends": [-1]})
    big = np.iinfo(np.int64)
    forms = {
        "plain": (i64(1, 0), i64(3, 100), None, None),
        "axes": (i64(1, -2), i64(100, -1), i64(-1, 0), None),
        "steps": (i64(-1, 0), i64(-100, 7), i64(2, 1), i64(-2, 3)),
        "reverse": (i64(-1), i64(big.min), i64(1), i64(-1)),
        "huge": (i64(0), i64(big.max), i64(1), i64(big.max)),
        "empty": (i64(4), i64(2), i64(0), i64(1)),
        "int32": tuple(np.array(v, np.int32) for v in ([3], [-9], [1], [-1])),
    }
    for name, bounds in forms.items():
        for opset in (10, 13):
            yield Case(f"slice_{opset}_{name}", "Slice", opset, [x, *bounds], {},
                       tuple(i + 1 for i, b in enumerate(bounds) if b is not None))


def pads():
    """All modes, negative pads, chosen axes."""
    x = f32(3, 4)
    for mode in ("constant", "reflect", "edge"):
        yield Case(f"pad_7_{mode}", "Pad", 7, [x], {"pads": [0, 2, 1, 1], "mode": mode})
    yield Case("pad_7_value", "Pad", 7, [x], {"pads": [0, -1, 1, 2], "value": 1.5})
    for opset in (11, 13, 18, 19, 21):
        for mode in ("constant", "reflect", "edge") + (("wrap",) if opset >= 19 else ()):
            yield Case(f"pad_{opset}_{mode}", "Pad", opset, [x, i64(2, 0, 1, 3)], {"mode": mode},
                       (1,))
        yield Case(f"pad_{opset}_value", "Pad", opset,
                   [x, i64(-1, 1, 1, -2), scalar(2.5, np.float32)], {}, (1, 2))
        if opset >= 18:
            yield Case(f"pad_{opset}_axes", "Pad", opset, [x, i64(1, 2), None, i64(-1)],
                       {"mode": "reflect"}, (1, 3))
            yield Case(f"pad_{opset}_axes_order", "Pad", opset,
                       [x, i64(1, 2, 3, 0), None, np.array([1, 0], np.int32)], {}, (1, 3))
    yield Case("pad_bool", "Pad", 13, [x > 0, i64(1, 0, 0, 1)], {}, (1,))


def splits():
    """Split in all versions, Concat."""
    x = f32(6, 4)
    for opset in (7, 11):
        yield Case(f"split_{opset}", "Split", opset, [x], {"axis": 0, "split": [1, 3, 2]},
                   outputs=3)
        yield Case(f"split_{opset}_even", "Split", opset, [x], {"axis": 1}, outputs=2)
    for opset in (13, 18):
        yield Case(f"split_{opset}", "Split", opset, [x, i64(1, 0, 5)], {"axis": -2}, (1,), 3)
    yield Case("split_13_even", "Split", 13, [x], {}, outputs=3)
    for parts in (1, 4, 5):
        yield Case(f"split_18_uneven_{parts}", "Split", 18, [f32(2, 7)],
                   {"axis": 1, "num_outputs": parts}, outputs=parts)
    yield Case("concat_negative", "Concat", 11, [x, f32(6, 0), f32(6, 3)], {"axis": -1})
    yield Case("concat_one", "Concat", 13, [x], {"axis": 0})


def shapes():
    """Reshape's 0 and -1, Expand, Tile, Shape with bounds, filled arrays."""
    x = f32(2, 3, 4)
    for name, sizes in {"copy": i64(0, -1), "all_copy": i64(0, 0, 0), "rest": i64(-1, 2, 2),
                        "more": i64(0, 0, 2, 2), "same": i64(4, 3, 2), "flat": i64(-1)}.items():
        for opset in (7, 14):
            yield Case(f"reshape_{opset}_{name}", "Reshape", opset, [x, sizes], {}, (1,))
    empty = f32(0, 3)
    yield Case("reshape_allowzero", "Reshape", 14, [empty, i64(3, 0)], {"allowzero": 1}, (1,))
    yield Case("reshape_empty_copy", "Reshape", 14, [empty, i64(0, 3, 1)], {}, (1,))
    yield Case("reshape_scalar", "Reshape", 13, [f32(1, 1), i64()], {}, (1,))
    for name, sizes in {"same": i64(2, 3, 4), "ones": i64(1, 1, 1), "more": i64(2, 1, 3, 1),
                        "none": i64(), "zero": i64(0, 1, 1)}.items():
        yield Case(f"expand_{name}", "Expand", 13, [f32(1, 3, 1), sizes], {}, (1,))
    yield Case("tile", "Tile", 13, [x, i64(2, 1, 3)], {}, (1,))
    yield Case("tile_none", "Tile", 6, [x, i64(2, 0, 1)], {}, (1,))
    for start, end in ((1, None), (-2, None), (0, -1), (-100, 100), (2, 1)):
        at = {"start": start} | ({"end": end} if end is not None else {})
        yield Case(f"shape_{start}_{end}", "Shape", 15, [x], at)
    yield Case("size", "Size", 13, [x])
    yield Case("size_scalar", "Size", 13, [scalar(1, np.float32)])
    yield Case("constant_of_shape", "ConstantOfShape", 9, [i64(2, 0, 3)], {}, (0,))
    yield Case("constant_of_shape_scalar", "ConstantOfShape", 9, [i64()], {}, (0,))
    for a, b, c in ((0, 7, 2), (5, -3, -3), (2, 2, 1), (3, 1, 1)):
        yield Case(f"range_{a}_{b}_{c}", "Range", 11, [scalar(v) for v in (a, b, c)], {},
                   (0, 1, 2))
    yield Case("range_f32", "Range", 11, [scalar(v, np.float32) for v in (0.5, 2.05, 0.3)], {},
               (0, 1, 2))
    for k in (-2, 0, 1):
        yield Case(f"eye_like_{k}", "EyeLike", 9, [f32(3, 4)], {"k": k, "dtype": 7})
    for mode in ("DCR", "CRD"):
        yield Case(f"depth_to_space_{mode}", "DepthToSpace", 11, [f32(2, 12, 1, 3)],
                   {"blocksize": 2, "mode": mode})
    yield Case("depth_to_space_7", "DepthToSpace", 7, [f32(2, 8, 2, 3)], {"blocksize": 2})
    yield Case("space_to_depth_7", "SpaceToDepth", 7, [f32(2, 3, 4, 6)], {"blocksize": 2})
    for upper in (0, 1):
        for k in (-2, 0, 5):
            yield Case(f"trilu_{upper}_{k}", "Trilu", 14, [f32(2, 3, 4), scalar(k)],
                       {"upper": upper}, (1,))
    yield Case("trilu_none", "Trilu", 14, [ints(0, 9, (3, 3))])


def indexing():
    """Gather and scatter with negative indices, selections."""
    x = f32(3, 4, 5)
    for opset in (7, 11):
        yield Case(f"gather_{opset}", "Gather", opset, [x, ints(0, 4, (2, 2))], {"axis": 1}, (1,))
    yield Case("gather_negative", "Gather", 13, [x, np.array([-1, 0], np.int32)], {"axis": -1},
               (1,))
    yield Case("gather_scalar", "Gather", 13, [x, scalar(-2)], {}, (1,))
    yield Case("gather_elements", "GatherElements", 13, [x, ints(-4, 4, (2, 3, 5))], {"axis": 1},
               (1,))
    yield Case("gather_nd", "GatherND", 11, [x, ints(0, 3, (2, 2))], {}, (1,))
    yield Case("gather_nd_batch", "GatherND", 12, [x, ints(-4, 4, (3, 2, 1))], {"batch_dims": 1},
               (1,))
    yield Case("gather_nd_batch_2", "GatherND", 13, [x, ints(-5, 5, (3, 4, 1))],
               {"batch_dims": 2}, (1,))
    yield Case("scatter_9", "Scatter", 9, [x, ints(0, 3, (2, 2, 3)), f32(2, 2, 3)], {"axis": 0},
               (1,))
    spots = np.argsort(f32(3, 4, 2), 1).astype(np.int64)
    yield Case("scatter_elements_11", "ScatterElements", 11, [x, spots - 4, f32(3, 4, 2)],
               {"axis": 1}, (1,))
    for reduction, opset in (("add", 16), ("mul", 16), ("max", 18), ("min", 18)):
        yield Case(f"scatter_elements_{reduction}", "ScatterElements", opset,
                   [x, ints(-3, 3, (4, 2, 5)), f32(4, 2, 5)], {"reduction": reduction}, (1,))
        yield Case(f"scatter_nd_{reduction}", "ScatterND", opset,
                   [x, ints(-3, 3, (6, 2)), f32(6, 5)], {"reduction": reduction}, (1,))
    yield Case("scatter_nd_11", "ScatterND", 11, [x, i64(2, 0)[:, None], f32(2, 4, 5)], {}, (1,))
    yield Case("scatter_none", "ScatterElements", 13, [x, ints(0, 1, (0, 4, 5)), f32(0, 4, 5)],
               {}, (1,))
    yield Case("nonzero", "NonZero", 9, [ints(0, 2, (3, 4))])
    yield Case("nonzero_none", "NonZero", 13, [np.zeros((2, 3), np.float32)])
    keep = np.array([False, True, True])
    yield Case("compress", "Compress", 9, [x, keep], {"axis": 1}, (1,))
    yield Case("compress_negative", "Compress", 11, [x, keep], {"axis": -1}, (1,))
    yield Case("compress_flat", "Compress", 11, [x, keep], {}, (1,))
    for opset in (9, 11):
        yield Case(f"one_hot_{opset}", "OneHot", opset,
                   [ints(0, 5, (2, 3)), scalar(5), np.array([-1, 3], np.float32)], {"axis": 1},
                   (1, 2))
    yield Case("one_hot_outside", "OneHot", 11,
               [i64(-6, -5, 4, 5), i64(5), np.array([0, 1], np.float32)], {}, (1, 2),
               expected=[np.eye(6, 5, dtype=np.float32)[[5, 0, 4, 5]]])
    for time in (0, 1):
        yield Case(f"reverse_sequence_{time}", "ReverseSequence", 10,
                   [f32(4, 4, 2), i64(1, 4, 0, 3)], {"time_axis": time, "batch_axis": 1 - time},
                   (1,), oracle="reference" if time == 0 else None)


def order():
    """TopK before k became an input, ties, running sums along computed axes."""
    x = f32(3, 6)
    yield Case("top_k_7", "TopK", 7, [x], {"k": 2, "axis": 0}, outputs=2)
    yield Case("top_k_10", "TopK", 10, [x, i64(4)], {}, (1,), 2)
    ties = np.array([[2, 1, 2, 0, 1, 2]], np.float32)
    for largest in (0, 1):
        yield Case(f"top_k_ties_{largest}", "TopK", 11, [ties, i64(4)], {"largest": largest}, (1,),
                   2)
        yield Case(f"top_k_int_{largest}", "TopK", 11, [ints(-9, 9, (4, 5)), i64(3)],
                   {"largest": largest, "axis": -2}, (1,), 2)
    yield Case("top_k_none", "TopK", 11, [x, i64(0)], {}, (1,), 2)
    for op in ("ArgMax", "ArgMin"):
        yield Case(f"{op.lower()}_7", op, 7, [ties], {"axis": 1, "keepdims": 0})
        yield Case(f"{op.lower()}_11", op, 11, [x], {"axis": -2})
        yield Case(f"{op.lower()}_last", op, 12, [ties], {"axis": 1, "select_last_index": 1})
    for exclusive in (0, 1):
        for reverse in (0, 1):
            for axis in (1, -3):
                yield Case(f"cum_sum_{exclusive}_{reverse}_{axis}", "CumSum", 14,
                           [f32(2, 3, 4), scalar(axis, np.int32)],
                           {"exclusive": exclusive, "reverse": reverse}, (1,))
    for flag in (0, 1):
        yield Case(f"unique_{flag}", "Unique", 11, [ints(0, 4, (9,))], {"sorted": flag}, (), 4)
        yield Case(f"unique_axis_{flag}", "Unique", 11, [ints(0, 2, (2, 6))],
                   {"sorted": flag, "axis": 1}, (), 4, oracle="ort")


def recurrent():
    """LSTM, GRU and RNN in all directions, with lengths, peepholes and other functions."""
    steps, batch, features, hidden = 5, 3, 4, 2
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}
    lens = np.array([5, 2, 3], np.int32)
    for op, n in gates.items():
        for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            x, w = f32(steps, batch, features), f32(d, n * hidden, features)
            r, b = f32(d, n * hidden, hidden), f32(d, 2 * n * hidden)
            h = f32(d, batch, hidden)
            c = [f32(d, batch, hidden)] if op == "LSTM" else []
            outputs = 3 if op == "LSTM" else 2
            at = {"hidden_size": hidden, "direction": direction}
            name = f"{op.lower()}_{direction}"
            weights = (1, 2, 3)
            yield Case(name, op, 14, [x, w, r], at, weights, outputs)
            yield Case(f"{name}_lens", op, 14, [x, w, r, b, lens, h, *c], at, weights, outputs)
            yield Case(f"{name}_7", op, 7, [x, w, r, b, None, h, *c], at, weights, outputs)
            if op == "GRU":
                yield Case(f"{name}_linear", op, 14, [x, w, r, b, lens, h],
                           at | {"linear_before_reset": 1}, weights, outputs)
            if op == "LSTM":
                p = f32(d, 3 * hidden)
                yield Case(f"{name}_peepholes", op, 14, [x, w, r, b, lens, h, *c, p], at,
                           (*weights, 7), outputs)
                yield Case(f"{name}_coupled", op, 14, [x, w, r, b, None, None, None, p],
                           at | {"input_forget": 1}, (*weights, 7), outputs)
        at = {"hidden_size": hidden, "direction": "bidirectional"}
        d, states = 2, 2 if op == "LSTM" else 1
        x, w = f32(steps, batch, features), f32(d, n * hidden, features)
        r, b = f32(d, n * hidden, hidden), f32(d, 2 * n * hidden)
        functions = {"LSTM": ["HardSigmoid", "Softsign", "Elu"],
                     "GRU": ["HardSigmoid", "LeakyRelu"], "RNN": ["ScaledTanh"]}[op]
        yield Case(f"{op.lower()}_functions", op, 14, [x, w, r, b],
                   at | {"activations": functions + functions,
                         "activation_alpha": [0.3, 0.6, 0.3, 0.6], "activation_beta": [0.4, 0.4]},
                   (1, 2, 3), 1 + states)
        c = [None, None, f32(d, batch, hidden) * 4] if op == "LSTM" else []
        yield Case(f"{op.lower()}_clip", op, 14, [x * 3, w, r, b, *c], at | {"clip": 0.5},
                   (1, 2, 3), 1 + states)
        # ONNX Runtime has no kernel for layout 1: the same numbers, batch first.
        yield Case(f"{op.lower()}_layout", op, 14, [x.transpose(1, 0, 2).copy(), w[:1], r[:1]],
                   {"hidden_size": hidden, "layout": 1}, (1, 2), 1 + states, oracle="reference")


def contractions():
    """MatMul's ranks, Gemm's forms, Einsum."""
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((4, 2, 3), (3, 5)),
                 ((4, 1, 2, 3), (5, 3, 2)), ((3,), (2, 3, 4)), ((2, 3, 4), (4,)),
                 ((2, 0), (0, 3))):
        name = "_x_".join("_".join(map(str, s)) for s in (a, b))
        yield Case(f"matmul_{name}", "MatMul", 13, [f32(*a), f32(*b)], {}, (1,))
    yield Case("matmul_int", "MatMul", 9, [ints(-9, 9, (2, 3), np.int32),
                                           ints(-9, 9, (3, 2), np.int32)])
    for opset in (7, 9, 11):
        yield Case(f"gemm_{opset}", "Gemm", opset, [f32(3, 2), f32(4, 3), f32(4)],
                   {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}, (1, 2))
    yield Case("gemm_no_c", "Gemm", 13, [f32(2, 3), f32(3, 4)], {"alpha": 1.5}, (1,))
    yield Case("gemm_column", "Gemm", 13, [f32(2, 3), f32(3, 4), f32(2, 1)], {}, (1, 2))
    equations = {
        "ij,jk->ik": ((2, 3), (3, 4)), "ij,jk": ((2, 3), (3, 4)), "ba": ((2, 3),),
        "ii->i": ((3, 3),), "ii": ((3, 3),), "iij->ji": ((3, 3, 2),), "i,j->ij": ((2,), (3,)),
        "...ij,...jk->...ik": ((2, 1, 2, 3), (4, 3, 2)), "...i->...": ((2, 3, 4),),
        "bij,bjk,bk->bi": ((2, 3, 4), (2, 4, 5), (2, 5)), "i,i,i->": ((3,), (3,), (3,)),
        "bhwc,hkc->bhwk": ((2, 3, 4, 5), (3, 6, 5)), "ij->": ((2, 3),), "ijk->kji": ((2, 3, 4),),
        "Ab,bA->A": ((2, 3), (3, 2)), "i...,j...->...ij": ((2, 3), (4, 3)),
        "ab,cd,bc->ad": ((2, 3), (4, 5), (3, 4)),
    }
    for n, (equation, sizes) in enumerate(equations.items()):
        yield Case(f"einsum_{n}", "Einsum", 12, [f32(*s) for s in sizes], {"equation": equation},
                   oracle="reference")
    yield Case("einsum_int", "Einsum", 12, [ints(-9, 9, (2, 3)), ints(-9, 9, (3, 2))],
               {"equation": "ij, jk -> ki"}, oracle="reference")
    for n in (1, 2, 5):
        yield Case(f"det_{n}", "Det", 11, [f32(2, 3, n, n)])
    singular = np.array([[0, 1, 2], [0, 3, 4], [0, 5, 6]], np.float32)
    yield Case("det_singular", "Det", 11, [singular])
    yield Case("det_swap", "Det", 11, [np.array([[0, 2], [3, 4]], np.float32)])


def losses():
    """Weights, ignored labels, reductions."""
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        for reduction in ("none", "sum", "mean"):
            labels = ints(0, 4, (3, 2))
            labels[1, 1] = -1
            at = {"reduction": reduction, "ignore_index": -1}
            name = f"{op.lower()[:8]}_{reduction}"
            yield Case(f"{name}_weighted", op, 13, [f32(3, 4, 2), labels, np.abs(f32(4))], at)
            yield Case(f"{name}_ignored", op, 13, [f32(3, 4, 2), labels], at)
            yield Case(f"{name}_plain", op, 12, [f32(3, 4), ints(0, 4, (3,))],
                       {"reduction": reduction})
