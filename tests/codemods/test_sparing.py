"""A program too large to follow each call of it: forward passes are shared, by what a few calls of a kind do."""

from __future__ import annotations

import pytest
from distify_codemods import Conversion, Level, Outcome, SourceFile, convert
from distify_codemods.interpreter import machine, sparing
from distify_codemods.results import Options

from tests.rules.scripts import (
    DATA,
    IMPORTS,
    LOADER,
    LOOP,
    OPTIMIZER,
    RUNTIME,
    WHOLE_GROUP,
    conversion_of,
    converted,
    resolver_of,
)

TOO_LARGE = "the program is too large to be followed to its end"
AUTO = Options()
#: Each layer calls two of the next kind: 2 ** 9 calls of the last one in a forward pass.
DEEP = (
    "".join(
        f"""
class Layer{n}(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.one = Layer{n + 1}(size + 1)
        self.two = Layer{n + 1}(size + 2)

    def forward(self, x):
        return self.one(x) + self.two(x)

"""
        for n in range(9)
    )
    + """
class Layer9(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)

"""
)
NET = "model = Layer0(1)\n"
SAVED = """\
def save(part, name):
    torch.save(part.state_dict(), name)


"""


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_STATEMENTS", 1_500)


def large(setup: str = "", model: str = NET, optimizer: str = OPTIMIZER, loop: str = LOOP, after: str = "") -> str:
    return f"{IMPORTS}{DEEP}{setup}{DATA}{LOADER}{model}{optimizer}{loop}{after}"


def advice(conversion: Conversion) -> list[str]:
    return [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]


def test_forward_passes_are_shared() -> None:
    expected = large(setup=WHOLE_GROUP, model=f"{NET}rt.data_parallel(model)\n").replace(IMPORTS, IMPORTS + RUNTIME, 1)
    assert converted(large(), AUTO).replace("\n\nrt.init", "\nrt.init") == expected.replace("\n\nrt.init", "\nrt.init")


def test_what_was_not_followed_is_said() -> None:
    conversion = conversion_of(large(), options=AUTO)
    [told] = advice(conversion)
    assert told.startswith("the program is too large to follow each call: of calls that look alike the first 3 were")
    assert "most of them of `" in told
    assert told.endswith("what only those would do was not seen")


@pytest.mark.parametrize(("model", "runs"), [(NET, 2), ("model = nn.DataParallel(Layer0(1))\n", 3)])
def test_what_is_too_large_is_followed_no_more_often_than_it_has_to_be(model: str, runs: int) -> None:
    """To the limit, and sparingly; with what nn.DataParallel wraps taken out of it only where there is such a wrap."""
    followed: list[int] = []
    conversion = convert(SourceFile("train.py", large(model=model).encode()), resolver_of({}), AUTO, followed.append)
    assert conversion.outcome is Outcome.CONVERTED
    assert len(followed) == runs


#: A function inside of a model that is called with thirty words, each of which makes a kind of its own.
WORDS = """
class Worded(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Layer0(1)

    def forward(self, x):
CALLS
        return self.body(x)


def scaled(x, how):
    return x * 2 if how == "twice" else x


model = Worded()
""".replace("CALLS", "\n".join(f"        x = scaled(x, 'word {number}')" for number in range(30)))


def test_a_function_inside_of_a_model_is_followed_so_often_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With arguments of whatever kinds; the text is the same."""
    found = []
    for most in (1_000, 10):
        monkeypatch.setattr(sparing, "TIMES_IN_ALL", most)
        conversion = conversion_of(large(model=WORDS), options=AUTO)
        [told] = advice(conversion)
        found.append((conversion.files[0].after, int(told.partition("most), and ")[2].split(" ")[0].replace(",", ""))))
    (text, before), (bounded, after) = found
    assert bounded == text
    assert after - before >= 20


def test_a_program_that_is_followed_to_its_end_says_nothing_of_it() -> None:
    small = large().replace(DEEP, DEEP.replace("self.one(x) + self.two(x)", "x")).replace(NET, "model = Layer9(1)\n")
    conversion = conversion_of(small, options=AUTO)
    assert conversion.outcome is Outcome.CONVERTED
    assert not advice(conversion)


@pytest.mark.parametrize("scale", ["global", "linear"])
def test_sharded_data_are_declined(scale: str) -> None:
    conversion = conversion_of(large(), options=Options(strategy="sharded", scale=scale))
    assert [one.message for one in conversion.of(Level.BLOCKING)] == [TOO_LARGE]
    assert not conversion.files


def test_sharded_data_need_a_person_in_a_partial_conversion() -> None:
    conversion = conversion_of(large(), partial=True, options=Options(strategy="sharded"))
    assert TOO_LARGE in [one.message for one in conversion.of(Level.BLOCKING)]


def test_a_program_of_which_not_even_a_few_calls_can_be_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_STATEMENTS", 60)
    monkeypatch.setattr(machine, "MOST_SPARINGLY", 60)
    conversion = conversion_of(large(), options=AUTO)
    assert conversion.outcome is Outcome.REFUSED
    assert not conversion.files


CHECKED = " where the run's check finds that they can be; it says so where they cannot"


def test_each_model_that_a_function_is_given_is_shared() -> None:
    """They look alike, but what training does with each is another thing."""
    names = ("one", "two", "three", "four", "five")
    made = "".join(f"{name} = Layer0(1)\n" for name in names)
    setup = "def loss_of(net, x, y):\n    return nn.functional.mse_loss(net(x), y)\n\n\n"
    losses = " + ".join(f"loss_of({name}, x, y)" for name in names)
    given = " + ".join(f"list({name}.parameters())" for name in names)
    text = large(
        setup, made, OPTIMIZER.replace("model.parameters()", given),
        LOOP.replace("nn.functional.mse_loss(model(x), y)", losses),
    )  # fmt: skip
    applied = conversion_of(text, options=AUTO).of(Level.APPLIED)
    assert [one.message for one in applied if one.code == "SHARE01"] == [
        f"forward passes of `{name}` are shared{CHECKED}" for name in names
    ]


def test_a_flag_that_turns_training_on_is_not_passed_over() -> None:
    setup = (
        "def turn(net, x, y, train):\n    loss = nn.functional.mse_loss(net(x), y)\n    if train:\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n\n\n"
    )
    before = "for x, y in loader:\n" + "".join(f"    turn(model, x, y, False)  # {n}\n" for n in range(6))
    loop = f"{before}for epoch in range(3):\n    for x, y in loader:\n        turn(model, x, y, True)\n"
    assert "rt.data_parallel(model)\n" in converted(large(setup, loop=loop), AUTO)


def test_files_are_written_once_whichever_call_writes_them() -> None:
    after = "".join(f'save(model, "{n}.pt")\n' for n in range(6))
    text = converted(large(SAVED, after=after), AUTO)
    assert "def save(part, name):\n    if rt.is_main_process():\n        torch.save(part.state_dict(), name)\n" in text


def test_branches_are_not_decided_by_the_sizes_of_other_calls() -> None:
    """Of objects that were not followed, the numbers are not known."""
    net = DEEP.replace(
        "        self.layer = nn.Linear(4, 1)\n", "        self.layer = nn.Linear(4, 1)\n        self.n = size\n"
    )
    loop = LOOP.replace(
        "        optimizer.step()\n",
        "        optimizer.step()\n        if model.two.two.two.two.two.two.two.two.two.n == 19:\n"
        '            torch.save(model.state_dict(), "a.pt")\n',
    )
    text = converted(large(loop=loop).replace(DEEP, net), AUTO)
    assert "rt.is_main_process()" in text


#: The last of these functions ends the program where something is wrong, as argument checks do: 2 ** 9 calls of it.
CHECKS = "import sys\n\n\n" + "".join(
    f"def check{n}(size):\n    check{n + 1}(size)\n    check{n + 1}(size)\n\n\n" for n in range(9)
)
CHECKS += 'def check9(size):\n    if size < 0:\n        sys.exit("no size")\n\n\n'


def test_a_check_that_may_end_the_program_is_not_followed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_SPARINGLY", 1_500)
    conversion = conversion_of(large(CHECKS, after="check0(len(data))\ncheck0(4)\n"), options=AUTO)
    assert conversion.outcome is Outcome.CONVERTED, [one.message for one in conversion.of(Level.BLOCKING)]
    assert advice(conversion)


@pytest.mark.parametrize("test", ["time.time() - begun > 3600", 'os.path.exists("stop")'])
def test_a_call_that_ends_the_program_is_followed_where_ranks_may_part(test: str) -> None:
    """All ranks must end together, however often the function was followed before: rank 0 tells them."""
    setup = "import os\nimport sys\nimport time\n\n\ndef stop(code=1):\n    sys.exit(code)\n\n\nbegun = time.time()\n"
    often = "".join(f"if len(sys.argv) > {number}:\n    stop({number})\n" for number in range(5))
    text = converted(large(setup + often, loop=f"{LOOP}    if {test}:\n        stop()\n"), AUTO)
    assert f"if rt.from_main_process({test}):\n" in text
