"""Small networks of the kinds that the papers measure, with sizes that divide nothing, in ONNX's test layout.
usage: python make_models.py OUT

OUT/NAME/model.onnx beside test_data_set_N; expected values come from numpy in float64. The demo's
three models are among them."""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from demo_models import DEMOS, Demo, sigmoid  # noqa: E402
from onnx_case import write_case  # noqa: E402


def stacked_lstm() -> Demo:
    """Three LSTM layers in one Loop; length and batch are named sizes."""
    layers, hidden = 3, 40
    r, bound = np.random.default_rng(11), 1 / np.sqrt(hidden)
    w = {f"{kind}{k}": r.uniform(-bound, bound, shape)
         for k in range(layers)
         for kind, shape in (("Wx", (hidden, 4 * hidden)), ("Wh", (hidden, 4 * hidden)),
                             ("b", (4 * hidden,)))}
    cell = """zx{k} = MatMul(x{k}, Wx{k})  zh{k} = MatMul(h{k}, Wh{k})  zs{k} = Add(zx{k}, zh{k})
        z{k} = Add(zs{k}, b{k})  zi{k}, zf{k}, zg{k}, zo{k} = Split <axis = 1> (z{k})
        i{k} = Sigmoid(zi{k})  f{k} = Sigmoid(zf{k})  g{k} = Tanh(zg{k})  o{k} = Sigmoid(zo{k})
        kept{k} = Mul(f{k}, c{k})  new{k} = Mul(i{k}, g{k})  cn{k} = Add(kept{k}, new{k})
        t{k} = Tanh(cn{k})  x{n} = Mul(o{k}, t{k})
        """
    cells = "".join(cell.replace("{k}", str(k)).replace("{n}", str(k + 1)) for k in range(layers))
    states = [f"{s}{k}" for s in "hc" for k in range(layers)]
    nexts = [f"x{k + 1}" for k in range(layers)] + [f"cn{k}" for k in range(layers)]
    size = f"float[N, {hidden}]"
    text = f"""(float[T, N, {hidden}] x) => (float[N, {hidden}] y, float[T, N, {hidden}] all)
              <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, float nil = {{0}},
               int64[1] width = {{{hidden}}}> {{
      dims = Shape(x)  long = Slice(dims, zero, one)  steps = Squeeze(long)
      batch = Slice(dims, one, two)  wide = Concat <axis = 0> (batch, width)
      start = Expand(nil, wide)
      {", ".join("last_" + s for s in states)}, all = Loop <body = step
          (int64 n, bool go, {", ".join(f"{size} {s}" for s in states)}) =>
          (bool on, {", ".join(f"{size} {s}" for s in nexts)}, {size} out) {{
        on = Identity(go)  x0 = Gather(x, n)
        {cells} out = Identity(x{layers})
      }}> (steps, "", {", ".join(["start"] * len(states))})
      y = Identity(last_h{layers - 1})
    }}"""
    sets = [{"x": r.standard_normal((t, n, hidden)).astype(np.float32)}
            for t, n in ((7, 1), (1, 3), (13, 5), (130, 1))]

    def twin(w, x):
        h = [np.zeros(x.shape[1:]) for _ in range(layers)]
        c, out = [v.copy() for v in h], []
        for v in x:
            for k in range(layers):
                z = v @ w[f"Wx{k}"] + h[k] @ w[f"Wh{k}"] + w[f"b{k}"]
                i, f, g, o = np.split(z, 4, 1)
                c[k] = sigmoid(f) * c[k] + sigmoid(i) * np.tanh(g)
                v = h[k] = sigmoid(o) * np.tanh(c[k])
            out.append(v)
        return [out[-1], np.stack(out)], f"{len(x)} steps"
    weights = {k: v.astype(np.float32) for k, v in w.items()}
    return Demo("stacked_lstm", "Loop over steps", text, weights, sets, twin)


def kv_attention() -> Demo:
    """One attention layer that feeds its output back, with keys and values kept in a cache."""
    heads, width, longest = 3, 10, 17
    r = np.random.default_rng(12)
    w = {name: r.standard_normal((heads, width, width)) / np.sqrt(width)
         for name in ("Wq", "Wk", "Wv", "Wo")}
    shape = f"float[1, {heads}, 1, {width}]"
    cache = f"float[1, {heads}, {longest}, {width}]"
    w["scale"] = np.array(width ** -0.5)
    w["never"] = np.array(-np.inf)
    w["places"] = np.arange(longest, dtype=np.float64)
    w["empty"] = np.zeros((1, heads, longest, width))
    text = f"""({shape} x, int64 steps) => ({shape} y, {cache} keys, {cache} values)
              <int64[1] one = {{1}}, int64[1] axis = {{2}}, bool yes = {{1}}> {{
      y, keys, values = Loop <body = step
          (int64 n, bool go, {shape} xp, {cache} kp, {cache} vp) =>
          (bool on, {shape} xn, {cache} kn, {cache} vn) {{
        on = Identity(go)
        q = MatMul(xp, Wq)  k = MatMul(xp, Wk)  v = MatMul(xp, Wv)
        here = Reshape(n, one)  place = Cast <to = 1> (here)
        mine = Equal(places, place)  mask = Unsqueeze(mine, last)
        kn = Where(mask, k, kp)  vn = Where(mask, v, vp)
        kt = Transpose <perm = [0, 1, 3, 2]> (kn)  raw = MatMul(q, kt)  s = Mul(raw, scale)
        later = Greater(places, place)  masked = Where(later, never, s)
        p = Softmax <axis = -1> (masked)  a = MatMul(p, vn)  m = MatMul(a, Wo)  xn = Tanh(m)
      }}> (steps, yes, x, empty, empty)
    }}"""
    sets = [{"x": r.standard_normal((1, heads, 1, width)).astype(np.float32),
             "steps": np.array(steps)} for steps in (0, 1, 5, longest)]

    def twin(w, x, steps):
        k, v = w["empty"].copy(), w["empty"].copy()
        for n in range(int(steps)):
            q, k[:, :, n], v[:, :, n] = x @ w["Wq"], (x @ w["Wk"])[:, :, 0], (x @ w["Wv"])[:, :, 0]
            s = (q @ k.transpose(0, 1, 3, 2) * w["scale"])[..., :n + 1]
            p = np.exp(s - s.max(-1, keepdims=True))
            x = np.tanh((p / p.sum(-1, keepdims=True)) @ v[:, :, :n + 1] @ w["Wo"])
        return [x, k, v], f"{int(steps)} steps"
    weights = {k: v.astype(np.float32) for k, v in w.items()}
    weights["last"] = np.array([1])
    return Demo("kv_attention", "Loop that fills a cache", text, weights, sets, twin)


def tree_by_loop() -> Demo:
    """A tree's vector without recursion: a Loop over nodes, children first."""
    width = 24
    r = np.random.default_rng(13)
    w = {"W": r.standard_normal((2 * width, width)) * 1.1 / np.sqrt(2 * width),
         "b": r.standard_normal(width) / 10}
    text = f"""(int64[M] left, int64[M] right, float[N, {width}] leaves) => (float[{width}] root)
              <int64[1] zero = {{0}}, int64[1] one = {{1}}, bool yes = {{1}}, int64 back = {{-1}},
               int64[1] wide = {{{width}}}> {{
      inner = Shape(left)  count = Squeeze(inner)
      room = Concat <axis = 0> (inner, wide)  nil = Cast <to = 1> (zero)  more = Expand(nil, room)
      vectors = Concat <axis = 0> (leaves, more)
      total = Shape(leaves)  outer = Slice(total, zero, one)
      all = Loop <body = step
          (int64 n, bool go, float[K, {width}] vp) => (bool on, float[K, {width}] vn) {{
        on = Identity(go)
        l = Gather(left, n)  r = Gather(right, n)  vl = Gather(vp, l)  vr = Gather(vp, r)
        both = Concat <axis = 0> (vl, vr)  m = MatMul(both, W)  s = Add(m, b)  t = Tanh(s)
        row = Unsqueeze(t, zero)  here = Add(outer, n)  at = Reshape(here, pair)
        vn = ScatterND(vp, at, row)
      }}> (count, yes, vectors)
      root = Gather(all, back)
    }}"""
    sets = []
    for leaves in (2, 9, 64):
        open_nodes, left, right = list(range(leaves)), [], []
        while len(open_nodes) > 1:
            at = int(r.integers(len(open_nodes) - 1))
            left.append(open_nodes[at])
            right.append(open_nodes[at + 1])
            open_nodes[at:at + 2] = [leaves + len(left) - 1]
        sets.append({"left": np.array(left), "right": np.array(right),
                     "leaves": r.standard_normal((leaves, width)).astype(np.float32)})

    def twin(w, left, right, leaves):
        vectors = list(leaves)
        for a, b in zip(left, right):
            vectors.append(np.tanh(np.concatenate([vectors[a], vectors[b]]) @ w["W"] + w["b"]))
        return [vectors[-1]], f"{len(left)} nodes"
    weights = {k: v.astype(np.float32) for k, v in w.items()}
    weights["pair"] = np.array([1, 1])
    return Demo("tree_by_loop", "Loop over nodes", text, weights, sets, twin)


MODELS = (stacked_lstm, kv_attention, tree_by_loop, *DEMOS)


def main(out: str):
    """Writes all models."""
    for make in MODELS:
        demo = make()
        names = [p.name for p in demo.model.graph.input]
        data = [([s[n] for n in names], typed(demo, s)) for s in demo.inputs]
        write_case(Path(out, demo.name), demo.model, data, tolerance=(1e-4, 1e-5))
    print(f"{len(MODELS)} models in {out}")


def typed(demo: Demo, inputs: dict) -> list:
    """The expected outputs in the types that the graph declares."""
    values, _ = demo.expected(inputs)
    return [v if v.dtype.kind in "iub" else v.astype(np.float32) for v in map(np.asarray, values)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
