"""Virtual time, hosts with cores and links, and ranks that work on them.

A rank does one thing at a time, in the order in which it comes. A host's ranks share its cores evenly when there are more ranks with work
than cores. A host's link is one queue in each direction. Messages of several senders reach a full link in turn, so they share it evenly.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .costs import Costs, Way

Call = Callable[..., None]


class Clock:
    """What happens at which time: seconds."""

    def __init__(self) -> None:
        self.now, self.is_over = 0.0, False
        self._events: list[tuple[float, int, Call, tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Call, *args: Any) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), call, args))

    def run(self) -> None:
        """Let time pass until ``is_over`` is set, or nothing happens any more."""
        while self._events and not self.is_over:
            self.now, _, call, args = heapq.heappop(self._events)
            call(*args)


@dataclass
class Link:
    """One direction of a host's link."""

    bandwidth: float                   # bytes a second; 0: no limit
    free: float = 0.0
    busy: float = 0.0

    def pass_through(self, when: float, size: float) -> float:
        """Return when so many bytes have passed that come at ``when``."""
        took = size / self.bandwidth if self.bandwidth else 0.0
        self.free = max(when, self.free) + took
        self.busy += took
        return self.free


@dataclass
class Host:
    clock: Clock
    cores: int
    out: Link
    into: Link
    ranks: int = 0                     # that live here
    working: dict[Rank, float] = field(default_factory=dict)          # and have work; the seconds that are left of it
    _since: float = 0.0
    _round: int = 0

    @property
    def is_shared(self) -> bool:
        return self.ranks > self.cores

    def begin(self, rank: Rank, seconds: float) -> None:
        self._advance()
        self.working[rank] = seconds
        self._plan()

    def _speed(self) -> float:
        return min(1.0, self.cores / len(self.working)) if self.working else 1.0

    def _advance(self) -> None:
        passed = (self.clock.now - self._since) * self._speed()
        for rank in self.working:
            self.working[rank] -= passed
        self._since = self.clock.now

    def _plan(self) -> None:
        self._round += 1
        if self.working:
            self.clock.at(self.clock.now + max(min(self.working.values()), 0.0) / self._speed(), self._look, self._round)

    def _look(self, number: int) -> None:
        if number != self._round:
            return
        self._advance()
        done = [rank for rank, left in self.working.items() if left <= 1e-12]
        for rank in done:
            del self.working[rank]
        for rank in done:
            rank.finish()
        self._plan()


class Rank:
    """A process with one core's worth of work at a time."""

    def __init__(self, clock: Clock, host: Host, wake: float, rouse: float = 0.0) -> None:
        self.clock, self.host, self._wake, self._rouse = clock, host, wake, rouse
        self.busy = self._free = 0.0
        self._queue: deque[tuple[float, Call, tuple[Any, ...]]] = deque()
        host.ranks += 1

    def work(self, seconds: float, then: Call, *args: Any, wakes: bool = False) -> None:
        """Work for so long after all earlier work, then call ``then``. ``wakes``: a message brings the work, and a rank that sleeps hears
        of it late."""
        now, sleeps = self.clock.now, not self._queue if self.host.is_shared else self._free <= self.clock.now
        if wakes and sleeps:
            seconds += self._rouse
        self.busy += seconds
        if not self.host.is_shared:
            late = self._wake if wakes and sleeps else 0.0
            self._free = max(now + late, self._free) + seconds
            self.clock.at(self._free, then, *args)
            return
        self._queue.append((seconds, then, args))
        if len(self._queue) == 1:
            if wakes and self._wake:
                self.clock.at(now + self._wake, self._start)
            else:
                self._start()

    def _start(self) -> None:
        self.host.begin(self, self._queue[0][0])

    def finish(self) -> None:
        _, then, args = self._queue.popleft()
        if self._queue:
            self._start()
        then(*args)


class Network:
    """Messages between ranks: sending works on the sender, receiving on the receiver, and bytes pass both hosts' links."""

    def __init__(self, clock: Clock, costs: Costs, latency: float) -> None:
        self._clock, self._costs, self._latency = clock, costs, latency

    def way(self, source: Rank, target: Rank) -> Way:
        return self._costs.memory if source.host is target.host else self._costs.tcp

    def cost(self, source: Rank, target: Rank, messages: float, size: float, on_server: bool = False) -> float:
        """Return the seconds of one side, a trainer or (``on_server``) a server."""
        way = self.way(source, target)
        return (way.served if on_server else way.message) * messages + 0.5 * way.byte * size

    def send(self, source: Rank, target: Rank, size: float, work: float, then: Call, *args: Any) -> None:
        """Let bytes travel that have been handed over. ``work``: seconds of the receiver for them, after which ``then`` is called."""
        if source.host is target.host:
            target.work(work, then, *args, wakes=True)
            return
        begun = max(self._clock.now, source.host.out.free)
        source.host.out.pass_through(self._clock.now, size)
        self._clock.at(begun + self._latency, self._arrive, target, size, work, then, args)

    def _arrive(self, target: Rank, size: float, work: float, then: Call, args: tuple[Any, ...]) -> None:
        done = target.host.into.pass_through(self._clock.now, size)
        self._clock.at(done, self._receive, target, work, then, args)

    @staticmethod
    def _receive(target: Rank, work: float, then: Call, args: tuple[Any, ...]) -> None:
        target.work(work, then, *args, wakes=True)
