"""Costs of units of work that explain measured CPU times best: least squares without negative costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .costs import Tally

_PRIOR = 0.02                          # how much an expected cost counts beside a measured time, where the times say little
_ROUNDS = 3000


@dataclass(frozen=True)
class Point:
    """What a rank does in a step, and the CPU seconds that this takes, without ``others`` that no cost explains."""

    tally: Tally
    seconds: float
    others: float = 0.0
    name: str = ""

    @property
    def all(self) -> float:
        return self.seconds + self.others


def fit(points: Sequence[Point], expected: Mapping[str, float]) -> dict[str, float]:
    """Return a cost for each name in ``expected``. Each point counts alike, whatever its seconds: errors are relative to all of them.

    >>> found = fit([Point({"a": 1, "b": 1}, 5.0), Point({"a": 2, "b": 1}, 7.0)], {"a": 1.9, "b": 3.1, "c": 4.0})
    >>> [round(found[name], 1) for name in "abc"]
    [2.0, 3.0, 4.0]
    """
    names = list(expected)
    scale = np.array([expected[name] for name in names])
    work = np.array([[one.tally.get(name, 0.0) for name in names] for one in points]) * scale
    seconds, every = (np.array([getattr(one, name) for one in points]) for name in ("seconds", "all"))
    rows = np.concatenate([work / every[:, None], _PRIOR * np.eye(len(names))])
    wanted = np.concatenate([seconds / every, np.full(len(names), _PRIOR)])
    found = np.ones(len(names))
    squares, left = (rows ** 2).sum(axis=0), wanted - rows @ found
    for _ in range(_ROUNDS):                           # one cost after the other, each the best beside the present others
        for index in range(len(names)):
            better = max(found[index] + rows[:, index] @ left / squares[index], 0.0)
            left -= rows[:, index] * (better - found[index])
            found[index] = better
    return {name: float(cost) for name, cost in zip(names, found * scale)}


def errors(points: Sequence[Point], costs: Mapping[str, float]) -> list[float]:
    """Return the relative errors of the costs' CPU times."""
    return [(sum(costs.get(name, 0.0) * count for name, count in one.tally.items()) - one.seconds) / one.all for one in points]
