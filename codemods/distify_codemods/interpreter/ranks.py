"""What tells a process which rank it is: torch, the launcher's environment, an argument of the old launcher."""

from __future__ import annotations

from distify_codemods.allocation import Obj
from distify_codemods.libraries import distributed, python
from distify_codemods.objects import Arguments
from distify_codemods.ordered import EMPTY, Ordered

#: What comes from it is another value on each rank.
RANK: Ordered[Obj | str] = Ordered(["rank"])
_NOTHING: Ordered[Obj | str] = EMPTY
_SETTINGS = frozenset({"local_rank"})


def of_variable(key: object) -> Ordered[Obj | str]:
    """What a variable of the environment depends on."""
    return RANK if isinstance(key, str) and key in distributed.RANKS else _NOTHING


def of_setting(name: str) -> Ordered[Obj | str]:
    """What an attribute of what parse_args returned depends on."""
    return RANK if name in _SETTINGS else _NOTHING


def of_call(name: str, arguments: Arguments) -> Ordered[Obj | str]:
    """What the result of a library's function depends on."""
    if name in python.GETS_ENVIRONMENT and arguments.positional:
        return of_variable(arguments.positional[0].constant())
    return _NOTHING
