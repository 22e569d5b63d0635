"""The program and the settings of a loop of the core, and the objects that are told of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..program import Program


@dataclass
class LoopPart:
    """What a loop of the core runs: a program, or a trainer's part of it."""

    program: Program
    idle: Program | None               # in its place in a step without samples
    fetches: tuple[str, ...]
    weight: float | None               # of each step; None: the number of samples
    may_lease: bool                    # tasks of the data
    skip: int = 0                      # steps that were made before
    runs: int | None = None            # of the program, made before; None: as the executor knows
    manager: Any = None                 # of checkpoints; None: nobody keeps any
    flush: Program | None = None       # between two leased tasks
    loss: int = 0                      # which of the fetches is the loss, from 1; 0: none

    def end(self, steps: int, leased: bool) -> None:
        """The loop is over, after so many steps. ``leased``: its tasks were leased."""
        if self.manager is not None:
            self.manager.end(min(steps, self.skip))

    def fail(self, error: BaseException) -> None:
        """The loop has failed."""
