"""DATA01: which loader is the training loader, and which are left to a person or alone."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOOP,
    MODEL,
    SHUFFLED,
    blocked,
    changes,
    converted,
    distributed,
    findings,
    line_of,
    script,
)  # fmt: skip

SAMPLER = "sampler=rt.TrainingSampler(data)"


def test_no_loop_over_a_loader() -> None:
    step = "nn.functional.mse_loss(model(x), y).backward()\noptimizer.step()\n"
    before = script(loop=f"x, y = next(iter(loader))\n{step}")
    assert ("DATA01", line_of(before, ".backward()")) in blocked(before)


def test_rows_of_a_list_are_not_said_to_be_no_part_of_the_data() -> None:
    data = "data = [(torch.randn(4), torch.randn(1)) for _ in range(64)]\n"
    loop = """\
order = torch.randperm(64)
for i in range(0, 64, 8):
    rows = [data[k] for k in order[i : i + 8]]
    x, y = torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    [one] = findings("DATA01", script(data=data, loader="", loop=loop), Level.BLOCKING)
    assert one.message == (
        "this training step is not seen to compute with batches of a DataLoader, nor with a part of a tensor or an "
        "array that is cut out, drawn or folded by hand: nothing is seen that could be dealt out over the ranks"
    )


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
    assert "    for x, y in loader:\n        x, y = rt.shard_batch((x, y))\n" in converted(before)


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
                  sampler=rt.TrainingSampler(samples))


"""
    before = script(imports=imports, setup=own, loader="loader = DataLoader(data, 8)\n")
    assert converted(before) == distributed(imports=imports, setup=sharded, loader="loader = DataLoader(data, 8)\n")


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
    assert "sampler=rt.TrainingSampler(data)" in after


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
