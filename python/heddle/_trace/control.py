"""Control flow of Python that tensors decide, as nested regions: what converted code calls in place of `if`, `while` and `for`.

A statement's state are the variables that it assigns. Each is a tree of leaves: tensors, numbers, and whatever else Python has. Leaves
that a branch or loop changes must be tensors or numbers; a number becomes a tensor without axes, whose type gives way to that of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from malt.operators import variables
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from .checks import Maybe, pending, settled
from .graph import Place, unsupported
from .record import Recorder, Region, active

_UNDEFINED = (variables.Undefined, variables.UndefinedReturnValue)
# Ranges of a known length up to this one are unrolled.
UNROLLED = 32


class Unknown(Exception):
    """A call whose result types are not known yet: the region that makes it is left out until they are."""


def is_staged(value: Any) -> bool:
    """Whether only the run knows if a value is true."""
    if isinstance(value, torch.SymInt):
        value = value != 0
    if isinstance(value, torch.SymBool):
        return not value.node.has_hint() and value.node.shape_env._maybe_evaluate_static(value.node.expr) is None
    return isinstance(value, torch.Tensor)


def describe(value: Any) -> str:
    """A value's type for messages."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"
    if isinstance(value, _UNDEFINED):
        return "nothing"
    if isinstance(value, Maybe):
        return describe(value.value)
    return f"{value!r}" if isinstance(value, (int, float, bool, type(None))) else f"a {type(value).__name__}"


def number_type(value: Any) -> torch.dtype | None:
    """The type of a number's tensor."""
    if isinstance(value, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(value, (int, torch.SymInt)):
        return torch.int64
    return torch.float64 if isinstance(value, float) else None


def as_tensor(rec: Recorder, value: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A number or tensor as a tensor, in the region that is open."""
    if not isinstance(value, torch.Tensor):
        own = number_type(value)
        if own is None:
            raise unsupported(f"{describe(value)} can't become a tensor", rec.place())
        if isinstance(value, torch.SymInt):
            made = torch.ops.aten.scalar_tensor.default(value, dtype=torch.int64)
        else:
            made = torch.full((), value, dtype=own)
        value = rec.set_weak(made)
    if dtype is not None and value.dtype != dtype:
        value = torch.ops.aten._to_copy.default(value, dtype=dtype)
    return value


def predicate(rec: Recorder, value: Any) -> torch.Tensor:
    """A value of Python's truth, as a tensor without axes."""
    if isinstance(value, torch.SymInt):
        value = value != 0
    if isinstance(value, torch.SymBool):
        return _of_sizes(rec, value)
    if not isinstance(value, torch.Tensor):
        return torch.full((), bool(value), dtype=torch.bool)
    if value.dim() and not all(s == 1 for s in value.shape if isinstance(s, int)):
        raise unsupported(f"the truth of {describe(value)}, which has more than one element", rec.place(), "use .any() or .all()")
    if value.dtype != torch.bool:
        value = value != 0
    return value.reshape(()) if value.dim() else value


def _of_sizes(rec: Recorder, value: torch.SymBool) -> torch.Tensor:
    names = {"StrictLessThan": "lt", "LessThan": "le", "StrictGreaterThan": "gt", "GreaterThan": "ge", "Equality": "eq", "Unequality": "ne"}
    expression = value.node.expr
    name = names.get(type(expression).__name__)
    if name is None:
        raise unsupported(f"the condition `{expression}` on sizes", rec.place())
    sides = [rec.env.create_symintnode(side, hint=None) for side in expression.args]
    made = rec.fresh(torch.bool, ())
    rec.node(f"operator.{name}", sides, {}, made)
    return made


# Branches


def if_stmt(
    cond: Any, body: Callable[[], Any], orelse: Callable[[], Any], get_state: Any, set_state: Any, names: Sequence[str], nouts: int,
) -> None:
    """`if cond: body else: orelse`."""
    rec = active()
    if rec is None or not is_staged(cond):
        (body if cond else orelse)()
        return
    before = get_state()

    def arm(branch: Callable[[], Any]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            set_state(before)
            branch()
            return list(get_state())

        return run

    try:
        merged = branch_on(rec, cond, [arm(body), arm(orelse)], names, before, nouts)
    finally:
        set_state(before)
    set_state(tuple(merged))


def if_exp(cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], text: str) -> Any:
    """`if_true if cond else if_false`."""
    rec = active()
    if rec is None or not is_staged(cond):
        return if_true() if cond else if_false()
    return branch_on(rec, cond, [lambda: [if_true()], lambda: [if_false()]], [text])[0]


def branch_on(
    rec: Recorder, cond: Any, arms: list[Callable[[], list[Any]]], names: Sequence[str], before: Sequence[Any] = (), nouts: int | None = None,
) -> list[Any]:
    """Records two arms, and gives the values that either leaves for each name. `before` is what the names are in front. Only the first
    `nouts` are read behind the branch."""
    place = rec.place()
    cond = predicate(rec, cond)
    chosen = rec.read(cond)
    mark = rec.born
    regions: list[Region] = []
    values: list[list[Any] | None] = []
    for run in arms:
        with rec.inside(rec.nested()) as region:
            regions.append(region)
            try:
                values.append(run())
            except Unknown:
                values.append(None)
    if values[0] is None and values[1] is None:
        raise Unknown
    rec.local = rec.born - mark
    # Names that nobody reads matter where they are tensors that are changed in place.
    kept = [k for k in range(len(names)) if nouts is None or k < nouts or any(v is not None and rec.is_successor(v[k], before[k]) for v in values)]
    every = list(before) or [None] * len(names)
    values = [None if v is None else [v[k] for k in kept] for v in values]
    names, before = [names[k] for k in kept], [before[k] for k in kept] if before else []
    # An arm that calls what is not known yet gives what the other one does.
    pairs = list(zip(*(v if v is not None else values[1 - i] for i, v in enumerate(values)))) if values else []
    known = [i for i, v in enumerate(values) if v is not None]
    if len(known) == 2:
        pairs = [(_decided(rec, cond, a, True), _decided(rec, cond, b, False)) for a, b in pairs]
    joined = [_join(rec, name, list(pair), place) for name, pair in zip(names, pairs)]
    outputs: list[list[Any]] = [[], []]
    results: list[Any] = []
    for tree in joined:
        for leaf in tree.leaves:
            if isinstance(leaf, _Joined):
                for i, region in enumerate(regions):
                    source = leaf.parts[i if i in known else known[0]]
                    if i in known:
                        with rec.inside(region):
                            outputs[i].append(rec.read(leaf.made(rec, source)))
                results.append(leaf)
    token = _join_checks(rec, regions, outputs, known)
    results += [token] if token is not None else []
    made = []
    graph = rec.region.graph
    for leaf in results:
        leaf.result = rec.fresh(leaf.dtype, leaf.shape(rec))
        made.append(graph.tensor("if", leaf.result))
        rec.bind(leaf.result, {"value": made[-1]["id"]}, weak=leaf.weak)
    if len(known) == 2:
        for region, found in zip(regions, outputs):
            region.graph.outputs = found
        if made or any(r.graph.nodes for r in regions):
            operands = share_captures(rec, regions)
            if made:
                args = [chosen, {"graph": regions[0].graph.json()}, {"graph": regions[1].graph.json()}, {"list": operands}]
                graph.node("cond", args, {}, made, place)
    merged = [settled(tree.build()) for tree in joined]
    for i, (was, made_of) in enumerate(zip(before, merged)):
        merged[i] = rec.renewed(was, [(regions[k], was, values[k][i]) for k in known], made_of)  # type: ignore[index]
    rec.finish(regions)
    if token is not None:
        rec.region.checks.append(token.result)
    for k, value in zip(kept, merged):
        every[k] = value
    return every


def _join_checks(rec: Recorder, regions: list[Region], outputs: list[list[Any]], known: list[int]) -> _Joined | None:
    """What the checks of either arm let through goes with the branch's results."""
    if not any(regions[i].checks for i in known):
        return None
    joined = _Joined([0, 0], torch.int64, [], False)
    for i in known:
        with rec.inside(regions[i]):
            found = pending(regions[i], rec)
            outputs[i].append(rec.read(torch.full((), 0, dtype=torch.int64) if found is None else found))
    return joined


def _decided(rec: Recorder, cond: torch.Tensor, value: Any, taken: bool) -> Any:
    """A value in an arm: the condition itself is known there, and so is what it is the negation of."""
    if value is cond:
        return taken
    return (not taken) if isinstance(value, torch.Tensor) and value is rec.negated.get(cond) else value


def share_captures(rec: Recorder, regions: list[Region]) -> list[dict[str, Any]]:
    """Gives regions the same captured inputs, and their operands."""
    captured: list[torch.Tensor] = []
    for region in regions:
        for tensor, _ in region.captures:
            if not any(tensor is c for c in captured):
                captured.append(tensor)
    for region in regions:
        for tensor in captured:
            region.capture(tensor)
        own = {id(tensor): made for tensor, made in region.captures}
        region.graph.inputs += [own[id(tensor)] for tensor in captured]
    return [rec.read(tensor) for tensor in captured]


class _Joined:
    """A leaf that the arms leave different values for."""

    def __init__(self, parts: list[Any], dtype: torch.dtype, shapes: list[Any], weak: bool) -> None:
        self.parts, self.dtype, self.sizes, self.weak = parts, dtype, shapes, weak
        self.result: Any = None

    def shape(self, rec: Recorder) -> list[Any]:
        return [rec.open_size() if s is None else s for s in self.sizes]

    def made(self, rec: Recorder, part: Any) -> torch.Tensor:
        if isinstance(part, _UNDEFINED):
            return torch.full([0 if s is None else s for s in self.sizes], 0, dtype=self.dtype)
        return as_tensor(rec, part, self.dtype)


class _Tree:
    def __init__(self, leaves: list[Any], spec: Any) -> None:
        self.leaves, self.spec = leaves, spec

    def build(self) -> Any:
        return pytree.tree_unflatten([leaf.result if isinstance(leaf, _Joined) else leaf for leaf in self.leaves], self.spec)


def _join(rec: Recorder, name: str, pair: list[Any], place: Place | None) -> _Tree:
    undefined = [isinstance(v, _UNDEFINED) for v in pair]
    if all(undefined):
        return _Tree([pair[0]], pytree.tree_structure(0))
    if any(isinstance(v, variables.UndefinedReturnValue) for v in pair):
        # What is returned is read only where a flag of the conversion says that something was.
        leaves, spec = pytree.tree_flatten(pair[undefined.index(False)])
        return _Tree([_undefined_leaf(rec, leaf, undefined) for leaf in leaves], spec)
    if any(undefined) or any(isinstance(v, Maybe) for v in pair):
        return _join_maybe(rec, name, pair, undefined, place)
    flat = [pytree.tree_flatten(v) for v in pair]
    if flat[0][1] != flat[1][1]:
        from .joined import join_lists

        stacked = join_lists(rec, pair)
        if stacked is not None:
            return stacked
        raise unsupported(
            f"`{name}` is {describe(pair[0])} after one branch and {describe(pair[1])} after the other", place,
            "both branches must give the same structure",
        )
    return _Tree([_join_leaf(rec, name, a, b, place) for a, b in zip(flat[0][0], flat[1][0])], flat[0][1])


def _join_maybe(rec: Recorder, name: str, pair: list[Any], undefined: list[bool], place: Place | None) -> _Tree:
    """A variable that an arm may leave unassigned: its value, and whether it was assigned."""
    if not name.isidentifier():
        raise unsupported(f"`{name}` is assigned on some paths only", place, "assign it in front")
    parts = [(None, False) if u else v.now() if isinstance(v, Maybe) else (v, True) for v, u in zip(pair, undefined)]
    if any(undefined):
        leaves, spec = pytree.tree_flatten(parts[undefined.index(False)][0])
        tree = _Tree([_undefined_leaf(rec, leaf, undefined) for leaf in leaves], spec)
    else:
        tree = _join(rec, name, [value for value, _ in parts], place)
    flag = _join_leaf(rec, name, parts[0][1], parts[1][1], place)
    whole = pytree.tree_unflatten(tree.leaves, tree.spec)
    return _Tree([*tree.leaves, flag], pytree.tree_structure(Maybe(name, whole, flag)))


def _undefined_leaf(rec: Recorder, leaf: Any, undefined: list[bool]) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    parts = [variables.Undefined("") if u else leaf for u in undefined]
    sizes = [s if _outer(rec, s) else None for s in leaf.shape]
    return _Joined(parts, leaf.dtype, sizes, _weak(rec, leaf))


def _outer(rec: Recorder, size: Any) -> bool:
    """Whether a size is known outside of the region that was just left."""
    return isinstance(size, int) or not (size.node.expr.free_symbols & rec.local)


def _weak(rec: Recorder, value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or (isinstance(value, FakeTensor) and rec.is_weak(value))


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are one value."""
    if a is b:
        return True
    if isinstance(a, torch.SymInt) or isinstance(b, torch.SymInt):
        return number_type(a) == number_type(b) == torch.int64 and same_size(a, b)
    if isinstance(a, (bool, int, float, str)) and type(a) is type(b):
        return a == b or (a != a and b != b)
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) or type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


def same_size(a: Any, b: Any) -> bool:
    left, right = (s if isinstance(s, int) else s.node.expr for s in (a, b))
    return bool(left == right)


def common_type(rec: Recorder, name: str, a: Any, b: Any, place: Place | None) -> tuple[torch.dtype, bool]:
    """The type of a variable that is one or the other, and whether it is a number of Python."""
    types = [v.dtype if isinstance(v, torch.Tensor) else number_type(v) for v in (a, b)]
    weak = [_weak(rec, v) for v in (a, b)]
    if types[0] is None or types[1] is None:
        raise unsupported(f"`{name}` is {describe(a)} or {describe(b)}, as a tensor decides", place)
    if all(weak):
        return torch.promote_types(*types), True  # type: ignore[arg-type]
    if any(weak):
        number, array = (types if weak[0] else types[::-1])
        if number == array or (array.is_floating_point and number != torch.bool) or (  # type: ignore[union-attr]
            number == torch.int64 and array != torch.bool
        ):
            return array, False  # type: ignore[return-value]
    if types[0] != types[1]:
        raise unsupported(
            f"`{name}` is {describe(a)} or {describe(b)}, as a tensor decides", place, "convert one with .to(dtype)",
        )
    return types[0], False


def _join_leaf(rec: Recorder, name: str, a: Any, b: Any, place: Place | None) -> Any:
    if same(a, b):
        # A tensor of the regions around; one that an arm made is only the same if the other arm is left out.
        if not isinstance(a, torch.Tensor) or not isinstance(a, FakeTensor) or rec.is_outer(a):
            return a
    dtype, weak = common_type(rec, name, a, b, place)
    shapes = [v.shape if isinstance(v, torch.Tensor) else () for v in (a, b)]
    if len(shapes[0]) != len(shapes[1]):
        raise unsupported(
            f"`{name}` is {describe(a)} after one branch and {describe(b)} after the other", place, "both need the same number of axes",
        )
    sizes = [s if same_size(s, t) and _outer(rec, s) else None for s, t in zip(*shapes)]
    return _Joined([a, b], dtype, sizes, weak)


# Truth

# Operators that can't fail, and take no time to speak of.
_HARMLESS = {
    f"aten.{name}" for name in (
        "lt.Tensor", "lt.Scalar", "le.Tensor", "le.Scalar", "gt.Tensor", "gt.Scalar", "ge.Tensor", "ge.Scalar", "eq.Tensor", "eq.Scalar",
        "ne.Tensor", "ne.Scalar", "logical_and.default", "logical_or.default", "logical_not.default", "add.Tensor", "sub.Tensor",
        "mul.Tensor", "full.default", "scalar_tensor.default", "abs.default", "_to_copy.default", "sum.default", "sum.dim_IntList",
        "max.default", "min.default", "any.default", "all.default", "amax.default", "amin.default",
    )
}


def and_(left: Callable[[], Any], right: Callable[[], Any]) -> Any:
    return _short(left, right, True)


def or_(left: Callable[[], Any], right: Callable[[], Any]) -> Any:
    return _short(left, right, False)


def _short(left: Callable[[], Any], right: Callable[[], Any], both: bool) -> Any:
    """`and`, `or`: the right side is only evaluated if the left one does not decide."""
    rec, first = active(), left()
    if rec is None or not is_staged(first):
        return (first and right()) if both else (first or right())
    if isinstance(first, torch.Tensor) and first.dtype != torch.bool:
        # Python gives one of the two values.
        return branch_on(rec, first, [lambda: [right()], lambda: [first]] if both else [lambda: [first], lambda: [right()]], ["and, or"])[0]
    first = predicate(rec, first)
    with rec.inside(rec.nested()) as region:
        second = right()
    if all(n["target"] in _HARMLESS for n in region.graph.nodes):
        # It may be evaluated in any case.
        second = right() if region.graph.nodes else second
        return (torch.logical_and if both else torch.logical_or)(first, predicate(rec, second))
    fixed = torch.full((), not both, dtype=torch.bool)
    arms = [lambda: [right()], lambda: [fixed]]
    return branch_on(rec, first, arms if both else arms[::-1], ["and, or"])[0]


def not_(value: Any) -> Any:
    rec = active()
    if rec is None or not is_staged(value):
        return not value
    value = predicate(rec, value)
    made = torch.logical_not(value)
    rec.negated[made] = value
    return made
