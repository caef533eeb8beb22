"""What a run of the tests left out is said where it ends, so that nobody takes a part for the whole."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = [one for one in terminalreporter.stats.get("skipped", ()) if "make horovod" in str(one.longrepr)]
    if left_out:
        terminalreporter.section("HOROVOD WAS NOT TESTED", yellow=True, bold=True)
        terminalreporter.line(
            f"{len(left_out)} tests need Horovod, which is not installed here. `make horovod` builds it for this torch"
        )
        terminalreporter.line("in 2 to 4 minutes, or says why it cannot.")
