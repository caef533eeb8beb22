"""A small abstract interpreter: runs the program on values that stand for all that may occur."""

from distify_codemods.interpreter.machine import Cutting, Hooks, Machine, Run, run
from distify_codemods.interpreter.reductions import Reducing

__all__ = ["Cutting", "Hooks", "Machine", "Reducing", "Run", "run"]
