"""Numbers in files of ranks, which may have been killed while they wrote."""

from __future__ import annotations

from typing import Any

_MOST = 1e18                           # no counter ever reaches more


def number_of(value: Any, default: float = 0.0) -> float:
    """Return a number as a float. Return ``default`` for anything else, also for a number that is not finite.

    >>> from trireme.launch.numbers import number_of
    >>> number_of(3), number_of("3"), number_of(float("nan"), 1.0), number_of(10 ** 400)
    (3.0, 0.0, 1.0, 0.0)
    """
    return float(value) if isinstance(value, (int, float)) and -_MOST < value < _MOST else default


def whole_of(value: Any, default: int = 0) -> int:
    """Return a whole number, by the same rules."""
    return int(number_of(value, default))


def numbers_of(values: Any) -> list[float]:
    """Return a list's numbers, with zeros for other entries; an empty list for anything else."""
    return [number_of(value) for value in values] if isinstance(values, list) else []
