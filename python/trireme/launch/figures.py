"""Where a step's time went, from a job's logs.

A trainer counts its waiting, servers count how long its gradients lay for others' (``kept``), how long it was held back for slower ones
(``held``), and how long they applied. What is left of the waiting is the wire: copies, MPI, the way there and back, and processors
that were busy with something else. No two clocks are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from .logs import Line, Log, Logs
from .numbers import whole_of
from .progress import add_bins


@dataclass
class Trainer:
    """Milliseconds of a mean step; ``work`` is that of the median step: computing and the script's own."""

    index: int
    host: str
    steps: int
    step: float
    compute: float
    script: float
    encode: float                      # compressing gradients
    others: float                      # waiting for slower trainers
    apply: float                       # and for servers that apply, or have a queue
    wire: float
    late: float                        # behind the first trainer
    work: float
    script_work: float
    bytes: float                       # sent and received
    messages: float


@dataclass
class Server:
    index: int
    host: str
    updates: int
    apply: float                       # of a mean update
    apply_all: float
    received: float                    # bytes, in all
    sent: float
    wait_share: float                  # of the trainers' waiting, that ended with this server's answer


@dataclass
class Figures:
    mode: str
    compress: str
    trainers: list[Trainer]
    servers: list[Server]
    seconds: float                     # the longest that a trainer made steps
    staleness: list[int] = field(default_factory=list)
    dropped: int = 0
    tables: list[tuple[str, int, int, list[tuple[int, int]], int]] = field(default_factory=list)   # name, rows, bytes, hot keys, updates

    def mean(self, part: str) -> float:
        """Of the steps of all trainers."""
        steps = sum(one.steps for one in self.trainers)
        return sum(getattr(one, part) * one.steps for one in self.trainers) / steps if steps else 0.0

    def share(self, part: str) -> float:
        step = self.mean("step")
        return self.mean(part) / step if step > 0 else 0.0

    @property
    def kind(self) -> str:
        return self.mode.partition("(")[0]


def stands_out(values: list[float]) -> tuple[int, float]:
    """Return the place of the greatest, and how many times the median of the others it is; 1.0 where there is no other."""
    if len(values) < 2:
        return 0, 1.0
    most = max(range(len(values)), key=values.__getitem__)
    rest = median(values[:most] + values[most + 1:])
    return most, values[most] / rest if rest > 0 else float("inf") if values[most] > 0 else 1.0


def _of_step(log: Log, name: str, steps: float) -> float:
    return log.number(name) / steps if steps else 0.0


def _by_trainer(logs: Logs, name: str, trainer: int) -> float:
    """The longest that a mean step of this trainer lay on any server, for that reason."""
    found = [0.0]
    for log in logs.servers.values():
        steps = log.numbers("steps_by_trainer", trainer + 1)[trainer]
        if steps:
            found.append(log.numbers(f"{name}_by_trainer_ms", trainer + 1)[trainer] / steps)
    return max(found)


def _trainer(logs: Logs, log: Log, kind: str, apply: float) -> Trainer:
    steps = log.number("steps")
    wait = _of_step(log, "wait_ms", steps)
    kept, held = _by_trainer(logs, "kept", log.index), _by_trainer(logs, "held", log.index)
    others = min(kept if kind == "sync" else held, wait)
    busy = min(apply + (0.0 if kind == "sync" else kept), wait - others)
    return Trainer(
        log.index, log.host, int(steps), _of_step(log, "step_ms", steps), _of_step(log, "compute_ms", steps),
        _of_step(log, "script_ms", steps), _of_step(log, "encode_ms", steps), others, busy, wait - others - busy,
        _by_trainer(logs, "late", log.index),
        log.number("compute_median_ms") + log.number("script_median_ms"), log.number("script_median_ms"),
        _of_step(log, "sent_bytes", steps) + _of_step(log, "received_bytes", steps),
        _of_step(log, "sent_messages", steps) + _of_step(log, "received_messages", steps))


def _server(logs: Logs, index: int, log: Log, waited: float) -> Server:
    waits = sum(trainer.numbers("wait_by_server_ms", index + 1)[index] for trainer in logs.trainers.values())
    return Server(index, log.host, int(log.number("updates")), _of_step(log, "apply_ms", log.number("updates")), log.number("apply_ms"),
                  log.number("received_bytes"), log.number("sent_bytes"), waits / waited if waited else 0.0)


def _hot_keys(line: Line) -> list[tuple[int, int]]:
    """Keys have any value that 64 bits have."""
    pairs = line.get("hot_keys")
    return [(pair[0], whole_of(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int)
            ] if isinstance(pairs, list) else []


def _tables(logs: Logs) -> list[tuple[str, int, int, list[tuple[int, int]], int]]:
    """All servers' parts of each table, and the updates that there were."""
    rows: dict[str, list[tuple[int, int, list[tuple[int, int]], int]]] = {}
    for log in logs.servers.values():
        for line in log.events("table"):
            rows.setdefault(str(line.get("table")), []).append(
                (whole_of(line.get("rows")), whole_of(line.get("bytes")), _hot_keys(line), whole_of(log.number("updates"))))
    return [(name, sum(part[0] for part in parts), sum(part[1] for part in parts),
             sorted((pair for part in parts for pair in part[2]), key=lambda pair: (-pair[1], pair[0]))[:8],
             max(part[3] for part in parts)) for name, parts in sorted(rows.items())]


def figures_of(logs: Logs) -> Figures:
    """Work out where the time went."""
    kind = logs.mode.partition("(")[0]
    waited = sum(sum(log.numbers("wait_by_server_ms", len(logs.servers))) for log in logs.trainers.values())
    servers = [_server(logs, index, log, waited) for index, log in sorted(logs.servers.items())]
    apply = max([server.apply for server in servers], default=0.0)
    trainers = [_trainer(logs, log, kind, apply) for _, log in sorted(logs.trainers.items())]
    bins = [[int(count) for count in log.numbers("staleness", 16)] for log in logs.servers.values()]
    return Figures(logs.mode, logs.compress, [one for one in trainers if one.steps], servers,
                   max(log.number("step_ms") for log in logs.trainers.values()) / 1e3, add_bins(bins),
                   int(sum(log.number("dropped") for log in logs.servers.values())), _tables(logs))


__all__ = ["Figures", "Server", "Trainer", "figures_of", "stands_out"]
