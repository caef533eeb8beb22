import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Dropped(nn.Module):
    def forward(self, x):
        if self.training:
            mask = torch.rand(*x.shape[:2], device=x.device) < 0.5
            return x * mask * 2
        return x


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 8)), batch_size=8, shuffle=True)
net = nn.Sequential(nn.Linear(8, 16), Dropped(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
