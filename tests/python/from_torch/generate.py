"""Random functions of plain Python on tensors, as source: loops, branches, early exits, recursion, over arrays and whole numbers."""

import random

MODULE = "import torch\nimport heddle\n\n\n"


class Generator:
    """One function. Arrays stay in [-4, 4], whole numbers small, and loops end."""

    def __init__(self, seed):
        self.rng, self.lines, self.names = random.Random(seed), [], 0
        self.arrays, self.scalars, self.numbers = ["v", "w"], ["s"], ["k"]
        self.loops = 0

    def source(self):
        recursive = self.rng.random() < 0.25
        if recursive:
            self._recursion()
        start = len(self.lines)
        self._block(1, self.rng.randint(3, 6), in_loop=False)
        body = self.lines[start:]
        result = ", ".join([self.rng.choice(self.arrays), self.rng.choice(self.scalars), self.rng.choice(self.numbers)])
        head = self.lines[:start]
        return MODULE + "\n".join([*head, "def f(x, v, w, s, k):", *body, f"    return {result}", ""])

    def _recursion(self):
        base = self._array(["v"], ["s"], ["k"])
        step = self._array(["v"], ["s"], ["k"])
        kind = self.rng.choice(["tail", "sum", "two"])
        again = {
            "tail": f"return r({step}, s * 0.5, k - 1)",
            "sum": f"return torch.tanh(r({step}, s, k - 1) + v)",
            "two": f"return torch.tanh(r({step}, s, k - 1) - r(v, s + 0.25, k - 2))",
        }[kind]
        self.lines += [
            "@heddle.function(device=\"interp\")", "def r(v, s, k):", "    if k <= 0:", f"        return {base}", f"    {again}", "", "",
        ]
        self.recursive = True

    def _array(self, arrays=None, scalars=None, numbers=None):
        a, b = (self.rng.choice(arrays or self.arrays) for _ in range(2))
        s, k = self.rng.choice(scalars or self.scalars), self.rng.choice(numbers or self.numbers)
        choices = [
            f"torch.tanh({a} * {b})", f"torch.tanh({a} + {s})", f"torch.clamp({a} - {b}, -4, 4)", f"{a} * 0.75", f"torch.where({a} > {s}, {a}, {b})",
            f"torch.tanh({a} + {k} % 3)", f"-{a}", f"torch.relu({a}) * 0.5", f"{a}.flip(0)",
        ]
        if arrays is None:
            choices += [f"torch.tanh(x[{k} % 3] + {a})", f"torch.tanh(x.sum(0) * {s})"]
            if getattr(self, "recursive", False):
                choices += [f"r({a}, {s}, {k} % 4)"] * 3
        return self.rng.choice(choices)

    def _scalar(self):
        a, s, k = self.rng.choice(self.arrays), self.rng.choice(self.scalars), self.rng.choice(self.numbers)
        return self.rng.choice([
            f"torch.tanh({a}.sum())", f"torch.tanh({s} * 1.25 + 0.125)", f"{a}.max() * 0.25", f"torch.tanh({s} + {k} % 5)", f"{a}[{k} % 2].clone()",
            f"({a}.mean() if {s} > 0.3 else {s} * 0.5)",
        ])

    def _number(self):
        a, k, j = self.rng.choice(self.arrays), self.rng.choice(self.numbers), self.rng.choice(self.numbers)
        return self.rng.choice([
            f"({k} + {j}) % 7", f"({k} * 3 + 1) % 11", f"{k} // 2 + 1", f"{a}.argmax()", f"({a} > 0.1).sum()", f"min({k}, 4)", f"max({k}, {j}) % 9",
        ])

    def _test(self):
        a, s, k = self.rng.choice(self.arrays), self.rng.choice(self.scalars), self.rng.choice(self.numbers)
        one = [f"{s} > 0.137", f"{a}.sum() < 0.713", f"{k} % 2 == 0", f"{k} > 3", f"({a} > 1.03).any()", f"not {s} < -0.21"]
        if self.rng.random() < 0.3:
            return f"{self.rng.choice(one)} {self.rng.choice(['and', 'or'])} {self.rng.choice(one)}"
        return self.rng.choice(one)

    def _assign(self, indent):
        pad = "    " * indent
        kind = self.rng.random()
        if kind < 0.45:
            name = self.rng.choice(self.arrays)
            if self.rng.random() < 0.2 and name not in ("v", "w"):
                self.lines.append(f"{pad}{name} += {self._array()} * 0.125")
                self.lines.append(f"{pad}{name} = torch.clamp({name}, -4, 4)")
            else:
                self.lines.append(f"{pad}{name} = {self._array()}")
        elif kind < 0.7:
            self.lines.append(f"{pad}{self.rng.choice(self.scalars)} = {self._scalar()}")
        else:
            self.lines.append(f"{pad}{self.rng.choice(self.numbers)} = {self._number()}")

    def _define(self):
        """New variables in front of a compound statement, so that all paths have them."""
        kind = self.rng.random()
        self.names += 1
        if kind < 0.4:
            name, value, where = f"a{self.names}", f"({self._array()}).clone()", self.arrays
        elif kind < 0.7:
            name, value, where = f"s{self.names}", self._scalar(), self.scalars
        else:
            name, value, where = f"k{self.names}", str(self.rng.randint(0, 3)), self.numbers
        self.lines.append(f"    {name} = {value}")
        where.append(name)

    def _block(self, indent, count, in_loop):
        pad = "    " * indent
        for _ in range(count):
            if indent == 1 and self.rng.random() < 0.5:
                self._define()
            kind = self.rng.random()
            if kind < 0.45 or indent > 3:
                self._assign(indent)
            elif kind < 0.65:
                self.lines.append(f"{pad}if {self._test()}:")
                self._block(indent + 1, self.rng.randint(1, 2), in_loop)
                if in_loop and self.rng.random() < 0.25:
                    self.lines.append(pad + "    " + self.rng.choice(["break", "continue"]))
                if self.rng.random() < 0.6:
                    self.lines.append(f"{pad}else:")
                    self._block(indent + 1, self.rng.randint(1, 2), in_loop)
            elif kind < 0.8:
                self.loops += 1
                bound = self.rng.choice([f"{self.rng.choice(self.numbers)} % 5", "k % 4 + 1", "3"])
                self.lines.append(f"{pad}for i{self.loops} in range({bound}):")
                self._block(indent + 1, self.rng.randint(1, 3), True)
            elif kind < 0.9:
                self.loops += 1
                row = f"row{self.loops}"
                self.lines.append(f"{pad}for {row} in x:")
                name = self.rng.choice(self.arrays)
                self.lines.append(f"{pad}    {name} = torch.tanh({name} * 0.5 + {row})")
                self._block(indent + 1, self.rng.randint(0, 2), True)
            else:
                self.loops += 1
                count_name = f"n{self.loops}"
                self.lines.append(f"{pad}{count_name} = 0")
                self.lines.append(f"{pad}while {count_name} < {self.rng.choice(self.numbers)} % 6 and ({self._test()}):")
                self.lines.append(f"{pad}    {count_name} = {count_name} + 1")
                self._block(indent + 1, self.rng.randint(1, 2), True)
            if indent == 1 and self.rng.random() < 0.06:
                self.lines.append(f"{pad}if {self._test()}:")
                self.lines.append(f"{pad}    return {self.rng.choice(self.arrays)}, {self.rng.choice(self.scalars)}, {self.rng.choice(self.numbers)}")
