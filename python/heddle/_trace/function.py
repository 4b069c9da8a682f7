"""`@heddle.function`: plain Python, recorded once for each signature, with a function of the graph for each function that it calls."""

from __future__ import annotations

import functools
import inspect
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree
from torch.utils._sympy.printers import PythonPrinter

from . import checks, control, convert, graph, lists, operators
from .calls import Frame, call, place_of_def
from .entries import entries_of, keep
from .entry import Entry, Settings
from .flat import flatten, key_of
from .program import OPEN, Trace
from .record import FIXED_ONLY, Recorder, Region, active, hint_of
from .weights import is_foreign

_state = threading.local()


@contextmanager
def eager() -> Iterator[None]:
    """Functions run as plain Python, for a debugger."""
    before = getattr(_state, "eager", False)
    _state.eager = True
    try:
        yield
    finally:
        _state.eager = before


@dataclass(frozen=True)
class Outline:
    """An array among the arguments: its type, and its shape, in which None is a size that only the run knows."""

    dtype: torch.dtype
    shape: tuple[int | None, ...]


def outline(leaf: Any) -> Any:
    """The outline of an array; anything else itself."""
    if isinstance(leaf, torch.Tensor):
        return Outline(leaf.dtype, tuple(s if isinstance(s, int) else hint_of(s) for s in leaf.shape))
    if isinstance(leaf, np.ndarray) and leaf.dtype != object:
        return Outline(torch.from_numpy(np.empty(0, leaf.dtype)).dtype, leaf.shape)
    return leaf


class Function:
    """A function of Python that runs compiled. As a method it compiles for each object."""

    __heddle_function__ = True

    def __init__(self, function: Callable[..., Any], results: Any, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.results, self.options = function, results, options
        #: Entries by signature, for None and for objects that can't keep their own.
        self.entries: dict[Any, dict[Any, list[Entry]]] = {}
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Method(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(None, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """The program for arguments like these."""
        return self.entry(None, args, kwargs).program()

    @functools.cached_property
    def operator(self) -> Any:
        """The operator of PyTorch that a call of it is."""
        return operators.define(self.__name__)

    def _call(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return operators.in_graph(self, owner, args, kwargs)
        rec = active()
        if rec is not None:
            if not self._reads_traced():
                return call(rec, self, owner, args, kwargs)
            if self in rec.inlined:
                raise graph.unsupported(f"{self.__qualname__} calls itself, and reads variables of the function around", rec.place(),
                                        "give them as arguments")
            rec.inlined.append(self)
            try:
                return convert.convert(self.function)(*(() if owner is None else (owner,)), *args, **kwargs)
            finally:
                rec.inlined.pop()
        if getattr(_state, "eager", False):
            return self.function(*(() if owner is None else (owner,)), *args, **kwargs)
        entry, flat = self._find(owner, args, kwargs)
        if entry.weights.is_foreign() or any(map(is_foreign, flat)):
            return operators.node_call(self, owner, args, kwargs, entry.weights.now())
        return entry(flat)

    def _reads_traced(self) -> bool:
        """Whether it reads tensors of a function around that is being recorded: it is recorded in place then."""
        for cell in self.function.__closure__ or ():
            try:
                if any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves(cell.cell_contents)):
                    return True
            except ValueError:
                # A variable that is not assigned yet.
                continue
        return False

    def entry(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry:
        """What it is for arguments like these."""
        return self._find(owner, args, kwargs)[0]

    def _find(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Entry, list[Any]]:
        """The entry for arguments like these, and their leaves."""
        flat, spec = flatten(args, kwargs)
        settings = Settings.now()
        key = (settings, key_of(spec), tuple(_shape_key(leaf) for leaf in flat))
        with self._lock:
            known = entries_of(self, owner, flat)
            entries = known.get(key, ())
            for entry in entries:
                if not entry.is_outdated() and entry.matches(flat):
                    return entry, flat
            made = Entry(self, owner, args, kwargs, settings)
            keep(known, key, [*(entry for entry in entries if not entry.is_outdated()), made])
            return made, flat


class Method:
    """A function with the object that it is a method of."""

    __heddle_function__ = True

    def __init__(self, function: Function, owner: Any) -> None:
        self.__func__, self.__self__ = function, owner
        functools.update_wrapper(self, function.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__._call(self.__self__, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """The program for arguments like these."""
        return self.__func__.entry(self.__self__, args, kwargs).program()


#: Types of constants that are the same if they are equal.
_BY_VALUE = (int, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def _shape_key(leaf: Any) -> Any:
    """What decides which program runs a leaf: sizes of 0 and 1 differ from larger ones, as they do in PyTorch."""
    if isinstance(leaf, (torch.Tensor, np.ndarray)):
        return (leaf.dtype, tuple(_size_key(s) for s in leaf.shape))
    if isinstance(leaf, torch.SymInt):
        return (int, int(leaf))
    if isinstance(leaf, (float, complex)):
        # The bits: 0.0 and -0.0 differ, and no number is itself.
        return (type(leaf), struct.pack("dd", leaf.real, leaf.imag))
    if isinstance(leaf, _BY_VALUE):
        return (type(leaf), leaf)
    # An entry holds it, so that no other object has its identity.
    return id(leaf)


def _size_key(size: Any) -> int:
    if isinstance(size, int):
        return size if size < 2 else -1
    return -2 if hint_of(size) is None else int(size) if size < 2 else -1


# Programs


def record(
    function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = "auto",
    module: torch.nn.Module | None = None, lifts: Callable[[torch.Tensor], bool] = lambda tensor: False,
) -> Trace:
    """The model of a function for arguments like these. `owner` is the object that it is a method of, `module` the one whose weights it
    reads otherwise. Constants that `lifts` says are inputs behind the arguments."""
    # Another tracer may run around: its modes don't see this one.
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction(), torch._guards.tracing(None):
        return _record(function, owner, args, kwargs, dynamic_shapes, module, lifts)


def _record(
    function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, module: torch.nn.Module | None,
    lifts: Callable[[torch.Tensor], bool],
) -> Trace:
    if not isinstance(function, Function):
        function = Function(function, None, {})
    rec = Recorder(lifts)
    rec.places = convert.place_of_line
    args, kwargs = pytree.tree_map(outline, (args, kwargs))
    flat, spec = flatten(args, kwargs)
    modules = [m for m in (module, owner, *flat) if isinstance(m, torch.nn.Module)]
    for m in modules[::-1]:
        rec.names.update((id(t), name) for name, t in [*m.named_parameters(), *m.named_buffers()])
    names = _names(getattr(function, "signature", function.function), owner, args, kwargs)
    main = Frame("main", None, None)
    root = rec.region = Region(None, main)
    leaves, given, tensors, sizes, places = [], [], [], {}, {}
    for position, (leaf, name) in enumerate(zip(flat, names)):
        if not isinstance(leaf, Outline):
            leaves.append(leaf)
            given.append(leaf)
            continue
        shape = rec.symbolic(leaf.shape) if dynamic_shapes == "auto" else list(leaf.shape)
        tensor = rec.input(root, name, leaf.dtype, shape)
        for axis, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt):
                sizes[size.node.expr] = (position, axis)
                places[size.node.expr.name] = (len(tensors), axis)
        rec.given[tensor] = (main, position)
        leaves.append(OPEN)
        given.append(tensor)
        tensors.append(tensor)
    args, kwargs = pytree.tree_unflatten(given, spec)
    made = Trace(None, spec, spec, leaves)  # type: ignore[arg-type]
    try:
        with rec.recording():
            result = call(rec, function, owner, args, kwargs)
            results, made.gives = pytree.tree_flatten(result)
            for i, leaf in enumerate(results):
                if any(leaf is given[position] for position in main.changed):
                    made.same[i] = next(position for position in main.changed if leaf is given[position])
                elif isinstance(leaf, torch.Tensor):
                    made.goes.append(("result", i))
                    made.types.append((leaf.dtype, [_size_text(s) for s in leaf.shape]))
                    root.graph.outputs.append(rec.read(leaf))
                else:
                    made.fixed[i] = leaf
            for position in sorted(main.changed):
                made.goes.append(("input", position))
                made.types.append((given[position].dtype, [_size_text(s) for s in given[position].shape]))
                root.graph.outputs.append(rec.read(given[position]))
            _check(rec, root)
    except control.Unknown:
        raise graph.unsupported(f"{function.__qualname__} calls itself on every path", place_of_def(function)) from None
    except GuardOnDataDependentSymNode as error:
        place = convert.users_place(rec, error)
        raise graph.unsupported(
            f"Python asks for a number that only the run knows ({error.cond})", place,
            "compare and index with tensors; a condition of Python needs an `if` in a function that Heddle converts",
        ) from error
    except RuntimeError as error:
        if not any(part in str(error) for part in FIXED_ONLY):
            raise
        raise graph.unsupported(
            "PyTorch has a function for fixed sizes only", convert.users_place(rec, error), "heddle.compile(…, dynamic_shapes=None) fixes all sizes",
        ) from error
    _name_results(root)
    made.source = graph.Source({**rec.functions, "main": root.graph.json()}, "main", rec.constants)
    made.lists = any(isinstance(v, lists.Grown) for v in pytree.tree_leaves(result, is_leaf=lambda v: isinstance(v, lists.Grown)))
    made.guards = _guards(rec, sizes)
    made.sizes, made.opened = places, sorted(s.name for s in rec.born - set(sizes))
    made.lifted = [tensor for tensor, _, _ in main.weights.values()]
    made.read = rec.constants_read()
    made.is_foreign, made.random = rec.is_foreign, rec.random
    return made


def _check(rec: Recorder, root: Region) -> None:
    """Makes a result wait for the checks."""
    token = checks.pending(root, rec)
    if token is None:
        return
    if not root.graph.outputs:
        raise graph.unsupported("a function with an `assert` gives no array, so that nothing of it would run", rec.place())
    first = root.graph.outputs[0]
    known = {v["id"]: v for node in root.graph.nodes for v in node["results"]} | {v["id"]: v for v in root.graph.inputs}
    like = known.get(first.get("value"))
    if like is None:
        raise graph.unsupported("a function with an `assert` gives a constant, so that nothing of it would run", rec.place())
    made = root.graph.value(like["name"], like["type"], like["shape"])
    root.graph.node("check", [rec.read(token == 0), {"str": "a check does not hold"}, {"list": [first]}], {}, [made], None)
    root.graph.outputs[0] = {"value": made["id"]}


def _size_text(size: Any) -> int | str:
    return size if isinstance(size, int) else PythonPrinter().doprint(size.node.expr)


def record_module(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = "auto") -> Trace:
    """The model of a module, whose calls are converted as those in a function are."""
    function = _calling(module, type(module).__name__, module.forward)
    return record(function, None, args, kwargs, dynamic_shapes, module)


def record_callable(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = "auto") -> Trace:
    """The model of what can be called and is no function of Python: an operator of PyTorch, a `functools.partial`."""
    function = _calling(target, getattr(target, "__name__", type(target).__name__), target)
    return record(function, None, args, kwargs, dynamic_shapes)


def _calling(target: Any, name: str, signature: Callable[..., Any]) -> Function:
    """A function that calls something else."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return convert.converted_call(target, args, kwargs)

    setattr(forward, convert.MARK, True)
    forward.__qualname__ = name
    function = Function(forward, None, {})
    function.signature = signature  # type: ignore[attr-defined]
    return function


def _name_results(root: Region) -> None:
    """Names the entry's results y, or y0 and so on."""
    made = {v["id"]: v for node in root.graph.nodes for v in node["results"]}
    outputs = [made[o["value"]] for o in root.graph.outputs if o.get("value") in made]
    for i, value in enumerate(outputs):
        value["name"] = f"y{i}" if len(root.graph.outputs) > 1 else "y"


def _parameters(function: Callable[..., Any], owner: Any) -> list[inspect.Parameter]:
    """The parameters behind that for the owner; none of a function in C that does not tell them, such as `torch.cov`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return []
    return parameters[0 if owner is None else 1 :]


def _names(function: Callable[..., Any], owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Names of the leaves of arguments."""
    parameters = _parameters(function, owner)
    found = []
    for i, arg in enumerate(args):
        plain = i < len(parameters) and parameters[i].kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        found.append((parameters[i].name if plain else f"arg{i}", arg))
    names = []
    for name, arg in [*found, *kwargs.items()]:
        leaves = pytree.tree_leaves(arg)
        names += [name] if len(leaves) == 1 else [f"{name}_{i}" for i in range(len(leaves))]
    return names


def _guards(rec: Recorder, sizes: dict[Any, tuple[int, int]]) -> Callable[[Sequence[Any]], bool] | None:
    """What a recording took to hold of the sizes, as a function of the arguments' leaves."""
    printer, parts = PythonPrinter(), []
    for guard in rec.env.guards:
        expression = guard.expr
        if expression.free_symbols <= set(sizes):
            places = {s: f"leaves[{sizes[s][0]}].shape[{sizes[s][1]}]" for s in expression.free_symbols}
            text = printer.doprint(expression)
            for symbol, place in sorted(places.items(), key=lambda p: -len(p[0].name)):
                text = text.replace(symbol.name, f"({place})")
            parts.append(text)
    if not parts:
        return None
    import math

    return eval(f"lambda leaves: {' and '.join(f'({p})' for p in parts)}", {"math": math})  # type: ignore[no-any-return]
