"""Cases for integer operators, and for experiments of which no runtime has a kernel."""
import numpy as np

from contrib_data import I8, U8, F32, microsoft, weights
from opset_data import Case, f32, i64, ints, scalar

# A tie may be rounded either way.
ONE = (0.0, 1.0)


def cases():
    """All cases."""
    for family in (pools, choices, products, matrices, lstms, fills, slices):
        yield from family()


def scale(*values):
    """Scales; a single one has no axes."""
    return np.array(values[0] if len(values) == 1 else values, F32)


def pools():
    """Pools and convolutions, with the channels first and last."""
    for dtype in (U8, I8):
        name, low = np.dtype(dtype).name, 0 if dtype is U8 else -128
        x = ints(low, low + 256, (2, 3, 6, 5), dtype)
        zero, y_zero = scalar(3, dtype), scalar(7, dtype)
        window = {"kernel_shape": [3, 2], "strides": [2, 1]}
        scales = [scale(0.03), zero, scale(0.05), y_zero]
        for form, at in (("plain", {}), ("pads", {"pads": [1, 1, 1, 0]}),
                         ("include", {"pads": [1, 1, 1, 0], "count_include_pad": 1}),
                         ("ceil", {"ceil_mode": 1}), ("last", {"channels_last": 1})):
            yield microsoft(f"qlinear_average_{form}_{name}", "QLinearAveragePool", [x, *scales],
                            window | at, (1, 2, 3, 4), tolerance=ONE)
        for last in (0, 1):
            yield microsoft(f"qlinear_global_{last}_{name}", "QLinearGlobalAveragePool",
                            [x, *scales], {"channels_last": last}, (1, 2, 3, 4), tolerance=ONE)
        yield microsoft(f"nhwc_max_{name}", "NhwcMaxPool", [x], window)
        w, w_scale = weights(4, 3, 3, 2), scale(0.01, 0.02, 0.03, 0.04)
        w_zero = np.zeros(4, I8)
        for last in (0, 1):
            given = x.transpose(0, 2, 3, 1).copy() if last else x
            parameters = [scale(0.03), zero, w, w_scale, w_zero, scale(0.5), y_zero,
                          ints(-99, 99, (4,), np.int32)]
            yield microsoft(f"qlinear_conv_{last}_{name}", "QLinearConv", [given, *parameters],
                            {"channels_last": last, "pads": [1, 0, 1, 0]}, tuple(range(1, 9)),
                            tolerance=ONE)


def choices():
    """Softmax, Where and ReduceMean."""
    for dtype in (U8, I8):
        name, low = np.dtype(dtype).name, 0 if dtype is U8 else -128
        x, y = (ints(low, low + 256, (2, 3, 4), dtype) for _ in range(2))
        s, t, u = scale(0.03), scale(0.05), scale(0.07)
        a, b, c = (scalar(v, dtype) for v in (3, 7, 5))
        out = scalar(0 if dtype is U8 else -128, dtype)
        for version, axis in ((12, 1), (13, 1), (13, -1)):
            yield microsoft(f"qlinear_softmax_{version}_{axis % 3}_{name}", "QLinearSoftmax",
                            [x, s, a, scale(1 / 256), out], {"opset": version, "axis": axis},
                            (1, 2, 3, 4), tolerance=ONE)
        chosen = ints(0, 2, (3, 1), bool)
        yield microsoft(f"qlinear_where_{name}", "QLinearWhere", [chosen, x, s, a, y, t, b, u, c],
                        {}, (2, 3, 5, 6, 7, 8), tolerance=ONE)
        for keep in (0, 1):
            case = microsoft(f"qlinear_mean_{keep}_{name}", "QLinearReduceMean", [x, s, a, t, b],
                             {"axes": [0, -1], "keepdims": keep}, (1, 2, 3, 4), tolerance=ONE)
            mean = ((x.astype(F32) - a) * s).mean((0, 2), keepdims=bool(keep))
            info = np.iinfo(dtype)
            case.expected = [np.clip(np.rint(mean / t) + b, info.min, info.max).astype(dtype)]
            yield case


def products():
    """Matrix products of integers in floats or with a scale."""
    for a_type, b_type in ((U8, U8), (U8, I8), (I8, I8)):
        name = f"{np.dtype(a_type).name}_{np.dtype(b_type).name}"
        a = ints(0, 100, (3, 4), a_type)
        b = ints(0, 100, (4, 5), U8) if b_type is U8 else weights(4, 5)
        bias = ints(-999, 999, (5,), np.int32)
        a_scale, a_zero, y_zero = scale(0.02), scalar(3, a_type), scalar(7, a_type)
        columns = scale(0.01, 0.02, 0.03, 0.04, 0.05), ints(0, 9, (5,), b_type)
        for form, (b_scale, b_zero) in (("one", (scale(0.05), scalar(5, b_type))),
                                        ("columns", columns)):
            head = [a, a_scale, a_zero, b, b_scale, b_zero]
            fixed = (1, 2, 4, 5, 6, 7, 8)
            yield microsoft(f"qgemm_{form}_{name}", "QGemm",
                            [*head, bias, scale(0.5), y_zero], {"alpha": 0.7}, fixed,
                            tolerance=ONE)
            yield microsoft(f"qgemm_{form}_float_{name}", "QGemm", [*head, bias], {}, fixed[:5])
            yield microsoft(f"integer_to_float_{form}_{name}", "MatMulIntegerToFloat",
                            [a, b, a_scale, b_scale, a_zero, b_zero, f32(5)], {}, (2, 3, 4, 5, 6))
            # Rounding the input either way at a tie changes sums by a step.
            yield microsoft(f"dynamic_matmul_{form}_{name}", "DynamicQuantizeMatMul",
                            [f32(2, 3, 4), b, b_scale, b_zero, f32(5)], {}, (2, 3, 4),
                            tolerance=(1e-3, 1e-3))
        yield microsoft(f"integer_to_float_plain_{name}", "MatMulIntegerToFloat",
                        [np.stack([a, a]), b, a_scale, scale(0.05)], {}, (2, 3))
        turned = [a.T.copy(), a_scale, a_zero, b.T.copy(), scale(0.05), scalar(5, b_type)]
        yield microsoft(f"qgemm_turned_{name}", "QGemm", [*turned, None, scale(0.5), y_zero],
                        {"transA": 1, "transB": 1}, (1, 2, 4, 5, 7, 8), tolerance=ONE)
    yield microsoft("matmul_integer_16", "MatMulInteger16",
                    [ints(-999, 999, (2, 3), np.int16), ints(-999, 999, (3, 4), np.int16)])


def matrices():
    """ONNX's own products of integers."""
    a, b = ints(0, 100, (2, 3, 4), U8), ints(-50, 50, (4, 5), I8)
    zeros, scales = ints(-9, 9, (5,), I8), scale(0.01, 0.02, 0.03, 0.04, 0.05)
    for name, b_zero, b_scale in (("one", scalar(5, I8), scale(0.05)), ("columns", zeros, scales)):
        yield Case(f"matmul_integer_{name}", "MatMulInteger", 10, [a, b, scalar(3, U8), b_zero], {},
                   (1, 2, 3), oracle="ort")
        for opset in (10, 21):
            yield Case(f"qlinear_matmul_{name}_{opset}", "QLinearMatMul", opset,
                       [a, scale(0.02), scalar(3, U8), b, b_scale, b_zero, scale(0.5),
                        scalar(7, U8)], {}, tuple(range(1, 8)), oracle="ort", tolerance=ONE)
    x, w = ints(0, 256, (1, 2, 5, 4), U8), ints(-128, 128, (3, 2, 3, 2), I8)
    for name, more in (("plain", []), ("zero", [scalar(9, U8)]),
                       ("zeros", [scalar(9, U8), scalar(4, I8)])):
        yield Case(f"conv_integer_{name}", "ConvInteger", 10, [x, w, *more],
                   {"pads": [1, 0, 1, 0], "strides": [2, 1]}, tuple(range(1, 2 + len(more))),
                   oracle="ort")


def lstms():
    """DynamicQuantizeLSTM."""
    time, features, hidden = 4, 3, 5
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        for dtype, batch in ((U8, 1), (I8, 1), (I8, 2)):
            def matrix(rows, dtype=dtype, count=count):
                dims = count, rows, 4 * hidden
                return ints(0, 256, dims, U8) if dtype is U8 else weights(*dims)

            zero = np.full(count, 128 if dtype is U8 else 0, dtype)
            steps = np.full(count, 0.01, F32)
            given = [f32(time, batch, features), matrix(features), matrix(hidden),
                     f32(count, 8 * hidden), None, f32(count, batch, hidden),
                     f32(count, batch, hidden), None, steps, zero, steps, zero]
            name = f"lstm_{direction}_{np.dtype(dtype).name}_{batch}"
            yield microsoft(name, "DynamicQuantizeLSTM", given,
                            {"hidden_size": hidden, "direction": direction},
                            (1, 2, 3, 8, 9, 10, 11), 3, (1e-2, 1e-2))
    columns = np.abs(f32(1, 4 * hidden)) * F32(0.01)
    given = [f32(time, 1, features), weights(1, features, 4 * hidden),
             weights(1, hidden, 4 * hidden), f32(1, 8 * hidden), None, None, None,
             f32(1, 3 * hidden), columns, np.zeros((1, 4 * hidden), I8), columns,
             np.zeros((1, 4 * hidden), I8)]
    yield microsoft("lstm_columns", "DynamicQuantizeLSTM", given, {"hidden_size": hidden},
                    (1, 2, 3, 7, 8, 9, 10, 11), 3, (1e-2, 1e-2))


def experiment(name, op, inputs, attributes, expected, parameters=()):
    """An operator of ONNX's first version."""
    return Case(f"experiment_{name}", op, 1, inputs, attributes, parameters, expected=[expected])


def fills():
    """Arrays of stated shape."""
    x = f32(2, 3)
    yield experiment("fill_shape", "ConstantFill", [], {"shape": [2, 3], "value": 0.5},
                     np.full((2, 3), 0.5, F32))
    yield experiment("fill_like", "ConstantFill", [x], {"value": 2.0, "dtype": 7,
                                                        "extra_shape": [4]},
                     np.full((2, 3, 4), 2, np.int64))
    yield experiment("fill_given", "ConstantFill", [i64(3, 2)],
                     {"value": 1.5, "input_as_shape": 1}, np.full((3, 2), 1.5, F32), (0,))
    values = {"values": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    array = np.arange(1, 7, dtype=F32)
    yield experiment("given_shape", "GivenTensorFill", [], values | {"shape": [2, 3]},
                     array.reshape(2, 3))
    yield experiment("given_like", "GivenTensorFill", [x], values, array.reshape(2, 3))
    yield experiment("given_given", "GivenTensorFill", [i64(3)],
                     values | {"input_as_shape": 1, "extra_shape": [2]}, array.reshape(3, 2),
                     (0,))
    state, gates = f32(1, 3, 4), f32(1, 3, 12)
    update = 1 / (1 + np.exp(-gates[:, :, 4:8]))
    after = state * update + np.tanh(gates[:, :, 8:]) * (1 - update)
    lengths = np.array([1, 2, 3], np.int32)
    for drop in (0, 1):
        ended = np.zeros_like(state) if drop else state
        yield experiment(f"gru_unit_{drop}", "GRUUnit",
                         [state, gates, lengths, np.array([1], np.int32)], {"drop_states": drop},
                         np.where((lengths > 1)[:, None], after, ended))


def slices():
    """DynamicSlice, which ONNX Runtime has still."""
    x = f32(4, 5)
    for name, more in (("axes", [i64(1, 0)]), ("all", [])):
        yield Case(f"experiment_slice_{name}", "DynamicSlice", 7, [x, i64(1, 0), i64(3, -1), *more],
                   {}, tuple(range(1, 3 + len(more))), oracle="ort")
