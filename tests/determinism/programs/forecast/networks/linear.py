import torch.nn as nn


class Linear(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.each = args.embedding == "each"
        if self.each:
            self.lines = nn.ModuleList([nn.Linear(args.seen, args.ahead) for _ in range(args.channels)])
        else:
            self.line = nn.Linear(args.seen, args.ahead)
        self.norm = nn.LayerNorm(args.channels)

    def forward(self, x, marks, start):
        x = self.norm(x).transpose(1, 2)
        if not self.each:
            return self.line(x).transpose(1, 2)
        ahead = start.transpose(1, 2).clone()
        for number, line in enumerate(self.lines):
            ahead[:, number] = line(x[:, number])
        return ahead.transpose(1, 2)
