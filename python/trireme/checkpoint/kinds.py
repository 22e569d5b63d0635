"""The kinds of variables that a checkpoint holds: ``tr_state_kind``."""

from __future__ import annotations

PARAMETER, OPTIMIZER, SCHEDULE, STATISTIC, TABLE = range(5)
KINDS = ("parameter", "optimizer", "schedule", "statistic", "table")
