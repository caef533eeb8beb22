"""`distify convert`: shows the diff and the checklist, asks, writes."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass

import click
from distify_codemods import Conversion, NewFile, Options, Outcome

from distify.checklist import checklist, summary
from distify.diff import unified
from distify.engine import BACKENDS, convert_script, needs_person
from distify.errors import DistifyError, ExitCode
from distify.files import Write, check_target, content, read_script, write_all
from distify.preview import preview
from distify.resolver import LocalModules
from distify.terminal import ask, can_ask, is_terminal, put, say, show, width


@dataclass(frozen=True)
class Request:
    """What the user asked for. `show_only`: --diff or --check, which write nothing."""

    path: str
    options: Options
    output: str | None
    yes: bool
    diff: bool
    check: bool
    in_place: bool
    force: bool

    @property
    def show_only(self) -> bool:
        return self.diff or self.check

    @property
    def may_write(self) -> bool:
        return not self.show_only and (self.yes or can_ask())

    @property
    def target(self) -> str:
        """Where the converted script goes: `train_dist.py` for `train.py`, unless told otherwise."""
        stem, ending = os.path.splitext(self.path)
        return self.path if self.in_place else self.output or f"{stem}_dist{ending}"


@click.command()
@click.argument("path")
@click.option("--backend", type=click.Choice(BACKENDS), default="ddp", show_default=True)
@click.option("--yes", "-y", is_flag=True, help="Write without asking.")
@click.option("--diff", is_flag=True, help="Print the diff for patch or git apply on stdout; write nothing.")
@click.option("--output", "-o", metavar="FILE", help="Write FILE instead of PATH with _dist in its name.")
@click.option("--in-place", is_flag=True, help="Change PATH itself (and its local modules if need be).")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if there is something to convert.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there already.")
@click.option("--partial", is_flag=True, help="Write although something needs you; comments say where.")
@click.pass_context
def convert(
    ctx: click.Context,
    path: str,
    backend: str,
    partial: bool,
    yes: bool,
    diff: bool,
    output: str | None,
    in_place: bool,
    check: bool,
    force: bool,
) -> None:
    """Turn the training script PATH into a distributed one that takes the same steps.

    Shows the diff with the reason of each change, then the checklist of every step that distribution needs,
    and asks before it writes. PATH is never run. Without a terminal and without --yes, nothing is written.

    \b
    Examples:
      distify convert train.py                    asks, then writes train_dist.py
      distify convert train.py --yes -o ddp.py    for scripts: writes ddp.py
      distify convert train.py --diff > ddp.patch
      distify convert train.py --in-place         changes train.py itself
      distify convert train.py --check            for CI: exit 1 if unconverted

    \b
    Exit codes: 0 done, 1 --check found work, 2 bad input,
                3 something needs you (nothing is written without --partial).
    """
    if output and in_place:
        raise click.UsageError("--output and --in-place exclude each other.")
    if yes and (diff or check):
        raise click.UsageError("--diff and --check write nothing: --yes does not go with them.")
    if os.path.isdir(path):
        raise DistifyError(_which_file(path))
    script = read_script(path)
    request = Request(script.path, Options(backend, partial), output, yes, diff, check, in_place, force)
    if not in_place and _same_file(request.target, script.path):
        raise DistifyError(f"{request.target} is the script itself; --in-place changes it")
    if request.may_write:
        check_target(request.target)
    modules = LocalModules(script.path)
    ctx.exit(_finish(request, convert_script(script, modules, request.options), modules))


def _which_file(folder: str) -> str:
    """What to say to someone who named a folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError as error:
        return f"{folder}: cannot be read: {error.strerror}"
    if not names:
        return f"{folder}: is a folder without Python files"
    likely = next((name for word in ("train", "main") for name in names if word in name), names[0])
    return f"{folder}: is a folder: name the training script, like {os.path.join(folder, likely)}"


def _finish(request: Request, conversion: Conversion, modules: LocalModules) -> ExitCode:
    """Shows what was found and writes what is to be written."""
    done = ExitCode.NEEDS_PERSON if needs_person(conversion) else ExitCode.DONE
    if done is ExitCode.NEEDS_PERSON and not (request.options.partial and conversion.files):
        show(checklist(conversion.findings, width(sys.stderr)), err=True)
        say(_why_nothing_is_written(request, conversion))
        return done
    if conversion.outcome is Outcome.ALREADY_CONVERTED or not conversion.files:
        say(f"{request.path}: {conversion.outcome.value}; nothing to do")
        return done
    writes = [_write_of(file, request) for file in conversion.files]
    if (request.may_write or request.check) and all(_is_up_to_date(write) for write in writes):
        say(f"{request.target} is there already, and up to date")
        return done
    if request.may_write:
        _check_writes(writes, request)
    _show(request, conversion)
    if request.check:
        say(f"{request.path}: would be converted; nothing was written")
        return done or ExitCode.WORK_TO_DO
    if not _is_wanted(request, writes):
        return done
    write_all(writes)
    _say_how_to_run(request, writes, modules, done)
    return done


def _show(request: Request, conversion: Conversion) -> None:
    if request.diff or not request.check:
        for file in conversion.files:
            if is_terminal(sys.stdout) and not request.diff:
                show(preview(file, width(sys.stdout) or 80), err=False)
            else:
                put(unified(file))
    show(checklist(conversion.findings, width(sys.stderr)), err=True)
    say(summary(conversion.findings))


def _write_of(file: NewFile, request: Request) -> Write:
    if file.path == request.path and not request.in_place:
        return Write(request.target, file.after, mode_of=request.path, force=request.force)
    is_new = not file.before and not os.path.lexists(file.path)
    expected = None if is_new else file.before
    return Write(file.path, file.after, mode_of=request.path if is_new else file.path, expected=expected)


def _is_up_to_date(write: Write) -> bool:
    return os.path.isfile(write.path) and os.access(write.path, os.R_OK) and content(write.path) == write.data


def _check_writes(writes: list[Write], request: Request) -> None:
    """Raises DistifyError where writing would fail, before the user has read a long diff."""
    others = [write.path for write in writes if write.expected is not None]
    if others and not request.in_place:
        raise DistifyError(
            f"{request.path}: {', '.join(others)} would have to change, too: --in-place changes all of them, "
            "--diff shows the changes"
        )
    for write in writes:
        check_target(write.path)
        if write.expected is None and not write.force and os.path.lexists(write.path):
            raise DistifyError(f"{write.path} exists already: --force overwrites it, -o names another")


def _is_wanted(request: Request, writes: list[Write]) -> bool:
    if request.show_only:
        return False
    if request.yes:
        return True
    names = " and ".join(write.path for write in writes)
    if not can_ask():
        options = "--yes" if len(writes) == 1 or request.in_place else "--in-place --yes"
        say(f"nothing was written: no terminal to ask at; {options} writes {names}")
        return False
    if ask(f"write {names}?"):
        return True
    say("nothing was written")
    return False


def _why_nothing_is_written(request: Request, conversion: Conversion) -> str:
    text = f"{summary(conversion.findings)}; nothing was written"
    if request.options.partial or any(finding.code.startswith("REFUSE") for finding in conversion.findings):
        return text
    return f"{text} (--partial writes the rest, with a comment at each place that needs you)"


def _say_how_to_run(request: Request, writes: list[Write], modules: LocalModules, done: ExitCode) -> None:
    script = shlex.quote(request.target)
    say(f"wrote {', '.join(write.path for write in writes)}")
    if done is ExitCode.NEEDS_PERSON:
        say("it is not finished: look for the comments '# distify: needs you'")
    folder = os.path.dirname(os.path.abspath(request.path))
    if modules.found and not _same_file(os.path.dirname(request.target) or ".", folder):
        say(f"it imports modules from {folder}: have that folder in PYTHONPATH when it runs")
    say(f"`python {script} ...` still runs it in one process; on two ranks:")
    say(f"  distify run -np 2 {script} ...")


def _same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.samefile(one, other)
