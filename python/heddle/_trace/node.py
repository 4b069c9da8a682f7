"""Calls of functions where Dynamo traces: one node of its graph. Importing this imports Dynamo."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
from torch.utils import _pytree as pytree

from .operators import node_call, object_of


def _node(function: str, owner: str, weights: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = pytree.tree_map(object_of, (args, kwargs))
    return node_call(object_of(function), object_of(owner), args, kwargs, weights)


#: Dynamo keeps a call of it as a node, and what is behind it traces through it. PyTorch before 2.7 ends a graph there.
node: Any = getattr(torch._dynamo, "nonstrict_trace", torch._dynamo.disable)(_node)
