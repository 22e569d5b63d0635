"""How consistent the trainers of a job are with each other, in one word.

| mode | |
|---|---|
| ``sync`` | a step is the mean over all trainers, applied once: the default |
| ``sync(backups=b)`` | the mean over all but the slowest ``b``, whose late gradients are dropped; with one server |
| ``async`` | each trainer's step is an update of its own |
| ``async(compensation=x)`` | the same; gradients are corrected for what others did meanwhile (DC-ASGD), ``x`` about 0.04 |
| ``ssp(s)`` | ``async``, but no trainer begins a step more than ``s`` steps ahead of the slowest |
| ``geo(k)`` | trainers update copies of their own and exchange what they changed every ``k`` steps |
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .._core import ffi, lib
from ..errors import check

_KINDS = ("sync", "async", "ssp", "geo")


@dataclass(frozen=True)
class Mode:
    """A mode, understood: ``text`` as it was written, ``count`` its number (backups, staleness bound, period)."""

    text: str
    kind: str
    count: int
    compensation: float

    @property
    def is_alone(self) -> bool:
        """Whether an update is the work of one trainer."""
        return self.kind != "sync"

    @property
    def is_lockstep(self) -> bool:
        """Whether all servers apply the same updates in the same order, so that they may compute something together."""
        return self.kind == "sync" and not self.count


def parse(text: str) -> Mode:
    """Return what a mode's text means; raise InvalidArgumentError, which says what is possible.

    >>> from trireme.distributed.mode import parse
    >>> parse("ssp(3)").count
    3
    """
    text = "".join(text.split())
    out = ffi.new("tr_mode *")
    check(lib.tr_mode_parse(out, text.encode()))
    return Mode(text, _KINDS[out.kind], out.count, out.compensation)


_mode = "sync"


def set_mode(mode: str) -> None:
    """Choose the consistency of this script's job, before its first step.

    ``trireme launch --mode`` goes before it. In one process all modes are the same.

    >>> fluid.distributed.set_mode("ssp(3)")
    >>> fluid.distributed.set_mode("sync")
    """
    global _mode
    _mode = parse(mode).text


def current() -> Mode:
    """Return the mode that the launcher, else the script, has chosen."""
    return parse(os.environ.get("TRIREME_MODE") or _mode)


__all__ = ["Mode", "parse", "set_mode", "current"]
