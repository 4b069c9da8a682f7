"""Writes models with large weights or long loops, and inputs, for memory.py and load.py.
usage: python large_models.py OUT [NAME ...]

    moe               mixture of experts: 3 layers of 8 experts, each of which runs if a token is
                      routed to it; 192 MiB
    gpt_static        GPT: 6 layers of 384, a tied embedding, greedy words in a Loop; a cache of
                      fixed length; 129 MiB
    gpt_grow_stacked  the same until it says an end word, as PyTorch exports `while`; the keys and
                      values of all layers are one array, which grows by a position a word
    deq               deep equilibrium: a Loop to the fixed point of two layers of 512, batch 8

Weights are random and lie in the file: OUT/NAME.onnx, with inputs in OUT/NAME.npz. Needs numpy and
onnx."""
import sys
from pathlib import Path

import numpy as np
import onnx

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


class Weights(dict):
    """Draws weights by name."""

    def __init__(self):
        super().__init__()
        self.random = np.random.default_rng(1)

    def matrix(self, name, rows, columns, gain=1.0):
        scale = np.float32(gain / np.sqrt(rows))
        self[name] = self.random.standard_normal((rows, columns), np.float32) * scale

    def vector(self, name, size, around=0.0):
        drawn = self.random.standard_normal(size, np.float32)
        self[name] = np.float32(around) + np.float32(0.1) * drawn

    def norm(self, name, size):
        """Scale and shift of a layer normalisation."""
        self.vector(name + "g", size, 1.0)
        self.vector(name + "b", size)


def moe(w):
    """Tokens go to the expert that the router ranks first; experts without tokens do not run."""
    width, inner, layers, experts = 512, 2048, 3, 8
    port = f"float[T, {width}]"
    text = ""
    for layer in range(layers):
        w.norm(f"norm{layer}", width)
        w.matrix(f"router{layer}", width, experts)
        text += f"""a{layer} = LayerNormalization (x{layer}, norm{layer}g, norm{layer}b)
            scores{layer} = MatMul(a{layer}, router{layer})  odds{layer} = Softmax(scores{layer})
            best{layer} = ArgMax <axis = 1> (odds{layer})
            gate{layer} = ReduceMax <axes = [1]> (odds{layer})
            sum{layer}_0 = Identity(x{layer})
            """
        for k in range(experts):
            e = f"{layer}_{k}"
            w.matrix(f"up{e}", width, inner)
            w.matrix(f"down{e}", inner, width)
            w[f"number{e}"] = np.array(k)
            text += f"""hit{e} = Equal(best{layer}, number{e})  weight{e} = Cast <to = 1> (hit{e})
                most{e} = ReduceMax <keepdims = 0> (weight{e})  any{e} = Cast <to = 9> (most{e})
                sum{layer}_{k + 1} = If (any{e}) <then_branch = run{e} () => ({port} y{e}) {{
                  h{e} = MatMul(a{layer}, up{e})  r{e} = Relu(h{e})  o{e} = MatMul(r{e}, down{e})
                  share{e} = Mul(gate{layer}, weight{e})  part{e} = Mul(o{e}, share{e})
                  y{e} = Add(sum{layer}_{k}, part{e})
                }}, else_branch = pass{e} () => ({port} z{e}) {{
                  z{e} = Identity(sum{layer}_{k})
                }}>
                """
        text += f"x{layer + 1} = Identity(sum{layer}_{experts})\n"
    text = f"{HEAD} moe ({port} x0) => ({port} x{layers}) {{ {text} }}"
    return text, {"x0": w.random.standard_normal((8, width), np.float32)}


HEADS, DIM, LAYERS, WORDS, LONGEST = 6, 64, 6, 59_904, 256
WIDTH = HEADS * DIM
# The end of a text, as (input, trip count, condition, the input's value): 32 words, or the 29th,
# which is no earlier one.
COUNTED = ("int64 count", "count", "on = Identity(go)", np.array(32))
UNTIL = ("int64[1] until", "endless",
         "same = Equal(best, until)  others = Not(same)  on = Squeeze(others)", np.array([12632]))
BLOCK = """a{l} = LayerNormalization (x{l}, one{l}g, one{l}b)
    mixed{l} = MatMul(a{l}, qkv{l})  biased{l} = Add(mixed{l}, qkv_b{l})
    q_row{l}, k_row{l}, v_row{l} = Split <axis = 1> (biased{l})
    q{l} = Reshape(q_row{l}, by_head)  k_new{l} = Reshape(k_row{l}, by_head)
    v_new{l} = Reshape(v_row{l}, by_head)
    {cache}
    turned{l} = Transpose <perm = [0, 2, 1]> (k_all{l})  dots{l} = MatMul(q{l}, turned{l})
    scaled{l} = Mul(dots{l}, scale)
    {mask} odds{l} = Softmax(masked{l})  heads{l} = MatMul(odds{l}, v_all{l})
    joined{l} = Reshape(heads{l}, as_row)  out{l} = MatMul(joined{l}, proj{l})
    out_b{l} = Add(out{l}, proj_b{l})  mid{l} = Add(x{l}, out_b{l})
    b{l} = LayerNormalization (mid{l}, two{l}g, two{l}b)
    h{l} = MatMul(b{l}, up{l})  hb{l} = Add(h{l}, up_b{l})
    root{l} = Mul(hb{l}, half_root)  erf{l} = Erf(root{l})  more{l} = Add(erf{l}, unit)
    gated{l} = Mul(hb{l}, more{l})  gelu{l} = Mul(gated{l}, half)
    down_{l} = MatMul(gelu{l}, down{l})  down_b_{l} = Add(down_{l}, down_b{l})
    x{next} = Add(mid{l}, down_b_{l})
    """


def gpt_weights(w):
    w.matrix("words", WORDS, WIDTH, 15)
    w.matrix("places", LONGEST, WIDTH, 5)
    for layer in range(LAYERS):
        w.norm(f"one{layer}", WIDTH)
        w.norm(f"two{layer}", WIDTH)
        for name, rows, columns in (("qkv", WIDTH, 3 * WIDTH), ("proj", WIDTH, WIDTH),
                                    ("up", WIDTH, 4 * WIDTH), ("down", 4 * WIDTH, WIDTH)):
            w.matrix(f"{name}{layer}", rows, columns)
            w.vector(f"{name}_b{layer}", columns)
    w.norm("last", WIDTH)
    for name, value in (("scale", DIM ** -0.5), ("half", 0.5), ("unit", 1),
                        ("half_root", 0.5 ** 0.5)):
        w[name] = np.array(value, np.float32)
    w["by_head"], w["as_row"] = np.array([HEADS, 1, DIM]), np.array([1, WIDTH])
    w["zero"] = np.array([0])


def gpt(name, w, stop, states, cache, mask, begin, end):
    """Greedy decoding from one word. `states` are carried: (type, name, first value, next value);
    `cache` and `mask` are text for each layer, `begin` and `end` for the body."""
    gpt_weights(w)
    blocks = "".join(BLOCK.format(l=k, next=k + 1, cache=cache(k), mask=mask.format(l=k))
                     for k in range(LAYERS))
    given = ", ".join(f"{kind} {state}" for kind, state, _, _ in states)
    nexts = ", ".join(f"{kind} {value}" for kind, _, _, value in states)
    kept = ", ".join(f"kept_{state}" for _, state, _, _ in states)
    firsts = ", ".join(first for _, _, first, _ in states)
    port, trip, go_on, value = stop
    text = f"""{HEAD} {name} (int64[1] start, {port}) =>
        (int64[N, 1] said, float[1, {WORDS}] odds) {{
        last, odds, {kept}, said = Loop <body = step
            (int64 n, bool go, int64[1] word, float[1, {WORDS}] before, {given}) =>
            (bool on, int64[1] best, float[1, {WORDS}] logits, {nexts}, int64[1] out) {{
          at = Unsqueeze(n, zero)
          meaning = Gather(words, word)  position = Gather(places, at)  x0 = Add(meaning, position)
          {begin} {blocks} {end}
          normed = LayerNormalization (x{LAYERS}, lastg, lastb)
          tied = Transpose <perm = [1, 0]> (words)  logits = MatMul(normed, tied)
          best = ArgMax <axis = 1, keepdims = 0> (logits)  out = Identity(best)
          {go_on}
        }}> ({trip}, yes, start, nothing, {firsts})
      }}"""
    w["nothing"] = np.zeros((1, WORDS), np.float32)
    w["yes"] = np.array(True)
    return text, {"start": np.array([17]), port.split()[-1]: value}


def gpt_static(w):
    kind = f"float[{HEADS}, {LONGEST}, {DIM}]"
    states = [(kind, f"{s}{k}", "empty", f"{s}_all{k}") for k in range(LAYERS) for s in "kv"]
    w["empty"] = np.zeros((HEADS, LONGEST, DIM), np.float32)
    w["low"] = np.array(-1e30, np.float32)
    w["heads"] = np.stack([np.arange(HEADS), np.zeros(HEADS, int)], 1)[:, None]
    w["second"], w["range"] = np.array([0, 1]), np.arange(LONGEST)

    def cache(k):
        return "".join(f"{s}_all{k} = ScatterND({s}{k}, place, {s}_new{k})\n" for s in "kv")

    begin = "shift = Mul(n, second)  place = Add(heads, shift)  later = Greater(range, n)"
    mask = "masked{l} = Where(later, low, scaled{l})"
    return gpt("gpt_static", w, COUNTED, states, cache, mask, begin, "")


def gpt_grow_stacked(w):
    kind = f"float[{2 * LAYERS}, {HEADS}, T, {DIM}]"
    states = [(kind, "cache", "empty", "grown")]
    w["empty"] = np.zeros((2 * LAYERS, HEADS, 0, DIM), np.float32)
    w["endless"] = np.array(2 ** 63 - 1)
    for k in range(2 * LAYERS):
        w[f"row{k}"] = np.array(k)

    def cache(k):
        return "".join(f"""{s}{k} = Gather(cache, row{2 * k + i})
            {s}_all{k} = Concat <axis = 1> ({s}{k}, {s}_new{k})
            {s}_slab{k} = Unsqueeze({s}_new{k}, zero)
            """ for i, s in enumerate("kv"))

    slabs = ", ".join(f"{s}_slab{k}" for k in range(LAYERS) for s in "kv")
    end = f"stacked = Concat <axis = 0> ({slabs})  grown = Concat <axis = 2> (cache, stacked)"
    mask = "masked{l} = Identity(scaled{l})"
    return gpt("gpt_grow_stacked", w, UNTIL, states, cache, mask, "", end)


def deq(w):
    """z = tanh(tanh(z W + x U + b) V + c), until no element changes by more than 1e-5."""
    width, rows = 512, 8
    for name in "WV":
        w.matrix(name, width, width, 1.4)
    w.matrix("U", width, width)
    w.vector("b", width)
    w.vector("c", width)
    w["close"], w["nil"] = np.array(1e-5, np.float32), np.zeros((rows, width), np.float32)
    w["most"], w["yes"] = np.array(200), np.array(True)
    port = f"float[{rows}, {width}]"
    text = f"""{HEAD} deq ({port} x) => ({port} z, int64 count) {{
        given = MatMul(x, U)  fixed = Add(given, b)
        z, count = Loop <body = step (int64 n, bool go, {port} old, int64 so_far) =>
            (bool on, {port} new, int64 steps) {{
          p = MatMul(old, W)  q = Add(p, fixed)  r = Tanh(q)
          s = MatMul(r, V)  t = Add(s, c)  new = Tanh(t)
          moved = Sub(new, old)  far = Abs(moved)  farthest = ReduceMax <keepdims = 0> (far)
          on = Greater(farthest, close)  one = Constant <value_int = 1> ()  steps = Add(n, one)
        }}> (most, yes, nil, none)
      }}"""
    w["none"] = np.array(0)
    return text, {"x": w.random.standard_normal((rows, width), np.float32)}


MODELS = {"moe": moe, "gpt_static": gpt_static, "gpt_grow_stacked": gpt_grow_stacked, "deq": deq}


def write(out: Path, name: str) -> Path:
    """Writes a model and its inputs, unless they are there; the model's path."""
    path = out / f"{name}.onnx"
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        weights = Weights()
        text, inputs = MODELS[name](weights)
        model = onnx.parser.parse_model(text)
        tensors = (onnx.numpy_helper.from_array(value, key) for key, value in weights.items())
        model.graph.initializer.extend(tensors)
        np.savez(out / f"{name}.npz", **inputs)
        part = path.with_suffix(".part")
        onnx.save(model, part)
        part.rename(path)
    return path


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(MODELS):
        sys.exit(__doc__)
    for chosen in sys.argv[2:] or MODELS:
        print(write(Path(sys.argv[1]), chosen))
