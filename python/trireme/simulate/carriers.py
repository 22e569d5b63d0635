"""The trainers of a host, of which one carries the requests of all for a server of another host: ``pserver/core/carrier``.

Equal pushes leave as one, with its sum and, in the same bundle, a header for each other trainer. One answer comes, which the carrier
hands to all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .hosts import Call
from .ranks import Server, Trainer, Work
from .schedule import HEADER, Packet, of_several


class Carrier:
    def __init__(self, work: Work, server: Server, group: list[Trainer]) -> None:
        self.work, self.server, self.group = work, server, group
        self.trainer = group[server.index % len(group)]
        self._arrived: dict[tuple[int, int], int] = {}
        self._sums: dict[int, Packet] = {}             # by the packet's identity

    @property
    def _others(self) -> int:
        return len(self.group) - 1

    # -- requests -----------------------------------------------------------------------------------------------

    def send_push(self, trainer: Trainer, step: int, number: int, one: Packet) -> None:
        """A trainer has handed over a push."""
        key = step, number
        before = self._arrived.get(key, 0)
        self._arrived[key] = before + 1
        is_last = before == self._others
        if is_last:
            del self._arrived[key]
        price = self.work.prices.gathering(one, trainer is not self.trainer, before > 0)
        then = (self._send_sum, step, number, one) if is_last else (_nothing,)
        if trainer is self.trainer:
            self.trainer.mover.work(price, *then)
        else:
            self.work.network.send(trainer.mover, self.trainer.mover, one.bytes, price, *then)

    def _send_sum(self, step: int, number: int, one: Packet) -> None:
        sum_ = self._sum_of(one)
        price = self.work.prices.request(sum_, "tcp", is_forwarded=True)
        self.trainer.mover.work(price, self.server.send_sum, self, step, number, one, sum_)

    def _sum_of(self, one: Packet) -> Packet:
        """Return the packet that leaves in the place of one of each trainer."""
        if id(one) not in self._sums:
            sum_ = of_several(self.work.facts, one, len(self.group), self.work.schedule.servers)
            self._sums[id(one)] = replace(sum_, messages=sum_.messages + self._others, bytes=sum_.bytes + HEADER * self._others,
                                          sends=sum_.sends + (one.sends > 0), receipts=one.receipts * len(self.group))
        return self._sums[id(one)]

    def send_on(self, trainer: Trainer, one: Packet, then: Call, *args: Any) -> None:
        """A trainer has handed over a request that is carried on as it is."""
        forward = self.work.prices.request(one, "tcp", is_forwarded=True)
        if trainer is self.trainer:
            self.trainer.mover.work(forward, then, *args)
            return
        price = self.work.prices.gathering(one, True, False)
        self.work.network.send(trainer.mover, self.trainer.mover, one.bytes, price, self.trainer.mover.work, forward, then, *args)

    # -- answers ------------------------------------------------------------------------------------------------

    def receive(self, one: Packet) -> None:
        """A packet of the group's answer is on its way."""
        price = self.work.prices.answer(one, "tcp")
        self.work.network.send(self.server.rank, self.trainer.mover, one.bytes, price, self._hand_out, one)

    def _hand_out(self, one: Packet) -> None:
        self.trainer.come(one)
        for other in self.group:
            if other is not self.trainer:
                self.trainer.mover.work(self.work.prices.handing(one), self._hand_to, other, one)

    def _hand_to(self, other: Trainer, one: Packet) -> None:
        price = self.work.prices.answer(one, "memory")
        self.work.network.send(self.trainer.mover, other.mover, one.bytes, price, other.come, one)


def _nothing(*_: object) -> None:
    return
