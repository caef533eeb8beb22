import torch
import torch.nn as nn


class Small(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.hidden, self.out = nn.Linear(width, 16), nn.Linear(16, classes)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


class Normed(nn.Module):
    def __init__(self, width, classes, times=2):
        super().__init__()
        layers = [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()]
        self.body = nn.Sequential(*layers * times)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.body(x))


class Dense(nn.Module):
    def __init__(self, width, classes, parts=3):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(width * (one + 1), width) for one in range(parts)])
        self.aside = nn.Linear(width, classes)
        self.out = nn.Linear(width * (parts + 1), classes)

    def forward(self, x):
        held = [x]
        for part in self.parts:
            held.append(torch.relu(part(torch.cat(held, 1))))
        return self.out(torch.cat(held, 1))


class Branched(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.left, self.right = Small(width, classes), Normed(width, classes)
        self.weigh = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        share = torch.sigmoid(self.weigh)
        if self.training:
            return share * self.left(x) + (1 - share) * self.right(x)
        return self.left(x)


def deep(width, classes):
    return Normed(width, classes, times=4)


def wide_once(width, classes):
    return nn.Sequential(nn.Linear(width, 64), nn.ReLU(), Small(64, classes))


def wide_twice(width, classes):
    return nn.Sequential(nn.Linear(width, 128), nn.ReLU(), Dense(128, classes))


TABLE = {"normed": Normed, "dense": Dense, "branched": Branched, "wide": wide_once}
