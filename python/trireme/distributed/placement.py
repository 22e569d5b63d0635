"""Assign the rows of each parameter to servers.

A parameter is cut along its first dimension, so that a block is one piece of memory. At most one block of a parameter lies on a
server. Parameters that are not cut are placed first, the largest first. Each goes to the server that is least busy with it. The others then
even out the bytes, those with large rows first. The result depends only on the arguments: every trainer computes it by itself.

How busy a server is has two measures: its share of all bytes, which are its memory and its network, and its share of all work, which is
the time of its updates. The larger of the two counts. An update's work has a fixed part, so many tiny parameters are as much work as a
large one.

The fullest server has at most 5 % more bytes than the mean, or one piece more: a row, two of the smallest blocks, or a parameter that an
operator needs as a whole. So a parameter of a few huge rows, or a small net on many servers, cannot be even. The busiest server has at most
10 % more work than the mean, with the same exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


# The fixed part of an update's work: it takes as long as to read or write so many bytes of memory (about 1 us).
UPDATE = 16384


@dataclass(frozen=True)
class Item:
    """A parameter to be placed: ``rows`` rows of ``row_bytes``; one that ``is_whole`` must not be cut. Its update reads and writes so many
    ``arrays`` of its size."""

    name: str
    rows: int
    row_bytes: int
    is_whole: bool = False
    arrays: int = 3

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes

    def work(self, rows: int) -> int:
        """Return the work of an update of some rows, in bytes that are read or written."""
        return UPDATE + self.arrays * self.row_bytes * rows


@dataclass(frozen=True)
class Part:
    """Rows ``begin`` to ``end`` of a parameter, on ``server``; number ``index`` of ``count`` parts."""

    name: str
    index: int
    count: int
    begin: int
    end: int
    server: int

    @property
    def rows(self) -> int:
        return self.end - self.begin

    @property
    def suffix(self) -> str:
        """The ending of a block's name; empty where the parameter has one part."""
        return f".block{self.index}" if self.count > 1 else ""


def place(items: Sequence[Item], servers: int, min_bytes: int = 32768) -> dict[str, list[Part]]:
    """Return the parts of each parameter, in the order of their rows. No part is smaller than ``min_bytes``,
    unless its parameter is.

    >>> from trireme.distributed.placement import Item, place
    >>> parts = place([Item("table", 1000, 400), Item("w", 10, 40)], 2)
    >>> [(p.server, p.begin, p.end) for p in parts["table"]]
    [(0, 0, 499), (1, 499, 1000)]
    """
    if servers < 1:
        raise ValueError(f"place: there must be at least one server, got {servers}")
    loads, work = [0] * servers, [0] * servers
    sums = sum(item.bytes for item in items) or 1, sum(item.work(item.rows) for item in items) or 1
    pieces = {item.name: _pieces(item, servers, min_bytes) for item in items}
    order = sorted(items, key=lambda item: (pieces[item.name] > 1, -max(item.row_bytes, min_bytes), -item.bytes))
    placed: dict[str, list[Part]] = {}
    for item in order:
        if pieces[item.name] > 1:
            shares = _level(item, loads, pieces[item.name], min_bytes)
        else:
            busy = [max((load + item.bytes) / sums[0], (done + item.work(item.rows)) / sums[1]) for load, done in zip(loads, work)]
            shares = [(busy.index(min(busy)), item.rows)]
        for server, rows in shares:
            loads[server] += rows * item.row_bytes
            work[server] += item.work(rows)
        placed[item.name] = _parts(item.name, shares)
    return {item.name: placed[item.name] for item in items}


def by_server(parts: dict[str, list[Part]], servers: int) -> list[dict[str, Part]]:
    """Return, for each server, its parts by parameter."""
    mine: list[dict[str, Part]] = [{} for _ in range(servers)]
    for name, pieces in parts.items():
        for one in pieces:
            mine[one.server][name] = one
    return mine


def _pieces(item: Item, servers: int, min_bytes: int) -> int:
    if item.is_whole:
        return 1
    return max(1, min(servers, item.rows, item.bytes // max(min_bytes, 1)))


def _level(item: Item, loads: Sequence[int], pieces: int, min_bytes: int) -> list[tuple[int, int]]:
    """Return (server, rows) for the servers with the smallest loads, so that the loads become as equal as possible."""
    servers = sorted(range(len(loads)), key=lambda server: (loads[server], server))[:pieces]
    least = min(-(-min_bytes // item.row_bytes) if item.row_bytes else 0, item.rows)
    shares = _shares(item, [loads[server] for server in servers])
    while len(servers) > 1 and min(shares) < least:
        servers.pop()                                  # this server has enough already: its part would be too small
        shares = _shares(item, [loads[server] for server in servers])
    return sorted(zip(servers, shares))


def _shares(item: Item, loads: Sequence[int]) -> list[int]:
    """Return the rows for servers with these loads, the smallest load first. Fill up to one level, then add row by row."""
    if len(loads) == 1 or not item.row_bytes:
        return [item.rows] + [0] * (len(loads) - 1)
    level = (sum(loads) + item.bytes) / len(loads)
    shares = [max(int((level - load) // item.row_bytes), 0) for load in loads]
    for _ in range(item.rows - sum(shares)):           # these rows are fewer than the servers
        least = min(range(len(loads)), key=lambda i: loads[i] + shares[i] * item.row_bytes)
        shares[least] += 1
    return shares


def _parts(name: str, shares: Iterable[tuple[int, int]]) -> list[Part]:
    shares = list(shares)
    parts, begin = [], 0
    for index, (server, rows) in enumerate(shares):
        parts.append(Part(name, index, len(shares), begin, begin + rows, server))
        begin += rows
    return parts
