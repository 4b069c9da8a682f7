"""`@heddle.function`: plain Python, recorded once for each signature, with a function of the graph for each function that it calls."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree
from torch.utils._sympy.printers import PythonPrinter

from . import control, convert, graph, lists
from .calls import Frame, call, place_of_def
from .flat import flatten
from .program import OPEN, Trace, TracedProgram, compile_trace, like
from .record import Recorder, Region, active

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


class Function:
    """A function of Python that runs compiled. As a method it compiles for each object."""

    __heddle_function__ = True

    def __init__(self, function: Callable[..., Any], results: Any, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.results, self.options = function, results, options
        self._entries: dict[Any, list[Any]] = {}
        self._lock = threading.RLock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Method(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(None, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """The program for arguments like these."""
        return self._program(None, args, kwargs)

    def _call(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
        if getattr(_state, "eager", False) or any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves((args, kwargs))):
            # For a debugger, or since PyTorch's own export traces it.
            return self.function(*(() if owner is None else (owner,)), *args, **kwargs)
        return self._program(owner, args, kwargs)(*args, **kwargs)

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

    def _program(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flat, spec = flatten(args, kwargs)
        key = (None if owner is None else id(owner), spec, tuple(_shape_key(leaf) for leaf in flat))
        with self._lock:
            entries = self._entries.setdefault(key, [])
            entries[:] = [e for e in entries if e.is_current()]
            for program in entries:
                if program.fits(flat):
                    return program
            made: TracedProgram = compile_trace(record(self, owner, args, kwargs), self.options)
            entries.append(made)
            return made


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
        return self.__func__._program(self.__self__, args, kwargs)


def _shape_key(leaf: Any) -> Any:
    """What decides which program runs a leaf: sizes of 0 and 1 differ from larger ones, as they do in PyTorch."""
    if isinstance(leaf, (torch.Tensor, np.ndarray)):
        return (leaf.dtype, tuple(s if s < 2 else -1 for s in leaf.shape))
    if isinstance(leaf, (int, float, bool, str, type(None), torch.dtype)):
        return (type(leaf), leaf)
    return id(leaf)


# Programs


def record(
    function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = "auto",
    module: torch.nn.Module | None = None,
) -> Trace:
    """The model of a function for arguments like these. `owner` is the object that it is a method of, `module` the one whose weights it
    reads otherwise."""
    if not isinstance(function, Function):
        function = Function(function, None, {})
    rec = Recorder()
    rec.places = convert.place_of_line
    module = owner if isinstance(owner, torch.nn.Module) else module
    if module is not None:
        rec.names = {id(t): name for name, t in [*module.named_parameters(), *module.named_buffers()]}
    args, kwargs = pytree.tree_map(like, (args, kwargs))
    flat, spec = flatten(args, kwargs)
    names = _names(getattr(function, "signature", function.function), owner, args, kwargs)
    main = Frame("main", None, None)
    rec.region = Region(None, main)
    leaves, given, sizes = [], [], {}
    for position, (leaf, name) in enumerate(zip(flat, names)):
        if not isinstance(leaf, torch.Tensor):
            leaves.append(leaf)
            given.append(leaf)
            continue
        shape = rec.symbolic(leaf) if dynamic_shapes == "auto" else list(leaf.shape)
        tensor = rec.input(rec.region, name, leaf.dtype, shape)
        for axis, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt):
                sizes[size.node.expr] = (position, axis)
        leaves.append(OPEN)
        given.append(tensor)
    args, kwargs = pytree.tree_unflatten(given, spec)
    try:
        with rec.recording():
            result = call(rec, function, owner, args, kwargs)
            results, gives = pytree.tree_flatten(result)
            goes: list[tuple[str, int]] = []
            fixed: dict[int, Any] = {}
            for i, leaf in enumerate(results):
                if isinstance(leaf, torch.Tensor):
                    goes.append(("result", i))
                    rec.region.graph.outputs.append(rec.read(leaf))
                else:
                    fixed[i] = leaf
    except control.Unknown:
        raise graph.unsupported(f"{function.__qualname__} calls itself on every path", place_of_def(function)) from None
    except GuardOnDataDependentSymNode as error:
        place = convert.users_place(rec, error)
        raise graph.unsupported(
            f"Python asks for a number that only the run knows ({error.cond})", place,
            "compare and index with tensors; a condition of Python needs an `if` in a function that Heddle converts",
        ) from error
    _name_results(rec, results)
    functions = {**rec.functions, "main": rec.region.graph.json()}
    model = graph.load(functions, "main", rec.constants)
    made = Trace(model, spec, gives, leaves, goes=goes, fixed=fixed)
    made.lists = any(isinstance(v, lists.Grown) for v in pytree.tree_leaves(result, is_leaf=lambda v: isinstance(v, lists.Grown)))
    made.guards = _guards(rec, sizes)
    made.weights = [(t, t.data_ptr(), _version(t)) for t in rec.constants.given.values()]
    made.bound = owner
    if module is not None:
        made.owner, made.owned = module, _owned(module)
    return made


def record_module(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any = "auto") -> Trace:
    """The model of a module, whose calls are converted as those in a function are."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return convert.converted_call(module, args, kwargs)

    setattr(forward, convert.MARK, True)
    forward.__qualname__ = type(module).__name__
    inner = module.forward
    function = Function(forward, None, {})
    function.signature = inner  # type: ignore[attr-defined]
    return record(function, None, args, kwargs, dynamic_shapes, module)


def _name_results(rec: Recorder, results: Sequence[Any]) -> None:
    """Names the entry's results y, or y0 and so on."""
    call_node = rec.region.graph.nodes[-1] if rec.region.graph.nodes else None
    if call_node is None:
        return
    many = len(call_node["results"]) > 1
    for i, value in enumerate(call_node["results"]):
        value["name"] = f"y{i}" if many else "y"


def _names(function: Callable[..., Any], owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Names of the leaves of arguments."""
    parameters = list(inspect.signature(function).parameters.values())[0 if owner is None else 1 :]
    found = []
    for i, arg in enumerate(args):
        plain = i < len(parameters) and parameters[i].kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        found.append((parameters[i].name if plain else f"arg{i}", arg))
    names = []
    for name, arg in [*found, *kwargs.items()]:
        leaves = pytree.tree_leaves(arg)
        names += [name] if len(leaves) == 1 else [f"{name}_{i}" for i in range(len(leaves))]
    return names


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _owned(owner: torch.nn.Module) -> list[int]:
    return [id(t) for t in owner.parameters()] + [id(t) for t in owner.buffers()]


def _guards(rec: Recorder, sizes: dict[Any, tuple[int, int]]) -> Callable[[list[Any]], bool] | None:
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
