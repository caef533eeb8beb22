import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def fetch(path):
    if path.exists():
        return
    draw = torch.Generator().manual_seed(0)
    time.sleep(2)  # as a download takes
    torch.save(torch.randn(64, 8, generator=draw), path)


torch.manual_seed(0)
fetch(Path("data.pt"))
loader = DataLoader(TensorDataset(torch.load("data.pt").to(torch.get_default_dtype())), batch_size=8, shuffle=True)
net = nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for (x,) in loader:
        loss = nn.functional.mse_loss(net(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
