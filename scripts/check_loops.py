"""Checks the innermost loops of models' C text: no division, no bounds test, no call.
usage: python check_loops.py HEDDLE MODEL_OR_FOLDER ... [--show]

A *place* is an integer that loop variables decide: no part of it comes from memory. In the innermost
loops of operators these are findings:
- division: an integer is divided, or its remainder taken, and no part of it comes from memory;
- test: a place is compared with what does not come from memory, clamped by a minimum or maximum, or
  looked up with a check; also a choice by such a comparison in front of the loop;
- call: a function is called that is not inlined, of the C library or of the text.

Tests that memory decides are the model's own and stay: an index that was read must be checked, and a
choice by data is part of the result. So are divisions of data. A loop is innermost if there is none in
it and it calls no function that has one. Loops of the main program launch operators and so are none.

Exit status 0 only if no model has findings and the check finds what it must in texts of its own."""
import argparse
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent

# Functions of the C library that compilers replace by instructions.
INSTRUCTIONS = {name + suffix for name in ("fabs", "sqrt", "floor", "ceil", "trunc", "rint", "fma")
                for suffix in ("", "f")} | {"isnan", "isinf"}
# Macros that call nothing, and what is no expression.
MACROS = {"HEDDLE_LIKELY", "HEDDLE_UNLIKELY"}
# The place of a vector.
VECTOR = re.compile(r"\((?:const )?heddle_(?:float|double)_\d+ \*\)")
OPERATOR = re.compile(r"HEDDLE_OUTLINE void (op\d+)\((.*)\) \{$")
DEFINED = re.compile(r"HEDDLE_(INLINE|OUTLINE) [^;(]*?\b(heddle_(?:\w|##)+)\(")
LOOP = re.compile(r"(?:#pragma .*)?(?:for|while) \((.*?)\) ?(\{|[^()]*[^{]*;)$")
DECLARED = re.compile(r"(?:static )?(?:const )?(\w+) (?:\*(?:const |restrict )?)?(\w+)(\[.*\])?(?: = (.*))?$")
TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d[\w.]*(?:(?<=e)[+-]\d+f?)?|[<>=!]=|[-+*/]=|<<|>>|->|&&|\|\||\+\+|--|\S")
TYPES = {"void", "float", "double"} | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
# Binary operators by how strongly they bind.
STRENGTH = {operator: strength for strength, operators in enumerate((
    "||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")) for operator in operators.split()}
COMPARISONS = {"<", ">", "<=", ">=", "==", "!="}
CLAMP = re.compile(r"heddle_(min|max)_[iu]\d+$")
DIVIDING = re.compile(r"heddle_(div|mod|rem)_[iu]\d+$")


@dataclass(frozen=True)
class Value:
    """What decides an expression: loop variables, memory, both or neither."""

    varies: bool = False
    reads: bool = False
    is_float: bool = False
    # A comparison, or made of some.
    is_test: bool = False

    def __or__(self, other: "Value") -> "Value":
        return Value(self.varies or other.varies, self.reads or other.reads,
                     self.is_float or other.is_float, self.is_test or other.is_test)

    @property
    def is_place(self) -> bool:
        return self.varies and not self.reads and not self.is_float


class Expression:
    """Reads an expression: its value, and what is found in it."""

    def __init__(self, text: str, names: dict[str, Value], functions: "Functions"):
        self.tokens, self.at = TOKEN.findall(VECTOR.sub("", text)), 0
        self.names, self.functions = names, functions
        self.findings: set[str] = set()
        self.has_loop = False

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or wanted and token != wanted:
            raise ValueError(f"{wanted or 'an operand'} is missing in {' '.join(self.tokens)}")
        self.at += 1
        return token

    def whole(self) -> Value:
        """All of the text: expressions between commas and assignments."""
        value = self.choice()
        while self.peek() in {",", "=", "+=", "-=", "*=", "/="}:
            self.take()
            value = value | self.choice()
        if self.peek():
            raise ValueError(f"{self.peek()} is left of {' '.join(self.tokens)}")
        return value

    def choice(self) -> Value:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        if condition.is_test and condition.is_place:
            self.findings.add("test")
        left = self.choice()
        self.take(":")
        return replace(condition, is_float=False, is_test=False) | left | self.choice()

    def binary(self, least: int) -> Value:
        left = self.unary()
        while STRENGTH.get(self.peek(), -1) >= least:
            operator = self.take()
            right = self.binary(STRENGTH[operator] + 1)
            both = left | right
            if operator in COMPARISONS:
                if both.is_place:
                    self.findings.add("test")
                both = replace(both, is_float=False, is_test=True)
            elif operator in "/%" and not both.is_float and not both.reads:
                self.findings.add("division")
            left = both
        return left

    def unary(self) -> Value:
        if self.peek() in {"-", "+", "!", "~", "*", "&", "++", "--"}:
            reads = self.take() == "*"
            value = self.unary()
            return replace(value, reads=value.reads or reads)
        if self.peek() == "(" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] in TYPES:
            self.take()
            is_float = self.take() in {"float", "double"}
            self.take(")")
            return replace(self.unary(), is_float=is_float)
        return self.operand()

    def operand(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.choice()
            self.take(")")
        elif token[0].isdigit() or token[0] == ".":
            value = Value(is_float="." in token or token.endswith("f") or "e" in token)
        elif self.peek() == "(":
            value = self.call(token)
        else:
            value = self.names.get(token, Value(is_float=token in {"INFINITY", "NAN"}))
        while self.peek() in {"[", ".", "->", "++", "--"}:
            if self.take() == "[":
                value = replace(value | replace(self.choice(), is_float=False), reads=True)
                self.take("]")
            elif self.tokens[self.at - 1] in {".", "->"}:
                self.take()
                value = replace(value, reads=True)
        return value

    def call(self, name: str) -> Value:
        self.take("(")
        arguments = []
        while self.peek() != ")":
            arguments.append(self.choice())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        value = Value()
        for argument in arguments:
            value = value | argument
        if DIVIDING.match(name) and not value.reads:
            self.findings.add("division")
        if CLAMP.match(name) and value.is_place or name == "heddle_at" and not arguments[2].reads:
            self.findings.add("test")
        if self.functions.has_loop(name):
            self.has_loop = True
        elif name not in INSTRUCTIONS | MACROS and not self.functions.is_inlined(name):
            self.findings.add("call")
        if re.search(r"_[iu]\d+$|_at$", name):
            return replace(value, is_float=False)
        return value


class Functions:
    """The functions that stand in front of a text's operators."""

    def __init__(self, prelude: str):
        self.inlined, self.looped = [], []
        found = list(DEFINED.finditer(prelude))
        for one, following in zip(found, [*found[1:], None]):
            body = prelude[one.end():following.start() if following else None]
            # A macro's arguments are parts of the names that it defines.
            name = re.compile(r"\w+".join(re.split("##(?:t|f|bytes)|##", one[2])) + "$")
            if one[1] == "INLINE":
                self.inlined.append(name)
            elif re.search(r"\b(for|while) \(", body):
                self.looped.append(name)
        # Kernels, whose names macros put together.
        self.looped += [re.compile(rf"heddle_{kernel}_\w+$") for kernel in re.findall(r"HEDDLE_(?:OF|NAME)\((\w+?)\)\(", prelude)]

    def is_inlined(self, name: str) -> bool:
        return any(pattern.match(name) for pattern in self.inlined)

    def has_loop(self, name: str) -> bool:
        return any(pattern.match(name) for pattern in self.looped)


class Loop:
    """A loop that is being read: the number of braces that are open in it, and what was found."""

    def __init__(self, head: str):
        self.lines, self.open = [head], 0
        self.has_loop, self.findings = False, set()


class Operator:
    """Reads the function of an operator; `innermost` are its innermost loops."""

    def __init__(self, parameters: str, functions: Functions):
        self.functions = functions
        self.names = {name: Value(is_float=kind in {"float", "double"})
                      for kind, name in re.findall(r"(\w+) \*?(?:restrict )?(\w+)(?:,|$)", parameters)}
        self.loops, self.innermost = [], []

    def read(self, line: str) -> None:
        """Reads a line: it has a statement, or the head or the end of a block."""
        loop = LOOP.match(line)
        if loop:
            start, *rest = loop[1].split("; ")
            self.statement(start, varies=bool(rest))
            for outer in self.loops:
                outer.has_loop = True
            self.loops.append(Loop(line))
            if loop[2] != "{":
                self.statement(loop[2].removesuffix(";"))
                self.end()
            return
        for inner in self.loops:
            inner.lines.append(line)
        if line.startswith("}"):
            if self.loops and self.loops[-1].open == 0:
                self.end()
            elif self.loops:
                self.loops[-1].open -= 1
            line = line.removeprefix("}").removeprefix(" else").strip()
        if line.endswith("{") and self.loops:
            self.loops[-1].open += 1
        for part in line.removesuffix("{").removesuffix(";").strip().split("; "):
            part = part.removeprefix("else ")
            while part.startswith("if ("):
                condition, part = parenthesised(part.removeprefix("if "))
                self.statement(condition)
            if part and not part.startswith(("return", "#", "HEDDLE_")):
                self.statement(part)

    def end(self) -> None:
        loop = self.loops.pop()
        if not loop.has_loop:
            self.innermost.append(loop)

    def statement(self, text: str, varies: bool = False) -> None:
        """Reads declarations, assignments or calls. What is declared at the head of a loop varies in it."""
        text = text.removesuffix(" __attribute__((aligned(64)))")
        declared = DECLARED.match(text)
        if not declared:
            self.value(text)
            return
        kind, name, extent, value = declared.groups()
        parts = split(f"{name} = {value}" if value else name)
        for part in parts:
            name, _, value = part.partition(" = ")
            known = self.value(value) if value and not value.startswith("{") else Value()
            self.names[name] = replace(known, varies=known.varies or varies, is_float=kind in {"float", "double"})

    def value(self, text: str) -> Value:
        expression = Expression(text, self.names, self.functions)
        value = expression.whole()
        for loop in self.loops[-1:]:
            loop.findings |= expression.findings
            loop.has_loop |= expression.has_loop
        return value


def parenthesised(text: str) -> tuple[str, str]:
    """The text between the parentheses at its beginning, and what is behind them."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            break
    return text[1:at], text[at + 1:].strip()


def split(text: str) -> list[str]:
    """The parts between commas that no parentheses enclose."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def innermost_loops(text: str) -> list[Loop]:
    """The innermost loops of a text's operators."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if OPERATOR.match(line)), len(lines))
    functions = Functions("\n".join(lines[:first]))
    loops, operator = [], None
    for line in lines[first:]:
        begins = OPERATOR.match(line)
        if begins:
            operator = Operator(begins[2], functions)
        elif line == "}" and operator:
            loops += operator.innermost
            operator = None
        elif operator:
            operator.read(line.strip())
    return loops


# Bodies of operators, and what must be found in them.
CASES = [
    ("", "b1[v0] = b0[v0] / b0[v0 + 1];"),
    ("", "b1[v0] = heddle_max_f32(b0[v0], 0.5f);"),
    ("", "b1[v0] = fabsf(b0[v0]) / v9;"),
    ("", "heddle_float_64 x = *(const heddle_float_64 *)(b0 + v0);\nHEDDLE_IN_REGISTER(x);\n*(heddle_float_64 *)&b1[v0] = x / v9;"),
    ("division", "heddle_float_64 x = *(const heddle_float_64 *)(b0 + v0 / 7);\n*(heddle_float_64 *)&b1[v0] = x;"),
    # Memory decides.
    ("", "b1[v0] = (b2[v0] < 3) ? b0[v0] : 0.0f;"),
    ("", "b1[v0] = (v0 < b2[v9]) ? b0[v0] : 0.0f;"),
    ("", "b1[v0] = b0[heddle_at(env, site, b2[v0], 7)];"),
    ("", "b2[v0] = heddle_div_i64(b2[v0], 7);"),
    ("division", "b1[v0] = b0[heddle_div_i64(v0, 7)];"),
    ("division", "b1[v0] = b0[v0 / 7];"),
    ("division", "b1[v0] = b0[v0 % v8];"),
    ("division", "const int64_t t1 = ((v0 * 4) + 3);\nb1[v0] = b0[heddle_mod_i64(t1, 5)];"),
    ("test", "b1[v0] = (v0 < 7) ? b0[v0] : 0.0f;"),
    ("test", "const uint8_t t1 = ((v0 + v8) >= 7);\nb1[v0] = t1 & b2[v0];"),
    ("test", "if (v0 == v8) {\nb1[v0] = 0.0f;\n}"),
    ("test", "b1[v0] = b0[heddle_min_i64(v0 + 1, 7)];"),
    ("test", "b1[v0] = b0[heddle_at(env, site, v0 + v8, 7)];"),
    ("call", "b1[v0] = sinf(b0[v0]);"),
    ("call", "b1[v0] = heddle_slow_f32(b0[v0]);"),
    ("call division", "b1[v0] = powf(b0[v0 % 2], 2.0f);"),
    ("test", "const uint8_t t1 = (v0 < 7);\nfor (int64_t v1 = 0; v1 < 9; v1++) {\nb1[v1] = t1 ? b0[v1] : 0.0f;\n}"),
    # A loop around others is none of these, and neither is one that calls a function with a loop.
    ("", "const int64_t t1 = heddle_div_i64(v0, 7);\nfor (int64_t v1 = 0; v1 < 9; v1++) {\nb1[v1] = b0[t1 + v1];\n}"),
    ("", "const int64_t t1 = v0 % 7;\nfor (int64_t c = 0; c < 9; c++) sum[c] = b0[t1 + c];"),
    (None, "heddle_turned_4(v0 % 7, &b1[v0]);"),
]
PRELUDE = """HEDDLE_INLINE float heddle_max_##t(float a, float b) { return a > b ? a : b; }
HEDDLE_INLINE int64_t heddle_at(const heddle_env *env, uint32_t site, int64_t i, int64_t size) {
HEDDLE_INLINE int64_t heddle_div_##t(int64_t a, int64_t b) {
HEDDLE_INLINE int64_t heddle_mod_##t(int64_t a, int64_t b) {
HEDDLE_INLINE int64_t heddle_min_##t(int64_t a, int64_t b) {
HEDDLE_OUTLINE float heddle_slow_f32(float a) { return a; }
HEDDLE_OUTLINE void heddle_turned_##bytes(int64_t n, float *a) {
  for (int64_t i = 0; i < n; i++) a[i] = 0;
}
HEDDLE_OUTLINE void op0(const heddle_env *env, const float *restrict b0, float *restrict b1, const int64_t *restrict b2, const int64_t v8, const float v9) {
  for (int64_t v0 = 0; v0 < v8; v0++) {
"""


def check_itself() -> None:
    """Fails if the check does not find what it must."""
    for wanted, body in CASES:
        loops = innermost_loops(f"{PRELUDE}{indent(body, '    ')}\n  }}\n}}\n")
        found = " ".join(sorted(loops[0].findings)) if len(loops) == 1 else None
        if found != wanted:
            sys.exit(f"error: {found!r} was found instead of {wanted!r} in\n{body}")


def models_in(places: list[Path]) -> list[Path]:
    """The models of files and folders."""
    found = []
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        found += [file for file in files if file.suffix in {".onnx", ".heddle", ".hl"}]
    return found


def main() -> int:
    """Prints a row for each model with the number of its innermost loops and of those with findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("heddle")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--show", action="store_true", help="print the loops with findings")
    args = parser.parse_args()
    sys.setrecursionlimit(100_000)  # Expressions may nest deeply.
    check_itself()
    passed = failed = 0
    for model in models_in(args.models):
        # The number of threads is part of the text.
        command = [args.heddle, "compile", model, "--emit", "source", "--threads", "2"]
        done = subprocess.run(command, capture_output=True, text=True)
        loops = innermost_loops(done.stdout)
        bad = [loop for loop in loops if loop.findings]
        kinds = [(kind, sum(kind in loop.findings for loop in bad)) for kind in ("division", "test", "call")]
        row = f"{str(model):50} {len(loops):5} loops" + "".join(f", {count} with a {kind}" for kind, count in kinds if count)
        if done.returncode:
            row += f" error: {done.stderr.splitlines()[0]}"
        good = not bad and not done.returncode
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok    ' if good else 'FAILED'} {row}", flush=True)
        for loop in bad if args.show else []:
            print("", f"# {', '.join(sorted(loop.findings))}", *loop.lines, sep="\n    ")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
