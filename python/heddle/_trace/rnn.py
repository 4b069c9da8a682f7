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
    """A recurrent module as one operator, where no gradient is wanted. Its parameters have the names that they had."""

    def __init__(self, inner: torch.nn.RNNBase) -> None:
        super().__init__()
        self.kind = _MODES[inner.mode]
        self.num_layers, self.hidden_size, self.bias = inner.num_layers, inner.hidden_size, inner.bias
        self.bidirectional, self.batch_first, self.dropout = inner.bidirectional, inner.batch_first, float(inner.dropout)
        self.names = list(inner._flat_weights_names)
        for name in self.names:
            self.register_parameter(name, getattr(inner, name))
        self.train(inner.training)

    def forward(self, input: Any, hx: Any = None) -> Any:
        batched = input.dim() == 3
        rows_axis = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(rows_axis)
        if hx is None:
            rows = self.num_layers * (2 if self.bidirectional else 1)
            state = input.new_zeros(rows, input.shape[rows_axis], self.hidden_size)
            hx = (state, state.clone()) if self.kind == "lstm" else state
        elif not batched:
            hx = tuple(h.unsqueeze(1) for h in hx) if self.kind == "lstm" else hx.unsqueeze(1)
        params = [getattr(self, name) for name in self.names]
        if torch.is_grad_enabled() or (self.training and self.dropout):
            rest = (params, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)
            output, *last = getattr(torch._VF, self.kind)(input, hx, *rest)
        elif self.kind == "lstm":
            output, *last = lstm(input, list(hx), params, self.bias, self.num_layers, self.bidirectional, self.batch_first)
        else:
            output, *last = rnn(self.kind, input, hx, params, self.bias, self.num_layers, self.bidirectional, self.batch_first)
        if not batched:
            output, last = output.squeeze(rows_axis), [h.squeeze(1) for h in last]
        return output, tuple(last) if self.kind == "lstm" else last[0]


def prepare(module: torch.nn.Module) -> torch.nn.Module:
    """Replaces `nn.LSTM`, `nn.GRU` and `nn.RNN` in a module, and gives the module: each becomes one operator of PyTorch's graphs, whose
    length stays open. Subclasses stay as they are, since they may compute something else, and so do modules with projections. Weights are
    shared. Where gradients are wanted the modules compute as before. They take no packed sequences."""
    if type(module) in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN) and not getattr(module, "proj_size", 0):
        return _Recurrent(module)  # type: ignore[arg-type]
    for name, child in module.named_children():
        if not isinstance(module, _Recurrent):
            setattr(module, name, prepare(child))
    return module
