"""DATA01: the training loader gets a DistributedSampler and a share of the batch."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOOP,
    MODEL,
    RUNTIME,
    SHUFFLED,
    WRAPPER,
    blocked,
    changes,
    converted,
    distributed,
    line_of,
    script,
)  # fmt: skip

DATASET = "from torch.utils.data import TensorDataset\n"
SAMPLER = "sampler=DistributedSampler(data, seed=rt.common_seed())"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "loader = DataLoader(data, batch_size=8, shuffle=True)\n",
            f"loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),\n                    {SAMPLER})\n",
            id="keywords",
        ),
        pytest.param(
            "loader = DataLoader(data, 8, True)\n",
            f"loader = DataLoader(data, rt.per_rank_batch_size(8),\n                    {SAMPLER})\n",
            id="positional shuffle",
        ),
        pytest.param(
            "loader = DataLoader(\n    data, shuffle=True, batch_size=8\n)\n",
            f"loader = DataLoader(\n    data,\n    {SAMPLER}, batch_size=rt.per_rank_batch_size(8)\n)\n",
            id="one line in brackets",
        ),
        pytest.param(
            """\
loader = DataLoader(
    data,  # the samples
    batch_size=8,  # small
    shuffle=True,  # important
    num_workers=2,  # cores
)
""",
            f"""\
loader = DataLoader(
    data,  # the samples
    batch_size=rt.per_rank_batch_size(8),  # small
    {SAMPLER},  # important
    num_workers=rt.per_rank_workers(2),  # cores
)
""",
            id="trailing comma and comments",
        ),
        pytest.param(
            """\
loader = DataLoader(data,
                    batch_size=8,
                    shuffle=True)
""",
            f"""\
loader = DataLoader(data,
                    batch_size=rt.per_rank_batch_size(8),
                    {SAMPLER})
""",
            id="no trailing comma",
        ),
        pytest.param(
            """\
loader = DataLoader(
    data,
    # how many at once
    batch_size=8  # eight
)
""",
            """\
loader = DataLoader(
    data,
    # how many at once
    batch_size=rt.per_rank_batch_size(8),  # eight
    sampler=DistributedSampler(data, shuffle=False, seed=rt.common_seed())
)
""",
            id="appended behind a comment",
        ),
        pytest.param(
            "loader = DataLoader(data, batch_size=8, sampler=None, shuffle=True)\n",
            f"loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),\n                    {SAMPLER})\n",
            id="sampler=None",
        ),
        pytest.param(
            "loader = DataLoader(data, shuffle=True, batch_size=8, num_workers=0)\n",
            "loader = DataLoader(data,\n"
            f"                    {SAMPLER}, batch_size=rt.per_rank_batch_size(8), num_workers=0)\n",
            id="no workers",
        ),
        pytest.param(
            "loader = \\\n    DataLoader(data, batch_size=8,\n        shuffle=True)\n",
            f"loader = \\\n    DataLoader(data, batch_size=rt.per_rank_batch_size(8),\n        {SAMPLER})\n",
            id="backslash",
        ),
    ],
)  # fmt: skip
def test_layout_stays(before: str, after: str) -> None:
    assert converted(script(loader=before)) == distributed(loader=after)


@pytest.mark.parametrize(
    ("given", "sampler"),
    [
        ("shuffle=True", ""),
        ("shuffle=False", "shuffle=False, "),
        ("shuffle=None", "shuffle=False, "),
        ("pin_memory=True", "shuffle=False, "),
        ("shuffle=not quick", "shuffle=not quick, "),
        ("shuffle=True, drop_last=True", "drop_last=True, "),
        ("drop_last=not quick, shuffle=True", "drop_last=not quick, "),
        ("drop_last=False, shuffle=True", ""),
    ],
)
def test_sampler_does_what_the_loader_did(given: str, sampler: str) -> None:
    """`drop_last` goes on the sampler and stays on the loader."""
    before = script(setup="quick = len(IMAGES) < 9\n", loader=f"loader = DataLoader(data, {given}, batch_size=8)\n")
    before = before.replace("quick =", "IMAGES = [1, 2]\nquick =")
    after = converted(before)
    assert f"DistributedSampler(data, {sampler}seed=rt.common_seed())" in after
    call = after.split("loader = ")[1].split("\nmodel")[0]
    outside = call.replace(f"DistributedSampler(data, {sampler}", "DistributedSampler(")
    assert "shuffle" not in outside
    assert ("drop_last" in outside) == ("drop_last" in given)


def test_all_arguments_by_position() -> None:
    """A batch_sampler of None must stay None; torch refuses any other value beside a sampler."""
    after = converted(script(loader="loader = DataLoader(data, 8, True, None, None, 2, None, False, True)\n"))
    call = after.split("loader = ")[1].split("\nmodel")[0]
    sampler, rank = object(), _Runtime()
    loader: dict[str, object] = {}

    def bound(dataset: object, batch_size: int = 1, shuffle: object = None, sampler: object = None,
              batch_sampler: object = None, num_workers: int = 0, collate_fn: object = None,
              pin_memory: bool = False, drop_last: bool = False) -> None:  # fmt: skip
        loader.update(locals())

    names = {"DataLoader": bound, "DistributedSampler": lambda *_, **options: (sampler, options), "rt": rank, "data": 1}
    eval(call, names)
    assert loader["sampler"] == (sampler, {"drop_last": True, "seed": 5})
    assert loader["batch_sampler"] is None
    assert not loader["shuffle"]
    assert (loader["dataset"], loader["batch_size"], loader["num_workers"]) == (1, 4, 1)
    assert (loader["collate_fn"], loader["pin_memory"], loader["drop_last"]) == (None, False, True)


class _Runtime:
    """Two ranks on one node."""

    def per_rank_batch_size(self, size: int) -> int:
        return size // 2

    def per_rank_workers(self, workers: int) -> int:
        return workers // 2

    def common_seed(self) -> int:
        return 5


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from torch.utils.data import DataLoader as DL, TensorDataset\n", "DL"),
        (f"import torch.utils.data as D\n{DATASET}", "D.DataLoader"),
        (f"from torch.utils import data as D\n{DATASET}", "D.DataLoader"),
        (DATASET, "torch.utils.data.DataLoader"),
        (f"from torch.utils.data.dataloader import DataLoader\n{DATASET}", "DataLoader"),
    ],
)  # fmt: skip
def test_loader_under_any_name(imports: str, name: str) -> None:
    imports = f"import torch\nfrom torch import nn\n{imports}"
    before = script(imports=imports, loader=f"loader = {name}(data, 8, shuffle=True)\n")
    one_line = f"loader = {name}(data, rt.per_rank_batch_size(8), {SAMPLER})\n"
    indent = " " * len(f"loader = {name}(")
    broken = one_line.replace(", sampler", f",\n{indent}sampler")
    assert converted(before) == distributed(imports=imports, loader=one_line if len(one_line) <= 101 else broken)


def test_dataset_made_in_place_gets_a_name() -> None:
    before = script(
        data="", loader="loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 8, True)\n"
    )
    (name,) = [line.split(" = ")[0] for line in converted(before).splitlines() if " = TensorDataset(" in line]
    loader = f"""\
{name} = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader({name}, rt.per_rank_batch_size(8),
                    sampler=DistributedSampler({name}, seed=rt.common_seed()))
"""
    assert converted(before) == distributed(data="", loader=loader)


def test_name_of_the_dataset_is_free() -> None:
    taken = "dataset = training_dataset = dataset_2 = 1\n"
    before = script(
        setup=taken, data="", loader="loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 8)\n"
    )
    after = converted(before)
    (name,) = [line.split(" = ")[0] for line in after.splitlines() if " = TensorDataset(" in line]
    assert name not in ("dataset", "training_dataset", "dataset_2")
    assert taken in after


def test_several_lines_of_a_dataset_made_in_place() -> None:
    before = script(
        data="",
        loader="""\
loader = DataLoader(
    TensorDataset(
        torch.randn(64, 4),  # inputs
        torch.randn(64, 1),
    ),
    batch_size=8,
)
""",
    )
    after = converted(before)
    assert "# inputs" in after
    assert after.index("= TensorDataset(") < after.index("loader = DataLoader(")
    assert after.count("TensorDataset(") == 1


def test_kwargs() -> None:
    options = 'options = {"batch_size": 8, "shuffle": True}\n'
    before = script(setup=options, loader="loader = DataLoader(data, **options)\n")
    assert converted(before) == distributed(
        ours=RUNTIME + WRAPPER,
        setup=options,
        loader="loader = DataLoader(data, **rt.shard_training(data, options))\n",
    )


def test_one_loader_of_several_on_a_line() -> None:
    before = script(loader="loader, size = DataLoader(data, 8, True), len(data)\n")
    indent = " " * len("loader, size = DataLoader(")
    loader = f"loader, size = DataLoader(data, rt.per_rank_batch_size(8),\n{indent}{SAMPLER}), len(data)\n"
    assert converted(before) == distributed(loader=loader)


def test_function_defined_after_its_use() -> None:
    functions = """\
def run():
    train(batches())


def train(loader):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def batches():
    return DataLoader(data, 8, True)


"""
    after = converted(script(setup=functions, loader="", loop="run()\n"))
    assert f"    return DataLoader(data, rt.per_rank_batch_size(8),\n                      {SAMPLER})\n" in after


@pytest.mark.parametrize(
    "loader",
    [
        pytest.param("loader = DataLoader(*(data, 8), shuffle=True)\n", id="*args"),
        pytest.param("loader = DataLoader(data, batch_size=8, **{'shuffle': True})\n", id="keywords and **kwargs"),
        pytest.param("loader = DataLoader(**dict(dataset=data, batch_size=8))\n", id="dataset in **kwargs"),
        pytest.param("loader = DataLoader(data, 8, sampler=WeightedRandomSampler([1.0] * 64, 64))\n", id="sampler"),
        pytest.param("loader = DataLoader(data, batch_sampler=Batches())\n", id="batch_sampler"),
        pytest.param("loader = DataLoader(data, batch_size=None)\n", id="batch_size=None"),
        pytest.param("loader = DataLoader(Stream(), batch_size=8)\n", id="IterableDataset"),
    ],
)
def test_left_to_a_person(loader: str) -> None:
    setup = """\
from torch.utils.data import BatchSampler, IterableDataset, WeightedRandomSampler
class Batches(BatchSampler): pass
class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.randn(4), torch.randn(1))])
"""
    before = script(setup=setup, loader=loader)
    assert blocked(before) == {("DATA01", line_of(before, "loader = "))}


def test_training_and_other_loader_made_on_one_line() -> None:
    before = script(
        setup="def batches(part):\n    return DataLoader(part, batch_size=8, shuffle=True)\n\n\n",
        loader="loader, other = batches(data), batches(data)\n",
        after="model.eval()\nfor x, y in other:\n    print(model(x))\n",
    )
    assert {code for code, _ in blocked(before)} & {"DATA01", "EVAL01"}


def test_no_loop_over_a_loader() -> None:
    step = "nn.functional.mse_loss(model(x), y).backward()\noptimizer.step()\n"
    before = script(loop=f"x, y = next(iter(loader))\n{step}")
    assert ("DATA01", line_of(before, ".backward()")) in blocked(before)


def test_class_of_the_scripts_own_named_data_loader() -> None:
    own = """\
class DataLoader:
    def __init__(self, samples, batch_size):
        self.samples, self.batch_size = samples, batch_size

    def __iter__(self):
        for start in range(0, 64, self.batch_size):
            yield self.samples[start : start + self.batch_size]


"""
    imports = IMPORTS.replace("DataLoader, ", "")
    before = script(imports=imports, setup=own, loader="loader = DataLoader(data, batch_size=8)\n")
    assert ("DATA01", line_of(before, ".backward()")) in blocked(before)


def test_parameter_named_data_loader() -> None:
    before = script(
        setup="def make(DataLoader):\n    return DataLoader(data, batch_size=8, shuffle=True)\n\n\n",
        loader="loader = make(lambda samples, batch_size, shuffle: [samples[:batch_size]])\n",
    )
    assert ("DATA01", line_of(before, ".backward()")) in blocked(before)


def test_own_function_named_data_loader_around_torchs() -> None:
    imports = IMPORTS.replace("DataLoader,", "DataLoader as Torchs,")
    own = "def DataLoader(samples, size):\n    return Torchs(samples, batch_size=size, shuffle=True)\n\n\n"
    sharded = """\
def DataLoader(samples, size):
    return Torchs(samples, batch_size=rt.per_rank_batch_size(size),
                  sampler=DistributedSampler(samples, seed=rt.common_seed()))


"""
    before = script(imports=imports, setup=own, loader="loader = DataLoader(data, 8)\n")
    assert converted(before) == distributed(
        imports=imports, setup=sharded, loader="loader = DataLoader(data, 8)\n"
    )


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("spare = DataLoader(data, batch_size=8, shuffle=True)\n", id="never iterated"),
        pytest.param("spare = DataLoader(data, 8, True)\nfor x, y in spare:\n    print(x)\n", id="only shown"),
        pytest.param("if len(data) > 99: spare = DataLoader(data, 8); print(spare)\n", id="one-line suite"),
    ],
)  # fmt: skip
def test_other_loaders_stay(after: str) -> None:
    assert converted(script(after=after)) == distributed(after=after, prints="print" in after)


def test_only_the_loader_call_changes() -> None:
    before = script()
    assert {change.place.line for change in changes("DATA01", before)} == {line_of(before, "loader = ")}


def test_names_already_taken() -> None:
    taken = "rt = DistributedSampler = DistributedDataParallel = None\n"
    after = converted(script(setup=taken))
    assert taken in after
    assert "import distify_runtime as rt\n" not in after
    body = after.split(taken)[1]
    for name in ("rt", "DistributedSampler", "DistributedDataParallel"):
        assert f" {name}(" not in body
        assert f"{name}." not in body.replace("loader.sampler.", "")


def test_type_checking_imports_are_not_followed() -> None:
    """The name is only there for type checkers; the loader is another one."""
    checking = "if TYPE_CHECKING:\n    from torch.utils.data import Dataset\n"
    after = converted(script(imports=f"from typing import TYPE_CHECKING\n\n{IMPORTS}\n{checking}"))
    assert checking in after
    assert "sampler=DistributedSampler(data, seed=rt.common_seed())" in after


def test_train_loop_in_a_nested_function() -> None:
    before = f"""\
{IMPORTS}

def main():
    {DATA}    loader = DataLoader(data, 8, True)
    {MODEL}    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train():
        for epoch in range(3):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    train()


main()
"""
    loader = f"    loader = DataLoader(data, rt.per_rank_batch_size(8),\n                        {SAMPLER})\n"
    assert loader in converted(before)


def test_loop_and_shuffled_loop_differ_by_one_line() -> None:
    """The frame of these tests itself: what is expected differs from what is given in known lines only."""
    new = [line for line in SHUFFLED.splitlines() if line not in LOOP.splitlines()]
    assert new == ["    loader.sampler.set_epoch(epoch)"]
