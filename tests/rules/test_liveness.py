"""What the last batch of a loop leaves in a name: where something reads it, it must be that of one process."""

from __future__ import annotations

import pytest

from tests.rules.scripts import LOADER, converted, indented, script

TRAINING = """\
model.train()
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
EVALUATION = """\
model.eval()
right, seen = 0, 0
with torch.no_grad():
    for x, y in other:
        guess = model(x)
        right += (guess > y).sum().item()
        seen += len(x)
"""
SUMMED = "right, seen = rt.all_reduce_sum(right, seen)\n"


def epochs(
    head: str = "",
    tail: str = "",
    before: str = "",
    loop: str = "for epoch in range(3):\n",
    evaluation: str = EVALUATION,
) -> str:
    """A script that evaluates in each epoch. `head` and `tail`: what an epoch begins and ends with."""
    body = indented(f"{head}{TRAINING}{evaluation}{tail}print(right / seen)\n")
    other = "other = DataLoader(data, batch_size=16)\n"
    return script(loader=LOADER + other, loop=f"{before}guess = None\n{loop}{body}")


READ = {
    "after the loop": epochs(tail="print(guess)\n"),
    "at the head of the next epoch": epochs("if guess is not None:\n    print(guess.mean())\n"),
    "in a while": epochs("print(guess)\n", loop="while not stop():\n", before="from conditions import stop\n"),
    "in the test of a while": epochs(loop="while guess is None or guess.mean() > 0.1:\n"),
    "in a loop before it": epochs("for number in range(3):\n    print(guess, number)\n"),
    "in a comprehension": epochs("if epoch:\n    print([float(one) for one in guess])\n"),
    "of one iterated over what it reads": epochs("print([epoch for number in range(2) if guess is not None])\n"),
    "in an arm for what fails": epochs("try:\n    check()\nexcept ValueError:\n    print(guess)\n",
                                       before="from checks import check\n"),
    "on the way out": epochs("try:\n    check()\nfinally:\n    print(guess)\n", before="from checks import check\n"),
    "by a function above": epochs("report()\n", before="def report():\n    print(guess)\n\n\n"),
    "by a function in a function": epochs(
        "report()\n", before="def report():\n    def tell():\n        print(guess)\n\n    tell()\n\n\n"
    ),
    "by a lambda": epochs("report()\n", before="report = lambda: print(guess)\n"),
    "by a method": epochs("Report().tell()\n", before="class Report:\n    def tell(self):\n        print(guess)\n\n\n"),
    "by all names": epochs("print(locals())\n"),
    "bound anew on some ways": epochs(tail="if epoch == 1:\n    guess = None\nprint(guess)\n"),
    "bound anew in a loop": epochs(tail="for guess in range(epoch):\n    pass\nprint(guess)\n"),
    "bound anew, if nothing fails": epochs(tail="try:\n    guess = check()\nexcept E:\n    pass\nprint(guess)\n",
                                           before="from checks import E, check\n"),
    "where a constant turns it off": epochs("if LOUD:\n    print(guess)\n", before="LOUD = False\n"),
    "after `del` of another": epochs("print(guess)\n", tail="del loss\n"),
}  # fmt: skip
NOT_READ = {
    "nowhere": epochs(),
    "before it is begun": script(
        loader=LOADER + "other = DataLoader(data, batch_size=16)\n", loop=TRAINING,
        after=f"guess = None\nprint(guess)\n{EVALUATION}print(right / seen)\n",
    ),
    "deleted": epochs(tail="del guess\n"),
    "bound anew at the head": epochs("guess = None\nprint(guess)\n"),
    "bound anew on all ways": epochs(
        tail="if epoch == 1:\n    guess = None\nelse:\n    guess = 1\nprint(guess)\n"
    ),
    "bound by a loop": epochs(tail="for guess in range(3):\n    print(guess)\n"),
    "bound by `with`": epochs("with open('log') as guess:\n    print(guess.read())\n"),
    "bound by `except`": epochs("try:\n    check()\nexcept ValueError as guess:\n    print(guess)\n",
                                before="from checks import check\n"),
    "another one, of a comprehension": epochs("print([guess for guess in range(3)])\n"),
    "another one, of a lambda": epochs("print(sorted([2, 1], key=lambda guess: -guess))\n"),
    "another one, of a function": epochs("report(1)\n", before="def report(guess):\n    print(guess)\n\n\n"),
    "a local one, of a function": epochs(
        "report()\n", before="def report():\n    guess = 1\n    print(guess)\n\n\n"
    ),
    "an attribute": epochs("print(args.guess)\n", before="from options import args\n"),
    "a keyword": epochs("print(dict(guess=1))\n"),
    "an entry of a dictionary": epochs("print({'guess': 1}['guess'])\n"),
    "in the loop itself, after it is bound": epochs(
        evaluation=EVALUATION.replace("        seen", "        wrong = (guess <= y).sum().item()\n        seen")
    ),
    "in the other arm": script(
        loader=LOADER + "other = DataLoader(data, batch_size=16)\n", loop=TRAINING,
        after="from options import args\n\nguess = None\nif args.test:\n"
        + indented(EVALUATION + "print(right / seen)\n") + "else:\n    print(guess)\n",
    ),
    "functions of the file that are given it": epochs("report(1)\n", before="def report(a):\n    print(a)\n\n\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_of_the_last_batch_of_all(name: str) -> None:
    """Each rank has the whole of it, or all evaluate everything: its own half of the data would give another."""
    assert SUMMED.strip() not in converted(READ[name])


@pytest.mark.parametrize("name", NOT_READ)
def test_what_nothing_reads_may_be_of_a_rank_alone(name: str) -> None:
    assert SUMMED.strip() in converted(NOT_READ[name])


START = "right, seen = 0, 0\n"
STARTS_AT_ZERO = {
    "above": epochs(),
    "above a branch": epochs(evaluation=START + "if epoch:\n" + indented(EVALUATION)).replace(
        indented(START, " " * 8), ""
    ),
    "in both arms": epochs(evaluation=EVALUATION.replace(START, f"if epoch:\n    {START}else:\n    {START}")),
    "after it was something else": epochs(evaluation="right, seen = 1, 1\n" + EVALUATION),
}
DOES_NOT = {
    "in one arm": epochs(evaluation="right, seen = 1, 1\n" + EVALUATION.replace(START, f"if epoch:\n    {START}")),
    "once for all epochs": epochs(before=START, evaluation=EVALUATION.replace(START, "")),
    "added to by a loop before": epochs(evaluation=EVALUATION + EVALUATION.replace(START, "")).replace(
        "print(right / seen)", "print(right)"
    ),
    "unless it fails": epochs(
        before="from checks import check\n",
        evaluation="right, seen = 1, 1\ntry:\n    check()\n    right, seen = 0, 0\nexcept ValueError:\n    pass\n"
        + EVALUATION.replace(START, ""),
    ),
    "by a function that is given it, on one way": epochs(
        before="right, seen = 1, 1\n\n\ndef evaluate(first):\n    global right, seen\n    if first:\n    "
        + indented(START + EVALUATION.replace(START, ""))
        + "\n\n",
        evaluation="evaluate(epoch == 0)\n",
    ),
    "set by a function": epochs(
        before="def start():\n    global right\n    right = 1\n\n\n",
        evaluation=EVALUATION.replace(START, START + "start()\n"),
    ),
}


@pytest.mark.parametrize("name", STARTS_AT_ZERO)
def test_a_sum_from_zero_on_all_ways(name: str) -> None:
    assert SUMMED.strip() in converted(STARTS_AT_ZERO[name])


@pytest.mark.parametrize("name", DOES_NOT)
def test_a_sum_that_may_begin_with_something_else(name: str) -> None:
    assert SUMMED.strip() not in converted(DOES_NOT[name])
