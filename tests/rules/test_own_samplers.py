"""DATA01: samplers, batch samplers and streams of the script's own keep choosing; their choice is dealt out."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    IMPORTS,
    RUNTIME,
    SHUFFLED,
    WRAPPER,
    blocked,
    converted,
    distributed,
    line_of,
    script,
)  # fmt: skip

HEAD = f"""\
{IMPORTS}\
from functools import partial
from torch.utils.data import BatchSampler, IterableDataset, Sampler, WeightedRandomSampler
"""
SETUP = """\
class Batches(BatchSampler): pass
class Own(Sampler): pass
class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.randn(4), torch.randn(1))])
"""
RUN_TIME = "    rt.set_epoch(loader, epoch)\n"
SAMPLER = "    loader.sampler.set_epoch(epoch)\n"


def check(before: str, after: str, epoch: str = SAMPLER, setup: str = "") -> None:
    found = converted(script(imports=HEAD, setup=SETUP + setup, loader=before))
    assert found == distributed(
        imports=HEAD,
        ours=RUNTIME + WRAPPER,
        setup=SETUP + setup,
        loader=after,
        loop=SHUFFLED.replace(SAMPLER, epoch),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "loader = DataLoader(data, 8, sampler=Own(data))\n",
            "loader = DataLoader(data, rt.per_rank_batch_size(8),\n"
            "                    sampler=rt.DistributedSamplerWrapper(Own(data)))\n",
            id="own class",
        ),
        pytest.param(
            "weights = WeightedRandomSampler([1.0] * 64, 64)\n"
            "loader = DataLoader(data, batch_size=8, sampler=weights, num_workers=2)\n",
            "weights = WeightedRandomSampler([1.0] * 64, 64)\n"
            "loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),\n"
            "                    sampler=rt.DistributedSamplerWrapper(weights),\n"
            "                    num_workers=rt.per_rank_workers(2))\n",
            id="name",
        ),
        pytest.param(
            "loader = DataLoader(\n    data, 8, False,\n    Own(data),  # by hand\n    drop_last=True,\n)\n",
            "loader = DataLoader(\n    data, rt.per_rank_batch_size(8), False,\n"
            "    rt.DistributedSamplerWrapper(Own(data), drop_last=True),  # by hand\n    drop_last=True,\n)\n",
            id="positional",
        ),
        pytest.param(
            "loader = DataLoader(sampler=list(range(0, 64, 2)), dataset=data, batch_size=8)\n",
            "loader = DataLoader(sampler=rt.DistributedSamplerWrapper(list(range(0, 64, 2))), dataset=data, "
            "batch_size=rt.per_rank_batch_size(8))\n",
            id="list",
        ),
    ],
)
def test_samplers(before: str, after: str) -> None:
    check(before, after)


def test_batch_samplers() -> None:
    check(
        "loader = DataLoader(data, batch_sampler=Batches(data, 8, False), num_workers=0)\n",
        "loader = DataLoader(data,\n"
        "                    batch_sampler=rt.DistributedBatchSampler(Batches(data, 8, False)), num_workers=0)\n",
        "    loader.batch_sampler.set_epoch(epoch)\n",
    )


def test_streams() -> None:
    check(
        "loader = DataLoader(Stream(), batch_size=8, num_workers=4, drop_last=True)\n",
        "loader = DataLoader(rt.shard_iterable(Stream(), drop_last=True), batch_size=rt.per_rank_batch_size(8), "
        "num_workers=4, drop_last=True)\n",
        "    loader.dataset.set_epoch(epoch)\n",
    )


@pytest.mark.parametrize(
    ("before", "after", "epoch"),
    [
        pytest.param(
            "loader = DataLoader(*(data, 8), shuffle=True)\n",
            "loader = DataLoader(**rt.shard_training(*(data, 8), shuffle=True))\n",
            RUN_TIME,
            id="*args",
        ),
        pytest.param(
            "loader = DataLoader(data, batch_size=8, **{'shuffle': True})\n",
            "loader = DataLoader(**rt.shard_training(data, batch_size=8, **{'shuffle': True}))\n",
            SAMPLER,
            id="keywords and **kwargs",
        ),
        pytest.param(
            "loader = DataLoader(**dict(dataset=data, batch_size=8))\n",
            "loader = DataLoader(**rt.shard_training(**dict(dataset=data, batch_size=8)))\n",
            SAMPLER,
            id="dataset in **kwargs",
        ),
        pytest.param(
            "more = {'batch_size': 8}\nmore.update(shuffle=True)\nloader = DataLoader(data, **more, **{})\n",
            "more = {'batch_size': 8}\nmore.update(shuffle=True)\n"
            "loader = DataLoader(**rt.shard_training(data, **more, **{}))\n",
            SAMPLER,
            id="several dictionaries",
        ),
        pytest.param(
            "own = Own(data) if quick() else None\n"
            "loader = DataLoader(data, batch_size=8, sampler=own, shuffle=own is None)\n",
            "own = Own(data) if quick() else None\n"
            "loader = DataLoader(**rt.shard_training(data, batch_size=8, sampler=own, shuffle=own is None))\n",
            RUN_TIME,
            id="perhaps a sampler",
        ),
        pytest.param(
            "source = Stream() if quick() else data\nloader = DataLoader(source, batch_size=8)\n",
            "source = Stream() if quick() else data\nloader = DataLoader(**rt.shard_training(source, batch_size=8))\n",
            RUN_TIME,
            id="perhaps a stream",
        ),
        pytest.param(
            "make = partial(DataLoader, batch_size=8)\nloader = make(data, shuffle=True)\n",
            "make = partial(DataLoader, batch_size=8)\nloader = rt.training_loader(make(data, shuffle=True))\n",
            SAMPLER,
            id="partial",
        ),
    ],
)
def test_told_when_it_runs(before: str, after: str, epoch: str) -> None:
    check(before, after, epoch, setup="def quick(): return len(data) < 9\n")


def test_without_a_counter_the_chooser_counts() -> None:
    loop = SHUFFLED.replace("for epoch in range(3):", "while True:").replace(SAMPLER, "")
    before = script(imports=HEAD, setup=SETUP, loader="loader = DataLoader(Stream(), batch_size=8)\n", loop=loop)
    assert "    rt.reshuffle(loader)\n" in converted(before)


def test_batches_of_the_data_set_are_left_to_a_person() -> None:
    before = script(loader="loader = DataLoader(data, batch_size=None)\n")
    assert blocked(before) == {("DATA01", line_of(before, "loader = "))}


def test_a_batch_size_that_shapes_tensors_and_hides_in_a_dictionary_is_left_to_a_person() -> None:
    before = script(
        loader="size = 8\noptions = {'batch_size': size}\nloader = DataLoader(data, **options)\n",
        loop="for epoch in range(3):\n    for x, y in loader:\n        loss = (model(x) - torch.ones(size, 1)).mean()\n"
        "        loss.backward()\n        optimizer.step()\n",
    )
    assert ("BATCH01", line_of(before, "torch.ones")) in blocked(before)


def test_a_partial_in_evaluation_keeps_its_batch_size() -> None:
    imports = IMPORTS.replace("import torch\n", "import torch\nfrom functools import partial\n")
    before = script(
        imports=imports,
        setup="make = partial(DataLoader, batch_size=16)\n",
        after="model.eval()\nright = 0\nwith torch.no_grad():\n    for x, y in make(data):\n"
        "        right += (model(x) > y).sum().item()\nprint(right)\n",
    )
    assert "    for x, y in make(data):\n" in converted(before)


@pytest.mark.parametrize(
    ("given", "sampler"),
    [
        ("sampler=SubsetRandomSampler(range(9))", "rt.UnpaddedSampler(data, SubsetRandomSampler(range(9)))"),
        ("sampler=SequentialSampler(data)", "rt.UnpaddedSampler(data)"),
        ("sampler=None", "rt.UnpaddedSampler(data)"),
    ],
)
def test_evaluation_of_what_a_sampler_chooses(given: str, sampler: str) -> None:
    before = script(
        setup="from torch.utils.data import SequentialSampler, SubsetRandomSampler\n",
        after=f"other = DataLoader(data, {given})\n"
        "model.eval()\nright = 0\nwith torch.no_grad():\n    for x, y in other:\n"
        "        right += (model(x) > y).sum().item()\nprint(right)\n",
    )
    assert f"other = DataLoader(data, sampler={sampler})\n" in converted(before)


FOREIGN = f"""\
{IMPORTS}\
import feeds
from datasets import load_dataset
from torchvision.datasets import FakeData


class Indexed(feeds.Data):
    def __getitem__(self, index):
        return index


class Derived(feeds.Data): pass


"""


@pytest.mark.parametrize(
    "data",
    [
        'feeds.Data("a")', "feeds.open_all().test", "Derived()", 'load_dataset("a", split="train", streaming=True)',
        'load_dataset("a", streaming=bool(input()))["train"].map(str)',
    ],
)  # fmt: skip
def test_a_data_set_that_may_be_a_stream_is_dealt_out_when_it_is_seen(data: str) -> None:
    """A TrainingSampler asks for its length, which a stream does not have."""
    new = converted(
        script(imports=FOREIGN, data=f"data = {data}\n", loader="loader = DataLoader(data, batch_size=8)\n")
    )
    assert "loader = DataLoader(**rt.shard_training(data, batch_size=8))\n" in new
    assert "TrainingSampler" not in new


@pytest.mark.parametrize(
    ("data", "loader"),
    [
        ('feeds.Data("a")', "data, batch_size=8, shuffle=True"),
        ('feeds.Data("a")', "data, batch_size=8, sampler=torch.utils.data.SequentialSampler(data)"),
        ("Indexed()", "data, batch_size=8"),
        ("FakeData()", "data, batch_size=8"),
        ("[1, 2]", "data, batch_size=8"),
        ('torch.load("a.pt", map_location="cpu")', "data, batch_size=8"),
        ("torch.utils.data.Subset(feeds.Data('a'), [1, 2])", "data, batch_size=8"),
        ('load_dataset("a", split="train").map(str)', "data, batch_size=8"),
        ('load_dataset("a", split="train", streaming=False)', "data, batch_size=8"),
    ],
)
def test_a_data_set_with_a_length_has_a_sampler(data: str, loader: str) -> None:
    """torch shuffles no stream, nor takes a sampler for one: who asks for that has a length."""
    new = converted(script(imports=FOREIGN, data=f"data = {data}\n", loader=f"loader = DataLoader({loader})\n"))
    assert "shard_training" not in new
    assert "rt.TrainingSampler(data" in new or "rt.DistributedSamplerWrapper(" in new


def test_an_evaluation_of_what_may_be_a_stream_is_left_to_all_ranks() -> None:
    after = """\
model.eval()
total = 0.0
held = {data}
for x, y in DataLoader(held, batch_size=8):
    total += nn.functional.mse_loss(model(x), y, reduction="sum").item()
print(total)
"""
    assert "UnpaddedSampler" not in converted(script(imports=FOREIGN, after=after.format(data='feeds.Data("a")')))
    assert "UnpaddedSampler" in converted(script(imports=FOREIGN, after=after.format(data="FakeData()")))
