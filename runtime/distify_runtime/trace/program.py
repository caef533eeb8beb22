"""Runs a training script in this process and writes down what it did.

    python program.py --out TRACE.pt [options] SCRIPT ARGS...
    python program.py --out TRACE.pt [options] -m MODULE ARGS...

The script sees `sys.argv`, `sys.path[0]` and `__name__` as if it had been started itself. Each rank starts from a seed
of its own, as ranks do in life, so that a script which sets no seed shows whether its ranks were made common.
BatchNorm stays real.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import os
import random
from pathlib import Path
from typing import Any

import torch

from distify_runtime.own_random import draw_by_themselves
from distify_runtime.patching import wrap
from distify_runtime.shared import wholes
from distify_runtime.trace import script
from distify_runtime.trace.draws import watch_draws
from distify_runtime.trace.logged import keep_what_is_logged
from distify_runtime.trace.looks import watch_looks
from distify_runtime.trace.moves import move_as_on_a_gpu
from distify_runtime.trace.noise import same_noise, watch_initialising, without_dropout
from distify_runtime.trace.nudged import nudge
from distify_runtime.trace.order import fix_order
from distify_runtime.trace.passes import Filling, fix_augmentation, watch_passes, workers
from distify_runtime.trace.precision import compute_in
from distify_runtime.trace.record import Record, watch
from distify_runtime.trace.repeats import count_repeats_once
from distify_runtime.trace.writes import watch_writes
from distify_runtime.watch import verdict

FIRST_SEED = 1234


def main() -> None:
    options = _options()
    filling = Filling(options.stands_for)
    record = Record(options.out.resolve(), filling)
    # Registered before anything of the script's, hence called last: the teardown is part of the record.
    atexit.register(record.write)
    fix_order()
    watch(record, options.steps)
    watch_writes(record.written, options.root, options.spare, options.out.resolve().with_suffix(".refused"))
    _keep_what_is_said(options.out.resolve().with_suffix(".watched"))
    keep_what_is_logged(record.logged)
    _keep_what_is_whole(record.whole)
    watch_looks(options.root, options.spare, options.out.resolve().with_suffix(".missed"))
    watch_passes(options.steps_of_pass, options.short_after, filling, record.readings)
    count_repeats_once(filling.ranks)
    compute_in(options.dtype, options.mixed)
    watch_initialising()
    if options.chance:
        watch_draws(options.out.resolve().with_suffix(".draws"))
    else:
        without_dropout()
    if options.steady or options.chance:
        workers(options.workers)
    if not torch.cuda.is_available():
        move_as_on_a_gpu()
    if options.steady:
        fix_augmentation()
        same_noise(options.each_sample)
    if options.nudged:
        nudge()
    draw_by_themselves(options.own_random)
    _seed(FIRST_SEED + int(os.environ.get("RANK", os.environ.get("HOROVOD_RANK", "0"))))
    script.run(options.module, options.script, options.arguments)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--steps", type=int, default=0, help="end after so many optimizer steps")
    parser.add_argument("--steps-of-pass", type=int, default=0, help="end each training pass after so many")
    parser.add_argument("--short-after", type=int, default=0, help="so many steps, end each pass after one")
    parser.add_argument("--stands-for", type=int, default=1, help="as how many ranks last batches are filled up for")
    parser.add_argument(
        "--steady", action="store_true", help="take augmentation, noise and workers out of the run, too"
    )
    parser.add_argument(
        "--each-sample", action="store_true", help="has noise of its own, where forward passes are shared"
    )
    parser.add_argument("--chance", action="store_true", help="leave dropout as it is, and write down what is drawn")
    parser.add_argument("--mixed", action="store_true", help="leave mixed precision in the run")
    parser.add_argument("--nudged", action="store_true", help="change the parameters a little after the first step")
    parser.add_argument("--workers", type=int, default=0, help="that loaders have which ask for some")
    parser.add_argument("--own-random", action="append", default=[], help="a package that draws by itself")
    parser.add_argument("--root", type=Path, help="change no file outside of this folder")
    parser.add_argument("--spare", type=Path, help="and none in this one, wherever it lies")
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _keep_what_is_said(path: Path) -> None:
    """Of the run's own watch, at once: who crashes afterwards may write no trace."""

    def say(original: Any, message: str) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{message}\n")
        original(message)

    wrap(verdict, "say", say)


def _keep_what_is_whole(kept: list[str]) -> None:
    def note(original: Any, message: str) -> None:
        kept.append(message)
        original(message)

    wrap(wholes, "note", note)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    if importlib.util.find_spec("numpy") is not None:
        _seed_numpy(seed)


def _seed_numpy(seed: int) -> None:
    """Its common stream, and where generators that are given no seed get one."""
    import numpy
    from numpy.random import bit_generator

    numpy.random.seed(seed)
    if hasattr(bit_generator, "randbits"):  # no part of what NumPy promises
        entropy = random.Random(seed)
        wrap(bit_generator, "randbits", lambda original, bits: entropy.getrandbits(bits))


if __name__ == "__main__":
    main()
