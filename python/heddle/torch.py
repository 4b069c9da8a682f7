"""Heddle in PyTorch: `torch.compile(model, backend="heddle")`, and what helps with it.

    model = heddle.torch.prepare(model)                 # LSTM, GRU and RNN stay one operator each
    compiled = torch.compile(model, backend="heddle", dynamic=True)
    print(heddle.torch.explain(model, x))               # what is compiled, and what stays in Python
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._trace.explain import Explanation, explain
from ._trace.rnn import prepare

__all__ = ["Explanation", "backend", "explain", "prepare"]


def backend(
    module: torch.fx.GraphModule, example_inputs: list[Any], *, options: dict[str, Any] | None = None, **_: Any,
) -> Callable[..., Any]:
    """The back end of `torch.compile`. Its `options` are those of `heddle.compile`, and `fallback`: "eager" runs operators that Heddle
    does not support in PyTorch, with a warning that names each once; "error" refuses them."""
    from ._trace.dynamo import compile_graph

    return compile_graph(module, example_inputs, dict(options or {}))
