"""Builds the neutral graph of docs/trace.md from PyTorch's values."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .. import _errors, _native, _values

TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8", torch.uint8: "u8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}

_COMPLEX = ("c64", "c128")


class Place(NamedTuple):
    """A line of the user's Python."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def unsupported(message: str, place: Place | None = None, hint: str | None = None) -> _errors.Unsupported:
    """The error for what can't be recorded, with its line."""
    error = _errors.Unsupported(f"{place}: {message}" if place else message)
    error.place, error.hint = str(place) if place else None, hint
    return error


class ChangesConstant(_errors.Unsupported):
    """A function changes in place what it was to read as a constant."""


def type_of(dtype: torch.dtype, place: Place | None = None) -> str:
    """Name of an element type."""
    name = TYPES.get(dtype)
    if name is None:
        raise unsupported(f"arrays of {dtype} are not supported", place)
    return name


def size_of(value: Any, place: Place | None = None) -> int | str:
    """A size: a number, or an expression in the names of sizes."""
    if isinstance(value, int):
        return value
    expression = value if isinstance(value, sympy.Basic) else value.node.expr
    if expression.is_Integer:
        return int(expression)
    return _text(expression, place)


def _text(e: sympy.Basic, place: Place | None) -> str:
    kind = type(e).__name__
    if e.is_Integer:
        return str(int(e)) if e >= 0 else f"(0 - {-int(e)})"
    if e.is_Symbol:
        return e.name
    parts = [_text(a, place) for a in e.args]
    if e.is_Add:
        return "(" + " + ".join(parts) + ")"
    if e.is_Mul and all(not a.is_Rational or a.is_Integer for a in e.args):
        return "(" + " * ".join(parts) + ")"
    if kind in ("FloorDiv", "CleanDiv"):
        return f"({parts[0]} // {parts[1]})"
    if kind in ("Mod", "PythonMod"):
        return f"({parts[0]} % {parts[1]})"
    if kind in ("Max", "Min"):
        text = parts[0]
        for part in parts[1:]:
            text = f"{kind.lower()}({text}, {part})"
        return text
    if e.is_Pow and e.args[1].is_Integer and 0 < e.args[1] <= 8:
        return "(" + " * ".join([parts[0]] * int(e.args[1])) + ")"
    if kind == "CeilToInt" or kind == "TruncToInt" or kind == "FloorToInt":
        return parts[0]
    raise unsupported(f"a size is `{e}`, which has no form in Heddle", place)


def names_in(size: int | str | sympy.Basic | Any) -> set[str]:
    """The names of sizes in a size."""
    if isinstance(size, int):
        return set()
    expression = size if isinstance(size, sympy.Basic) else size.node.expr
    return {s.name for s in expression.free_symbols}


def scalar(value: Any) -> dict[str, Any]:
    """A number, text or None of Python as an argument."""
    if value is None:
        return {"none": True}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        if math.isfinite(value):
            return {"float": value}
        return {"float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, torch.dtype):
        return {"dtype": type_of(value)}
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return {"str": str(value)}
    if isinstance(value, str):
        return {"str": value}
    raise unsupported(f"{type(value).__name__} can't be an argument of an operator")


def order_in_memory(tensor: torch.Tensor) -> list[int] | None:
    """The order of axes in which a tensor's elements lie one after the other; None if it is not known to fill its memory from the start."""
    known, rank = statically_known_true, tensor.dim()
    if not known(tensor.storage_offset() == 0) or not known(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()):
        return None
    order: list[int] = []
    behind: Any = 1
    # From the innermost axis on; one of size 1 may stand anywhere.
    for _ in range(rank):
        rest = [a for a in reversed(range(rank)) if a not in order]
        found = next((a for a in rest if known(tensor.stride(a) == behind)), next((a for a in rest if known(tensor.shape[a] == 1)), None))
        if found is None:
            return None
        order.append(found)
        behind = behind * tensor.shape[found]
    return order[::-1]


class Graph:
    """A graph under construction. Ids are its own. Sizes stay PyTorch's until `load`, since what equals what is known at the end."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self._ids = 0

    def value(self, name: str, dtype: str, shape: Any = ()) -> dict[str, Any]:
        """A new value, which nothing defines yet."""
        self._ids += 1
        return {"id": self._ids - 1, "name": name, "type": dtype, "shape": list(shape)}

    def tensor(self, name: str, tensor: torch.Tensor, place: Place | None = None) -> dict[str, Any]:
        """A new value of a tensor's type and shape."""
        return self.value(name, type_of(tensor.dtype, place), tensor.shape)

    def node(
        self, target: str, args: list[Any], kwargs: dict[str, Any], results: list[dict[str, Any]], place: Place | None,
    ) -> None:
        """Adds a node."""
        where = None if place is None else {"file": place.file, "line": place.line, "text": place.text}
        self.nodes.append({"target": target, "args": args, "kwargs": kwargs, "results": results, "place": where})

    def json(self) -> dict[str, Any]:
        """The graph, without nodes that nothing reads."""
        read: set[int] = set()
        names: set[str] = set()
        _read_by(self.outputs, read, names)
        kept = []
        for node in reversed(self.nodes):
            if any(r["id"] in read or _begins(r, names) for r in node["results"]):
                _read_by(node["args"], read, names)
                _read_by(list(node["kwargs"].values()), read, names)
                kept.append(node)
        self.nodes = kept[::-1]
        return {"inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}


def _read_by(args: list[Any], values: set[int], names: set[str]) -> None:
    """Collects the values, and the names of sizes, that arguments read."""
    for arg in args:
        if "value" in arg:
            values.add(arg["value"])
        elif "list" in arg:
            _read_by(arg["list"], values, names)
        elif "size" in arg:
            names |= names_in(arg["size"]) if not isinstance(arg["size"], str) else {arg["size"]}
        elif "graph" in arg:
            inner = arg["graph"]
            for node in inner["nodes"]:
                _read_by([*node["args"], *node["kwargs"].values()], set(), names)
            _read_by(inner["outputs"], set(), names)


def _begins(result: dict[str, Any], names: set[str]) -> bool:
    """Whether a name of a size may begin at a result."""
    if result["type"] == "size":
        return result["name"] in names
    return any(not isinstance(s, (int, str)) and names_in(s) & names for s in result["shape"] if _is_open(s))


def _is_open(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and not size.node.has_hint()


class Constants:
    """Tensors that a graph reads as constants, each once. They are kept, and not copied."""

    def __init__(self) -> None:
        #: The tensors as they were given, whose versions say if they changed.
        self.given: dict[str, torch.Tensor] = {}
        self._names: dict[tuple[Any, ...], str] = {}

    def name(self, tensor: torch.Tensor, name: str = "constant") -> str:
        """The constant's name."""
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device)
        if tensor.numel() == 0 or key not in self._names:
            unique = name if name not in self.given else f"{name}.{len(self.given)}"
            self._names[key], self.given[unique] = unique, tensor
            return unique
        return self._names[key]

    def number(self, value: complex) -> str:
        """The name of a complex number of Python as a constant."""
        # The text tells 0 from -0.
        key = ("number", repr(value))
        if key not in self._names:
            name = f"number.{len(self.given)}"
            with torch.utils._python_dispatch._disable_current_modes():
                self._names[key], self.given[name] = name, torch.tensor(value, dtype=torch.complex128)
        return self._names[key]

    def arrays(self) -> dict[str, Any]:
        """The constants as arrays of NumPy on the same memory."""
        return {name: _values.as_array(name, "", tensor.detach()) for name, tensor in self.given.items()}


class Source:
    """Neutral graphs, of which models are made: with each, constants are read anew."""

    def __init__(self, functions: dict[str, Any], entry: str, constants: Constants) -> None:
        self.text = json.dumps(functions, default=size_of)
        self.entry, self.constants = entry, constants
        #: Positions of the entry's inputs and outputs that are complex: the model takes and gives pairs.
        self.pairs = pairs_of(functions[entry], constants)

    def model(self) -> _native.Model:
        """The model, with the constants as they are now."""
        text = f'{{"version": 1, "entry": {json.dumps(self.entry)}, "functions": {self.text}}}'
        return _native.load_trace(text, self.constants.arrays())

    def functions(self, prefix: str, constants: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """The functions with a prefix before their names, and other arguments in the place of constants."""

        def renamed(value: Any) -> Any:
            if isinstance(value, list):
                return [renamed(v) for v in value]
            if not isinstance(value, dict):
                return value
            if value.keys() == {"constant"}:
                return constants[value["constant"]]
            if value.keys() == {"function"}:
                return {"function": prefix + value["function"]}
            return {k: renamed(v) for k, v in value.items()}

        return {prefix + name: renamed(made) for name, made in json.loads(self.text).items()}


def pairs_of(function: dict[str, Any], constants: Constants) -> tuple[frozenset[int], frozenset[int]]:
    """Positions of a function's complex inputs and outputs."""
    made = {v["id"]: v["type"] for v in (*function["inputs"], *(r for node in function["nodes"] for r in node["results"]))}
    arrays = [o for o in function["outputs"] if "none" not in o]

    def is_complex(output: dict[str, Any]) -> bool:
        if "constant" in output:
            return constants.given[output["constant"]].is_complex()
        return made.get(output.get("value")) in _COMPLEX

    inputs = (i for i, value in enumerate(function["inputs"]) if value["type"] in _COMPLEX)
    outputs = (i for i, o in enumerate(arrays) if is_complex(o))
    return frozenset(inputs), frozenset(outputs)
