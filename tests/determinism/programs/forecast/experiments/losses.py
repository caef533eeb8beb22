import torch
import torch.nn as nn


class Relative(nn.Module):
    def forward(self, guess, truth):
        return torch.mean(torch.abs(guess - truth) / (torch.abs(truth) + 1))


class Scaled(nn.Module):
    def forward(self, guess, truth):
        return torch.sum(torch.abs(guess - truth)) / torch.sum(torch.abs(truth))
