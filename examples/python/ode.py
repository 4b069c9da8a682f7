"""Solves a neural differential equation with steps that adapt to the error (Bogacki and Shampine 1989): a `while` with an `if`.
usage: python ode.py"""

import torch
from torch import nn

import heddle


class Field(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size + 1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, size))

    def forward(self, t, x):
        return self.net(torch.cat([x, t.expand(x.shape[0], 1)], 1))


class Solver(nn.Module):
    def __init__(self, field, tolerance=1e-4):
        super().__init__()
        self.field, self.tolerance = field, tolerance

    def forward(self, x, end):
        """`x` [n, size] at the time `end`, and the steps that were taken and refused."""
        t, h = torch.zeros(()), end / 16
        taken, refused = 0, 0
        slope = self.field(t, x)
        while t < end:
            h = torch.minimum(h, end - t)
            second = self.field(t + h / 2, x + h / 2 * slope)
            third = self.field(t + h * 3 / 4, x + h * 3 / 4 * second)
            ahead = x + h * (2 / 9 * slope + 1 / 3 * second + 4 / 9 * third)
            last = self.field(t + h, ahead)
            error = h * (-5 / 72 * slope + 1 / 12 * second + 1 / 9 * third - 1 / 8 * last)
            ratio = (error / (self.tolerance + self.tolerance * torch.maximum(x.abs(), ahead.abs()))).square().mean().sqrt()
            if ratio <= 1:
                # The last slope is the next step's first.
                t, x, slope = t + h, ahead, last
                taken += 1
            else:
                refused += 1
            h = h * torch.clamp(0.9 * ratio.clamp(min=1e-10) ** (-1 / 3), 0.2, 5)
        return x, taken, refused


def make(points=64, size=2, width=64):
    """A model, and arguments for some calls."""
    torch.manual_seed(0)
    field = Field(size, width).eval()
    with torch.no_grad():
        for layer in field.net[::2]:
            layer.weight.mul_(3)
    return Solver(field), [(torch.randn(n, size), torch.tensor(end)) for n, end in ((points, 2.0), (points // 2, 0.5), (3, 4.0))]


def main():
    model, calls = make()
    solve = heddle.compile(model, *calls[0])
    for x, end in calls:
        x, taken, refused = solve(x, end)
        print(f"{len(x)} points at {float(end)}: {int(taken)} steps taken, {int(refused)} refused, mean {x.mean(0).tolist()}")


if __name__ == "__main__":
    main()
