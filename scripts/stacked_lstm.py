"""Writes a stacked LSTM in one Loop, batch 1, as ONNX: the model of docs/scheduler.md, "Layers on different units".
usage: python stacked_lstm.py LAYERS HIDDEN STEPS OUT.onnx      STEPS: a number, or a name for any number"""
import sys

import numpy as np
import onnx

CELL = """zx{k} = MatMul(x{k}, Wx{k})  zh{k} = MatMul(h{k}, Wh{k})  zs{k} = Add(zx{k}, zh{k})
    z{k} = Add(zs{k}, b{k})  zi{k}, zf{k}, zg{k}, zo{k} = Split <axis = 1> (z{k})
    i{k} = Sigmoid(zi{k})  f{k} = Sigmoid(zf{k})  g{k} = Tanh(zg{k})  o{k} = Sigmoid(zo{k})
    kept{k} = Mul(f{k}, c{k})  new{k} = Mul(i{k}, g{k})  cn{k} = Add(kept{k}, new{k})
    t{k} = Tanh(cn{k})  x{n} = Mul(o{k}, t{k})
    """


def stacked_lstm(layers: int, hidden: int, steps: str) -> onnx.ModelProto:
    cells = "".join(CELL.replace("{k}", str(k)).replace("{n}", str(k + 1)) for k in range(layers))
    states = [f"{s}{k}" for s in "hc" for k in range(layers)]
    nexts = [f"x{k + 1}" for k in range(layers)] + [f"cn{k}" for k in range(layers)]
    size = f"float[1, {hidden}]"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 13]>
      stacked_lstm (float[{steps}, 1, {hidden}] x) => ({size} y, float[{steps}, 1, {hidden}] all)
          <int64[1] zero = {{0}}, int64[1] one = {{1}}, float nil = {{0}},
           int64[2] wide = {{1, {hidden}}}> {{
        dims = Shape(x)  long = Slice(dims, zero, one)  count = Squeeze(long)
        start = Expand(nil, wide)
        {", ".join("last_" + s for s in states)}, all = Loop <body = step
            (int64 n, bool go, {", ".join(f"{size} {s}" for s in states)}) =>
            (bool on, {", ".join(f"{size} {s}" for s in nexts)}, {size} out) {{
          on = Identity(go)  x0 = Gather(x, n)
          {cells} out = Identity(x{layers})
        }}> (count, "", {", ".join(["start"] * len(states))})
        y = Identity(last_h{layers - 1})
      }}""")
    r, bound = np.random.default_rng(1), 1 / np.sqrt(hidden)
    for k in range(layers):
        wide = 4 * hidden
        for kind, shape in (("Wx", (hidden, wide)), ("Wh", (hidden, wide)), ("b", (wide,))):
            w = r.uniform(-bound, bound, shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(w, f"{kind}{k}"))
    return model


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    onnx.save(stacked_lstm(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]), sys.argv[4])
