"""Calls of functions while one is recorded: each function becomes one of the graph for each signature, and may call itself.

What a call gives is known once the function was recorded with the path that ends without a call; it is recorded again with that, until
nothing changes."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from . import checks, control, convert, graph
from .program import same_constant
from .record import Recorder, Region

# A function is recorded this often at most, until what it gives for what its own calls give does not change.
_ATTEMPTS = 12
# Calls of a function with other constants in its own calls, before the constants become arguments.
_CONSTANTS = 16
# Functions in one another while one is recorded.
_DEPTH = 100


class _Leaf:
    """A leaf of what a function gives: a tensor, or a constant."""

    def __init__(self, rec: Recorder, value: Any, known: set[Any]) -> None:
        self.constant = None if isinstance(value, torch.Tensor) else value
        self.dtype = value.dtype if isinstance(value, torch.Tensor) else None
        self.weak = isinstance(value, torch.Tensor) and isinstance(value, FakeTensor) and rec.is_weak(value)
        #: The position of the argument that it is, if that is changed in place.
        self.argument: int | None = None
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

    def __init__(self, name: str, function: Any, key: Any) -> None:
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
        #: Its checks' number is a result behind the others.
        self.checked = False
        #: Positions of arguments that it changes in place: their new values are results, too.
        self.changed: set[int] = set()
        #: Constants that are arguments of it, by identity, with the region and the input that they are there.
        self.weights: dict[int, tuple[torch.Tensor, Region, dict[str, Any]]] = {}
        #: Positions of leaves that are arguments though they are numbers, and (leaf, axis) that are open.
        self.opened: set[Any] = set()
        #: Functions that assumed what this one gives.
        self.dependents: list[Frame] = []


class _Open(Exception):
    """A function that is recorded needs more of its arguments open."""

    def __init__(self, frame: Frame, what: set[Any]) -> None:
        self.frame, self.what = frame, what


def call(rec: Recorder, function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Records a call."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    loose = (id(function), None if owner is None else id(owner), spec, tuple(_loose(rec, leaf) for leaf in flat))
    exact = [_exact(leaf) for leaf in flat]
    frames = rec.frames.setdefault(loose, [])
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
        for other in rec.stack[rec.stack.index(frame) + 1 :]:
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
        elif isinstance(a, (int, float)) and not same_constant(a, b):
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
    operands += [rec.weight(tensor, rec.region) for tensor, _, _ in frame.weights.values()]
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
        leaves.append(result if leaf.argument is None else flat[leaf.argument])
    renewed = []
    for position in sorted(frame.changed):
        renewed.append(rec.fresh(flat[position].dtype, flat[position].shape))
        made.append(rec.region.graph.tensor("changed", renewed[-1]))
        rec.bind(renewed[-1], {"value": made[-1]["id"]})
    if frame.checked:
        token = rec.fresh(torch.int64, ())
        made.append(rec.region.graph.tensor("check", token))
        rec.bind(token, {"value": made[-1]["id"]})
        rec.region.checks.append(token)
    rec.region.graph.node("call", [{"function": frame.name}, {"list": operands}], {}, made, rec.place())
    for position, result in zip(sorted(frame.changed), renewed):
        rec.change(flat[position], result, [leaf for i, leaf in enumerate(flat) if i != position])
    return pytree.tree_unflatten(leaves, frame.spec)


def _record(rec: Recorder, function: Any, owner: Any, flat: list[Any], spec: Any, loose: Any, exact: Any) -> Frame:
    """Records a function until what it gives is what its calls of itself were taken to give."""
    stack = rec.stack
    if len(stack) >= _DEPTH:
        raise graph.unsupported(f"calls of functions are nested more than {_DEPTH} deep", rec.place())
    frames = rec.frames[loose]
    name = function.__qualname__.rpartition(".<locals>.")[2]
    count = sum(1 for other in rec.functions if other == name or other.startswith(f"{name}#"))
    frame = Frame(name if not count else f"{name}#{count + 1}", function, exact)
    rec.functions[frame.name] = None
    frame.known = rec.born
    if function.results is not None:
        _state_results(rec, frame, function, flat, spec)
    frames.append(frame)
    stack.append(frame)
    try:
        for _ in range(_ATTEMPTS):
            weights = len(frame.weights)
            try:
                changed = set(frame.changed)
                region, leaves, arguments = _attempt(rec, frame, owner, flat, spec)
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
                    f"{frame.name} calls itself on every path, so that its results can't be known", place_of_def(function),
                    "state them: @heddle.function(results=lambda x: x)",
                ) from None
            types = [_Leaf(rec, leaf, frame.known) for leaf in leaves]
            for type_, argument in zip(types, arguments):
                type_.argument = argument
            checked, frame.checked = frame.checked, bool(region.checks)
            if frame.checked:
                region.graph.outputs.append(rec.read(checks.pending(region, rec), region))
            settled = not frame.called or (checked, changed) == (frame.checked, frame.changed) and (
                frame.types is not None and len(frame.weights) == weights and len(types) == len(frame.types) and all(a.agrees(b) for a, b in zip(frame.types, types))
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
        raise graph.unsupported(f"the types of what {frame.name} gives change with each call of itself", place_of_def(function))
    except BaseException:
        if frame in frames:
            frames.remove(frame)
        rec.functions.pop(frame.name, None)
        raise
    finally:
        stack.remove(frame)


def place_of_def(function: Any) -> graph.Place:
    code = function.function.__code__
    found = convert.place_of_line(code.co_filename, code.co_firstlineno)
    return found or graph.Place(code.co_filename, code.co_firstlineno, f"def {function.__name__}")


def _forget(rec: Recorder, frame: Frame) -> None:
    """Drops functions that were recorded on an assumption which does not hold."""
    for other in frame.dependents:
        for frames in rec.frames.values():
            if other in frames:
                frames.remove(other)
        rec.functions.pop(other.name, None)
        _forget(rec, other)
    frame.dependents = []


def _attempt(rec: Recorder, frame: Frame, owner: Any, flat: list[Any], spec: Any) -> tuple[Region, list[Any], list[int | None]]:
    """Records a function once: its region, the leaves of its result, and which of them are arguments that it changes."""
    region = Region(None, frame)
    frame.uses, frame.calls, frame.called = [], [], False
    given = []
    for position, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            shape = [rec.open_size() if (position, axis) in frame.opened else s for axis, s in enumerate(leaf.shape)]
            weak = isinstance(leaf, FakeTensor) and rec.is_weak(leaf)
            tensor = rec.input(region, f"a{position}", leaf.dtype, shape, weak)
            rec.given[tensor] = (frame, position)
            given.append(tensor)
        elif position in frame.opened:
            given.append(rec.input(region, f"a{position}", control.number_type(leaf), (), True))
        else:
            given.append(leaf)
    for weight, _, _ in list(frame.weights.values()):
        rec.weight(weight, region)
    args, kwargs = pytree.tree_unflatten(given, spec)
    assert frame.function is not None
    body = convert.convert(frame.function.function)
    with rec.inside(region):
        result = body(*(() if owner is None else (owner,)), *args, **kwargs)
        leaves, frame.spec = pytree.tree_flatten(result)
        leaves = [control.as_tensor(rec, leaf) if isinstance(leaf, torch.SymInt) else leaf for leaf in leaves]
        for leaf in leaves:
            if isinstance(leaf, control._UNDEFINED):
                raise graph.unsupported(f"{frame.name} gives nothing on some path", place_of_def(frame.function))
        region.graph.outputs = [rec.read(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        region.graph.outputs += [rec.read(given[position]) for position in sorted(frame.changed)]
    same = {id(given[position]): position for position in frame.changed}
    return region, leaves, [same.get(id(leaf)) for leaf in leaves]


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


def _state_results(rec: Recorder, frame: Frame, function: Any, flat: list[Any], spec: Any) -> None:
    """What a function gives, as its `results` say: an example, made of the arguments."""
    args, kwargs = pytree.tree_unflatten(flat, spec)
    with rec.inside(Region(None, Frame("results", None, None))):
        stated = function.results(*args, **kwargs) if callable(function.results) else function.results
    leaves, frame.spec = pytree.tree_flatten(stated)
    frame.types = [_Leaf(rec, leaf, frame.known) for leaf in leaves]
