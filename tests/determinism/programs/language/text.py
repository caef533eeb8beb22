import torch


def read(path):
    with open(path) as file:
        return torch.tensor([ord(symbol) % 100 for symbol in file.read()])


def fold(text, columns):
    rows = text.size(0) // columns
    return text.narrow(0, 0, rows * columns).view(columns, -1).t().contiguous()


def piece(source, start, steps):
    length = min(steps, len(source) - 1 - start)
    return source[start : start + length], source[start + 1 : start + 1 + length].view(-1)
