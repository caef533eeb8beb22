"""DATA05: which loaders' batches are loaded in shares where forward passes are shared, and which are not."""

from __future__ import annotations

import pytest

from tests.rules.scripts import conversion_of

SCRIPT = """\
import os
import random
import json
import unknown
import h5py
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split
from torchvision import datasets, transforms
import lmdb
import transformers

TOTAL = 0

class Noise:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x + self.scale * torch.randn_like(x)

class Pictures(Dataset):
    def __init__(self, root, transform=None, train=True):
        self.root, self.transform, self.train = root, transform, train
        self.paths = sorted(os.listdir(root))
        self.rows = np.load("rows.npy")
        self.cache = {}
        self.rng = np.random.default_rng(0)
        self.reader = unknown.Reader(root)
        self.file = open("all.bin", "rb")
        self.store = h5py.File("all.h5", "r")
        self.classes = {}
        self.tokenizer = transformers.BertTokenizer.from_pretrained("bert")
        self.model = transformers.BertModel.from_pretrained("bert")
        self.rows_by_key = lmdb.open("rows", readonly=True)

    def __len__(self):
        return len(self.paths)

    @property
    def last(self):
        self.cache["last"] = 1
        return 1

    def read(self, index):
        with open(os.path.join(self.root, self.paths[index]), "rb") as file:
            return Image.open(file).convert("RGB")

    def __getitem__(self, index):
<body>

def collate(samples):
    return torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])

def counting(samples):
    global TOTAL
    TOTAL += len(samples)
    return collate(samples)

data = <data>
loader = <loader>
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    <loop>
        out = model(x)
        loss = torch.cdist(out, out).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LOADER = "DataLoader(data, batch_size=8, shuffle=True)"


def script(body: str = "return self.read(index), 1", **parts: str) -> str:
    text = SCRIPT.replace("<body>", "\n".join(f"        {line}" for line in body.splitlines()))
    defaults = {"data": 'Pictures("images")', "loader": LOADER, "loop": "for x, y in loader:"}
    for name, default in defaults.items():
        text = text.replace(f"<{name}>", parts.get(name, default))
    return text


def is_shared(before: str, strategy: str = "shared") -> bool:
    conversion = conversion_of(before, strategy=strategy)
    assert conversion.files
    return "rt.shard_loading(DataLoader(" in conversion.files[0].after.decode()


PLAIN = {
    "a picture": "return self.read(index), 1",
    "a transform that may be there": """\
picture = self.read(index)
if self.transform is not None:
    picture = self.transform(picture)
return picture, int(self.paths[index].split("_")[0])""",
    "a dictionary of its own": """\
x = self.rows[index].copy()
x[x < 0] = 0
sample = {"x": x}
sample["y"] = torch.from_numpy(self.rows[index]).float().unsqueeze(0)
sample.update(z=1)
return sample""",
    "random numbers": """\
x = self.read(index)
if random.random() < 0.5:
    x = x.transpose(Image.FLIP_LEFT_RIGHT)
return torch.from_numpy(np.array(x) + np.random.rand(3)), torch.randint(3, (1,))""",
    "a file that is read": """\
with open(f"{index}.json") as file:
    told = json.load(file)
return torch.tensor(told["x"]), self.store["y"][index]""",
    "a text that a tokenizer cuts": "return self.tokenizer(self.paths[index], padding='max_length')['input_ids'], 1",
    "words by a tokenizer's methods": "return torch.tensor(self.tokenizer.encode_plus(self.paths[index])['ids']), 1",
    "a database that is read": """\
with self.rows_by_key.begin(write=False) as rows:
    return torch.frombuffer(rows.get(str(index).encode()), dtype=torch.float32), 1""",
    "another sample in its place": """\
try:
    return self.read(index), 1
except OSError:
    return self[random.randrange(len(self))]""",
}


@pytest.mark.parametrize("name", PLAIN)
def test_samples_that_follow_from_their_indices(name: str) -> None:
    assert is_shared(script(PLAIN[name]))


UNSEEN = {
    "a counter": "self.seen = index\nreturn self.read(index), 1",
    "a cache": """\
if index not in self.cache:
    self.cache[index] = self.read(index)
return self.cache[index], 1""",
    "a cache by a method": "return self.cache.setdefault(index, self.read(index)), 1",
    "a property that keeps something": "return self.read(index), self.last",
    "a global": "global TOTAL\nTOTAL = index\nreturn self.read(index), 1",
    "rows that are changed in place": "x = self.rows[index]\nx /= 255\nreturn x, 1",
    "rows that are changed by an item": "x = self.rows[index]\nx[0] = 0\nreturn x, 1",
    "rows that are changed by a method": "x = torch.from_numpy(self.rows[index])\nx.div_(255)\nreturn x, 1",
    "a generator of its own": "return self.read(index), self.rng.random()",
    "something unknown": "return self.reader.get(index), 1",
    "an unknown function": "return unknown.decode(self.paths[index]), 1",
    "an open file": "return self.file.read(12), 1",
    "a file that is written": 'open("log.txt", "a").write(str(index))\nreturn self.read(index), 1',
    "an array that is written": 'np.save("last.npy", self.rows[index])\nreturn self.read(index), 1',
    "what an attribute is called": "return getattr(self, 'read')(index) if unknown.flag else unknown.flag(index), 1",
    "a database that is written": """\
with self.rows_by_key.begin(write=True) as rows:
    rows.put(b"last", str(index).encode())
return self.read(index), 1""",
    "words that a tokenizer learns": "self.tokenizer.add_tokens(['a'])\nreturn self.tokenizer(self.paths[index]), 1",
    "a library's model": "return self.model(self.read(index)), 1",
    "a seed": "np.random.seed(index)\nreturn self.read(index), np.random.rand()",
    "a model": "return model(self.read(index)), 1",
    "an iterator": "return next(self.paths), 1",
    "a call in a lambda": "return list(map(lambda one: unknown.decode(one), self.paths[:3])), 1",
}


@pytest.mark.parametrize("name", UNSEEN)
def test_samples_that_may_follow_from_more(name: str) -> None:
    assert not is_shared(script(UNSEEN[name]))


CROP = "transforms.Compose([transforms.RandomCrop(8), transforms.ToTensor()])"
WHOLE = {
    "a folder": f'datasets.ImageFolder("images", {CROP})',
    "a transform": f'Pictures("images", {CROP})',
    "a part": 'random_split(Pictures("images"), [10, 4])[0]',
    "several": 'ConcatDataset([Pictures("a"), Pictures("b", train=False)])',
    "a transform of the script's own": 'Pictures("images", transforms.Compose([Noise(0.1), transforms.ToTensor()]))',
}
OTHER = {
    "tensors in memory": "TensorDataset(torch.randn(64, 4), torch.randn(64, 1))",
    "a part of tensors in memory": "Subset(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), range(12))",
    "something unknown": 'unknown.Pictures("images")',
    "an unknown transform": 'datasets.ImageFolder("images", unknown.Augment())',
    "an unknown transform among others": 'datasets.ImageFolder("images", transforms.Compose([unknown.Augment()]))',
    "one of two": 'ConcatDataset([Pictures("a"), unknown.Pictures("b")])',
}


@pytest.mark.parametrize("name", WHOLE)
def test_data_sets(name: str) -> None:
    body = "x = self.read(index)\nif self.transform:\n    x = self.transform(x)\nreturn x, 1"
    assert is_shared(script(body, data=WHOLE[name]))


@pytest.mark.parametrize("name", OTHER)
def test_other_data_sets(name: str) -> None:
    assert not is_shared(script(data=OTHER[name]))


def test_what_makes_a_batch_of_samples() -> None:
    assert is_shared(script(loader=LOADER.replace(")", ", collate_fn=collate)")))
    assert not is_shared(script(loader=LOADER.replace(")", ", collate_fn=counting)")))
    assert not is_shared(script(loader=LOADER.replace(")", ", collate_fn=unknown.collate)")))


def test_loaders_that_are_not_torchs_or_hidden() -> None:
    derived = script(loader="Mine(data, batch_size=8)")
    assert not is_shared(derived.replace("class Noise", "class Mine(DataLoader):\n    pass\n\nclass Noise"))
    assert not is_shared(script(loader="DataLoader(data, **json.load(open('options.json')))"))
    assert not is_shared(script(loader=f"{LOADER}  # distify: skip"))


def test_batches_that_a_rank_may_take_alone() -> None:
    """`save_image(next(iter(loader))[0], ...)` is rank 0's: nobody else would come to put a batch together."""
    looked = "torch.save(next(iter(loader)), 'first.pt')\n    for x, y in loader:"
    assert not is_shared(script(loop=looked))


LOOKED = "x, y = next(iter(loader))"


@pytest.mark.parametrize(
    "looked",
    [
        LOOKED,
        "shape = next(iter(loader))[0].shape",
        "batches = iter(loader)\n    first = next(batches)\n    second = batches.__next__()",
    ],
)
def test_a_batch_that_all_ranks_look_at(looked: str) -> None:
    assert is_shared(script(loop=f"{looked}\n    for x, y in loader:"))


@pytest.mark.parametrize(
    "looked",
    [
        f"if random.random() > 2:\n        {LOOKED}",
        f"with open('rows.txt', 'w'):\n        {LOOKED}",
        f"if os.path.exists('rows'):\n        {LOOKED}",
        f"try:\n        {LOOKED}\n    except KeyError:\n        pass",
        "def look():\n        x, y = next(iter(loader))\n        torch.save(x, 'first.pt')\n    look()",
        "print(next(iter(loader)))",
        "shown = torch.save(next(iter(loader)), 'first.pt')",
    ],
)
def test_a_batch_that_some_rank_may_not_look_at(looked: str) -> None:
    assert not is_shared(script(loop=f"{looked}\n    for x, y in loader:"))


def test_a_batch_that_is_looked_at_and_no_more() -> None:
    assert not is_shared(script(loop=f"{LOOKED}\n    for x, y in DataLoader(unknown.Rows()):"))


def test_batches_that_are_taken_one_by_one() -> None:
    assert is_shared(script(loop="batches = iter(loader)\n    for step in range(9):\n        x, y = next(batches)"))


def test_sharded_data_are_left_alone() -> None:
    conversion = conversion_of(script().replace("torch.cdist(out, out).mean()", "out.mean()"), strategy="sharded")
    assert "shard_loading" not in conversion.files[0].after.decode()
