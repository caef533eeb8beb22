"""DATA02: the sampler is told the epoch before each pass over the training loader."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import (
    APART,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    OPTIMIZER,
    SHARDED,
    SHUFFLED,
    blocked,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    indented,
    line_of,
    script,
)

STEP = "loss = nn.functional.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()\n"


def tells(loop: str, line: str = "loader.sampler.set_epoch(epoch)", by: str = "    ") -> None:
    """The loop over the batches stands on a line that begins with `by` and "for x, y in"; the line goes above it."""
    place = loop.index(f"{by}for x, y in")
    new = f"{loop[:place]}{by}{line}\n{loop[place:]}"
    start = loop.index("for ") if loop.startswith(("for", "while")) else None
    before = script(loop=loop)
    after = converted(before)
    if start == 0:
        assert after == distributed(loop=new)
    else:
        assert new in after.replace(APART, "")


@pytest.mark.parametrize(
    "head",
    [
        "for epoch in range(3):\n",
        "for epoch in range(1, 4):\n",
        "for epoch, rate in enumerate([0.1, 0.2]):\n",
        "for epoch in range(3):  # all of it\n",
    ],
)
def test_loop_that_counts(head: str) -> None:
    tells(f"{head}    for x, y in loader:\n        {STEP}")


def test_counter_of_any_name() -> None:
    tells(LOOP.replace("epoch", "e"), "loader.sampler.set_epoch(e)")


def test_epoch_is_told_whatever_its_name_is() -> None:
    tells(f"for _ in range(3):\n    for x, y in loader:\n        {STEP}", "loader.sampler.set_epoch(_)")


@pytest.mark.parametrize(
    "loop",
    [
        f"epoch = 0\nwhile epoch < 3:\n    for x, y in loader:\n        {STEP}    epoch += 1\n",
        f"for epoch in [1, 1, 1]:\n    for x, y in loader:\n        {STEP}",
        f"for epoch in range(3):\n    epoch = 7\n    for x, y in loader:\n        {STEP}",
        f"while True:\n    for x, y in loader:\n        {STEP}    if len(data) > 3: break\n",
    ],
)
def test_orders_follow_random_numbers_where_no_variable_counts(loop: str) -> None:
    tells(loop, "rt.reshuffle(loader)")


@pytest.mark.parametrize(
    "head", ["    for i, (x, y) in enumerate(loader):\n", "    for i, (x, y) in enumerate(loader, 1):\n",
             "    for x, y in iter(loader):\n", "    for (x, y), _ in zip(loader, range(9)):\n"]
)  # fmt: skip
def test_loader_inside_other_iterators(head: str) -> None:
    before = script(loop=f"for epoch in range(3):\n{head}        {STEP}")
    after = f"for epoch in range(3):\n    loader.sampler.set_epoch(epoch)\n{head}        {STEP}"
    assert converted(before) == distributed(loop=after)


def test_one_line_loop() -> None:
    tells(f"for epoch in range(3):\n    for x, y in loader: {STEP}")


def test_tabs() -> None:
    before = script(loop=LOOP.replace("    ", "\t"))
    assert converted(before) == distributed(loop=SHUFFLED.replace("    ", "\t"))


def test_comment_stays_with_its_loop() -> None:
    loop = LOOP.replace("    for x", "    # all batches\n    for x")
    assert converted(script(loop=loop)) == distributed(
        loop=loop.replace("    # all", "    loader.sampler.set_epoch(epoch)\n    # all")
    )


@pytest.mark.parametrize(
    ("head", "call", "epoch"),
    [
        ("def train(epoch):\n", "train(epoch)\n", "epoch"),
        ("def train(number):\n", "train(epoch)\n", "number"),
        ("def train(*, now):\n", "train(now=epoch)\n", "now"),
        ("def train():\n", "train()\n", ""),
    ],
)
def test_loop_in_a_function(head: str, call: str, epoch: str) -> None:
    body = f"    for x, y in loader:\n        {STEP}"
    before = script(loop=f"{head}{body}\n\nfor epoch in range(3):\n    {call}")
    line = f"loader.sampler.set_epoch({epoch})" if epoch else "rt.reshuffle(loader)"
    assert f"{head}    {line}\n{body}" in converted(before)


@pytest.mark.parametrize("call", ["for epoch in range(3): train(loader, epoch)\n",
                                  "for epoch in range(3):\n    train(loader, epoch=epoch)\n"])  # fmt: skip
def test_loader_under_the_name_that_the_function_has_for_it(call: str) -> None:
    body = f"    for x, y in batches:\n        {STEP}"
    before = script(loop=f"def train(batches, epoch):\n{body}\n\n{call}")
    assert f"epoch):\n    batches.sampler.set_epoch(epoch)\n{body}" in converted(before)


@pytest.mark.parametrize(
    ("loader", "loop"),
    [
        ('loaders = {"train": DataLoader(data, 8, True)}\n', 'loaders["train"]'),
        ("loaders = [DataLoader(data, 8, True)]\n", "loaders[0]"),
        ("class Box: pass\nbox = Box()\nbox.loader = DataLoader(data, 8, True)\n", "box.loader"),
    ],
)
def test_loader_in_a_container(loader: str, loop: str) -> None:
    after = converted(script(loader=loader, loop=LOOP.replace("in loader", f"in {loop}")))
    assert f"    {loop}.sampler.set_epoch(epoch)\n    for x, y in {loop}:\n" in after


def test_attribute_of_a_trainer() -> None:
    trainer = f"""\
class Trainer:
    def __init__(self):
        self.batches = DataLoader(data, batch_size=8, shuffle=True)

    def run(self):
        for epoch in range(3):
            self.once(epoch)

    def once(self, now):
        for x, y in self.batches:
            {STEP}

"""
    before = script(setup="", loader=trainer, loop="Trainer().run()\n")
    assert "    def once(self, now):\n        self.batches.sampler.set_epoch(now)\n" in converted(before)


def test_loader_made_anew_in_each_epoch() -> None:
    loop = LOOP.replace("    for x", f"    {LOADER}    for x")
    after = converted(script(loader="", loop=loop))
    new = SHUFFLED.replace("    loader.sampler", f"{indented(SHARDED)}    loader.sampler")
    assert after == distributed(loader="", loop=new)


def test_loader_made_anew_where_nothing_counts() -> None:
    """It draws another order by itself, and nobody need be told."""
    made = "while loss > 0.01:\n"
    loop = f"loss = 1.0\n{made}{indented(LOADER)}    for x, y in loader:\n        {STEP}"
    after = converted(script(loader="", loop=loop))
    assert indented(SHARDED) in after
    assert "set_epoch" not in after


TWICE = "one statement begins several passes over the training loader, of which one process draws an order for each"


def _told_to_share(head: str, body: str, **parts: str) -> bool:
    loop = f"for epoch in range(3):\n    {head}\n        {body}"
    before = script(imports=f"import itertools\n{IMPORTS}", loop=loop, **parts)
    conversion = conversion_of(before, options=Options())
    told = any(TWICE in one.message for one in conversion.of(Level.ADVICE))
    assert conversion.strategy is (Strategy.SHARED if told else Strategy.SHARDED)
    return told


BOTH = STEP.replace("model(x), y)", "model(x), y) + nn.functional.mse_loss(model(a), b)")


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("for x, y in itertools.chain(loader, loader):", STEP),
        ("for x, y in itertools.chain(loader, tqdm(loader)):", STEP),
        ("for (x, y), (a, b) in zip(loader, loader):", BOTH),
    ],
)
def test_one_statement_of_several_passes_has_forward_passes_shared(head: str, body: str) -> None:
    assert _told_to_share(head, body, setup="from tqdm import tqdm\n")


SECOND = f"{LOADER}{LOADER.replace('loader =', 'second =')}"


@pytest.mark.parametrize(
    ("head", "body", "loader"),
    [
        ("for (x, y), (a, b) in zip(loader, second):", BOTH, SECOND),
        ("for x, y in itertools.islice(loader, 3):", STEP, LOADER),
        ("for _, (x, y) in enumerate(tqdm(loader)):", STEP, LOADER),
        ("for _, (x, y) in zip(range(len(loader)), loader):", STEP, LOADER),
        ("for x, y in itertools.chain(loader, loader):", STEP, LOADER.replace(", shuffle=True", "")),
    ],
)
def test_one_pass_over_each_loader_goes_on_as_it_is(head: str, body: str, loader: str) -> None:
    assert not _told_to_share(head, body, loader=loader, setup="from tqdm import tqdm\n")


def test_two_passes_in_one_epoch() -> None:
    loop = f"for epoch in range(3):\n    for x, y in loader:\n        {STEP}    for x, y in loader:\n        {STEP}"
    line = "    rt.reshuffle(loader)\n    for x, y in loader:\n"
    assert converted(script(loop=loop)).count(line) == 2


def test_zipped_loaders() -> None:
    second = LOADER.replace("loader =", "second =")
    head = "    for (x, y), (a, b) in zip(loader, second):\n"
    both = STEP.replace("model(x), y)", "model(x), y) + nn.functional.mse_loss(model(a), b)")
    after = converted(script(loader=LOADER + second, loop=f"for epoch in range(3):\n{head}        {both}"))
    told = "    loader.sampler.set_epoch(epoch)\n    second.sampler.set_epoch(epoch)\n"
    assert f"for epoch in range(3):\n{told}{head}" in after


# ---- iterators


RESTARTED = f"""\
batches = iter(loader)
for step in range(20):
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        x, y = next(batches)
    {STEP}"""


def test_restarted_iterator() -> None:
    """The first pass has an order of its own."""
    told = "        rt.reshuffle(loader)\n        batches = iter(loader)\n"
    after = converted(script(loop=RESTARTED))
    assert told in after
    assert after.count("reshuffle") == 1


def test_endless_generator() -> None:
    endless = "def endless(loader):\n    while True:\n        for batch in loader:\n            yield batch\n\n\n"
    loop = f"batches = endless(loader)\nfor step in range(20):\n    x, y = next(batches)\n    {STEP}"
    told = "        rt.reshuffle(loader)\n        for batch in loader:\n"
    after = converted(script(setup=endless, loop=loop))
    assert told in after
    assert after.count("reshuffle") == 1


def test_yield_from() -> None:
    endless = "def endless(loader):\n    while True:\n        yield from loader\n\n\n"
    loop = f"for x, y in endless(loader):\n    {STEP}"
    told = "        rt.reshuffle(loader)\n        yield from loader\n"
    assert told in converted(script(setup=endless, loop=loop))


def test_iterator_in_each_epoch() -> None:
    loop = (
        "for epoch in range(3):\n    batches = iter(loader)\n"
        f"    for step in range(len(loader)):\n        x, y = next(batches)\n        {STEP}"
    )
    assert "    loader.sampler.set_epoch(epoch)\n    batches = iter(loader)\n" in converted(script(loop=loop))


def test_cycle_repeats_the_first_pass() -> None:
    """itertools.cycle keeps the batches of the first pass: there is nothing to reshuffle."""
    loop = f"for x, y in islice(cycle(loader), 20):\n    {STEP}"
    after = converted(script(imports=IMPORTS + "from itertools import cycle, islice\n", loop=loop))
    assert "TrainingSampler" in after
    assert "set_epoch" not in after


def test_own_iterator_class() -> None:
    own = """\
class Endless:
    def __init__(self, loader):
        self.loader = loader
        self.batches = iter(loader)

    def next(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)


"""
    loop = f"batches = Endless(loader)\nwhile True:\n    x, y = batches.next()\n    {STEP}"
    told = "            rt.reshuffle(self.loader)\n"
    assert f"{told}            self.batches = iter(self.loader)\n" in converted(script(setup=own, loop=loop))


def test_else_of_the_loop() -> None:
    tells(f"for epoch in range(3):\n    for x, y in loader:\n        {STEP}    else:\n        done = True\n")


# ---- not needed, or left to a person


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(f"for x, y in loader:\n    {STEP}", id="one pass"),
        pytest.param(f"def train():\n    for x, y in loader:\n        {STEP}\n\ntrain()\n", id="in a function"),
    ],
)
def test_one_pass_needs_none(loop: str) -> None:
    assert changes("DATA02", script(loop=loop)) == []
    assert "set_epoch" not in converted(script(loop=loop))


def test_evaluation_needs_none() -> None:
    evaluation = """\
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in other:
            right += (model(x) > y).sum().item()
"""
    before = script(loader=f"{LOADER}other = DataLoader(data, batch_size=8)\n", loop=LOOP + evaluation)
    assert [change.place.line for change in changes("DATA02", before)] == [line_of(before, "in loader:")]


@pytest.mark.parametrize(
    ("loader", "head"),
    [
        ("", "for x, y in DataLoader(data, batch_size=8, shuffle=True):"),
        ("", "for x, y in (loader := DataLoader(data, batch_size=8, shuffle=True)):"),
    ],
)
def test_no_single_name_for_the_loader(loader: str, head: str) -> None:
    before = script(loader=loader, loop=f"for epoch in range(3):\n    {head}\n        {STEP}")
    assert blocked(before) == {("DATA02", line_of(before, head))}


def test_same_name_elsewhere() -> None:
    """An object of the script's own with a `sampler` keeps what it has."""
    own = "class Loader:\n    sampler = None\n\n\nother = Loader()\nfor turn in range(3):\n    print(other.sampler)\n"
    after = converted(script(setup=own)).replace(GROUP, "")
    assert after == distributed(setup=own, group="", prints=True)


def test_order_of_what_is_inserted() -> None:
    """Random numbers part before the first epoch, once; the sampler is told in each."""
    after = converted(script(optimizer=OPTIMIZER))
    assert after.index(APART) < after.index("for epoch") < after.index("set_epoch")
    assert IMPORTS in after


@pytest.mark.parametrize("given", ["", ", shuffle=False"])
def test_a_loader_that_does_not_shuffle_has_one_order(given: str) -> None:
    before = script(loader=f"loader = DataLoader(data, batch_size=8{given})\n")
    assert "set_epoch" not in converted(before)
    (said,) = findings("DATA02", before, Level.NOT_NEEDED)
    assert said.message == "the training loader does not shuffle: its order is the same in each epoch"
    assert findings("DATA02", before, Level.APPLIED) == []


@pytest.mark.parametrize(
    "loader",
    [
        "loader = DataLoader(data, batch_size=8, shuffle=bool(torch.rand(1) > 2))\n",
        "options = missing()\nloader = DataLoader(data, batch_size=8, **options)\n",
        "loader = DataLoader(data, batch_size=8, sampler=torch.utils.data.RandomSampler(data))\n",
    ],
)
def test_a_loader_that_may_shuffle_is_told_the_epoch(loader: str) -> None:
    before = script(imports=f"from elsewhere import missing\n{IMPORTS}", loader=loader)
    assert not any("does not shuffle" in one.message for one in findings("DATA02", before, Level.NOT_NEEDED))


RESTORED = "torch.set_rng_state(torch.load('state.pt'))\n"


@pytest.mark.parametrize(
    "restored", [RESTORED, RESTORED.replace("torch.set_rng_state", "import random\nrandom.setstate")]
)
def test_a_first_pass_goes_on_where_random_numbers_are_put_back(restored: str) -> None:
    loop = f"for x, y in loader:\n    {STEP}"
    assert "rt.reshuffle(loader)\nfor x, y in loader" in converted(script(loop=restored + loop))


GENERATOR = "generator = torch.Generator().manual_seed(2)\n"


def test_orders_are_drawn_from_the_generator_that_the_script_gives() -> None:
    loader = "loader = DataLoader(data, batch_size=8, shuffle=True, generator=generator)\n"
    after = converted(script(loader=GENERATOR + loader))
    assert "sampler=rt.TrainingSampler(data, generator=generator), generator=generator)\n" in after
    assert "set_epoch" not in after
    made = "loader = DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(2))\n"
    after = converted(script(loader=made))
    assert made.replace("DataLoader(", "rt.training_loader(DataLoader(").replace("(2))", "(2)))") in after
    assert "set_epoch" not in after


def test_a_generator_of_a_loader_that_does_not_shuffle() -> None:
    loader = "loader = DataLoader(data, batch_size=8, generator=generator)\n"
    assert "sampler=rt.TrainingSampler(data, shuffle=False))\n" in converted(script(loader=GENERATOR + loader))
