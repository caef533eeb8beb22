import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.randint(0, 3, (256,))
net = nn.Linear(8, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(16):
    chosen = torch.randint(0, 256, (8,))
    loss = nn.functional.cross_entropy(net(x[chosen]), y[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(net.state_dict(), "net.pt")
