"""A small abstract interpreter: runs the program on values that stand for all that may occur."""

from distify_codemods.interpreter.machine import Hooks, Machine, Run, run

__all__ = ["Hooks", "Machine", "Run", "run"]
