"""What happens to each loader, model and evaluation: decided once, before any rule spells it."""

from distify_codemods.decisions.base import Blocked, Decisions
from distify_codemods.decisions.decide import decide

__all__ = ["Blocked", "Decisions", "decide"]
