"""Writes YAML: lists and dictionaries in blocks that people can read and change, texts as JSON has them.

A text of JSON is one of YAML, whatever is in it. It is all that would need a library of its own: keys here are our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

#: What may not stand in a YAML file as it is, and JSON does not write out.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml_text(value: dict[str, Any]) -> str:
    """Of dictionaries and lists that are not empty, texts and integers."""
    return "".join(line + "\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    """Without an indent of their own."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _entry(key, inner)
    elif isinstance(value, list):
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        yield f"{key}:"
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key}: {_scalar(value)}"


def _scalar(value: str | int) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
