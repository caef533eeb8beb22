import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
centres = 2 * torch.randn(4, 12)
y_train, y_test = torch.randint(4, (192,)), torch.randint(4, (51,))
train_set = TensorDataset(centres[y_train] + 2 * torch.randn(192, 12), y_train)
test_set = TensorDataset(centres[y_test] + 2 * torch.randn(51, 12), y_test)
train_loader = DataLoader(train_set, batch_size=24 // accelerator.num_processes, shuffle=True)
test_share = Subset(test_set, range(accelerator.process_index, 51, accelerator.num_processes))
test_loader = DataLoader(test_share, batch_size=20)

model = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
set_seed(0, device_specific=True)

best = 0.0
for epoch in range(3):
    model.train()
    total = 0.0
    for x, y in train_loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(y)
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test_loader:
            correct += (accelerator.unwrap_model(model)(x).argmax(1) == y).sum().item()
    figures = torch.tensor([total, correct], dtype=torch.float64)
    total, correct = accelerator.reduce(figures, "sum").tolist()
    accuracy = correct / len(test_set)
    accelerator.print(f"epoch {epoch}: loss {total / len(train_set):.6f}, accuracy {accuracy:.4f}")
    scheduler.step(total)
    if accuracy > best:
        best = accuracy
        accelerator.save(accelerator.unwrap_model(model).state_dict(), "best.pt")
    if accelerator.is_main_process:
        with open("log.txt", "a") as log:
            log.write(f"{epoch} {accuracy:.4f}\n")
accelerator.end_training()
