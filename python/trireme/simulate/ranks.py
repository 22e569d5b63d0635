"""Trainers and servers as programs of ranks: what they do in a step, and for whom they wait."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..job.mode import Mode
from .costs import Costs
from .facts import Facts
from .hosts import Clock, Network, Rank
from .schedule import Options, Packet, Schedule

_PAUSE = -1.0


@dataclass
class Work:
    """What all ranks of a simulated job know."""

    facts: Facts
    costs: Costs
    options: Options
    mode: Mode
    clock: Clock
    network: Network
    steps: int
    draws: random.Random
    pushes: list[list[Packet]]         # by server, as they are simulated
    answers: list[Packet]
    schedule: Schedule
    keys: list[tuple[int, int]] = field(default_factory=list)          # by server: messages and bytes of a step's questions for rows
    rows: list[list[Packet]] = field(default_factory=list)             # by server
    sends: dict[int | None, list[tuple[int, int, Packet]]] = field(default_factory=dict)     # by moment: server, number, packet

    def __post_init__(self) -> None:
        servers = range(self.schedule.servers)
        self.rows = [[one for one in self.schedule.rows if one.server == server] for server in servers]
        for server in servers:
            keys = [one for one in self.schedule.keys if one.server == server]
            self.keys.append((sum(one.messages for one in keys), sum(one.bytes for one in keys)))
        for server, packets in enumerate(self.pushes):
            for number, one in enumerate(packets):
                for moment in (one.moment, None):      # None: all of a step, at its end
                    self.sends.setdefault(moment, []).append((server, number, one))

    @property
    def method(self) -> str:
        return self.options.compress.partition("(")[0]

    def kind_of_optimizer(self) -> str:
        """Return the optimizer among the measured ones that works most like the job's."""
        if self.mode.trains_copies:
            return "sgd"                               # servers add what has changed
        name = self.facts.optimizer
        return name if name in self.costs.apply else ("sgd", "momentum", "adam")[min(self.facts.states, 2)]

    def unpack(self, one: Packet) -> float:
        """Return what a side does with the small parameters of a packet."""
        return 0.0 if one.kind in ("row_gradients", "rows") else self.costs.entry * one.entries

    def rows_of_trainer(self, one: Packet) -> float:
        return self.costs.row_trainer * one.entries if one.kind in ("row_gradients", "rows") else 0.0

    def encode(self, one: Packet) -> float:
        return self.costs.encode.get(self.method, 0.0) * one.values if one.kind == "compressed" else 0.0

    def decode(self, one: Packet) -> float:
        return self.costs.decode.get(self.method, 0.0) * one.values if one.kind == "compressed" else 0.0


class Trainer:
    """Makes steps: computes, waits for parameters, sends gradients."""

    def __init__(self, work: Work, rank: Rank, index: int) -> None:
        self.work, self.rank, self.index = work, rank, index
        self.servers: list[Server] = []
        self.ended: list[float] = []                   # when its steps ended
        self.computed = self.handled = 0.0             # seconds of computing and scripts; of messages
        self._missing: dict[str, int] = {}             # of parameters and rows: packets that have not come
        self._waiting: tuple[str, ...] = ()
        self._life = self._steps()

    def begin(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        seconds = next(self._life, _PAUSE)
        if seconds >= 0:
            self.rank.work(seconds, self._go_on)

    def _steps(self) -> Iterator[float]:
        facts, period = self.work.facts, self.work.mode.period
        for step in range(self.work.steps):
            for turn in range(period):
                speed = self.work.draws.choice(facts.spread)
                yield self._own(facts.script + self.work.costs.step)
                if facts.tables and (turn == 0 or not self.work.mode.trains_copies):
                    yield from self._pull_rows(step)
                if self.work.mode.trains_copies:
                    yield self._own(facts.computing * speed + facts.updating)
                else:
                    yield from self._compute(step, speed)
            yield from self._end(step)

    def _own(self, seconds: float) -> float:
        self.computed += seconds
        return seconds

    def _compute(self, step: int, speed: float) -> Iterator[float]:
        facts, done = self.work.facts, 0.0
        for number, moment in enumerate(facts.moments):
            yield self._own((moment.at - done) * facts.computing * speed)
            done = moment.at
            if moment.is_send:
                yield from self._push(step, number)
            else:
                yield from self._wait(moment.names)
        yield self._own(max(1.0 - done, 0.0) * facts.computing * speed)

    def _wait(self, names: tuple[str, ...]) -> Iterator[float]:
        if any(self._missing.get(name) for name in names):
            self._waiting = names
            yield _PAUSE                               # until `_come` goes on

    def _push(self, step: int, moment: int | None) -> Iterator[float]:
        for index, number, one in self.work.sends.get(moment, ()):
            server = self.servers[index]
            cost = self.work.network.cost(self.rank, server.rank, one.messages, one.bytes) + self.work.encode(one)
            cost += self.work.unpack(one) + self.work.rows_of_trainer(one)
            self.handled += cost
            yield cost
            server.send_push(self, step, number, one)

    def _end(self, step: int) -> Iterator[float]:
        yield from self._push(step, None if self.work.mode.trains_copies else len(self.work.facts.moments))
        self.ended.append(self.work.clock.now)
        self.work.clock.is_over = len(self.ended) == self.work.steps
        for one in self.work.answers:
            for name in one.names:
                self._missing[name] = self._missing.get(name, 0) + 1
        for server, one in zip(self.servers, self.work.schedule.ends):
            cost = self.work.network.cost(self.rank, server.rank, one.messages, one.bytes)
            self.handled += cost
            yield cost
            server.send_end(self, step, one)
        if self.work.mode.trains_copies:
            yield from self._wait(tuple(self._missing))

    def _pull_rows(self, step: int) -> Iterator[float]:
        for one in self.work.schedule.rows:
            for name in one.names:
                self._missing[name] = self._missing.get(name, 0) + 1
        for server, (messages, size) in zip(self.servers, self.work.keys):
            cost = self.work.network.cost(self.rank, server.rank, messages, size)
            self.handled += cost
            yield cost
            server.send_keys(self, step, messages, size)
        yield from self._wait(tuple(table.name for table in self.work.facts.tables))

    def receive(self, server: Server, one: Packet) -> None:
        """A packet of an answer is on its way here."""
        cost = self.work.network.cost(server.rank, self.rank, one.messages, one.bytes)
        cost += self.work.unpack(one) + self.work.rows_of_trainer(one)
        if self.work.options.rounds and one.kind == "parameters":
            cost += self.work.costs.widen_byte * one.values
        self.handled += cost
        self.work.network.send(server.rank, self.rank, one.bytes, cost, self._come, one)

    def _come(self, one: Packet) -> None:
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
        self._updates = 0
        self._held: list[tuple[Trainer, int]] = []     # pulls that wait for slower trainers
        self._rows_held: list[tuple[Trainer, int]] = []
        packets = work.pushes[index]
        self._values = sum(one.values for one in packets if one.kind != "row_gradients")
        self._entries = sum(one.entries for one in packets if one.kind != "row_gradients")
        self._answers = [one for one in work.answers if one.server == index]

    # -- what comes -----------------------------------------------------------------------------------------

    def send_push(self, trainer: Trainer, step: int, number: int, one: Packet) -> None:
        costs = self.work.costs
        cost = self.work.network.cost(trainer.rank, self.rank, one.messages, one.bytes, True)
        cost += self.work.decode(one) + self.work.unpack(one)
        key, is_table = (step, number), one.kind == "row_gradients"
        if not is_table and (not self._is_common or self._arrived.get(key, 0)):
            cost += costs.add * one.values
        self._arrived[key] = self._arrived.get(key, 0) + 1
        if self._arrived[key] == len(self.trainers):
            del self._arrived[key]
            if self._is_common and not is_table:       # this piece is updated while others are on their way
                cost += costs.apply[self.work.kind_of_optimizer()] * one.values + costs.small_update * one.entries
        self.work.network.send(trainer.rank, self.rank, one.bytes, cost, _nothing)

    def send_end(self, trainer: Trainer, step: int, one: Packet) -> None:
        cost = self.work.network.cost(trainer.rank, self.rank, one.messages, one.bytes, True)
        self.work.network.send(trainer.rank, self.rank, one.bytes, cost, self._on_end, trainer, step)

    def send_keys(self, trainer: Trainer, step: int, messages: int, size: int) -> None:
        cost = self.work.network.cost(trainer.rank, self.rank, messages, size, True)
        self.work.network.send(trainer.rank, self.rank, size, cost, self._on_keys, trainer, step)

    # -- what follows ---------------------------------------------------------------------------------------

    def _on_end(self, trainer: Trainer, step: int) -> None:
        if not self.work.mode.is_lockstep:
            self.rank.work(self._update_cost(1), self._settle, [trainer], step)
            return
        ended = self._ends.setdefault(step, [])
        ended.append(trainer)
        if len(ended) == self._needed:
            self.rank.work(self._update_cost(len(ended)), self._settle, ended, step)
        elif len(ended) > self._needed:                # it came too late, and gets what there is
            self._settle([trainer], step)

    def _update_cost(self, trainers: int) -> float:
        costs, kind = self.work.costs, self.work.kind_of_optimizer()
        alone = costs.apply[kind] * self._values + costs.small_update * self._entries
        seconds = costs.step_of_server + (0.0 if self._is_common else alone)
        if self.work.mode.gathers_per_trainer and self.work.mode.is_lockstep:
            seconds += costs.add * self._values * (trainers - 1) + 2 * self.work.network.cost(self.rank, self.rank, 2, 256, True)
        for table in self.work.facts.tables:
            rows = table.union(trainers) / self.work.schedule.servers
            seconds += rows * costs.row_apply[kind] + costs.row_byte * rows * table.row_bytes * (1 + table.states)
            seconds += (table.keys * trainers / self.work.schedule.servers - rows) * (costs.row_read + costs.add * table.row_bytes)
        return seconds

    def _settle(self, trainers: list[Trainer], step: int) -> None:
        for one in trainers:
            self._settled[one.index] = step + 1
        answered = self._answered(trainers, step)
        for packet in self._answers:
            for one in answered:
                self._send(one, packet)
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

    def _send(self, trainer: Trainer, packet: Packet) -> None:
        cost = self.work.network.cost(self.rank, trainer.rank, packet.messages, packet.bytes, True) + self.work.unpack(packet)
        if self.work.options.rounds and packet.kind == "parameters":
            cost += self.work.costs.round_byte * packet.values / len(self.trainers)
        self.rank.work(cost, trainer.receive, self, packet)

    def _on_keys(self, trainer: Trainer, step: int) -> None:
        if self._settled[trainer.index] >= step:
            self._answer_rows(trainer)
        else:
            self._rows_held.append((trainer, step))

    def _answer_rows(self, trainer: Trainer) -> None:
        for one in self.work.rows[self.index]:
            cost = self.work.network.cost(self.rank, trainer.rank, one.messages, one.bytes, True)
            self.rank.work(cost + self.work.costs.row_read * one.entries, trainer.receive, self, one)


def _nothing() -> None:
    return
