"""Bandwidths and latencies, as people write them."""

from __future__ import annotations

import re

from distify.errors import DistifyError

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?|)(bit|b|bps|B|Byte|Bytes)(?:/s|ps)?")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_LATENCY = re.compile(r"(\d+(?:\.\d+)?)\s*(s|ms|us|µs|μs|ns)")


def bandwidth_of(text: str) -> float:
    """`100Gbit`, `10Gb/s`, `12.5GB/s`: bytes in a second. Bits have a small b. Raises DistifyError."""
    found = _BANDWIDTH.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise DistifyError(f"--bandwidth {text}: a bandwidth is wanted, like 100Gbit or 12.5GB/s")
    return float(found[1]) * _PREFIXES[found[2]] / (1 if found[3].startswith("B") else 8)


def latency_of(text: str) -> float:
    """`10us`, `0.5ms`: seconds. Raises DistifyError."""
    found = _LATENCY.fullmatch(text.strip())
    if found is None:
        raise DistifyError(f"--latency {text}: a time is wanted, like 10us or 0.5ms")
    return float(found[1]) * _SECONDS[found[2]]


def size_text(size: float) -> str:
    """Bytes, in the unit that leaves few digits: `1.6 MB`."""
    for unit, many in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= many:
            return f"{size / many:.3g} {unit}"
    return f"{size:.0f} bytes"


def time_text(seconds: float) -> str:
    """`12.3 ms`, `85 µs`."""
    for unit, many in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= many:
            return f"{seconds / many:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
