"""What commands print with ``--json``: docs/json.md says what each holds."""

from __future__ import annotations

import json
import math
from typing import Any


def _finite(value: Any) -> Any:
    """Return the value with None in the place of NaN and infinity, for which JSON has no word."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


def print_json(value: dict[str, Any]) -> None:
    """Print an object, indented.

    >>> from trireme.native.json_text import print_json
    >>> print_json({"schema": 1, "loss": float("nan")})
    {
      "schema": 1,
      "loss": null
    }
    """
    print(json.dumps(_finite(value), indent=2, allow_nan=False))
