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

from .. import _errors
from . import control, convert, graph, lists
from .program import OPEN, Trace, TracedProgram, compile_trace, like
from .record import Recorder, Region, active

# A function is recorded this often at most, until what it gives for what its own calls give does not change.
_ATTEMPTS = 12
# Calls of a function with other constants in its own calls, before the constants become arguments.
_CONSTANTS = 16
# Functions in one another while one is recorded.
_DEPTH = 100

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
        if getattr(_state, "eager", False):
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
        flat, spec = pytree.tree_flatten((args, kwargs))
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


# Calls while a function is recorded


class _Leaf:
    """A leaf of what a function gives: a tensor, or a constant."""

    def __init__(self, rec: Recorder, value: Any, known: set[Any]) -> None:
        self.constant = None if isinstance(value, torch.Tensor) else value
        self.dtype = value.dtype if isinstance(value, torch.Tensor) else None
        self.weak = isinstance(value, torch.Tensor) and isinstance(value, FakeTensor) and rec.is_weak(value)
        #: Sizes; None are those that the run decides.
        self.sizes: list[Any] = []
        if self.dtype is not None:
            self.sizes = [s if isinstance(s, int) or s.node.expr.free_symbols <= known else None for s in value.shape]

    def agrees(self, other: _Leaf) -> bool:
        if self.dtype is None or other.dtype is None:
            return self.dtype == other.dtype and control.same(self.constant, other.constant)
        return (self.dtype, self.weak, len(self.sizes)) == (other.dtype, other.weak, len(other.sizes)) and all(
            a is None or (b is not None and control.same_size(a, b)) for a, b in zip(self.sizes, other.sizes)
        )

    def widen(self, other: _Leaf) -> None:
        """Opens the sizes in which the other one differs."""
        if self.dtype is not None and other.dtype is not None and len(self.sizes) == len(other.sizes):
            other.sizes = [
                a if a is not None and b is not None and control.same_size(a, b) else None for a, b in zip(self.sizes, other.sizes)
            ]


class Frame:
    """A function that is recorded, for one signature."""

    def __init__(self, name: str, function: Function | None, key: Any) -> None:
        self.name, self.function, self.key = name, function, key
        #: Sizes that it reads.
        self.uses: list[Any] = []
        #: Operands of the calls of it.
        self.calls: list[list[Any]] = []
        self.types: list[_Leaf] | None = None
        self.spec: Any = None
        self.known: set[Any] = set()
        self.sizes: dict[str, Any] = {}
        self.called = self.done = False
        #: Positions of leaves that are arguments though they are numbers, and (leaf, axis) that are open.
        self.opened: set[Any] = set()
        #: Functions that assumed what this one gives.
        self.dependents: list[Frame] = []


class _Open(Exception):
    """A function that is recorded needs more of its arguments open."""

    def __init__(self, frame: Frame, what: set[Any]) -> None:
        self.frame, self.what = frame, what


def _frames(rec: Recorder) -> dict[Any, list[Frame]]:
    if not hasattr(rec, "frames"):
        rec.frames, rec.stack, rec.owners = {}, [], []  # type: ignore[attr-defined]
    return rec.frames  # type: ignore[attr-defined, no-any-return]


def call(rec: Recorder, function: Function, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Records a call."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    loose = (id(function), None if owner is None else id(owner), spec, tuple(_loose(rec, leaf) for leaf in flat))
    exact = [_exact(leaf) for leaf in flat]
    frames = _frames(rec).setdefault(loose, [])
    frame = next((f for f in frames if _matches(f, exact)), None)
    if frame is None:
        running = [f for f in frames if not f.done]
        differs = set() if not running else _differences(running[0].key, exact)
        sized = {d for d in differs if isinstance(d, tuple)}
        if sized:
            raise _Open(running[0], sized)
        if len(running) > _CONSTANTS:
            if any(not isinstance(flat[d], (int, float)) for d in differs):
                raise graph.unsupported(f"{function.__qualname__} calls itself with ever other constants", rec.place())
            raise _Open(running[0], differs)
        frame = _record(rec, function, owner, flat, spec, loose, exact)
    if not frame.done:
        frame.called = True
        for other in rec.stack[rec.stack.index(frame) + 1 :]:  # type: ignore[attr-defined]
            if other not in frame.dependents:
                frame.dependents.append(other)
        if frame.types is None:
            raise control.Unknown
    return _emit(rec, frame, flat)


def _loose(rec: Recorder, leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return (leaf.dtype, leaf.dim(), isinstance(leaf, FakeTensor) and rec.is_weak(leaf))
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        return type(leaf)
    if isinstance(leaf, torch.SymInt):
        return int
    return leaf if isinstance(leaf, (bool, str, type(None), torch.dtype)) else id(leaf)


def _exact(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return [s if isinstance(s, int) else s.node.expr for s in leaf.shape]
    return leaf.node.expr if isinstance(leaf, torch.SymInt) else leaf


def _differences(one: Any, other: Any) -> set[Any]:
    found: set[Any] = set()
    for position, (a, b) in enumerate(zip(one, other)):
        if isinstance(a, list):
            found |= {(position, axis) for axis, (s, t) in enumerate(zip(a, b)) if s != t}
        elif isinstance(a, (int, float)) and a != b:
            found.add(position)
    return found


def _matches(frame: Frame, exact: Any) -> bool:
    return all(d in frame.opened for d in _differences(frame.key, exact))


def _emit(rec: Recorder, frame: Frame, flat: list[Any]) -> Any:
    """A node that calls a function."""
    assert frame.types is not None
    operands = []
    for position, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor) or position in frame.opened:
            operands.append(rec.read(control.as_tensor(rec, leaf)))
    for size in frame.sizes.values():
        operands.append(rec.arg(size))
    if not frame.done:
        frame.calls.append(operands)
    made, leaves = [], []
    for leaf in frame.types:
        if leaf.dtype is None:
            leaves.append(leaf.constant)
            continue
        shape = [rec.open_size() if s is None else s for s in leaf.sizes]
        result = rec.fresh(leaf.dtype, shape)
        made.append(rec.region.graph.tensor(frame.name.rpartition(".")[2], result))
        rec.bind(result, {"value": made[-1]["id"]}, weak=leaf.weak)
        leaves.append(result)
    rec.region.graph.node("call", [{"function": frame.name}, {"list": operands}], {}, made, rec.place())
    return pytree.tree_unflatten(leaves, frame.spec)


def _record(rec: Recorder, function: Function, owner: Any, flat: list[Any], spec: Any, loose: Any, exact: Any) -> Frame:
    """Records a function until what it gives is what its calls of itself were taken to give."""
    stack = rec.stack  # type: ignore[attr-defined]
    if len(stack) >= _DEPTH:
        raise graph.unsupported(f"calls of functions are nested more than {_DEPTH} deep", rec.place())
    frames = _frames(rec)[loose]
    name = function.__qualname__.rpartition(".<locals>.")[2]
    count = sum(1 for other in rec.functions if other == name or other.startswith(f"{name}#"))
    frame = Frame(name if not count else f"{name}#{count + 1}", function, exact)
    rec.functions[frame.name] = None
    frame.known = rec.born
    rec.owners.append((function, owner))  # type: ignore[attr-defined]
    if function.results is not None:
        _state_results(rec, frame, function, flat, spec)
    frames.append(frame)
    stack.append(frame)
    try:
        for _ in range(_ATTEMPTS):
            try:
                region, leaves = _attempt(rec, frame, owner, flat, spec)
            except _Open as more:
                if more.frame is not frame:
                    raise
                frame.opened |= more.what
                frame.types = None
                _forget(rec, frame)
                continue
            except control.Unknown:
                if any(frame in other.dependents for other in stack[:-1]):
                    raise
                raise graph.unsupported(
                    f"{frame.name} calls itself on every path, so that its results can't be known", _place(function),
                    "state them: @heddle.function(results=lambda x: x)",
                ) from None
            types = [_Leaf(rec, leaf, frame.known) for leaf in leaves]
            settled = not frame.called or (
                frame.types is not None and len(types) == len(frame.types) and all(a.agrees(b) for a, b in zip(frame.types, types))
            )
            if settled:
                if frame.types is None or not frame.called:
                    frame.types = types
                _close(rec, frame, region, leaves)
                return frame
            if frame.types is not None and len(types) == len(frame.types):
                for was, now in zip(frame.types, types):
                    was.widen(now)
            frame.types = types
            _forget(rec, frame)
        raise graph.unsupported(f"the types of what {frame.name} gives change with each call of itself", _place(function))
    except BaseException:
        if frame in frames:
            frames.remove(frame)
        rec.functions.pop(frame.name, None)
        raise
    finally:
        stack.remove(frame)


def _place(function: Function) -> graph.Place:
    code = function.function.__code__
    found = convert.place_of_line(code.co_filename, code.co_firstlineno)
    return found or graph.Place(code.co_filename, code.co_firstlineno, f"def {function.__name__}")


def _forget(rec: Recorder, frame: Frame) -> None:
    """Drops functions that were recorded on an assumption which does not hold."""
    for other in frame.dependents:
        for frames in _frames(rec).values():
            if other in frames:
                frames.remove(other)
        rec.functions.pop(other.name, None)
        _forget(rec, other)
    frame.dependents = []


def _attempt(rec: Recorder, frame: Frame, owner: Any, flat: list[Any], spec: Any) -> tuple[Region, list[Any]]:
    region = Region(None, frame)
    frame.uses, frame.calls, frame.called = [], [], False
    given = []
    for position, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            shape = [rec.open_size() if (position, axis) in frame.opened else s for axis, s in enumerate(leaf.shape)]
            weak = isinstance(leaf, FakeTensor) and rec.is_weak(leaf)
            tensor = rec.input(region, f"a{position}", leaf.dtype, shape, weak)
            rec.given[tensor] = frame
            given.append(tensor)
        elif position in frame.opened:
            given.append(rec.input(region, f"a{position}", control.number_type(leaf), (), True))
        else:
            given.append(leaf)
    args, kwargs = pytree.tree_unflatten(given, spec)
    assert frame.function is not None
    body = convert.convert(frame.function.function)
    with rec.inside(region):
        result = body(*(() if owner is None else (owner,)), *args, **kwargs)
        leaves, frame.spec = pytree.tree_flatten(result)
        leaves = [control.as_tensor(rec, leaf) if isinstance(leaf, torch.SymInt) else leaf for leaf in leaves]
        for leaf in leaves:
            if isinstance(leaf, control._UNDEFINED):
                raise graph.unsupported(f"{frame.name} gives nothing on some path", _place(frame.function))
        region.graph.outputs = [rec.read(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return region, leaves


def _close(rec: Recorder, frame: Frame, region: Region, leaves: list[Any]) -> None:
    """Gives a function the sizes that it reads and its arguments don't name as further arguments."""
    bound = {s.node.expr.name for value in region.graph.inputs for s in value["shape"] if isinstance(s, torch.SymInt) and s.node.expr.is_Symbol}
    born = {s.name for s in rec.born - frame.known}
    for size in frame.uses:
        for symbol in size.node.expr.free_symbols:
            if symbol.name not in bound and symbol.name not in born and symbol.name not in frame.sizes:
                frame.sizes[symbol.name] = rec.env.create_symintnode(symbol, hint=rec.env.var_to_val.get(symbol))
    for name, size in frame.sizes.items():
        region.graph.inputs.append(region.graph.value(name, "size"))
        for operands in frame.calls:
            operands.append({"size": size})
    frame.done = True
    rec.functions[frame.name] = region.graph.json()


def _state_results(rec: Recorder, frame: Frame, function: Function, flat: list[Any], spec: Any) -> None:
    """What a function gives, as its `results` say: an example, made of the arguments."""
    args, kwargs = pytree.tree_unflatten(flat, spec)
    with rec.inside(Region(None, Frame("results", None, None))):
        stated = function.results(*args, **kwargs) if callable(function.results) else function.results
    leaves, frame.spec = pytree.tree_flatten(stated)
    frame.types = [_Leaf(rec, leaf, frame.known) for leaf in leaves]


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
    flat, spec = pytree.tree_flatten((args, kwargs))
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
    _frames(rec)
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
        raise graph.unsupported(f"{function.__qualname__} calls itself on every path", _place(function)) from None
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
