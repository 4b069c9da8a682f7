"""Every word of two constructs over loop, if, call, scan and recursion, and of three over the first
three, each wrapping the next around one small step: 25 + 27 programs."""
from itertools import product

import numpy as np

from program import PROGRAMS, Program

TYPES = "float[2] x, int64 n, float[2] b"


class Word:
    """Builds the text and the plain-Python twin of one word, outermost construct first."""

    def __init__(self, layers):
        self.functions, self.name = [], "_in_".join(reversed(layers))
        if "recursion" in layers:
            self.name += "_recursive"
        body, self.twin = self.build(list(layers), "x", 0)
        self.text = f"({TYPES}) => (float[2] y) {{\n{body}  y = Identity(z0)\n}}"

    def build(self, layers, x, depth):
        """(text that computes z{depth} from the value x, the same as a Python function)."""
        if not layers:
            return f"  z{depth} = Sub(b, {x})\n", lambda x, n, b: b - x
        return getattr(self, layers[0])(layers[1:], x, depth)

    def loop(self, rest, x, d):
        body, inner = self.build(rest, f"s{d}", d + 1)

        def twin(x, n, b):
            for i in range(n):
                x = inner(x, n, b) + i
            return x
        return f"""  z{d} = Loop <body = loop{d} (int64 i{d}, bool c{d}, float[2] s{d}) =>
      (bool e{d}, float[2] t{d}) {{
  e{d} = Identity(c{d})  f{d} = Cast <to = 1> (i{d})
{body}  t{d} = Add(z{d + 1}, f{d}) }}> (n, "", {x})
""", twin

    def scan(self, rest, x, d):
        body, inner = self.build(rest, f"s{d}", d + 1)

        def twin(x, n, b):
            last = []
            for row in (1, 2, 3):
                x = inner(x, n, b) + row
                last.append(x)
            return np.sum(last, axis=0)
        return f"""  rows{d} = Constant <value = float[3, 1] {{1, 2, 3}}> ()
  axis{d} = Constant <value = int64[1] {{0}}> ()
  end{d}, all{d} = Scan <num_scan_inputs = 1, body = scan{d} (float[2] s{d}, float[1] r{d}) =>
      (float[2] t{d}, float[2] o{d}) {{
{body}  t{d} = Add(z{d + 1}, r{d})  o{d} = Identity(t{d}) }}> ({x}, rows{d})
  z{d} = ReduceSum <keepdims = 0> (all{d}, axis{d})
""", twin

    def branch(self, rest, x, d):
        body, inner = self.build(rest, x, d + 1)

        def twin(x, n, b):
            return inner(x, n, b) + b if x.sum() > 1.5 else x + 1
        return f"""  sum{d} = ReduceSum <keepdims = 0> ({x})
  lim{d} = Constant <value_float = 1.5> ()  one{d} = Constant <value_float = 1.0> ()
  c{d} = Greater(sum{d}, lim{d})
  z{d} = If <then_branch = then{d} () => (float[2] t{d}) {{
{body}  t{d} = Add(z{d + 1}, b) }}, else_branch = else{d} () => (float[2] u{d}) {{
  u{d} = Add({x}, one{d}) }}> (c{d})
""", twin

    def call(self, rest, x, d):
        body, inner = self.build(rest, "x", d + 1)
        self.functions.append(f"""<domain: "local", opset_import: ["": 17, "local": 1]>
f{d} (x, n, b) => (y) {{
{body}  half = Constant <value_float = 0.5> ()  y = Mul(z{d + 1}, half)
}}""")
        return f"  z{d} = local.f{d} ({x}, n, b)\n", lambda x, n, b: inner(x, n, b) * 0.5

    def recursion(self, rest, x, d):
        body, inner = self.build(rest, "x", d + 1)
        self.functions.append(f"""<domain: "local", opset_import: ["": 17, "local": 1]>
r{d} (x, n, b) => (y) {{
  nil = Constant <value_int = 0> ()  stop = LessOrEqual(n, nil)
  y = If <then_branch = base{d} () => (q) {{ q = Identity(x) }}, else_branch = step{d} () => (q) {{
{body}  one = Constant <value_int = 1> ()  m = Sub(n, one)
  p = local.r{d} (z{d + 1}, m, b)  f = Cast <to = 1> (n)  q = Add(p, f) }}> (stop)
}}""")

        def twin(x, n, b):
            return x if n <= 0 else twin(inner(x, n, b), n - 1, b) + np.float32(n)
        return f"  z{d} = local.r{d} ({x}, n, b)\n", twin


def register():
    """Adds the programs; the layer called `branch` here is the If."""
    pairs = product(("loop", "branch", "call", "scan", "recursion"), repeat=2)
    triples = product(("loop", "branch", "call"), repeat=3)
    inputs = [([1, 2], 3, [0.5, 4]), ([5, -6], 1, [1, 1]), ([2, 1], 0, [3, 3])]
    for layers in (*pairs, *triples):
        word = Word(layers)
        text = "\n".join([word.text, *word.functions])
        PROGRAMS.append(Program("nest_" + word.name, text, word.twin, inputs))
