"""Figures of a rank's own samples that are written into something: all ranks compute them from whole batches.

Where sharded data are asked for, they are told, and not called those of all.
"""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, line_of, script

TOLD = ("what is written here is of rank 0's samples only", "what is kept or logged here is of rank 0's samples only")
NONE_KEPT = "no figure of the training loop is kept"
PREDICTED = "model(x).argmax(1)"
TRACKER = "from torch.utils.tensorboard import SummaryWriter\n"


def training(made: str, turn: str, shown: str) -> str:
    loop = LOOP.replace("        loss = ", f"        {turn}\n        loss = ").replace(
        "    for x", f"    {made}\n    for x"
    )
    return script(
        imports=f"import bisect, collections, heapq\nimport numpy as np\n{IMPORTS}", loop=f"{loop}    {shown}\n"
    )


def told(before: str) -> list[int]:
    """Of which lines either way of converting speaks."""
    conversion = conversion_of(before, options=Options(strategy="sharded"))
    found = [one.place.line for one in conversion.of(Level.ADVICE) if one.message in TOLD and one.place]
    assert any(NONE_KEPT in one.message for one in conversion.of(Level.NOT_NEEDED)) is not bool(found)
    claims = [one.message for one in conversion.of(Level.NOT_NEEDED) if one.message.startswith("every decision")]
    assert all(("but one that is made by what METRIC01 names" in claim) is bool(found) for claim in claims)
    by_itself = conversion_of(before, options=Options())
    assert by_itself.strategy is (Strategy.SHARED if found else Strategy.SHARDED)
    stands = [one for one in by_itself.of(Level.ADVICE) if "would be that of rank 0's samples" in one.message]
    assert [one.place.line for one in stands if one.place] == found
    return found


KEPT = [
    ("kept = np.zeros((2, 2))", f"for t, p in zip(y.tolist(), {PREDICTED}.tolist()): kept[int(t), p] += 1"),
    ("kept = torch.zeros(2, 2)", f"kept[y.long().squeeze(1), {PREDICTED}] += 1"),
    ("kept = np.zeros((2, 2))", f"np.add.at(kept, {PREDICTED}.numpy(), 1)"),
    ("kept = torch.zeros(2, 2)", f"kept.index_add_(0, {PREDICTED}, torch.ones(len(x), 2))"),
    ("kept = torch.zeros(1, 4)", "torch.add(kept, x.sum(0), out=kept)"),
    ("kept = collections.defaultdict(int)", f"for p in {PREDICTED}.tolist(): kept[p] += 1"),
    ("kept = collections.Counter()", f"kept.update({PREDICTED}.tolist())"),
    ("kept = collections.Counter()", f"kept[{PREDICTED}[0].item()] += 1"),
]


@pytest.mark.parametrize(("made", "turn"), KEPT)
def test_figures_that_are_written_into_something(made: str, turn: str) -> None:
    before = training(made, turn, "print(kept)")
    assert told(before) == [line_of(before, turn)]


@pytest.mark.parametrize(("made", "turn"), KEPT)
@pytest.mark.parametrize("decides", ["if {} > 3: break", "for g in optimizer.param_groups: g['lr'] = 0.1 * {}"])
def test_by_which_all_ranks_would_decide(made: str, turn: str, decides: str) -> None:
    """A rank's own samples say it: it is computed by all from whole batches."""
    before = training(made, turn, decides.format("kept[0]" if "collections" in made else "kept[0].sum()"))
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize("then", ["weights[0] = 1 / (1 + kept[0].sum())", "weights[:] = 1 / (1 + kept.sum())"])
def test_what_the_loss_depends_on_in_the_next_epoch(then: str) -> None:
    """What was written under a test of a rank's samples, and into something else after the loop, is kept of batches."""
    turn = f"if (y > 0).sum() > 3: kept[0] += (y > 0).sum()\n        scale = weights[0] * {PREDICTED}.float().mean()"
    before = training("kept = torch.zeros(2, 2)", turn, then).replace(
        "mse_loss(model(x), y)", "mse_loss(model(x), y) * weights[0]"
    )
    before = before.replace("for epoch", "weights = torch.ones(1)\nfor epoch", 1)
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert any("what earlier batches left behind" in one.message for one in conversion.findings)


@pytest.mark.parametrize("then", ["weights[0] = 1 / (1 + kept[0].sum())", "weights[:] = 1 / (1 + kept.sum())"])
def test_what_all_ranks_have_counted_by_the_next_epoch(then: str) -> None:
    turn = "if (y > 0).any(): kept[0] += (y > 0).sum()"
    before = training("kept = torch.zeros(2, 2)", turn, then).replace(
        "mse_loss(model(x), y)", "mse_loss(model(x), y) * weights[0]"
    )
    before = before.replace("for epoch", "weights = torch.ones(1)\nfor epoch", 1)
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert "if rt.any_rank((y > 0).any()): kept[0] += rt.all_reduce_sum((y > 0).sum())\n" in (
        conversion.files[0].after.decode()
    )


@pytest.mark.parametrize("put", ["heapq.heappush(kept, {})", "bisect.insort(kept, {})"])
@pytest.mark.parametrize("then", ["print(kept)", "if kept[0] < 0.1: break"])
def test_lists_by_their_order_have_the_figures_of_all_samples(put: str, then: str) -> None:
    figure = "nn.functional.mse_loss(model(x), y).item()"
    conversion = conversion_of(training("kept = []", put.format(figure), then), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert f"        {put.format(f'rt.all_reduce_mean({figure})')}\n" in conversion.files[0].after.decode()
    assert not [one for one in conversion.of(Level.ADVICE) if one.message in TOLD]


def test_what_is_added_up_over_the_ranks_before_it_is_written_is_no_ranks_own() -> None:
    turn = f"for k in range(2): kept[k] += ({PREDICTED} == k).sum()"
    conversion = conversion_of(training("kept = torch.zeros(2)", turn, "print(kept)"), options=Options())
    assert "kept[k] += rt.all_reduce_sum(" in conversion.files[0].after.decode()
    assert not [one for one in conversion.of(Level.ADVICE) if one.message in TOLD]


UNKEPT = [
    ("import queue; asked = queue.Queue()", "value = y.sum(); asked.put(value)", "value = 0"),
    ("kept = 0", "part = torch.zeros(len(x), 2); part[:, :1] = y", "print(epoch)"),
    ("kept = np.zeros(3)", "kept[epoch] += 1", "print(kept)"),
    ("kept = np.zeros(3)", "kept[epoch] += 1", "if kept.sum() > 20: break"),
    ("kept = np.zeros(3)", "np.add.at(kept, [epoch], 1)", "if kept.sum() > 20: break"),
    ("kept = {}", "kept[epoch] = 0.1", "print(kept)"),
    ("kept = collections.Counter(['a', 'b'])", "kept.update(['a'])", "print(kept.most_common(1))"),
]


@pytest.mark.parametrize(("made", "turn", "shown"), UNKEPT)
def test_what_is_the_same_on_all_ranks(made: str, turn: str, shown: str) -> None:
    assert told(training(made, turn, shown)) == []


#: In a function, of what is outside of it; `kept` or a meter's own.
HELPED = [
    ("kept = np.zeros((2, 2))", "    kept[y.long().squeeze(1), out.argmax(1)] += 1"),
    ("kept = collections.Counter()", "    kept.update(out.argmax(1).tolist())"),
    ("kept = torch.zeros(2)", "    kept.index_add_(0, out.argmax(1), torch.ones(len(x)))"),
]
STEP = "def step(x, y):\n    out = model(x)\n{}\n    return nn.functional.mse_loss(out, y)\n\n\n"


def by_a_function(made: str, line: str, shown: str) -> str:
    before = training("pass", "pass", shown).replace("nn.functional.mse_loss(model(x), y)", "step(x, y)")
    return before.replace(LOOP[:12], f"{made}\n\n\n{STEP.format(line)}{LOOP[:12]}", 1)


@pytest.mark.parametrize(("made", "line"), HELPED)
def test_figures_that_a_function_writes(made: str, line: str) -> None:
    before = by_a_function(made, line, "print(kept)")
    assert told(before) == [line_of(before, line)]


UNKEPT_BY_A_FUNCTION = [
    "    x[:, :1] = 0",
    "    hot = torch.zeros(len(y), 2); hot[:, out.argmax(1)] = 1",
    "    kept[0] += 1",
]


@pytest.mark.parametrize("line", UNKEPT_BY_A_FUNCTION)
def test_what_a_function_writes_for_this_turn_or_alike(line: str) -> None:
    assert told(by_a_function("kept = np.zeros(2)", line, "print(kept)")) == []


MEANS_AND_COUNTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loaders = {"train": DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), 8),
           "test": DataLoader(TensorDataset(torch.randn(16, 4), torch.randint(2, (16,))), 8)}
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Meter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, mean, count):
        self.sum += mean * count
        self.count += count


for epoch in range(2):
    for phase in ("train", "test"):
        model.train(phase == "train")
        meter = Meter()
        for x, y in loaders[phase]:
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(model(x), y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            meter.update(loss.item(), x.size(0))
        print(phase, meter.sum / meter.count)
"""


def test_what_a_function_is_given_is_said_where_it_is_called_and_its_means_are_not_said_to_be_one_ranks() -> None:
    found = [one for one in conversion_of(MEANS_AND_COUNTS).of(Level.ADVICE) if one.code == "METRIC01"]
    said = "what is counted here is of rank 0's samples only; the means beside it are those of all ranks"
    line = line_of(MEANS_AND_COUNTS, "meter.update(")
    assert [(one.message, one.place and one.place.line) for one in found] == [(said, line)]


def test_what_is_counted_under_a_ranks_own_key_is_read_under_the_same() -> None:
    line = "kept[len(x)] = kept.get(len(x), 0) + 1"
    before = training("kept = {}", line, "print(kept)")
    conversion = conversion_of(before, options=Options(strategy="sharded"))
    assert f"        {line}\n" in conversion.files[0].after.decode()
    assert line_of(before, line) in told(before)


@pytest.mark.parametrize("made", ["kept = {}", "kept = {'seen': 0}"])
def test_what_is_counted_under_a_key_of_all_is_not_multiplied_in_each_turn(made: str) -> None:
    line = "kept[epoch] = kept.get(epoch, 0) + len(x)"
    conversion = conversion_of(training(made, line, "print(kept)"), options=Options())
    assert "kept.get(epoch, 0) + len(x)) * rt.world_size()" not in conversion.files[0].after.decode()


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("kept[epoch] = len(x)", "kept[epoch] = len(x) * rt.world_size()"),
        ("kept[epoch] = loss.item()", "kept[epoch] = rt.all_reduce_mean(loss.item())"),
    ],
)
def test_what_is_kept_under_a_key_of_all_is_of_all_samples(line: str, after: str) -> None:
    before = training("kept = {}", "pass", "print(kept)")
    before = before.replace("optimizer.step()", f"optimizer.step()\n        {line}")
    conversion = conversion_of(before, options=Options())
    assert f"        {after}\n" in conversion.files[0].after.decode()


@pytest.mark.parametrize(
    "line",
    [
        "kept = {loss} if kept is None else 0.9 * kept + 0.1 * {loss}",
        "kept = 0.9 * kept + 0.1 * {loss} if epoch else {loss}",
    ],
)
def test_a_mean_on_either_way_of_an_expression_is_that_of_all_samples(line: str) -> None:
    line = line.format(loss="loss.item()")
    before = training("kept = None", "pass", "print(kept)").replace(
        "optimizer.step()", f"optimizer.step()\n        {line}"
    )
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    name, value = line.split(" = ")
    assert f"        {name} = rt.all_reduce_mean({value})\n" in conversion.files[0].after.decode()


@pytest.mark.parametrize(
    ("made", "shown", "strategy"),
    [
        ("log = SummaryWriter()", "log.add_histogram('out', model(x), epoch)", Strategy.SHARDED),
        ("log = SummaryWriter()", "log.add_images('given', x.view(-1, 1, 2, 2), epoch)", Strategy.SHARDED),
        ("pass", "torch.save(model(x), f'{epoch}.pt')", Strategy.SHARED),
    ],
)
def test_pictures_beside_the_figures_and_files_of_their_own(made: str, shown: str, strategy: Strategy) -> None:
    before = training(made, shown, "pass").replace("import torch\n", f"import torch\n{TRACKER}", 1)
    assert conversion_of(before, options=Options()).strategy is strategy


@pytest.mark.parametrize(
    "line",
    [
        "mean.mul_(0.9).add_(model(x).detach().mean(0))",
        "mean[:1].mul_(0.9).add_(model(x).detach().mean(0))",
    ],
)
def test_what_is_written_by_way_of_the_tensor_itself_is_seen(line: str) -> None:
    step = "        optimizer.step()\n"
    loop = LOOP.replace(step, f"{step}        {line}\n")
    before = script(setup="mean = torch.zeros(1)\n", loop=f"{loop}print(mean)\n")
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED
