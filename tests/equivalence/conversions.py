"""Scripts that a test holds as text: converted, and run on several ranks beside the one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.equivalence.harness import Trace, assert_equivalent, run_converted, run_original


def converted(source: str, folder: Path, **options: Any) -> Path:
    """Writes the conversion into the folder. options: fields of `Options`."""
    from distify_codemods import Level, Options, Outcome, SourceFile, convert

    conversion = convert(SourceFile("train.py", source.encode()), lambda *_: None, Options(**options))
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    path = folder / "train_dist.py"
    path.write_bytes(conversion.files[0].after)
    return path


def assert_ranks_follow(source: str, folder: Path, world_size: int = 2) -> Trace:
    """Converts the script and compares its steps on so many ranks with the original's, which are returned.

    The runs work in the folders `ranks` and `one`.
    """
    script = folder / "train.py"
    script.write_text(source, encoding="utf-8")
    ranks = run_converted(converted(source, folder), [], world_size, folder / "ranks")
    original = run_original(script, [], folder / "one")
    assert_equivalent(original, ranks)
    return original
