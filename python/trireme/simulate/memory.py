"""How much memory a rank takes: the arithmetic of docs/how-to/size-a-job.md."""

from __future__ import annotations

from dataclasses import dataclass

from ..job.mode import Mode
from .facts import Facts
from .schedule import Options, Schedule

PROCESS = 60e6


@dataclass(frozen=True)
class Memory:
    """Bytes, at most."""

    trainer: float
    server: float                      # without the rows of tables, whose number grows as a job goes on


def memory_of(facts: Facts, schedule: Schedule, mode: Mode, options: Options, trainers: int) -> Memory:
    """Return the memory of the fullest server and of a trainer."""
    shares = [0] * schedule.servers
    for one in schedule.pushes:
        if one.kind != "row_gradients":
            shares[one.server] += one.values
    share, states = max(shares), 0 if mode.trains_copies else facts.states
    server = PROCESS + share * (2 * (1 + states) + trainers)
    if options.rounds:
        server += share
    rows = sum(table.keys * (8 + table.row_bytes) for table in facts.tables) / schedule.servers
    trainer = max(facts.resident, PROCESS + facts.dense_bytes * (2 + facts.states))
    if options.compress != "none":
        trainer += facts.dense_bytes
    if mode.trains_copies:
        trainer += 2 * facts.dense_bytes
    return Memory(float(trainer), server + rows * trainers)
