"""What a person wrote for rank 0 alone, with the runtime's functions or without, is understood and not asked for."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import IMPORTS, RUNTIME, conversion_of, converted, findings, script

UNKNOWN = "foo.thing('out/a.bin')\n"
HISTORY = """\
history = open("history.txt", "r+")
print(history.readline())
history.write("x")
"""
RANK = "import foo, os\nrank = int(os.environ.get('LOCAL_RANK', -1))\n"
DIST = "import foo\nimport torch.distributed as dist\n"
GET_RANK = f"{DIST}def get_rank():\n    if not dist.is_initialized():\n        return 0\n    return dist.get_rank()\n"
SAVE = "import foo, os\ndef save():\n    foo.thing('out/a.bin')\n"


def under(test: str, lines: str) -> str:
    return f"{test}\n" + "".join(f"    {line}" for line in lines.splitlines(keepends=True))


def told(before: str) -> list[str]:
    """What the checklist says of all files that the script writes, other than that it is done."""
    conversion = conversion_of(before)
    assert conversion.outcome is Outcome.CONVERTED, [one.message for one in conversion.of(Level.BLOCKING)]
    return [one.message for one in conversion.of(Level.ADVICE) if one.code == "OUT03"]


@pytest.mark.parametrize("strategy", ["auto", "sharded"])
def test_what_a_checklist_asked_for_does_not_stop_the_next_conversion(strategy: str) -> None:
    before = script(imports=RUNTIME + IMPORTS, after=under("if rt.is_main_process():", HISTORY))
    conversion = conversion_of(before, options=Options(strategy=strategy))
    assert conversion.outcome is Outcome.CONVERTED, [one.message for one in conversion.of(Level.BLOCKING)]
    after = conversion.files[0].after.decode()
    assert under("if rt.is_main_process():", HISTORY) in after
    assert after.count("import distify_runtime as rt") == 1


def test_what_the_runtime_lets_rank_0_do_is_guarded_once() -> None:
    guarded = under("if rt.is_main_process():", "torch.save(model.state_dict(), 'a.pt')\n")
    after = converted(script(imports=RUNTIME + IMPORTS, after=guarded))
    assert after.endswith(guarded.replace("model.", "model.module."))
    assert after.count("is_main_process") == 1


@pytest.mark.parametrize(
    ("imports", "lines"),
    [
        ("import requests\ndef ask():\n    return requests.get('http://a').text\n", "rt.call_on_main_process(ask)\n"),
        ("import requests\n", "text = rt.call_on_main_process(requests.get, 'http://a')\n"),
        ("", "name = rt.call_on_main_process(input, 'name')\n"),
        ("", "log = rt.main_process_open('log.txt', 'w')\nlog.write('a')\n"),
        ("", "rt.barrier()\n"),
        ("", "seen = rt.from_main_process(3)\n"),
    ],
)
def test_what_the_runtime_tells_all_ranks_stays_as_it_is(imports: str, lines: str) -> None:
    assert converted(script(imports=RUNTIME + imports + IMPORTS, after=lines)).endswith(f"\n{lines}")


def test_what_a_conversion_leaves_counts() -> None:
    helper = "import distify_runtime as rt\ndef deal(data):\n    return rt.TrainingSampler(data)\ndef save(model):\n"
    helper += "    import torch\n    torch.save(model.state_dict(), 'a.pt')\n"
    before = script(imports=f"{IMPORTS}import helper\n", after="helper.save(model)\n")
    needed = conversion_of(before, files={"helper.py": helper}).of(Level.BLOCKING)
    assert "a checkpoint is written, in a file that was converted for another script" in [one.message for one in needed]


@pytest.mark.parametrize(
    ("imports", "test"),
    [
        ("import foo, os\n", "if int(os.environ['RANK']) == 0:"),
        ("import foo, os\n", "if 0 == int(os.environ['RANK']):"),
        ("import foo, os\n", "if os.environ['RANK'] == '0':"),
        ("import foo, os\n", "if epoch and int(os.environ['RANK']) == 0:"),
        ("import foo, os\n", "if int(os.environ['RANK']) != 0:\n    pass\nelse:"),
        ("import foo, os\nmain = int(os.environ['RANK']) == 0\n", "if main:"),
        (RANK, "if rank in (-1, 0):"),
        (RANK, "if rank <= 0:"),
        (RANK, "if not rank:"),
        (DIST, "if not dist.is_initialized() or dist.get_rank() == 0:"),
        (DIST, "if dist.get_world_size() == 1 or dist.get_rank() == 0:"),
        (f"{GET_RANK}def is_main():\n    return get_rank() == 0\n", "if is_main():"),
        (f"{GET_RANK}def is_main():\n    if not dist.is_initialized():\n        return True\n"
         "    return dist.get_rank() == 0\n", "if is_main():"),
        (f"{RUNTIME}import foo\n", "if rt.rank() == 0:"),
    ],
)  # fmt: skip
def test_where_a_test_lets_rank_0_alone_come_nothing_is_asked_for(imports: str, test: str) -> None:
    assert told(script(imports=imports + IMPORTS, after=under(test, UNKNOWN))) == []
    imports = imports.replace("import foo, os", "import os").replace("import foo\n", "")
    assert told(script(imports=imports + IMPORTS, after=under(test, HISTORY))) == []


@pytest.mark.parametrize(
    ("imports", "test"),
    [
        ("import foo, os\n", "if int(os.environ['RANK']) != 0:"),
        ("import foo, os\n", "if int(os.environ['RANK']) == 1:"),
        ("import foo, os\n", "if epoch or int(os.environ['RANK']) == 0:"),
        ("import foo, os\n", "if int(os.environ['RANK']) == 0:\n    pass\nelse:"),
        ("import foo, os\n", "if int(os.environ['RANK']) % 2 == 0:"),
        ("import foo, os\n", "if int(os.environ['WORLD_SIZE']) == 0:"),
        ("import foo, os\nmain = int(os.environ['RANK']) == 0\n", "if not main:"),
        (RANK, "if rank in (0, 1):"),
        (RANK, "if rank:"),
        (RANK, "if rank > 0:"),
        (RANK, "if rank == foo.first:"),
        ("import foo, os\ndef is_main():\n    if os.environ.get('X'):\n        return True\n"
         "    return int(os.environ['RANK']) == 0\n", "if is_main():"),
        (f"{RUNTIME}import foo\n", "if not rt.is_main_process():"),
    ],
)  # fmt: skip
def test_any_other_test_is_no_guard(imports: str, test: str) -> None:
    (advice,) = told(script(imports=imports + IMPORTS, after=under(test, UNKNOWN)))
    assert advice.startswith("every rank calls `foo.thing` with a path")


def test_a_function_is_rank_0s_where_it_alone_calls_it() -> None:
    called = "if int(os.environ['RANK']) == 0:\n    save()\n"
    assert told(script(imports=SAVE + IMPORTS, after=called)) == []
    assert len(told(script(imports=SAVE + IMPORTS, after=f"{called}save()\n"))) == 1


def test_nobody_waits_for_what_rank_0_asks_alone() -> None:
    asked = under("if int(os.environ['RANK']) == 0:", "name = input('name')\nprint(requests.get(name).text)\n")
    before = script(imports=f"import os\nimport requests\n{IMPORTS}", after=asked)
    assert converted(before).endswith(asked)
    (said,) = findings("NET01", before, Level.NOT_NEEDED)
    assert said.message == "what the script asks outside under a test of the rank, the others do not ask"
