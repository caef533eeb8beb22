"""`distify convert`: shows the diff and the checklist, asks, writes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from distify_codemods import Conversion, NewFile, Options, Outcome

from distify.checklist import checklist, summary
from distify.commands.arguments import WithArguments
from distify.config import options_for
from distify.diff import unified
from distify.engine import convert_script, needs_person
from distify.errors import DistifyError, ExitCode, told_if_interrupted
from distify.files import Write, check_target, file_of_module, read_script, write_all
from distify.layout import Layout, beside, conflicts, copied, in_place
from distify.others import others_of
from distify.preview import preview
from distify.request import Request, check_notebook, same_file, which_file
from distify.resolver import LocalModules
from distify.settling import scaling, settling, spelling
from distify.terminal import ask, is_terminal, put, say, show, width

if TYPE_CHECKING:
    from distify.verification.proof import Proof


@click.command(cls=WithArguments)
@click.argument("path")
@click.option("-m", "--module", is_flag=True, help="PATH is a module's name, as for `python -m`.")
@click.option("--yes", "-y", is_flag=True, help="Write without asking.")
@click.option("--diff", is_flag=True, help="Print the diff for patch or git apply on stdout; write nothing.")
@click.option(
    "--output", "-o", metavar="FILE|DIR/", help="Write FILE instead of PATH with _dist in its name; or copy to DIR/."
)
@click.option("--in-place", is_flag=True, help="Change PATH itself, and its local modules where need be.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if there is something to convert.")
@click.option("--verify", is_flag=True, help="Run both first, with what stands behind --; write only what is proved.")
@click.option("--verbose", "-v", is_flag=True, help="Also list what is not needed, and why.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there already.")
@click.option("--partial", is_flag=True, help="Write although something needs you; comments say where.")
@spelling
@scaling
@settling
@click.pass_context
@told_if_interrupted()
def convert(
    ctx: click.Context,
    path: str,
    module: bool,
    backend: str | None,
    strategy: str | None,
    compression: str,
    op: str,
    partial: bool,
    yes: bool,
    diff: bool,
    output: str | None,
    in_place: bool,
    check: bool,
    force: bool,
    verify: bool,
    verbose: bool,
    models: tuple[str, ...],
    train_loaders: tuple[str, ...],
    scale: str | None,
    warmup_epochs: int | None,
    budget: int,
) -> None:
    """Turn the training script PATH into a distributed one that takes the same steps.

    Shows the diff with the reason of each change, then the checklist of every step that distribution needs,
    and asks before it writes. PATH is never run, but for --verify. Without a terminal and without --yes, nothing
    is written (exit code 4).

    Local modules that PATH imports are converted with it, where they need it: beside themselves, as
    <name>_dist.py, with the imports pointed at those; with --in-place, under their own names; with -o DIR/, in
    a copy of the project. All files are written, or none.

    \b
    Examples:
      distify convert train.py                    asks, then writes train_dist.py
      distify convert train.py --yes -o ddp.py    for scripts: writes ddp.py
      distify convert -m pkg.train                the file that python -m pkg.train runs
      distify convert train.py --diff > ddp.patch
      distify convert train.py --in-place         changes train.py itself
      distify convert train.py -o distributed/    leaves the project alone, writes a converted copy
      distify convert train.py --yes --verify -- --epochs 2
                                                  runs both, and writes what takes the same steps
      distify convert train.py --check            for CI: exit 1 if unconverted
      distify convert train.py --scale linear     N ranks, a batch N times as large, SGD's rate times N
      distify convert train.py --scale linear --warmup-epochs 2
      distify convert train.py --strategy shared  every rank runs the script as it is; forward passes are shared
      distify convert train.py --budget 2000000   for a large program: look longer for sharded data
      distify convert train.py --backend allreduce
      distify convert train.py --backend horovod --compression fp16

    \b
    Exit codes: 0 done, 1 --check found work, or --verify other steps, 2 bad input,
                3 something needs you (nothing is written without --partial),
                4 nothing was written: no --yes, and no terminal to ask at.
    """
    if output and in_place:
        raise click.UsageError("--output and --in-place exclude each other.")
    if yes and (diff or check):
        raise click.UsageError("--diff and --check write nothing: --yes does not go with them.")
    if verify and (diff or check or scale not in (None, "global")):
        raise click.UsageError("--verify is for what is written, and for the batch of one process.")
    if ctx.obj and not verify:
        raise click.UsageError("what stands behind -- is for --verify.")
    if module:
        path = file_of_module(path)
    if os.path.isdir(path):
        raise DistifyError(which_file(path))
    script = read_script(path)
    options = options_for(
        path, backend=backend, strategy=strategy, compression=compression, op=op, partial=partial, models=models,
        train_loaders=train_loaders, scale=scale, warmup_epochs=warmup_epochs, budget=budget,
    )  # fmt: skip
    request = Request(script.path, options, output, yes, diff, check, in_place, force, verbose)
    if request.is_notebook:
        check_notebook(request)
    if not (in_place or request.folder) and same_file(request.target, script.path):
        raise DistifyError(f"{request.target} is the script itself; --in-place changes it")
    if request.may_write and not request.folder:
        check_target(request.target)
    if verify:
        proof = _proved(ctx, path, options)
        request = replace(request, settled=proof.options, shown_by=proof.shown_by)
    modules = LocalModules(script.path)
    asked = request.options
    if not asked.twins:
        asked = replace(asked, others=others_of(script.path, modules.root))
    ctx.exit(_finish(request, convert_script(script, modules, asked), modules))


def _proved(ctx: click.Context, path: str, options: Options) -> Proof:
    """How a conversion is proved; ends the command where none is."""
    from distify.verification.proof import proved  # only here: it brings torch's launcher

    found = proved(path, options, ctx.obj)
    if found is None:
        say(f"{path}: no conversion was proved to take the same steps; nothing was written")
        ctx.exit(ExitCode.WORK_TO_DO)
    return found


def _finish(request: Request, conversion: Conversion, modules: LocalModules) -> ExitCode:
    """Shows what was found and writes what is to be written."""
    done = ExitCode.NEEDS_PERSON if needs_person(conversion) else ExitCode.DONE
    if done is ExitCode.NEEDS_PERSON and not (request.options.partial and conversion.files):
        _show_checklist(request, conversion)
        say(_why_nothing_is_written(request, conversion))
        return done
    if conversion.outcome is Outcome.ALREADY_CONVERTED or not conversion.files:
        say(f"{request.path}: {conversion.outcome.value}; nothing to do")
        return done
    layout = _layout(request, conversion, modules)
    missing = layout.missing()
    if request.may_write:
        layout.confirm()
    if not missing and not request.diff:
        say(f"{layout.folder or layout.script} is there already, and up to date")
        return done
    if request.may_write:
        _check_writes(layout, missing)
    _show(request, conversion)
    if request.check:
        say(f"{request.path}: would be converted; nothing was written")
        return done or ExitCode.WORK_TO_DO
    if request.show_only:
        return done
    if not request.may_write:
        say(f"nothing was written: no terminal to ask at; --yes writes {_named(layout, missing)}")
        return ExitCode.NOTHING_WRITTEN
    if not _is_wanted(request, layout, missing):
        return done
    write_all(missing, layout.folders)
    say(f"wrote {_named(layout, missing)}")
    _say_how_to_run(request, layout, modules, done)
    return done


def _layout(request: Request, conversion: Conversion, modules: LocalModules) -> Layout:
    if request.folder:
        return copied(conversion, request.path, request.folder, modules, request.force)
    if request.in_place or request.diff:
        return in_place(conversion, request.path)
    return beside(conversion, request.target, request.force)


def _show(request: Request, conversion: Conversion) -> None:
    if request.diff or not request.check:
        for file in conversion.files:
            if len(conversion.files) == 1 or request.diff:
                file = replace(file, target="")  # for `patch`
            if is_terminal(sys.stdout) and not request.diff:
                show(preview(file, width(sys.stdout) or 80), err=False)
            else:
                put(unified(_as_new(file, request)))
    _show_checklist(request, conversion)
    say(summary(conversion.findings))


def _show_checklist(request: Request, conversion: Conversion) -> None:
    lines = checklist(conversion.findings, width(sys.stderr), conversion.headline, request.verbose, request.shown_by)
    show(lines, err=True)


def _as_new(file: NewFile, request: Request) -> NewFile:
    """For a patch: of a notebook, the script is a new file."""
    if request.is_notebook and file.path == request.path:
        return replace(file, path=request.target, target="", before=b"")
    return file


def _check_writes(layout: Layout, missing: Sequence[Write]) -> None:
    """Raises DistifyError where writing would fail, before the user has read a long diff."""
    for write in missing:
        check_target(write.path, new_folders=bool(layout.folder))
    problem = next(conflicts(missing, layout.script), None)
    if problem is not None:
        raise DistifyError(problem)


def _is_wanted(request: Request, layout: Layout, missing: Sequence[Write]) -> bool:
    for note in layout.notes:
        say(note)
    if request.yes:
        return True
    if ask(f"write {_named(layout, missing)}?"):
        return True
    say("nothing was written")
    return False


def _named(layout: Layout, missing: Sequence[Write]) -> str:
    names = [layout.folder] if layout.folder else [write.path for write in missing]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _why_nothing_is_written(request: Request, conversion: Conversion) -> str:
    text = f"{summary(conversion.findings)}; nothing was written"
    if request.options.partial or any(finding.code.startswith("REFUSE") for finding in conversion.findings):
        return text
    return f"{text} (--partial writes the rest, with a comment at each place that needs you)"


def _say_how_to_run(request: Request, layout: Layout, modules: LocalModules, done: ExitCode) -> None:
    if done is ExitCode.NEEDS_PERSON:
        say("it is not finished: look for the comments '# distify: needs you'")
    script, root = layout.script, modules.root
    if layout.folder:
        script, root = os.path.relpath(script, layout.folder), layout.folder
    elif modules.found and not modules.as_module:
        folder = os.path.dirname(os.path.abspath(request.path))
        if not same_file(os.path.dirname(script) or ".", folder):
            say(f"it imports modules from {folder}: have that folder in PYTHONPATH when it runs")
    if modules.needs_root:
        say(f"it imports modules from {os.path.abspath(root)}: have that folder in PYTHONPATH when it runs")
    words = shlex.quote(script)
    if modules.as_module:
        if modules.above:
            script, root = os.path.abspath(layout.script), modules.start_of(layout.script)
        inside = script if layout.folder and not modules.above else os.path.relpath(script, root)
        words = f"-m {os.path.splitext(inside)[0].replace(os.sep, '.')}"
    change = f"cd {shlex.quote(os.path.relpath(root))} && "
    go = change if (layout.folder or modules.as_module) and not same_file(root, ".") else ""
    say(f"`{go}python {words} ...` still runs it in one process; on two ranks:")
    say(f"  {go}distify run -np 2 {words} ...")
