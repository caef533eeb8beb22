"""What a rank needs first, imported before it is forked, and out of the sight of collections: they would copy it."""

from __future__ import annotations

import gc

import numpy  # noqa: F401
import torch._dynamo  # noqa: F401  what an optimizer imports in its first step is the dearest part

gc.freeze()
