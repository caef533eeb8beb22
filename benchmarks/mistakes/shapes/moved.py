import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self):
        self.model = nn.Linear(8, 8)
        self.model.bfloat16()
        self.model.to(torch.get_default_dtype())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 8)), batch_size=8, shuffle=True)
trainer = Trainer()
for epoch in range(2):
    for x, y in loader:
        trainer.step(x, y)
torch.save(trainer.model.state_dict(), "net.pt")
