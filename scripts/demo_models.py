"""Three small but real networks, one for each kind of control flow, with the same in numpy beside.

Each is ONNX text whose weights are added as initializers; `twin` computes it in float64 and also
says in a few words what the control flow did."""
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import numpy_helper, parser

HIDDEN, WORDS, LONGEST = 64, 300, 40
BLOCKS, CHANNELS = 6, 16


@dataclass
class Demo:
    """A model, its input sets, and `twin(weights, **inputs) -> (outputs, what happened)`."""
    name: str
    control: str
    text: str
    weights: dict
    inputs: list[dict]
    twin: Callable
    model: onnx.ModelProto = field(init=False)

    def __post_init__(self):
        header = f'<ir_version: 8, opset_import: ["": 17, "local": 1]> {self.name} '
        self.model = parser.parse_model(header + self.text)
        tensors = (numpy_helper.from_array(v, k) for k, v in self.weights.items())
        self.model.graph.initializer.extend(tensors)

    def expected(self, inputs):
        """The twin's outputs and words, all floats in double."""
        weights = {k: v.astype(np.float64) for k, v in self.weights.items()}
        double = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in inputs.items()}
        return self.twin(weights, **double)


def sigmoid(x):
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def decoder() -> Demo:
    """An LSTM that feeds its most likely word back until it says word 0, the end."""
    r, bound = np.random.default_rng(1), 1.5 / np.sqrt(HIDDEN)
    w = {"Wx": r.uniform(-bound, bound, (HIDDEN, 4 * HIDDEN)),
         "Wh": r.uniform(-bound, bound, (HIDDEN, 4 * HIDDEN)),
         "b": r.uniform(-bound, bound, 4 * HIDDEN), "emb": r.standard_normal((WORDS, HIDDEN)),
         "Wo": r.standard_normal((HIDDEN, WORDS)) / 4, "bo": r.standard_normal(WORDS) / 10}
    for gate, bias in enumerate((8, 8, 0.2, 8)):  # unit 0 is a clock, which brings the end about
        w["Wx"][:, gate * HIDDEN] = w["Wh"][:, gate * HIDDEN] = 0
        w["b"][gate * HIDDEN] = bias
    w["Wo"][0] = w["Wo"][:, 0] = 0
    w["Wo"][0, 0] = 20
    text = """(float[1, 64] h0, float[1, 64] c0) => (int64[K] words, float[1, 64] h)
              <int64 longest = {40}, bool yes = {1}, int64[1] start = {1}, int64 end = {0}> {
      last, h, c, words = Loop <body = step
          (int64 n, bool go, int64[1] word, float[1, 64] hp, float[1, 64] cp) =>
          (bool more, int64[1] best, float[1, 64] hn, float[1, 64] cn, int64 out) {
        x = Gather(emb, word)  zx = MatMul(x, Wx)  zh = MatMul(hp, Wh)  s = Add(zx, zh)
        z = Add(s, b)  zi, zf, zg, zo = Split <axis = 1> (z)
        i = Sigmoid(zi)  f = Sigmoid(zf)  g = Tanh(zg)  o = Sigmoid(zo)
        keep = Mul(f, cp)  new = Mul(i, g)  cn = Add(keep, new)
        t = Tanh(cn)  hn = Mul(o, t)
        logits = Gemm(hn, Wo, bo)  best = ArgMax <axis = 1, keepdims = 0> (logits)
        out = Squeeze(best)  ended = Equal(out, end)  more = Not(ended)
      }> (longest, yes, start, h0, c0)
    }"""
    sets = []
    for clock in (0.6, 1.7, 3.1):
        h, c = np.tanh(r.standard_normal((2, 1, HIDDEN)))
        c[0, 0] = -clock
        sets.append({"h0": h.astype(np.float32), "c0": c.astype(np.float32)})

    def twin(w, h0, c0):
        word, h, c, words = 1, h0, c0, []
        while len(words) < LONGEST and word != 0:
            i, f, g, o = np.split(w["emb"][[word]] @ w["Wx"] + h @ w["Wh"] + w["b"], 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            word = int((h @ w["Wo"] + w["bo"]).argmax())
            words.append(word)
        return [np.array(words), h], f"{len(words)} words"
    weights = {k: v.astype(np.float32) for k, v in w.items()}
    return Demo("lstm_decoder", "Loop until the end word", text, weights, sets, twin)


def gated_resnet() -> Demo:
    """Residual blocks, each run only if a small policy network wants it for this image."""
    r = np.random.default_rng(2)
    w = {"stem_w": r.standard_normal((CHANNELS, 3, 3, 3)) / 4, "stem_b": np.zeros(CHANNELS),
         "policy_w": r.standard_normal((CHANNELS, BLOCKS)) * 3, "policy_b": np.zeros(BLOCKS),
         "head_w": r.standard_normal((CHANNELS, 10)), "head_b": r.standard_normal(10) / 10}
    lines = []
    for k in range(BLOCKS):
        for half in "ab":
            w[f"{half}{k}_w"] = r.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 12
            w[f"{half}{k}_b"] = r.standard_normal(CHANNELS) / 20
        conv = "Conv <pads = [1, 1, 1, 1]>"
        lines.append(f"""i{k} = Constant <value_int = {k}> ()  gate{k} = Gather(gates, i{k})
      x{k + 1} = If <then_branch = run{k} () => (float[1, 16, 16, 16] y{k}) {{
          p{k} = {conv} (x{k}, a{k}_w, a{k}_b)  q{k} = Relu(p{k})
          r{k} = {conv} (q{k}, b{k}_w, b{k}_b)  s{k} = Add(x{k}, r{k})  y{k} = Relu(s{k}) }},
        else_branch = skip{k} () => (float[1, 16, 16, 16] z{k}) {{
          z{k} = Identity(x{k}) }}> (gate{k})
      """)
    text = """(float[1, 3, 16, 16] image) => (float[1, 10] classes, bool[6] gates)
              <float zero = {0}, int64[1] all = {-1}> {
      stem = Conv <pads = [1, 1, 1, 1]> (image, stem_w, stem_b)  x0 = Relu(stem)
      pool0 = GlobalAveragePool(x0)  flat0 = Flatten(pool0)
      mean = ReduceMean <axes = [1]> (flat0)  centred = Sub(flat0, mean)
      wish = Gemm(centred, policy_w, policy_b)  wanted = Greater(wish, zero)
      gates = Reshape(wanted, all)
      BLOCKS
      pool = GlobalAveragePool(xLAST)  flat = Flatten(pool)
      classes = Gemm(flat, head_w, head_b)
    }""".replace("BLOCKS", "".join(lines)).replace("LAST", str(BLOCKS))
    sets = [{"image": r.standard_normal((1, 3, 16, 16)).astype(np.float32)
             + r.standard_normal((1, 3, 1, 1)).astype(np.float32)} for _ in range(3)]

    def conv(x, w, b):
        windows = sliding_window_view(np.pad(x[0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
        return (np.einsum("cijhw,ochw->oij", windows, w) + b[:, None, None])[None]

    def twin(w, image):
        x = np.maximum(conv(image, w["stem_w"], w["stem_b"]), 0)
        flat = x.mean((2, 3))
        gates = ((flat - flat.mean(1, keepdims=True)) @ w["policy_w"] + w["policy_b"])[0] > 0
        for k in np.flatnonzero(gates):
            y = np.maximum(conv(x, w[f"a{k}_w"], w[f"a{k}_b"]), 0)
            x = np.maximum(x + conv(y, w[f"b{k}_w"], w[f"b{k}_b"]), 0)
        words = "blocks " + "".join("-x"[int(g)] for g in gates)
        return [x.mean((2, 3)) @ w["head_w"] + w["head_b"], gates], words
    weights = {k: v.astype(np.float32) for k, v in w.items()}
    return Demo("gated_resnet", "an If around each of 6 blocks", text, weights, sets, twin)


def recursive_autoencoder() -> Demo:
    """A tree's vector from its children's: a function that calls itself, twice."""
    r, leaves = np.random.default_rng(3), 16
    w = {"W": r.standard_normal((2 * HIDDEN, HIDDEN)) * 1.1 / np.sqrt(2 * HIDDEN),
         "b": r.standard_normal(HIDDEN) / 10}
    text = """(int64[N] left, int64[N] right, float[N, 64] leaf, int64 root) => (float[64] vector) {
      vector = local.encode (left, right, leaf, W, b, root)
    }
    <domain: "local", opset_import: ["": 17, "local": 1]>
    encode (left, right, leaf, W, b, n) => (y) {
      l = Gather(left, n)  none = Constant <value_int = 0> ()  is_leaf = Less(l, none)
      y = If <then_branch = yes () => (e) { e = Gather(leaf, n) },
              else_branch = no () => (e) {
                r = Gather(right, n)
                vl = local.encode (left, right, leaf, W, b, l)
                vr = local.encode (left, right, leaf, W, b, r)
                both = Concat <axis = 0> (vl, vr)  m = MatMul(both, W)  s = Add(m, b)
                e = Tanh(s) }> (is_leaf)
    }"""
    sets = []
    for kind in ("random", "complete", "chain"):
        left, right, roots = np.full(31, -1), np.full(31, -1), list(range(leaves))
        for n in range(leaves, 31):
            at = int(r.integers(len(roots) - 1)) if kind == "random" else 0
            left[n], right[n] = roots[at], roots[at + 1]
            if kind == "complete":
                roots = roots[2:] + [n]
            else:
                roots[at:at + 2] = [n]
        leaf = np.zeros((31, HIDDEN), np.float32)
        leaf[:leaves] = r.standard_normal((leaves, HIDDEN))
        sets.append({"left": left, "right": right, "leaf": leaf, "root": np.array(30)})

    def twin(w, left, right, leaf, root):
        def encode(n):
            if left[n] < 0:
                return leaf[n], 0
            (vl, dl), (vr, dr) = encode(left[n]), encode(right[n])
            return np.tanh(np.concatenate([vl, vr]) @ w["W"] + w["b"]), max(dl, dr) + 1
        vector, depth = encode(int(root))
        return [vector], f"depth {depth}"
    weights = {k: v.astype(np.float32) for k, v in w.items()}
    return Demo("recursive_autoencoder", "recursion over a tree", text, weights, sets, twin)


DEMOS = (decoder, gated_resnet, recursive_autoencoder)
