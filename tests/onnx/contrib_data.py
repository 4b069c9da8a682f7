"""Cases for operators of the domain com.microsoft, and for experiments of ONNX's first versions.
ONNX Runtime's kernels are the reference."""
import numpy as np

from opset_data import Case, f32, ints, scalar

F32, U8, I8 = np.float32, np.uint8, np.int8


def cases():
    """All cases."""
    for family in (fused, attention, projected, cached, grouped, activations, skips, rotary,
                   embeddings, quantised, packed, experiments):
        yield from family()


def weights(*dims):
    """int8 weights of 7 bits: without VNNI, ONNX Runtime adds pairs of products with uint8 inputs in
    16 bits and cuts off what is above, so that its results for larger ones depend on the machine."""
    return ints(-64, 64, dims, I8)


def microsoft(name, op, inputs, attributes=None, parameters=(), outputs=1, tolerance=None):
    """A node of com.microsoft."""
    return Case(f"microsoft_{name}", op, 1, inputs, attributes or {}, parameters, outputs, "ort",
                None, tolerance, domain="com.microsoft")


def fused():
    """Products and convolutions with what follows them."""
    a, b = f32(2, 3, 4), f32(2, 4, 5)
    yield microsoft("matmul", "FusedMatMul", [a, b], {"alpha": 0.5})
    yield microsoft("matmul_a", "FusedMatMul", [a.transpose(0, 2, 1).copy(), b], {"transA": 1})
    yield microsoft("matmul_b", "FusedMatMul", [a, b.transpose(0, 2, 1).copy()], {"transB": 1})
    yield microsoft("matmul_batch_a", "FusedMatMul", [a.transpose(1, 0, 2).copy(), b],
                    {"transBatchA": 1})
    yield microsoft("matmul_batch_b", "FusedMatMul", [a, b.transpose(1, 0, 2).copy()],
                    {"transBatchB": 1})
    yield microsoft("matmul_batch_both", "FusedMatMul",
                    [a.transpose(2, 0, 1).copy(), b.transpose(2, 0, 1).copy()],
                    {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1})
    functions = {"Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.3],
                 "HardSigmoid": [0.4, 0.3]}
    for name, parameters in functions.items():
        keys = ("activation_alpha", "activation_beta")
        yield microsoft(f"gemm_{name.lower()}", "FusedGemm", [f32(2, 3), f32(3, 4), f32(4)],
                        {"activation": name, "alpha": 0.7} | dict(zip(keys, parameters)), (1, 2))
    x, w, bias = f32(1, 2, 5, 6), f32(3, 2, 3, 3), f32(3)
    for name, parameters in (functions | {"Clip": [-0.5, 0.75]}).items():
        at = {"activation": name, "pads": [1, 1, 1, 1]}
        at |= {"activation_params": parameters} if parameters else {}
        yield microsoft(f"conv_{name.lower()}", "FusedConv", [x, w, bias], at, (1, 2))
    yield microsoft("conv_sum", "FusedConv", [x, w, bias, f32(1, 3, 3, 4)], {"activation": "Relu"},
                    (1, 2))


def attention():
    """Projections that are packed into one input: ONNX Runtime runs them apart on the processor."""
    at = {"num_heads": 2}
    q, kv, qkv = f32(2, 3, 8), f32(2, 5, 2, 2, 4), f32(2, 3, 2, 3, 4)

    def parts(x):
        return [x[:, :, :, i].reshape(*x.shape[:2], -1) for i in range(x.shape[3])]

    for name, packed_inputs, apart in (("kv", [q, kv], [q, *parts(kv)]),
                                       ("qkv", [qkv], parts(qkv))):
        for bias in ([], [f32(24)]):
            given = packed_inputs + [None] * (3 - len(packed_inputs)) + bias if bias \
                else packed_inputs
            case = microsoft(f"attention_{name}{'_bias' * len(bias)}", "MultiHeadAttention", given,
                             at)
            case.twin = microsoft("apart", "MultiHeadAttention", apart + bias, at)
            yield case


def projected():
    """Attention with its projections."""
    at = {"num_heads": 2}
    x, w, b = f32(2, 3, 8), f32(8, 24), f32(24)
    past = f32(2, 2, 2, 4, 4)
    i32 = np.int32
    masks = {"ends": np.array([2, 3], i32), "bounds": np.array([2, 3, 1, 0], i32),
             "tokens": np.array([[0, 1, 1], [1, 1, 0]], i32),
             "pairs": np.array([[[0, 1, 1], [1, 1, 0], [1, 0, 1]]] * 2, i32)}
    zero = np.zeros(24, np.float32)
    case = microsoft("projected_plain", "Attention", [x, w], at, (1,))
    case.twin = microsoft("bias", "Attention", [x, w, zero], at)
    yield case
    for name, mask in masks.items():
        yield microsoft(f"projected_{name}", "Attention", [x, w, b, mask], at, (1, 2))
    square = np.ones((2, 1, 9, 9), i32)
    square[:, 0, :3, :3] = masks["pairs"]
    case = microsoft("projected_square", "Attention", [x, w, b, square], at, (1, 2))
    case.twin = microsoft("pairs", "Attention", [x, w, b, masks["pairs"]], at)
    yield case
    causal = at | {"unidirectional": 1, "scale": 0.3, "mask_filter_value": -50.0}
    yield microsoft("projected_causal", "Attention", [x, w, b, masks["tokens"]], causal, (1, 2))
    tokens = np.array([[0, 0, 1, 1, 1, 1, 1], [1] * 7], i32)
    yield microsoft("projected_past", "Attention", [x, w, b, tokens, past],
                    at | {"unidirectional": 1}, (1, 2), 2)
    yield microsoft("projected_bias", "Attention", [x, w, b, None, None, f32(1, 2, 3, 3)], at,
                    (1, 2))
    yield microsoft("projected_widths", "Attention", [x, f32(8, 20), f32(20)],
                    at | {"qkv_hidden_sizes": [4, 4, 12]}, (1, 2))


    # ONNX Runtime writes in place on other devices only. The present cache has room behind it.
    room = np.concatenate([past, np.zeros((2, 2, 2, 5, 4), np.float32)], 3)
    length = np.array([4], i32)
    case = microsoft("projected_shared", "Attention", [x, w, b, tokens, room, None, length],
                     at | {"past_present_share_buffer": 1}, (1, 2, 6))
    parts = np.split(x @ w, 3, 2)
    case.twin = microsoft("after", "MultiHeadAttention", [*parts, b, tokens, None, *past], at,
                          (), 3)
    yield case
    case = microsoft("projected_masked", "DecoderMaskedSelfAttention",
                     [x[:, :1], w, b, tokens[:, :5], room, None, length],
                     at | {"past_present_share_buffer": 1}, (1, 2, 6))
    case.twin = microsoft("first", "MultiHeadAttention",
                          [*(p[:, :1] for p in parts), b, tokens[:, :5], None, *past], at, (), 3)
    yield case
    numbers, matrix = ints(0, 256, (2, 3, 8), U8), weights(8, 24)
    scales = scalar(0.02, F32), np.abs(f32(24)) / 100 + F32(0.01)
    yield microsoft("projected_integers", "QAttention",
                    [numbers, matrix, b, *scales, masks["ends"], scalar(120, U8), scalar(3, I8)],
                    at, (1, 2, 3, 4, 6, 7))
    yield microsoft("projected_integers_past", "QAttention",
                    [numbers, matrix, b, scales[0], scales[0], None, scalar(120, U8), None, past],
                    at | {"unidirectional": 1}, (1, 2, 3, 4, 6), 2)


def cached():
    """Caches with room, of which the new keys take the next place, and beams."""
    at = {"num_heads": 2}
    new, cache = [f32(2, 1, 8) for _ in range(3)], [f32(2, 2, 9, 4) for _ in range(2)]
    length, width = np.array([4], np.int32), np.array([2], np.int32)
    beams = ints(0, 2, (1, 2, 9), np.int32)
    shared = at | {"past_present_share_buffer": 1}
    mask = np.array([[0, 1, 1, 1, 1], [1] * 5], np.int32)
    bias = f32(1, 2, 1, 5)
    yield microsoft("cache", "MultiHeadAttention", [*new, None, None, None, *cache, length], at,
                    (8,), 3)
    yield microsoft("cache_beams", "MultiHeadAttention",
                    [*new, f32(24), None, bias, *cache, length, beams], at, (8,), 3)
    yield microsoft("masked", "DecoderMaskedMultiHeadAttention",
                    [*new, mask, bias, *cache, length, width, beams, f32(24)], shared, (7, 8), 3)
    yield microsoft("masked_bias", "MultiHeadAttention",
                    [f32(2, 3, 8), *(f32(2, 2, 5, 4) for _ in range(2)), f32(24),
                     np.array([5, 3, 0, 3, 6, 0, 5, 10], np.int32)], at)
    yield microsoft("masked_cross", "DecoderMaskedMultiHeadAttention",
                    [new[0], *(f32(2, 2, 5, 4) for _ in range(2)), mask], at)
    yield microsoft("past", "MultiHeadAttention",
                    [*(f32(2, 3, 8) for _ in range(3)), None, np.ones((2, 7), np.int32), None,
                     *(f32(2, 2, 4, 4) for _ in range(2))], at | {"unidirectional": 1}, (), 3)


def grouped():
    """GroupQueryAttention: prompts, then single tokens behind caches of different lengths."""
    at = {"num_heads": 4, "kv_num_heads": 2}
    turned = at | {"do_rotary": 1}
    i32 = np.int32
    new, one = [f32(2, 3, 64), f32(2, 3, 32), f32(2, 3, 32)], [f32(2, 1, 64), *(
        f32(2, 1, 32) for _ in range(2))]
    past = [f32(2, 2, 6, 16) for _ in range(2)]
    angles = f32(20, 8)
    tables = [np.cos(angles), np.sin(angles)]
    prompt, none = [np.array([2, 2], i32), np.array([3], i32)], [None, None]
    later = [np.array([6, 6], i32), np.array([7], i32)]
    ragged = [np.array([3, 5], i32), np.array([6], i32)]
    positions = ints(0, 20, (2, 1))
    forms = {
        "prompt": ([*new, *none, *prompt], at),
        "packed": ([f32(2, 3, 128), *none, *none, *prompt, *tables], turned),
        "rotary": ([*one, *past, *later, *tables], turned),
        "interleaved": ([*one, *past, *later, *tables], turned | {"rotary_interleaved": 1}),
        "ragged": ([*one, *past, *ragged, *tables], turned),
        "window": ([*one, *past, *later], at | {"local_window_size": 3, "softcap": 2.0}),
        "window_prompt": ([*new, *none, *prompt], at | {"local_window_size": 1}),
        "smooth": ([*one, *past, *later], at | {"smooth_softmax": 1, "scale": 0.5}),
        "positions": ([*one, *past, *later, *tables, positions], turned),
        "bias": ([*one, *past, *later, *none, None, f32(2, 4, 1, 7)], at | {"softcap": 1.5}),
        "sink": ([*one, *past, *later, *none, None, None, f32(4)], at),
        "both_ways": ([*new, *none, *prompt], at | {"causal": 0}),
    }
    for name, (inputs, attributes) in forms.items():
        yield microsoft(f"grouped_{name}", "GroupQueryAttention", inputs, attributes, (6, 7, 8), 3)


def activations():
    """Gelu in its forms."""
    x, bias = f32(2, 3, 8), f32(8)
    yield microsoft("gelu", "Gelu", [x])
    yield microsoft("gelu_bias", "BiasGelu", [x, bias], {}, (1,))
    yield microsoft("gelu_fast", "FastGelu", [x])
    yield microsoft("gelu_fast_bias", "FastGelu", [x, bias], {}, (1,))
    yield microsoft("gelu_quick", "QuickGelu", [x])
    yield microsoft("gelu_quick_alpha", "QuickGelu", [x], {"alpha": -0.5})


def skips():
    """Normalised sums; the second one may be the same for all elements of the batch."""
    x, gamma, beta, bias = f32(2, 3, 8), f32(8), f32(8), f32(8)
    for name, skip in (("all", f32(2, 3, 8)), ("one", f32(1, 3, 8)), ("row", f32(3, 8))):
        yield microsoft(f"skip_{name}", "SkipLayerNormalization", [x, skip, gamma, beta, bias],
                        {"epsilon": 1e-5}, (2, 3, 4), 1 if name == "row" else 4)
        case = microsoft(f"skip_simple_{name}", "SkipSimplifiedLayerNormalization",
                         [x, skip, gamma, bias], {}, (2, 3))
        yield case
    yield microsoft("skip_plain", "SkipLayerNormalization", [x, f32(2, 3, 8), gamma])


def rotary():
    """Rotary embeddings, of heads that are together or apart."""
    angles = f32(10, 4)
    tables = [np.cos(angles), np.sin(angles)]
    packed, apart = f32(2, 3, 16), f32(2, 2, 3, 8)
    positions, first = ints(0, 10, (2, 3)), np.array([4])
    for name, x in (("packed", packed), ("apart", apart)):
        for form, places in (("each", positions), ("first", first)):
            yield microsoft(f"rotary_{name}_{form}", "RotaryEmbedding", [x, places, *tables], {},
                            (2, 3))
    yield microsoft("rotary_interleaved", "RotaryEmbedding", [apart, positions, *tables],
                    {"interleaved": 1}, (2, 3))
    yield microsoft("rotary_part", "RotaryEmbedding", [f32(2, 3, 24), positions, *tables],
                    {"rotary_embedding_dim": 8, "num_heads": 2}, (2, 3))


def embeddings():
    """Sums of embeddings."""
    ids, segments = ints(0, 7, (2, 3), np.int32), ints(0, 2, (2, 3), np.int32)
    tables, gamma, beta = (f32(7, 4), f32(5, 4), f32(2, 4)), f32(4), f32(4)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield microsoft("embed", "EmbedLayerNormalization",
                    [ids, segments, *tables, gamma, beta, mask], {}, (2, 3, 4, 5, 6), 2)
    yield microsoft("embed_sum", "EmbedLayerNormalization",
                    [ids, segments, *tables, gamma, beta, mask], {}, (2, 3, 4, 5, 6), 3)
    yield microsoft("embed_words", "EmbedLayerNormalization",
                    [ids, None, *tables[:2], None, gamma, beta], {"epsilon": 1e-5}, (2, 3, 5, 6), 2)
    places = ints(0, 5, (2, 3), np.int32)
    yield microsoft("embed_places", "EmbedLayerNormalization",
                    [ids, segments, *tables, gamma, beta, None, places], {}, (2, 3, 4, 5, 6), 2)


def quantised():
    """Integers with scales and zero points; a tie may be rounded either way."""
    one = (0.0, 1.0)
    for dtype in (U8, I8):
        low, high = (0, 255) if dtype is U8 else (-128, 127)
        name = np.dtype(dtype).name
        a, b = (ints(low, high, (3, 4), dtype) for _ in range(2))
        s, t, u = (scalar(v, F32) for v in (0.03, 0.05, 0.07))
        y, z = scalar(3, dtype), scalar(7, dtype)
        for op in ("Add", "Mul"):
            yield microsoft(f"qlinear_{op.lower()}_{name}", f"QLinear{op}",
                            [a, s, y, b, t, z, u, y], {}, (1, 2, 4, 5, 6, 7), tolerance=one)
        for op in ("Sigmoid", "LeakyRelu"):
            yield microsoft(f"qlinear_{op.lower()}_{name}", f"QLinear{op}",
                            [a, s, y, scalar(0.01, F32), z], {}, (1, 2, 3, 4), tolerance=one)
        yield microsoft(f"qlinear_concat_{name}", "QLinearConcat", [u, y, a, s, y, b, t, z],
                        {"axis": 1}, (0, 1, 3, 4, 6, 7), tolerance=one)


def packed():
    """Products with matrices of 4 and 8 bits."""
    rows, depth, block = 5, 40, 16
    blocks = -(-depth // block)
    scales, x = np.abs(f32(rows * blocks)) + 0.1, f32(2, 3, depth)
    near = (1e-3, 1e-3)
    for bits in (4, 8):
        weights = ints(0, 256, (rows, blocks, block * bits // 8), U8)
        zeros = ints(0, 256, (rows * -(-blocks * bits // 8),), U8)
        at = {"K": depth, "N": rows, "bits": bits, "block_size": block}
        yield microsoft(f"nbits_{bits}", "MatMulNBits", [x, weights, scales], at, (1, 2),
                        tolerance=near)
        yield microsoft(f"nbits_{bits}_zeros", "MatMulNBits", [x, weights, scales, zeros], at,
                        (1, 2, 3), tolerance=near)


def experiments():
    """Operators that went: kernels of ONNX Runtime have them still."""
    x = f32(2, 3, 5, 6)
    nodes = [("Affine", {"alpha": 0.5, "beta": 2.0}), ("ScaledTanh", {"alpha": 0.5, "beta": 2.0}),
             ("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}), ("Scale", {"scale": 3.0}),
             ("ImageScaler", {"scale": 0.5, "bias": [1.0, 2.0, 3.0]}),
             ("Crop", {"border": [1, 2, 2, 1]}), ("Crop", {"border": [1, 2, 2, 1], "scale": [2, 3]}),
             ("ThresholdedRelu", {"alpha": 0.5}), ("MeanVarianceNormalization", {}),
             ("MeanVarianceNormalization", {"across_channels": 1}),
             ("MeanVarianceNormalization", {"normalize_variance": 0})]
    for i, (op, attributes) in enumerate(nodes):
        yield Case(f"experiment_{i}_{op.lower()}", op, 7, [x], attributes, oracle="ort")
