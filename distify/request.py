"""What `distify convert` is asked for, and what of it makes no sense."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from distify_codemods import Options

from distify.errors import DistifyError
from distify.notebooks import is_notebook
from distify.terminal import can_ask


@dataclass(frozen=True)
class Request:
    """What the user asked for. `show_only`: --diff or --check, which write nothing.

    shown_by: by the code of a rule, the check of --verify that has shown its changes right.
    """

    path: str
    settled: Options
    output: str | None
    yes: bool
    diff: bool
    check: bool
    in_place: bool
    force: bool
    verbose: bool = False
    shown_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def show_only(self) -> bool:
        return self.diff or self.check

    @property
    def may_write(self) -> bool:
        return not self.show_only and (self.yes or can_ask())

    @property
    def folder(self) -> str:
        """Where a copy of the project goes; empty if there is to be none."""
        output = self.output or ""
        return output if output.endswith(("/", os.sep)) or os.path.isdir(output) else ""

    @property
    def target(self) -> str:
        """Where the converted script goes: `train_dist.py` for `train.py` or `train.ipynb`, unless told otherwise."""
        stem, ending = os.path.splitext(self.path)
        if self.in_place or self.folder:
            return self.path
        return self.output or f"{stem}_dist{'.py' if self.is_notebook else ending}"

    @property
    def is_notebook(self) -> bool:
        return is_notebook(self.path)

    @property
    def options(self) -> Options:
        """A diff is of the files themselves: `patch` makes no twins."""
        twins = not (self.in_place or self.folder or self.diff)
        return replace(self.settled, twins=twins, output=self._shown_target if twins else "")

    @property
    def _shown_target(self) -> str:
        """The target, spelled like the script where it lies in the same folder."""
        folder = os.path.dirname(self.path)
        same = same_file(os.path.dirname(self.target) or ".", folder or ".")
        return os.path.join(folder, os.path.basename(self.target)) if same else self.target


def check_notebook(request: Request) -> None:
    """Raises DistifyError for what makes no sense where a notebook becomes a script."""
    if request.in_place:
        raise DistifyError(
            f"{request.path}: a notebook cannot be changed in place, because ranks are started from a script: "
            "leave out --in-place"
        )
    if request.folder or is_notebook(request.target):
        named = request.output or request.target
        raise DistifyError(f"{named}: the conversion of a notebook is a script: name a .py file")


def which_file(folder: str) -> str:
    """What to say to someone who named a folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError as error:
        return f"{folder}: cannot be read: {error.strerror}"
    if not names:
        return f"{folder}: is a folder without Python files"
    likely = next((name for word in ("train", "main") for name in names if word in name), names[0])
    return f"{folder}: is a folder: name the training script, like {os.path.join(folder, likely)}"


def same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.samefile(one, other)
