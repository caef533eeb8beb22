"""A trace of torch's profiler, of the steps that count."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, schedule

from distify_runtime import environment
from distify_runtime.bench.steps import Steps


def profile(steps: Steps, folder: Path) -> None:
    """Has each rank write `rank<R>.json` there, for chrome://tracing or ui.perfetto.dev. Profiled steps take longer."""
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * torch.cuda.is_available()]

    def ready(profiler: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(folder / f"rank{environment.rank()}.json"))

    plan = schedule(wait=steps.warm_up - 1, warmup=1, active=steps.wanted, repeat=1)
    profiler: Any = torch.profiler.profile(activities=activities, schedule=plan, on_trace_ready=ready)
    profiler.start()
    steps.after_each.append(profiler.step)
    atexit.register(profiler.stop)
