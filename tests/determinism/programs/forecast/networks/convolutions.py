import torch.nn as nn
from networks.embedding import Embedded


class Convolutions(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.embedded = Embedded(args.channels, args.width, args.embedding)
        self.layers = nn.Sequential(
            nn.Conv1d(args.width, args.width, 3, padding=1),
            nn.BatchNorm1d(args.width),
            nn.ReLU(),
            nn.Dropout(0.1),
        )
        self.unused = nn.Linear(args.width, args.width)
        self.out = nn.Linear(args.seen, args.ahead)
        self.channels = nn.Linear(args.width, args.channels)

    def forward(self, x, marks, start):
        hidden = self.layers(self.embedded(x, marks).transpose(1, 2))
        return self.channels(self.out(hidden).transpose(1, 2))
