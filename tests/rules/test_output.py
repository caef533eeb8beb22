"""OUT01: one rank speaks."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Strategy
from distify_codemods.results import Options

from tests.rules.scripts import (
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    OPTIMIZER,
    PRINT,
    changes,
    conversion_of,
    converted,
    distributed,
    findings,
    script,
)

ON_MAIN = "if rt.is_main_process():\n"


@pytest.mark.parametrize(
    "after",
    [
        'print("done")\n',
        "print('a', 'b', sep='')\n",
        'if True: print("done")\n',
        'print("a"); print("b")\n',
        "print()\n",
        "def show():\n    print('done')\n\n\nshow()\n",
        "log = print\nlog('done')\n",
        "list(map(print, [1, 2]))\n",
        "import sys\nprint('done', file=sys.stderr, flush=True)\n",
    ],
)
def test_print_becomes_rank_zeros(after: str) -> None:
    """One import; no line that prints changes."""
    assert converted(script(after=after)) == distributed(after=after, prints=True)


def test_import_stands_with_the_others() -> None:
    after = converted(script(after="print(1)\n"))
    assert after.count(PRINT) == 1
    assert after.index("import distify_runtime as rt\n") < after.index(PRINT) < after.index("\n\n")


@pytest.mark.parametrize(
    "lines",
    ['print("here")\n', 'print("a"); print("b")\n', 'size = print("a")\n'],
)
@pytest.mark.parametrize("head", ["", "import os\n", '"""What it does."""\nfrom __future__ import annotations\n'])
def test_what_is_printed_between_imports_is_rank_zeros(head: str, lines: str) -> None:
    after = converted(script(imports=f"{head}{lines}{IMPORTS}"))
    first = lines.splitlines(keepends=True)[0]
    assert f"{PRINT}{first}" in after
    assert after == distributed(imports=f"{head}{lines}{IMPORTS}").replace(first, PRINT + first, 1)


def test_what_an_optional_import_prints_is_rank_zeros() -> None:
    tried = 'try:\n    import nowhere_to_be_found\nexcept ImportError:\n    print("not installed")\n'
    after = converted(script(imports=IMPORTS + tried))
    assert f"{PRINT}{tried}" in after
    assert after.count(PRINT) == 1


def test_an_environment_is_set_before_torch_is_imported() -> None:
    imports = f'import os\nprint("here")\nos.environ["OMP_NUM_THREADS"] = "1"\n{IMPORTS}'
    before = script(imports=imports, after="print(1)\n")
    assert converted(before) == distributed(imports=imports, after="print(1)\n", prints=True)
    advice = [str(one.place) for one in findings("OUT01", before, Level.ADVICE)]
    applied = [str(one.place) for one in findings("OUT01", before, Level.APPLIED)]
    assert (advice, applied) == (["train.py:2"], [f"train.py:{len(before.splitlines())}"])


@pytest.mark.parametrize(
    "imports", [f'import torch\n{IMPORTS}print("here")\n', f'{IMPORTS}if True:\n    print("a")\nimport os\n']
)
def test_what_is_printed_behind_the_imports_moves_nothing(imports: str) -> None:
    after = converted(script(imports=imports))
    assert f"import distify_runtime as rt\n{PRINT}" in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('sys.stdout.write("x")\n', f'{ON_MAIN}    sys.stdout.write("x")\n'),
        ('sys.stdout.write("x"); sys.stdout.flush()\n', f'{ON_MAIN}    sys.stdout.write("x")\nsys.stdout.flush()\n'),
        ('if True: sys.stdout.write("x")\n', f'if True:\n    {ON_MAIN}        sys.stdout.write("x")\n'),
        ('sys.stderr.write("x")\nsys.stderr.write("y")\n',
         f'{ON_MAIN}    sys.stderr.write("x")\n    sys.stderr.write("y")\n'),
        ("pprint.pprint({})\n", f"{ON_MAIN}    pprint.pprint({{}})\n"),
    ],
)  # fmt: skip
def test_streams(before: str, after: str) -> None:
    imports = f"import pprint\nimport sys\n{IMPORTS}"
    assert converted(script(imports=imports, after=before)) == distributed(imports=imports, after=after)


def test_stream_under_its_own_name() -> None:
    imports = f"from sys import stdout as out\n{IMPORTS}"
    after = f'{ON_MAIN}    out.write("x")\n'
    assert converted(script(imports=imports, after='out.write("x")\n')) == distributed(imports=imports, after=after)


def test_number_of_characters_is_used() -> None:
    imports = f"import sys\n{IMPORTS}"
    before = script(imports=imports, after='size = sys.stdout.write("x")\n')
    assert converted(before) == distributed(imports=imports, after='size = sys.stdout.write("x")\n')
    assert findings("OUT01", before, Level.ADVICE)


def test_the_figure_of_the_last_batch_is_that_of_all_ranks() -> None:
    before = script(loop=f"{LOOP}    print(loss.item())\n")
    assert "    print(rt.all_reduce_mean(loss.item()))\n" in converted(before)
    assert not findings("OUT01", before, Level.ADVICE)
    assert not findings("OUT01", script(after="print('done')\n"), Level.ADVICE)


@pytest.mark.parametrize(
    "own",
    [
        "def print(*given):\n    pass\n\n\n",
        "class print:\n    def __init__(self, *given): pass\n\n\n",
        "from rich import print\n",
        "print = lambda *given: None\n",
    ],
)
def test_print_of_the_scripts_own(own: str) -> None:
    """Ours must not take its name, nor be taken for it."""
    after = converted(script(setup=own, after='print("done")\n'))
    assert PRINT not in after
    assert own in after.replace(GROUP, "")


def test_parameter_named_print() -> None:
    own = "def show(print):\n    print('done')\n\n\nshow(lambda text: text)\n"
    after = converted(script(after=own))
    assert after.replace(PRINT, "") == distributed(after=own)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("text = 'print(1)'\n", id="text"),
        pytest.param("class Page:\n    def print(self): pass\n\n\nPage().print()\n", id="own method"),
        pytest.param("class Out:\n    def write(self, text): pass\n\n\nOut().write('x')\n", id="own stream"),
    ],
)
def test_left_alone(after: str) -> None:
    before = script(after=after)
    assert changes("OUT01", before) == []
    assert converted(before) == distributed(after=after)


def test_silent_script() -> None:
    assert PRINT not in converted(script())


SHARE = "printed here for rank 0's share of the batch alone: "
TOO_SMALL = "it is as many times too small as there are ranks"
ADDED_UP = """\
        correct = (model(x).detach() > y).sum().item()
        running += loss.item() * len(x)
        means += loss.item()
        {line}
"""


def counting(line: str, imports: str = "") -> str:
    loop = LOOP + ADDED_UP.replace("{line}", line.replace("\n", "\n        "))
    return script(imports=imports + IMPORTS, setup="batch_size, running, means = 8, 0.0, 0.0\n", loop=loop)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("print(correct / float(batch_size))", "print(rt.all_reduce_sum(correct) / float(batch_size))"),
        ("print(f'{100 * correct / 8:.1f}')", "print(f'{100 * rt.all_reduce_sum(correct) / 8:.1f}')"),
        ("print(correct * 100 // batch_size)", "print(rt.all_reduce_sum(correct) * 100 // batch_size)"),
        ("print(running / 64)", "print(rt.all_reduce_sum(running) / 64)"),
        ("acc = correct / batch_size\nprint(acc)", "acc = correct / batch_size\nprint(rt.all_reduce_sum(acc))"),
        (
            "acc = correct / batch_size * 100\nprint(acc)",
            "acc = correct / batch_size * 100\nprint(rt.all_reduce_sum(acc))",
        ),
        (
            "print('%f %f' % (loss.item(), correct / batch_size))",
            "global_loss, global_correct = rt.all_reduce_sum(loss.item() / rt.world_size(), correct)\n"
            "print('%f %f' % (global_loss, global_correct / batch_size))",
        ),
        (
            "if epoch % 2 == 1:\n    print(correct / batch_size)",
            "if epoch % 2 == 1:\n    print(rt.all_reduce_sum(correct) / batch_size)",
        ),
    ],
)
def test_counts_divided_by_what_is_of_the_whole_batch_are_added_up(line: str, after: str) -> None:
    before = counting(line)
    assert after.replace("\n", "\n        ") in converted(before, options=Options())
    told = [one.message for one in findings("OUT01", before, Level.ADVICE)]
    assert not [one for one in told if one.startswith(SHARE) or TOO_SMALL in one]


@pytest.mark.parametrize(
    "line",
    [
        "print(x.max())",
        "print(torch.quantile(x, 0.5))",
        "y[0] > 0 and print(correct)",
    ],
)
def test_other_figures_of_a_batch_stay_those_of_rank_0(line: str) -> None:
    before = counting(line)
    assert f"        {line}\n".replace("\n    ", "\n            ") in converted(before, options=Options())
    (told,) = [one.message for one in findings("OUT01", before, Level.ADVICE)]
    assert told.startswith(SHARE)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("print(loss.item() ** 2)", "print(rt.all_reduce_mean(loss.item()) ** 2)"),
        ("print(correct)", "print(rt.all_reduce_sum(correct))"),
        ("print(loss.item() / 2)", "print(rt.all_reduce_mean(loss.item() / 2))"),
        ("print(means / 10)", "print(rt.all_reduce_mean(means / 10))"),
        ("print(epoch / 3, len(x) / 8)", "print(epoch / 3, rt.all_reduce_sum(len(x)) / 8)"),
        ("print(round(loss.item(), 3))", "print(round(rt.all_reduce_mean(loss.item()), 3))"),
        ("logging.info('%f', loss.item())", "logging.info('%f', rt.all_reduce_mean(loss.item()))"),
        ("text = f'{loss:.3f}'\nprint(text)", "text = f'{rt.all_reduce_mean(loss):.3f}'\nprint(text)"),
        (
            "text = f'{epoch}'\ntext += ' %f' % loss\nprint(text, file=log)",
            "text = f'{epoch}'\ntext += ' %f' % rt.all_reduce_mean(loss)\nprint(text, file=log)",
        ),
        (
            "told = {'loss': loss.item(), 'epoch': epoch}\nprint(told)",
            "told = {'loss': rt.all_reduce_mean(loss.item()), 'epoch': epoch}\nprint(told)",
        ),
    ],
)
def test_means_and_counts_that_are_shown_are_those_of_all_ranks(line: str, after: str) -> None:
    before = counting(line, "import logging\nlog = open('log.txt', 'w')\n")
    assert after.replace("\n", "\n        ") in converted(before, options=Options())
    assert not findings("OUT01", before, Level.ADVICE)


@pytest.mark.parametrize("line", ["told = {'loss': loss}\nprint(told)\ntold['loss'].backward()"])
def test_what_training_goes_on_with_is_not_put_together(line: str) -> None:
    loop = LOOP.replace("        loss.backward()\n", "".join(f"        {one}\n" for one in line.split("\n")))
    assert "all_reduce_mean" not in converted(script(loop=loop))
    assert findings("OUT01", script(loop=loop), Level.ADVICE)


@pytest.mark.parametrize(
    ("line", "imports"),
    [
        ("y[0] > 0 and print(correct / batch_size)", ""),  # not all ranks come there
        ("y[0] > 0 and logging.info('%f', correct / batch_size)", "import logging\n"),
    ],
)
def test_a_ratio_that_is_too_small_is_told(line: str, imports: str) -> None:
    before = counting(line, imports)
    assert line in converted(before, options=Options())
    told = [one.message for one in findings("OUT01", before, Level.ADVICE)]
    assert len([one for one in told if TOO_SMALL in one]) == 1


@pytest.mark.parametrize(
    "line",
    [
        "for k in range(3):\n    if (y > k).sum() == 0:\n        continue\n    print((y > k).sum().item() / 8)",
        "y[0] > 0 and print(correct / batch_size)",
        "shown = [print(correct / batch_size) for _ in range(int(y[0] > 0))]",
        "for k in range(3):\n    if (y > k).sum() == 0:\n        break\n    print(correct / batch_size)",
    ],
)
def test_where_some_ranks_pass_over_it_nothing_is_added_up(line: str) -> None:
    """The others would wait for them."""
    assert line.replace("\n", "\n        ") in converted(counting(line), options=Options())


def test_a_size_that_is_divided_where_it_is_defined_divides_no_figure_of_all() -> None:
    loop = LOOP.replace("loss = ", "x = x + torch.randn(batch_size, 4)\n        loss = ")
    loader = LOADER.replace("batch_size=8", "batch_size=batch_size")
    parts = {"setup": "batch_size = 8\n", "loader": loader}
    assert conversion_of(script(loop=loop, **parts), options=Options()).strategy is Strategy.SHARDED
    shown = "        print((model(x).detach() > y).sum().item() / batch_size)\n"
    assert conversion_of(script(loop=loop + shown, **parts), options=Options()).strategy is Strategy.SHARED


def test_a_ratio_after_the_loop_is_added_up_once() -> None:
    loop = LOOP.replace("    for x, y", "    correct = 0\n    for x, y")
    loop += "        correct += (model(x).detach() > y).sum().item()\n    print(correct / 64)\n"
    text = converted(script(loop=loop), options=Options())
    assert "    correct = rt.all_reduce_sum(correct)\n    print(correct / 64)\n" in text


COUNTED = (
    "`step * len(x)` counts the samples of rank 0's shares alone: all ranks together have done as many times that as "
    "there are ranks"
)


def told(line: str, strategy: str = "sharded") -> list[str]:
    loop = LOOP.replace("for x, y in loader", "for step, (x, y) in enumerate(loader)") + f"        {line}\n"
    conversion = conversion_of(script(loop=loop), options=Options(strategy=strategy))
    return [one.message for one in conversion.of(Level.ADVICE) if one.code == "OUT01"]


@pytest.mark.parametrize(
    "line",
    [
        'print(f"{step * len(x)} done")',
        'print(f"{step * len(x)}/{len(data)} " f"({step}) {loss.item()}")',
        'print("%d: %f" % (step * len(x), loss.item()))',
        'print("{} of {}".format(step * len(x), len(data)))',
    ],
)
def test_samples_that_are_counted_are_said_to_be_rank_zeros(line: str) -> None:
    under = f"y[0] > 0 and {line}"  # not all ranks come there
    assert told(under)[1:] == [COUNTED]
    assert told(line) == told(under, "shared") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("print(x.max(), step)", [f"{SHARE}`x`"]),
        ('print("step", step * 8)', []),
        ('print(f"{epoch} " f"{step}")', []),
        ("size = step * len(x)", []),
    ],
)
def test_what_counts_no_samples(line: str, said: list[str]) -> None:
    assert told(line) == said


def test_a_batch_that_is_looked_at_before_training_is_whole() -> None:
    look = "model(next(iter(loader))[0]).shape"
    assert "print(model.module(next(iter(rt.whole_loader(loader)))[0]).shape)" in converted(
        script(loop=f"print({look})\n{LOOP}")
    )
    before = script(optimizer=f"{OPTIMIZER}print({look})\n", loop=f"{LOOP}        print(x.max())\n")
    (one,) = [one for one in conversion_of(before).of(Level.ADVICE) if one.message.startswith(SHARE)]
    assert one.place is not None
    assert "print(x.max" in before.splitlines()[one.place.line - 1]


def test_a_figure_that_a_class_holds() -> None:
    lines = "    @classmethod\n    def see(cls, value):\n        cls.loss = max(cls.loss, value)\n"
    loop = LOOP + "        Best.see(loss.item())\nprint(Best.loss)\n"
    before = script(imports=f"{IMPORTS}\nclass Best:\n    loss = 0.0\n\n{lines}\n", loop=loop)
    assert "        cls.loss = max(cls.loss, rt.all_reduce_mean(value))\n" in converted(before)
    assert findings("OUT01", before, Level.ADVICE) == []


def test_a_log_record_in_a_file_is_of_all_ranks() -> None:
    loop = LOOP.replace("        loss.backward()\n", "        loss.backward()\n        logging.info(loss.item())\n")
    setup = 'logging.basicConfig(filename="run.log")\n'
    assert findings("OUT01", script(imports=f"import logging\n{IMPORTS}", setup=setup, loop=loop), Level.ADVICE) == []


def test_a_figure_of_an_evaluation_with_noise_is_not_added_up() -> None:
    """It is the sum over all samples already, on each rank, whatever noise had a part in it."""
    noisy = "    tested = 0\n    with torch.no_grad():\n        for x, y in tests:\n            guess = model(x)\n"
    noisy += "            tested += ((guess + torch.randn_like(guess) - y) ** 2).sum().item()\n    print(tested / 64)\n"
    setup = "tests = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=8)\n"
    assert "print(tested / 64)\n" in converted(script(setup=setup, loop=LOOP + noisy), options=Options())


@pytest.mark.parametrize("name", ["print", "log"])
def test_what_partial_makes_of_print_is_rank_0s(name: str) -> None:
    before = script(imports=f"import functools\n{IMPORTS}{name} = functools.partial(print, flush=True)\n",
                    after=f"{name}('done')\n")  # fmt: skip
    after = converted(before)
    guarded = f"if rt.is_main_process():\n    {name}('done')\n" in after
    assert guarded is (name == "print")
    assert ("import rank_zero_print as print" in after) is not guarded
    assert findings("OUT01", before, Level.ADVICE) == []


NUMBERS = """\
import torch
from torch.utils.data import Dataset


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, number):
        {line}
        return torch.full((4,), float(number)), torch.zeros(1)
"""


@pytest.mark.parametrize("line", ["print(number)", "pass"])
def test_what_a_data_set_prints_for_each_sample_rank_0_prints(line: str) -> None:
    before = script(imports=f"{IMPORTS}from numbers_of import Numbers\n", data="data = Numbers()\n")
    conversion = conversion_of(before, files={"numbers_of.py": NUMBERS.format(line=line)}, options=Options())
    shadowed = b"from distify_runtime import rank_zero_print as print\n"
    twins = [file for file in conversion.files if file.path == "numbers_of.py"]
    assert [shadowed in file.after for file in twins] == [True] * (line != "pass")
