"""Mixed precision, gradients accumulated over three batches, a rate that follows the steps, and averaged weights."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 6)
data = TensorDataset(x, (x.sum(1) > 0).long())
loader = DataLoader(data, batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
epochs, every = 145, 3
steps = epochs * -(-len(loader) // every)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps + 1)
scaler = torch.amp.GradScaler("cuda", enabled=torch.cuda.is_available())
for _ in range(epochs):
    for index, (points, kinds) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(points), kinds) / every
        scaler.scale(loss).backward()
        if (index + 1) % every == 0 or index + 1 == len(loader):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
            with torch.no_grad():
                for mean, new in zip(average.parameters(), model.parameters(), strict=True):
                    mean.mul_(0.99).add_(new, alpha=0.01)
torch.save(average.state_dict(), "average.pt")
print("loss", loss.item() * every)
