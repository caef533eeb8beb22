"""Printed lines of two runs: the same figures, whatever time they took."""

from __future__ import annotations

import pytest
import torch
from distify_runtime.trace.figures import different_figure, names_a_time, without_times


@pytest.mark.parametrize(
    ("ours", "theirs", "different"),
    [
        ("accuracy 0.91", "accuracy 0.91", False),
        ("accuracy 0.91", "accuracy 0.93", True),
        ("accuracy 0.91", "accuracy 0.92", False),  # rounded to the other side
        ("loss 1.25e-03", "loss 1.27e-03", True),
        ("test 3 of 4", "test 3 of 5", True),
        ("test 3 of 4", "test 3", True),
        ("val 0.5 in 3.1s", "val 0.5 in 4.9s", False),
        ("val 0.5, took 3 min", "val 0.5, took 5 min", False),
        ("val 0.5 at 12:31:02", "val 0.5 at 12:31:09", False),
        ("[2026-01-31 23:59:58,912] val 0.5", "[2026-02-01 00:00:03,047] val 0.5", False),
        ("[2026-01-31 23:59:58,912] val 0.50", "[2026-02-01 00:00:03,047] val 0.60", True),
        ("at 12:31:02,5 of 7", "at 12:31:02,4 of 7", True),
        ("val 0.5 ETA 3.5", "val 0.5 ETA 7.0", False),
        ("Test: [0/3]\tTime  0.624 ( 0.611)\tAcc 50.0", "Test: [0/3]\tTime  0.632 ( 0.703)\tAcc 50.0", False),
        ("Test: [0/3]\tTime  0.624 ( 0.611)\tAcc 50.0", "Test: [0/3]\tTime  0.624 ( 0.611)\tAcc 52.0", True),
        ("Data(s): 0.016, Acc 50.0", "Data(s): 0.183, Acc 50.0", False),
        ("Data (ms): 16.2 (17.1) Acc 50.0", "Data (ms): 9.2 (9.1) Acc 50.0", False),
        ("Data(s): 0.016, Acc 50.0", "Data(s): 0.016, Acc 52.0", True),
        ("sample(s): 128", "sample(s): 64", True),
        ("Test: [0/3]\tLoss 0.62 (0.61)", "Test: [0/3]\tLoss 0.62 (0.70)", True),
    ],
)
def test_times_are_no_figures(ours: str, theirs: str, different: bool) -> None:
    assert different_figure(ours, theirs, 1e-5) is different


def test_a_file_named_by_the_time_is_the_same_in_each_run() -> None:
    first = ["runs/20240131-120102/log.txt", "model_2024-01-31.pt"]
    later = ["model_2025-02-01.pt", "runs/20250201-130000/log.txt"]
    assert without_times(first) == without_times(later) == ["model_TIME.pt", "runs/TIME/log.txt"]


@pytest.mark.parametrize(
    ("first", "later", "named"),
    [
        ("log_2026_November_22_05-44-58AM.log", "log_2026_December_01_11-47-16PM.log", "log_TIME.log"),
        ("net_174705.pt", "net_174723.pt", "net_TIME.pt"),
        ("log/2026-11-22-05-47-58-118668.txt", "log/2026-11-22-06-01-59-839946.txt", "log/TIME.txt"),
        ("m-2026-11-22-000123.pt", "m-2026-11-23-000123.pt", "m-TIME-000123.pt"),
        ("run 22.11.2026 17:47.txt", "run 23.11.2026 08:00.txt", "run TIME.txt"),
        (
            "runs/Nov22_21-09-37_here/events.out.tfevents.1763844000.here.4711.0",
            "runs/Nov22_21-12-01_here/events.out.tfevents.1763844144.here.815.0",
            "runs/TIME_TIME_here/events.out.tfevents.TIME",
        ),
        ("1763844000.1234567/a", "1763844144.76/a", "TIME/a"),  # add_hparams
        (
            "wandb/offline-run-20261125_210030-sy4tmuaa/run-sy4tmuaa.wandb",
            "wandb/offline-run-20261125_210908-7idgxo0s/run-7idgxo0s.wandb",
            "wandb/offline-run-TIME_TIME-RUN/run-RUN.wandb",
        ),
        (
            "mlruns/1/81df339b1cca4aa692da9cb74eaa8f68/metrics/loss",
            "mlruns/1/34a44bb3e7f34a65a60f00db6def31bc/metrics/loss",
            "mlruns/1/RUN/metrics/loss",
        ),
        ("m_0b9e1c1e-5a43-4a0f-9d2b-0c1d2e3f4a5b.pt", "m_7c9e1c1e-5a43-4a0f-9d2b-0c1d2e3f4a5c.pt", "m_RUN.pt"),
    ],
)
def test_whatever_time_a_file_is_named_by(first: str, later: str, named: str) -> None:
    assert without_times([first]) == without_times([later]) == [named]


@pytest.mark.parametrize("name", ["epoch_01.pt", "epoch_000100.pt", "resnet50_12_34.pt", "net_999999.pt", "part-7-8-9"])
def test_other_numbers_in_names_tell_files_apart(name: str) -> None:
    assert without_times([name]) == [name]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("run-20261125_210030-sy4tmuaa/a.log", "run-20261125_210030-sy4tmuaa/b.log"),
        ("run-one/a.log", "run-two/a.log"),
        ("deadbeef.pt", "decade01.pt"),
    ],
)
def test_what_is_named_by_nothing_of_a_run_stays_another(one: str, other: str) -> None:
    assert without_times([one]) != without_times([other])


@pytest.mark.parametrize(
    ("key", "value", "is_one"),
    [
        ("history[0].duration", 1.5, True),
        ("meta.epoch_time", 1.5, True),
        ("timestamp", "2026-11-30 10:00", True),
        ("elapsed[3]", 2, True),
        ("loss", 1.5, False),
        ("times_seen.count", 3, False),
        ("runtime_errors", 3, False),
        ("time_embedding", torch.ones(2), False),
    ],
)
def test_what_a_checkpoint_calls_a_time(key: str, value: object, is_one: bool) -> None:
    assert names_a_time(key, value) is is_one
