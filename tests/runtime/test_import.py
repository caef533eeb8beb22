"""A cluster node needs nothing but torch to import the runtime."""

from __future__ import annotations

import os
import subprocess
import sys

import distify_runtime as rt
import pytest
from ranks import RUNTIME

BLOCKED_IMPORT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"libcst", "click", "rich", "numpy", "distify", "distify_codemods"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocked())
import distify_runtime as rt
rt.init_process_group()
rt.seed_ranks_apart()
own = [name for name in rt.__all__ if rt._HOME[name] != "horovod_optimizer"]  # what is derived from Horovod's
print(rt.all_reduce_sum(1), all(callable(getattr(rt, name)) for name in own))
"""
IMPORT_EVERYTHING = """
import sys
import distify_runtime as rt
assert "torch" not in sys.modules
names = [getattr(rt, name) for name in rt.__all__ if rt._HOME[name] != "horovod_optimizer"]
print(*(name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules))
"""


def _python(source: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", source],
        env={**os.environ, "PYTHONPATH": str(RUNTIME)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_works_where_only_torch_is_installed() -> None:
    ended = _python(BLOCKED_IMPORT)  # without -W error: torch itself warns that there is no numpy
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "1 True\n"


def test_it_adds_nothing_slow_to_the_import_of_torch() -> None:
    ended = _python(IMPORT_EVERYTHING, "-W", "error")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "\n", "")


@pytest.mark.parametrize("name", rt.__all__)
def test_every_name_is_documented(name: str) -> None:
    if rt._HOME[name] == "horovod_optimizer":
        pytest.importorskip("horovod", reason="derived from Horovod's, which is not installed: make horovod")
    assert (getattr(rt, name).__doc__ or "").strip()
