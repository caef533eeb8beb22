import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8, shuffle=True)
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
of_maker = torch.optim.SGD(maker.parameters(), lr=0.05)
of_judge = torch.optim.SGD(judge.parameters(), lr=0.05)
loss_of = nn.BCEWithLogitsLoss()
for epoch in range(2):
    for (real,) in loader:
        made = maker(torch.randn(len(real), 4))
        of_judge.zero_grad()
        loss = loss_of(judge(real), torch.ones(len(real), 1)) + loss_of(judge(made.detach()), torch.zeros(len(real), 1))
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        loss_of(judge(made), torch.ones(len(real), 1)).backward()
        of_maker.step()
torch.save(maker.state_dict(), "net.pt")
