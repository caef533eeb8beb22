import torch
import torch.nn as nn
from networks.embedding import Embedded


class Attended(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ask, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x, other):
        rows, steps, width = x.shape
        ask = self.ask(x).view(rows, steps, self.heads, -1)
        key = self.key(other).view(rows, other.shape[1], self.heads, -1)
        value = self.value(other).view(rows, other.shape[1], self.heads, -1)
        weights = torch.softmax(torch.einsum("blhe,bshe->bhls", ask, key), dim=-1)
        mixed = torch.einsum("bhls,bshd->blhd", weights, value).contiguous()
        return self.out(mixed.view(rows, steps, -1)), weights


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attended = Attended(width, 2)
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])

    def forward(self, x, other=None):
        mixed, weights = self.attended(x, x if other is None else other)
        x = self.norms[0](x + mixed)
        return self.norms[1](x + self.second(torch.relu(self.first(x)))), weights


class Shorter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm1d(width)
        self.pool = nn.MaxPool1d(3, stride=2, padding=1)

    def forward(self, x):
        return self.pool(torch.relu(self.norm(self.conv(x.transpose(1, 2))))).transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self, blocks, shorter=None):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.shorter = nn.ModuleList(shorter) if shorter is not None else None

    def forward(self, x):
        seen = []
        if self.shorter is not None:
            for block, shorten in zip(self.blocks, self.shorter):
                x, weights = block(x)
                x = shorten(x)
                seen.append(weights)
            x, weights = self.blocks[-1](x)
            seen.append(weights)
        else:
            for block in self.blocks:
                x, weights = block(x)
                seen.append(weights)
        return x, seen


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.ahead = args.ahead
        self.embedded = Embedded(args.channels, args.width, args.embedding)
        self.started = nn.Linear(args.channels, args.width)
        self.encoder = Encoder([Block(args.width) for _ in range(2)], [Shorter(args.width)])
        self.decoder = nn.ModuleList([Block(args.width) for _ in range(1)])
        self.out = nn.Linear(args.width, args.channels)

    def forward(self, x, marks, start):
        memory, seen = self.encoder(self.embedded(x, marks))
        ahead = self.started(start)
        for block in self.decoder:
            ahead, _ = block(ahead, memory)
        return self.out(ahead)[:, -self.ahead :, :]


class Stacked(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.ahead = args.ahead
        self.embedded = Embedded(args.channels, args.width, args.embedding)
        self.started = nn.Linear(args.channels, args.width)
        self.encoders = nn.ModuleList([Encoder([Block(args.width) for _ in range(count)]) for count in (2, 1)])
        self.decoder = Block(args.width)
        self.out = nn.Linear(args.width, args.channels)

    def forward(self, x, marks, start):
        embedded = self.embedded(x, marks)
        parts = [encoder(embedded[:, -embedded.shape[1] // (2**i) :, :])[0] for i, encoder in enumerate(self.encoders)]
        ahead, _ = self.decoder(self.started(start), torch.cat(parts, 1))
        return self.out(ahead)[:, -self.ahead :, :]
