"""`distify verify` looks at what both draw as chance has it: who draws the noise of which samples, and of which law."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest
from distify_runtime.trace import chance
from distify_runtime.trace.compare import Check, Difference, Tolerance, compare
from distify_runtime.trace.draws import Drawn, load_draws
from distify_runtime.trace.traces import Trace

from tests.equivalence.harness import run_converted, run_original

SCRIPT = """\
import random
import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self):
        draw = torch.Generator().manual_seed(1)
        self.x = torch.randn(64, 6, generator=draw)
        self.y = (self.x.sum(dim=1) > 0).long()

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.x[index] + 0.1 * torch.rand(6), int(self.y[index])


def shifted(worker):
    pass


torch.manual_seed(3)
loader = DataLoader(Blobs(), batch_size=16, shuffle=True, num_workers=2, worker_init_fn=shifted)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for epoch in range(2):
    for x, y in loader:
        x = x.float() + 0.1 * torch.randn_like(x)
        x = x + torch.tensor(numpy.random.normal(0.0, 0.1, x.shape)).to(x)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
LOOK = ["--chance", "--workers", "2", "--steps", "8"]


@dataclass(frozen=True)
class Pair:
    converted: str
    original: list[Drawn]


def draws(folder: Path, rank: int) -> list[Drawn]:
    return load_draws(folder.with_name(f"{folder.name}.trace") / f"{rank}.draws")


def original(text: str, folder: Path, strategy: Literal["auto", "sharded", "shared"] = "auto") -> Pair:
    from distify_codemods import Options, SourceFile, convert  # only these tests need libcst

    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(text, encoding="utf-8")
    (new,) = convert(SourceFile("train.py", text.encode()), lambda *_: None, Options(strategy=strategy)).files
    run_original(folder / "train.py", [], folder / "base", LOOK)
    return Pair(new.after.decode(), draws(folder / "base", 0))


def looked_at(pair: Pair, converted: str, folder: Path, shared: bool = False) -> Check:
    (folder / "train_dist.py").write_text(converted, encoding="utf-8")
    run_converted(folder / "train_dist.py", [], 2, folder / "dist", LOOK)
    return chance.noise(pair.original, [draws(folder / "dist", rank) for rank in range(2)], shared)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return original(SCRIPT, tmp_path_factory.mktemp("pair"))


EVALUATED = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
training, held_out = (TensorDataset(torch.randn(n, 6), torch.randn(n, 1)) for n in (64, 16))
loader = DataLoader(training, batch_size=16, shuffle=True)
others = DataLoader(held_out, batch_size=8)
model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
best = 9.0
for epoch in range(2):
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = 0.0
    with torch.no_grad():
        for x, y in others:
            total += F.mse_loss(model(x), y).item()
    if total < best:
        best = total
        torch.save(model.state_dict(), "best.pt")
"""


def test_what_all_ranks_draw_alike_in_an_evaluation_is_no_noise_of_shares(tmp_path: Path) -> None:
    """Dropout is left on in it; its batches are as large as a rank's share in training."""
    evaluated = original(EVALUATED, tmp_path)
    assert "rt.alike(" in evaluated.converted
    found = looked_at(evaluated, evaluated.converted, tmp_path)
    assert found.difference is None, found
    assert not found.empty


PROBED = (
    EVALUATED.partition("best =")[0]
    + """\
x, y = next(iter(loader))
print(model(x).shape)
for epoch in range(2):
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)


@pytest.mark.parametrize("seeded", [True, False])
def test_a_forward_pass_of_a_whole_batch_before_training_is_no_noise_of_shares(seeded: bool, tmp_path: Path) -> None:
    """All ranks have that batch, and draw alike for it; what they draw for their shares behind it is judged as ever."""
    text = PROBED if seeded else PROBED.replace("torch.manual_seed(3)\n", "")
    probed = original(text, tmp_path)
    assert probed.converted.count("rt.seed_ranks_apart()") == 1
    found = looked_at(probed, probed.converted, tmp_path)
    assert found.difference is None, found
    assert not found.empty
    (tmp_path / "alike").mkdir()
    found = looked_at(probed, probed.converted.replace("rt.seed_ranks_apart()", "pass"), tmp_path / "alike")
    assert found.difference is not None
    assert SAME in found.difference.message
    assert "seeded alike again" in found.difference.hint


def unwrapped(*dropouts: tuple[int, int, int]) -> Trace:
    """Of a run without DistributedDataParallel: the step, the place, and how many numbers it goes over."""
    return Trace([], [], [], [], [], 2, 8, False, dropouts=list(dropouts))


def test_dropout_of_a_whole_batch_before_training_is_drawn_alike_by_right() -> None:
    """In the runs whose parameters are compared, where of dropout its place in the stream is left."""

    def told(*ranks: Trace) -> Difference | None:
        checks = compare(unwrapped((1, 7, 128), (1, 8, 128)), ranks, Tolerance())
        return next(check for check in checks if check.name == "noise").difference

    assert told(unwrapped((1, 7, 128), (1, 8, 64)), unwrapped((1, 7, 128), (1, 9, 64))) is None
    alike = unwrapped((1, 7, 128), (1, 8, 64))
    difference = told(alike, alike)
    assert difference is not None
    assert difference.message == "ranks 0 and 1 draw the same dropout"


def test_each_rank_draws_its_own(pair: Pair, tmp_path: Path) -> None:
    """Dropout, noise of torch and of NumPy, and what the workers of loaders draw."""
    sources = {one.source for one in pair.original}
    assert {"bernoulli_", "randn_like", "numpy.random.normal", "rand in worker 0", "rand in worker 1"} <= sources
    found = looked_at(pair, pair.converted, tmp_path)
    assert found.difference is None, found
    assert not found.empty
    assert "each rank draws its own, as one process does (p = " in found.found


@pytest.mark.parametrize("drawn", ["torch.randn_like(x)", "torch.tensor(numpy.random.normal(0.0, 0.1, x.shape))"])
def test_what_rank_0_sends_to_all_is_the_same_noise_for_each_share(drawn: str, pair: Pair, tmp_path: Path) -> None:
    assert pair.converted.count(drawn) == 1
    found = looked_at(pair, pair.converted.replace(drawn, f"rt.from_main_process({drawn})"), tmp_path)
    assert found.difference is not None, found
    assert "ranks 0 and 1 draw the same noise (`" in found.difference.message


PARTS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Sequential(nn.Dropout(0.3), nn.Linear(6, 2))

    def forward(self, x):
        return self.out(x + 0.1 * torch.randn_like(x))


torch.manual_seed(3)"""


@pytest.mark.parametrize("seeded", [False, True])
def test_of_shared_passes_only_the_parts_are_judged(seeded: bool, tmp_path: Path) -> None:
    """What is drawn outside of them is alike; a model that seeds at each call makes its parts alike, too."""
    text = SCRIPT.replace("torch.manual_seed(3)", PARTS).replace(
        "model = nn.Sequential(nn.Linear(6, 8)", "model = Net()\n_ = (nn.Linear(6, 8)"
    )
    if seeded:
        text = text.replace("        return self.out", "        torch.manual_seed(9)\n        return self.out")
    shared = original(text, tmp_path, "shared")
    found = looked_at(shared, shared.converted, tmp_path, shared=True)
    assert (found.difference is not None) == seeded, found
    assert seeded or not found.empty
    assert found.difference is None or "ranks 0 and 1 draw the same noise" in found.difference.message


SAME = "draw the same noise"
MISTAKES = {
    # name: what is replaced, by what; parts of the message, of the hint
    "alike": ("rt.seed_ranks_apart()", "pass", (SAME, "ranks 0 and 1"), "seed_ranks_apart"),
    "a seed in the loop": (
        "        x = x.float()", "        torch.manual_seed(len(x))\n        x = x.float()",
        (SAME, "randn_like"), "seed_ranks_apart",
    ),
    "numpy": (
        "        x = x.float()", "        numpy.random.seed(epoch)\n        x = x.float()",
        (SAME, "numpy.random.normal"), "",
    ),
    "workers": (
        "def shifted(worker):\n    pass", "def shifted(worker):\n    torch.manual_seed(worker)",
        (SAME, "rand in worker"), "worker_init_fn",
    ),
    "half of the dropout": (
        "Dropout(0.3)", "Dropout(0.3 / 2)", ("`bernoulli_`", "distributed otherwise"), "number of ranks",
    ),
    "a spread": (
        "normal(0.0, 0.1,", "normal(0.0, 0.2,", ("`numpy.random.normal`", "distributed otherwise"), "number of ranks",
    ),
    "of rank 0": (
        "torch.randn_like(x)",
        "rt.from_main_process(torch.randn_like(x) if rt.is_main_process() else torch.ones_like(x))",
        ("rank 1 draws none of the noise (`randn_like`)",), "sends to the others",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str, pair: Pair, tmp_path: Path) -> None:
    right, wrong, told, hint = MISTAKES[name]
    assert pair.converted.count(right) == 1
    difference = looked_at(pair, pair.converted.replace(right, wrong), tmp_path).difference
    assert difference is not None
    assert all(part in difference.message for part in told), difference
    assert hint in difference.hint


#: What may be drawn by all ranks alike, or by each for itself; the noise on weights is told of, if it is.
WHOLE = {
    "a choice for the batch": ("0.1 * torch.randn_like(x)", "torch.rand(1)"),
    "noise on weights": ("0.1 * torch.randn_like(x)", "(x @ torch.randn_like(model[0].weight).T).mean()"),
    "an order": ("0.1 * torch.randn_like(x)", "0.1 * x[torch.randperm(len(x))]"),
    "nothing": ("0.1 * torch.randn_like(x)", "0.1"),
}


@pytest.mark.parametrize(("name", "apart"), [*((name, True) for name in WHOLE), ("noise on weights", False)])
def test_what_is_not_noise_of_samples(name: str, apart: bool, tmp_path: Path) -> None:
    text = SCRIPT.replace(*WHOLE[name]).replace(" + 0.1 * torch.rand(6)", "").replace("Dropout(0.3)", "Identity()")
    text = text.replace("        x = x + torch.tensor(numpy.random.normal(0.0, 0.1, x.shape)).to(x)\n", "")
    converted = original(text, tmp_path, "sharded")
    mine = converted.converted.replace("rt.seed_ranks_apart()", "pass")
    mine = mine.replace("for epoch", f"torch.manual_seed({'rt.rank()' if apart else 0})\nfor epoch")
    seen = looked_at(converted, mine, tmp_path)
    assert seen.empty
    told = " by each rank for itself: no loss may hang on that" in seen.found
    assert told is (name == "noise on weights" and apart)


def drawn(seed: int, rows: int, spread: float = 1.0, place: str = "") -> list[Drawn]:
    source = random.Random(seed)
    return [
        Drawn(
            step,
            "randn",
            "",
            (rows, 4),
            place or f"{seed}/{step}",
            tuple(source.gauss(0, spread) for _ in range(4 * rows)),
        )
        for step in range(1, 9)
    ]


def test_false_alarms_are_as_rare_as_they_are_said_to_be() -> None:
    """Of two hundred right runs, in dropout of few samples: none, and small chances no more often than that."""
    chances = []
    for seed in range(200):
        source = random.Random(seed)

        def masks(rows: int, name: str, source: random.Random = source) -> list[Drawn]:
            numbers = [tuple(float(source.random() < 0.9) for _ in range(4 * rows)) for _ in range(8)]
            return [
                Drawn(step, "bernoulli_", "0.9", (rows, 4), f"{name}{step}", one) for step, one in enumerate(numbers)
            ]

        found = chance.noise(masks(4, "a"), [masks(2, "b"), masks(2, "c")])
        assert found.difference is None
        chances.append(float(found.found.partition("p = ")[2][:-1]))
    assert sum(one < 0.05 for one in chances) <= 10
    assert sum(one < 0.5 for one in chances) <= 100


def test_numbers_that_go_together_from_streams_of_their_own() -> None:
    """Whatever they come from: the places of the streams are others."""
    ours = drawn(1, 4)
    theirs = [Drawn(**{**vars(one), "place": f"{one.place}, elsewhere"}) for one in ours]
    difference = chance.noise(drawn(0, 8), [ours, theirs]).difference
    assert difference is not None
    assert "ranks 0 and 1 draw the same noise (`randn`) for different samples (p = " in difference.message
    assert chance.noise(drawn(0, 8), [ours, drawn(2, 4)]).difference is None


def test_a_law_that_follows_from_a_rank_s_own_batch_is_not_judged() -> None:
    ours, theirs = (
        [
            Drawn(**{**vars(one), "law": str(rank), "numbers": tuple(rank + n for n in one.numbers)})
            for one in drawn(rank, 4)
        ]
        for rank in (1, 2)
    )
    assert chance.noise(drawn(0, 8), [ours, theirs]).difference is None


def samples(first: int, count: int) -> list[Drawn]:
    """Of a data set that draws one number for each sample."""
    return [
        Drawn(1, "rand", "", (1,), f"place {first + n}", (random.Random(first + n).random(),)) for n in range(count)
    ]


def test_a_batch_that_all_ranks_load_before_training_is_no_share() -> None:
    probe = samples(0, 32)
    original, ranks = [*probe, *samples(32, 32)], [[*probe, *samples(100, 16)], [*probe, *samples(200, 16)]]
    found = chance.noise(original, ranks)
    assert found.difference is None
    assert found.found is not None
    assert found.found.startswith("32 numbers: each rank draws its own")


@pytest.mark.parametrize("probe", [[], samples(0, 8)])
def test_ranks_that_draw_what_the_original_has_drawn_share_nothing_out(probe: list[Drawn]) -> None:
    alike = [*probe, *samples(32, 16)]
    difference = chance.noise([*probe, *samples(32, 32)], [alike, alike]).difference
    assert difference is not None
    assert "ranks 0 and 1 draw the same noise (`rand`) for different samples" in difference.message


def test_a_large_probe_hides_no_ranks_that_draw_alike_later() -> None:
    def run(probe: int, batch: int) -> list[Drawn]:
        later = [replace(one, step=2) for one in samples(probe + batch, batch)]
        return [*samples(0, probe + batch), *later]

    difference = chance.noise(run(64, 32), [run(64, 16)] * 2).difference
    assert difference is not None
    assert difference.step == 2
    apart = [*samples(0, 64), *samples(100, 16), *[replace(one, step=2) for one in samples(200, 16)]]
    other = [*samples(0, 64), *samples(300, 16), *[replace(one, step=2) for one in samples(400, 16)]]
    assert chance.noise(run(64, 32), [apart, other]).difference is None


@pytest.mark.parametrize("rows", [32, 16, 8])
def test_a_whole_batch_may_be_as_large_as_a_share(rows: int) -> None:
    def masks(seed: int, rows: int) -> Drawn:
        return replace(drawn(seed, rows)[0], place=f"{seed}")

    ranks = [[masks(1, rows), masks(seed, 8)] for seed in (2, 3)]
    assert chance.noise([masks(1, rows), masks(4, 16)], ranks).difference is None
    alike = [masks(1, rows), masks(2, 8)]
    difference = chance.noise([masks(1, rows), masks(2, 16)], [alike, alike]).difference
    assert difference is not None
    assert SAME in difference.message
