"""Runs a program of a rank, and counts where its ranks meet for figures, step by step of its optimizers.

python counting.py COUNTS PROGRAM ARGS...    leaves in COUNTS a JSON list: for each step how often since the last one
"""

from __future__ import annotations

import atexit
import json
import sys
from pathlib import Path
from typing import Any

#: The parts of the runtime in which figures are put together.
_FIGURES = ("reduce", "figures", "gather_entries")


def _count(counts: Path) -> None:
    from distify_runtime import communicator
    from torch.optim.optimizer import register_optimizer_step_post_hook

    since = [0]

    def counted(name: str) -> Any:
        meet = getattr(communicator, name)

        def one(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1).f_globals["__name__"].rpartition(".")[2]
            since[-1] += caller in _FIGURES
            return meet(*args, **kwargs)

        return one

    for name in ("all_reduce", "all_gather", "all_gather_object"):
        setattr(communicator, name, counted(name))
    register_optimizer_step_post_hook(lambda *_: since.append(0))
    atexit.register(lambda: counts.write_text(json.dumps(since)))


_count(Path(sys.argv[1]))
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).parent)
__file__ = sys.argv[0]
exec(compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec"))
