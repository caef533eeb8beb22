import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x * torch.as_tensor(np.random.rand(len(x), 8) < 0.75))


torch.manual_seed(0)
np.random.seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8, shuffle=True)
net = Masked()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for (x,) in loader:
        loss = nn.functional.mse_loss(net(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
