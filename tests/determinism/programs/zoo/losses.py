import torch
import torch.nn as nn
import torch.nn.functional as F


class Focal(nn.Module):
    def forward(self, guess, y):
        loss = F.cross_entropy(guess, y, reduction="none")
        return ((1 - torch.exp(-loss)) ** 2 * loss).mean()


class Summed(nn.Module):
    def forward(self, guess, y):
        return F.cross_entropy(guess, y, reduction="sum") / len(y)


class Pairs(nn.Module):
    def forward(self, guess, y):
        same = (y[:, None] == y[None, :]).float()
        return ((torch.cdist(guess, guess) - same) ** 2).mean()


LOSSES = {"plain": nn.CrossEntropyLoss, "focal": Focal, "summed": Summed, "pairs": Pairs}
