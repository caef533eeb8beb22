"""What other machines are to know of this one's ranks, and what follows from what they tell."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable

from distify_runtime.launch.config import LaunchConfig
from distify_runtime.launch.news import News, Told
from distify_runtime.launch.report import RankEnd
from distify_runtime.launch.verdict import cause

#: What a rank has written comes later here than its end.
SETTLED_SECONDS = 0.1
#: How much later than here another machine may know why ranks have failed.
LATER_SECONDS = 2.0
POLL_SECONDS = 0.1


class Machines:
    """Those of a launch on several, seen from one of them. `host`: its name, "" where there is no other."""

    def __init__(self, config: LaunchConfig, news: News) -> None:
        self.news = news
        self.host = "" if config.nodes is None else socket.gethostname()
        self.config = config
        self._told: Told | None = None

    def tell(self, ends: Iterable[RankEnd], *, for_good: bool, settled: float = SETTLED_SECONDS) -> None:
        """Tells the others which rank of this one has failed, if its ranks are not coming back, `settled` seconds after
        that rank's end."""
        self.news.ask()
        found = cause(self.config, list(ends)) if self.host and for_good else None
        if found is None or (self._told is not None and found.end == self._told.end):
            return
        if time.time() - found.end.ended >= settled:
            self._told = found
            self.news.tell(found)

    @property
    def has_failed(self) -> bool:
        """Whether another has failed, and its ranks are not coming back."""
        return bool(self.news.failures) and self.config.nodes is not None and not self.config.nodes.may_change

    def wait_for_cause(self, look: Callable[[float], object], is_hurried: Callable[[], bool]) -> None:
        """Until another has said what its rank has failed of, where nothing of it is known here."""
        until = time.monotonic() + LATER_SECONDS
        while self.host and self._told is None and not self.news.failures and time.monotonic() < until:
            look(POLL_SECONDS)
            if is_hurried():
                return
