"""On a rank: the steps of the optimizer that has taken most, in a file of the folder that COUNT_STEPS_IN names.

The file holds them at any time: some runs end without a word.
"""

import os
import weakref
from pathlib import Path

_RANK = os.environ.get("RANK") or os.environ.get("HOROVOD_RANK")
_FOLDER = os.environ.get("COUNT_STEPS_IN", "")

if _RANK and _FOLDER and "DISTIFY_CHANNEL" not in os.environ:  # which is there in what launches a rank
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    _taken: "weakref.WeakKeyDictionary[Optimizer, int]" = weakref.WeakKeyDictionary()
    _most = 0

    def _count(optimizer: Optimizer, *_: object) -> None:
        global _most
        _taken[optimizer] = taken = _taken.get(optimizer, 0) + 1
        if taken > _most:
            _most = taken
            Path(_FOLDER, f"steps{_RANK}").write_text(str(taken))

    register_optimizer_step_post_hook(_count)
