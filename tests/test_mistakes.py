"""The planted mistakes show each pitfall that a run can show, and say of the others why not."""

from __future__ import annotations

import sys
from pathlib import Path

from distify_codemods.pitfalls import PITFALLS

HERE = Path(__file__).resolve().parent.parent / "benchmarks" / "mistakes"


def test_each_pitfall_is_shown_or_left_out_for_a_reason() -> None:
    sys.path.insert(0, str(HERE))
    try:
        import planted
        import planted_by_accelerate
        import planted_by_fabric
        import planted_by_hand
        import planted_by_horovod
        import planted_shapes
    finally:
        sys.path.remove(str(HERE))
    ways = (planted, planted_by_accelerate, planted_by_fabric, planted_by_hand, planted_by_horovod)
    mistakes = [*(one for way in ways for one in way.MISTAKES), *planted_shapes.MISTAKES.values()]
    shown = {row for mistake in mistakes for row in mistake.rows}
    left_out = [row for rows in planted.LEFT_OUT.values() for row in rows]
    assert sorted(shown | set(left_out)) == sorted(one.number for one in PITFALLS)
    assert len(left_out) == len(set(left_out))
    assert not shown.intersection(left_out)
    assert sorted(planted_shapes.MISTAKES) == sorted(one.stem for one in (HERE / "shapes").glob("*.py"))
