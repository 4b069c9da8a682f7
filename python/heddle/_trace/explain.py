"""Says what torch.compile makes of a function: its graphs, what stays in Python, at which line and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified

from .. import _native
from .dynamo import count_line, decompositions, refused
from .fx import place_of, target_of

# Parts of Dynamo's reasons, with what to write instead.
_INSTEAD = (
    ("data-dependent", "put the function that branches or loops into @heddle.function"),
    ("Data-dependent", "put the function that branches or loops into @heddle.function"),
    ("generic_jump", "put the function that branches or loops into @heddle.function"),
    ("Tensor.item", "keep the number a tensor, or read it in a @heddle.function"),
    ("print", "print outside of the compiled function"),
    ("LSTM", "model = heddle.torch.prepare(model)"),
    ("RNN", "model = heddle.torch.prepare(model)"),
)


@dataclass
class Explanation:
    """What torch.compile makes of a function."""

    #: For each graph the number of its operators.
    graphs: list[int] = field(default_factory=list)
    #: Operators that stay in PyTorch, with their lines.
    eager: list[tuple[str, str]] = field(default_factory=list)
    #: Lines that end a graph, with the reason and what to write instead.
    breaks: list[tuple[str, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.graphs)} graph{'s' * (len(self.graphs) != 1)} with {sum(self.graphs)} operators compiled"]
        lines += [f"{place}: {name} runs in PyTorch" for name, place in self.eager]
        for place, reason, instead in self.breaks:
            lines.append(f"{place}: stays in Python: {reason}" + (f"\n    instead: {instead}" if instead else ""))
        return "\n".join(lines)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What of a function or module `torch.compile(…, backend="heddle")` compiles, and what stays in Python: at which line, why, and what to
    write instead. Warns of a line of which 8 graphs ran. Runs it twice in PyTorch."""
    found, made = torch._dynamo.explain(function)(*args, **kwargs), Explanation()
    targets = set(_native.trace_targets())

    def count(inner: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nodes = [n for n in inner.graph.nodes if n.op == "call_function" and target_of(n) != "operator.getitem"]
        left = [n for node in nodes for n in refused(node, targets)]
        made.graphs.append(len(nodes) - len(left))
        made.eager += [(target_of(n), str(place_of(n))) for n in left]
        return make_boxed_func(inner.forward)

    lines: Counter[str] = Counter()

    def collect(module: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Callable[..., Any]:
        compiled = aot_module_simplified(module, inputs, fw_compiler=count, decompositions=decompositions())

        def run(*args: Any) -> Any:
            # A loop of Python runs one graph in each turn.
            count_line(module, lines, "ran")
            return compiled(*args)

        return run

    torch._dynamo.reset()
    torch.compile(function, backend=collect)(*args, **kwargs)
    torch._dynamo.reset()
    for reason in found.break_reasons:
        frames = [f for f in reason.user_stack if not f.filename.startswith("<")]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        plain = "a branch or loop that a tensor decides" if "generic_jump" in reason.reason else None
        text = plain or next((line.strip() for line in reason.reason.splitlines() if line.strip()), "")
        instead = next((what for part, what in _INSTEAD if part in reason.reason), "")
        made.breaks.append((place, text, instead))
    return made
