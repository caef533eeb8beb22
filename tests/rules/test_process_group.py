"""GROUP01: the process group starts once, after the command line is read and before anything that matters."""

from __future__ import annotations

import pytest

from tests.rules.scripts import (
    APART,
    DATA,
    GROUP,
    IMPORTS,
    LOADER,
    LOOP,
    MODEL,
    OPTIMIZER,
    RUNTIME,
    SHARDED,
    SHUFFLED,
    WRAP,
    WRAPPER,
    changes,
    conversion_of,
    converted,
    distributed,
    indented,
    script,
)

BODY = DATA + LOADER + MODEL + OPTIMIZER + LOOP
OURS = RUNTIME + WRAPPER


def new_body(by: str = "    ") -> str:
    """The body of a function, without the process group."""
    return indented(DATA + SHARDED + MODEL + WRAP + OPTIMIZER + APART + SHUFFLED, by)


def test_before_the_first_thing_that_matters() -> None:
    assert converted(script()) == distributed()


@pytest.mark.parametrize(
    "setup",
    [
        "torch.manual_seed(0)\n",
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nbatch_size = 8\n",
        "torch.backends.cudnn.benchmark = True\nwords = sorted({'a', 'b'})\n",
        "def helper():\n    return torch.randn(3)\n\n\n",
        "class Net(nn.Module):\n    pass\n\n\n",
    ],
)
def test_what_is_alike_on_all_ranks_stays_above(setup: str) -> None:
    assert converted(script(setup=setup)) == distributed(setup=setup)


PARSER = """\
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
"""


@pytest.mark.parametrize(
    "parsed",
    [
        "args = parser.parse_args()\n",
        "args, rest = parser.parse_known_args()\n",
        "args = parser.parse_args([])  # none\n",
    ],
)
def test_right_after_the_command_line(parsed: str) -> None:
    imports = f"import argparse\n\n{IMPORTS}"
    later = "torch.manual_seed(0)\n# made up\n"
    before = script(imports=imports, setup=PARSER + parsed + later)
    assert converted(before) == distributed(imports=imports, setup=PARSER + parsed, group=GROUP + later)


def test_command_line_read_after_something_that_matters() -> None:
    imports = f"import argparse\n\n{IMPORTS}"
    late = PARSER + "args = parser.parse_args()\n"
    before = script(imports=imports, data=DATA + late)
    assert converted(before) == distributed(imports=imports, data=DATA + late)


MAIN = 'if __name__ == "__main__":\n    main()\n'


@pytest.mark.parametrize("call", ["main()\n", MAIN, 'if __name__ == "__main__": main()\n'])
def test_inside_main(call: str) -> None:
    """Not at the level of the module, which workers of a DataLoader may import."""
    before = f"{IMPORTS}\n\ndef main():\n{indented(BODY)}\n\n{call}"
    after = f"{IMPORTS}{OURS}\n\ndef main():\n{indented(GROUP)}{new_body()}\n\n{call}"
    assert converted(before) == after


def test_main_defined_after_what_it_calls_and_before_its_use() -> None:
    before = f"""\
{IMPORTS}

def main():
    train(batches())


def train(loader):
{indented(MODEL + OPTIMIZER + LOOP)}

def batches():
{indented(DATA)}    return DataLoader(data, batch_size=8, shuffle=True)


{MAIN}"""
    after = converted(before)
    assert after.count("init_process_group") == 1
    assert "\ndef main():\n    rt.init_process_group()\n    train(batches())\n" in after


def test_arguments_read_in_a_function_of_their_own() -> None:
    before = f"""\
import argparse
{IMPORTS}

def arguments():
{indented(PARSER)}    return parser.parse_args()


def main(args):
{indented(BODY)}

if __name__ == "__main__":
    main(arguments())
"""
    after = converted(before)
    assert after == (before.replace(IMPORTS, IMPORTS + OURS).replace(indented(BODY), indented(GROUP) + new_body()))


def test_arguments_read_in_main() -> None:
    body = PARSER + "args = parser.parse_args()\n"
    before = f"import argparse\n{IMPORTS}\n\ndef main():\n{indented(body + BODY)}\n\n{MAIN}"
    after = f"import argparse\n{IMPORTS}{OURS}\n\ndef main():\n{indented(body + GROUP)}{new_body()}\n\n{MAIN}"
    assert converted(before) == after


def test_under_the_main_guard() -> None:
    before = f'{IMPORTS}\nif __name__ == "__main__":\n{indented(BODY)}'
    after = f'{IMPORTS}{OURS}\nif __name__ == "__main__":\n{indented(GROUP)}{new_body()}'
    assert converted(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if True: ", f"{GROUP}if True: "),
        ("if True:\n    ", f"{GROUP}if True:\n    "),
        ("try:\n    ", f"{GROUP}try:\n    "),
        ("with torch.device('cpu'):\n    ", f"{GROUP}with torch.device('cpu'):\n    "),
        ("torch.manual_seed(0); ", f"{GROUP}torch.manual_seed(0); "),
        ("# made up\n", f"{GROUP}\n# made up\n"),
    ],
)
def test_before_the_whole_statement(before: str, after: str) -> None:
    """On all paths: a group that only some ranks join never starts."""
    end = "except RuntimeError:\n    raise\n" if before.startswith("try") else ""
    given = script(data=before + DATA + end)
    assert converted(given) == distributed(group="", data=after + DATA + end)


@pytest.mark.parametrize(
    "holder",
    [
        "class Made:\n    inputs = torch.randn(64, 4)\n\n\n",
        "def made(inputs=torch.randn(64, 4)):\n    return inputs\n\n\n",
        "@decorated(torch.randn(3))\ndef made():\n    pass\n\n\n",
    ],
)
def test_what_runs_at_a_definition_counts(holder: str) -> None:
    own = "def decorated(values):\n    return lambda function: function\n\n\n"
    setup = own if holder.startswith("@") else ""
    before = script(setup=setup + holder)
    assert converted(before) == distributed(setup=f"{setup}{GROUP}{holder}", group="")


def test_docstring_and_future_imports_stay_first() -> None:
    head = '#!/usr/bin/env python\n# coding: utf-8\n"""Trains."""\nfrom __future__ import annotations\n'
    assert converted(script(imports=head + IMPORTS)) == distributed(imports=head + IMPORTS)


def test_environment_is_set_before_torch_is_imported() -> None:
    """Our import brings torch along, and OMP_NUM_THREADS means nothing after that."""
    head = 'import os\n\nos.environ["OMP_NUM_THREADS"] = "1"\n'
    after = converted(script(imports=head + IMPORTS))
    assert after.startswith(head)


def test_imports_below_code() -> None:
    head = "import os\nHERE = os.getcwd()\n"
    after = converted(script(imports=head + IMPORTS))
    assert after.replace(OURS, "") == distributed(imports=head + IMPORTS, ours="")


def test_imports_in_a_function() -> None:
    before = f"def main():\n{indented(IMPORTS + BODY)}\nmain()\n"
    after = converted(before)
    assert after.startswith(OURS)
    assert "    rt.init_process_group()\n    data = " in after


def test_name_of_the_runtime_is_free() -> None:
    setup = "def rt(text):\n    return text\n\n\n"
    after = converted(script(setup=setup))
    assert setup in after
    (line,) = [line for line in after.splitlines() if line.startswith("import distify_runtime as ")]
    name = line.rpartition(" ")[2]
    assert name != "rt"
    assert f"\n{name}.init_process_group()\n" in after


def test_one_change_with_its_place() -> None:
    (change,) = changes("GROUP01", script())
    assert change.place.line == len(IMPORTS.splitlines()) + 2


def test_functions_that_are_never_called_do_not_count() -> None:
    setup = "def unused():\n    return torch.randn(3).cuda()\n\n\n"
    assert converted(script(setup=setup)) == distributed(setup=setup)


def test_nothing_without_training() -> None:
    assert not conversion_of(script(loop="")).files
