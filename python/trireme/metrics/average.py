"""Means over batches."""

from __future__ import annotations

from typing import Any

import numpy as np


class WeightedAverage:
    """The mean of what was added, each with its weight.

    >>> mean = fluid.average.WeightedAverage()
    >>> mean.add(value=2.0, weight=1)
    >>> mean.add(value=4.0, weight=2)
    >>> round(float(mean.eval()), 3)
    3.333
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all numbers."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: Any) -> None:
        """Add a number, or an array as a whole, that counts ``weight``, a number. ``value`` is that number or array."""
        if not _is_number_or_array(value):
            raise ValueError(f"WeightedAverage.add: value must be a number or an array, got {value!r}")
        weight = np.asarray(weight)
        if weight.size != 1 or not np.issubdtype(weight.dtype, np.number):
            raise ValueError(f"WeightedAverage.add: weight must be a number, got {weight!r}")
        weight = weight.reshape(-1)[0]
        self.numerator = value * weight + (0 if self.numerator is None else self.numerator)
        self.denominator = weight + (0 if self.denominator is None else self.denominator)

    def eval(self) -> Any:
        """Return the mean. Raises ValueError when nothing was added, or nothing of weight."""
        if not self.denominator:
            raise ValueError("WeightedAverage.eval: nothing was added that has a weight")
        return self.numerator / self.denominator


def _is_number_or_array(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) or (isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.number))


__all__ = ["WeightedAverage"]
