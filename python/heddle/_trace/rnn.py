"""Recurrent modules that stay one operator in graphs of PyTorch, with an open length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MODES = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


@torch.library.custom_op("heddle::lstm", mutates_args=())
def lstm(
    input: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """`aten.lstm.input` outside of training, as one operator."""
    return tuple(  # type: ignore[return-value]
        t.clone() for t in torch.ops.aten.lstm.input(input, hx, params, has_biases, num_layers, 0.0, False, bidirectional, batch_first)
    )


@lstm.register_fake
def _(
    input: Tensor, hx: list[Tensor], params: list[Tensor], has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    width = hx[0].shape[-1] * (2 if bidirectional else 1)
    return input.new_empty((*input.shape[:-1], width)), torch.empty_like(hx[0]), torch.empty_like(hx[1])


@torch.library.custom_op("heddle::rnn", mutates_args=())
def rnn(
    kind: str, input: Tensor, hx: Tensor, params: list[Tensor], has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """`aten.gru.input`, `aten.rnn_tanh.input` or `aten.rnn_relu.input` outside of training, as one operator."""
    whole = getattr(torch.ops.aten, kind).input
    return tuple(  # type: ignore[return-value]
        t.clone() for t in whole(input, hx, params, has_biases, num_layers, 0.0, False, bidirectional, batch_first)
    )


@rnn.register_fake
def _(
    kind: str, input: Tensor, hx: Tensor, params: list[Tensor], has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor]:
    return input.new_empty((*input.shape[:-1], hx.shape[-1] * (2 if bidirectional else 1))), torch.empty_like(hx)


class _Recurrent(torch.nn.Module):
    """A recurrent module as one operator, where no gradient is wanted."""

    def __init__(self, inner: torch.nn.RNNBase) -> None:
        super().__init__()
        self.inner = inner
        self.kind = _MODES[inner.mode]

    def forward(self, input: Any, hx: Any = None) -> Any:
        inner = self.inner
        if not isinstance(input, Tensor) or torch.is_grad_enabled() or inner.training and inner.dropout or getattr(inner, "proj_size", 0):
            return inner(input, hx)
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if inner.batch_first else 1)
        if hx is None:
            rows = inner.num_layers * (2 if inner.bidirectional else 1)
            state = input.new_zeros(rows, input.shape[0 if inner.batch_first else 1], inner.hidden_size)
            hx = (state, state.clone()) if self.kind == "lstm" else state
        elif not batched:
            hx = tuple(h.unsqueeze(1) for h in hx) if self.kind == "lstm" else hx.unsqueeze(1)
        rest = (inner._flat_weights, inner.bias, inner.num_layers, inner.bidirectional, inner.batch_first)
        if self.kind == "lstm":
            output, *last = lstm(input, list(hx), *rest)
        else:
            output, *last = rnn(self.kind, input, hx, *rest)
        if not batched:
            output, last = output.squeeze(0 if inner.batch_first else 1), [h.squeeze(1) for h in last]
        return output, tuple(last) if self.kind == "lstm" else last[0]


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """Replaces `nn.LSTM`, `nn.GRU` and `nn.RNN` in a module, and gives the module: each becomes one operator of PyTorch's graphs, whose
    length stays open. Subclasses stay as they are, since they may compute something else. Weights are shared. Where gradients are wanted
    the modules run as before."""
    if type(module) in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        return _Recurrent(module)  # type: ignore[arg-type]
    for name, child in module.named_children():
        if not isinstance(module, _Recurrent):
            setattr(module, name, prepare(child))
    return module
