"""A temporary folder that all ranks have: rank 0 makes it, and removes it once all are past it."""

from __future__ import annotations

import tempfile
from types import TracebackType
from typing import Any

from distify_runtime.environment import is_main_process
from distify_runtime.main_process import call_on_main_process
from distify_runtime.meeting import collective
from distify_runtime.process_group import barrier


@collective
class TemporaryDirectory:
    """`with rt.TemporaryDirectory() as folder:` in the place of `tempfile.TemporaryDirectory`, which takes the same.

    name: the folder's, on every rank. Ranks meet where it is made, and where it is left, unless by an error.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._own: tempfile.TemporaryDirectory[Any] | None = None
        self.name: Any = call_on_main_process(self._make, args, kwargs)

    def _make(self, args: Any, kwargs: Any) -> Any:
        self._own = tempfile.TemporaryDirectory(*args, **kwargs)
        return self._own.name

    def __enter__(self) -> Any:
        return self.name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            barrier()
        if self._own is not None and is_main_process():
            self._own.cleanup()
