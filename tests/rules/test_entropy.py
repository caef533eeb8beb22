"""SEED01: seeds, generators and orders that each process would have for itself are rank 0's."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import (
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    WHOLE_GROUP,
    WRAP,
    conversion_of,
    converted,
    group_of,
    indented,
    line_of,
    script,
)

IMPORTED = f"{IMPORTS}import os, random, time\nimport numpy as np\n"
SHARED = Options(strategy="shared")
BOTH = pytest.mark.parametrize("options", [SHARED, Options(strategy="sharded")], ids=["shared", "sharded"])
HUB = f"{IMPORTS}from datasets import load_dataset\n"


@BOTH
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.manual_seed(random.SystemRandom().randint(0, 9))",
         "torch.manual_seed(rt.from_main_process(random.SystemRandom().randint(0, 9)))"),
        ("torch.manual_seed(int(time.time()))", "torch.manual_seed(int(rt.from_main_process(time.time())))"),
        ("np.random.seed(os.getpid())", "np.random.seed(rt.from_main_process(os.getpid()))"),
        ("seed = time.time_ns() % 9\nrandom.seed(seed)",
         "seed = rt.from_main_process(time.time_ns()) % 9\nrandom.seed(seed)"),
        ("g = torch.Generator().manual_seed(int(time.time()))",
         "g = torch.Generator().manual_seed(int(rt.from_main_process(time.time())))"),
        ("rng = random.Random(time.time_ns())", "rng = random.Random(rt.from_main_process(time.time_ns()))"),
    ],
)  # fmt: skip
def test_seeds_that_differ(before: str, after: str, options: Options) -> None:
    """The group is there before: ranks would split the data each in another way."""
    assert f"\n{group_of(options)}{after}\n" in converted(script(imports=IMPORTED, setup=f"{before}\n"), options)


@BOTH
@pytest.mark.parametrize("line", ["random.seed()", "np.random.seed()", "torch.seed()", "random.seed(None)"])
def test_streams_that_are_seeded_anew(line: str, options: Options) -> None:
    after = converted(script(imports=IMPORTED, setup=f"{line}\n"), options)
    assert f"\n{group_of(options)}{line}\nrt.seed_ranks_alike()\n" in after


@BOTH
@pytest.mark.parametrize(
    "setup",
    [
        "torch.manual_seed(0)",
        "seed = random.randint(0, 99)\ntorch.manual_seed(seed)",
        "random.seed(7)\nnp.random.seed(7)",
        "rng = np.random.default_rng(7)",
        "g = torch.Generator()\ng.manual_seed(1)",
        "begin = time.time()\nprint(time.time() - begin)",
    ],
)
def test_seeds_that_are_alike(setup: str, options: Options) -> None:
    after = converted(script(imports=IMPORTED, setup=f"{setup}\n"), options)
    assert f"{setup}\n" in after
    assert "from_main_process" not in after
    assert "seed_ranks_alike" not in after


@pytest.mark.parametrize(
    "made",
    [f"np.random.{name}" for name in ("default_rng()", "RandomState()", "default_rng(None)", "PCG64()", "Philox()")]
    + ["random.Random()"],
)
def test_generators_without_a_seed(made: str) -> None:
    """Rank 0's is sent to all where they draw alike; shards could not be believed."""
    before = script(imports=IMPORTED, setup=f"rng = {made}\n")
    assert f"\n{WHOLE_GROUP}rng = rt.from_main_process({made})\n" in converted(before, SHARED)
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARED
    [advice] = [one for one in conversion.findings if "has no seed" in one.message]
    assert advice.place is not None
    assert advice.place.line == line_of(before, made)


def test_a_generator_without_a_seed_that_nobody_reads() -> None:
    made = "def rows(n):\n    rng = np.random.default_rng()\n    return list(range(n))\n\n\norder = rows(8)\n"
    assert conversion_of(script(imports=IMPORTED, setup=made), options=Options()).strategy is Strategy.SHARDED
    read = made.replace("return list(range(n))", "return rng.permutation(n)")
    assert conversion_of(script(imports=IMPORTED, setup=read), options=Options()).strategy is Strategy.SHARED


@BOTH
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('load_dataset("a")["train"].shuffle()', 'load_dataset("a")["train"].shuffle(seed=rt.common_seed())'),
        ('load_dataset("a")["train"].train_test_split(test_size=0.1)',
         'load_dataset("a")["train"].train_test_split(test_size=0.1, seed=rt.common_seed())'),
    ],
)  # fmt: skip
def test_data_sets_of_the_hub(before: str, after: str, options: Options) -> None:
    text = converted(script(imports=HUB, data=f"data = {before}\n"), options)
    assert f"with rt.main_process_first():\n    data = {after}\n" in text


@BOTH
@pytest.mark.parametrize(
    "call", ['load_dataset("a")["train"].shuffle(seed=1)', 'load_dataset("a")["train"].shuffle(1)']
)
def test_data_sets_of_the_hub_with_a_seed(call: str, options: Options) -> None:
    assert f"    data = {call}\n" in converted(script(imports=HUB, data=f"data = {call}\n"), options)


# ---- batches of a library that draws by itself

FLIPS = f"{IMPORTS}import albumentations\n"
FLIP = "flip = albumentations.HorizontalFlip()\n"


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("    for x, y in loader:\n", "        x, y = rt.from_main_process((x, y))\n"),
        ("    for step, (x, y) in enumerate(loader):\n", "        x, y = rt.from_main_process((x, y))\n"),
    ],
)
def test_batches_are_rank_zeros(head: str, line: str) -> None:
    loop = LOOP.replace("    for x, y in loader:\n", head)
    after = converted(script(imports=FLIPS, setup=FLIP, loop=loop), SHARED)
    assert loop.replace(head, head + line) in after


#: A training whose batches come from nothing that is known to be a loader.
STEP = "optimizer.zero_grad()\nloss = nn.functional.mse_loss(model(x), y)\nloss.backward()\noptimizer.step()\n"
OF_OTHERS = f"{FLIPS}from pipes import build\n"


def others(head: str, first: str = "", setup: str = FLIP, imports: str = OF_OTHERS) -> str:
    return script(imports=imports, setup=setup, loader="pipe = build(data)\n", loop=head + indented(first + STEP))


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        ("for x, y in pipe:\n", "x, y = rt.from_main_process((x, y))"),
        ("for step, (x, y) in enumerate(pipe):\n", "x, y = rt.from_main_process((x, y))"),
        ("for step, (x, y) in zip(range(8), pipe):\n", "x, y = rt.from_main_process((x, y))"),
    ],
)
def test_what_a_loop_takes_of_something_unknown_is_rank_zeros(head: str, taken: str) -> None:
    assert f"{head}    {taken}\n" in converted(others(head), SHARED)


UNPLACED = "`albumentations` draws from random numbers of its own, and it is not seen where training takes"


@pytest.mark.parametrize(
    "head",
    [
        "for epoch in range(8):\n",
        "for step in range(len(data)):\n",
        "for rate in (0.1, 0.2):\n",
        "for step, rate in enumerate([0.1, 0.2]):\n",
        "while True:\n",
    ],
)
@pytest.mark.parametrize("setup", [FLIP, "flip = albumentations.Resize(8, 8)\n"])
def test_the_number_of_a_turn_is_drawn_by_nobody(head: str, setup: str) -> None:
    """Where what is drawn comes into training is not seen: that is said, and nothing else claimed."""
    before = others(head, "x, y = pipe.run()\n", setup)
    assert "from_main_process" not in converted(before, SHARED)
    said = [one.message for one in conversion_of(before, options=SHARED).of(Level.ADVICE) if one.code == "SEED01"]
    assert [one.startswith(UNPLACED) for one in said] == [True] * (setup == FLIP)


def test_the_number_of_a_turn_beside_a_transform_that_is_seen() -> None:
    before = others("for epoch in range(8):\n", "x, y = flip(image=data[0])['image'], data[1]\n")
    after = converted(before, SHARED)
    assert after.count("from_main_process") == 1
    assert "    x, y = rt.from_main_process(flip(image=data[0]))['image'], data[1]\n" in after
    assert not any(UNPLACED in one.message for one in conversion_of(before, options=SHARED).findings)


def test_batches_that_are_taken_by_a_call() -> None:
    loop = "batches = iter(loader)\nfor step in range(8):\n    x, y = next(batches)\n" + "".join(
        f"{line[4:]}\n" for line in LOOP.splitlines()[2:]
    )
    after = converted(script(imports=FLIPS, setup=FLIP, loop=loop), SHARED)
    assert "    x, y = rt.from_main_process(next(batches))\n" in after


@pytest.mark.parametrize(
    ("setup", "told"),
    [
        (FLIP, True),
        ("flip = albumentations.Compose([albumentations.Resize(8, 8), albumentations.HorizontalFlip()])\n", True),
        ("flip = albumentations.Resize(8, 8)\n", False),
    ],
)
def test_what_changes_a_batch_behind_the_loader(setup: str, told: bool) -> None:
    """Also in a function of the script, and in an evaluation: all ranks go on with what rank 0 has got."""
    helper = "\n\ndef flipped(x):\n    return flip(image=x)['image']\n\n\n"
    loop = LOOP.replace("    for x, y in loader:\n", "    for x, y in loader:\n        x = flipped(x)\n")
    after = converted(script(imports=FLIPS, setup=setup + helper, loop=loop), SHARED)
    assert ("    return rt.from_main_process(flip(image=x))['image']\n" in after) is told


def test_batches_of_an_evaluation_stay() -> None:
    evaluation = "model.eval()\nwith torch.no_grad():\n" + indented("for x, y in other:\n    print(model(x))\n")
    other = LOADER.replace("loader =", "other =")
    after = converted(script(imports=FLIPS, setup=FLIP, loader=LOADER + other, after=evaluation), SHARED)
    assert evaluation in after


def test_shards_may_be_drawn_apart() -> None:
    after = converted(script(imports=FLIPS, setup=FLIP))
    assert WRAP in after
    assert "from_main_process" not in after


TAKEN = [
    "x, y = {}\nwidth = model(x).shape[1]\n",
    "x, y = {}\nmean = x.mean()\n",
    "mean = {}[0].mean()\n",
    "def probe(loader):\n    x, y = {}\n    return x.shape\nshape = probe(loader)\n",
    "with torch.no_grad():\n    x, y = {}\n    width = model(x).shape[1]\n",
    "batches = list({})\nmean = sum(x.mean() for x, _ in batches)\n",
]


@pytest.mark.parametrize("text", TAKEN)
def test_batches_that_are_taken_before_training(text: str) -> None:
    taken = "list(loader)" if "list" in text else "next(iter(loader))"
    text = text.replace("list({})", "{}")
    before = text.format(taken)
    after = converted(script(imports=FLIPS, setup=FLIP, model=MODEL + before), SHARED)
    assert text.format(f"rt.from_main_process({taken})") in after


def test_a_loop_over_the_training_batches_before_training() -> None:
    head = "total = 0\nfor x, y in loader:\n"
    after = converted(script(imports=FLIPS, setup=FLIP, model=MODEL + f"{head}    total += x.mean()\n"), SHARED)
    assert f"{head}    x, y = rt.from_main_process((x, y))\n" in after


@pytest.mark.parametrize(
    "text",
    [
        "print(next(iter(loader)))\n",
        "torch.save(next(iter(loader)), 'first.pt')\n",
        "with open('rows.txt', 'w') as file:\n    x, y = next(iter(loader))\n    file.write(str(x))\n",
        "x, y = next(iter(DataLoader(data, batch_size=2)))\n",
    ],
)
def test_batches_that_rank_0_may_take_alone(text: str) -> None:
    after = converted(script(imports=FLIPS, setup=FLIP, model=MODEL + text), SHARED)
    assert "from_main_process(next" not in after


def test_batches_that_all_ranks_draw_alike() -> None:
    assert "from_main_process" not in converted(script(model=MODEL + "x, y = next(iter(loader))\n"), SHARED)


FROM_A_DATABASE = """\
class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        base = sqlite3.connect("rows.db")
        for x, y in base.execute({query!r}):
            yield torch.tensor([x] * 4), torch.tensor([y])


data = Rows()
"""


@pytest.mark.parametrize(
    ("query", "by_itself"),
    [
        ("SELECT x, y FROM a ORDER BY RANDOM() LIMIT 8", True),
        ("select x, y from a where rand() < 0.1", True),
        ("SELECT x, y FROM a ORDER BY rowid", False),
        ("SELECT x, random_seed FROM a", False),
    ],
)
def test_rows_that_a_database_draws_are_rank_zeros(query: str, by_itself: bool) -> None:
    before = script(
        imports=f"{IMPORTS}import sqlite3\n", data=FROM_A_DATABASE.format(query=query),
        loader="loader = DataLoader(data, batch_size=8)\n",
    )  # fmt: skip
    after = converted(before, SHARED)
    assert ("        x, y = rt.from_main_process((x, y))\n" in after) is by_itself
