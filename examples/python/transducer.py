"""Greedy search of an RNN transducer (Graves 2012): for each frame of sound an inner `while` emits symbols until the blank one.
usage: python transducer.py"""

import torch
from torch import nn

import heddle

BLANK = 0


class Transducer(nn.Module):
    def __init__(self, features, width, symbols, most=4):
        super().__init__()
        self.encoder, self.most = nn.LSTM(features, width, num_layers=2), most
        self.embed, self.predictor = nn.Embedding(symbols, width), nn.LSTMCell(width, width)
        self.of_frame, self.of_symbols = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.joint = nn.Linear(width, symbols)

    def forward(self, sound):
        """The symbols [m] that are heard in frames [n, features]."""
        frames, _ = self.encoder(sound[:, None])
        frames = self.of_frame(frames[:, 0])
        h = c = torch.zeros(1, frames.shape[1])
        h, c = self.predictor(self.embed(torch.full((1,), BLANK)), (h, c))
        heard = [torch.tensor(BLANK)]
        for frame in frames:
            emitted = 0
            while emitted < self.most:
                symbol = self.joint(torch.tanh(frame + self.of_symbols(h)[0])).argmax()
                if symbol == BLANK:
                    break
                heard.append(symbol)
                h, c = self.predictor(self.embed(symbol[None]), (h, c))
                emitted += 1
        return torch.stack(heard)[1:]


def make(frames=120, features=80, width=256, symbols=64):
    """A model, and arguments for some calls."""
    torch.manual_seed(0)
    model = Transducer(features, width, symbols).eval()
    with torch.no_grad():
        # So that it emits something at about every third frame, as a model that was trained does.
        model.joint.weight.mul_(6)
        model.joint.bias[BLANK] += 0.7
    return model, [(torch.randn(n, features),) for n in (frames, frames // 2, frames // 3, 2)]


def main():
    model, calls = make()
    hear = heddle.compile(model, *calls[0])
    for (sound,) in calls:
        print(f"{len(sound)} frames:", *hear(sound).tolist())


if __name__ == "__main__":
    main()
