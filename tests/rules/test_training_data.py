"""DATA01: the training loader gets a DistributedSampler and a share of the batch."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    LOOP,
    RUNTIME,
    SHARDED,
    SHUFFLED,
    WRAPPER,
    blocked,
    conversion_of,
    converted,
    distributed,
    script,
)  # fmt: skip

DATASET = "from torch.utils.data import TensorDataset\n"
SAMPLER = "sampler=rt.TrainingSampler(data)"


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
            f"loader = DataLoader(data, rt.per_rank_batch_size(8), {SAMPLER})\n",
            id="positional shuffle",
        ),
        pytest.param(
            "loader = DataLoader(\n    data, shuffle=True, batch_size=8\n)\n",
            f"loader = DataLoader(\n    data, {SAMPLER}, batch_size=rt.per_rank_batch_size(8)\n)\n",
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
    sampler=rt.TrainingSampler(data, shuffle=False)
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
            f"                    {SAMPLER},\n"
            "                    batch_size=rt.per_rank_batch_size(8), num_workers=0)\n",
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
    loop = LOOP if "shuffle=False" in after else SHUFFLED
    assert converted(script(loader=before)) == distributed(loader=after, loop=loop)


@pytest.mark.parametrize(
    ("given", "sampler"),
    [
        ("shuffle=True", ""),
        ("shuffle=False", ", shuffle=False"),
        ("shuffle=None", ", shuffle=False"),
        ("pin_memory=True", ", shuffle=False"),
        ("shuffle=not quick", ", shuffle=not quick"),
        ("shuffle=True, drop_last=True", ", drop_last=True"),
        ("drop_last=not quick, shuffle=True", ", drop_last=not quick"),
        ("drop_last=False, shuffle=True", ""),
    ],
)
def test_sampler_does_what_the_loader_did(given: str, sampler: str) -> None:
    """`drop_last` goes on the sampler and stays on the loader."""
    before = script(setup="quick = len(IMAGES) < 9\n", loader=f"loader = DataLoader(data, {given}, batch_size=8)\n")
    before = before.replace("quick =", "IMAGES = [1, 2]\nquick =")
    after = converted(before)
    assert f"rt.TrainingSampler(data{sampler})" in after
    call = after.split("loader = ")[1].split("\nmodel")[0]
    outside = call.replace(f"(data{sampler})", "()")
    assert "shuffle" not in outside
    assert ("drop_last" in outside) == ("drop_last" in given)


def test_all_arguments_by_position() -> None:
    """A batch_sampler of None must stay None; torch refuses any other value beside a sampler."""
    after = converted(script(loader="loader = DataLoader(data, 8, True, None, None, 2, None, False, True)\n"))
    call = after.split("loader = ")[1].split("\nmodel")[0]
    loader: dict[str, object] = {}

    def bound(dataset: object, batch_size: int = 1, shuffle: object = None, sampler: object = None,
              batch_sampler: object = None, num_workers: int = 0, collate_fn: object = None,
              pin_memory: bool = False, drop_last: bool = False) -> None:  # fmt: skip
        loader.update(locals())

    eval(call, {"DataLoader": bound, "rt": _Runtime(), "data": 1})
    assert loader["sampler"] == ("shuffled", {"drop_last": True})
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

    def TrainingSampler(self, dataset: object, **options: object) -> object:
        return "shuffled", options


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
    loader = one_line if len(one_line) <= 88 else broken
    assert converted(before) == distributed(imports=imports, loader=loader)


def test_dataset_made_in_place_gets_a_name() -> None:
    before = script(
        data="", loader="loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), 8, True)\n"
    )
    (name,) = [line.split(" = ")[0] for line in converted(before).splitlines() if " = TensorDataset(" in line]
    loader = f"""\
{name} = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader({name}, rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler({name}))
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


def test_two_loaders_made_by_one_statement() -> None:
    """A line that is broken goes on below its call, wherever that has moved to."""
    pair = "TensorDataset(torch.randn({0}, 4), torch.randn({0}, 1))"
    made = f"DataLoader({pair.format(64)}, 8, True), DataLoader({pair.format(9)}, 4)"
    both = f"def both():\n    return {made}\n\n\n"
    loop = "model.eval()\nseen = 0\nfor x, y in other:\n    model(x)\n    seen += len(x)\nprint(seen)\n"
    after = converted(script(loader=f"{both}loader, other = both()\n", after=loop))
    assert after.count("sampler=") == 2
    assert max(len(line) - len(line.lstrip()) for line in after.splitlines()) < 60


def test_kwargs() -> None:
    options = 'options = {"batch_size": 8, "shuffle": True}\n'
    before = script(setup=options, loader="loader = DataLoader(data, **options)\n")
    assert converted(before) == distributed(
        ours=RUNTIME + WRAPPER,
        setup=options,
        loader="loader = DataLoader(**rt.shard_training(data, **options))\n",
    )


def test_one_loader_of_several_on_a_line() -> None:
    before = script(loader="loader, size = DataLoader(data, 8, True), len(data)\n")
    indent = " " * len("loader, size = DataLoader(")
    loader = f"loader, size = DataLoader(data, rt.per_rank_batch_size(8),\n{indent}{SAMPLER}), len(data)\n"
    assert converted(before) == distributed(loader=loader)


def test_a_dataset_is_named_behind_what_stands_before_it_in_its_line() -> None:
    made = "TensorDataset(torch.randn(64, 4) * scale, torch.randn(64, 1))"
    before = script(data="", loader=f"scale = 3; loader = DataLoader({made}, batch_size=8, shuffle=True); size = 64\n")
    loader = SHARDED.replace("data", "training_dataset")
    lines = f"scale = 3\ntraining_dataset = {made}\n{loader}size = 64\n"
    assert converted(before) == distributed(data="", loader=lines)


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
    assert f"    return DataLoader(data, rt.per_rank_batch_size(8), {SAMPLER})\n" in after


@pytest.mark.parametrize(
    "call",
    ["DataLoader(data, batch_size=8, **{'shuffle': True})", "DataLoader(**dict(dataset=data, batch_size=8))"],
)
def test_options_that_are_hidden(call: str) -> None:
    after = converted(script(loader=f"loader = {call}\n"))
    assert f"loader = {call.replace('DataLoader(', 'DataLoader(**rt.shard_training(')})\n" in after
    assert "    loader.sampler.set_epoch(epoch)\n" in after


def test_hidden_batch_size_that_shapes_a_tensor() -> None:
    """It would be divided for the loader alone."""
    loop = LOOP.replace("        loss", "        x = x + torch.zeros(size, 4)\n        loss")
    made = "size = 8\noptions = {'shuffle': True}\nloader = DataLoader(data, batch_size=size, **options)\n"
    assert "BATCH01" in {code for code, _ in blocked(script(loader=made, loop=loop))}


@pytest.mark.parametrize("given", ["in_order=False", "in_order=False, num_workers=0", "num_workers=0, in_order=True"])
def test_shares_of_one_batch_come_together(given: str) -> None:
    """Else the ranks would take, in one step, their shares of whichever batches are ready first."""
    new = converted(script(loader=f"loader = DataLoader(data, 8, True, {given})\n"))
    assert "in_order" not in new
    assert "loader = DataLoader(data, " in new
    assert "True" not in new.split("DataLoader(data")[1].splitlines()[0]


@pytest.mark.parametrize(
    ("last", "told"),
    [("", True), (", drop_last=False", True), (", drop_last=len(data) > 9", True), (", drop_last=True", False)],
)
def test_samples_that_count_twice_are_told_where_there_may_be_any(last: str, told: bool) -> None:
    loader = f"loader = DataLoader(data, batch_size=8, shuffle=True{last})\n"
    said = [one.message for one in conversion_of(script(loader=loader)).findings if one.code == "DATA01"]
    twice = ", and where the last batch does not divide by the ranks, some of its samples count twice"
    dealt = "the training loader deals each rank its share; the global batch stays as it is"
    assert said == [f"{dealt}{twice * told}"]
