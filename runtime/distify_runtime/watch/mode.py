"""How a run is watched."""

from __future__ import annotations

import enum
import os

from distify_runtime.arriving import PATIENCE_VARIABLE, USUAL_PATIENCE, WATCH_VARIABLE
from distify_runtime.output import stop


class Mode(enum.Enum):
    """What becomes of an invariant that does not hold."""

    OFF = "off"
    WARN = "warn"
    ON = "on"


def mode(given: str | None) -> Mode:
    """What the environment says, else what the script says. Raises SystemExit on all ranks for another word."""
    said = os.environ.get(WATCH_VARIABLE) or given or Mode.ON.value
    try:
        return Mode(said)
    except ValueError:
        stop(f"{WATCH_VARIABLE}={said}: it is one of {', '.join(one.value for one in Mode)}")


def patience() -> float:
    """Seconds without progress after which a run is ended; 0: it never is. Raises SystemExit for what is none."""
    said = os.environ.get(PATIENCE_VARIABLE)
    try:
        seconds = float(said) if said else USUAL_PATIENCE
    except ValueError:
        stop(f"{PATIENCE_VARIABLE}={said}: it is a number of seconds")
    return max(seconds, 0.0)
