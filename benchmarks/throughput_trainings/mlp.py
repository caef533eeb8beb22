"""Numbers in, classes out: little computing for each collective."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from clock import Clock

BATCH, EPOCHS = 256, 6
torch.manual_seed(0)
features = torch.randn(BATCH * 40, 128)
classes = (features[:, :10]).argmax(1)
data = TensorDataset(features, classes)
loader = DataLoader(data, batch_size=BATCH, shuffle=True)
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
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
