import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.on = nn.ModuleList(nn.Linear(8, 8) for _ in range(blocks))
        self.out = nn.ModuleList(nn.Linear(8, 8) for _ in range(blocks))

    def forward(self, x):
        seen = 0
        for on, out in zip(self.on, self.out):
            seen = seen + out(torch.tanh(x))
            x = x + on(torch.tanh(x))  # what the last one adds is never used
        return seen


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 8)), batch_size=8, shuffle=True)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
