"""Virtual time, hosts with cores and links, and ranks that work on them.

A rank does one thing at a time, in the order in which it comes. Where a host has more ranks with work than cores, they share the cores
evenly, as the scheduler of an operating system lets them. A host's link is one queue in each direction. Messages of several senders reach
a full link in turn, so they share it evenly.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .costs import POLLED, Tally

Call = Callable[..., None]

# Naps of a thread that waits for messages of other hosts, of which no doorbell tells it: comm_drive.c.
_HOT, _NAP_LEAST, _NAP_MOST, _NAP_PART = 5e-6, 2e-5, 5e-3, 8
# It looks longer before it sleeps where the last waits were short.
_HOT_BRISK, _SHORT, _BRISK = 3e-5, 2e-4, 64
_FRAMES = 1514 / 1448                  # bytes on a link for a byte of a message: headers of Ethernet, IP and TCP
COLD = 1e-3                            # after so long a sleep, or so much computing, caches hold other things


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
    """``served`` counts the core seconds that each of the ranks with work has got: all get as much."""

    clock: Clock
    cores: int
    out: Link
    into: Link
    ranks: int = 0                     # that live here
    _served: float = 0.0
    _working: list[tuple[float, int, Rank]] = field(default_factory=list)      # a heap: at which `_served` a rank is done
    _since: float = 0.0
    _round: int = 0
    _numbers: int = 0

    @property
    def is_shared(self) -> bool:
        return self.ranks > self.cores

    def begin(self, rank: Rank, seconds: float) -> None:
        self._advance()
        self._numbers += 1
        heapq.heappush(self._working, (self._served + seconds, self._numbers, rank))
        self._plan()

    def _speed(self) -> float:
        return min(1.0, self.cores / len(self._working)) if self._working else 1.0

    def _advance(self) -> None:
        self._served += (self.clock.now - self._since) * self._speed()
        self._since = self.clock.now

    def _plan(self) -> None:
        self._round += 1
        if self._working:
            self.clock.at(self.clock.now + max(self._working[0][0] - self._served, 0.0) / self._speed(), self._look, self._round)

    def _look(self, number: int) -> None:
        if number != self._round:
            return
        self._advance()
        done = []
        while self._working and self._working[0][0] <= self._served + 1e-12:
            done.append(heapq.heappop(self._working)[2])
        for rank in done:
            rank.finish()
        self._plan()


@dataclass(frozen=True)
class Price:
    """What some work costs: CPU seconds, how long it takes where nothing disturbs it, and what it is made of."""

    seconds: float
    lasts: float
    tally: Tally = field(default_factory=dict, hash=False)


class Rank:
    """A thread of a process, with one core's worth of work at a time.

    ``wake`` are the prices of a short and of a long sleep that a message ends, ``nap`` is that of looking for messages of other hosts.
    ``delay`` is how late a thread that sleeps sees a message.
    """

    def __init__(self, clock: Clock, host: Host, wake: tuple[Price, Price], nap: Price, delay: float) -> None:
        self.clock, self.host, self._wake, self._nap, self._delay = clock, host, wake, nap, delay
        self.busy = self._free = 0.0
        self.wakes = self.colds = self.naps = self.polled = 0.0
        self.is_aside, self._short = False, 0          # the process's other thread works; short waits, one after the other
        self.done: dict[int, tuple[Price, int]] = {}   # by the price's identity: how often
        self._queue: deque[tuple[float, Call, tuple[Any, ...]]] = deque()
        host.ranks += 1

    def work(self, price: Price, then: Call, *args: Any) -> None:
        """Do some work after all earlier work, then call ``then``."""
        self._begin(price, 0.0, then, args)

    def wake(self, price: Price, then: Call, *args: Any, is_far: bool = False) -> None:
        """A message brings some work. A thread that sleeps hears of it late; ``is_far``: it comes from another host, so it hears of it when
        it looks."""
        late, lasts = 0.0, 0.0
        if not self._queue if self.host.is_shared else self._free <= self.clock.now:
            late, lasts = self._waited(self.clock.now - self._free, is_far)
        self._begin(price, late, then, args, lasts)

    def _waited(self, quiet: float, is_far: bool) -> tuple[float, float]:
        """Return how late this rank hears of a message after so many quiet seconds, and what it works more for that."""
        hot = 0.0 if self.is_aside else _HOT_BRISK if self._short >= _BRISK else _HOT
        self._short = self._short + 1 if quiet < _SHORT else 0
        polled = min(quiet, hot)
        self.polled += polled
        self.busy += polled
        if quiet <= hot:
            return 0.0, 0.0
        naps, rest = looks(quiet) if is_far else (0, self._delay)
        self.naps += naps
        self.wakes += 1
        wake = self._wake[quiet > COLD]
        self.colds += quiet > COLD
        self.busy += naps * self._nap.seconds + wake.seconds
        return rest, wake.lasts

    def _begin(self, price: Price, late: float, then: Call, args: tuple[Any, ...], more: float = 0.0) -> None:
        now = self.clock.now
        self.busy += price.seconds
        if price.tally:
            held = self.done.get(id(price))
            self.done[id(price)] = price, held[1] + 1 if held else 1
        if not self.host.is_shared:
            self._free = max(now + late, self._free) + more + price.lasts
            self.clock.at(self._free, then, *args)
            return
        self._queue.append((price.seconds + more, then, args))
        if len(self._queue) == 1:
            if late:
                self.clock.at(now + late, self._start)
            else:
                self._start()

    def _start(self) -> None:
        self.host.begin(self, self._queue[0][0])

    def finish(self) -> None:
        _, then, args = self._queue.popleft()
        self._free = self.clock.now
        if self._queue:
            self._start()
        then(*args)

    def forget(self) -> None:
        """Count anew."""
        self.busy = self.wakes = self.colds = self.naps = self.polled = 0.0
        self.done.clear()

    def tally(self) -> Tally:
        """Return all that this rank has done."""
        found: Tally = {"wake": self.wakes, "cold": self.colds, "nap": self.naps, POLLED: self.polled}
        for price, times in self.done.values():
            for name, count in price.tally.items():
                found[name] = found.get(name, 0.0) + count * times
        return found


def looks(quiet: float) -> tuple[int, float]:
    """Return how often a thread has looked in vain after so many quiet seconds, and how long the next look is away. Naps last an eighth of
    the quiet time before them, within bounds.

    >>> looks(2e-6)
    (0, 0.0)
    >>> looks(1.0)[1] <= 5e-3
    True
    """
    if quiet <= _HOT:
        return 0, 0.0
    grows, stays = _NAP_LEAST * _NAP_PART, _NAP_MOST * _NAP_PART       # naps have the least length until one, the greatest from the other
    count = math.ceil((min(quiet, grows) - _HOT) / _NAP_LEAST)
    at = _HOT + count * _NAP_LEAST
    if quiet > at:
        ratio = 1 + 1 / _NAP_PART
        more = math.ceil(math.log(min(quiet, stays) / at) / math.log(ratio)) if min(quiet, stays) > at else 0
        count, at = count + more, at * ratio ** more
    if quiet > at:
        more = math.ceil((quiet - at) / _NAP_MOST)
        count, at = count + more, at + more * _NAP_MOST
    return count - 1, at - quiet


class Network:
    """Bytes pass the links of both hosts."""

    def __init__(self, clock: Clock, latency: float) -> None:
        self._clock, self._latency = clock, latency

    def send(self, source: Rank, target: Rank, size: float, price: Price, then: Call, *args: Any) -> None:
        """Let bytes travel that have been handed over. ``price``: the receiver's for them, after which ``then`` is called."""
        if source.host is target.host:
            target.wake(price, then, *args)
            return
        size *= _FRAMES
        begun = max(self._clock.now, source.host.out.free)
        source.host.out.pass_through(self._clock.now, size)
        self._clock.at(begun + self._latency, self._arrive, target, size, price, then, args)

    def _arrive(self, target: Rank, size: float, price: Price, then: Call, args: tuple[Any, ...]) -> None:
        done = target.host.into.pass_through(self._clock.now, size)
        self._clock.at(done, self._receive, target, price, then, args)

    @staticmethod
    def _receive(target: Rank, price: Price, then: Call, args: tuple[Any, ...]) -> None:
        target.wake(price, then, *args, is_far=True)
