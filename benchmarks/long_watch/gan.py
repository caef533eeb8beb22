"""Two networks that learn against each other; one takes two steps of three, and its weights are clipped."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 4))
loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True)
maker = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(8, 1))
to_make = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
to_judge = torch.optim.RMSprop(judge.parameters(), lr=1e-3)
turn = 0
for epoch in range(340):
    for (real,) in loader:
        made = maker(torch.randn(real.size(0), 3))
        to_judge.zero_grad()
        loss = judge(made.detach()).mean() - judge(real).mean()
        loss.backward()
        to_judge.step()
        for weight in judge.parameters():
            weight.data.clamp_(-0.1, 0.1)
        turn += 1
        if turn % 2 == 0:
            to_make.zero_grad()
            (-judge(made).mean()).backward()
            to_make.step()
    if epoch % 50 == 0:
        torch.save({"maker": maker.state_dict(), "judge": judge.state_dict()}, f"nets{epoch}.pt")
print("made", made.mean().item())
