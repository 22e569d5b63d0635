"""What the work of ranks is made of, and what it costs: sending, receiving, adding, updating, answering."""

from __future__ import annotations

from ..job.mode import Mode
from .costs import Costs, Tally
from .facts import Facts
from .hosts import Price
from .schedule import Options, Packet, Schedule

# Two threads of a server do as much of the work that they share as 1.6 servers of one thread: benchmarks/README.md.
_EACH_THREAD = 0.6


class Prices:
    """Prices are made once for each packet. A job has few different ones, because trainers are alike."""

    def __init__(self, facts: Facts, costs: Costs, options: Options, mode: Mode, schedule: Schedule, trainers: int, threads: int) -> None:
        self._facts, self._costs, self._options, self._mode, self._schedule = facts, costs, options, mode, schedule
        self._trainers, self._threads = trainers, threads
        self._made: dict[tuple[object, ...], Price] = {}

    @property
    def _method(self) -> str:
        return self._options.compress.partition("(")[0]

    @property
    def optimizer(self) -> str:
        """The optimizer among the measured ones that works most like the job's."""
        if self._mode.trains_copies:
            return "sgd"                               # servers add what has changed
        name = self._facts.optimizer
        return name if f"apply.{name}" in self._costs.units else ("sgd", "momentum", "adam")[min(self._facts.states, 2)]

    def of(self, tally: Tally, more: float = 0.0) -> Price:
        """Return a price of one thread. ``more``: seconds that are no part of the costs."""
        seconds = self._costs.seconds(tally) + more
        return Price(seconds, seconds, tally)

    def _of_server(self, tally: Tally) -> Price:
        seconds, shared = self._costs.seconds(tally), self._costs.shared_part(tally)
        speed = 1 + _EACH_THREAD * (self._threads - 1)
        return Price(seconds, seconds - shared + shared / speed, tally)

    def _keep(self, key: tuple[object, ...], tally: Tally, on_server: bool) -> Price:
        price = self._made[key] = self._of_server(tally) if on_server else self.of(tally)
        return price

    def _moving(self, one: Packet, way: str, is_sent: bool, has_receipts: bool) -> Tally:
        share = self._costs.sent[way] if is_sent else 1 - self._costs.sent[way]
        found = {f"{way}.message": float(one.sends + (one.receipts if has_receipts else 0)), f"{way}.bulk": float(one.bulks),
                 f"{way}.byte": share * one.bytes, "bundled": float(max(one.messages - one.sends, 0))}
        return {name: count for name, count in found.items() if count}

    # -- trainers -----------------------------------------------------------------------------------------------------

    def request(self, one: Packet, way: str, is_forwarded: bool = False) -> Price:
        """A trainer sends gradients, the end of its step, or questions. ``is_forwarded``: those of its host, as their carrier. ``way`` "":
        they go no further, because it is their carrier."""
        key = "request", id(one), way, is_forwarded
        if key in self._made:
            return self._made[key]
        tally = self._moving(one, way, True, True) if way else {}
        if is_forwarded:
            return self._keep(key, tally, False)
        if one.kind == "compressed":
            tally[f"encode.{self._method}"] = float(one.values)
        if one.kind == "row_gradients":
            tally |= {"row_trainer": float(one.entries), "row_trainer_byte": float(one.values)}
        return self._keep(key, tally, False)

    def answer(self, one: Packet, way: str) -> Price:
        """A trainer receives parameters or rows."""
        key = "answer", id(one), way
        if key in self._made:
            return self._made[key]
        tally = self._moving(one, way, False, False)
        if one.kind == "rows":
            tally |= {"row_trainer": float(one.entries), "row_trainer_byte": float(one.values)}
        elif self._options.rounds:
            tally["widen"] = float(one.values)
        return self._keep(key, tally, False)

    def gathering(self, one: Packet, is_received: bool, adds: bool) -> Price:
        """A carrier gets a request of a trainer of its host. ``adds``: to what is there."""
        key = "gathering", id(one), is_received, adds
        if key in self._made:
            return self._made[key]
        tally = self._moving(one, "memory", False, False) if is_received else {}
        if one.kind == "compressed":
            tally[f"decode.{self._method}"] = float(one.values)
        if one.kind == "row_gradients":
            tally |= {"row_add": float(one.entries), "add": float(one.values)}
        elif adds:
            tally["add"] = float(one.values)
        return self._keep(key, tally, False)

    def handing(self, one: Packet) -> Price:
        """A carrier sends an answer on to a trainer of its host."""
        key = "handing", id(one)
        return self._made[key] if key in self._made else self._keep(key, self._moving(one, "memory", True, False), False)

    # -- servers ------------------------------------------------------------------------------------------------------

    def arrival(self, one: Packet, way: str, adds: bool, applies: bool) -> Price:
        """A server receives a request. ``adds``: to what is there; ``applies``: and updates these elements."""
        key = "arrival", id(one), way, adds, applies
        if key in self._made:
            return self._made[key]
        tally = self._moving(one, way, False, True)
        if one.kind == "compressed":
            tally[f"decode.{self._method}"] = float(one.values)
        if one.kind == "small_gradients":
            tally["entry"] = float(one.entries)
        if adds:
            tally["add"] = float(one.values)
        if applies:
            tally |= {f"apply.{self.optimizer}": float(one.values), "small_update": float(one.entries)}
        return self._keep(key, tally, True)

    def reply(self, one: Packet, way: str) -> Price:
        """A server sends parameters or rows. A parameter is rounded once for all trainers."""
        key = "reply", id(one), way
        if key in self._made:
            return self._made[key]
        tally = self._moving(one, way, True, False)
        if one.kind == "rows":
            tally |= {"row_read": float(one.entries), "row_byte": float(one.values)}
        else:
            tally["entry"] = float(one.entries)
            if self._options.rounds:
                tally["round"] = one.values / (self._trainers if self._mode.is_lockstep else 1)
        return self._keep(key, tally, True)

    def update(self, trainers: int, values: int, entries: int, is_late: bool, group: int = 1) -> Price:
        """A server updates what these trainers have brought. ``is_late``: also its dense parameters, of which nothing is updated yet. Rows
        come from groups of so many trainers, of which each has added up its own."""
        key = "update", trainers, values, entries, is_late, group
        if key in self._made:
            return self._made[key]
        tally: Tally = {"update": 1.0, "server_step": float(trainers)}
        if is_late:
            tally |= {f"apply.{self.optimizer}": float(values), "small_update": float(entries)}
            if self._mode.gathers_per_trainer and self._mode.is_lockstep:              # server 0 decides which steps it is made of
                tally |= {"add": float(values * (trainers - 1)), "tcp.message": 4.0 * (self._schedule.servers > 1)}
        for table in self._facts.tables:
            each, count = table.union(self._options.period * group), trainers / group
            rows = min(table.union(self._options.period * trainers), each * count) / self._schedule.servers
            again = max(each * count / self._schedule.servers - rows, 0.0)
            for name, work in ((f"row_apply.{self.optimizer}", rows), ("row_byte", rows * table.row_bytes * (1 + table.states)),
                               ("row_add", again), ("add", again * table.row_bytes)):
                tally[name] = tally.get(name, 0.0) + work
        return self._keep(key, tally, True)
