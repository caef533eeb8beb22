import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

hvd.init()
rank, ranks = hvd.rank(), hvd.size()
torch.manual_seed(0)
centres = 2 * torch.randn(4, 12)
y_train, y_test = torch.randint(4, (192,)), torch.randint(4, (51,))
train_set = TensorDataset(centres[y_train] + 2 * torch.randn(192, 12), y_train)
test_set = TensorDataset(centres[y_test] + 2 * torch.randn(51, 12), y_test)
sampler = DistributedSampler(train_set, num_replicas=ranks, rank=rank)
train_loader = DataLoader(train_set, batch_size=24 // ranks, sampler=sampler)
test_loader = DataLoader(Subset(test_set, range(rank, 51, ranks)), batch_size=20)

model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
torch.manual_seed(rank)

best = 0.0
for epoch in range(3):
    model.train()
    sampler.set_epoch(epoch)
    total = 0.0
    for x, y in train_loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
        total += loss.item() * len(y)
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test_loader:
            correct += (model(x).argmax(1) == y).sum().item()
    figures = torch.tensor([total, correct], dtype=torch.float64)
    figures = hvd.allreduce(figures, op=hvd.Sum)
    total, correct = figures.tolist()
    accuracy = correct / len(test_set)
    if rank == 0:
        print(f"epoch {epoch}: loss {total / len(train_set):.6f}, accuracy {accuracy:.4f}")
    scheduler.step(total)
    if accuracy > best:
        best = accuracy
        if rank == 0:
            torch.save(model.state_dict(), "best.pt")
    if rank == 0:
        with open("log.txt", "a") as log:
            log.write(f"{epoch} {accuracy:.4f}\n")
