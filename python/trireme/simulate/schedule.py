"""The messages of a step between a trainer and the servers: as many, and of as many bytes, as the real client and servers exchange.

The rules are those of ``client_pushes.c``, ``client_pulls.c`` and ``client_rows.c`` in ``pserver/core/client`` and of
``pserver/core/updates/server_pulls.c``; ``tests/python/test_simulate.py`` compares the counts with those of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..distributed.placement import place
from .facts import Facts

HEADER, ENTRY, CHUNK, SMALL, ALIGN = 64, 8, 524288, 16384, 8


@dataclass(frozen=True)
class Options:
    """How parameters and gradients travel."""

    compress: str = "none"
    rounds: bool = False               # parameters come back in bfloat16


@dataclass
class Packet:
    """Some messages from one rank to another, which the simulation handles together."""

    server: int
    messages: int
    bytes: int                         # payload and headers
    values: int = 0                    # bytes of parameters or gradients, before they are compressed
    entries: int = 0                   # small parameters
    names: frozenset[str] = frozenset()
    kind: str = "others"               # its class in the logs
    moment: int = 0                    # at which it is sent


@dataclass(frozen=True)
class _Block:
    name: str
    server: int
    bytes: int

    @property
    def is_small(self) -> bool:
        return self.bytes <= SMALL


@dataclass
class Schedule:
    """The packets of a step of one trainer. ``pushes`` and ``answers`` are in the order in which they are sent."""

    servers: int
    pushes: list[Packet] = field(default_factory=list)
    ends: list[Packet] = field(default_factory=list)       # STEP_END and PULL, one for each server
    answers: list[Packet] = field(default_factory=list)
    keys: list[Packet] = field(default_factory=list)
    rows: list[Packet] = field(default_factory=list)

    def totals(self) -> dict[str, tuple[int, int]]:
        """Return the messages and bytes of a trainer's step, by class. Acknowledgements are one for each server."""
        found: dict[str, tuple[int, int]] = {}
        for one in (*self.pushes, *self.ends, *self.answers, *self.keys, *self.rows, *_receipts(self.servers)):
            count, size = found.get(one.kind, (0, 0))
            found[one.kind] = count + one.messages, size + one.bytes
        return found


def _receipts(servers: int) -> list[Packet]:
    return [Packet(server, 1, HEADER) for server in range(servers)]


def schedule_of(facts: Facts, servers: int, options: Options = Options(), averages: bool = True) -> Schedule:
    """Return the packets of a step. ``averages``: the loss travels, as in modes in which trainers wait for each other."""
    made = Schedule(servers)
    blocks = _blocks(facts, servers, averages)
    _add_pushes(made, facts, blocks, options)
    _add_pulls(made, facts, blocks, options)
    for table in facts.tables:
        each = table.keys / servers
        made.keys += _rows("keys", servers, each, table.row_bytes, 8, table.name)
        answered = table.row_bytes // (2 if options.rounds else 1)
        made.rows += _rows("rows", servers, each, table.row_bytes, answered, table.name)
        at = _moment_of(facts, table.name)
        pushed = _rows("row_gradients", servers, each, 8 + table.row_bytes, 8 + table.row_bytes, table.name)
        for one in pushed:
            one.moment = at
        made.pushes += pushed
    made.pushes.sort(key=lambda one: one.moment)
    return made


def _blocks(facts: Facts, servers: int, averages: bool) -> dict[str, list[_Block]]:
    parts = place(facts.items, servers)
    row_bytes = {item.name: item.row_bytes for item in facts.items}
    blocks = {name: [_Block(name, one.server, one.rows * row_bytes[name]) for one in pieces] for name, pieces in parts.items()}
    if averages:
        blocks.update({name: [_Block(name, 0, size)] for name, size in facts.averaged.items()})
    return blocks


def _moment_of(facts: Facts, name: str) -> int:
    return max((index for index, one in enumerate(facts.moments) if one.is_send and name in one.names), default=len(facts.moments))


def _entry(size: int) -> int:
    return ENTRY + -(-size // ALIGN) * ALIGN


def _compressed(options: Options, size: int) -> int:
    """Return the bytes of a compressed chunk of float32, as in ``pserver/wire/compress.c``."""
    values, method = size // 4, options.compress
    if method in ("fp16", "bf16"):
        return 4 + 2 * values
    if method == "int8":
        return 4 + 2 * -(-values // 256) + values
    if method.startswith("topk"):
        kept = max(1, math.ceil(float(method[5:-1]) * values))
        return 4 + 4 * kept + min(4 * -(-values // 65536) + 2 * kept, 8 * -(-values // 64))
    return size


def _add_pushes(made: Schedule, facts: Facts, blocks: dict[str, list[_Block]], options: Options) -> None:
    """Small gradients leave together: behind the next large gradient, which wakes the communication thread."""
    order = [(index, name) for index, one in enumerate(facts.moments) if one.is_send for name in one.names]
    gathered: dict[int, list[_Block]] = {}
    sizes: dict[int, int] = {}

    def flush(server: int, moment: int) -> None:
        if found := gathered.pop(server, None):
            made.pushes.append(Packet(server, 1, HEADER + sizes.pop(server), sum(one.bytes for one in found), len(found),
                                      kind="small_gradients", moment=moment))

    for moment, name in order:
        for block in blocks.get(name, ()):
            if block.is_small:
                if sizes.get(block.server, 0) + _entry(block.bytes) > CHUNK:
                    flush(block.server, moment)
                gathered.setdefault(block.server, []).append(block)
                sizes[block.server] = sizes.get(block.server, 0) + _entry(block.bytes)
                continue
            for at in range(0, block.bytes, CHUNK):
                size = min(CHUNK, block.bytes - at)
                is_plain = options.compress == "none"
                made.pushes.append(Packet(block.server, 1, HEADER + (size if is_plain else _compressed(options, size)), size,
                                          kind="gradients" if is_plain else "compressed", moment=moment))
        if not all(block.is_small for block in blocks.get(name, ())):
            for server in list(gathered):
                flush(server, moment)
    for server in list(gathered):
        flush(server, len(facts.moments))


def _add_pulls(made: Schedule, facts: Facts, blocks: dict[str, list[_Block]], options: Options) -> None:
    waited = [name for one in facts.moments if not one.is_send for name in one.names if name in blocks]
    averaged = [name for name in facts.averaged if name in blocks]
    names = list(dict.fromkeys([*averaged, *waited, *blocks]))
    share = 2 if options.rounds else 1
    asked: dict[int, list[list[_Block]]] = {server: [[]] for server in range(made.servers)}
    wanted = dict.fromkeys(asked, 0)
    for name in names:
        for block in blocks[name]:
            asked[block.server][-1].append(block)
            wanted[block.server] += block.bytes // share
            if wanted[block.server] >= CHUNK // 2:
                asked[block.server].append([])
                wanted[block.server] = 0
    for server, pulls in asked.items():
        pulls = [one for one in pulls if one]
        count = sum(map(len, pulls))
        made.ends.append(Packet(server, 1 + len(pulls), HEADER * (1 + len(pulls)) + 4 * count))
    most = max(map(len, asked.values()), default=0)
    for turn in range(most):                           # the servers answer at the same time
        for server, pulls in asked.items():
            if turn < len(pulls) and pulls[turn]:
                made.answers += _answer(server, pulls[turn], share)


def _answer(server: int, pull: Sequence[_Block], share: int) -> Iterable[Packet]:
    found: list[Packet] = []
    some: list[_Block] = []
    size = 0

    def flush() -> None:
        if some:
            found.append(Packet(server, 1, HEADER + size, sum(one.bytes for one in some), len(some), frozenset(one.name for one in some),
                                "parameters"))

    for block in (one for one in pull if one.is_small):
        if some and size + _entry(block.bytes // share) > CHUNK:
            flush()
            some, size = [], 0
        some.append(block)
        size += _entry(block.bytes // share)
    flush()
    for block in (one for one in pull if not one.is_small):
        all_bytes = block.bytes // share
        for at in range(0, all_bytes, CHUNK):
            part = min(CHUNK, all_bytes - at)
            found.append(Packet(server, 1, HEADER + part, part * share, names=frozenset([block.name]), kind="parameters"))
    return found


def _rows(kind: str, servers: int, each: float, piece_bytes: int, row_bytes: int, name: str) -> list[Packet]:
    """Return messages about so many rows of a table for each server; a message has as many rows as fit into a chunk."""
    most = max(CHUNK // max(piece_bytes, 1), 1)
    messages = max(1, -(-round(each) // most))
    size = round(each * row_bytes)
    return [Packet(server, messages, HEADER * messages + size, size, round(each), frozenset([name]), kind) for server in range(servers)]


def merged(packets: Sequence[Packet], most: int) -> list[Packet]:
    """Return the packets with at most so many for each server: neighbours of a server travel together, when the last of them does. Rows
    stay by themselves."""
    dense = [one for one in packets if one.kind != "row_gradients"]
    count: dict[int, int] = {}
    total: dict[int, int] = {}
    for one in dense:
        count[one.server] = count.get(one.server, 0) + 1
        total[one.server] = total.get(one.server, 0) + one.bytes
    if not count or max(count.values()) <= most:
        return list(packets)
    found = [one for one in packets if one.kind == "row_gradients"]
    open_: dict[int, Packet] = {}
    for one in dense:
        held = open_.get(one.server)
        if held is not None:
            one = Packet(one.server, held.messages + one.messages, held.bytes + one.bytes, held.values + one.values,
                         held.entries + one.entries, held.names | one.names, one.kind, one.moment)
        if one.bytes * most >= total[one.server]:
            open_.pop(one.server, None)
            found.append(one)
        else:
            open_[one.server] = one
    return sorted([*found, *open_.values()], key=lambda one: one.moment)
