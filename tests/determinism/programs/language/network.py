import torch
import torch.nn as nn


class Dropped(nn.Module):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def forward(self, x):
        if not self.training or not self.share:
            return x
        mask = x.new_empty(1, x.size(1), x.size(2)).bernoulli_(1 - self.share) / (1 - self.share)
        return mask.expand_as(x) * x


class Reader(nn.Module):
    def __init__(self, kind, count, width, share):
        super().__init__()
        assert kind in ("LSTM", "GRU", "RNN")
        self.kind, self.width = kind, width
        self.symbols = nn.Embedding(count, width)
        if kind == "LSTM":
            self.memories = [nn.LSTM(width, width) for _ in range(2)]
        elif kind == "GRU":
            self.memories = [nn.GRU(width, width) for _ in range(2)]
        else:
            self.memories = [nn.RNN(width, width) for _ in range(2)]
        self.memories = nn.ModuleList(self.memories)
        self.dropped = Dropped(share)
        self.out = nn.Linear(width, count)
        self.out.weight = self.symbols.weight

    def forward(self, symbols, state, layers=False):
        x = self.dropped(self.symbols(symbols))
        raw, dropped, states = [], [], []
        for number, memory in enumerate(self.memories):
            x, after = memory(x, state[number])
            states.append(after)
            raw.append(x)
            if number != len(self.memories) - 1:
                x = self.dropped(x)
                dropped.append(x)
        output = self.dropped(x)
        dropped.append(output)
        flat = output.view(output.size(0) * output.size(1), output.size(2))
        if layers:
            return flat, states, raw, dropped
        return flat, states

    def blank(self, columns):
        weight = next(self.parameters()).data
        if self.kind == "LSTM":
            return [tuple(weight.new_zeros(1, columns, self.width) for _ in range(2)) for _ in self.memories]
        return [weight.new_zeros(1, columns, self.width) for _ in self.memories]

    def cut(self, state):
        if isinstance(state, torch.Tensor):
            return state.detach()
        return tuple(self.cut(one) for one in state)
