"""PATH01, LOAD01: ranks do not meet where one of them may have failed and gone on."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options

from tests.rules.scripts import LOOP, conversion_of, indented, script

SAVE = "torch.save(model.state_dict(), 'last.pt')\n"
LOAD = "model.load_state_dict(torch.load('last.pt'))\n"
NOTE = "with open('note.txt', 'w') as note:\n    note.write('done')\n"
READ = "print(open('note.txt').read())\n"
GOES_ON = "except OSError as error:\n    print(error)\n"


def lines_of(after: str) -> list[str]:
    (new,) = conversion_of(script(after=after), options=Options(strategy="sharded")).files
    return new.after.decode().splitlines()


@pytest.mark.parametrize(
    ("write", "attempt"),
    [
        (SAVE, f"try:\n{indented(LOAD)}{GOES_ON}"),
        (SAVE, f"try:\n    if len(data) > 3:\n{indented(indented(LOAD))}{GOES_ON}"),
        (SAVE, f"try:\n    print(len(data))\nexcept ValueError:\n{indented(LOAD)}"),
        (SAVE, f"try:\n    print(len(data))\nexcept ValueError:\n{indented(LOAD)}    raise\n"),
        (NOTE, f"try:\n{indented(READ)}{GOES_ON}"),
        (NOTE, f"try:\n    for _ in range(2):\n{indented(indented(READ))}{GOES_ON}"),
    ],
)
def test_they_meet_before_it(write: str, attempt: str) -> None:
    lines = lines_of(write + attempt)
    assert lines[lines.index("try:") - 1] == "rt.barrier()"
    assert sum("rt.barrier()" in line for line in lines) == 1


def test_they_meet_before_a_call_in_it() -> None:
    lines = lines_of(f"def restore():\n{indented(LOAD)}\n\n{SAVE}try:\n    restore()\n{GOES_ON}")
    assert lines[lines.index("try:") - 1] == "rt.barrier()"
    assert sum("rt.barrier()" in line for line in lines) == 1


@pytest.mark.parametrize(
    "attempt",
    [
        f"try:\n{indented(LOAD)}except OSError:\n    raise\n",
        f"try:\n{indented(LOAD)}finally:\n    print('over')\n",
        f"try:\n{indented(LOAD)}except (KeyboardInterrupt, SystemExit):\n    print('over')\n",
        f"try:\n    print(len(data))\nexcept OSError:\n    print('none')\nfinally:\n{indented(LOAD)}",
    ],
)
def test_a_failure_that_ends_the_run_needs_no_other_place(attempt: str) -> None:
    lines = lines_of(SAVE + attempt)
    (line,) = [number for number, line in enumerate(lines) if "rt.barrier()" in line]
    assert lines[line].startswith("    ")
    assert "torch.load(" in lines[line + 1]


def test_an_attempt_that_is_the_whole_training_is_not_left() -> None:
    body = indented(LOOP + SAVE + LOAD)
    (new,) = conversion_of(script(loop=f"try:\n{body}{GOES_ON}"), options=Options(strategy="sharded")).files
    assert "    rt.barrier()\n    model.module.load_state_dict(" in new.after.decode()


CACHE = f"import os\nif not os.path.exists('note.txt'):\n{indented(NOTE)}"
LISTED = """\
import pathlib
for file in pathlib.Path('old').iterdir():
    file.unlink()
"""
ASKED = """\
import os, requests
if not os.path.exists('note.txt'):
    answer = requests.get('http://localhost/note')
    with open('note.txt', 'w') as note:
        note.write(answer.text)
"""


@pytest.mark.parametrize(
    ("write_and_read", "writes"),
    [(SAVE + LOAD, 1), (NOTE + READ, 1), (CACHE + READ, 1), (ASKED + READ, 1), (NOTE + CACHE + READ, 2)],
)
def test_what_is_written_and_read_in_one_attempt_fails_for_all(write_and_read: str, writes: int) -> None:
    after = indented(write_and_read)
    lines = lines_of(f"try:\n{after}{GOES_ON}")
    body = lines[lines.index("try:") : lines.index("except OSError as error:")]
    together = [number for number, line in enumerate(body) if line.endswith("with rt.fail_together():")]
    assert len(together) == writes
    assert all(body[number + 1].strip() == "if rt.is_main_process():" for number in together)
    assert "rt.barrier()" not in "".join(lines)


def test_all_ranks_go_through_a_file_of_rank_0s_together() -> None:
    """What is done while it is open is no rank's alone: whoever fails in there, all do."""
    note = "with open('note.txt', 'w') as note:\n    names = dir(model)\n    note.write(' '.join(names))\n"
    lines = lines_of(f"try:\n{indented(note + READ)}    print(names)\n{GOES_ON}")
    first = lines.index("try:") + 1
    assert lines[first : first + 3] == [
        "    with rt.fail_together():",
        "        with rt.main_process_open('note.txt', 'w') as note:",
        "            names = dir(model.module)",
    ]
    assert "rt.barrier()" not in "".join(lines)


def test_the_answer_and_the_test_of_it_are_rank_0s() -> None:
    lines = lines_of(f"try:\n{indented(ASKED + READ)}{GOES_ON}")
    first = next(number for number, line in enumerate(lines) if "exists" in line)
    assert lines[first : first + 6] == [
        "    if not rt.from_main_process(os.path.exists('note.txt')):",
        "        answer = rt.call_on_main_process(requests.get, 'http://localhost/note')",
        "        with rt.fail_together():",
        "            if rt.is_main_process():",
        "                with open('note.txt', 'w') as note:",
        "                    note.write(answer.text)",
    ]


def test_what_was_written_before_the_attempt_is_waited_for_before_it() -> None:
    lines = lines_of(f"{NOTE}try:\n{indented(NOTE + READ)}{GOES_ON}")
    assert lines[lines.index("try:") - 1] == "rt.barrier()"
    assert sum("fail_together" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("code", "attempt"),
    [
        ("PATH01", f"try:\n    note = open('note.txt', 'w')\n    note.write('x')\n    note.close()\n{indented(READ)}"),
        (
            "PATH01",
            f"try:\n    try:\n        int('x')\n    except ValueError:\n{indented(indented(NOTE))}{indented(READ)}",
        ),
        ("PATH01", f"try:\n{indented(LISTED)}{indented(READ)}"),
        ("LOAD01", f"try:\n    kept = torch.save(torch.randn(3), 'last.pt')\n{indented(LOAD)}    print(kept)\n"),
    ],
)
def test_where_not_all_come_to_the_write_it_needs_a_person(code: str, attempt: str) -> None:
    conversion = conversion_of(script(after=attempt + GOES_ON), options=Options(strategy="sharded"))
    assert [one.code for one in conversion.of(Level.BLOCKING)] == [code]


FIRST = "put the `try` under `with rt.main_process_first():`, so that rank 0 is through with it before the others come"


@pytest.mark.parametrize(
    ("attempt", "fix"),
    [
        (
            f"try:\n    note = open('note.txt', 'w')\n    note.write('x')\n    note.close()\n{indented(READ)}{GOES_ON}",
            FIRST,
        ),
        (
            f"try:\n    try:\n{indented(indented(READ))}    except OSError:\n{indented(indented(NOTE))}"
            "except ValueError as error:\n    print(error)\n",
            FIRST,
        ),
    ],
    ids=["read where it was written", "written where it cannot be read"],
)
def test_a_person_is_told_what_can_be_done_also_where_the_reading_is_what_may_fail(attempt: str, fix: str) -> None:
    conversion = conversion_of(script(after=attempt), options=Options(strategy="sharded"))
    assert [(one.code, one.fix) for one in conversion.of(Level.BLOCKING)] == [("PATH01", fix)]


CACHED = """\
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        try:
            try:
                text = open("note.txt").read()
            except OSError:
                text = "a"
                with open("note.txt", "w") as note:
                    note.write(text)
                text = open("note.txt").read()
        except ValueError:
            text = "b"
        return torch.ones(4) * len(text), torch.ones(1)


data = Rows()
first = data[0]
"""


def test_of_what_a_loader_calls_a_person_is_told_what_needs_no_wait() -> None:
    conversion = conversion_of(script(data=CACHED), options=Options(strategy="sharded"))
    assert ["os.replace" in one.fix for one in conversion.of(Level.BLOCKING)] == [True]
