"""Whether there is a Horovod to test with."""

from __future__ import annotations

import importlib.util

import pytest

IS_INSTALLED = importlib.util.find_spec("horovod") is not None
needs_horovod = pytest.mark.skipif(not IS_INSTALLED, reason="Horovod is not installed: `make horovod` builds it")
