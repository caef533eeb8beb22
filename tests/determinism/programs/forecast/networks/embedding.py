import math

import torch
import torch.nn as nn


class Fixed(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        table = torch.zeros(count, width)
        places = torch.arange(count).float()[:, None]
        table[:, 0::2] = torch.sin(places / math.sqrt(count))
        table[:, 1::2] = torch.cos(places / math.sqrt(count))
        self.table = nn.Embedding(count, width)
        self.table.weight = nn.Parameter(table, requires_grad=False)

    def forward(self, places):
        return self.table(places).detach()


class OfTime(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        table = Fixed if kind == "fixed" else nn.Embedding
        if kind == "minutes":
            self.minute = table(60, width)
        self.hour = table(24, width)
        self.day = table(7, width)

    def forward(self, marks):
        marks = marks.long()
        minute = self.minute(marks[:, :, 0]) if hasattr(self, "minute") else 0.0
        return self.hour(marks[:, :, 0]) + self.day(marks[:, :, 1]) + minute


class OfMarks(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.linear = nn.Linear(2, width)

    def forward(self, marks):
        return self.linear(marks)


class Embedded(nn.Module):
    def __init__(self, channels, width, kind):
        super().__init__()
        self.values = nn.Linear(channels, width)
        self.times = OfTime(width, kind) if kind != "marks" else OfMarks(width, kind)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, marks):
        return self.drop(self.values(x) + self.times(marks))
