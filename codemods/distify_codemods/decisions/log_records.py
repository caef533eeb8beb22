"""Where a program logs something."""

from __future__ import annotations

from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries import progress
from distify_codemods.libraries.registry import Effect, Role, functions, methods
from distify_codemods.objects import External

#: Records that are not shown, as a rule.
_DETAILS = frozenset({"debug", "trace"})
_RECORDS = frozenset("debug info warning warn error critical exception log success trace".split())
#: Records of Python's own logging, by whatever name.
_PYTHONS = ("logging.", "absl.logging.")


def log_records(facts: Facts) -> list[Event]:
    """Where something is logged, or is made ready to be."""
    return [
        event for event in facts.of_kind(Kind.CALL, Kind.METHOD)
        if (event.kind is Kind.CALL and event.name.startswith(_PYTHONS) and _is_no_name(event.name))
        or (event.kind is Kind.CALL and event.name.startswith("loguru.logger."))
        or (event.kind is Kind.METHOD and event.name in _RECORDS and _of_a_logger(event))
    ]  # fmt: skip


def shown_lines(facts: Facts) -> list[Event]:
    """What is printed, by whatever name, or logged to be seen."""
    otherwise = (event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if prints_otherwise(event))
    return [*facts.of_kind(Kind.PRINT), *otherwise, *shown_records(facts)]


def prints_otherwise(event: Event) -> bool:
    """`sys.stdout.write(...)`, `tqdm.write(...)`, a console's methods: calls of libraries that print."""
    if event.kind is Kind.CALL:
        return event.name in functions(Effect.PRINTS) or progress.writes_beside(event.name)
    if event.name in methods(Effect.PRINTS):
        return True
    consoles = [functions(Role.CONSOLE).get(obj.name) for obj in event.receiver.objs if isinstance(obj, External)]
    return any(one is not None and event.name in one.writes_by.split() for one in consoles)


def shown_records(facts: Facts) -> list[Event]:
    """Those but details for debugging, which are neither shown nor worth a meeting of the ranks."""
    return [event for event in log_records(facts) if event.name.rpartition(".")[2] not in _DETAILS]


def _is_no_name(name: str) -> bool:
    return name.rpartition("logging.")[2] in _RECORDS or name.endswith(("Config", "Handler"))


def _of_a_logger(event: Event) -> bool:
    return any(isinstance(obj, External) and obj.name.startswith("logging.") for obj in event.receiver.objs)
