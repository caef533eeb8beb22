"""Samples that are kept for later batches and reach a loss there: a link, whatever holds them."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome, Strategy

from tests.rules.scripts import DATA, IMPORTS, LOADER, MODEL, OPTIMIZER, conversion_of, converted, line_of, script

MORE = f"""\
import heapq
import queue
import random
from collections import defaultdict, deque, namedtuple
{IMPORTS}"""
STEP = """\
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LINK = "keeps samples from one batch to the next"


def training(turn: str, setup: str = "pool = []\n", before_turn: str = "", imports: str = MORE) -> str:
    """A script whose loop over batches has these lines, up to the loss, in each turn."""
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    loop = f"for epoch in range(3):\n{before_turn}    for i, (x, y) in enumerate(loader):\n{lines}{STEP}"
    return script(imports=imports, setup=setup, loop=loop)


def links(before: str) -> list[tuple[int, str]]:
    """The lines that keep samples, and what the checklist says of them."""
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if LINK in one.message]
    if found:
        assert conversion.strategy is Strategy.SHARED
    return [(one.place.line, one.message) for one in found if one.place]


LOSS = "loss = ((model(x) - old[:len(x), :1] * y) ** 2).mean()"


@pytest.mark.parametrize(
    ("setup", "turn"),
    [
        ("pool = []", f"pool.append(x)\nold = pool[0]\n{LOSS}"),
        ("pool = []", f"old = pool[-1] if pool else x\npool.append(x)\n{LOSS}"),
        ("pool = []", f"pool.append(x)\nold = pool.pop(0) if len(pool) > 4 else x\n{LOSS}"),
        ("pool = []", f"pool.append(x.detach())\nold = random.choice(pool)\n{LOSS}"),
        ("pool = []", f"pool.append(x)\n[old] = random.sample(pool, 1)\n{LOSS}"),
        ("pool = []", f"pool.append(x)\nold = torch.cat(pool)\n{LOSS}"),
        ("pool = []", f"pool.insert(0, x)\nold = torch.stack(list(pool)).mean(0)\n{LOSS}"),
        ("pool = []", f"pool += [x]\nold = pool[0]\n{LOSS}"),
        ("pool = []", f"pool.extend([x, x * 2])\nold = pool[i // 2]\n{LOSS}"),
        ("pool = []", f"pool = pool + [x]\nold = pool[0]\n{LOSS}"),
        ("pool = [None] * 4", f"pool[i % 4] = x\nold = pool[0]\n{LOSS}"),
        ("pool = []", f"pool[:0] = [x]\nold = pool[0]\n{LOSS}"),
        ("pool = []", f"pool.append((x, y))\nold, _ = pool[0]\n{LOSS}"),
        ("pool = []", f"pool.append([x, y])\nfor old, _ in pool:\n    {LOSS}"),
        ("pool = []", f"pool.append({{'x': x}})\nold = pool[0]['x']\n{LOSS}"),
        ("Pair = namedtuple('Pair', 'x y')\npool = []", f"pool.append(Pair(x, y))\nold = pool[0].x\n{LOSS}"),
        ("pool = deque(maxlen=4)", f"pool.append(x)\nold = pool[0]\n{LOSS}"),
        ("pool = deque()", f"pool.appendleft(x)\nold = pool.pop()\n{LOSS}"),
        ("pool = queue.Queue()", f"pool.put(x)\nold = pool.get()\n{LOSS}"),
        ("pool = {}", f"pool[i] = x\nold = pool[max(0, i - 2)]\n{LOSS}"),
        ("pool = {}", f"old = pool.setdefault(int(y[0]), x)\n{LOSS}"),
        ("pool = {}", f"pool.update({{i: x}})\nold = torch.cat(list(pool.values()))\n{LOSS}"),
        ("pool = defaultdict(list)", f"pool[i % 2].append(x)\nold = pool[i % 2][0]\n{LOSS}"),
        ("pool = []", f"heapq.heappush(pool, (i, x))\nold = pool[0][1]\n{LOSS}"),
        ("state = {}", f"old = state.get('x', x)\nstate['x'] = x\n{LOSS}"),
        ("pool = []", f"model.last = getattr(model, 'last', x)\nold = model.last\nmodel.last = x\n{LOSS}"),
    ],
)  # fmt: skip
def test_what_is_read_of_earlier_batches(setup: str, turn: str) -> None:
    """Each rank would read what it had itself, of which one process has more, or others."""
    assert links(training(turn, f"{setup}\n"))


SIMPLE = "per = ((model(x) - y) ** 2).mean(1)\nweights = torch.ones(len(x))\n"
WEIGHED = "loss = (per * weights).mean()\n"
EACH = "for row, key in enumerate(y.flatten().tolist()):\n    "
HARD = "for key, value in zip(y.flatten().tolist(), per.tolist()):\n    if value > 1.1:\n        "


@pytest.mark.parametrize(
    ("setup", "looks", "keeps"),
    [
        ("known = set()", "if key in known: weights[row] = 2.0", "known.add(key)"),
        ("known = set()", "if key not in known: weights[row] = 2.0", "known.update([key])"),
        ("known = []", "if key in known: weights[row] = 2.0", "known.append(key)"),
        ("known = {}", "if key in known: weights[row] = 2.0", "known[key] = True"),
        ("known = {}", "if key in known: weights[row] = 2.0", "known[key] = [epoch]"),
        ("known = {}", "if key in known.keys(): weights[row] = 2.0", "known.setdefault(key, []).append(1)"),
        ("known = defaultdict(list)", "if sum(known[key][-2:]) > 1: weights[row] = 2.0", "known[key].append(value)"),
        ("known = defaultdict(lambda: deque(maxlen=3))", "if len(set(known[key])) == 1: weights[row] = 2.0",
         "known[key].append(value)"),
        ("known = {}", "weights[row] += sum(known.setdefault(key, deque(maxlen=2)))", "known[key].append(value)"),
    ],
)  # fmt: skip
def test_entries_that_are_written_by_what_earlier_batches_left(setup: str, looks: str, keeps: str) -> None:
    """A constant, under a test of it, is enough: the tensor that it is written into depends on it."""
    assert links(training(f"{SIMPLE}{EACH}{looks}\n{WEIGHED}{HARD}{keeps}", f"{setup}\n"))


def test_a_function_that_writes_them_into_what_it_is_given() -> None:
    setup = f"known = set()\n\n\ndef weigh(weights, y):\n    {EACH.replace('    ', '        ')}"
    setup += "if key in known: weights[row] = 2.0\n\n\n"
    assert links(training(f"{SIMPLE}weigh(weights, y)\n{WEIGHED}{HARD}known.add(key)", setup))


@pytest.mark.parametrize(
    ("setup", "turn"),
    [
        ("known = {1, 2}", f"{EACH}if key in known: weights[row] = 2.0"),
        ("known = {1: 'a'}", f"{EACH}if key in known: weights[row] = 2.0"),
        ("", f"known = set(y.flatten().tolist())\n{EACH}if key in known: weights[row] = 2.0"),
        ("known = set()", "known.update(y.flatten().tolist())"),
        ("known = []", "if epoch in known: weights = weights * 2\nknown.append(epoch)"),
        ("known = {}", "for name, value in {'loss': per}.items():\n    if name not in known: known[name] = []\n"
         "    known[name].append(value.mean().item())"),
        ("table = torch.rand(40)", "weights[table[y.flatten().long().abs() % 40] > 0.5] = 2.0"),
        ("", "weights[per > 1.2] = 2.0"),
        ("", "flags = torch.zeros(40, dtype=torch.bool)\nflags[y.flatten().long().abs() % 40] = True\n"
         "weights[y.flatten() > 0] = 2.0"),
    ],
)  # fmt: skip
def test_entries_that_are_written_by_the_batch_itself(setup: str, turn: str) -> None:
    before = training(f"{SIMPLE}{turn}\n{WEIGHED}", f"{setup}\n")
    assert links(before) == []
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    "flags",
    ["flags[index[per.detach() > 1.2]] = True", "flags[index] |= per.detach() > 1.2"],
)
def test_flags_of_samples_that_later_weights_are_taken_by(flags: str) -> None:
    """All ranks write the flags of all samples: what is written under a mask of them depends on them."""
    turn = f"index = y.flatten().long().abs() % 40\n{SIMPLE}weights[flags[index]] = 2.0\n{WEIGHED}{flags}"
    text = converted(training(turn, "flags = torch.zeros(40, dtype=torch.bool)\n"))
    assert "        index, per = rt.gather_samples(index, per)\n" in text
    assert "        weights = torch.ones(len(x) * rt.world_size())\n        weights[flags" in text


CARRIED = "loss = ((out - previous) ** 2).mean()"


@pytest.mark.parametrize(
    "turn",
    [
        f"out = model(x)\nloss = out.mean()\nif i:\n    {CARRIED}\nprevious = out.detach()",
        f"out = model(x)\ntry:\n    {CARRIED}\nexcept NameError:\n    loss = out.mean()\nprevious = out.detach()",
        f"if i:\n    out = model(x)\n    {CARRIED}\nelse:\n    loss = model(x).mean()\n[previous] = [y]",
        f"out = model(x)\nloss = out.mean()\nif i:\n    {CARRIED}\n    del previous\nprevious = out.detach()",
        f"out = model(x)\nloss = out.mean()\nif i:\n    {CARRIED}\nprint((previous := out.detach()).shape)",
        f"out = model(x)\nloss = out.mean()\nif i:\n    {CARRIED}\nfor previous in [y]:\n    pass",
        f"if i % 4 == 0:\n    previous = y\nout = model(x)\n{CARRIED}",
        f"try:\n    previous = y * (8 // i)\nexcept ZeroDivisionError:\n    pass\nout = model(x)\n{CARRIED}",
        f"match i % 4:\n    case 0:\n        previous = y\nout = model(x)\n{CARRIED}",
        "if i:\n    x = x + hidden\nhidden = torch.tanh(x).detach()\nloss = ((model(x) - y) ** 2).mean()",
    ],
)
def test_a_name_that_a_turn_leaves_to_the_next(turn: str) -> None:
    """The first turn has nothing by that name, or perhaps: it is what an earlier one has left."""
    assert links(training(turn))


def test_a_name_that_an_epoch_leaves_to_the_next() -> None:
    turn = "loss = ((model(x) - y) ** 2).mean()\nif epoch:\n    loss = loss + model(anchor).mean()"
    assert links(training(turn, before_turn="    if epoch:\n        anchor = x.clone()\n"))


def test_a_name_of_a_function_that_each_epoch_calls() -> None:
    turn = f"out = model(x)\nloss = out.mean()\nif i:\n    {CARRIED}\nprevious = out.detach()"
    before = training(turn).replace("for epoch in range(3):\n", "def train():\n")
    assert links(f"{before}for epoch in range(3):\n    train()\n")


def test_a_batch_that_is_trained_on_in_the_next_turn() -> None:
    """A model that is given None, or what is kept, is given a batch."""
    lines = STEP.replace("        ", "            ")
    turn = f"        if old is not None:\n            loss = ((model(old) - y) ** 2).mean()\n{lines}        old = x\n"
    loop = f"for epoch in range(3):\n    old = None\n    for x, y in loader:\n{turn}"
    assert links(script(imports=MORE, loop=loop))


def test_neither_way_is_seen_to_be_right() -> None:
    """Sharded data need nobody, but cannot be believed; shared forward passes need a person: nothing is written."""
    turn = f"pool.append(x)\nold = pool[0]\n{LOSS}"
    before = training(turn, imports=f"import pybullet\n{MORE}") + "    pybullet.stepSimulation()\n"
    conversion = conversion_of(before, options=Options())
    assert conversion.outcome is Outcome.REFUSED
    assert [one.code for one in conversion.of(Level.BLOCKING)] == ["SHARE01"]
    assert links(before)


@pytest.mark.parametrize(
    "turn",
    [
        "if i % 2:\n    out = model(x)\nelse:\n    out = model(2 * x)\nloss = ((out - y) ** 2).mean()",
        "if i > 4:\n    scale = 2.0\nloss = ((model(x) - y) ** 2).mean()\nif i > 4:\n    loss = loss * scale",
        "out = model(x)\nloss = ((out - y) ** 2).mean()\nif i:\n    print(i, previous)\nprevious = out.detach()",
        "try:\n    out = model(x)\nexcept ValueError:\n    raise\nloss = ((out - y) ** 2).mean()",
        "for _ in range(2):\n    out = model(x)\nloss = ((out - y) ** 2).mean()",
    ],
)
def test_names_that_a_turn_leaves_to_nobody(turn: str) -> None:
    assert not links(training(turn))


POOLED = """
class Pool:
    def __init__(self):
        self.count = 0
        self.images = []

    def query(self, images):
        old = []
        for image in images:
            image = torch.unsqueeze(image.data, 0)
            if self.count < 8:
                self.count += 1
                self.images.append(image)
                old.append(image)
            else:
                if random.uniform(0, 1) > 0.5:
                    number = random.randint(0, 7)
                    kept = self.images[number].clone()
                    self.images[number] = image
                    old.append(kept)
                else:
                    old.append(image)
        return torch.cat(old, 0)


pool = Pool()
"""
PREVIOUS = """
class Trainer:
    def __init__(self):
        self.previous = None

    def loss(self, x, y):
        old = x if self.previous is None else self.previous
        self.previous = x
        return ((model(x) - old[:len(x), :1] * y) ** 2).mean()


trainer = Trainer()
"""
CLOSURE = """
def make():
    last = torch.zeros(8, 4)

    def swap(x):
        nonlocal last
        old, last = last, x
        return old

    return swap


swap = make()
"""
GLOBAL = """
last = None


def swap(x):
    global last
    old, last = last, x
    return x if old is None else old


"""


@pytest.mark.parametrize(
    ("setup", "turn", "keeps"),
    [
        (PREVIOUS, "loss = trainer.loss(x, y)", "self.previous = x"),
        (CLOSURE, f"old = swap(x)\n{LOSS}", "old, last = last, x"),
        (GLOBAL, f"old = swap(x)\n{LOSS}", "old, last = last, x"),
        ("pool = []\n", f"pool.append(x)\nold = pool[0]\n{LOSS}", "pool.append(x)"),
    ],
)
def test_the_line_that_keeps_them_is_named(setup: str, turn: str, keeps: str) -> None:
    before = training(turn, setup)
    assert [(line, keeps in message) for line, message in links(before)] == [(line_of(before, keeps), True)]


def test_the_lines_that_keep_and_count_them_are_named() -> None:
    before = training("old = pool.query(model(x))\nloss = ((old - y) ** 2).mean()", POOLED)
    kept = ["self.count += 1", "self.images.append(image)"]
    assert [line for line, _ in links(before)] == [line_of(before, one) for one in kept]


@pytest.mark.parametrize(
    ("setup", "turn"),
    [
        (POOLED, f"old = pool.query(x)\n{LOSS}"),
        ("bank = torch.zeros(0, 4)\n", f"bank = torch.cat([bank, x])[-32:]\nold = bank\n{LOSS}"),
    ],
)
def test_what_sharded_data_would_need_a_person_for(setup: str, turn: str) -> None:
    assert conversion_of(training(turn, setup), options=Options()).strategy is Strategy.SHARED


ONE_ROW = LOSS.replace("len(x)", "1")  # for all samples
PLAIN = "loss = ((model(x) - y) ** 2).mean()"


@pytest.mark.parametrize(
    ("setup", "turn"),
    [
        ("losses = []", f"{PLAIN}\nlosses.append(loss.item())"),
        ("losses = []", f"{PLAIN}\nlosses.append(loss.detach())\nprint(sum(losses) / len(losses))"),
        ("pool = []", f"{PLAIN}\npool.append(x)\nprint(len(pool))"),
        ("pool = []", f"pool = [x, y]\nold = pool[0]\n{LOSS}"),
        ("", f"pool = []\npool.append(x)\nold = torch.cat(pool)\n{LOSS}"),
        ("", "pool = []\nfor part in (x, x * 2):\n    pool.append(model(part))\n"
             "loss = ((torch.stack(pool).mean(0) - y) ** 2).mean()"),
        ("", f"batch = {{'x': x, 'y': y}}\nif i > 2:\n    batch['z'] = x\nold = batch['x']\n{LOSS}"),
        ("settings = {'scale': 2.0}", f"old = x * settings['scale']\nsettings['scale'] = 1.0 + i\n{LOSS}"),
        ("seen = 0", f"{PLAIN}\nseen += len(x)"),
        ("state = {}", f"state['x'] = x\nold = state['x']\n{LOSS}"),
        ("class State: pass\nstate = State()", f"state.x = x\nif i > 2:\n    state.x = x * 2\nold = state.x\n{LOSS}"),
        ("class State: pass\nstate = State()",
         f"if epoch > 1:\n    state.x = x\nelse:\n    state.x = x * 2\nold = state.x\n{LOSS}"),
        ("class State: pass\nstate = State()",
         f"if epoch > 1:\n    state.x = x\n    old = state.x\nelse:\n    old = x\n{LOSS}"),
        ("guesses = []", f"{PLAIN}\nguesses.append(model(x).detach())"),
        ("fixed = torch.randn(8, 4)", f"old = fixed\n{ONE_ROW}"),
        ("pool = [torch.randn(8, 4) for _ in range(3)]", f"old = pool[epoch]\n{ONE_ROW}"),
    ],
)  # fmt: skip
def test_what_no_later_batch_depends_on(setup: str, turn: str) -> None:
    before = training(turn, f"{setup}\n")
    assert links(before) == []
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED


def test_what_a_function_does_for_others() -> None:
    """Of a list in a function, what it holds in this call."""
    setup = "pool = []\n\n\ndef joined(a, b):\n    return torch.cat([a, b], 1)\n\n\n"
    turn = "pool.append(x)\nprint(joined(pool[0], x).mean())\nloss = ((model(joined(x, x)[:, :4]) - y) ** 2).mean()"
    assert links(training(turn, setup)) == []


def test_averaged_weights() -> None:
    turn = f"{PLAIN}\nfor k, p in model.named_parameters():\n    shadow[k] = 0.9 * shadow.get(k, p.data) + 0.1 * p.data"
    assert links(training(turn, "shadow = {}\n")) == []


def test_predictions_of_an_epoch() -> None:
    loop = f"""\
for epoch in range(3):
    guesses, answers = [], []
    for x, y in loader:
        guess = model(x)
        loss = ((guess - y) ** 2).mean()
{STEP}        guesses.append(guess.detach())
        answers.append(y)
    near = ((torch.cat(guesses) - torch.cat(answers)).abs() < 0.1).float().mean()
    print(near.item())
"""
    before = script(imports=MORE, loop=loop)
    assert links(before) == []
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED


def test_what_is_kept_for_training_is_not_for_showing() -> None:
    """Also where sharded data are asked for: all ranks' samples in a pool of one rank would fit nothing."""
    before = training(f"pool.append(x)\nold = pool[0]\n{LOSS}")
    assert "gather" not in converted(before)
    assert "pool.append(rt.gather_entries(x))" in converted(training(f"{PLAIN}\npool.append(x)"))


def test_parts_of_other_scripts() -> None:
    assert links(f"{MORE}\n{DATA}{LOADER}{MODEL}{OPTIMIZER}") == []


NORMALISED = """
class Normalised(nn.Module):
    def forward(self, x, mode):
        if mode == "norm":
            self.mean = x.mean(1, keepdim=True).detach()
            return x - self.mean
        return x + self.mean


normalised = Normalised()
"""


@pytest.mark.parametrize(("first", "kept"), [("norm", False), ("back", True)])
def test_a_call_that_returns_early_has_set_what_another_reads(first: str, kept: bool) -> None:
    second = "back" if first == "norm" else "norm"
    turn = f"x = normalised(x, '{first}')\nx = normalised(x, '{second}')\nloss = ((model(x) - y) ** 2).mean()"
    assert bool(links(training(turn, NORMALISED))) is kept


@pytest.mark.parametrize(
    "decides",
    [
        "worse = worse + 1 if mean > last else 0\nlast = mean\nif worse >= 1:\n    worse = 0",
        "late, last = mean > last, min(last, mean)\nif late:\n    worse = 1",
    ],
)
def test_an_optimizer_that_figures_have_made_anew(decides: str) -> None:
    """Which one takes the step is no sample in its loss."""
    anew = f"{decides}\n    optimizer = torch.optim.Adam(model.parameters())\n".replace("\n", "\n    ")
    loop = (
        "last, worse = float('inf'), 0\nfor epoch in range(3):\n    total = 0.0\n    for x, y in loader:\n"
        f"        loss = nn.functional.mse_loss(model(x), y)\n{STEP}        total += loss.item() * len(x)\n"
        f"    mean = total / 64\n    {anew}"
    )
    conversion = conversion_of(script(imports=MORE, loop=loop.rstrip(" ")), options=Options())
    assert conversion.strategy is Strategy.SHARDED


AHEAD = """\
def get_batch():
    rows = torch.randint(len(inputs) - 1, (8,))
    return inputs[rows], inputs[rows + 1]


inputs = torch.randn(64, 4)
x, y = get_batch()
for step in range(20):
    {turn}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MET = "loss = ((model(x) - y) ** 2).mean()"


def dealt_ahead(turn: str) -> str:
    return script(imports=MORE, data="", loader="", loop=AHEAD.replace("{turn}", turn.replace("\n", "\n    ")))


def test_a_batch_that_is_dealt_for_the_next_turn_is_taken_in_shares() -> None:
    after = converted(dealt_ahead(f"{MET}\nx, y = get_batch()"), Options())
    assert after.count("x, y = rt.shard_batch(get_batch())\n") == 2


@pytest.mark.parametrize(
    "turn",
    [
        f"{MET}\nx, y = get_batch()\nloss = loss + model(x).mean()",
        f"old = x\n{MET}\nx, y = get_batch()\nloss = loss + model(old - x).mean()",
        "z, _ = get_batch()\nloss = ((model(x) - z) ** 2).mean()\nx, y = get_batch()",
        f"{MET}\nx, y = x + get_batch()[0], y",
    ],
)
def test_a_batch_that_is_mixed_with_the_next(turn: str) -> None:
    assert conversion_of(dealt_ahead(turn), options=Options()).strategy is Strategy.SHARED
