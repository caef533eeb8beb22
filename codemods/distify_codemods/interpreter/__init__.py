"""A small abstract interpreter: runs the program on values that stand for all that may occur."""

from distify_codemods.interpreter.machine import Machine
from distify_codemods.interpreter.runs import Run, run
from distify_codemods.interpreter.trial import NOTHING_TRIED, SPARING, Cutting, Gathering, Hooks, Reducing, Trial

__all__ = ["NOTHING_TRIED", "SPARING", "Cutting", "Gathering", "Hooks", "Machine", "Reducing", "Run", "Trial", "run"]
