"""A run may go on where another left off, the original's or the converted one's, on any number of ranks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.equivalence.harness import Trace, assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT
from tests.grid import slow


@dataclass(frozen=True)
class Resumes:
    """`loads`: put after the line that begins with `anchor`, for scripts that have no option of their own."""

    name: str
    file: str  # the checkpoint
    anchor: str = ""
    loads: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


def _loads(name: str, file: str, anchor: str, *loads: str) -> Resumes:
    return Resumes(name, file, anchor, loads)


SCRIPTS = (
    Resumes("argparse_main", "runs/best.pt", first=("--epochs", "2"),
            later=("--epochs", "4", "--resume", "runs/best.pt"),
            last=("--epochs", "5", "--resume", "runs/best.pt")),
    Resumes("stripes", "checkpoint.pth.tar", first=("--epochs", "1"),
            later=("--epochs", "2", "--resume", "checkpoint.pth.tar"),
            last=("--epochs", "3", "--resume", "checkpoint.pth.tar")),
    _loads("blobs", "blobs.pt", "optimizer = ",
           "model.load_state_dict(state['model'])", "optimizer.load_state_dict(state['optimizer'])"),
    _loads("buckets", "reader.pt", "optimizer = ", "model.load_state_dict(state)"),
    _loads("drawn_batches", "ring.pt", "sched = ",
           "net.load_state_dict(state['net'])", "optimizer.load_state_dict(state['optimizer'])"),
    _loads("endless", "net.pt", "step = 0", "net.load_state_dict(state)"),
    _loads("flag_function", "best.pt", "self.optimizer = ", "self.model.load_state_dict(state)"),
    _loads("flat", "stripes_cnn.pth", "optimizer = ", "model.load_state_dict(state)"),
    _loads("globals", "checkpoint/ckpt.pth", "optimizer = ", "net.load_state_dict(state['net'])"),
    _loads("kwargs_loaders", "wavenet.pt", "opt = ", "model.load_state_dict(state)"),
    _loads("loader_class", "rings.pt", "optimizer = ", "model.load_state_dict(state)"),
    _loads("logs", "best.pt", "optimizer = ", "model.load_state_dict(state)"),
    _loads("own_updates", "curve.pt", "speed = ", "net.load_state_dict(state)"),
    _loads("phases", "best_weights.pt", "optimizer_ft = ", "net.load_state_dict(state)"),
    _loads("rare_classes", "spirals.pt", "optimizer = ", "net.load_state_dict(state)"),
    _loads("settled", "learner.pt", "self.rule = ", "self.learner.load_state_dict(state)"),
    _loads("stopper", "kept.pt", "optimizer = ",
           "net.load_state_dict(state['net'])", "optimizer.load_state_dict(state['optimizer'])"),
    _loads("stream", "sensors.pt", "optimizer = ",
           "model.load_state_dict(state['model'])", "optimizer.load_state_dict(state['optimizer'])"),
    _loads("text_columns", "reader.pt", "optimizer = ", "reader.load_state_dict(state)"),
    _loads("training_accuracy", "net.pt", "adam = ", "net.load_state_dict(state['net'])"),
    _loads("two_networks", "two_networks.pt", "opt = ",
           "encoder.load_state_dict(state['encoder'])", "aux.load_state_dict(state['aux'])"),
    _loads("written_out", "lenet.pt", "optimizer = ", "model.load_state_dict(state)"),
)  # fmt: skip


def _script(case: Resumes, folder: Path) -> Path:
    """The fixture, which goes on from its checkpoint where there is one."""
    text = (ROOT / "fixtures" / case.name / "train.py").read_text(encoding="utf-8")
    if case.anchor:
        [line] = [one for one in text.splitlines(keepends=True) if one.lstrip().startswith(case.anchor)]
        space = line[: -len(line.lstrip())]
        body = "".join(f"{space}    {one}\n" for one in (f"state = torch.load({case.file!r})", *case.loads))
        text = text.replace(line, f"{line}{space}if os.path.exists({case.file!r}):\n{body}")
        text = text.replace("import torch\n", "import os\nimport torch\n", 1)
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return path


def _converted(script: Path) -> Path:
    from distify_codemods import Level, Options, Outcome, SourceFile, convert  # only these tests need libcst

    conversion = convert(SourceFile("train.py", script.read_bytes()), lambda *_: None, Options())
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    path = script.with_name("train_dist.py")
    path.write_bytes(conversion.files[0].after)
    return path


def _beside(checkpoint: Path, case: Resumes, folder: Path) -> Path:
    """A working folder in which there is that checkpoint and nothing else."""
    target = folder / case.file
    target.parent.mkdir(parents=True)
    shutil.copyfile(checkpoint, target)
    return folder


#: With an option for it, and without one; with BatchNorm, and with the state of an optimizer.
KEPT = ("argparse_main", "stopper")
BY_TWO = [pytest.param(case, (2,), id=f"{case.name}-2") for case in SCRIPTS if case.name in KEPT]
ALL = [pytest.param(case, (1, 2, 4), id=f"{case.name}-1, 2 and 4", marks=slow) for case in SCRIPTS]


@pytest.mark.parametrize(("case", "worlds"), [*BY_TWO, *ALL])
def test_goes_on_from_the_others_file(case: Resumes, worlds: tuple[int, ...], tmp_path: Path) -> None:
    """original -> converted, on so many ranks -> original, against original -> original -> original."""
    script = _script(case, tmp_path)
    twin = _converted(script)
    run_original(script, case.first, tmp_path / "first")
    begun = tmp_path / "first" / case.file
    follows = run_original(script, case.later, _beside(begun, case, tmp_path / "original"))
    theirs = _last(case, script, tmp_path / "original")
    for ranks in worlds:
        converted = tmp_path / f"converted {ranks}"
        assert_equivalent(follows, run_converted(twin, case.later, ranks, _beside(begun, case, converted)))
        _go_on_alike(_last(case, script, converted), theirs)


def _last(case: Resumes, script: Path, folder: Path) -> Trace:
    """The original, from where the run in a folder left off."""
    after = _beside(folder / case.file, case, folder.with_name(f"after {folder.name}"))
    return run_original(script, case.last, after)


def _go_on_alike(ours: Trace, theirs: Trace) -> None:
    assert ours.evaluation_lines == theirs.evaluation_lines
    assert len(ours.steps) == len(theirs.steps)
    for (_, mine), (_, wanted) in zip(ours.steps, theirs.steps, strict=True):
        assert (mine - wanted).abs().max().item() <= 1e-9  # rounding, over three runs
