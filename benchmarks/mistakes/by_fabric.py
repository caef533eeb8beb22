import os

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

fabric = Fabric(accelerator="cpu", strategy="ddp", devices=int(os.environ["WORLD_SIZE"]))
fabric.launch()
rank, ranks = fabric.global_rank, fabric.world_size
torch.manual_seed(0)
centres = 2 * torch.randn(4, 12)
y_train, y_test = torch.randint(4, (192,)), torch.randint(4, (51,))
train_set = TensorDataset(centres[y_train] + 2 * torch.randn(192, 12), y_train)
test_set = TensorDataset(centres[y_test] + 2 * torch.randn(51, 12), y_test)
train_loader = DataLoader(train_set, batch_size=24 // ranks, shuffle=True)
test_loader = DataLoader(Subset(test_set, range(rank, 51, ranks)), batch_size=20)
train_loader = fabric.setup_dataloaders(train_loader)

model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, optimizer = fabric.setup(model, optimizer)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
torch.manual_seed(rank)

best = 0.0
for epoch in range(3):
    model.train()
    total = 0.0
    for x, y in train_loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        total += loss.item() * len(y)
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test_loader:
            correct += (model.module(x).argmax(1) == y).sum().item()
    figures = torch.tensor([total, correct], dtype=torch.float64)
    total, correct = fabric.all_reduce(figures, reduce_op="sum").tolist()
    accuracy = correct / len(test_set)
    fabric.print(f"epoch {epoch}: loss {total / len(train_set):.6f}, accuracy {accuracy:.4f}")
    scheduler.step(total)
    if accuracy > best:
        best = accuracy
        if rank == 0:
            torch.save(model.module.state_dict(), "best.pt")
    if rank == 0:
        with open("log.txt", "a") as log:
            log.write(f"{epoch} {accuracy:.4f}\n")
dist.destroy_process_group()
