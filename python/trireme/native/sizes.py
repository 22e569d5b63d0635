"""Numbers of bytes that people write: "8GB"."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_bytes(what: str, value: Any) -> int:
    """Return a number of bytes: an int, or a text such as "8GB" or "512 MB" (1 GB are 10**9 bytes). `what` names it in an error."""
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 < int(value) < 1 << 62:
        return int(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B)\s*", value, re.IGNORECASE) if isinstance(value, str) else None
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if not 0 < size < 1 << 62:
        raise ValueError(f"{what} must be a number of bytes such as '8GB' or 512_000_000, got {value!r}")
    return size
