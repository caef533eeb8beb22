"""Reads files in TOML."""

from __future__ import annotations

import sys
from typing import Any

from distify.errors import DistifyError


def tables(path: str) -> dict[str, Any]:
    """What a file in TOML holds. Raises DistifyError where it cannot be read."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise DistifyError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DistifyError(f"{path}: is not TOML: {error}") from None
