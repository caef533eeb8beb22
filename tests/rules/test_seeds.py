"""SEED01: the ranks draw alike until training begins, and apart from then on."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import (
    ALIKE,
    APART,
    DATA,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    SHARDED,
    SHUFFLED,
    WRAP,
    blocked,
    changes,
    conversion_of,
    converted,
    distributed,
    indented,
    line_of,
    script,
)


def test_before_the_outermost_loop() -> None:
    assert converted(script()) == distributed()


@pytest.mark.parametrize(
    "loop",
    [
        LOOP.replace("for epoch in range(3):", "epoch = 0\nwhile epoch < 3:") + "    epoch += 1\n",
        LOOP.replace("for epoch in range(3):", "for epoch in range(3):  # three"),
        "# training\n" + LOOP,
    ],
)
def test_one_insertion_right_above_it(loop: str) -> None:
    after = converted(script(loop=loop))
    assert after.count(APART) == 1
    shuffled = after.index("reshuffle" if "while" in loop else "set_epoch")
    assert after.index(OPTIMIZER) < after.index(APART) < shuffled
    assert not after.split(APART)[1].startswith("    ")


def test_comment_of_the_loop_stays_with_it() -> None:
    after = converted(script(loop=f"\n# training\n{LOOP}"))
    assert f"\n{APART}\n# training\nfor epoch" in after or f"\n{APART}# training\nfor epoch" in after


def test_single_pass() -> None:
    loop = LOOP.replace("for epoch in range(3):\n", "").replace("\n    ", "\n")[4:]
    after = converted(script(loop=loop))
    assert f"{APART}for x, y in loader:\n" in after


@pytest.mark.parametrize("call", ["train()\n", "for again in range(1): train()\n", "if True: train()\n"])
def test_loop_in_a_function(call: str) -> None:
    before = script(loop=f"def train():\n{indented(LOOP)}\n\n{call}")
    after = converted(before)
    assert after.count(APART) == 1
    assert not after.endswith(APART)


def test_at_the_call_inside_the_epoch_loop() -> None:
    one = LOOP.split("\n", 1)[1]
    before = script(loop=f"def train(epoch):\n{one}\n\nfor epoch in range(3):\n    train(epoch)\n")
    assert converted(before).endswith(f"\n\n{APART}for epoch in range(3):\n    train(epoch)\n")


def test_seeds_of_the_script_stay() -> None:
    imports = f"import random\n\n{IMPORTS}"
    setup = "random.seed(0)\ntorch.manual_seed(0)\n"
    assert converted(script(imports=imports, setup=setup)) == distributed(imports=imports, setup=setup)


def test_model_built_anew_in_each_turn() -> None:
    """What the next turn draws, its first weights say, is drawn alike."""
    body = indented(MODEL + OPTIMIZER + LOOP)
    after = converted(script(model="", optimizer="", loop=f"for rate in (0.1, 0.2):\n{body}"))
    new = indented(MODEL + WRAP + OPTIMIZER + APART + SHUFFLED + ALIKE)
    assert after == distributed(model="", wrap="", optimizer="", apart="", loop=f"for rate in (0.1, 0.2):\n{new}")


def test_data_made_where_a_single_pass_begins() -> None:
    lines = LOOP.replace("for epoch in range(3):\n", "").replace("\n    ", "\n")[4:]
    loop = lines.replace("in loader", "in DataLoader(TensorDataset(inputs, targets), batch_size=8)")
    before = script(data="inputs, targets = torch.randn(64, 4), torch.randn(64, 1)\n", loader="", loop=loop)
    assert f"{APART}for x, y in rt.training_loader(DataLoader(" in converted(before)


def test_data_made_anew_in_each_turn() -> None:
    """They may be drawn: a rank's share is one of data that all ranks have."""
    after = converted(script(data="", loader="", loop=f"for turn in range(2):\n{indented(DATA + LOADER + LOOP)}"))
    new = indented(DATA + SHARDED + APART + SHUFFLED + ALIKE)
    assert after == distributed(data="", loader="", apart="", loop=f"for turn in range(2):\n{new}")


CHOICES = [
    "chosen = torch.randperm(64)",
    "chosen = random.sample(range(64), 8)",
    "chosen = torch.utils.data.random_split(data, [32, 32])",
    "random.shuffle(order)",
]
CHOSEN = [
    "chosen = rt.from_main_process(torch.randperm(64))",
    "chosen = rt.from_main_process(random.sample(range(64), 8))",
    "rt.seed_ranks_alike()\n    chosen = torch.utils.data.random_split(data, [32, 32])\n    rt.seed_ranks_apart()",
    "rt.seed_ranks_alike()\n    random.shuffle(order)\n    rt.seed_ranks_apart()",
]


@pytest.mark.parametrize(("choice", "chosen"), [*zip(CHOICES, CHOSEN, strict=True)])
def test_samples_chosen_in_training(choice: str, chosen: str) -> None:
    """A rank that chose others would train on what another one leaves out, and leave out what no other has."""
    loop = LOOP.replace("    for x", f"    {choice}\n    for x")
    before = script(imports=f"import random\n{IMPORTS}", setup="order = [1, 2]\n", loop=loop)
    assert f"\n    {chosen}\n" in converted(before)


def test_samples_chosen_by_one_rank_alone() -> None:
    loop = LOOP.replace("    for x", "    if loss > 1:\n        chosen = torch.randperm(64)\n    for x")
    before = script(setup="loss = torch.tensor(2.0)\n", loop=loop)
    assert ("SEED01", line_of(before, "randperm")) in blocked(before)


@pytest.mark.parametrize("choice", CHOICES)
def test_samples_chosen_before_training(choice: str) -> None:
    before = script(imports=f"import random\n{IMPORTS}", setup="order = [1, 2]\n", model=f"{choice}\n{MODEL}")
    assert f"\n{choice}\n" in converted(before)


def test_folds() -> None:
    """From the second fold on the ranks would split differently: training on what others validate with."""
    split = "part, rest = torch.utils.data.random_split(data, [32, 32])\n"
    loader = "loader = DataLoader(part, batch_size=8, shuffle=True)\n"
    body = split + loader + MODEL + OPTIMIZER + LOOP
    after = converted(script(loader="", model="", optimizer="", loop=f"for fold in range(2):\n{indented(body)}"))
    assert f"for fold in range(2):\n    {split}" in after
    assert after.endswith(indented(OPTIMIZER + APART + SHUFFLED + ALIKE))


def test_fold_in_a_function_left_by_return() -> None:
    loop = LOOP + "        if epoch:\n            return\n"
    before = script(loop=f"def fold():\n{indented(loop)}\n\nfold()\ntorch.randperm(8)\nfold()\n")
    assert converted(before).endswith(f"\n\nfold()\n{ALIKE}torch.randperm(8)\nfold()\n{ALIKE}")


def test_training_twice() -> None:
    """A split between two runs, and the second run's dropout."""
    part = "part, rest = torch.utils.data.random_split(data, [32, 32])\n"
    after = converted(script(loop=LOOP + part + LOOP))
    assert ALIKE + part + APART in after
    assert (after.count(APART), after.count(ALIKE)) == (2, 1)


def training_functions(between: str) -> str:
    """A second training in another function, with something between the two."""
    functions = "".join(f"def {name}(model, optimizer, loader):\n{indented(LOOP)}\n\n" for name in ("warm_up", "tune"))
    made = f"def made():\n    {between}\n\n\n"
    calls = "warm_up(model, optimizer, loader)\nother = made()\ntune(model, optimizer, loader)\n"
    return script(imports=f"import random\nimport strange\n{IMPORTS}", loop=functions + made + calls)


@pytest.mark.parametrize(
    "between",
    ["return torch.randn(64, 4)", "return nn.Linear(4, 4)", "return [random.random() for _ in range(4)]",
     "return strange.samples()", "return 3"],
)  # fmt: skip
def test_what_is_made_between_two_trainings_is_drawn_alike(between: str) -> None:
    """Else the second training would be on other data, or after another network, on each rank."""
    text = converted(training_functions(between))
    assert (text.count(APART), text.count(ALIKE)) == (2, 1)
    assert text.index(ALIKE) < text.index("def tune")


@pytest.mark.parametrize("made", ["probe = torch.randn(64, 4)", "probe = nn.Linear(4, 4)", "probe = strange.Probe()"])
def test_what_is_made_after_training_is_drawn_alike(made: str) -> None:
    assert converted(script(imports=f"import strange\n{IMPORTS}", after=f"{made}\n")).endswith(f"{ALIKE}{made}\n")


@pytest.mark.parametrize(
    "after",
    [
        "figure = loss.item() * 2",
        "score = nn.functional.mse_loss(model(inputs), targets).item()",
        "names = sorted(str(number) for number in range(3))",
        "torch.manual_seed(1)",
    ],
)
def test_nothing_ends_after_the_last_training_if_nothing_is_drawn(after: str) -> None:
    setup = "inputs, targets = torch.randn(8, 4), torch.randn(8, 1)\n"
    assert ALIKE not in converted(script(setup=setup, after=f"{after}\n"))


SEEDS = ["torch.manual_seed(epoch)", "np.random.seed(epoch)", "set_seed(epoch)"]


@pytest.mark.parametrize("seed", SEEDS)
def test_seed_in_training(seed: str) -> None:
    """It would have all ranks draw the same dropout from there on."""
    helper = "def set_seed(k):\n    torch.manual_seed(k)\n    np.random.seed(k)\n\n\nset_seed(0)\n"
    loop = LOOP.replace("    for x", f"    {seed}\n    for x")
    after = converted(script(imports=f"import numpy as np\n{IMPORTS}", setup=helper, loop=loop))
    assert f"    {seed}\n    {APART}    loader.sampler.set_epoch(epoch)\n" in after
    assert after.count(APART) == 2


def test_several_seeds_in_training() -> None:
    seeds = "    torch.manual_seed(epoch)\n    np.random.seed(epoch)\n"
    after = converted(
        script(imports=f"import numpy as np\n{IMPORTS}", loop=LOOP.replace("    for x", f"{seeds}    for x"))
    )
    assert f"{seeds}    {APART}" in after
    assert after.count(APART) == 2


def test_a_seed_and_what_is_drawn_by_it_in_one_line() -> None:
    line = "torch.manual_seed(epoch); x = x + torch.randn_like(x)"
    after = converted(script(loop=LOOP.replace("        loss =", f"        {line}\n        loss =")))
    seeded, drawn = line.split("; ")
    assert f"        {seeded}\n        {APART.strip()}\n        {drawn}\n" in after


@pytest.mark.parametrize("draw", ["random.randint(1, 4)", "np.random.beta(1.0, 1.0)"])
def test_one_number_for_a_batch(draw: str) -> None:
    """Ranks that cut a batch to another length, or mix it otherwise, do together what no process would."""
    loop = LOOP.replace("        loss =", f"        drawn = {draw}\n        loss =")
    after = converted(script(imports=f"import random\nimport numpy as np\n{IMPORTS}", loop=loop))
    assert f"        drawn = rt.from_main_process({draw})\n" in after


def test_a_verdict_on_a_draw_is_not_told_without_the_draw() -> None:
    """Rank 0 would say of its own number that it is free, and another rank would take one that is not."""
    functions = "def choose():\n    j = np.random.randint(64)\n    while taken[j]:\n        j = np.random.randint(64)\n"
    imports, setup = f"import numpy as np\n{IMPORTS}", f"taken = np.zeros(64)\n{functions}    return j\n\n\n"
    before = script(imports=imports, setup=setup, loop=LOOP.replace("    for x", "    chosen = choose()\n    for x"))
    assert line_of(before, "while taken") in [line for _, line in blocked(before)]


def test_a_verdict_on_a_draw_that_serves_nothing_else_is_rank_0s() -> None:
    flip = "        chance = random.random()\n        if chance < 0.5:\n            x = -x\n"
    loop = LOOP.replace("        loss =", f"{flip}        loss =")
    assert "if rt.from_main_process(chance < 0.5):" in converted(script(imports=f"import random\n{IMPORTS}", loop=loop))


def test_numbers_for_each_sample_of_a_batch() -> None:
    line = "drawn = [random.randint(1, 4) for _ in x]"
    loop = LOOP.replace("        loss =", f"        {line}\n        loss =")
    assert f"        {line}\n" in converted(script(imports=f"import random\n{IMPORTS}", loop=loop))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("noise = torch.randn_like(x)", id="noise"),
        pytest.param("x = x + torch.randn(x.size(0), 4)", id="noise by size"),
        pytest.param("x = nn.functional.dropout(x)", id="dropout"),
        pytest.param("order = torch.randperm(x.size(0)); z = x[order]", id="order of the batch"),
        pytest.param("shuffle([1, 2])", id="own function"),
    ],
)
def test_a_ranks_own_randomness(line: str) -> None:
    loop = LOOP.replace("        loss =", f"        {line}\n        loss =")
    before = script(setup="def shuffle(values):\n    return values\n\n\n", loop=loop)
    assert f"        {line}\n" in converted(before)


def test_generator_of_its_own() -> None:
    choice = "order = torch.randperm(64, generator=torch.Generator().manual_seed(epoch))"
    before = script(loop=LOOP.replace("    for x", f"    {choice}\n    for x"))
    assert choice in converted(before)


def test_one_change() -> None:
    before = script()
    assert [change.place.line for change in changes("SEED01", before)] == [line_of(before, "for epoch")]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(script(), id="converted"),
        pytest.param(script(loader="loader = DataLoader(data, sampler=Own(data))\n"), id="left to a person"),
        pytest.param(script(loader="", loop="x, y = data.tensors\nnn.functional.mse_loss(model(x), y).backward()\n"
                            "optimizer.step()\n"), id="no loop"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_something_is_said_of_random_numbers(before: str, strategy: str) -> None:
    conversion = conversion_of(before, options=Options(strategy=strategy))
    assert any(one.code == "SEED01" for one in conversion.findings)


# ---- weights are sent once, before the loop that trains

PARTS = """\
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.first(x)

    def of_both(self, x):
        return self.first(x) - self.second(x)


class Trainer:
    def __init__(self):
        self.pair = Pair()
        self.one = torch.optim.SGD(list(self.pair.first.parameters()), lr=0.1)
        self.two = torch.optim.SGD(self.pair.second.parameters(), lr=0.1)

    def switch(self, parts, on):
        for part in parts:
            part.requires_grad = on

    def train(self):
        for epoch in range(3):
            for x, y in loader:
                x = x + torch.rand_like(x)
                loss = nn.functional.mse_loss(self.pair(x), y)
                self.switch([self.pair.first], True)
                self.one.zero_grad()
                loss.backward()
                self.one.step()
                loss = nn.functional.mse_loss(self.pair.of_both(x), y)
                self.switch([self.pair.second], True)
                self.two.zero_grad()
                loss.backward()
                self.two.step()


Trainer().train()
"""


def test_what_is_done_to_a_part_in_training_draws_no_broadcast_into_the_loop() -> None:
    """Else weights are sent in each step, and the loop would count as one that makes them, in which all draw alike."""
    after = converted(script(model="", optimizer="", loop=PARTS))
    above, turns = after.split("        for epoch in range(3):\n")
    assert "broadcast_parameters" not in turns
    assert "rt.broadcast_parameters(self.pair.second)\n" in above
    assert above.count(f"        {APART}") == 1


MADE_IN_TURNS = """\
for x, y in loader:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(model(x + torch.rand_like(x)), y)
    loss.backward()
    optimizer.step()
"""


def test_ranks_that_cannot_draw_apart_are_not_said_to_need_nothing() -> None:
    """A model is made in each turn, alike on all ranks: so is the noise, unless forward passes alone are shared."""
    before = script(model="", optimizer="", loop=MADE_IN_TURNS)
    shared = conversion_of(before, options=Options())
    (why,) = [one for one in shared.of(Level.ADVICE) if one.code == "SHARE01"]
    assert shared.strategy is Strategy.SHARED
    assert "where all ranks draw alike" in why.message
    assert why.place is not None
    assert why.place.line == line_of(before, "for x, y in loader")
    told = conversion_of(before, options=Options(strategy="sharded"))
    assert "SEED01" in {one.code for one in told.of(Level.ADVICE)}
    assert "SEED01" not in {one.code for one in told.of(Level.NOT_NEEDED)}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"loop": LOOP.replace("    for x, y", "    model.train()\n    for x, y")},
        {"loop": LOOP.replace("        loss = ", "        model.to(x.device)\n        loss = ")},
        {"loop": f"for fold in range(2):\n{indented(MODEL + OPTIMIZER + LOOP)}", "model": "", "optimizer": ""},
    ],
    ids=["plain", "a mode", "moved in each turn", "folds"],
)
def test_ranks_that_draw_apart_train_on_shares(parts: dict[str, str]) -> None:
    conversion = conversion_of(script(**parts), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert conversion.files[0].after.decode().count("rt.seed_ranks_apart()") == 1


KEPT_IN_TURNS = """\
class Holder:
    pass


def train(nets):
    optimizer = torch.optim.SGD(nets["a"].parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            holder.net = nets["a"]
            loss = nn.functional.mse_loss(holder.net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


holder = Holder()
train({"a": nn.Linear(4, 1)})
"""


def test_model_that_is_kept_anew_in_each_turn_is_not_wrapped_in_each() -> None:
    after = converted(script(model="", optimizer="", loop=KEPT_IN_TURNS))
    assert "DistributedDataParallel" not in after.split("for epoch in range(3):")[1]
    assert after.count("rt.seed_ranks_apart()") == 1
