"""The back end of torch.compile: graphs of AOTAutograd as programs, with parts that stay in PyTorch."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils import _pytree as pytree

from .. import Program, _errors, _native, _native_options, _values
from . import graph, operators, record
from .fx import Functions, place_of, target_of, walk
from .program import CHANGES
from .record import WHOLE

# Graphs from one line, of which as many say that Python decides what runs.
_MANY = 8
_lines: Counter[str] = Counter()
_named: set[str] = set()


def compile_graph(module: GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> Callable[..., Any]:
    """What torch.compile is to run for a graph of Dynamo."""
    fallback = options.pop("fallback", "eager")
    if fallback not in ("eager", "error"):
        raise _errors.InputError(f'fallback is "eager" or "error", not {fallback!r}')
    _native_options(options)
    count_line(module, _lines, "made")

    def compiler(fixed: bool) -> Callable[..., Any]:
        def compile(inner: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            return make_boxed_func(_split(inner, _static() if fixed else (), options, fallback))

        return compile

    return aot_module_simplified(
        module, example_inputs, fw_compiler=compiler(False), bw_compiler=compiler(False), inference_compiler=compiler(True),
        decompositions=decompositions(),
    )


def decompositions() -> dict[Any, Any]:
    """How operators are taken apart that Heddle does not read."""
    return {op: how for op, how in record.decompositions().items() if op not in WHOLE}


def _static() -> tuple[int, ...]:
    """Positions of inputs that are weights."""
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return tuple(getattr(metadata, "static_input_indices", None) or ())


def count_line(module: GraphModule, lines: Counter[str], done: str) -> None:
    """Counts the graphs that were made of a line, or run, and warns where they are many."""
    place = next((p for p in map(place_of, module.graph.nodes) if p is not None), None)
    if place is None:
        return
    lines[str(place)] += 1
    if lines[str(place)] == _MANY:
        warnings.warn(
            f"{place}: torch.compile {done} {_MANY} graphs of this line ({place.text}): Python decides what runs there. With the loop or"
            " branch in a @heddle.function it is one; heddle.torch.explain says more.", stacklevel=2,
        )


class _Supported(OperatorSupportBase):
    """Operators that Heddle reads."""

    def __init__(self) -> None:
        self.targets = set(_native.trace_targets())

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return node.op == "call_function" and not refused(node, self.targets)


def refused(node: Node, targets: set[str]) -> list[Node]:
    """Operators of a node, and of the graphs that it takes, that Heddle does not read."""
    target = target_of(node)
    found = [] if target in targets or target == "operator.getitem" or _is_size(node) else [node]
    for arg in pytree.tree_leaves(list(node.args)):
        inner = _graph(arg)
        if inner is not None:
            found += [n for m in inner.graph.nodes if m.op == "call_function" for n in refused(m, targets)]
    return found


def _is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (int, torch.SymInt))


def _graph(arg: Any) -> GraphModule | None:
    if isinstance(arg, Node) and arg.op == "get_attr":
        value: Any = arg.graph.owning_module
        for part in str(arg.target).split("."):
            value = getattr(value, part)
        return value if isinstance(value, GraphModule) else None
    return None


def _split(module: GraphModule, static: tuple[int, ...], options: dict[str, Any], fallback: str) -> Callable[..., Any]:
    """A graph as a program, or its parts that Heddle reads as programs."""
    support = _Supported()
    left = [n for node in module.graph.nodes if node.op == "call_function" for n in refused(node, support.targets)]
    if not any(n.op == "call_function" for n in module.graph.nodes):
        return module.forward
    if not left:
        return _Part(module, static, options, fallback)
    for node in left:
        if getattr(node.target, "namespace", "") == operators.BACKWARD:
            # The gradient of a @heddle.function is PyTorch's.
            continue
        _stays(target_of(node), place_of(node), fallback, "Heddle has no such operator")
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for node in fused.graph.nodes:
        if node.op == "call_module":
            part = fused.get_submodule(str(node.target))
            weights = _passed(node, static)
            setattr(fused, str(node.target), _Wrapped(_Part(part, weights, options, fallback)))
    fused.recompile()
    return fused.forward


def _passed(node: Node, static: tuple[int, ...]) -> tuple[int, ...]:
    """Positions of the operands of a part that are weights."""
    placeholders = [n for n in node.graph.nodes if n.op == "placeholder"]
    weights = {placeholders[i] for i in static if i < len(placeholders)}
    return tuple(i for i, arg in enumerate(node.args) if arg in weights)


class _Wrapped(torch.nn.Module):
    def __init__(self, part: _Part) -> None:
        super().__init__()
        self.part = part

    def forward(self, *args: Any) -> Any:
        return self.part(*args)


def _stays(what: str, place: Any, fallback: str, reason: str) -> None:
    text = f"{what} stays in PyTorch: {reason}"
    if fallback == "error":
        raise graph.unsupported(text, place, 'options={"fallback": "eager"} runs it in PyTorch')
    if what not in _named:
        _named.add(what)
        warnings.warn(f"{place}: {text}" if place else text, stacklevel=2)


class _Part:
    """A graph that Heddle runs. It compiles when its weights are known, and anew when they change. Weights that change time and again
    become inputs."""

    def __init__(self, module: GraphModule, static: tuple[int, ...], options: dict[str, Any], fallback: str) -> None:
        self.module, self.options, self.fallback = module, options, fallback
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.static = {i: placeholders[i].name for i in static if i < len(placeholders) and _dense(placeholders[i])}
        output = next(n for n in module.graph.nodes if n.op == "output").args[0]
        self.single = not isinstance(output, (tuple, list))
        self.results = [_kind(r) for r in ((output,) if self.single else output)]
        self.key: Any = None
        #: Constants that are no weights, with their address and version.
        self.others: list[tuple[torch.Tensor, int, int]] = []
        self.changes = 0
        self.program: Program | None = None
        self.eager = False

    def __call__(self, *args: Any) -> Any:
        if self.eager:
            return self.module(*args)
        key = tuple((args[i].data_ptr(), _version(args[i]), args[i].shape) for i in self.static)
        if self.program is None or key != self.key or any(t.data_ptr() != at or _version(t) != version for t, at, version in self.others):
            if self.program is not None:
                self.changes += 1
                if self.changes >= CHANGES:
                    self.static, key = {}, ()
            try:
                self.program, self.key = self._compile(args), key
            except _errors.Unsupported as error:
                _stays(str(error), None, self.fallback, "this form is not supported")
                self.eager = True
                return self.module(*args)
        given = [a for i, a in enumerate(args) if i not in self.static and isinstance(a, (torch.Tensor, int)) and not isinstance(a, bool)]
        found = self.program._native(*given) if any(k != "none" for k in self.results) else ()
        values = iter(found if isinstance(found, tuple) else (found,))
        results = []
        for kind in self.results:
            if kind == "none":
                results.append(None)
            elif kind == "size":
                results.append(int(next(values)))
            else:
                value = next(values)
                results.append(_values.to_library("torch", value) if not isinstance(value, torch.Tensor) else value)
        return results[0] if self.single else tuple(results)

    def _compile(self, args: tuple[Any, ...]) -> Program:
        constants, functions = graph.Constants(), Functions()
        fixed = {name: args[i] for i, name in self.static.items()}
        body = walk(self.module, constants, functions, fixed=fixed)
        weights = {id(t) for t in fixed.values()}
        self.others = [(t, t.data_ptr(), _version(t)) for t in constants.given.values() if id(t) not in weights]
        model = graph.load({**functions, "main": body.json()}, "main", constants)
        return Program(_native.compile(model, _native_options(self.options)))


def _kind(result: Any) -> str:
    if result is None:
        return "none"
    value = result.meta.get("val") if isinstance(result, Node) else result
    return "tensor" if isinstance(value, torch.Tensor) else "size"


def _dense(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
