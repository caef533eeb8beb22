"""`distify bench`: real runs of a few steps; no test asks how long anything takes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import TRAIN, CommandLine, Ended, Here

from distify.bench.model import Link, all_reduce, exposed, link_of, predicted, price
from distify.bench.report import Report
from distify.bench.saying import sentences
from distify.bench.timings import PARTS, Message, Timings, middle_of
from distify.bench.units import bandwidth_of, latency_of, size_text, time_text
from distify.errors import DistifyError
from tests.grid import slow

FEW = ("--steps", "4", "--warm-up", "2")
#: With BatchNorm, a figure that decides in each step, an evaluation and a checkpoint between the epochs.
FULL = TRAIN
for before, after in (
    (b"= nn.Linear(8, 1)", b"= nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))"),
    (
        b"            optimizer.step()\n",
        b"            optimizer.step()\n            if loss.item() < 0:\n                return\n",
    ),
    (b"        print(", b"        evaluate(model, DataLoader(dataset, batch_size=32))\n        print("),
    (
        b"def main",
        b"def evaluate(model, loader):\n    model.eval()\n    with torch.no_grad():\n        for x, y in loader:\n"
        b"            model(x)\n    model.train()\n    torch.save(model.state_dict(), 'last.pt')\n\n\ndef main",
    ),
):
    FULL = FULL.replace(before, after, 1)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def report_of(ended: Ended) -> dict[str, Any]:
    assert (ended.code, ended.err) == (0, "")
    found: dict[str, Any] = json.loads(ended.out)
    return found


# ---- real runs


def test_a_script_on_one_and_two_ranks(here: Here, script: Path) -> None:
    script.write_bytes(FULL)
    before = files(script.parent)
    report = report_of(here("bench", "train.py", *FEW, "--json"))
    assert set(report) == {
        "script", "how", "machine", "scaling", "measured", "checked", "predicted", "notes", "sentences",
    }  # fmt: skip
    assert (report["script"], report["how"], report["scaling"]) == ("train.py", "converted here", "strong")
    one, two = report["measured"]
    for run, ranks in ((one, 1), (two, 2)):
        assert (run["ranks"], run["steps"], run["samples_of_a_rank"]) == (ranks, 4, 16 // ranks)
        assert tuple(run["parts_ms"]) == PARTS
        assert sum(run["parts_ms"].values()) == pytest.approx(run["step_ms"])
        assert run["parts_ms"]["loading"] > 0 < run["parts_ms"]["backward"]
        assert run["apart_s"]["evaluation"] > 0 < run["apart_s"]["checkpoints"]
    assert one["speed_up"] == 1
    assert one["parts_ms"]["batchnorm"] == one["parts_ms"]["gathering"] == 0
    assert all(two["parts_ms"][part] > 0 for part in ("gradients", "batchnorm", "figures"))
    assert report["sentences"]  # which ones depends on the machine, and on what else it does
    assert files(script.parent) == before


def test_forward_passes_that_are_shared_are_gathered(here: Here, script: Path) -> None:
    """And for them nothing is predicted: they check what the other ranks return."""
    report = report_of(here("bench", "train.py", *FEW, "--strategy", "shared", "--predict", "8", "--json"))
    assert report["checked"] == report["predicted"] == []
    assert any(note.startswith("nothing was predicted: ") for note in report["notes"])
    parts = report["measured"][1]["parts_ms"]
    assert parts["gathering"] > 0 < parts["gradients"]


def test_gradients_that_a_line_averages(here: Here, script: Path) -> None:
    report = report_of(here("bench", "train.py", *FEW, "--backend", "allreduce", "--json"))
    assert report["measured"][0]["parts_ms"]["gradients"] < report["measured"][1]["parts_ms"]["gradients"]


def test_a_prediction_by_a_process_alone(here: Here, script: Path) -> None:
    """Which has a rank's share of the batch; each rank keeps all of it with --weak."""
    script.write_bytes(FULL.replace(b"randn(64", b"randn(512"))
    network = ("--bandwidth", "10Gbit", "--latency", "50us")
    for more, samples in ((("--predict", "4"), 4), (("--predict", "4", "--weak"), 16), ((), 4)):
        report = report_of(here("bench", "train.py", "-np", "1", *FEW, *network, *more, "--json"))
        *less, found = report["predicted"]
        assert [one["ranks"] for one in less] == ([] if more else [2])
        assert (found["ranks"], found["here"], found["samples_of_a_rank"]) == (4, False, samples)
        assert (found["bandwidth_bytes_per_s"], found["latency_us"]) == (1.25e9, pytest.approx(50))
        assert sum(found["parts_ms"].values()) == pytest.approx(found["step_ms"])
        assert found["parts_ms"]["gradients"] > 0.1  # twice the latency, at least
        exchanges = 1 if "--weak" in more else 2  # each rank's batch by itself, or all ranks' both ways
        assert found["parts_ms"]["batchnorm"] > 0.1 * exchanges
        assert report["sentences"][-1].startswith("Predicted, where each rank has what one rank has here (")


@slow
def test_the_table_and_what_was_predicted_for_ranks_that_are_here(distify: CommandLine, script: Path) -> None:
    ended = distify("bench", "train.py", *FEW, "--predict", "8", "--plot", "steps.svg", "--trace", "traces")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.decode().splitlines()
    head = next(number for number, line in enumerate(lines) if line.lstrip().startswith("ranks"))
    assert lines[head].split() == [
        "ranks", "step", "ms", "loading", "forward", "backward", "all-reduce", "figures", "BatchNorm", "gathering",
        "other", "speed-up", "efficiency",
    ]  # fmt: skip
    rows = [line.split() for line in lines[head + 1 : head + 5]]
    assert [row[:2] if "predicted" in row else row[:1] for row in rows] == [
        ["1"], ["2"], ["2", "predicted"], ["8", "predicted"],
    ]  # fmt: skip
    assert "predicted for 2 ranks here: " in ended.out.decode()
    assert (script.parent / "steps.svg").read_bytes().startswith(b"<?xml")
    traces = script.parent / "traces"
    assert sorted(str(path.relative_to(traces)) for path in traces.rglob("*.json")) == [
        "1_ranks/rank0.json", "2_ranks/rank0.json", "2_ranks/rank1.json",
    ]  # fmt: skip
    assert json.loads((traces / "2_ranks" / "rank1.json").read_text())["traceEvents"]


# ---- what cannot be measured


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-np", "1,two"), "-np 1,two: numbers of ranks are wanted, like 1,2,4"),
        (("-np", "0"), "-np 0: numbers of ranks are wanted, like 1,2,4"),
        (
            ("--predict", "8", "--bandwidth", "fast"),
            "--bandwidth fast: a bandwidth is wanted, like 100Gbit or 12.5GB/s",
        ),
        (("--predict", "8", "--latency", "10"), "--latency 10: a time is wanted, like 10us or 0.5ms"),
        (("--trace", "train.py"), "train.py: is no folder"),
        (("--plot", "steps"), "steps: matplotlib goes by the end of the name, and there is none"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], message: str, here: Here, script: Path) -> None:
    ended = here("bench", "train.py", *options)
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith(f"distify: {message}")
    assert ended.err.count("\n") == 1


def test_more_ranks_than_are_sensible(here: Here, script: Path) -> None:
    ended = here("bench", "train.py", "-np", "4096")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: -np 4096 ")
    assert ended.err.endswith("; --oversubscribe starts them all the same\n")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            b"range(2)", b"range(1)",
            "train.py: ended after 4 steps, of which the first 4 do not count: it needs more epochs or smaller "
            "batches, by arguments behind --, or a smaller --warm-up",
        ),
        (
            b"range(2)", b"range(0)",
            "train.py: no training loop was seen: no optimizer of torch's took a step; does it need arguments "
            "(behind --)?",
        ),
        (b"for epoch", b"assert len(loader) < 0\n    for epoch", "train.py: rank 0 of the converted script "),
    ],
)  # fmt: skip
def test_scripts_that_cannot_be_measured(before: bytes, after: bytes, message: str, here: Here, script: Path) -> None:
    script.write_bytes(TRAIN.replace(before, after))
    ended = here("bench", "train.py", "-np", "1", "--steps", "4", "--warm-up", "4")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith(f"distify: {message}"), ended.err


def test_a_script_over_horovod(here: Here, script: Path) -> None:
    ended = here("bench", "train.py", "--backend", "horovod")
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith("distify: train.py: runs over Horovod, ")


def test_a_script_that_cannot_be_converted(here: Here, script: Path) -> None:
    script.write_bytes(b"import torch\nprint(torch.ones(2))\n")
    ended = here("bench", "train.py")
    assert (ended.code, ended.out) == (3, b"")
    assert ended.err.splitlines()[-1].endswith("there is no conversion to bench")


# ---- the arithmetic


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100Gbit", 12.5e9), ("100Gbit/s", 12.5e9), ("100Gb/s", 12.5e9), ("100Gbps", 12.5e9), ("12.5GB/s", 12.5e9),
        ("12.5 GB", 12.5e9), ("800Mbit", 1e8), ("1GiB/s", 2.0**30), ("8bit", 1.0),
    ],
)  # fmt: skip
def test_bandwidths(text: str, found: float) -> None:
    assert bandwidth_of(text) == found


@pytest.mark.parametrize("text", ["", "100", "Gbit", "100Gbits per second", "-1GB/s", "0Gbit", "1e9B/s"])
def test_what_is_no_bandwidth(text: str) -> None:
    with pytest.raises(DistifyError, match="a bandwidth is wanted"):
        bandwidth_of(text)


@pytest.mark.parametrize(
    ("text", "found"), [("10us", 1e-5), ("10µs", 1e-5), ("0.5ms", 5e-4), ("1 s", 1.0), ("500ns", 5e-7), ("0us", 0.0)]
)
def test_latencies(text: str, found: float) -> None:
    assert latency_of(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "10", "us", "10 minutes", "-1us"])
def test_what_is_no_latency(text: str) -> None:
    with pytest.raises(DistifyError, match="a time is wanted"):
        latency_of(text)


def test_figures_in_words() -> None:
    assert list(map(size_text, (12, 1.58e6, 2.5e9, 4096))) == ["12 bytes", "1.58 MB", "2.5 GB", "4.1 kB"]
    assert list(map(time_text, (1.5, 0.0123, 8.5e-5))) == ["1.5 s", "12.3 ms", "85 µs"]


LINK = Link(1e9, 1e-5)


def test_the_ring() -> None:
    """Two ranks send all bytes once, many twice; and each doubling takes one more exchange."""
    assert all_reduce(1e9, 2, Link(1e9, 0.0)) == 1.0
    assert all_reduce(1e9, 4, Link(1e9, 0.0)) == 1.5
    assert all_reduce(0, 8, LINK) == pytest.approx(3e-5)
    assert price(Message("gathering", "all-gather", 10**6, False), 4, LINK) == pytest.approx(3e-3 + 2e-5)
    assert price(Message("other", "broadcast", 10**6, False), 4, LINK) == pytest.approx(1e-3 + 2e-5)


@pytest.mark.parametrize("ranks", [2, 3, 4, 16])
def test_a_link_gives_back_the_collective_that_it_was_measured_by(ranks: int) -> None:
    link = link_of(ranks, 10**6, 1e-4, 3e-3, "")
    assert all_reduce(10**6, ranks, link) == pytest.approx(3e-3)
    assert all_reduce(0, ranks, link) == pytest.approx(1e-4)


def test_what_a_backward_pass_hides() -> None:
    assert exposed([1.0], [0.5], 10.0) == 0.5  # one bucket has nothing to hide behind
    assert exposed([1.0, 1.0], [4.0, 1.0], 10.0) == 1.0  # the first is there before the second is ready
    assert exposed([1.0, 1.0], [9.0, 1.0], 10.0) == 5.0  # they travel one after the other
    assert exposed([], [], 10.0) == 0.0


def timings(messages: list[Message], device: str) -> Timings:
    parts = dict.fromkeys(PARTS, 0.0) | {"loading": 0.001, "computing": 0.003, "backward": 0.01}
    return Timings(4, parts, 0, 0, 0.002, {}, 20, 10, 1, device, 8, 10**6, True, messages=[messages, messages])


def test_a_predicted_step() -> None:
    bucket, figure = Message("gradients", "all-reduce", 10**6, True), Message("figures", "all-reduce", 8, False)
    small = all_reduce(8, 4, LINK)
    large = all_reduce(10**6, 4, LINK)
    for here, device, gradients in ((True, "cpu", 2 * large), (True, "cuda", large), (False, "cpu", large)):
        found = predicted(timings([bucket, bucket, figure], device), LINK, here)
        assert found.parts["gradients"] == pytest.approx(0.002 + gradients), (here, device)  # waiting, too
        assert found.parts["figures"] == pytest.approx(small)
        assert found.step == pytest.approx(0.014 + 0.002 + gradients + small)


def test_the_middle_half_of_the_steps() -> None:
    assert middle_of([5.0, 1.0, 9.0, 4.0, 100.0, 3.0, 6.0, 7.0]) == [0, 3, 6, 7]
    assert middle_of([2.0, 1.0, 3.0]) == [0, 1, 2]
    assert middle_of([]) == []
    assert math.isclose(sum(middle_of([1.0] * 8)), sum(range(2, 6)))


@pytest.mark.parametrize(("weak", "one", "two", "believed"), [
    (False, 0.1, 0.06, True), (False, 0.1, 0.03, False), (True, 0.1, 0.1, True), (True, 0.1, 0.05, False),
])  # fmt: skip
def test_more_than_ranks_can_be_is_not_believed(weak: bool, one: float, two: float, believed: bool) -> None:
    """A machine that was busy while one rank was measured."""
    alone, both = (
        replace(timings([], "cpu"), ranks=ranks, parts=dict.fromkeys(PARTS, 0.0) | {"computing": step})
        for ranks, step in ((1, one), (2, two))
    )
    said = list(sentences(Report("train.py", "converted", "here", weak, [alone, both])))
    assert (said[0].startswith("2 ranks seem") and len(said) == 1) is not believed
    assert believed or "Measure again" in said[0]


@pytest.mark.parametrize(
    ("weak", "size", "waiting", "advice"),
    [
        (False, 10**8, 0.0, "a larger batch (--scale linear), a faster network, or gradients in half precision"),
        (True, 10**8, 0.0, "a larger batch, a faster network, or gradients in half precision"),
        (False, 10**4, 0.0, "a larger batch (--scale linear): so few bytes take their time by latency, which neither"),
        (False, 10**4, 0.05, "ranks that are as fast as each other (cores of their own, samples of one size), or a"),
    ],
)
def test_what_it_would_take_is_by_what_takes_the_time(weak: bool, size: int, waiting: float, advice: str) -> None:
    alone, both = (
        replace(
            timings([], "cuda"), ranks=ranks, parts=dict.fromkeys(PARTS, 0.0) | {"computing": 0.1} | more,
            size=size, waiting=waiting,
        )
        for ranks, more in ((1, {}), (2, {"gradients": 0.06}))
    )  # fmt: skip
    _, takes, _ = sentences(Report("train.py", "converted", "here", weak, [alone, both]))
    assert takes.startswith(f"It would take {advice}"), takes
