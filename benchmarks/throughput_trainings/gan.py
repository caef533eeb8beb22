"""Two models that train against each other: two backward passes and two optimizers in a step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from clock import Clock

BATCH, EPOCHS = 128, 5
torch.manual_seed(0)
data = TensorDataset(torch.randn(BATCH * 30, 64) * 0.5 + 1, torch.randn(BATCH * 30, 32))
loader = DataLoader(data, batch_size=BATCH, shuffle=True)
maker = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
judge = nn.Sequential(nn.Linear(64, 256), nn.LeakyReLU(0.2), nn.Linear(256, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
makers = torch.optim.Adam(maker.parameters(), lr=2e-4)
judges = torch.optim.Adam(judge.parameters(), lr=2e-4)
score = nn.functional.binary_cross_entropy_with_logits
clock = Clock(EPOCHS)
for epoch in range(EPOCHS):
    clock.start()
    for real, noise in loader:
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = maker(noise)
        found = judge(torch.cat([real, fake.detach()]))
        loss = score(found, torch.cat([ones, zeros]))
        judges.zero_grad()
        loss.backward()
        judges.step()
        for parameter in judge.parameters():
            parameter.requires_grad_(False)
        loss = score(judge(fake), ones)
        makers.zero_grad()
        loss.backward()
        makers.step()
        for parameter in judge.parameters():
            parameter.requires_grad_(True)
    clock.stop(len(loader))
