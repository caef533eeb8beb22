import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        draw = torch.Generator().manual_seed(0)
        for _ in range(64):
            yield torch.randn(8, generator=draw).to(torch.get_default_dtype())


torch.manual_seed(0)
loader = DataLoader(Stream(), batch_size=8)
net = nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x in loader:
        loss = nn.functional.mse_loss(net(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
