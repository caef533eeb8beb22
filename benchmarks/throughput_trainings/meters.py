"""As scripts for ImageNet are: meters of the loss and of two accuracies, shown every tenth batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from clock import Clock

BATCH, EPOCHS = 64, 5


class AverageMeter:
    def __init__(self, name):
        self.name, self.val, self.sum, self.count, self.avg = name, 0, 0, 0, 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return f"{self.name} {float(self.val):.4f} ({float(self.avg):.4f})"


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, found = output.topk(max(topk), 1)
        correct = found.t().eq(target.view(1, -1))
        return [correct[:k].reshape(-1).float().sum(0) * (100.0 / target.size(0)) for k in topk]


def block(into, out):
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)
    )


torch.manual_seed(0)
pictures = torch.randn(BATCH * 20, 3, 24, 24)
classes = pictures.flatten(1)[:, :10].argmax(1)
data = TensorDataset(pictures, classes)
loader = DataLoader(data, batch_size=BATCH, shuffle=True)
model = nn.Sequential(block(3, 24), block(24, 48), block(48, 96), nn.Flatten(), nn.Linear(96 * 9, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(epoch):
    losses, top1, top5 = AverageMeter("loss"), AverageMeter("top 1"), AverageMeter("top 5")
    for number, (x, y) in enumerate(loader):
        output = model(x)
        loss = criterion(output, y)
        acc1, acc5 = accuracy(output, y, topk=(1, 5))
        losses.update(loss.item(), x.size(0))
        top1.update(acc1, x.size(0))
        top5.update(acc5, x.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 10 == 0:
            print(epoch, number, losses, top1, top5)


clock = Clock(EPOCHS)
for epoch in range(EPOCHS):
    clock.start()
    train(epoch)
    clock.stop(len(loader))
