"""Trainers whose scripts end while other trainers go on. Each is reported once, because a script may do so by mistake (``sys.exit(0)``
in the middle).

At an ordinary end trainers leave within a few steps of each other, and nothing is reported.
"""

from __future__ import annotations

from collections.abc import Callable

from .watch import Left, Ranks

_STEPS, _FEW = 10, 2                   # steps that another trainer has made since: so many at once; so few after _SECONDS
_SECONDS = 5.0
# seconds after which the other trainers' figures, which are written once a second, are newer than the end
_SETTLED = 1.5


class EarlyExits:
    """``step_of`` returns a trainer's newest step, by its rank."""

    def __init__(self, step_of: Callable[[int], int]) -> None:
        self._step_of = step_of
        self._seen: dict[int, float] = {}              # trainers that have left, and since when
        self._bases: dict[int, dict[int, int]] = {}    # steps of the others then
        self._said: set[int] = set()

    def begin(self) -> None:
        """The job starts, or starts again."""
        self._seen.clear()
        self._bases.clear()
        self._said.clear()

    def news(self, ranks: Ranks, now: float) -> list[str]:
        """Return a line for each trainer that has left while others have gone on."""
        left = ranks.left()
        for rank in left:
            self._seen.setdefault(rank, now)
        found = [rank for rank in left if rank not in self._said and self._is_alone(rank, left, ranks, now)]
        self._said.update(found)
        return [f"trainer {ranks.trainer_of(rank)} left after step {left[rank].label}; the others go on" for rank in found]

    def _is_alone(self, rank: int, left: dict[int, Left], ranks: Ranks, now: float) -> bool:
        seconds, one = now - self._seen[rank], left[rank]
        others = [other for other in ranks.training() if other != rank]
        if one.is_common:                              # all trainers make the same steps
            base = dict.fromkeys(others, one.steps)
        elif seconds < _SETTLED:
            return False
        else:
            base = self._bases.setdefault(rank, {other: self._step_of(other) for other in others})
        made = max((self._last_step(other, left) - base[other] for other in others if other in base), default=0)
        return made > _STEPS or (made > _FEW and seconds > _SECONDS)

    def _last_step(self, rank: int, left: dict[int, Left]) -> int:
        return left[rank].steps if rank in left else self._step_of(rank)
