"""Trainers and servers as programs of ranks: what they do in a step, and for whom they wait."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..job.mode import Mode
from .facts import Facts
from .hosts import COLD, Call, Clock, Network, Price, Rank
from .prices import Prices
from .schedule import Packet, Schedule

_PAUSE = Price(-1.0, -1.0)


@dataclass
class Work:
    """What all ranks of a simulated job know."""

    facts: Facts
    prices: Prices
    mode: Mode
    clock: Clock
    network: Network
    steps: int                         # of the slowest trainer, until the simulation is over
    warm: int                          # its first steps, which do not count
    draws: random.Random
    pushes: list[list[Packet]]         # by server, as they are simulated
    answers: list[Packet]
    schedule: Schedule
    keys: list[list[Packet]] = field(default_factory=list)             # by server: a step's questions for rows
    rows: list[list[Packet]] = field(default_factory=list)
    sends: dict[int | None, list[tuple[int, int, Packet]]] = field(default_factory=dict)     # by moment: server, number, packet

    counted: Call = lambda: None       # called when these are over
    ended: dict[int, int] = field(default_factory=dict)                # by number: how many trainers have ended this step

    def __post_init__(self) -> None:
        servers = range(self.schedule.servers)
        self.rows = [[one for one in self.schedule.rows if one.server == server] for server in servers]
        self.keys = [[one for one in self.schedule.keys if one.server == server] for server in servers]
        for server, packets in enumerate(self.pushes):
            for number, one in enumerate(packets):
                for moment in (one.moment, None):      # None: all of a step, at its end
                    self.sends.setdefault(moment, []).append((server, number, one))

    def end(self, step: int, trainers: int) -> None:
        """A trainer has ended its step of this number."""
        self.ended[step] = self.ended.get(step, 0) + 1
        if self.ended[step] == trainers:
            if step + 1 == self.warm:
                self.counted()
            self.clock.is_over |= step + 1 == self.warm + self.steps


def _way(one: Rank, other: Rank) -> str:
    return "memory" if one.host is other.host else "tcp"


class Carrier(Protocol):
    """What trainers and a server see of a carrier (``carriers.py``)."""

    trainer: Trainer
    group: list[Trainer]

    def send_push(self, trainer: Trainer, step: int, number: int, one: Packet) -> None: ...

    def send_on(self, trainer: Trainer, one: Packet, then: Call, *args: Any) -> None: ...

    def receive(self, one: Packet) -> None: ...


class Trainer:
    """Makes steps: computes, waits for parameters, sends gradients. ``rank`` computes, ``mover`` moves messages: the same thread, or
    another one of the process where a host has cores for both."""

    def __init__(self, work: Work, rank: Rank, mover: Rank, index: int) -> None:
        self.work, self.rank, self.mover, self.index = work, rank, mover, index
        self.servers: list[Server] = []
        self.carriers: list[Carrier | None] = []       # by server: to which requests for it go
        self.ended = 0                                 # steps
        self.computed = 0.0                            # seconds of computing and scripts
        self._missing: dict[str, int] = {}             # of parameters and rows: packets that have not come
        self._waiting: tuple[str, ...] = ()
        self._blocks = float(len(work.facts.items) + len(work.facts.averaged))
        mover.is_aside = mover is not rank
        self._life = self._steps()

    def begin(self) -> None:
        self._go_on()

    @property
    def busy(self) -> float:
        """CPU seconds of all its threads."""
        return self.rank.busy + (self.mover.busy if self.mover is not self.rank else 0.0)

    def _go_on(self) -> None:
        price = next(self._life, _PAUSE)
        if price is not _PAUSE:
            self.rank.work(price, self._go_on)

    def _steps(self) -> Iterator[Price]:
        facts, period = self.work.facts, self.work.mode.period
        overhead = self.work.prices.of({"step": 1.0, "block": self._blocks, "cold_step": float(facts.computing > COLD)})
        for step in itertools.count():
            for turn in range(period):
                speed = self.work.draws.choice(facts.spread)
                yield self._own(facts.script)
                yield overhead
                if facts.tables and (turn == 0 or not self.work.mode.trains_copies):
                    yield from self._pull_rows(step)
                if self.work.mode.trains_copies:
                    yield self._own((facts.computing + facts.looking) * speed + facts.updating)
                else:
                    yield from self._compute(step, speed)
            yield from self._end(step)

    def _own(self, seconds: float) -> Price:
        self.computed += seconds
        return Price(seconds, seconds)

    def _compute(self, step: int, speed: float) -> Iterator[Price]:
        facts, done = self.work.facts, 0.0
        for number, moment in enumerate(facts.moments):
            if moment.at > done:
                yield self._own((moment.at - done) * facts.computing * speed)
            done = moment.at
            if moment.is_send:
                yield from self._push(step, number)
            else:
                yield from self._wait(moment.names)
        if done < 1.0:
            yield self._own((1.0 - done) * facts.computing * speed)

    def _wait(self, names: tuple[str, ...]) -> Iterator[Price]:
        if any(self._missing.get(name) for name in names):
            self._waiting = names
            self.mover.is_aside = False                # the waiting thread moves messages itself, and looks for them all the time
            yield _PAUSE                               # until `come` goes on
            self.mover.is_aside = self.mover is not self.rank

    def _hand_over(self, server: Server, one: Packet, then: Call, *args: Any) -> Iterator[Price]:
        """Send a packet: the computing goes on meanwhile where another thread moves messages."""
        carrier = self.carriers[server.index]
        if carrier and then == server.send_push:
            then = carrier.send_push
        elif carrier:
            then, args = carrier.send_on, (one, then, self, *args)
        way = _way(self.mover, server.rank) if not carrier else "" if carrier.trainer is self else "memory"
        price = self.work.prices.request(one, way)
        if self.mover is not self.rank:
            self.mover.wake(price, then, self, *args)
            return
        yield price
        then(self, *args)

    def _push(self, step: int, moment: int | None) -> Iterator[Price]:
        for index, number, one in self.work.sends.get(moment, ()):
            server = self.servers[index]
            yield from self._hand_over(server, one, server.send_push, step, number, one)

    def _end(self, step: int) -> Iterator[Price]:
        yield from self._push(step, None if self.work.mode.trains_copies else len(self.work.facts.moments))
        self.ended += 1
        self.work.end(step, len(self.servers[0].trainers))
        for one in self.work.answers:
            for name in one.names:
                self._missing[name] = self._missing.get(name, 0) + 1
        for server, one in zip(self.servers, self.work.schedule.ends):
            yield from self._hand_over(server, one, server.send_end, step, one)
        if self.work.mode.trains_copies:
            yield from self._wait(tuple(self._missing))

    def _pull_rows(self, step: int) -> Iterator[Price]:
        for one in self.work.schedule.rows:
            for name in one.names:
                self._missing[name] = self._missing.get(name, 0) + 1
        for server, packets in zip(self.servers, self.work.keys):
            for number, one in enumerate(packets, 1):
                yield from self._hand_over(server, one, server.send_keys, step, one, number == len(packets))
        yield from self._wait(tuple(table.name for table in self.work.facts.tables))

    def receive(self, server: Server, one: Packet) -> None:
        """A packet of an answer is on its way here."""
        price = self.work.prices.answer(one, _way(server.rank, self.mover))
        self.work.network.send(server.rank, self.mover, one.bytes, price, self.come, one)

    def come(self, one: Packet) -> None:
        """A packet of an answer is here."""
        for name in one.names:
            self._missing[name] -= 1
        if self._waiting and not any(self._missing.get(name) for name in self._waiting):
            self._waiting = ()
            self._go_on()


class Server:
    """Adds gradients, applies them, and answers."""

    def __init__(self, work: Work, rank: Rank, index: int, trainers: list[Trainer]) -> None:
        self.work, self.rank, self.index, self.trainers = work, rank, index, trainers
        mode = work.mode
        self._needed = max(len(trainers) - mode.backups, 1)
        self._is_common = mode.is_lockstep and not mode.gathers_per_trainer
        self._arrived: dict[tuple[int, int], int] = {}
        self._ends: dict[int, list[Trainer]] = {}
        self._settled = [0] * len(trainers)            # steps of each trainer that are in an update
        self._held: list[tuple[Trainer, int]] = []     # pulls that wait for slower trainers
        self._rows_held: list[tuple[Trainer, int]] = []
        packets = work.pushes[index]
        self._values = sum(one.values for one in packets if one.kind != "row_gradients")
        self._entries = sum(one.entries for one in packets if one.kind != "row_gradients")
        self._answers = [one for one in work.answers if one.server == index]
        self.carriers: list[Carrier] = []

    # -- what comes -----------------------------------------------------------------------------------------

    def send_push(self, trainer: Trainer, step: int, number: int, one: Packet) -> None:
        key, is_dense = (step, number), one.kind != "row_gradients"
        before = self._arrived.get(key, 0)
        is_last = before + 1 == len(self.trainers)
        self._arrived[key] = before + 1
        if is_last:
            del self._arrived[key]
        adds = is_dense and before > 0 and self._is_common
        applies = is_dense and is_last and self._is_common         # this piece is updated while others are on their way
        price = self.work.prices.arrival(one, _way(trainer.mover, self.rank), adds, applies)
        self.work.network.send(trainer.mover, self.rank, one.bytes, price, _nothing)

    def send_sum(self, carrier: Carrier, step: int, number: int, one: Packet, sum_: Packet) -> None:
        """What all trainers of a host push: ``sum_`` in the place of a packet ``one`` of each of them."""
        key, is_dense = (step, number), one.kind != "row_gradients"
        before = self._arrived.get(key, 0)
        is_last = before + len(carrier.group) == len(self.trainers)
        self._arrived[key] = before + len(carrier.group)
        if is_last:
            del self._arrived[key]
        price = self.work.prices.arrival(sum_, "tcp", is_dense and before > 0, is_dense and is_last)
        self.work.network.send(carrier.trainer.mover, self.rank, sum_.bytes, price, _nothing)

    def send_end(self, trainer: Trainer, step: int, one: Packet) -> None:
        price = self.work.prices.arrival(one, _way(trainer.mover, self.rank), False, False)
        self.work.network.send(trainer.mover, self.rank, one.bytes, price, self._on_end, trainer, step)

    def send_keys(self, trainer: Trainer, step: int, one: Packet, is_last: bool) -> None:
        price = self.work.prices.arrival(one, _way(trainer.mover, self.rank), False, False)
        self.work.network.send(trainer.mover, self.rank, one.bytes, price, self._on_keys if is_last else _nothing, trainer, step)

    # -- what follows ---------------------------------------------------------------------------------------

    def _on_end(self, trainer: Trainer, step: int) -> None:
        if not self.work.mode.is_lockstep:
            self._update([trainer], step)
            return
        ended = self._ends.setdefault(step, [])
        ended.append(trainer)
        if len(ended) == self._needed:
            self._update(list(ended), step)            # later ones are no part of it
        elif len(ended) > self._needed:                # it came too late, and gets what there is
            self._settle([trainer], step)

    def _update(self, trainers: list[Trainer], step: int) -> None:
        group = max((len(one.group) for one in self.carriers), default=1)
        price = self.work.prices.update(len(trainers), self._values, self._entries, not self._is_common, group)
        self.rank.work(price, self._settle, trainers, step)

    def _settle(self, trainers: list[Trainer], step: int) -> None:
        for one in trainers:
            self._settled[one.index] = step + 1
        answered = self._answered(trainers, step)
        alone = [one for one in answered if not one.carriers[self.index]]
        for packet in self._answers:
            for carrier in self.carriers if answered else ():
                self.rank.work(self.work.prices.reply(packet, "tcp"), carrier.receive, packet)
            for one in alone:
                self.rank.work(self.work.prices.reply(packet, _way(self.rank, one.mover)), one.receive, self, packet)
        held, self._rows_held = self._rows_held, []
        for one, made in held:
            self._on_keys(one, made)                   # answers, or holds them again

    def _answered(self, trainers: list[Trainer], step: int) -> list[Trainer]:
        """Return the trainers that get parameters now that a step of these is settled: one that is ahead waits for slower ones."""
        lead = self.work.mode.lead
        if lead < 0:
            return trainers
        slowest, waiting = min(self._settled), [*self._held, *((one, step) for one in trainers)]
        self._held = [(one, made) for one, made in waiting if made + 1 - lead > slowest]
        return [one for one, made in waiting if made + 1 - lead <= slowest]

    def _on_keys(self, trainer: Trainer, step: int) -> None:
        if self._settled[trainer.index] < step:
            self._rows_held.append((trainer, step))
            return
        for one in self.work.rows[self.index]:
            self.rank.work(self.work.prices.reply(one, _way(self.rank, trainer.mover)), trainer.receive, self, one)


def _nothing(*_: object) -> None:
    return
