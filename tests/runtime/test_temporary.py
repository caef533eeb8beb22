"""Ranks have one temporary folder, which is there until the last of them is past it."""

from __future__ import annotations

import pytest
from ranks import run_script

FOLDER = """
import os, sys
import distify_runtime as rt

rt.init_process_group()
try:
    with rt.TemporaryDirectory(prefix="one for all ") as folder:
        if rt.is_main_process():
            open(os.path.join(folder, "said"), "w").write("hello")
        rt.barrier()
        print(os.path.basename(folder)[:12], open(os.path.join(folder, "said")).read())
        if sys.argv[1] == "fails":
            rt.barrier()  # else rank 0 may have left, and removed it, before the others have read
            raise ValueError("on all ranks")
except ValueError:
    rt.barrier()
rt.barrier()
print(os.path.exists(folder))
"""


@pytest.mark.parametrize("case", ["ends", "fails"])
def test_all_ranks_have_the_same_folder(case: str) -> None:
    for ended in run_script(FOLDER, case, fresh=True):
        assert (ended.code, ended.out) == (0, "one for all  hello\nFalse\n")


def test_what_cannot_be_made_is_an_error_on_all() -> None:
    text = 'import distify_runtime as rt\nrt.TemporaryDirectory(dir="/nowhere/at/all")\n'
    for ended in run_script(text, fresh=True):
        assert ended.code == 1
        assert "FileNotFoundError" in ended.err
