"""Trains one of many networks against a judge, each with an optimizer that is chosen by its name."""

import argparse
import json

import networks
import torch
import torch.nn as nn
from losses import LOSSES
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--network", default="small")
parser.add_argument("--optimizer", default="sgd")
parser.add_argument("--loss", default="plain")
parser.add_argument("--judge", action="store_true")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--accumulate", type=int, default=2)
args = parser.parse_args()

OPTIMIZERS = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "adam": lambda weights: torch.optim.Adam(weights, lr=1e-3),
}
SETS = {"train", "validate", "test"}


def loaders():
    found = {}
    for name in sorted(SETS):
        data = TensorDataset(torch.randn(256, 8), torch.randint(0, 4, (256,)))
        found[name] = DataLoader(data, batch_size=32, shuffle=name == "train")
    return found


def network_of(name):
    if name == "small":
        return networks.Small(8, 4)
    if name == "deep":
        return networks.deep(8, 4)
    if name.startswith("wide"):
        return getattr(networks, name)(8, 4)
    return networks.TABLE[name](8, 4)


class Trainer:
    def __init__(self, network, judge, loaders):
        self.network, self.judge, self.loaders = network, judge, loaders
        self.optimizers = [OPTIMIZERS[args.optimizer](one.parameters()) for one in (network, judge)]
        self.criterion = LOSSES[args.loss]()
        self.figures = {"loss": [], "right": [], "judged": []}

    def step(self, number, x, y):
        guess = self.network(x)
        loss = self.criterion(guess, y)
        if args.judge:
            judged = self.judge(guess.softmax(1))
            loss = loss - 0.1 * judged.log().mean()
            self.figures["judged"].append(judged.mean().item())
        (loss / args.accumulate).backward()
        if (number + 1) % args.accumulate == 0:
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
        self.figures["loss"].append(loss.item())
        self.figures["right"].append((guess.argmax(1) == y).float().mean().item())

    def epoch(self, phase):
        train = phase == "train"
        self.network.train(train)
        self.judge.train(train)
        total, right, count = 0.0, 0, 0
        with torch.set_grad_enabled(train):
            for number, (x, y) in enumerate(self.loaders[phase]):
                if train:
                    self.step(number, x, y)
                    continue
                guess = self.network(x)
                total += self.criterion(guess, y).item() * len(x)
                right += (guess.argmax(1) == y).sum().item()
                count += len(x)
        return (total / count, right / count) if count else None


def main():
    network, judge = network_of(args.network), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
    trainer = Trainer(network, judge, loaders())
    best = None
    for epoch in range(args.epochs):
        for phase in ["train", "validate"]:
            found = trainer.epoch(phase)
            if phase == "validate":
                print(epoch, found)
                if best is None or found < best:
                    best = found
                    torch.save({"network": network.state_dict(), "judge": judge.state_dict()}, "best.pt")
    print("test", trainer.epoch("test"))
    with open("figures.json", "w") as file:
        json.dump(trainer.figures, file)


if __name__ == "__main__":
    main()
