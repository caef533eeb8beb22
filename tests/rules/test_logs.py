"""OUT04: log records come from rank 0, and so do log files."""

from __future__ import annotations

import pytest

from tests.rules.scripts import GROUP, IMPORTS, blocked, changes, converted, distributed, line_of, script

TOOLS = f"import logging\nimport logging.config\nimport os\nfrom loguru import logger as guru\n{IMPORTS}"
QUIET = GROUP + "rt.rank_zero_logging()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('handler = logging.FileHandler("a.log")\n', 'handler = logging.FileHandler(rt.main_process_path("a.log"))\n'),
        ('handler = logging.FileHandler(mode="w", filename=os.path.join("a", "b"))\n',
         'handler = logging.FileHandler(mode="w", filename=rt.main_process_path(os.path.join("a", "b")))\n'),
        ('logging.basicConfig(level=10, filename="a.log")\n',
         'logging.basicConfig(level=10, filename=rt.main_process_path("a.log"))\n'),
        ('logging.basicConfig(handlers=[logging.FileHandler("a"), logging.StreamHandler()])\n',
         'logging.basicConfig(handlers=[logging.FileHandler(rt.main_process_path("a")), logging.StreamHandler()])\n'),
        ('logging.config.dictConfig({"version": 1})\n',
         'if rt.is_main_process():\n    logging.config.dictConfig({"version": 1})\n'),
        ('guru.add("a.log")\n', 'if rt.is_main_process():\n    guru.add("a.log")\n'),
        ('sink = guru.add("a.log")\n', 'sink = rt.main_process_only(guru.add)("a.log")\n'),
        ('logging.info("x")\n', 'logging.info("x")\n'),
        ('logging.basicConfig(level=10)\n', 'logging.basicConfig(level=10)\n'),
        ('log = logging.getLogger("x")\nlog.info("x")\n', 'log = logging.getLogger("x")\nlog.info("x")\n'),
        ('logs = {"a": logging.getLogger("x")}\nlogs["a"].warning("x")\n',
         'logs = {"a": logging.getLogger("x")}\nlogs["a"].warning("x")\n'),
        ('guru.info("x")\n', 'guru.info("x")\n'),
    ],
)  # fmt: skip
def test_records_and_files(before: str, after: str) -> None:
    assert converted(script(imports=TOOLS, after=before)) == distributed(imports=TOOLS, group=QUIET, after=after)


def test_quiet_before_the_first_record() -> None:
    setup = 'log = logging.getLogger(__name__)\nlog.info("first")\n'
    expected = distributed(
        imports=TOOLS, setup="log = logging.getLogger(__name__)\n", group=QUIET + 'log.info("first")\n'
    )
    assert converted(script(imports=TOOLS, setup=setup)) == expected


def test_handler_of_the_scripts_own_is_left_to_a_person() -> None:
    before = script(
        imports=TOOLS,
        setup="class Kept(logging.FileHandler):\n    pass\n\n\n",
        after='kept = Kept("a.log")\nlogging.info("x")\n',
    )
    assert blocked(before) == {("OUT04", line_of(before, "= Kept("))}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("log = logging.getLogger(__name__)\n", id="a logger that is not used"),
        pytest.param("import math as logging\nvalue = logging.log(2)\n", id="the same name from elsewhere"),
        pytest.param("class Log:\n    def info(self, text): pass\n\n\nlog = Log()\nlog.info('x')\n", id="own class"),
    ],
)
def test_left_alone(after: str) -> None:
    before = script(imports=IMPORTS if "math" in after else TOOLS, after=after)
    assert changes("OUT04", before) == []
