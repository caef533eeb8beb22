"""Each batch is also perturbed by an optimizer of its own; and a layer thaws later."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 6)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).float()), batch_size=16, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.Linear(6, 12)
        self.between = nn.Linear(12, 12)
        self.end = nn.Linear(12, 1)

    def forward(self, points):
        seen = torch.tanh(self.begin(points))
        return self.end(torch.tanh(self.between(seen)) + seen).squeeze(1)


net = Net()
net.begin.requires_grad_(False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
measure = nn.BCEWithLogitsLoss()
for epoch in range(105):
    if epoch == 20:
        net.begin.requires_grad_(True)
    for points, sides in loader:
        noise = torch.zeros_like(points, requires_grad=True)
        attack = torch.optim.SGD([noise], lr=0.1)
        attack.zero_grad()
        (-measure(net(points + noise), sides)).backward()
        attack.step()
        optimizer.zero_grad()
        loss = measure(net(points + noise.detach()), sides)
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
print("loss", loss.item())
