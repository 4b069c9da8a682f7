"""The small model in PyTorch."""
import torch
from torch._higher_order_ops import while_loop

from small import LENGTH, LIMIT


class Torch(torch.nn.Module):
    """Eager PyTorch, whose loop Python runs."""

    def __init__(self, w, fixed=None):
        super().__init__()
        self.register_buffer("W", torch.from_numpy(w["W"].copy()))
        self.fixed = fixed

    def step(self, x, h):
        """One step."""
        return torch.tanh(h @ self.W + x)

    def forward(self, x):
        """The last state and the number of steps."""
        h, n = torch.zeros_like(x[0]), 0
        while n < LENGTH and (n < self.fixed[0] if self.fixed is not None else bool(h[0, 0] < LIMIT)):
            h, n = self.step(x[n], h), n + 1
        return h, x.new_full((), n, dtype=torch.int64)


class TorchGraph(Torch):
    """The same with `while_loop`."""

    def forward(self, x):
        """The last state and the number of steps."""
        def body(n, h):
            return n + 1, self.step(x.index_select(0, n[None])[0], h)

        n, h = while_loop(lambda n, h: (n < LENGTH) & (h[0, 0] < LIMIT), body, (x.new_zeros((), dtype=torch.int64), torch.zeros_like(x[0])))
        return h, n
