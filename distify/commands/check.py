"""`distify check`: the checklist of one script, or a line for each of several."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from distify_codemods import Conversion, Finding, Options, Outcome, Strategy

from distify.checklist import checklist, summary
from distify.config import options_for
from distify.engine import convert_script, needs_person
from distify.errors import DistifyError, ExitCode
from distify.files import read_script, tidy
from distify.folders import files_below
from distify.resolver import LocalModules
from distify.settling import scaling, settling, spelling
from distify.terminal import Line, is_terminal, put, say, show, width
from distify.why import as_json as belief_as_json
from distify.why import chains

OUTCOMES = {Outcome.CONVERTED: "convertible", Outcome.ALREADY_CONVERTED: "already converted"}
STYLES = {"convertible": "green", "already converted": "green", "no training script": "dim"}


@dataclass(frozen=True)
class Report:
    """What was found in one file. `conversion` is None where the file cannot be read; `error` says why."""

    path: str
    conversion: Conversion | None = None
    error: str = ""
    is_named: bool = True  # by the user, rather than met in a folder

    @property
    def exit_code(self) -> ExitCode:
        if self.conversion is None:
            return ExitCode.BAD_INPUT
        if needs_person(self.conversion) and not self.is_no_script:
            return ExitCode.NEEDS_PERSON
        return ExitCode.DONE

    @property
    def is_no_script(self) -> bool:
        """Met in a folder and none of our business (a module, a plot): no reason to fail."""
        return (
            not self.is_named
            and self.conversion is not None
            and self.conversion.outcome is Outcome.REFUSED
            and all(finding.code.startswith("REFUSE") for finding in self.conversion.findings)
        )

    @property
    def verdict(self) -> str:
        if self.conversion is None:
            return "unreadable"
        if self.is_no_script:
            return "no training script"
        return "needs you" if needs_person(self.conversion) else OUTCOMES[self.conversion.outcome]


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with an object for each file.")
@click.option("--why", is_flag=True, help="Say what each thing was taken for, and what that was concluded from.")
@click.option("--verbose", "-v", is_flag=True, help="Also list what is not needed, and why.")
@spelling
@scaling
@settling
@click.pass_context
def check(
    ctx: click.Context,
    paths: tuple[str, ...],
    as_json: bool,
    why: bool,
    verbose: bool,
    backend: str | None,
    strategy: str | None,
    compression: str,
    op: str,
    models: tuple[str, ...],
    train_loaders: tuple[str, ...],
    scale: str | None,
    warmup_epochs: int | None,
    budget: int,
) -> None:
    """Say what converting PATH would do, what it need not do, and what needs you. Nothing is run or written.

    One script gives its checklist; several files, or a folder (every .py file below it, hidden folders and
    virtual environments left out), give one line each. In a folder, files that are no training scripts are
    passed over.

    \b
    Examples:
      distify check train.py
      distify check scripts/ tools/finetune.py
      distify check --json train.py
      distify check --why train.py
      distify check --scale linear train.py

    \b
    Exit codes: 0 all can be converted or are, 2 bad input, 3 something needs you.
    """
    files = list(dict.fromkeys(_python_files(paths)))
    settled = partial(
        options_for, backend=backend, strategy=strategy, compression=compression, op=op, models=models,
        train_loaders=train_loaders, why=why, scale=scale, warmup_epochs=warmup_epochs, budget=budget,
    )  # fmt: skip
    reports = [_report(path, is_named, settled) for path, is_named in _with_progress(files)]
    several = len(reports) > 1 or any(os.path.isdir(path) for path in paths)
    if as_json:
        _put_json(reports)
    elif several:
        for report in reports:
            show([_summary_line(report)], err=False)
            show(_chains(report), err=False)
    else:
        _show_one(reports[0], why, verbose)
    codes = [report.exit_code for report in reports]
    # The lower code is the graver one: of an unreadable file nobody knows what it needs.
    ctx.exit(min((code for code in codes if code is not ExitCode.DONE), default=ExitCode.DONE))


def _python_files(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The files to look at, and whether the user named each; raises DistifyError for a folder without any."""
    named = {tidy(path) for path in paths if path}
    for path in paths:
        if not path:
            raise DistifyError("an empty name is the path of no script")
        if not os.path.isdir(path):
            yield tidy(path), True
            continue
        below = [tidy(file) for file in files_below(path) if file.endswith(".py")]
        if not below:
            raise DistifyError(f"{path}: no Python files in this folder")
        yield from ((file, file in named) for file in below)


def _with_progress(files: Sequence[tuple[str, bool]]) -> Iterable[tuple[str, bool]]:
    """The files, with a bar on stderr where several are looked at and someone reads along."""
    if len(files) < 2 or not is_terminal(sys.stderr):
        yield from files
        return
    from rich.console import Console
    from rich.progress import Progress

    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(file=sys.stderr), transient=True))
        yield from progress.track(files, description="checking")


def _report(path: str, is_named: bool, settled: Callable[[str], Options]) -> Report:
    try:
        script = read_script(path)
        return Report(path, convert_script(script, LocalModules(path), settled(path)), is_named=is_named)
    except DistifyError as error:
        return Report(path, error=error.message, is_named=is_named)


def _chains(report: Report) -> Iterable[Line]:
    return chains(report.conversion.beliefs, width(sys.stdout)) if report.conversion else ()


def _show_one(report: Report, why: bool, verbose: bool) -> None:
    if report.conversion is None:
        raise DistifyError(report.error)
    conversion = report.conversion
    lines = checklist(conversion.findings, width(sys.stdout), conversion.headline, verbose)
    show(_chains(report) if why else lines, err=False)
    show([_summary_line(report)], err=False)


def _summary_line(report: Report) -> Line:
    details = report.error.removeprefix(f"{report.path}: ")
    if report.conversion is not None:
        details = summary(report.conversion.findings)
        if report.conversion.strategy is Strategy.SHARED:
            details = f"shared forward passes: {details}"
        if report.conversion.outcome is Outcome.REFUSED and len(report.conversion.findings) == 1:
            details = report.conversion.findings[0].message
    style = STYLES.get(report.verdict, "bold red")
    return (f"{report.path}: ", ""), (report.verdict, style), (f" ({details})", "dim")


def _put_json(reports: Sequence[Report]) -> None:
    import json  # only here: 4 ms

    put(json.dumps([_as_json(report) for report in reports], indent=2).encode() + b"\n")
    for report in reports:
        if report.error:
            say(f"distify: {report.error}")


def _as_json(report: Report) -> dict[str, Any]:
    findings = report.conversion.findings if report.conversion else ()
    strategy = report.conversion.strategy if report.conversion else None
    return {
        "path": report.path,
        "verdict": report.verdict,
        "error": report.error or None,
        "strategy": strategy.value if strategy else None,
        "findings": [_finding_as_json(finding) for finding in findings],
        "why": [belief_as_json(belief) for belief in report.conversion.beliefs] if report.conversion else [],
    }


def _finding_as_json(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level.value,
        "code": finding.code,
        "title": finding.title,
        "message": finding.message,
        "path": finding.place.path if finding.place else None,
        **({"cell": finding.place.cell} if finding.place and finding.place.cell else {}),
        "line": (finding.place.line or None) if finding.place else None,
        "fix": finding.fix or None,
    }
