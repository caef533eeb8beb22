"""METRIC01: what is counted sample by sample, in a comprehension or a loop of its own, is a sum over samples."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of, converted, script

SETUP = """\
names = ["cat", "dog", "eel"]


def decode(rows):
    return [names[int(row)] for row in rows]


def found(predicted, labels):
    return sum([1 for p, t in zip(predicted, labels) if p == t])


"""
REDUCED = "seen, right = rt.all_reduce_sum(seen, right)"
BOTH_OR_NONE = "sharded data would be faster, but what is added up here belongs to a figure"


def counting(turn: str, start: str = "seen, right = 0, 0", after: str = "print(right / seen)") -> str:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    return script(
        setup=SETUP,
        loop=f"""\
for epoch in range(3):
    {start}
    for x, y in loader:
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(y)
        best = guess.argmax(1)
{lines}    {after}
""",
    )


@pytest.mark.parametrize(
    "turn",
    [
        "right += sum([1 for p, t in zip(best, y) if p == t])",
        "right = right + sum(1 for p, t in zip(best, y) if p == t)",
        "right += sum(int(p) == int(t) for p, t in zip(best, y))",
        "right += sum(p == t for p, t in zip(best, y))",
        "right += sum(p.item() == t.item() for p, t in zip(best, y))",
        "right += sum(p == t and t != 0 for p, t in zip(best.tolist(), y.tolist()))",
        "right += sum(1 for t in y if t != 0)",
        "right += len([p for p, t in zip(best, y) if p == t])",
        "hits = [int(p == t) for p, t in zip(best, y)]\nright += sum(hits)",
        "right += sum(best[i].item() == y[i].item() for i in range(len(y)))",
        "right += sum(1 for i in range(y.size(0)) if best[i] == y[i])",
        "right += sum(map(lambda p, t: int(p == t), best, y))",
        "right += sum(1 for row, t in zip(guess.topk(2, 1).indices, y) if t in row)",
        "right += sum(t in row for row, t in zip(guess.topk(2, 1).indices.tolist(), y.tolist()))",
        "right += sum(a == b for a, b in zip(decode(best), decode(y.tolist())))",
        "right += found(best, y)",
        "right += sum(abs(float(p) - float(t)) for p, t in zip(guess[:, 0], y))",
        "right += sum(1 for row in guess.tolist() for one in row if one > 0)",
    ],
)
def test_counted_in_a_comprehension(turn: str) -> None:
    assert REDUCED in converted(counting(turn)).replace("right, seen", "seen, right")


@pytest.mark.parametrize(
    "turn",
    [
        "for p, t in zip(best, y):\n    if p == t:\n        right += 1",
        "for p, t in zip(best.tolist(), y.tolist()):\n    right += p == t",
        "for p, t in zip(best, y):\n    right += int(p == t)",
        "for i in range(len(y)):\n    if best[i] == y[i]:\n        right += 1",
        "for i, p in enumerate(best):\n    if p == y[i]:\n        right += 1",
        "for p, t in zip(best, y):\n    same = p == t\n    if not same:\n        continue\n    right += 1",
        "for p, t in zip(best.tolist(), y.tolist()):\n    if names[p] == names[t]:\n        right += 2",
        "for p in best:\n    if p == 1:\n        right += 1\n    else:\n        right += 2",
    ],
)
def test_counted_in_a_loop_through_the_samples(turn: str) -> None:
    assert REDUCED in converted(counting(turn))


@pytest.mark.parametrize(
    "turn",
    [
        "for p, t in zip(best, y):\n    if p == t:\n        right += 1\n        break",  # the first of a rank's own
        "for i, p in enumerate(best):\n    if i < 3:\n        right += 1",  # those at some places
        "for i, p in enumerate(best):\n    right += i",
        "for p in best:\n    if p > best.max():\n        right += 1",  # all of them are asked
        "for p in best:\n    if right < 10:\n        right += 1",
        "known = []\nfor p in best.tolist():\n    if p not in known:\n        known.append(p)\n        right += 1",
        "last = 0\nfor p in best.tolist():\n    if p == last:\n        right += 1\n    last = p",
        "for p in best:\n    if p == 1:\n        right = 0\n    right += 1",
        "for p in best:\n    for q in best:\n        right += 1",  # pairs
        "for i in range(len(y)):\n    for j in range(i):\n        if best[i] == best[j]:\n            right += 1",
        "right += sum(int(p == q) for p in best for q in best)",
        "right += sum(int(best[i] == best[j]) for i in range(len(y)) for j in range(i))",
        "right += len({int(p) for p in best})",  # of two ranks, both may have the same
        "right += sum(1 for i, p in enumerate(best) if i < 3)",
        "right += sum(i * int(p) for i, p in enumerate(best))",
        "right += sum(1 for p in guess[:, 0] if p > guess.mean())",
        "right += unseen([p for p, t in zip(best, y) if p == t])",
    ],
)
def test_what_is_no_sum_leaves_what_it_is_divided_by_alone(turn: str) -> None:
    """All of a ratio is put together over the ranks, or nothing of it: then all see whole batches."""
    conversion = conversion_of(counting(turn), options=Options())
    assert "all_reduce_sum" not in converted(counting(turn), options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert any(BOTH_OR_NONE in one.message for one in conversion.of(Level.ADVICE))


@pytest.mark.parametrize(
    ("start", "turn", "after"),
    [
        ("seen, conf = 0, {0: 0, 1: 0}", "for p in best.tolist():\n    conf[p] += 1", "print(conf[1] / seen)"),
        ("seen, conf = 0, torch.zeros(3)", "for p in best.tolist():\n    conf[p] += 1", "print(conf / seen)"),
        ("seen, kept = 0, []", "kept.append(sum(1 for i, p in enumerate(best) if i < 3))", "print(sum(kept) / seen)"),
    ],
)
def test_counted_in_a_dictionary_or_list_beside_a_number(start: str, turn: str, after: str) -> None:
    text = converted(counting(turn, start, after), options=Options())
    assert "all_reduce_sum" not in text
    assert "whole_batches=True" in text


@pytest.mark.parametrize(
    "turn", ["right += 1", "right += sum([1, 2, 3])", "right += sum(p.numel() for p in model.parameters())"]
)
def test_what_has_nothing_to_do_with_samples_stays_beside_a_sum(turn: str) -> None:
    text = converted(counting(turn))
    assert "seen = rt.all_reduce_sum(seen)" in text
    assert "right = rt" not in text


def test_rows_of_a_form_are_counted_alike_on_all_ranks() -> None:
    text = converted(counting("right += x.size(1)\nfor step in range(3):\n    right += x.shape[1]"))
    assert "seen = rt.all_reduce_sum(seen)" in text


@pytest.mark.parametrize(
    "turn",
    [
        "log.append(sum(int(p == t) for p, t in zip(best, y)))",
        "log.append(sum(one for one in parts(x)))",
        "log.append(best[0].item())",
        "first = float(best[0])\nlog.append(first)",
        "log.append(int(best[0]) + 1)",
    ],
)
def test_one_number_has_no_entries_to_gather(turn: str) -> None:
    text = converted(counting(turn, "seen, log = 0, []", "print(log)"))
    assert "gather_entries" not in text


@pytest.mark.parametrize(
    "loss",
    [
        "sum(nn.functional.mse_loss(one, y, reduction='none') for one in parts(x)).mean()",
        "torch.stack([one * 2 for one in model(x)]).mean()",
        "torch.cat([part for name, part in {'a': model(x), 'b': model(x)}.items() if name != 'c'], 1).mean()",
        "torch.stack([model(x)[i] for i in range(len(y))]).mean()",
        "torch.stack([nn.functional.mse_loss(one, y) for one in parts(x)]).mean()",
    ],
)
def test_losses_of_several_heads_stay_means(loss: str) -> None:
    heads = "heads = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])\n\n\ndef parts(x):\n"
    heads += "    return [head(x) for head in heads]\n\n\n"
    before = script(
        setup=heads,
        loop=f"for epoch in range(3):\n    for x, y in loader:\n        loss = {loss} + model(x).mean()\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n",
    )
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED


EVALUATING = """\
model.eval()
seen, right = 0, 0
with torch.no_grad():
    for x, y in DataLoader(data, batch_size=8):
        best = model(x).argmax(1)
        seen += len(y)
        {turn}
print(right / seen)
"""


@pytest.mark.parametrize(
    ("turn", "shared_out"),
    [
        ("right += sum([1 for p, t in zip(best, y) if p == t])", True),
        ("right += sum(int(p) == int(t) for p, t in zip(best, y))", True),
        ("right += len([p for p, t in zip(best, y) if p == t])", True),
        ("right += len({int(p) for p in best})", False),
        ("right += sum(1 for i, p in enumerate(best) if i < 3)", False),
    ],
)
def test_in_an_evaluation(turn: str, shared_out: bool) -> None:
    before = script(setup=SETUP) + EVALUATING.format(turn=turn)
    text = converted(before)
    assert ("rt.all_reduce_sum(seen, right)" in text) is shared_out
    assert "rt.all_reduce_sum(seen)" not in text


KEPT = "class Kept:\n    n = 0\n\n\nkept = Kept()\n"


def test_counted_under_an_attribute() -> None:
    text = counting("for p in best:\n    kept.n += 1", after="print(kept.n)").replace(SETUP, SETUP + KEPT)
    assert "print(rt.all_reduce_sum(kept.n))" in converted(text)


def test_counted_under_a_key() -> None:
    text = counting("for p in best:\n    kept['n'] += 1", "kept = {'n': 0}", "print(kept['n'])")
    assert "print(rt.all_reduce_sum(kept['n']))" in converted(text)


def test_an_attribute_that_counts_batches() -> None:
    text = counting("kept.n += 1", "seen = 0", "print(kept.n)").replace(SETUP, SETUP + KEPT)
    assert "print(kept.n)" in converted(text, options=Options())
