"""What a simulation knows of a job: facts that ``probe.py`` measures, or that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..distributed.placement import Item


@dataclass(frozen=True)
class Moment:
    """A place in a trainer's step: ``at`` is the share of the computing that lies before it.

    There the trainer waits for parameters, or sends gradients. ``names`` are the parameters, or the averaged variables.
    """

    at: float
    names: tuple[str, ...]
    is_send: bool


@dataclass(frozen=True)
class Table:
    """A sparse table as a step of one trainer uses it."""

    name: str
    row_bytes: int                     # of the values that travel
    keys: float                        # different keys of a step
    overlap: float                     # n trainers together have keys * n ** overlap different keys: 1 means that no key is shared
    states: int = 0                    # values that the optimizer keeps for each value

    def union(self, trainers: float) -> float:
        """Return how many different keys so many trainers have in a step.

        >>> Table("t", 64, 1000, 0.5).union(4)
        2000.0
        """
        return float(self.keys * trainers ** self.overlap)


@dataclass
class Facts:
    """A job, seen from one trainer. Times are seconds."""

    items: list[Item]                  # the parameters, as the transpiler places them
    averaged: dict[str, int]           # averaged variables, such as the loss, with their bytes
    moments: list[Moment]              # in the order of the step
    computing: float                   # median of a step, on so many threads
    script: float                      # between two steps
    spread: list[float]                # computing times of steps, divided by their median
    optimizer: str = "sgd"             # its operator
    states: int = 0                    # values that it keeps for each parameter
    updating: float = 0.0              # its time on a trainer, where trainers run it (modes geo and average)
    looking: float = 0.0               # time of look-ups of tables that are here; no part of `computing`
    filled: dict[str, float] = field(default_factory=dict)             # of each parameter's gradient: the share that is not zero
    tables: list[Table] = field(default_factory=list)
    threads: int = 1
    resident: int = 0                  # bytes of the process that was measured
    steps: int = 0                     # that were measured
    mode: str = "sync"                 # what the script has chosen; the next two, too
    compress: str = "none"
    compress_parameters: str = "none"

    @property
    def dense_bytes(self) -> int:
        return sum(item.bytes for item in self.items)


def spread_of(seconds: Sequence[float]) -> list[float]:
    """Return the times of steps, divided by their median.

    >>> spread_of([2.0, 4.0, 6.0])
    [0.5, 1.0, 1.5]
    """
    middle = float(np.median(seconds)) if len(seconds) else 0.0
    return [one / middle for one in seconds] if middle > 0 else [1.0]


def growth(keys: Sequence[np.ndarray]) -> float:
    """Return by which power the number of different keys grows with the number of steps.

    >>> growth([np.arange(10), np.arange(10)])
    0.0
    >>> growth([np.arange(10), np.arange(10, 20)])
    1.0
    """
    if len(keys) < 2:
        return 1.0
    one = float(np.mean([len(np.unique(each)) for each in keys]))
    every = len(np.unique(np.concatenate([np.ravel(each) for each in keys])))
    return float(np.clip(np.log(every / one) / np.log(len(keys)), 0.0, 1.0)) if one else 1.0
