"""Forward passes that ranks share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def data_parallel(*models: Any, methods: Sequence[str] = ()) -> None:
    """From here on, ranks share the forward passes of `models`: modules, and lists and dictionaries of them.

    methods: of their own, whose calls are shared, too. In a world of one nothing is done.
    """
