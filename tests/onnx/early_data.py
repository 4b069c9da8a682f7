"""Cases for the definitions of operators before version 7.

ONNX Runtime has kernels since version 7 only, and ONNX's converter and evaluator miss half of the
old forms. So each case has a twin: the same values as a node of a later version, which ONNX Runtime
runs."""
import numpy as np

from opset_data import Case, f32, i64, ints, scalar


def cases():
    """All cases."""
    for family in (unary, broadcasts, variadic, shapes, pools, normalizations, recurrent, unchanged):
        yield from family()


def early(name, op, opset, inputs, attributes, twin, parameters=(), outputs=1):
    """A case whose expected outputs are those of `twin`: (op, opset, inputs, attributes)."""
    op2, opset2, inputs2, attributes2 = twin
    later = Case(name, op2, opset2, inputs2, attributes2, outputs=outputs)
    return Case(f"{name}_{opset}", op, opset, inputs, attributes, parameters, outputs, twin=later)


def same(op, opset, inputs, attributes=None, later=None, **rest):
    """A node that means the same in version 13; `consumed_inputs` says which buffers may go."""
    attributes = attributes or {}
    old = attributes | ({"consumed_inputs": [0] * len(inputs)} if opset < 6 else {})
    twin = (op, 13, inputs, attributes if later is None else later)
    return early(op.lower(), op, opset, inputs, old, twin, **rest)


def unary():
    """Elementwise operators: version 1 has `consumed_inputs`."""
    x = f32(2, 3, 4)
    for op in ("Abs", "Ceil", "Exp", "Floor", "Neg", "Reciprocal", "Relu", "Sigmoid", "Tanh",
               "Elu", "HardSigmoid", "LeakyRelu"):
        for opset in (1, 6):
            yield same(op, opset, [x])
    for op in ("Log", "Sqrt"):
        for opset in (1, 6):
            yield same(op, opset, [np.abs(x) + 0.1])
    yield early("elu_alpha", "Elu", 1, [x], {"alpha": 0.3}, ("Elu", 6, [x], {"alpha": 0.3}))
    # The defaults of version 1 have fewer digits.
    yield early("selu", "Selu", 1, [x], {}, ("Selu", 6, [x], {"alpha": 1.6732, "gamma": 1.0507}))
    yield early("selu", "Selu", 6, [x], {}, ("Selu", 6, [x], {}))
    wide = np.array([-np.inf, -3, 0.25, 7, np.inf], np.float32)
    low, high = (scalar(v, np.float32) for v in (-0.5, 0.5))
    for opset in (1, 6):
        yield early("clip", "Clip", opset, [wide], {"min": -0.5, "max": 0.5},
                    ("Clip", 13, [wide, low, high], {}))
    # Without a bound version 1 keeps infinities, version 6 cuts them to the largest number.
    yield Case("clip_low_1", "Clip", 1, [wide], {"min": -0.5}, expected=[np.maximum(wide, low)])
    yield early("clip_low", "Clip", 6, [wide], {"min": -0.5}, ("Clip", 10, [wide], {"min": -0.5}))
    for name, to in (("INT32", 6), ("DOUBLE", 11), ("BOOL", 9), ("FLOAT16", 10), ("INT64", 7)):
        yield early(f"cast_{name.lower()}", "Cast", 1, [x * 3], {"to": name},
                    ("Cast", 13, [x * 3], {"to": to}))
    yield early("cast", "Cast", 6, [x * 3], {"to": 6}, ("Cast", 13, [x * 3], {"to": 6}))
    for opset in (1, 6):
        at = {"consumed_inputs": [0, 0]} if opset == 1 else {}
        slope = f32(3)
        yield early("prelu", "PRelu", opset, [x, slope], at, ("PRelu", 9, [x, slope[:, None]], {}))
        yield early("prelu_one", "PRelu", opset, [x, slope[:1]], at,
                    ("PRelu", 9, [x, slope[:1]], {}))
    for opset in (1, 6):
        yield early("dropout", "Dropout", opset, [x], {"is_test": 1, "ratio": 0.3},
                    ("Identity", 13, [x], {}))


def broadcasts():
    """Binary operators: `broadcast` and `axis`, the place of the second input's first axis."""
    a = f32(2, 3, 4, 5)
    forms = {"none": ((2, 3, 4, 5), None), "scalar": ((), None), "one": ((1,), None),
             "last": ((5,), None), "tail": ((4, 5), None), "axis_1": ((3, 4), 1),
             "axis_0": ((2,), 0), "axis_2": ((4, 5), 2), "negative": ((4,), -2)}
    for op, opsets in {"Add": (1, 6), "Sub": (1, 6), "Mul": (1, 6), "Div": (1, 6), "Pow": (1,),
                       "And": (1,), "Or": (1,), "Xor": (1,), "Equal": (1,), "Greater": (1,),
                       "Less": (1,)}.items():
        for name, (sizes, axis) in forms.items():
            b = f32(*sizes) if sizes else scalar(0.7, np.float32)
            x = a
            if op == "Pow":
                x = np.abs(a)
            elif op in ("And", "Or", "Xor"):
                x, b = a > 0, np.asarray(b > 0)
            elif op == "Equal":
                x, b = (a * 2).astype(np.int32), np.asarray((b * 2).astype(np.int32))
            behind = 0 if axis is None else 4 - (axis % 4) - b.ndim
            later = b.reshape(b.shape + (1,) * behind)
            at = {} if name == "none" else {"broadcast": 1}
            at |= {} if axis is None else {"axis": axis}
            for opset in opsets:
                yield early(f"{op.lower()}_{name}", op, opset, [x, b], at, (op, 13, [x, later], {}))
    x, y = f32(3, 2), f32(4, 3)
    for opset in (1, 6):
        for name, c in {"full": f32(2, 4), "row": f32(4), "column": f32(2, 1),
                        "scalar": f32(1)}.items():
            at = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
            old = at if name == "full" else at | {"broadcast": 1}
            yield early(f"gemm_{name}", "Gemm", opset, [x, y, c], old, ("Gemm", 13, [x, y, c], at),
                        (1, 2))


def variadic():
    """Max, Min, Mean and Sum of arrays of one shape."""
    parts = [f32(2, 3), f32(2, 3), f32(2, 3)]
    for op in ("Max", "Min", "Mean", "Sum"):
        for opset in (1, 6):
            yield same(op, opset, parts)


def shapes():
    """Parameters that were attributes, or inputs, and became the other."""
    x = f32(2, 3, 4)
    for name, sizes in {"copy": [0, -1], "flat": [-1], "more": [3, 2, 2, 2]}.items():
        at = {"shape": sizes}
        yield early(f"reshape_{name}", "Reshape", 1, [x], at,
                    ("Reshape", 13, [x, i64(*sizes)], {}))
        yield early(f"reshape_{name}", "Reshape", 5, [x, i64(*sizes)], {},
                    ("Reshape", 13, [x, i64(*sizes)], {}), (1,))
    for mode in ("constant", "reflect", "edge"):
        pads = [0, 1, 2, 0, 0, 1]
        for opset, key in ((1, "paddings"), (2, "pads")):
            yield early(f"pad_{mode}", "Pad", opset, [x], {key: pads, "mode": mode, "value": 0.5},
                        ("Pad", 10, [x], {"pads": pads, "mode": mode, "value": 0.5}))
    y = f32(2, 2, 4)
    for opset in (1, 4):
        at = {} if opset == 1 else {"axis": 1}
        yield early("concat", "Concat", opset, [x, y], at, ("Concat", 13, [x, y], {"axis": 1}))
    for opset in (1, 2):
        yield early("split", "Split", opset, [x], {"axis": 2, "split": [1, 3]},
                    ("Split", 11, [x], {"axis": 2, "split": [1, 3]}), outputs=2)
        yield early("split_even", "Split", opset, [x], {"axis": 2},
                    ("Split", 11, [x], {"axis": 2}), outputs=2)
    # The lengths are of the split array's type.
    yield early("split_input", "Split", 1, [x, np.array([1, 3], np.float32)], {"axis": 2},
                ("Split", 11, [x], {"axis": 2, "split": [1, 3]}), (1,), 2)
    for axis in (0, 1, -1):
        repeats = np.ones(3, np.int64)
        repeats[axis] = 3
        count, place = scalar(3, np.float32), scalar(axis, np.float32)
        yield early(f"tile_{axis}", "Tile", 1, [x, count, place], {},
                    ("Tile", 13, [x, repeats], {}), (1, 2))
    yield early("tile", "Tile", 6, [x, i64(1, 2, 3)], {}, ("Tile", 13, [x, i64(1, 2, 3)], {}), (1,))
    image = f32(1, 2, 3, 4)
    for mode, later in (("nearest", "nearest"), ("bilinear", "linear")):
        yield early(f"upsample_{mode}", "Upsample", 1, [image],
                    {"mode": mode, "height_scale": 2.0, "width_scale": 1.5},
                    ("Upsample", 7, [image], {"mode": later, "scales": [1.0, 1.0, 2.0, 1.5]}))
    yield early("slice", "Slice", 1, [x], {"starts": [1, -3], "ends": [2, 1000], "axes": [0, 2]},
                ("Slice", 9, [x], {"starts": [1, -3], "ends": [2, 1000], "axes": [0, 2]}))
    yield early("top_k", "TopK", 1, [x], {"k": 2}, ("TopK", 11, [x, i64(2)], {}), outputs=2)


def pools():
    """Average pools without padding in the count, norms with a float exponent."""
    x = f32(1, 2, 5, 6)
    at = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    yield early("average_pool", "AveragePool", 1, [x], at, ("AveragePool", 11, [x], at))
    same_size = {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}
    yield early("average_pool_same", "AveragePool", 1, [x], same_size,
                ("AveragePool", 11, [x], same_size))
    for p in (1, 2, 3):
        yield early(f"lp_pool_{p}", "LpPool", 1, [x], at | {"p": float(p)},
                    ("LpPool", 11, [x], at | {"p": p}))
        yield early(f"lp_pool_{p}", "LpPool", 2, [x], at | {"p": p},
                    ("LpPool", 11, [x], at | {"p": p}))
        yield early(f"global_lp_pool_{p}", "GlobalLpPool", 1, [x], {"p": float(p)},
                    ("GlobalLpPool", 2, [x], {"p": p}))
        yield early(f"global_lp_pool_{p}", "GlobalLpPool", 2, [x], {"p": p},
                    ("GlobalLpPool", 2, [x], {"p": p}))


def normalizations():
    """BatchNormalization with `is_test`, and in training without it."""
    x, c = f32(2, 3, 4, 5), 3
    parts = [x, f32(c), f32(c), f32(c), np.abs(f32(c)) + 0.5]
    for opset in (1, 6):
        old = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
        yield early("batch_normalization", "BatchNormalization", opset, parts,
                    old | {"is_test": 1, "epsilon": 1e-3},
                    ("BatchNormalization", 9, parts, {"epsilon": 1e-3}), (1, 2, 3, 4))
        yield early("batch_normalization_training", "BatchNormalization", opset, parts,
                    old | {"momentum": 0.7},
                    ("BatchNormalization", 15, parts, {"momentum": 0.7, "training_mode": 1}),
                    outputs=1)
        yield early("instance_normalization", "InstanceNormalization", opset, parts[:3], old,
                    ("InstanceNormalization", 6, parts[:3], {}), (1, 2))


def recurrent():
    """Recurrent layers whose outputs `output_sequence` announces."""
    steps, batch, features, hidden = 4, 2, 3, 2
    gates = {"LSTM": (4, (1,)), "GRU": (3, (1, 3)), "RNN": (1, (1,))}
    for op, (n, opsets) in gates.items():
        for direction, d in (("forward", 1), ("bidirectional", 2)):
            parts = [f32(steps, batch, features), f32(d, n * hidden, features),
                     f32(d, n * hidden, hidden), f32(d, 2 * n * hidden)]
            at = {"hidden_size": hidden, "direction": direction}
            for opset in opsets:
                more = {"linear_before_reset": 1} if opset == 3 else {}
                outputs = 3 if op == "LSTM" else 2
                yield early(f"{op.lower()}_{direction}", op, opset, parts,
                            at | more | {"output_sequence": 1}, (op, 7, parts, at | more),
                            (1, 2, 3), outputs)


def unchanged():
    """Operators of version 1 whose later definitions, up to 7, are the same."""
    x, w = f32(1, 2, 5, 6), f32(3, 2, 3, 3)
    vectors = f32(2, 3, 4)
    nodes = [
        ("ArgMax", [vectors], {"axis": 1}), ("ArgMin", [vectors], {"axis": 2, "keepdims": 0}),
        ("Conv", [x, w], {"pads": [1, 1, 1, 1]}),
        ("ConvTranspose", [x, w.transpose(1, 0, 2, 3).copy()], {"strides": [2, 2]}),
        ("DepthToSpace", [f32(1, 8, 2, 3)], {"blocksize": 2}),
        ("SpaceToDepth", [x[:, :, :4]], {"blocksize": 2}), ("Flatten", [x], {"axis": 2}),
        ("Gather", [vectors, ints(0, 3, (2, 2))], {"axis": 1}), ("GlobalAveragePool", [x], {}),
        ("GlobalMaxPool", [x], {}), ("Hardmax", [vectors], {}), ("Identity", [x], {}),
        ("LRN", [x], {"size": 3}), ("LogSoftmax", [vectors], {"axis": 2}),
        ("LpNormalization", [vectors], {"p": 1}), ("MatMul", [vectors, f32(4, 2)], {}),
        ("MaxPool", [x], {"kernel_shape": [2, 2]}),
        ("MaxRoiPool", [x, np.array([[0, 0, 0, 4, 3]], np.float32)], {"pooled_shape": [2, 2]}),
        ("Not", [vectors > 0], {}), ("Shape", [x], {}), ("Size", [x], {}),
        ("Softmax", [vectors], {"axis": 1}), ("Softplus", [vectors], {}),
        ("Softsign", [vectors], {}), ("Squeeze", [f32(1, 3, 1)], {"axes": [0]}),
        ("Transpose", [x], {"perm": [3, 1, 0, 2]}), ("Unsqueeze", [vectors], {"axes": [0, 4]}),
    ]
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        nodes.append((f"Reduce{op}", [np.abs(vectors) + 0.1], {"axes": [0, 2], "keepdims": 0}))
    for op, inputs, attributes in nodes:
        yield early(op.lower(), op, 1, inputs, attributes, (op, 7, inputs, attributes))
