"""A run may go on where another left off, the original's or the converted one's, on any number of ranks."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.equivalence.harness import Trace, assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT


@dataclass(frozen=True)
class Resumes:
    """`loads`: lines that are put after the line with `anchor`, for scripts that have no option of their own."""

    name: str
    file: str  # the checkpoint
    anchor: str = ""
    loads: str = ""
    first: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


def _loads(file: str, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in ("import torch", f"state = torch.load({file!r})", *lines))
    return f"import os\nif os.path.exists({file!r}):\n{body}"


NET = "net.load_state_dict(state)"
SCRIPTS = (
    Resumes("argparse_main", "runs/best.pt", first=("--epochs", "2"),
            later=("--epochs", "4", "--resume", "runs/best.pt"),
            last=("--epochs", "5", "--resume", "runs/best.pt")),
    Resumes("stripes", "checkpoint.pth.tar", first=("--epochs", "1"),
            later=("--epochs", "2", "--resume", "checkpoint.pth.tar"),
            last=("--epochs", "3", "--resume", "checkpoint.pth.tar")),
    Resumes("drawn_batches", "ring.pt", "sched = ", _loads(
        "ring.pt", "net.load_state_dict(state['net'])", "optimizer.load_state_dict(state['optimizer'])")),
    Resumes("flat", "stripes_cnn.pth", "optimizer = ", _loads("stripes_cnn.pth", "model.load_state_dict(state)")),
    Resumes("rare_classes", "spirals.pt", "optimizer = ", _loads("spirals.pt", NET)),
    Resumes("stream", "sensors.pt", "optimizer = ", _loads(
        "sensors.pt", "model.load_state_dict(state['model'])", "optimizer.load_state_dict(state['optimizer'])")),
    Resumes("stopper", "kept.pt", "optimizer = ", _loads(
        "kept.pt", "net.load_state_dict(state['net'])", "optimizer.load_state_dict(state['optimizer'])")),
    Resumes("text_columns", "reader.pt", "optimizer = ", _loads("reader.pt", "reader.load_state_dict(state)")),
    Resumes("training_accuracy", "net.pt", "adam = ", _loads("net.pt", "net.load_state_dict(state['net'])")),
    Resumes("two_networks", "two_networks.pt", "opt = ", _loads(
        "two_networks.pt", "encoder.load_state_dict(state['encoder'])", "aux.load_state_dict(state['aux'])")),
)  # fmt: skip


def _script(case: Resumes, folder: Path) -> Path:
    """The fixture, which goes on from its checkpoint where there is one."""
    text = (ROOT / "fixtures" / case.name / "train.py").read_text(encoding="utf-8")
    if case.anchor:
        (line,) = [one for one in text.splitlines(keepends=True) if one.startswith(case.anchor)]
        text = text.replace(line, line + case.loads)
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


@pytest.mark.parametrize("case", SCRIPTS, ids=lambda case: case.name)
def test_goes_on_from_the_others_file(case: Resumes, tmp_path: Path) -> None:
    """original -> converted, on 1, 2 and 4 ranks -> original, against original -> original -> original."""
    script = _script(case, tmp_path)
    twin = _converted(script)
    run_original(script, case.first, tmp_path / "first")
    begun = tmp_path / "first" / case.file
    follows = run_original(script, case.later, _beside(begun, case, tmp_path / "original"))
    theirs = _last(case, script, tmp_path / "original")
    for ranks in (1, 2, 4):
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
