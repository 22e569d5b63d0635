"""Checks of numbers that a script gives: each is named, with its value, where it is given."""

from __future__ import annotations

import math
import os
from typing import Any


def plain(value: Any) -> Any:
    """Return a NumPy number, flag or text as Python's, also in lists and tuples. All other values come back as they are.

    What a script computes with NumPy or pandas, or loads, is a number or a text like any other. An array with dimensions stays.

    >>> plain(np.int32(3)), plain([np.float64(.5), np.str_("x")]), plain(np.array(True))
    (3, [0.5, 'x'], True)
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([plain(one) for one in value])
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return value


def path_text(path: Any) -> str:
    """Return a path as text, be it a text, bytes, or an object of ``pathlib``.

    >>> from pathlib import Path
    >>> path_text(Path("a", "b")), path_text(np.str_("c"))
    ('a/b', 'c')
    """
    return os.fsdecode(plain(path))


def finite(what: str, value: Any, *, at_least: float | None = None, above: float | None = None, at_most: float | None = None,
           below: float | None = None) -> float:
    """Return ``value`` as a float if it is a finite number within these bounds.

    ``what`` names it in the error: TypeError for no number, ValueError for NaN, infinity or a value beyond the bounds.

    >>> finite("momentum", 0.9, at_least=0, below=1)
    0.9
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a number, got {value!r}") from None
    is_inside = ((at_least is None or number >= at_least) and (above is None or number > above)
                 and (at_most is None or number <= at_most) and (below is None or number < below))
    if math.isfinite(number) and is_inside:
        return number
    raise ValueError(f"{what} must be {_range_text(at_least, above, at_most, below)}, got {value!r}")


def _range_text(at_least: float | None, above: float | None, at_most: float | None, below: float | None) -> str:
    low, high = (above if at_least is None else at_least), (below if at_most is None else at_most)
    if low is None or high is None:
        bounds = [("of at least ", at_least), ("above ", above), ("of at most ", at_most), ("below ", below)]
        return " ".join(["a finite number", *(f"{word}{bound:g}" for word, bound in bounds if bound is not None)])
    return f"in {'(' if at_least is None else '['}{low:g}, {high:g}{')' if at_most is None else ']'}"
