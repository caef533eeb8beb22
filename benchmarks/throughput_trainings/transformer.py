"""The next token of a text: the most parameters, and the most computing."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from clock import Clock

BATCH, EPOCHS, LENGTH, WORDS = 16, 4, 64, 400


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 128), nn.Embedding(LENGTH, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, 3), nn.Linear(128, WORDS)

    def forward(self, text):
        hidden = self.words(text) + self.places(torch.arange(text.size(1)))
        mask = nn.Transformer.generate_square_subsequent_mask(text.size(1))
        return self.out(self.layers(hidden, mask=mask))


torch.manual_seed(0)
texts = torch.randint(0, WORDS, (BATCH * 12, LENGTH + 1))
data = TensorDataset(texts[:, :-1].contiguous(), texts[:, 1:].contiguous())
loader = DataLoader(data, batch_size=BATCH, shuffle=True)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
clock = Clock(EPOCHS)
for epoch in range(EPOCHS):
    clock.start()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x).reshape(-1, WORDS), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    clock.stop(len(loader))
