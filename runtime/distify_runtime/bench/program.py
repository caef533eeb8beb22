"""Runs a training script in this process, and writes down what its steps were made of.

    python program.py --out TIMES.json --steps N [options] SCRIPT ARGS...
    python program.py --out TIMES.json --steps N [options] -m MODULE ARGS...

The script sees `sys.argv`, `sys.path[0]` and `__name__` as if it had been started itself, and ends with its step
`--warm-up` + `--steps`, on all ranks alike.
"""

from __future__ import annotations

import argparse
import atexit
from pathlib import Path

from distify_runtime.bench.alone import stand_alone
from distify_runtime.bench.pace import keep_pace
from distify_runtime.bench.profiling import profile
from distify_runtime.bench.steps import Steps
from distify_runtime.trace import script
from distify_runtime.trace.looks import watch_looks
from distify_runtime.trace.writes import watch_writes


def main() -> None:
    options = _options()
    out = options.out.resolve()
    steps = Steps(out, options.warm_up, options.steps)
    # Registered before anything of the script's, hence called last.
    atexit.register(steps.write)
    steps.watch()
    if options.alone:
        stand_alone(steps.messages)
        keep_pace(steps, *options.beside)
    if options.trace:
        profile(steps, options.trace.resolve())
    if options.root:
        written: list[str] = []
        watch_writes(written, options.root, options.spare, out.with_suffix(".refused"))
        watch_looks(options.root, options.spare, out.with_suffix(".missed"))
    script.run(options.module, options.script, options.arguments)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True, help="to be timed; the script ends with the last of them")
    parser.add_argument("--warm-up", type=int, default=0, help="steps before those")
    parser.add_argument("--alone", action="store_true", help="as a rank of WORLD_SIZE, without the others")
    parser.add_argument(
        "--beside",
        type=int,
        nargs=2,
        default=(0, 1),
        help="with --alone: number and count of those that are timed at once",
    )
    parser.add_argument("--trace", type=Path, help="a folder for a trace of torch's profiler")
    parser.add_argument("--root", type=Path, help="change no file outside of this folder")
    parser.add_argument("--spare", type=Path, help="and none in this one, wherever it lies")
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


if __name__ == "__main__":
    main()
