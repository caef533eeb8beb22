"""How a run is watched."""

from __future__ import annotations

import enum
import os

from distify_runtime.output import stop


class Mode(enum.Enum):
    """What becomes of an invariant that does not hold."""

    OFF = "off"
    WARN = "warn"
    ON = "on"


_MODE, _PATIENCE = "DISTIFY_WATCH", "DISTIFY_HANG_TIMEOUT"
#: Seconds.
_USUAL_PATIENCE = 300.0


def mode(given: str | None) -> Mode:
    """What the environment says, else what the script says. Raises SystemExit on all ranks for another word."""
    said = os.environ.get(_MODE) or given or Mode.ON.value
    try:
        return Mode(said)
    except ValueError:
        stop(f"{_MODE}={said}: it is one of {', '.join(one.value for one in Mode)}")


def patience() -> float:
    """Seconds without progress after which a run is ended; 0: it never is. Raises SystemExit for what is none."""
    said = os.environ.get(_PATIENCE)
    try:
        seconds = float(said) if said else _USUAL_PATIENCE
    except ValueError:
        stop(f"{_PATIENCE}={said}: it is a number of seconds")
    return max(seconds, 0.0)
