"""What `distify verify` adds to a step: one process trains with its tracer around it and without, in turns.

    python benchmarks/tracer.py [--rounds 5] [--steps 60]

Both compute in float64, on one thread, and CPU time is what is measured. Printed is, for each kind of model, the median
ratio of a step under the tracer to one without it, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))
from distify_runtime.trace import program

WARM_UP = 5
#: Layers, what each is made of, and samples in a batch.
MODELS = {"wide": (4, 768, 64), "deep": (24, 128, 64), "small": (3, 64, 32)}


def main() -> int:
    parser = argparse.ArgumentParser(description="a step under the tracer of verify against one without it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--model", choices=MODELS, help="one kind alone; in a run of this file: what to train")
    options = parser.parse_args()
    if "TRAINS" in os.environ:
        train(*MODELS[options.model], options.steps)
        return 0
    for model in [options.model] if options.model else MODELS:
        ratios, usual = [], 0.0
        for number in range(options.rounds):
            turns = (True, False) if number % 2 else (False, True)
            found = {traced: _seconds(model, options.steps, traced) for traced in turns}
            ratios.append(found[True] / found[False])
            usual = found[False]
        said = f"{median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{model}: a step of {usual * 1e3:.1f} ms takes {said}", flush=True)
    return 0


def _seconds(model: str, steps: int, traced: bool) -> float:
    """In a fork of this process, which has torch already: starting takes longer than training does."""
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            _become(Path(folder), ["--model", model, "--steps", str(steps)], traced)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("a run has failed")
        return float(json.loads((Path(folder) / "out").read_text().splitlines()[-1]))


def _become(folder: Path, words: list[str], traced: bool) -> None:
    code = 1
    try:
        os.dup2(os.open(folder / "out", os.O_WRONLY | os.O_CREAT), 1)
        os.environ["TRAINS"] = "1"
        if traced:
            sys.argv = ["program.py", "--out", str(folder / "0.pt"), "--steady", "--dtype", "float64", __file__, *words]
            program.main()
        else:
            sys.argv = [__file__, *words]
            runpy.run_path(__file__, run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def train(layers: int, width: int, batch: int, steps: int) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(batch * (WARM_UP + steps), width), torch.randn(batch * (WARM_UP + steps), width))
    parts = (
        nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1)) for _ in range(layers)
    )
    model = nn.Sequential(*parts)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    times = []
    began = time.thread_time()
    for x, y in DataLoader(data, batch_size=batch, shuffle=True):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.thread_time() - began)
        began = time.thread_time()
    print(json.dumps(median(times[WARM_UP:])))


if __name__ == "__main__":
    sys.exit(main())
