"""Walks graphs of FX: exported programs, and what torch.compile hands to a back end."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from . import operators
from .graph import Constants, Graph, Place, names_in, order_in_memory, scalar, size_of, unsupported

if TYPE_CHECKING:
    from .entry import Entry

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in .*\n\s*(.*)')
_HIGHER_ORDER = {
    "associative_scan": "associative_scan", "cond": "cond", "switch": "switch", "while_loop": "while_loop", "while_loop_stack_output": "while_loop_stack_output", "scan": "scan",
    "map_impl": "map", "map": "map", "invoke_subgraph": "invoke_subgraph", "wrap_with_set_grad_enabled": "wrap_with_set_grad_enabled",
}
# Checks of sizes and values: Heddle has its own.
_CHECKS = {
    "aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default", "aten._functional_assert_async.msg",
}


def place_of(node: Node) -> Place | None:
    """The Python line that a node comes from."""
    frames = [f for f in _FRAME.findall(node.meta.get("stack_trace") or "") if not f[0].startswith("<")]
    if not frames:
        return None
    file, line, text = frames[-1]
    return Place(file, int(line), text.strip())


def walk(
    module: GraphModule, constants: Constants, functions: Functions, *, fixed: dict[str, torch.Tensor] | None = None,
    place: Place | None = None,
) -> Graph:
    """The neutral graph of a graph of FX. Placeholders that `fixed` names are constants; all others are inputs. `place` is that of nodes
    without one. What is called is added to `functions`."""
    return _Walk(module, constants, functions, fixed or {}, place).graph


class Functions(dict[str, Any]):
    """Functions of the neutral graph by name, with a number for each entry of a `@heddle.function`: names are the same in each process."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}

    def prefix(self, entry: Entry) -> str:
        """What the names of an entry's functions begin with."""
        return f"{entry.function.__qualname__}#{self._numbers.setdefault(entry.key, len(self._numbers))}"


class _Walk:
    def __init__(
        self, module: GraphModule, constants: Constants, functions: Functions, fixed: dict[str, torch.Tensor], place: Place | None,
    ) -> None:
        self.module, self.constants, self.functions, self.graph, self.place = module, constants, functions, Graph(), place
        # Each node of FX is an argument, or a list of the arguments that it is a tuple of.
        self.args: dict[Node, Any] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, fixed)
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
                self.graph.outputs = [self.arg(result) for result in results]
            else:
                raise unsupported(f"`{node.op}` in a graph of FX", place_of(node))

    def _placeholder(self, node: Node, fixed: dict[str, torch.Tensor]) -> None:
        if node.name in fixed:
            self.args[node] = {"constant": self.constants.name(fixed[node.name], node.name)}
            return
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            made = self.graph.tensor(str(node.target), value)
        elif isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            names = names_in(value)
            bare = isinstance(size_of(value), str) and size_of(value) in names
            made = self.graph.value(str(size_of(value)) if bare else str(node.target), "size")
        elif isinstance(value, (bool, float)) or value is None:
            self.args[node] = scalar(value)
            return
        else:
            raise unsupported(f"an input of type {type(value).__name__}", place_of(node))
        self.graph.inputs.append(made)
        self.args[node] = {"value": made["id"]}

    def _attribute(self, node: Node) -> None:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, GraphModule):
            user = next(iter(node.users), node)
            self.args[node] = {"graph": walk(value, self.constants, self.functions, place=place_of(user) or self.place).json()}
        elif isinstance(value, torch.Tensor):
            self.args[node] = {"constant": self.constants.name(value, str(node.target))}
        else:
            self.args[node] = scalar(value)

    def _call(self, node: Node) -> None:
        if node.target is operator.getitem:
            found = self.args[node.args[0]]
            if isinstance(found, list):
                self.args[node] = found[node.args[1]]
                return
        value = node.meta.get("val", node.meta.get("example_value"))
        target = target_of(node)
        if target in _CHECKS:
            return
        place = place_of(node) or self.place
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool) and not _begins(node, value):
            size = size_of(value, place)
            self.args[node] = {"int": size} if isinstance(size, int) else {"size": size}
            return
        args, kwargs = [self.arg(a) for a in node.args], {k: self.arg(a) for k, a in node.kwargs.items()}
        if target == "call":
            args = self._function(args, kwargs)
            kwargs = {}
        if target == "map":
            # Captures of `map_impl` are a list of their own, as in the neutral graph.
            args = [args[0], args[1], args[2] if len(args) > 2 else {"list": []}]
        elif target == "switch":
            args = [args[0], args[1], args[2]]
        elif target == "invoke_subgraph":
            operands = [a for a in args[1:] if "str" not in a]
            args = [args[0], {"list": operands}]
        elif target == "wrap_with_set_grad_enabled":
            args = [args[1], {"list": args[2:]}]
        elif target == "while_loop" and len(args) == 3:
            args.append({"list": []})
        elif target == "scan":
            args = _scan(args, place)
        elif target == "aten.as_strided.default":
            args, kwargs = self._strided(node, args, kwargs, place)
        if str(node.target).startswith("heddle."):
            # The operators of `prepare` have no arguments for training.
            args = args[1:] if target != "aten.lstm.input" else args
            args[5:5] = [{"float": 0.0}, {"bool": False}]
        results = value if isinstance(value, (tuple, list)) else (value,)
        made = [self._result(node, i, result, place) for i, result in enumerate(results)]
        self.graph.node(target, args, kwargs, made, place)
        ids = [{"value": m["id"]} for m in made]
        self.args[node] = ids if isinstance(value, (tuple, list)) else ids[0]

    def _function(self, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call of a `@heddle.function`, of those of its operator. Weights that are constants here are constants in it."""
        given = dict(zip(("key", "grad", "args", "weights"), args))
        given.update(kwargs)
        entry, weights = operators.entry_of(given["key"]["str"]), given["weights"]["list"]
        fixed = all("constant" in w for w in weights)
        trace, prefix = entry.trace(not fixed), f"{self.functions.prefix(entry)}{'' if fixed else '*'}/"
        if fixed:
            prefix += "".join(f"{w['constant']}/" for w in weights)
        if prefix + trace.source.entry not in self.functions:
            known = {id(t): w for t, w in zip(entry.used_now(), weights)} if fixed else {}
            constants = {
                name: known.get(id(t)) or {"constant": self.constants.name(t, name)} for name, t in trace.source.constants.given.items()
            }
            self.functions.update(trace.source.functions(prefix, constants))
        operands = list(given["args"]["list"])
        if not fixed:
            # Tensors behind the weights are read elsewhere, and no gradient of them is wanted: they are constants here.
            others = [{"constant": self.constants.name(t, "constant")} for t in entry.others]
            operands += [[*weights, *others][i] for i in trace.order]
        return [{"function": prefix + trace.source.entry}, {"list": operands}]

    def _strided(self, node: Node, args: list[Any], kwargs: dict[str, Any], place: Place | None) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of `as_strided`, whose operand is brought to the order of its memory."""
        value = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
        order = None if value is None else order_in_memory(value)
        if order is None:
            raise unsupported("as_strided of a view that is not all of its memory", place, "x.contiguous() in front of it")
        if order != list(range(len(order))):
            moved = self.graph.tensor("permute", value.permute(order), place)
            self.graph.node("aten.permute.default", [args[0], {"list": [{"int": i} for i in order]}], {}, [moved], place)
            args = [{"value": moved["id"]}, *args[1:]]
        return args, kwargs | {"dense": {"bool": True}}

    def _result(self, node: Node, index: int, value: Any, place: Place | None) -> dict[str, Any]:
        name = node.name if index == 0 else f"{node.name}.{index}"
        if isinstance(value, torch.Tensor):
            return self.graph.tensor(name, value, place)
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            size = size_of(value, place)
            return self.graph.value(size if isinstance(size, str) and size in names_in(value) else name, "size")
        if isinstance(value, (torch.SymBool, bool)):
            return self.graph.value(name, "bool")
        if isinstance(value, (torch.SymFloat, float)):
            return self.graph.value(name, "f64")
        if value is None:
            # A result that is not computed, such as those of a convolution's backward pass.
            return self.graph.value(name, "f32", (0,))
        raise unsupported(f"{target_of(node)} gives a {type(value).__name__}", place)

    def arg(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Node):
            made = self.args.get(value)
            if made is None:
                raise unsupported(f"the result of {value.name} can't be used", place_of(value))
            return {"list": made} if isinstance(made, list) else made
        if isinstance(value, (tuple, list)):
            return {"list": [self.arg(v) for v in value]}
        if isinstance(value, torch.SymInt):
            size = size_of(value)
            return {"int": size} if isinstance(size, int) else {"size": size}
        return scalar(value)


def _begins(node: Node, value: Any) -> bool:
    """Whether a node reads a size out of an array, so that the size's name begins there."""
    return target_of(node) in ("aten._local_scalar_dense.default", "aten.item.default") and isinstance(value, torch.SymInt)


def _scan(args: list[Any], place: Place | None) -> list[Any]:
    """`scan` without the arguments that older versions of PyTorch have besides."""
    lists = [a for a in args[1:] if "list" in a]
    if any(a.get("bool") for a in args[1:]):
        raise unsupported("a scan in reverse order in a graph", place, "x.flip(0) scans in reverse")
    return [args[0], lists[0], lists[1], lists[2] if len(lists) > 2 else {"list": []}]


def target_of(node: Node) -> str:
    """The target of a node in the neutral graph."""
    target = node.target
    if str(target) == "heddle.lstm.default":
        return "aten.lstm.input"
    if getattr(target, "namespace", "") == operators.FORWARD:
        return "call"
    if str(target) == "heddle.rnn.default":
        return f"aten.{node.args[0]}.input"
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return _HIGHER_ORDER.get(target.name(), f"higher_order.{target.name()}")
    module = getattr(target, "__module__", "")
    name = getattr(target, "__name__", str(target))
    if module in ("_operator", "operator", "math", "builtins"):
        return f"operator.{name}"
    return f"operator.{name}" if name.startswith("sym_") else name
