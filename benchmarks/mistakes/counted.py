"""A rank of a script: its words come behind the file in which the number of its optimizers' steps is kept.

python counted.py STEPS SCRIPT ARGS...
"""

import runpy
import sys
from pathlib import Path

from torch.optim.optimizer import register_optimizer_step_post_hook

_steps = Path(sys.argv[1])
_taken = [0]


def _count(*_: object) -> None:
    _taken[0] += 1
    _steps.write_text(str(_taken[0]))


register_optimizer_step_post_hook(_count)
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
