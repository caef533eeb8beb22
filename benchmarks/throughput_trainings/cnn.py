"""Pictures in, classes out, with BatchNorm."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from clock import Clock

BATCH, EPOCHS = 64, 5
torch.manual_seed(0)
pictures = torch.randn(BATCH * 20, 3, 24, 24)
classes = pictures.mean((2, 3)).argmax(1)
data = TensorDataset(pictures, classes)
loader = DataLoader(data, batch_size=BATCH, shuffle=True)


def block(into, out):
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)
    )


model = nn.Sequential(block(3, 24), block(24, 48), block(48, 96), nn.Flatten(), nn.Linear(96 * 9, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
clock = Clock(EPOCHS)
for epoch in range(EPOCHS):
    clock.start()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    clock.stop(len(loader))
