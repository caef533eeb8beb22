import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Series(Dataset):
    step = 1

    def __init__(self, part, seen, ahead, channels):
        rows = {"train": 2000, "validate": 300, "test": 300}[part]
        times = np.arange(rows) * self.step
        self.values = np.stack([np.sin(times / (7.0 + one)) for one in range(channels)], 1)
        self.marks = np.stack([times % 24, times // 24 % 7], 1)
        self.mean, self.std = self.values.mean(0), self.values.std(0)
        self.seen, self.ahead = seen, ahead

    def __len__(self):
        return len(self.values) - self.seen - self.ahead

    def __getitem__(self, index):
        middle, end = index + self.seen, index + self.seen + self.ahead
        x, y = self.values[index:middle], self.values[middle:end]
        return torch.tensor(x), torch.tensor(y), torch.tensor(self.marks[index:middle])

    def inverse(self, values):
        return values * torch.tensor(self.std) + torch.tensor(self.mean)


class Hourly(Series):
    pass


class Minutely(Series):
    step = 60


KINDS = {"hourly": Hourly, "minutely": Minutely, "other": Series}


def loader_of(args, part):
    kind = KINDS[args.data]
    if part == "test":
        shuffle, drop_last = False, False
    else:
        shuffle, drop_last = True, True
    data = kind(part, args.seen, args.ahead, args.channels)
    return data, DataLoader(data, batch_size=args.batch_size, shuffle=shuffle, drop_last=drop_last)
