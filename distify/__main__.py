"""Runs the command line. A user never sees a traceback: what nobody foresaw is one line and exit code 70."""

from __future__ import annotations

import gc
import os
import signal
import sys

#: 128 + SIGINT; distify/errors.py, which has it too, takes a moment to be imported, in which Ctrl-C may come.
_INTERRUPTED = 130

#: Allocations between collections, here as in a conversion: what a command makes lasts to its end, as a rule.
_THRESHOLDS = (200_000, 10, 10)


def main() -> None:
    """The console script `distify`; always ends with SystemExit."""
    gc.set_threshold(*_THRESHOLDS)
    clean_up_when_asked_to_end()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # None where the descriptor is closed
            # A terminal or pipe that cannot spell a character of the user's source must not stop the tool.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run()
    except KeyboardInterrupt:  # before or after click has heard of it
        code = _INTERRUPTED
    gc.freeze()  # the process ends: to look through all that it made once more would take a tenth of a diff
    sys.exit(code)


def clean_up_when_asked_to_end() -> None:
    """From now on, SIGTERM and a terminal that is closed end the command as Ctrl-C does: what it has started, too."""

    def end(number: int, _: object) -> None:
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # and not ignored, as under nohup
            signal.signal(number, end)


def run() -> int:
    """Runs the command that `sys.argv` names and returns the exit code."""
    import click  # here, and not above: where Ctrl-C is no traceback

    from distify.cli import cli
    from distify.errors import ExitCode

    try:
        check_folder()
        result = cli.main(prog_name="distify", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except Exception as error:
        report_crash(error)
        return ExitCode.CRASHED
    return result if isinstance(result, int) else ExitCode.DONE


def check_folder() -> None:
    """Raises DistifyError where the working directory is gone: paths are told relative to it."""
    from distify.errors import DistifyError

    try:
        os.getcwd()
    except OSError as error:
        raise DistifyError(f"the working directory cannot be used: {error.strerror}") from None


def report_crash(error: Exception) -> None:
    """What nobody foresaw: a line for the user, the traceback for who asks for it."""
    if os.environ.get("DISTIFY_DEBUG") == "1":
        import traceback  # only here: 3 ms

        traceback.print_exception(error)
        return
    import click  # here, and not above: where Ctrl-C is no traceback

    what = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(
        f"distify: internal error ({what}); nothing more was done. Please report it together with the "
        "script and the traceback that DISTIFY_DEBUG=1 shows.",
        err=True,
    )


if __name__ == "__main__":
    main()
