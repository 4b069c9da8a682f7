"""Loops of Python that tensors decide, as nested regions. What a loop carries is found by recording its body until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from malt.operators import variables
from torch.utils import _pytree as pytree

from .control import (
    UNROLLED, _UNDEFINED, Unknown, as_tensor, common_type, describe, if_stmt, is_staged, number_type, predicate, same, same_size,
    share_captures,
)
from .checks import Maybe, pending, settled
from .graph import Place, unsupported
from .index import row
from .lists import Grown, grown
from .record import Recorder, Region, active

# A body is recorded this often at most: each time more of the state is carried, or more sizes are open.
_ATTEMPTS = 24


def while_stmt(test: Callable[[], Any], body: Callable[[], Any], get_state: Any, set_state: Any, names: Sequence[str], opts: Any) -> None:
    """`while test: body`. It runs in Python until a tensor decides."""
    rec = active()
    while True:
        go = test()
        if rec is not None and is_staged(go):
            _Loop(rec, test, body, get_state, set_state, names).record()
            return
        if not go:
            return
        body()


def for_stmt(
    iterated: Any, extra_test: Any, body: Callable[[Any], Any], get_state: Any, set_state: Any, names: Sequence[str], opts: Any,
) -> None:
    """`for target in iterated: body`. `extra_test` is false after a `break`."""
    rec = active()
    if rec is not None:
        items = _items(iterated)
        if items is not None:
            _counted(rec, items, extra_test, body, get_state, set_state, names)
            return
    for target in iterated:
        if extra_test is not None:
            go = extra_test()
            if rec is not None and is_staged(go):
                if_stmt(go, lambda: body(target), lambda: None, get_state, set_state, names, len(names))
                continue
            if not go:
                break
        body(target)


class Items:
    """What a loop in the program goes over: a number of items, and the item at an index."""

    def __init__(self, length: Any, at: Callable[[Any], Any]) -> None:
        self.length, self.at = length, at

    def __iter__(self) -> Any:
        raise unsupported("an iteration whose length only the run knows, where Python asks for all items", _place())


def _place() -> Place | None:
    rec = active()
    return None if rec is None else rec.place()


def range_(*args: Any) -> Any:
    """`range`, whose bounds may be tensors."""
    if not any(isinstance(a, (torch.Tensor, torch.SymInt)) for a in args):
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    if not isinstance(step, int) or step == 0:
        raise unsupported("a range whose step is a tensor", _place())
    if all(isinstance(a, int) for a in (start, stop)):
        return range(start, stop, step)
    if isinstance(start, int) and start == 0 and step == 1:
        return Items(stop, lambda i: i)
    length = (stop - start + (step - 1 if step > 0 else step + 1)) // step
    return Items(length, lambda i: i * step + start)


def enumerate_(iterable: Any, start: int = 0) -> Any:
    items = _items(iterable)
    return enumerate(iterable, start) if items is None else Items(items.length, lambda i: (i + start if start else i, items.at(i)))


def zip_(*iterables: Any, strict: bool = False) -> Any:
    parts = [_items(i) for i in iterables]
    if all(p is None for p in parts):
        return zip(*iterables, strict=strict)
    if any(p is None for p in parts):
        parts = [p or _items_of_list(list(i)) for p, i in zip(parts, iterables)]
    first, *others = parts
    length = first.length
    for part in others:
        same_length = not isinstance(length, torch.Tensor) and not isinstance(part.length, torch.Tensor) and same_size(length, part.length)
        if not same_length:
            length = torch.minimum(*(as_tensor(active(), n) for n in (length, part.length)))  # type: ignore[arg-type]
    return Items(length, lambda i: tuple(p.at(i) for p in parts))


def _items_of_list(values: list[Any]) -> Any:
    raise unsupported("zip of a tensor and a list", _place(), "torch.stack makes a tensor of a list")


def _items(iterated: Any) -> Items | None:
    """The items of what a loop in the program goes over, or None for a loop of Python."""
    if isinstance(iterated, Items):
        return iterated
    if isinstance(iterated, Grown):
        iterated = iterated.data
    if isinstance(iterated, torch.Tensor):
        if iterated.dim() == 0:
            raise unsupported("a loop over a tensor without axes", _place())
        return Items(iterated.shape[0], lambda i: row(iterated, i))
    if isinstance(iterated, range) and len(iterated) > UNROLLED:
        return Items(len(iterated), lambda i: i * iterated.step + iterated.start)
    return None


def _counted(
    rec: Recorder, items: Items, extra_test: Any, body: Callable[[Any], Any], get_state: Any, set_state: Any, names: Sequence[str],
) -> None:
    count: list[Any] = [0]

    def test() -> Any:
        inside = as_tensor(rec, count[0]) < items.length
        if extra_test is None:
            return inside
        more = extra_test()
        return torch.logical_and(inside, predicate(rec, more)) if is_staged(more) else inside if more else False

    def turn() -> None:
        body(items.at(count[0]))
        count[0] = count[0] + 1

    def get() -> Any:
        return (count[0], *get_state())

    def set_(state: Any) -> None:
        count[0] = state[0]
        set_state(tuple(state[1:]))

    loop = _Loop(rec, test, turn, get, set_, ["the counter", *names])
    loop.runs = _is_positive(rec, items.length) and (extra_test is None or extra_test() is True)
    # The counter changes in any case.
    loop.plan[0].leaves[0].carry(torch.int64, (), True)
    loop.record()


def _is_positive(rec: Recorder, length: Any) -> bool:
    """Whether a loop of this length surely makes a turn."""
    if isinstance(length, torch.SymInt):
        return rec.env._maybe_evaluate_static(length.node.expr > 0) == True  # noqa: E712
    return isinstance(length, int) and length > 0


class _Leaf:
    """A leaf of the state: carried, or the same in all iterations."""

    def __init__(self, rec: Recorder, init: Any) -> None:
        self.init, self.carried = init, False
        self.dtype: Any = None
        self.sizes: list[Any] = []
        #: Groups of open axes: those that begin equal stay so, unless an iteration shows otherwise.
        self.groups: list[Any] = []
        self.weak = False
        if isinstance(init, torch.Tensor):
            self.carry(init.dtype, init.shape, rec.is_weak(init) if isinstance(init, torch._subclasses.FakeTensor) else False)

    def carry(self, dtype: torch.dtype, shape: Sequence[Any], weak: bool) -> None:
        self.carried, self.dtype, self.sizes, self.weak = True, dtype, list(shape), weak
        self.groups = [None] * len(self.sizes)

    def open(self, axis: int, group: Any) -> None:
        self.groups[axis] = group

    def shape(self, opened: dict[Any, Any], rec: Recorder) -> list[Any]:
        made = []
        for size, group in zip(self.sizes, self.groups):
            if group is not None and group not in opened:
                opened[group] = rec.open_size()
            made.append(size if group is None else opened[group])
        return made


class _Variable:
    def __init__(self, rec: Recorder, name: str, init: Any) -> None:
        self.name = name
        self.undefined = isinstance(init, _UNDEFINED)
        #: It may be unassigned: its state has a flag.
        self.maybe = isinstance(init, (variables.Undefined, Maybe))
        leaves, self.spec = pytree.tree_flatten(init)
        self.leaves = [_Leaf(rec, leaf) for leaf in leaves]
        self.rec = rec

    def of(self, value: Any) -> Any:
        """Its value behind an iteration, as its state has it."""
        if not self.maybe or isinstance(value, (*_UNDEFINED, Maybe)):
            return value
        if not self.name.isidentifier():
            raise unsupported(f"`{self.name}` is assigned in a loop first", _place(), "assign it in front")
        return Maybe(self.name, value, True)

    def grow(self, init: Any, value: Any) -> bool:
        """Makes a list that a turn makes longer a tensor of its elements. Says whether it is one."""
        if not isinstance(init, list):
            return False
        if isinstance(value, Grown):
            dtype, shape, weak = value.data.dtype, value.data.shape[1:], self.rec.is_weak(value.data)
        elif isinstance(value, list) and len(value) > len(init):
            last = as_tensor(self.rec, value[-1])
            dtype, shape, weak = last.dtype, last.shape, self.rec.is_weak(last)
        else:
            return False
        leaf = _Leaf(self.rec, None)
        leaf.carry(dtype, (0, *shape), weak)
        leaf.open(0, object())
        for axis, size in enumerate(shape):
            if not isinstance(size, int) and size.node.expr.free_symbols & self.rec.local:
                leaf.open(axis + 1, object())
        leaf.init = init
        self.leaves, self.spec = [leaf], pytree.tree_structure(Grown(0))  # type: ignore[arg-type]
        return True


class _Pending(variables.Undefined):
    """A variable that the loop may assign, while that is not known: what reads it is left out."""

    __slots__ = ("loop",)

    def __init__(self, name: str, loop: _Loop) -> None:
        super().__init__(name)
        self.loop = loop

    def read(self) -> Any:
        self.loop.waiting = self.loop.waiting or (self.symbol_name, _place())
        raise Unknown


class _Loop:
    def __init__(self, rec: Recorder, test: Any, body: Any, get_state: Any, set_state: Any, names: Sequence[str]) -> None:
        self.rec, self.test, self.body, self.get, self.set, self.place = rec, test, body, get_state, set_state, rec.place()
        self.before = get_state()
        self.plan = [_Variable(rec, name, init) for name, init in zip(names, self.before)]
        #: It surely makes a turn.
        self.runs = False
        #: A variable that an iteration read while it was not known to be assigned, and the line.
        self.waiting: tuple[str, Place | None] | None = None
        #: The state in front of an iteration.
        self.begun: tuple[Any, ...] = ()

    def record(self) -> None:
        rec = self.rec
        for _ in range(_ATTEMPTS):
            mark = rec.born
            region, self.waiting = rec.nested(), None
            with rec.inside(region):
                self.begun = self._begin(region, {})
                self.set(self.begun)
                try:
                    self.body()
                except Unknown:
                    self._check_waiting()
                    # The body calls what is not known yet: as if the loop made no turn.
                    self.set(self.before)
                    rec.finish([])
                    return
                after = [variable.of(value) for variable, value in zip(self.plan, self.get())]
            rec.local = rec.born - mark
            if not self._revise(after):
                self._check_waiting()
                self._finish(region, after)
                return
            rec.finish([])
        raise unsupported("what the loop carries changes its type from turn to turn", self.place)

    def _check_waiting(self) -> None:
        if self.waiting is not None:
            name, place = self.waiting
            raise unsupported(f"`{name}` is read where nothing was assigned to it", place, "assign it in front of the loop")

    def _begin(self, region: Region, opened: dict[Any, Any]) -> tuple[Any, ...]:
        """The state in front of an iteration."""
        values = []
        for variable in self.plan:
            if variable.maybe and _is_undefined(variable):
                values.append(_Pending(variable.name, self))
                continue
            leaves = []
            for leaf in variable.leaves:
                if leaf.carried:
                    tensor = self.rec.input(region, _plain(variable.name), leaf.dtype, leaf.shape(opened, self.rec), leaf.weak)
                    if isinstance(leaf.init, torch.Tensor):
                        self.rec.given[tensor] = leaf.init
                    leaves.append(tensor)
                else:
                    leaves.append(leaf.init)
            values.append(pytree.tree_unflatten(leaves, variable.spec))
        return tuple(values)

    def _revise(self, after: Sequence[Any]) -> bool:
        """Makes the plan fit the state behind an iteration. Says whether it changed."""
        changed = False
        sizes: dict[Any, list[tuple[_Leaf, int, Any]]] = {}
        for variable, value in zip(self.plan, after):
            if isinstance(value, _UNDEFINED):
                continue
            leaves, spec = pytree.tree_flatten(value)
            if variable.undefined and spec != variable.spec or (variable.undefined and not variable.leaves[0].carried and _is_undefined(variable)):
                variable.spec = spec
                variable.leaves = [self._first(leaf) for leaf in leaves]
                if variable.maybe:
                    variable.leaves[-1] = flag = _Leaf(self.rec, False)
                    flag.carry(torch.bool, (), True)
                changed = True
                continue
            if spec != variable.spec and variable.grow(self.before[self.plan.index(variable)], value):
                changed = True
                continue
            if spec != variable.spec:
                raise unsupported(
                    f"`{variable.name}` changes its structure in the loop: it begins as {describe(pytree.tree_unflatten([leaf.init for leaf in variable.leaves], variable.spec))}"
                    f" and becomes {describe(value)}", self.place, "a list that grows can be a tensor: torch.cat([xs, x[None]])",
                )
            for leaf, now in zip(variable.leaves, leaves):
                changed |= self._revise_leaf(variable.name, leaf, now, sizes)
        # Axes of one group that differ behind an iteration are groups of their own.
        for group, members in sizes.items():
            for leaf, axis, size in members[1:]:
                if not same_size(size, members[0][2]):
                    leaf.open(axis, object())
                    changed = True
        return changed

    def _first(self, leaf: Any) -> _Leaf:
        """The leaf of a variable that the loop assigns first."""
        made = _Leaf(self.rec, None)
        if isinstance(leaf, torch.Tensor):
            made.carry(leaf.dtype, leaf.shape, self.rec.is_weak(leaf))
            for axis, size in enumerate(leaf.shape):
                if not isinstance(size, int) and size.node.expr.free_symbols & self.rec.local:
                    made.open(axis, object())
            made.init = _NOTHING
        else:
            made.init = leaf
        return made

    def _revise_leaf(self, name: str, leaf: _Leaf, now: Any, sizes: dict[Any, Any]) -> bool:
        if not leaf.carried:
            if same(leaf.init, now):
                return False
            dtype, weak = common_type(self.rec, name, leaf.init, now, self.place)
            shape = now.shape if isinstance(now, torch.Tensor) else ()
            if len(shape):
                raise unsupported(
                    f"`{name}` begins as the number {leaf.init!r} and becomes {describe(now)} in the loop", self.place,
                    "begin with torch.zeros of that shape",
                )
            leaf.carry(dtype, (), weak)
            return True
        changed = False
        dtype, weak = _carried_type(self.rec, name, leaf, now, self.place)
        if dtype != leaf.dtype or weak != leaf.weak:
            leaf.dtype, leaf.weak, changed = dtype, weak, True
        shape = now.shape if isinstance(now, torch.Tensor) else ()
        if len(shape) != len(leaf.sizes):
            raise unsupported(
                f"`{name}` has {len(leaf.sizes)} axes in front of the loop and {len(shape)} behind an iteration", self.place,
                "the number of axes of what a loop carries must stay",
            )
        for axis, (was, size) in enumerate(zip(leaf.sizes, shape)):
            group = leaf.groups[axis]
            if group is None:
                if not same_size(was, size):
                    leaf.open(axis, ("size", str(was if isinstance(was, int) else was.node.expr)))
                    changed = True
            else:
                sizes.setdefault(group, []).append((leaf, axis, size))
        return changed

    def _finish(self, body: Region, after: Sequence[Any]) -> None:
        rec = self.rec
        with rec.inside(rec.nested()) as test:
            self.set(self._begin(test, {}))
            self._truth = predicate(rec, self.test())
            test.graph.outputs = [rec.read(self._truth)]
        leaves = [leaf for variable in self.plan for leaf in variable.leaves if leaf.carried]
        with rec.inside(body):
            found = []
            for variable, value in zip(self.plan, after):
                flat = pytree.tree_leaves(value) if not isinstance(value, _UNDEFINED) else [leaf.init for leaf in variable.leaves]
                for leaf, now in zip(variable.leaves, flat):
                    if leaf.carried:
                        found.append(rec.read(as_tensor(rec, now, leaf.dtype)))
            body.graph.outputs = found
        carried = [rec.read(self._initial(leaf)) for leaf in leaves]
        self._carry_checks(test, body, carried)
        captured = share_captures(rec, [test, body])
        opened: dict[Any, Any] = {}
        made, results = [], {}
        for variable in self.plan:
            for leaf in variable.leaves:
                if leaf.carried:
                    result = rec.fresh(leaf.dtype, leaf.shape(opened, rec))
                    made.append(rec.region.graph.tensor(_plain(variable.name), result))
                    rec.bind(result, {"value": made[-1]["id"]}, weak=leaf.weak)
                    results[id(leaf)] = result
        if len(carried) > len(made):
            token = rec.fresh(torch.int64, ())
            made.append(rec.region.graph.tensor("check", token))
            rec.bind(token, {"value": made[-1]["id"]})
            rec.region.checks.append(token)
        args = [{"graph": test.graph.json()}, {"graph": body.graph.json()}, {"list": carried}, {"list": captured}]
        if made:
            rec.region.graph.node("while_loop", args, {}, made, self.place)
        state = []
        for variable, value in zip(self.plan, after):
            whole = pytree.tree_unflatten([results.get(id(leaf), leaf.init) for leaf in variable.leaves], variable.spec)
            if self.runs and isinstance(whole, Maybe) and isinstance(value, Maybe) and value.defined is True:
                whole.defined = True
            state.append(settled(whole))
        for i, (was, begun, value) in enumerate(zip(self.before, self.begun, after)):
            state[i] = rec.renewed(was, [(body, begun, value)], state[i])
        self.set(tuple(state))
        rec.finish([test, body])

    def _carry_checks(self, test: Region, body: Region, carried: list[Any]) -> None:
        """What the checks of an iteration let through is carried."""
        rec = self.rec
        if not body.checks and not test.checks:
            return
        carried.append(rec.read(torch.full((), 0, dtype=torch.int64)))
        tokens = [rec.input(region, "check", torch.int64, ()) for region in (test, body)]
        with rec.inside(body):
            found = pending(body, rec)
            body.graph.outputs.append(rec.read(tokens[1] if found is None else tokens[1] + found))
        if test.checks:
            # A test that fails ends the loop: it counts as one that holds.
            with rec.inside(test):
                held = pending(test, rec)
                test.graph.outputs = [rec.read(torch.logical_and(self._truth, held == 0))]

    def _initial(self, leaf: _Leaf) -> torch.Tensor:
        if leaf.init is _NOTHING:
            return torch.full([0 if g is not None else s for s, g in zip(leaf.sizes, leaf.groups)], 0, dtype=leaf.dtype)
        if isinstance(leaf.init, list):
            like = self.rec.fresh(leaf.dtype, [0 if g is not None else s for s, g in zip(leaf.sizes, leaf.groups)])
            return as_tensor(self.rec, grown(leaf.init, like).data, leaf.dtype)
        return as_tensor(self.rec, leaf.init, leaf.dtype)


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _carried_type(rec: Recorder, name: str, held: _Leaf, now: Any, place: Place | None) -> tuple[torch.dtype, bool]:
    dtype = now.dtype if isinstance(now, torch.Tensor) else number_type(now)
    weak = rec.is_weak(now) if isinstance(now, torch.Tensor) else True
    if dtype is None:
        raise unsupported(f"`{name}` becomes {describe(now)} in a loop that a tensor decides", place)
    if held.weak and weak:
        return torch.promote_types(held.dtype, dtype), True
    if held.weak and not weak:
        return dtype, False
    if weak and (held.dtype.is_floating_point or dtype == torch.int64 or dtype == held.dtype):
        return held.dtype, False
    if dtype != held.dtype:
        raise unsupported(
            f"`{name}` is of {str(held.dtype).removeprefix('torch.')} in front of the loop and of"
            f" {str(dtype).removeprefix('torch.')} behind an iteration", place, "convert it with .to(dtype)",
        )
    return held.dtype, False


def _is_undefined(variable: _Variable) -> bool:
    return all(isinstance(leaf.init, _UNDEFINED) for leaf in variable.leaves)


def _plain(name: str) -> str:
    return name.replace(" ", "_")
