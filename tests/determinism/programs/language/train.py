"""Learns a language from a text folded into columns; the criterion has weights of its own, and both may be resumed."""

import argparse
import math
import os

import torch
from criterion import Weighed
from network import Reader
from text import fold, piece, read

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="LSTM")
parser.add_argument("--optimizer", default="sgd")
parser.add_argument("--lr", type=float, default=1.0)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--alpha", type=float, default=2.0)
parser.add_argument("--resume", default="")
parser.add_argument("--save", default="reader.pt")
args = parser.parse_args()
torch.manual_seed(1)


def save(path):
    with open(path, "wb") as file:
        torch.save([reader, criterion, optimizer], file)


def resume(path):
    global reader, criterion, optimizer
    with open(path, "rb") as file:
        reader, criterion, optimizer = torch.load(file)


if os.path.exists("text.pt"):
    text = torch.load("text.pt")
else:
    text = read("text.txt")
    torch.save(text, "text.pt")
train_text = fold(text[:-2000], args.batch_size)
test_text = fold(text[-2000:], 10)

criterion = None
reader = Reader(args.kind, 100, 32, 0.2)
if args.resume:
    resume(args.resume)
    optimizer.param_groups[0]["lr"] = args.lr
if not criterion:
    criterion = Weighed(32, 100)
weights = list(reader.parameters()) + list(criterion.parameters())


def evaluate(source, columns):
    reader.eval()
    total, state = 0, reader.blank(columns)
    for start in range(0, source.size(0) - 1, args.steps):
        symbols, targets = piece(source, start, args.steps)
        output, state = reader(symbols, state)
        total += len(symbols) * criterion(reader.out.weight, output, targets).data
        state = reader.cut(state)
    return total.item() / len(source)


def train():
    total, state = 0, reader.blank(args.batch_size)
    batch, start = 0, 0
    while start < train_text.size(0) - 2:
        reader.train()
        symbols, targets = piece(train_text, start, args.steps)
        state = reader.cut(state)
        optimizer.zero_grad()
        output, state, raw, dropped = reader(symbols, state, layers=True)
        plain = criterion(reader.out.weight, output, targets)
        loss = plain
        if args.alpha:
            loss = loss + sum(args.alpha * one.pow(2).mean() for one in dropped[-1:])
            loss = loss + sum((one[1:] - one[:-1]).pow(2).mean() for one in raw[-1:])
        loss.backward()
        if args.clip:
            torch.nn.utils.clip_grad_norm_(weights, args.clip)
        optimizer.step()
        total += plain.data
        if batch % 50 == 0 and batch > 0:
            print(f"epoch {epoch} batch {batch}: {math.exp(total.item() / 50):.2f}")
            total = 0
        batch += 1
        start += args.steps


best = 1e9
optimizer = None
if args.optimizer == "sgd":
    optimizer = torch.optim.SGD(weights, lr=args.lr)
if args.optimizer == "adam":
    optimizer = torch.optim.Adam(weights, lr=args.lr)
for epoch in range(1, args.epochs + 1):
    train()
    if "t0" in optimizer.param_groups[0]:
        kept = {}
        for one in reader.parameters():
            kept[one] = one.data.clone()
            one.data = optimizer.state[one]["ax"].clone()
        loss = evaluate(test_text, 10)
        if loss < best:
            save(args.save)
            best = loss
        for one in reader.parameters():
            one.data = kept[one].clone()
    else:
        loss = evaluate(test_text, 10)
        if loss < best:
            save(args.save)
            best = loss
        if args.optimizer == "sgd" and epoch == 3:
            optimizer = torch.optim.ASGD(weights, lr=args.lr, t0=0)
resume(args.save)
print("test", evaluate(test_text, 10))
