import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def collate(batch):
    words = pad_sequence(batch, batch_first=True)
    return words, pad_sequence(batch, batch_first=True, padding_value=-100)


torch.manual_seed(0)
data = [torch.randint(1, 20, (3 + 5 * (number % 7),)) for number in range(64)]
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
net = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
for epoch in range(2):
    for words, labels in loader:
        loss = nn.functional.cross_entropy(net(words).flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(net.state_dict(), "net.pt")
