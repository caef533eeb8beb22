"""BATCH01: a batch size that shapes tensors is divided where it is defined."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    SHUFFLED,
    blocked,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    line_of,
    script,
)

LOADER = "loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)\n"
SHARDED = """\
loader = DataLoader(data, batch_size=batch_size,
                    sampler=rt.TrainingSampler(data, drop_last=True), drop_last=True)
"""


def with_line(loop: str, line: str) -> str:
    return loop.replace("        loss =", f"        {line}\n        loss =")


@pytest.mark.parametrize(
    "line",
    [
        "y = torch.ones(batch_size, 1)",
        "y = torch.full((batch_size, 1), 0.5)",
        "x = x.view(batch_size, -1)",
        "y = y.new_zeros(batch_size, 1)",
        "x = x + torch.randn([batch_size, 4])",
        "x = x.reshape((batch_size, 4))",
    ],
)
def test_divided_at_its_definition(line: str) -> None:
    before = script(setup="batch_size = 8\n", loader=LOADER, loop=with_line(LOOP, line))
    divided = "batch_size = rt.per_rank_batch_size(8)\n"
    assert converted(before) == distributed(setup=divided, loader=SHARDED, loop=with_line(SHUFFLED, line))


@pytest.mark.parametrize(
    ("definition", "size"),
    [
        ("batch_size, epochs = 8, 3\n", "batch_size"),
        ("(epochs, batch_size), rate = (3, 8), 0.1\n", "batch_size"),
        ("[batch_size, epochs] = [8, 3]\n", "batch_size"),
        ("batch_size: int = 8\n", "batch_size"),
        ("config = {'batch_size': 8, 'epochs': 3}\n", "config['batch_size']"),
        ("class Config:\n    batch_size: int = 8\n\n\n", "Config.batch_size"),
    ],
)
def test_divided_where_several_are_defined(definition: str, size: str) -> None:
    line = f"y = torch.ones({size}, 1)"
    loader = LOADER.replace("=batch_size", f"={size}")
    before = script(setup=definition, loader=loader, loop=with_line(LOOP, line))
    after = converted(before)
    assert definition.replace("8", "rt.per_rank_batch_size(8)") in after
    assert after.count("per_rank_batch_size") == 1


@pytest.mark.parametrize(
    "definition",
    [
        "def size_of(size):\n    return size\n\n\nbatch_size = size_of(8)\n",
        "batch_size, epochs = [size_of for size_of in (8, 3)]\n",
        "batch_size = max(8, 4)\n",
        "batch_size = (lambda: 8)()\n",
    ],
)
def test_not_divided_where_it_is_no_definition(definition: str) -> None:
    before = script(setup=definition, loader=LOADER, loop=with_line(LOOP, "y = torch.ones(batch_size, 1)"))
    assert ("BATCH01", line_of(before, "torch.ones")) in blocked(before)


def test_setting_of_the_command_line() -> None:
    imports = f"import argparse\n\n{IMPORTS}"
    parser = """\
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
args = parser.parse_args()
"""
    loader = LOADER.replace("=batch_size", "=args.batch_size")
    line = "y = torch.ones(args.batch_size, 1)"
    before = script(imports=imports, setup=parser, loader=loader, loop=with_line(LOOP, line))
    after = converted(before)
    divided = "args.batch_size = rt.per_rank_batch_size(args.batch_size)\n"
    assert after.count("per_rank_batch_size") == 1
    assert after.index("args = parser.parse_args()") < after.index(divided) < after.index("loader = ")


@pytest.mark.parametrize(
    "other",
    [
        "steps = len(data) // batch_size\n",
        "rate = 0.1 * batch_size / 256\n",
        "total = batch_size * 3\n",
    ],
)
def test_reckoned_with_elsewhere(other: str) -> None:
    """A rate or a number of steps means the global batch; divided, it would be another one in silence."""
    loop = with_line(LOOP, "y = torch.ones(batch_size, 1)")
    before = script(setup=f"batch_size = 8\n{other}".replace("len(data)", "64"), loader=LOADER, loop=loop)
    assert blocked(before) == {("BATCH01", line_of(before, other.split(" =")[0] + " ="))}


def test_loss_divided_by_the_batch_size() -> None:
    loop = with_line(LOOP, "y = torch.ones(batch_size, 1)")
    loop = loop.replace("nn.functional.mse_loss(model(x), y)", "((model(x) - y) ** 2).sum() / batch_size")
    before = script(setup="batch_size = 8\n", loader=LOADER, loop=loop)
    assert blocked(before) == {("BATCH01", line_of(before, "/ batch_size"))}


def test_tensor_made_before_the_loop() -> None:
    """A hidden state of the global batch's size does not fit a rank's share: divided, or left to a person."""
    loop = f"noise = torch.randn(batch_size, 4)\n{LOOP.replace('model(x)', 'model(x + noise)')}"
    before = script(setup="batch_size = 8\n", loader=LOADER, loop=loop)
    found = blocked(before)
    assert found == {("BATCH01", line_of(before, "noise ="))} or "batch_size = rt.per_rank" in converted(before)


def test_not_defined_in_one_place() -> None:
    loop = with_line(LOOP, "y = torch.ones(batch_size, 1)")
    setup = "batch_size = 8 if len(IMAGES) > 2 else 16\n"
    before = script(setup=f"IMAGES = [1]\n{setup}", loader=LOADER, loop=loop)
    assert ("BATCH01", line_of(before, "torch.ones")) in blocked(before)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("y = y.view(x.size(0), -1)", id="size of the batch itself"),
        pytest.param("y = y.view(-1, 1)", id="minus one"),
        pytest.param("x = x.view(-1, 4)", id="features"),
        pytest.param("print(f'{batch_size} at once')", id="printed"),
        pytest.param("y = ones(batch_size)", id="own function"),
    ],
)
def test_loaders_alone(line: str) -> None:
    setup = "batch_size = 8\n\n\ndef ones(size):\n    return 1\n\n\n"
    loop = with_line(LOOP, line)
    before = script(setup=setup, loader=LOADER, loop=loop)
    assert changes("BATCH01", before) == []
    assert "batch_size=rt.per_rank_batch_size(batch_size)" in converted(before)
    assert setup in converted(before)


def test_used_after_training_only() -> None:
    before = script(setup="batch_size = 8\n", loader=LOADER, after="print(torch.ones(batch_size, 4).sum())\n")
    assert changes("BATCH01", before) == []


def test_same_number_elsewhere() -> None:
    """Eight features are not eight samples."""
    before = script(setup="batch_size = 8\nwidth = 8\n", loader=LOADER, loop=with_line(LOOP, "w = torch.ones(width)"))
    assert changes("BATCH01", before) == []


def test_name_shadowed_in_a_function() -> None:
    own = "def blank(batch_size):\n    return torch.zeros(batch_size)\n\n\n"
    before = script(setup=f"batch_size = 8\n\n\n{own}", loader=LOADER, loop=with_line(LOOP, "w = blank(3)"))
    assert changes("BATCH01", before) == []


REPLAYED = """\
import random


class Replay:
    def __init__(self, size):
        self.size = size
        self.kept = [torch.randn(1, 4) for _ in range(size)]

    def sample(self):
        return {}


replay = Replay(batch_size)
"""


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ("torch.cat(random.choices(self.kept, k=self.size))", "random.choices(self.kept, k=self.size)"),
        ("torch.cat([self.kept[0] for _ in range(self.size)])", "range(self.size)"),
        ("torch.cat(random.choices(self.kept, k=3))", ""),
        ("torch.cat([self.kept[i] for i in range(0, 64, self.size)])", ""),
        ("torch.zeros(3, 4)", ""),
    ],
)
def test_as_many_of_something_else_as_a_batch_has_samples(sample: str, reason: str) -> None:
    """They would not be dealt out with the batch, so that forward passes are shared."""
    loop = LOOP.replace("(model(x), y)", "(model(x), y) + model(replay.sample()).mean()")
    before = script(setup=f"batch_size = 8\n{REPLAYED.format(sample)}", loader=LOADER, loop=loop)
    conversion = conversion_of(before, options=Options())
    told = f"`{reason}` counts as many as the whole batch has samples, on each rank"
    found = [one.place.line for one in conversion.of(Level.ADVICE) if told in one.message and one.place]
    assert found == ([line_of(before, reason)] if reason else [])
    assert reason == "" or conversion.strategy is Strategy.SHARED


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (16, "of a batch of 16, each of 4 ranks gets 4 samples: too few to be worth it"),
        (6, "of a batch of 6, each of 2 ranks gets 3 samples: too few to be worth it"),
        (2, "of a batch of 2, each of 2 ranks gets a single sample: too few to be worth it"),
        (9, "a batch of 9 does not divide by 2 or by 4 ranks, and on so many the run ends where the loader is made: it "
            "divides by 3 ranks; 8 or 10 samples would do"),
        (127, "a batch of 127 does not divide by 2 or by 4 ranks, and on so many the run ends"),
    ],
)  # fmt: skip
def test_too_small_for_several_ranks_or_not_to_be_divided(size: int, said: str) -> None:
    before = script(loader=f"loader = DataLoader(data, batch_size={size}, shuffle=True)\n")
    assert (conversion_of(before, options=Options()).strategy is Strategy.SHARED) == bool(size % 2)
    (advice,) = findings("BATCH01", before, Level.ADVICE)
    assert advice.message.startswith(said)
    assert f"--scale linear keeps {size} on each rank" in advice.message
    kept = conversion_of(before, options=Options(scale="linear"))
    assert not [one for one in kept.of(Level.ADVICE) if one.code == "BATCH01"]


@pytest.mark.parametrize(("size", "whole"), [("15", True), ("args.size", False), ("16", False), ("len(data)", False)])
def test_a_batch_that_does_not_divide_by_two_ranks_is_shared_forward_pass_by_forward_pass(
    size: str, whole: bool
) -> None:
    """Dealt out in even shares, the run would end where the loader is made."""
    setup = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--size', type=int, default=15)\n"
    loader = f"loader = DataLoader(data, batch_size={size}, shuffle=True)\n"
    before = script(setup=f"{setup}args = parser.parse_args()\n", loader=loader)
    conversion = conversion_of(before, options=Options())
    told = "a batch of 15 does not divide by 2 ranks: in even shares it cannot be dealt out to them"
    assert any(told in one.message for one in conversion.of(Level.ADVICE)) == whole
    assert (conversion.strategy is Strategy.SHARED) == whole


@pytest.mark.parametrize("size", [30, 32])
def test_large_enough_for_several_ranks(size: int) -> None:
    before = script(loader=f"loader = DataLoader(data, batch_size={size}, shuffle=True)\n")
    assert findings("BATCH01", before, Level.ADVICE) == []


def test_a_size_out_of_a_file_that_shapes_noise() -> None:
    """Nobody sees what it is, but that it is the same one."""
    before = script(
        imports=f"{IMPORTS}import json\n", setup='size = json.load(open("settings.json"))["batch"]\n',
        loader="loader = DataLoader(data, batch_size=size, shuffle=True)\n",
        loop=LOOP.replace("model(x)", "model(x + torch.randn(size, 4))"),
    )  # fmt: skip
    assert "rt.data_parallel(model)" in converted(before, Options())


PARSER = """\
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=SIZE)
args = parser.parse_args()
"""
ONE = "each batch has one sample"


def _told_of_one_sample(loader: str, setup: str = "", **options: str) -> list[str]:
    imports = f"import argparse\nimport json\n{IMPORTS}"
    given = f"loader = DataLoader(data, {loader})\n"
    conversion = conversion_of(script(imports=imports, setup=setup, loader=given), options=Options(**options))
    return [one.message for one in conversion.of(Level.ADVICE) if one.code == "BATCH01" and ONE in one.message]


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize(
    ("loader", "setup", "told"),
    [
        ("batch_size=1", "", ONE),
        ("batch_size=settings['size']", "settings = {'size': 1}\n", ONE),
        ("shuffle=True", "", f"no `batch_size` is given, and so {ONE}"),
        ("batch_size=args.batch_size", PARSER.replace("SIZE", "1"), f"unless the option `batch_size` is given, {ONE}"),
    ],
)
def test_batches_of_one_sample_are_told(loader: str, setup: str, told: str, strategy: str) -> None:
    """A rank has no share of them; nothing is said where each rank gets one of its own."""
    (message,) = _told_of_one_sample(loader, setup, strategy=strategy)
    assert message.startswith(f"{told}: such a batch ")
    larger = "make it at least as large as there are ranks, or convert with --scale linear"
    assert message.endswith(f"{larger}, if the loop is written for more than one sample in a batch")
    assert ("parts of the sample" in message) is (strategy == "shared")
    assert not _told_of_one_sample(loader, setup, strategy=strategy, scale="linear")


@pytest.mark.parametrize(("guard", "told"), [("if step % 4 == 3", True), ("", False)])
def test_of_a_step_that_waits_for_several_passes_larger_batches_are_not_all(guard: str, told: bool) -> None:
    loop = LOOP.replace("for x, y in loader", "for step, (x, y) in enumerate(loader)")
    indent = " " * 12 if guard else " " * 8
    loop = loop.replace(
        "        optimizer.step()", f"{f'        {guard}:{chr(10)}' if guard else ''}{indent}optimizer.step()"
    )
    before = script(loader="loader = DataLoader(data, batch_size=1)\n", loop=loop)
    said = [one.message for one in conversion_of(before, options=Options(strategy="shared")).findings]
    assert any("as many times fewer passes are the same but for BatchNorm" in one for one in said) is told


@pytest.mark.parametrize(("loader", "told"), [("batch_size=1", True), ("shuffle=True", True), ("batch_size=2", False)])
def test_loops_that_may_be_written_for_one_sample_are_told_of_where_there_are_more(loader: str, told: bool) -> None:
    """`batch[0]` would leave out the others, in silence."""
    before = script(loader=f"loader = DataLoader(data, {loader})\n")
    conversion = conversion_of(before, options=Options(strategy="shared", scale="linear"))
    said = [one.message for one in conversion.of(Level.ADVICE) if "each batch had one sample" in one.message]
    assert bool(said) is told


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize(
    ("loader", "setup"),
    [
        ("batch_size=2", ""),
        ("batch_size=None", ""),
        ("batch_size=args.batch_size", PARSER.replace("SIZE", "2")),
        ("batch_size=settings['size']", "settings = json.load(open('settings.json'))\n"),
        ("**settings", "settings = json.load(open('settings.json'))\n"),
        ("batch_sampler=[[0, 1], [2, 3]]", ""),
        ("batch_size=size", "size = 1 if json.load(open('settings.json')) else 8\n"),
    ],
)
def test_batches_that_may_be_larger_are_not_told_of(loader: str, setup: str, strategy: str) -> None:
    assert not _told_of_one_sample(loader, setup, strategy=strategy)


def _told_of_few_samples(loader: str, setup: str = "", **options: str) -> list[str]:
    imports = f"import argparse\nimport json\n{IMPORTS}"
    given = loader if "\n" in loader else f"loader = DataLoader(data, {loader})\n"
    conversion = conversion_of(script(imports=imports, setup=setup, loader=given), options=Options(**options))
    return [one.message for one in conversion.of(Level.ADVICE) if one.code == "BATCH01"]


@pytest.mark.parametrize(
    ("loader", "setup", "unless"),
    [
        ("batch_size=2", "", ""),
        ("batch_size=7", "", ""),
        ("batch_size=args.batch_size", PARSER.replace("SIZE", "2"), "unless the option `batch_size` is given, "),
    ],
)
def test_fewer_samples_than_ranks_are_told(loader: str, setup: str, unless: str) -> None:
    """A batch of two samples has nothing for a third rank, however it is shared."""
    (message,) = _told_of_few_samples(loader, setup, strategy="shared")
    size = 7 if "7" in loader else 2
    assert message.startswith(f"{unless}a batch has {size} samples: what has one row for each of them is work ")
    assert not _told_of_few_samples(loader, setup, strategy="shared", scale="linear")
    (message,) = _told_of_few_samples(loader, setup, strategy="sharded")
    few = "a batch of 7 does not divide by 2 or by 4 ranks" if size == 7 else "of a batch of 2, each of 2 ranks gets "
    assert message.startswith(f"{unless}{few}")


@pytest.mark.parametrize(
    ("loader", "setup"),
    [
        ("batch_size=8", ""),
        ("batch_size=args.batch_size", PARSER.replace("SIZE", "8")),
        ("batch_size=settings['size']", "settings = json.load(open('settings.json'))\n"),
        ("batch_sampler=[[0, 1], [2, 3]]", ""),
        ("batch_size=size", "size = 2 if json.load(open('settings.json')) else 8\n"),
    ],
)
def test_what_may_be_enough_for_all_ranks_is_not_told_of(loader: str, setup: str) -> None:
    assert not _told_of_few_samples(loader, setup, strategy="shared")


BY_SIZE = """
def made(size=None):
    if size:
        return DataLoader(data, batch_size=size)
    else:
        return DataLoader(data, shuffle=True)

loader = made(GIVEN)
"""


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
@pytest.mark.parametrize(("given", "told"), [("size=64", False), ("", True), ("size=len(data)", True)])
def test_a_branch_that_no_caller_takes(given: str, told: bool, strategy: str) -> None:
    """What is made there is made never: nobody leaves the size away."""
    found = _told_of_few_samples(BY_SIZE.replace("GIVEN", given), strategy=strategy)
    assert any(ONE in one for one in found) is told


DECLARED = """\
import argparse
import dataclasses
from types import SimpleNamespace
from typing import NamedTuple


class Pair(NamedTuple):
    size: int


@dataclasses.dataclass
class Config:
    size: int
    width: int


def named(size, width):
    return size


def any_of(**options):
    return options["size"]


class Options:
    def __init__(self, table):
        self.__dict__.update(table)


parser = argparse.ArgumentParser()
parser.add_argument("--size", default=8, type=int)
parser.add_argument("--width", default=4, type=int)


"""
READ = [
    "vars(parser.parse_args())['size']",
    "vars(parser.parse_args()).get('size', 8)",
    "parser.parse_args().__dict__['size']",
    "dict(parser.parse_args()._get_kwargs())['size']",
    "named(**vars(parser.parse_args()))",
    "any_of(**vars(parser.parse_args()))",
    "Config(**vars(parser.parse_args())).size",
    "dataclasses.asdict(Config(**vars(parser.parse_args())))['size']",
    "SimpleNamespace(**vars(parser.parse_args())).size",
    "Options(vars(parser.parse_args())).size",
    "{'lr': 0.1, **vars(parser.parse_args())}['size']",
    "Pair(parser.parse_args().size)._asdict()['size']",
]
SIZED = "loader = DataLoader(data, batch_size={}, shuffle=True, drop_last=True)\n"


@pytest.mark.parametrize("read", READ)
def test_a_size_is_the_same_setting_by_whichever_way_it_is_read(read: str) -> None:
    setup = f"{DECLARED}size = {read}\n"
    before = script(setup=setup, loader=SIZED.format("size") + "noise = torch.zeros(size, 4)\n",
                    loop=LOOP.replace("model(x)", "model(x + noise)"))  # fmt: skip
    assert [code for code, _ in blocked(before)] == ["BATCH01"]
    width = before.replace("torch.zeros(size, 4)", "torch.zeros(1, 4)")
    assert blocked(width) == set()


@pytest.mark.parametrize("size", ["max(3, cores)", "min(7, cores * 2)", "max(3, cores // 2, 5)"])
def test_the_larger_of_a_number_and_of_what_is_not_known(size: str) -> None:
    """It is neither of them for certain: nothing is said of three samples, or of seven."""
    before = script(
        imports=f"import os\n{IMPORTS}", setup="cores = os.cpu_count()\n", loader=f"loader = DataLoader(data, {size})\n"
    )
    assert not findings("BATCH01", before, Level.ADVICE)
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED
