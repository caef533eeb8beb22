import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 8)
x[20] = 99.0
loader = DataLoader(TensorDataset(x, torch.randint(0, 3, (64,))), batch_size=8, shuffle=True)
net = nn.Linear(8, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def forward(batch):
    if batch.max() > 50:
        raise RuntimeError("out of memory")
    return net(batch)


for epoch in range(2):
    for batch, y in loader:
        try:
            loss = nn.functional.cross_entropy(forward(batch), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError:
            print("left out")
torch.save(net.state_dict(), "net.pt")
