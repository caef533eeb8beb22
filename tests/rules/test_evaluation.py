"""EVAL01: each sample counts once, and the figures are those of all samples; or every rank evaluates everything."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import (
    IMPORTS,
    LOADER,
    SHARDED,
    blocked,
    changes,
    converted,
    distributed,
    findings,
    indented,
    line_of,
    script,
)

OTHER = "other = DataLoader(data, batch_size=16)\n"
UNPADDED = "other = DataLoader(data, batch_size=16, sampler=rt.UnpaddedSampler(data))\n"
SPLIT = "other = DataLoader(data, batch_sampler=rt.ShardedBatchSampler(data, 16))\n"

SUMS = """\
model.eval()
right, seen = 0, 0
with torch.no_grad():
    for x, y in other:
        right += (model(x) > y).sum().item()
        seen += len(x)
print(right / seen)
"""
SUMMED = """\
model.eval()
right, seen = 0, 0
with torch.no_grad():
    for x, y in other:
        right += (model.module(x) > y).sum().item()
        seen += len(x)
right, seen = rt.all_reduce_sum(right, seen)
print(right / seen)
"""
OUTPUTS = """\
model.eval()
guesses = []
with torch.no_grad():
    for x, y in other:
        guess = model(x)
        guesses.append(guess)
print(torch.cat(guesses).mean())
"""
GATHERED = """\
model.eval()
guesses = []
with torch.no_grad():
    for x, y in other:
        guess = model.module(x)
        guess = rt.gather_batch(other, guess)
        guesses.append(guess)
print(torch.cat(guesses).mean())
"""


def evaluating(after: str, other: str = OTHER) -> str:
    return script(loader=LOADER + other, after=after)


def evaluated(after: str, other: str = UNPADDED) -> str:
    return distributed(loader=SHARDED + other, after=after, prints=True)


def past_the_wrap(after: str) -> str:
    return after.replace("model(x", "model.module(x")


def test_sums() -> None:
    assert converted(evaluating(SUMS)) == evaluated(SUMMED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("other = DataLoader(data, 16)\n", "other = DataLoader(data, 16, sampler=rt.UnpaddedSampler(data))\n"),
        ("other = DataLoader(data, 16, False)\n", "other = DataLoader(data, 16, sampler=rt.UnpaddedSampler(data))\n"),
        (
            "other = DataLoader(data, 16, shuffle=False)\n",
            "other = DataLoader(data, 16, sampler=rt.UnpaddedSampler(data))\n",
        ),
        (
            "other = DataLoader(data, 16, shuffle=True)\n",
            "other = DataLoader(data, 16, sampler=rt.UnpaddedSampler(data))\n",
        ),
        (
            "other = DataLoader(\n    data,\n    batch_size=16,  # more\n    num_workers=2,\n)\n",
            "other = DataLoader(\n    data,\n    batch_size=16,  # more\n    num_workers=rt.per_rank_workers(2),\n"
            "    sampler=rt.UnpaddedSampler(data),\n)\n",
        ),
        ("other = DataLoader(data)\n", "other = DataLoader(data, sampler=rt.UnpaddedSampler(data))\n"),
        ("other, n = DataLoader(data, 16), 3\n",
         "other, n = DataLoader(data, 16, sampler=rt.UnpaddedSampler(data)), 3\n"),
        ("options = {'batch_size': 16}\nother = DataLoader(data, **options)\n",
         "options = {'batch_size': 16}\nother = DataLoader(**rt.shard_evaluation(data, **options))\n"),
    ],
)  # fmt: skip
def test_loader_of_sums(before: str, after: str) -> None:
    assert converted(evaluating(SUMS, before)) == evaluated(SUMMED, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    for x, y in other: right += (model(x) > y).sum().item()\n",
         "    for x, y in other: right += (model.module(x) > y).sum().item()\n"),
        ("    for x, y in other:\n        guess = model(x); right += (guess > y).sum().item()\n",
         "    for x, y in other:\n        guess = model.module(x); right += (guess > y).sum().item()\n"),
        ("    for x, y in other:\n        right = right + (model(x) > y).sum().item()\n",
         "    for x, y in other:\n        right = right + (model.module(x) > y).sum().item()\n"),
        ("    for i, (x, y) in enumerate(other):\n        right += (model(x) > y).sum()\n",
         "    for i, (x, y) in enumerate(other):\n        right += (model.module(x) > y).sum()\n"),
        ("    for x, y in other:\n        right += nn.functional.mse_loss(model(x), y, reduction='sum')\n",
         "    for x, y in other:\n        right += nn.functional.mse_loss(model.module(x), y, reduction='sum')\n"),
        ("    for x, y in other:\n        right += nn.functional.mse_loss(model(x), y).item() * len(x)\n",
         "    for x, y in other:\n        right += nn.functional.mse_loss(model.module(x), y).item() * len(x)\n"),
    ],
)  # fmt: skip
def test_spellings_of_a_sum(before: str, after: str) -> None:
    frame = "model.eval()\nright = 0\nwith torch.no_grad():\n{}{}print(right / len(data))\n"
    assert converted(evaluating(frame.format(before, ""))) == evaluated(
        frame.format(after, "right = rt.all_reduce_sum(right)\n")
    )


def test_more_follows_in_the_block() -> None:
    after = SUMMED.replace("right, seen = rt.", "    right, seen = rt.").replace("print(", "    print(")
    assert converted(evaluating(SUMS.replace("print(", "    print("))) == evaluated(after)


def test_in_a_function() -> None:
    own = """\
def accuracy(net, batches):
    net.eval()
    right = 0
    for x, y in batches:
        with torch.no_grad():
            guess = net(x)
        right += (guess > y).sum().item()
    return right / len(batches.dataset)


"""
    new = own.replace("net(x)", "net.module(x)")
    new = new.replace("    return", "    right = rt.all_reduce_sum(right)\n    return")
    before = script(setup=own, loader=LOADER + OTHER, after="print(accuracy(model, other))\n")
    assert converted(before) == distributed(
        setup=new, loader=SHARDED + UNPADDED, after="print(accuracy(model, other))\n", prints=True
    )


def test_outputs_are_gathered() -> None:
    assert converted(evaluating(OUTPUTS)) == evaluated(GATHERED, SPLIT)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("other = DataLoader(data, 16)\n", SPLIT),
        ("other = DataLoader(data, 16, False)\n", SPLIT),
        ("other = DataLoader(data, 16, in_order=False)\n", SPLIT),
        ("other = DataLoader(data, 16, num_workers=0)\n", SPLIT.replace("16))", "16), num_workers=0)")),
        ("other = DataLoader(data, batch_size=16, drop_last=True)\n", SPLIT.replace("16)", "16, drop_last=True)")),
        (
            "other = DataLoader(\n    data,\n    batch_size=16,\n    shuffle=False,\n)\n",
            "other = DataLoader(\n    data,\n    batch_sampler=rt.ShardedBatchSampler(data, 16),\n)\n",
        ),
    ],
)
def test_loader_of_gathered_outputs(before: str, after: str) -> None:
    assert converted(evaluating(OUTPUTS, before)) == evaluated(GATHERED, after)


def test_the_batch_size_of_a_loader_whose_batches_are_put_together() -> None:
    """A loader that is given a batch sampler has none of its own; and what is gathered has the whole batch's rows."""
    kept = "append(guess)\n        places.append(len(guesses) * {}.batch_size)\n"
    before = OUTPUTS.replace("append(guess)\n", kept.format("other"))
    after = GATHERED.replace("append(guess)\n", kept.format("rt.whole_loader(other)"))
    before, after = (one.replace("guesses = []", "guesses, places = [], []") for one in (before, after))
    assert converted(evaluating(before)) == evaluated(after, SPLIT)


@pytest.mark.parametrize("size", ["", ", 1", ", batch_size=1"])
def test_batches_of_one_sample_are_not_split(size: str) -> None:
    """Each rank would compute that one sample, and meet the others for it."""
    before = evaluating(OUTPUTS, f"other = DataLoader(data{size})\n")
    assert "ShardedBatchSampler" not in converted(before)
    [told] = findings("EVAL01", before, Level.ADVICE)
    assert told.message.endswith("each batch has one sample")
    summed = evaluating(SUMS, f"other = DataLoader(data{size})\n")
    assert "UnpaddedSampler" in converted(summed)


def test_sums_of_a_loader_that_drops_samples() -> None:
    """Each rank would drop a tail of its own; what is dropped must be what one process drops."""
    after = converted(evaluating(SUMS, "other = DataLoader(data, batch_size=24, drop_last=True)\n"))
    assert "UnpaddedSampler" not in after
    assert "all_reduce_sum" not in after or "ShardedBatchSampler(data, 24, drop_last=True)" in after


REPLICATED = {
    "mean of batch means": """\
model.eval()
total = 0.0
with torch.no_grad():
    for x, y in other:
        total += nn.functional.mse_loss(model(x), y).item()
print(total / len(other))
""",
    "train mode": SUMS.replace("model.eval()", "model.train()"),
    "mode not seen": SUMS.replace("model.eval()\n", ""),
    "figures in a dictionary": """\
model.eval()
figures = {"right": 0}
with torch.no_grad():
    for x, y in other:
        figures["right"] += (model(x) > y).sum().item()
print(figures)
""",
    "left early": SUMS.replace("        seen += len(x)\n", "        seen += len(x)\n        if seen > 30: break\n"),
    "figures used under way": SUMS.replace("        seen += len(x)\n", "        seen += len(x)\n        print(seen)\n"),
    "does not start at zero": SUMS.replace("right, seen = 0, 0", "right, seen = 1, 0"),
    "product": SUMS.replace("right +=", "right *="),
    "last batch used": SUMS.replace("print(right / seen)", "print(right / seen, y[0])"),
    "number of the batch": SUMS.replace("for x, y in other", "for i, (x, y) in enumerate(other)").replace(
        "seen += len(x)", "seen += i"
    ),
}


@pytest.mark.parametrize("name", REPLICATED)
def test_evaluated_everywhere_where_a_share_would_be_wrong(name: str) -> None:
    """Right, if no faster; and said. Only the wrap is gone past."""
    before = evaluating(REPLICATED[name])
    assert converted(before) == evaluated(past_the_wrap(REPLICATED[name]), OTHER)
    assert findings("EVAL01", before, Level.ADVICE)
    assert changes("EVAL01", before) == []


@pytest.mark.parametrize(
    "line",
    ["guesses = torch.cat([guesses, model(x)])", "guesses = np.concatenate([guesses, model(x).numpy()])"],
)
def test_outputs_that_pile_up(line: str) -> None:
    """Gathered in each turn, what was gathered before would come again."""
    frame = """\
import numpy as np
model.eval()
guesses = torch.zeros(0, 1)
with torch.no_grad():
    for x, y in other:
        {}
print(guesses.mean())
"""
    assert converted(evaluating(frame.format(line))) == evaluated(past_the_wrap(frame.format(line)), OTHER)


def test_one_function_for_training_and_evaluation() -> None:
    """Past the wrap, training would not average gradients; the function must tell the two apart, or a person."""
    own = """\
def run(batches, train):
    model.train(train)
    total = 0.0
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(x)
    return total


"""
    loop = "for epoch in range(3):\n    print(run(loader, True))\n    print(run(other, False))\n"
    before = script(setup=own, loader=LOADER + OTHER, loop=loop)
    if not blocked(before):
        (line,) = [line for line in converted(before).splitlines() if "mse_loss" in line]
        assert "mse_loss(model.module(x)" not in line
        assert "train" in line


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("for x, y in other:\n    print(x.sum())\n", id="no model"),
        pytest.param("spare = nn.Linear(4, 1)\nfor x, y in other:\n    print(spare(x).sum())\n", id="other model"),
        pytest.param("def accuracy(net):\n    for x, y in other:\n        net(x)\n", id="never called"),
        pytest.param("", id="no loop"),
    ],
)
def test_left_alone(after: str) -> None:
    before = evaluating(after)
    assert changes("EVAL01", before) == []
    assert OTHER in converted(before)


def test_each_epoch() -> None:
    inside = "".join(f"    {line}" for line in SUMS.splitlines(keepends=True))
    before = script(loader=LOADER + OTHER, after=inside)
    new = "".join(f"    {line}" for line in SUMMED.splitlines(keepends=True))
    assert converted(before) == distributed(loader=SHARDED + UNPADDED, after=new, prints=True)


@pytest.mark.parametrize(("option", "shares"), [("in_order", 0), ("pin_memory", 1)])
def test_outputs_of_batches_in_another_order_are_not_gathered(option: str, shares: int) -> None:
    other = f"other = DataLoader(data, batch_size=16, **{{'{option}': False}})\n"
    assert converted(evaluating(OUTPUTS, other)).count("rt.gather_batch(") == shares


KEPT = """\
model.eval()
kept = []
with torch.no_grad():
    for x, y in other:
        kept.extend(model(x).argmax(1).tolist())
print(len(kept))
"""


@pytest.mark.parametrize("other", [KEPT, OUTPUTS])
@pytest.mark.parametrize("first", [True, False])
def test_two_loops_over_one_loader_that_need_different_ways(other: str, first: bool) -> None:
    """A loader has one sampler: who does not go by it sees all samples there, and the other loop goes in shares."""
    whole = past_the_wrap(other).replace("in other:", "in rt.whole_loader(other):")
    before, after = (SUMS + other, SUMMED + whole) if first else (other + SUMS, whole + SUMMED)
    assert converted(evaluating(before)) == evaluated(after)


def test_who_evaluates_whole_is_said_of_the_loop_that_does() -> None:
    before = evaluating(SUMS + KEPT)
    [told] = findings("EVAL01", before, Level.ADVICE)
    assert told.place is not None
    assert told.place.line == before.splitlines().index("    for x, y in other:", line_of(before, "kept = []")) + 1
    assert told.message.endswith(f"no faster: line {line_of(before, 'kept.extend')} keeps something of each batch")


@pytest.mark.parametrize(
    ("other", "beside"),
    [
        (OTHER.replace("16", "16, shuffle=True"), ""),  # seen in another order than that of the data set
        (OTHER, "import strange\nstrange.look(other)\n"),
    ],
)
def test_two_loops_of_which_none_can_be_shared_beside_the_other(other: str, beside: str) -> None:
    """Then both are whole, and of the one in which nothing stands in the way it is said which one does."""
    before = evaluating(f"{beside}{SUMS}{KEPT}", other)
    after = converted(before)
    assert "all_reduce_sum" not in after
    assert "UnpaddedSampler" not in after
    keeps = f"line {line_of(before, 'kept.extend')} keeps something of each batch"
    loop = before.splitlines().index("    for x, y in other:", line_of(before, "kept = []")) + 1
    summed, kept = (one.message.partition("no faster: ")[2] for one in findings("EVAL01", before, Level.ADVICE))
    assert summed == f"the loop at train.py:{loop} goes over its loader, too: {keeps}"
    assert keeps in kept


PAIRS = """\
kept = []
with torch.no_grad():
    for (x, y), (z, _) in zip(more, other):
        kept.extend((model(x) - model(z)).tolist())
print(len(kept))
"""


def test_two_loaders_that_one_loop_goes_over_are_both_whole_or_none() -> None:
    after = converted(evaluating(SUMS + PAIRS, OTHER + OTHER.replace("other", "more")))
    assert "UnpaddedSampler" not in after
    assert "all_reduce_sum" not in after


IN_A_FUNCTION = """def evaluate(loader):
    kept = []
    for x, y in loader:
        kept.extend(model(x).argmax(1).tolist())
    return kept


model.eval()
with torch.no_grad():
    print(len(evaluate(other)), len(evaluate(more)))
"""


def test_a_loop_that_sees_all_of_several_loaders_of_which_one_is_dealt_out() -> None:
    more = OTHER.replace("other", "more")
    after = converted(evaluating(SUMS + IN_A_FUNCTION, OTHER + more))
    assert UNPADDED + more in after
    assert "    for x, y in rt.whole_loader(loader):\n" in after


COUNTED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        {count}
        return self.body(x)


model = Net()
"""


def _advice(count: str) -> list[str]:
    source = script(model=COUNTED.format(count=count), loader=LOADER + OTHER, after=SUMS)
    return [one.message for one in findings("EVAL01", source, Level.ADVICE) if "outlasts the batch" in one.message]


def test_what_a_model_counts_while_it_trains_is_nothing_of_the_evaluation() -> None:
    assert not _advice("if self.training:\n            self.calls += 1")


@pytest.mark.parametrize("count", ["self.calls += 1", "if not self.training:\n            self.calls += 1"])
def test_what_a_model_counts_in_an_evaluation_is_counted_of_all_samples(count: str) -> None:
    assert _advice(count)


def test_an_evaluation_without_a_loader_is_not_said_not_to_be() -> None:
    alone = "model.eval()\nwith torch.no_grad():\n    print(model(data.tensors[0]).mean())\n"
    (said,) = findings("EVAL01", script(after=alone), Level.NOT_NEEDED)
    assert said.message.startswith("nothing evaluates on the batches of a loader: every rank evaluates all")
    (said,) = findings("EVAL01", script(), Level.NOT_NEEDED)
    assert said.message.startswith("no evaluation loop")


MADE = """\
def make(rows, shuffle):
    return DataLoader(rows, batch_size=16, shuffle=shuffle)


loader = make(data, True)
"""


def test_one_line_that_makes_both_loaders() -> None:
    """Nothing else keeps the batches from being split: that is said, and not why there are no sums."""
    before = script(loader=f"{MADE}other = make(data, False)\n", after=OUTPUTS)
    line = before.splitlines().index("    return DataLoader(rows, batch_size=16, shuffle=shuffle)") + 1
    assert [one.message for one in findings("EVAL01", before, Level.ADVICE)] == [
        f"every rank evaluates everything, which is right but no faster: line {line} makes the training loader as well"
    ]
    assert converted(evaluating(OUTPUTS)) == evaluated(GATHERED, SPLIT), "with a call of its own"


def test_figures_that_are_kept_are_not_used_while_the_loop_is_under_way() -> None:
    losses = OUTPUTS.replace("guesses.append(guess)", "guesses.append(guess.mean().item())")
    said = findings("EVAL01", evaluating(losses, OTHER.replace("16", "16, shuffle=True")), Level.ADVICE)
    [message] = [one.message for one in said]
    assert "keeps something of each batch" in message
    assert "running figures" not in message


BY_HAND = """\
for turn in range(2):
    with torch.no_grad():
        x, y = next(iter(other))
        print(model(x)[:2])
"""


def test_a_batch_that_is_looked_at_is_taken_by_hand() -> None:
    """That is said where it is taken; what else goes over the loader goes over nothing but loaders."""
    before = evaluating(SUMS + BY_HAND)
    lines = before.splitlines()
    loop, taken = lines.index("    for x, y in other:") + 1, lines.index("        x, y = next(iter(other))") + 1
    right = "every rank evaluates everything, which is right but no faster: "
    assert [(one.place and one.place.line, one.message) for one in findings("EVAL01", before, Level.ADVICE)] == [
        (loop, f"{right}batches of its loader are taken by hand at train.py:{taken}"),
        (taken, f"{right}its batches are taken by hand"),
    ]
    assert changes("EVAL01", before) == []


def test_what_is_no_loader_beside_one_is_said_of_its_loop_alone() -> None:
    before = evaluating(SUMS.replace("other:", "(other if len(data) > 3 else [data[:2]]):") + BY_HAND)
    one, other = (one.message for one in findings("EVAL01", before, Level.ADVICE))
    assert one.endswith(": it also loops over something that is no DataLoader")
    assert other.endswith(": its batches are taken by hand")


def why_all(lines: str) -> tuple[str, str]:
    """Why every rank evaluates everything, with these lines in the loop; and the script."""
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    loop = f"model.eval()\nn, total = 0, 0\nwith torch.no_grad():\n    for x, y in other:\n{body}print(total, n)\n"
    before = script(imports=f"{IMPORTS}import strange\n", loader=LOADER + OTHER, after=loop)
    [message] = [one.message for one in findings("EVAL01", before, Level.ADVICE)]
    return message.partition("no faster: ")[2], before


CHECKED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        if x.dim() != 2:
            raise ValueError(x.shape)
        return self.out(x)


model = Net()
"""


def test_an_error_that_ends_the_run_is_nothing_that_one_rank_does() -> None:
    after = converted(script(loader=LOADER + OTHER, model=CHECKED, after=SUMS))
    assert after.endswith(SUMMED)


@pytest.mark.parametrize("held", ["try", "suppress"])
def test_an_error_that_is_caught_leaves_the_loop_of_one_rank(held: str) -> None:
    opens = "try:\n" if held == "try" else "import contextlib\nwith contextlib.suppress(ValueError):\n"
    after = opens + indented(SUMS) + ("except ValueError:\n    pass\n" if held == "try" else "")
    before = script(loader=LOADER + OTHER, model=CHECKED, after=after)
    [message] = [one.message for one in findings("EVAL01", before, Level.ADVICE)]
    assert f"line {line_of(before, 'raise ValueError')} may leave the loop" in message


@pytest.mark.parametrize(
    ("lines", "part", "why"),
    [
        (
            "total += (model(x) * strange.of(x)).sum()",
            "strange.of",
            "calls `strange.of(x)`, which may do more than compute",
        ),
        ("strange.note(x)\ntotal += model(x).sum()", "note", "calls `strange.note(x)`, which may do more than compute"),
        ("print(n)\ntotal += model(x).sum()", "print(n)", "prints for each batch"),
        ("kept[0] = n\ntotal += model(x).sum()", "kept[0]", "sets something that outlasts the batch"),
        ("if n > 3: break\ntotal += model(x).sum()", "break", "may leave the loop"),
    ],
)
def test_what_an_evaluation_does_is_told_as_it_is(lines: str, part: str, why: str) -> None:
    told, before = why_all(lines)
    assert f"line {line_of(before, part)} {why}" in told
    assert "running figures" not in told


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("mask = torch.ones(len(x), 1)\nmask[y > 0] = 0\ntotal += (model(x) * mask).sum()", False),
        ("total += masked(x, y).sum()", False),
        ("mask = torch.ones(len(x), 1).double().to('cpu')\nmask[y > 0] = 0\ntotal += (model(x) * mask).sum()", False),
        ("mask = y.clone().contiguous()\nmask[y > 0] = 0\ntotal += (model(x) * mask).sum()", False),
        ("rows = {}\nrows['out'] = model(x)\ntotal += rows['out'].sum()", False),
        ("mask = y.contiguous()\nmask[y > 0] = 0\ntotal += (model(x) * mask).sum()", True),
        ("same = kept.to('cpu')\nsame[0] = 1\ntotal += model(x).sum()", True),
        ("same = kept\nsame[0] = 1\ntotal += model(x).sum()", True),
        ("marked(kept)\ntotal += model(x).sum()", True),
    ],
)
def test_what_is_written_into_a_tensor_of_the_turn_is_gone_with_it(lines: str, is_told: bool) -> None:
    body = indented(indented(f"{lines}\n"))
    functions = """
def masked(x, y):
    mask = torch.zeros(len(x), 1)
    mask[y > 0] = 1
    return model(x) * mask


def marked(rows):
    rows[0] = 1


kept = torch.zeros(4)
"""
    loop = f"{functions}model.eval()\ntotal = 0\nwith torch.no_grad():\n    for x, y in other:\n{body}print(total)\n"
    before = script(loader=LOADER + OTHER, after=loop)
    told = [one.message for one in findings("EVAL01", before, Level.ADVICE)]
    assert any("sets something that outlasts the batch" in one for one in told) is is_told
    assert ("all_reduce_sum(total)" in converted(before)) is not is_told


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ("total += listed(x).sum()", False),
        ("rows = []\nrows.append(model(x))\ntotal += rows[0].sum()", False),
        ("rows = kept\nrows.append(n)\ntotal += model(x).sum()", True),
        ("total += model(x).sum()\nlengthened(kept)", True),
    ],
)
def test_a_list_of_the_turn_is_gone_with_it(lines: str, is_told: bool) -> None:
    body = indented(indented(f"{lines}\n"))
    functions = """
def listed(x):
    rows = []
    rows.append(model(x))
    rows.append(x)
    return rows[0]


def lengthened(rows):
    rows.append(1)


kept, n = [], 1
"""
    loop = f"{functions}model.eval()\ntotal = 0\nwith torch.no_grad():\n    for x, y in other:\n{body}print(total)\n"
    before = script(loader=LOADER + OTHER, after=loop)
    told = [one.message for one in findings("EVAL01", before, Level.ADVICE)]
    assert any("keeps something of each batch" in one for one in told) is is_told
    assert ("all_reduce_sum(total)" in converted(before)) is not is_told


def test_a_counter_of_batches_adds_up_what_does_not_depend_on_them() -> None:
    told, before = why_all("n += 1\nout = model(x)\ntotal += out.mean()")
    assert told.startswith(f"`n` adds up what does not depend on the batch (line {line_of(before, 'n += 1')})")


BY_A_FUNCTION = """\
def evaluate(net):
    net.eval()
    right = 0
    with torch.no_grad():
        for x, y in other:
            out = net(x)
            right += (out > y).sum().item()
    return right


print(evaluate(model), evaluate(average.module))
"""


def test_a_model_that_is_not_seen_is_not_said_to_use_running_figures() -> None:
    made = "average = strange.Average(model)\n"
    before = script(imports=f"{IMPORTS}import strange\n", loader=LOADER + OTHER, after=made + BY_A_FUNCTION)
    [message] = [one.message for one in findings("EVAL01", before, Level.ADVICE)]
    called = f"line {line_of(before, 'net(x)')} calls `net(x)`, which may do more than compute"
    assert message.partition("no faster: ")[2].split("; ") == [
        f"`right` adds up a value that cannot be followed (line {line_of(before, 'out > y')})",
        called,
        "`out` is not seen to be one entry per sample",
    ]


ENGINE = """\
class Engine:
    def step(self, x, y):
        model.train()
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    def judge(self, x, y):
        {mode}
        with torch.no_grad():
            return nn.functional.mse_loss(model(x), y, reduction="sum").item()


engine = Engine()
for epoch in range(2):
    for x, y in loader:
        engine.step(x, y)
    total = 0.0
    for x, y in other:
        total += engine.judge(x, y)
    print(total / 64)
"""


@pytest.mark.parametrize(
    ("mode", "is_shared_out"),
    [("model.eval()", True), ("pass", False), ("if epoch: model.eval()", False), ("model.train()", False)],
)
def test_a_mode_that_each_turn_sets_before_its_forward_pass(mode: str, is_shared_out: bool) -> None:
    after = converted(script(loader=LOADER + OTHER, loop=ENGINE.format(mode=mode)))
    assert ("total = rt.all_reduce_sum(total)" in after) is is_shared_out


OF_AUTOGRAD = """\
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        {more}
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient * ctx.scale, None


class Net(nn.Module):
    last = None

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return Reverse.apply(self.layer(x), 0.5)


model = Net()
"""


@pytest.mark.parametrize(("more", "is_shared_out"), [("pass", True), ("Net.last = x", False)])
def test_what_a_function_of_autograd_leaves_for_its_gradient_is_of_one_call(more: str, is_shared_out: bool) -> None:
    before = script(model=OF_AUTOGRAD.format(more=more)) + OTHER + SUMS
    assert (("sampler=rt.UnpaddedSampler(" in converted(before)), not findings("EVAL01", before, Level.ADVICE)) == (
        is_shared_out, is_shared_out
    )  # fmt: skip
