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
BUNDLE, INLINE = 65536, 4032           # bytes of a bundle; of a payload that travels with its header


@dataclass(frozen=True)
class Options:
    """How parameters and gradients travel."""

    compress: str = "none"
    rounds: bool = False               # parameters come back in bfloat16
    period: int = 1                    # steps of a trainer whose changes travel together


@dataclass
class Packet:
    """Some messages from one rank to another, which the simulation handles together."""

    server: int
    messages: int
    bytes: int                         # payload and headers
    sends: int = -1                    # as which they travel: small messages share bundles; -1: each alone
    receipts: int = -1                 # that the other side sends; -1: one for each of these
    values: int = 0                    # bytes of parameters or gradients, before they are compressed
    entries: int = 0                   # small parameters
    names: frozenset[str] = frozenset()
    kind: str = "others"               # its class in the logs
    moment: int = 0                    # at which it is sent

    def __post_init__(self) -> None:
        self.sends = self.messages if self.sends < 0 else self.sends
        self.receipts = self.sends if self.receipts < 0 else self.receipts

    @property
    def bulks(self) -> int:
        """Return how many of the messages that travel are not small."""
        return self.sends if self.bytes > (INLINE + HEADER) * max(self.sends, 1) else 0


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
        """Return the messages and bytes of a trainer's step, by class. Receipts are not counted."""
        found: dict[str, tuple[int, int]] = {}
        for one in (*self.pushes, *self.ends, *self.answers, *self.keys, *self.rows):
            count, size = found.get(one.kind, (0, 0))
            found[one.kind] = count + one.messages, size + one.bytes
        return found

    def travels(self) -> tuple[int, int]:
        """Return the messages of a trainer's step as they travel, bundles and receipts with them, and all bytes."""
        there, back = (*self.pushes, *self.ends, *self.keys), (*self.answers, *self.rows)
        receipts = sum(one.receipts for one in there)
        return (sum(one.sends for one in (*there, *back)) + receipts,
                sum(one.bytes for one in (*there, *back)) + HEADER * receipts)


def schedule_of(facts: Facts, servers: int, options: Options = Options(), averages: bool = True) -> Schedule:
    """Return the packets of a step. ``averages``: the loss travels, as in modes in which trainers wait for each other."""
    made = Schedule(servers)
    blocks = _blocks(facts, servers, averages)
    _add_pushes(made, facts, blocks, options)
    _add_pulls(made, facts, blocks, options)
    _add_tables(made, facts, options)
    made.pushes.sort(key=lambda one: one.moment)
    return made


def _add_tables(made: Schedule, facts: Facts, options: Options) -> None:
    """Small messages about several tables share bundles; a step's small gradients of rows leave with its end."""
    share = 2 if options.rounds else 1
    for server in range(made.servers):
        keys, rows, pushed = [], [], []
        for table in facts.tables:
            each = table.union(options.period) / made.servers
            keys.append(_rows("keys", server, each, table.row_bytes, 8, table.name))
            rows.append(_rows("rows", server, each, table.row_bytes, table.row_bytes // share, table.name))
            one = _rows("row_gradients", server, each, 8 + table.row_bytes, 8 + table.row_bytes, table.name)
            one.moment = len(facts.moments) if _is_bundled(one) else _moment_of(facts, table.name)
            pushed.append(one)
        made.keys += _bundled(keys)
        made.rows += _bundled(rows)
        made.pushes += _bundled(pushed)


def _is_bundled(one: Packet) -> bool:
    return one.messages == 1 and one.bytes <= SMALL + HEADER


def _bundled(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets to one server with the small ones of a class as one, which travels in bundles."""
    alone, small = [one for one in packets if not _is_bundled(one)], [one for one in packets if _is_bundled(one)]
    if len(small) < 2:
        return list(packets)
    size = sum(one.bytes for one in small)
    return [*alone, Packet(small[0].server, len(small), size, -(-size // BUNDLE), values=sum(one.values for one in small),
                           entries=sum(one.entries for one in small), names=frozenset(name for one in small for name in one.names),
                           kind=small[0].kind, moment=small[0].moment)]


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


def _compressed(options: Options, size: int, filled: float = 1.0) -> int:
    """Return the bytes of a compressed chunk of float32, as in ``pserver/wire/compress.c``. ``filled``: the share that is not zero."""
    values, method = size // 4, options.compress
    if method in ("fp16", "bf16"):
        return 4 + 2 * values
    if method == "int8":
        return 4 + 2 * -(-values // 256) + values
    if method.startswith("topk"):
        kept = max(1, math.ceil(float(method[5:-1]) * values))
        return 4 + _sparse(values, kept)
    if method == "nonzero":
        return 12 + _sparse(values, round(filled * values)) if filled > 0 else 4
    return size


def _sparse(values: int, kept: int) -> int:
    """Return the bytes of some of the values, with their places."""
    return 4 * kept + min(4 * -(-values // 65536) + 2 * kept, 8 * -(-values // 64))


def _add_pushes(made: Schedule, facts: Facts, blocks: dict[str, list[_Block]], options: Options) -> None:
    """Small gradients leave together: behind the next large gradient, which wakes the communication thread."""
    order = [(index, name) for index, one in enumerate(facts.moments) if one.is_send for name in one.names]
    gathered: dict[int, list[_Block]] = {}
    sizes: dict[int, int] = {}

    def flush(server: int, moment: int) -> None:
        if found := gathered.pop(server, None):
            size = HEADER + sizes.pop(server)
            joins_end = moment == len(facts.moments) and size <= SMALL + HEADER        # it leaves in a bundle with the end of the step
            made.pushes.append(Packet(server, 1, size, 0 if joins_end else 1, values=sum(one.bytes for one in found), entries=len(found),
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
                payload = _compressed(options, size, facts.filled.get(name, 1.0))
                made.pushes.append(Packet(block.server, 1, HEADER + payload, values=size, moment=moment,
                                          kind="gradients" if options.compress == "none" else "compressed"))
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
        is_small = sum(_wanted_of(one, share) for one in pulls) <= SMALL                # then the last receipt is in the answer's bundle
        made.ends.append(Packet(server, 1 + len(pulls), HEADER * (1 + len(pulls)) + 4 * count, 2, 1 if is_small else 2))
    most = max(map(len, asked.values()), default=0)
    for turn in range(most):                           # the servers answer at the same time
        for server, pulls in asked.items():
            if turn < len(pulls) and pulls[turn]:
                made.answers += _answer(server, pulls[turn], share)


def _wanted_of(pull: Sequence[_Block], share: int) -> int:
    return sum(one.bytes // share for one in pull)


def _answer(server: int, pull: Sequence[_Block], share: int) -> Iterable[Packet]:
    found: list[Packet] = []
    some: list[_Block] = []
    size = 0

    def flush() -> None:
        if some:
            found.append(Packet(server, 1, HEADER + size, values=sum(one.bytes for one in some), entries=len(some),
                                names=frozenset(one.name for one in some), kind="parameters"))

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
            found.append(Packet(server, 1, HEADER + part, values=part * share, names=frozenset([block.name]), kind="parameters"))
    return found


def _rows(kind: str, server: int, each: float, piece_bytes: int, row_bytes: int, name: str) -> Packet:
    """Return messages about so many rows of a table; a message has as many rows as fit into a chunk."""
    most = max(CHUNK // max(piece_bytes, 1), 1)
    messages = max(1, -(-round(each) // most))
    size = round(each * row_bytes)
    return Packet(server, messages, HEADER * messages + size, values=size, entries=round(each), names=frozenset([name]), kind=kind)


def of_several(facts: Facts, one: Packet, trainers: int, servers: int) -> Packet:
    """Return the packet that has what so many trainers would push, added up: as many values, or the rows of all their keys."""
    if one.kind != "row_gradients":
        return Packet(one.server, one.messages, HEADER * one.messages + one.values if one.kind == "compressed" else one.bytes, one.sends,
                      values=one.values, entries=one.entries, names=one.names, kind="gradients" if one.kind == "compressed" else one.kind,
                      moment=one.moment)
    tables = [table for table in facts.tables if table.name in one.names]
    share = sum(table.union(trainers) for table in tables) / max(sum(table.union(1) for table in tables), 1e-9)
    values = round(one.values * share)
    return Packet(one.server, one.messages, one.bytes - one.values + values, one.sends, values=values, entries=round(one.entries * share),
                  names=one.names, kind=one.kind, moment=one.moment)


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
            one = Packet(one.server, held.messages + one.messages, held.bytes + one.bytes, held.sends + one.sends,
                         held.receipts + one.receipts, held.values + one.values, held.entries + one.entries, held.names | one.names,
                         one.kind, one.moment)
        if one.bytes * most >= total[one.server]:
            open_.pop(one.server, None)
            found.append(one)
        else:
            open_[one.server] = one
    return sorted([*found, *open_.values()], key=lambda one: one.moment)
