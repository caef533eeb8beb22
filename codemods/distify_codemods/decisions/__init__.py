"""What happens to each loader, model and evaluation: decided once, before any rule spells it."""

from distify_codemods.decisions.base import Blocked, Decisions, Link
from distify_codemods.decisions.cuts import decide_cuts
from distify_codemods.decisions.decide import decide
from distify_codemods.decisions.evidence import links_at_once, unknown_links
from distify_codemods.decisions.own_figures import links as figures_of_one_rank
from distify_codemods.decisions.shared import decide_shared

__all__ = [
    "Blocked",
    "Decisions",
    "Link",
    "decide",
    "decide_cuts",
    "decide_shared",
    "figures_of_one_rank",
    "links_at_once",
    "unknown_links",
]
