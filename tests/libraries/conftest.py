"""Processes that tests start find what stands in for torchvision's operators, where those cannot be loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def _importable_torchvision() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        folder = str(Path(__file__).parent / "without_operators")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))
        yield
