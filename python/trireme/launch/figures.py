"""Where a step's time went, from a job's logs: one record, from which the report and all advice are made.

A trainer measures its waiting. Servers measure how long its gradients waited for those of other trainers (``kept``), how long its
pulls waited for slower trainers (``held``), and how long the servers applied updates. The rest of the waiting is the wire: copies,
MPI, latency, and processors that were busy. Clocks of two hosts are compared only to see whether a log goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, median_low

from ..job.mode import Mode
from .logs import Line, Log, Logs
from .numbers import number_of, whole_of
from .progress import add_bins

# Classes of messages by content, in the order of pserver/observe/traffic.h.
TRAFFIC_CLASSES = ("gradients", "small_gradients", "compressed", "parameters", "row_gradients", "rows", "keys", "bundles", "others")

# a trainer is stalled after so many seconds without a step, if that is also so many times a usual step
_QUIET = 5.0
_QUIET_STEPS = 10


@dataclass
class Trainer:
    """Figures of a trainer. Times are milliseconds of a mean step, unless a comment says otherwise."""

    index: int
    host: str
    steps: int
    step: float = 0.0
    compute: float = 0.0
    script: float = 0.0
    script_median: float = 0.0         # of the median step
    script_max: float = 0.0            # of the longest
    other_runs: float = 0.0            # the part of `script` up to the last run of another program, such as a test
    encode: float = 0.0                # compressing gradients
    others: float = 0.0                # waiting for slower trainers
    apply: float = 0.0                 # and for servers that apply, or have a queue
    wire: float = 0.0
    moving: float = 0.0                # time in which any thread moved messages
    late: float = 0.0                  # delay of its gradients after those of the first trainer
    bytes: float = 0.0                 # sent and received
    messages: float = 0.0
    bytes_by_class: dict[str, float] = field(default_factory=dict)
    messages_by_class: dict[str, float] = field(default_factory=dict)
    rows_wanted: float = 0.0           # rows that lookups wanted; the next two: asked for early, found in the cache
    rows_ahead: float = 0.0
    rows_cached: float = 0.0
    doing: str = ""                    # the trainer's activity when it wrote its last line
    quiet: float = 0.0                 # seconds without the end of a step, until its last line, or that of all where its log has ended
    since: float = 0.0                 # when they began, seconds since 1970
    has_ended: bool = False            # well
    before: float = 0.0                # seconds from the process's joining to its first step

    @property
    def work(self) -> float:
        """The trainer's own work in a step."""
        return self.compute + self.script + self.encode


@dataclass
class Server:
    index: int
    host: str
    updates: int
    apply: float                       # milliseconds of a mean update
    apply_all: float
    idle: float                        # share of its life without an update to apply
    received: float                    # bytes, in all
    sent: float
    wait_share: float                  # share of the trainers' waiting that ended with this server's answer


@dataclass
class Disk:
    """The rows of a table on disk, on all servers."""

    rows: int = 0
    looked_up: int = 0                 # keys of look-ups and updates,
    found_in_memory: int = 0           # and those whose row was in memory
    reads: int = 0
    reads_ahead: int = 0               # rows that were announced, read and used
    written_bytes: int = 0
    wait_ms: float = 0.0               # of the server that has waited longest, in all


@dataclass
class Table:
    name: str
    rows: int
    bytes: int
    hot_keys: list[tuple[int, int]]    # and their updates, hottest first
    updates: int                       # of the server that has made most
    disk: Disk | None                  # None: all rows are in memory


@dataclass
class Figures:
    mode: Mode
    compress: str
    compress_parameters: str
    all_trainers: list[Trainer]
    servers: list[Server]
    seconds: float                     # the longest time over which a trainer made steps
    table_count: int = 0
    compressible: float = 0.0          # bytes of a step's dense gradients that compression can reduce
    staleness: list[int] = field(default_factory=list)
    dropped: int = 0
    skipped: int = 0                   # steps left out because their gradients were not finite
    tables: list[Table] = field(default_factory=list)

    @property
    def trainers(self) -> list[Trainer]:
        """The trainers that have made a step and reported its duration."""
        return [one for one in self.all_trainers if one.steps and one.step > 0]

    @property
    def stalled(self) -> list[Trainer]:
        """The trainers that have not left and have made no step for much longer than steps take."""
        usual = median([one.step for one in self.trainers]) / 1e3 if self.trainers else 0.0
        return [one for one in self.all_trainers if not one.has_ended and one.quiet > max(_QUIET, _QUIET_STEPS * usual)]

    def mean(self, part: str) -> float:
        """The mean over the steps of all trainers."""
        return self._mean([(getattr(one, part), one.steps) for one in self.trainers])

    def traffic(self, kind: str) -> tuple[float, float]:
        """Return the bytes and messages of this kind in a mean step."""
        return (self._mean([(one.bytes_by_class.get(kind, 0.0), one.steps) for one in self.trainers]),
                self._mean([(one.messages_by_class.get(kind, 0.0), one.steps) for one in self.trainers]))

    @staticmethod
    def _mean(weighed: list[tuple[float, int]]) -> float:
        steps = sum(count for _, count in weighed)
        return sum(value * count for value, count in weighed) / steps if steps else 0.0

    def share(self, part: str) -> float:
        step = self.mean("step")
        return self.mean(part) / step if step > 0 else 0.0

    @property
    def slowest(self) -> tuple[Trainer, float] | None:
        """Return the trainer that works longest in a step, and how many milliseconds longer than the median of the others."""
        found = self.trainers
        if len(found) < 2:
            return None
        slow = max(found, key=lambda one: one.work)
        return slow, slow.work - median_low([one.work for one in found if one is not slow])


def stands_out(values: list[float]) -> tuple[int, float]:
    """Return the index of the greatest value, and its ratio to the median of the others; 1.0 if there is no other."""
    if len(values) < 2:
        return 0, 1.0
    most = max(range(len(values)), key=values.__getitem__)
    rest = median(values[:most] + values[most + 1:])
    return most, values[most] / rest if rest > 0 else float("inf") if values[most] > 0 else 1.0


def _by_trainer(logs: Logs, name: str, trainer: int) -> float:
    """Return the longest time that a mean step of this trainer lay on any server, for that reason."""
    found = [0.0]
    for log in logs.servers.values():
        steps = log.numbers("steps_by_trainer", trainer + 1)[trainer]
        if steps:
            found.append(log.numbers(f"{name}_by_trainer_ms", trainer + 1)[trainer] / steps)
    return max(found)


def _parts(one: Trainer, logs: Logs, log: Log, mode: Mode, apply: float) -> None:
    """Fill in the parts of a mean step."""
    def of_step(name: str) -> float:
        return log.number(name) / one.steps

    wait = of_step("wait_ms")
    kept, held = _by_trainer(logs, "kept", log.index), _by_trainer(logs, "held", log.index)
    one.step, one.compute, one.script, one.encode = map(of_step, ("step_ms", "compute_ms", "script_ms", "encode_ms"))
    one.other_runs = of_step("other_runs_ms")
    one.script_median, one.script_max = log.number("script_median_ms"), log.number("script_max_ms")
    one.others = min(kept if mode.has_common_steps else held, wait)
    one.apply = min(apply + (0.0 if mode.has_common_steps else kept), wait - one.others)
    one.wire = wait - one.others - one.apply
    one.moving, one.late = of_step("wire_ms"), _by_trainer(logs, "late", log.index)
    one.bytes = of_step("sent_bytes") + of_step("received_bytes")
    one.messages = of_step("sent_messages") + of_step("received_messages")
    one.bytes_by_class = {name: count / one.steps for name, count in log.table("bytes_by_class").items()}
    one.messages_by_class = {name: count / one.steps for name, count in log.table("messages_by_class").items()}
    one.rows_wanted, one.rows_ahead, one.rows_cached = map(of_step, ("rows_wanted", "rows_ahead", "rows_cached"))


def _trainer(logs: Logs, log: Log, mode: Mode, apply: float) -> Trainer:
    one = Trainer(log.index, log.host, whole_of(log.number("steps")))
    began = [number_of(line.get("t_s")) for line in log.events("began")]
    joined, counted = number_of(log.joined.get("t_s")), number_of(log.totals.get("t_s"))
    one.doing = str(log.totals.get("doing", ""))
    one.has_ended = log.is_whole and log.totals.get("end") == "well"
    one.before = max(0.0, began[-1] - joined) if began and joined else 0.0
    first = began[-1] if began else joined
    one.since = counted - log.number("quiet_ms") / 1e3 if "quiet_ms" in log.totals else counted if one.steps else first
    end = logs.last if logs.last - counted > logs.silence else counted
    one.quiet = max(0.0, end - one.since) if one.since else 0.0
    if one.steps:
        _parts(one, logs, log, mode, apply)
    return one


def _server(logs: Logs, index: int, log: Log, waited: float) -> Server:
    waits = sum(trainer.numbers("wait_by_server_ms", index + 1)[index] for trainer in logs.trainers.values())
    updates = log.number("updates")
    life = number_of(log.totals.get("t_s")) - number_of(log.joined.get("t_s"))
    return Server(index, log.host, int(updates), log.number("apply_ms") / updates if updates else 0.0, log.number("apply_ms"),
                  min(1.0, log.number("idle_ms") / 1e3 / life) if life > 0 else 0.0, log.number("received_bytes"),
                  log.number("sent_bytes"), waits / waited if waited else 0.0)


def _hot_keys(line: Line) -> list[tuple[int, int]]:
    """Return a key, which may have any 64 bits."""
    pairs = line.get("hot_keys")
    return [(pair[0], whole_of(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int)
            ] if isinstance(pairs, list) else []


def _disk_of(parts: list[Line]) -> Disk | None:
    """Combine the servers' parts of a table on disk."""
    disks = [disk for part in parts if isinstance(disk := part.get("disk"), dict)]
    if not disks:
        return None
    counts = {name: sum(whole_of(disk.get(name)) for disk in disks) for name in Disk.__annotations__ if name != "wait_ms"}
    return Disk(**counts, wait_ms=max(number_of(disk.get("wait_ms")) for disk in disks))


def _tables(logs: Logs) -> list[Table]:
    """Combine all servers' parts of each table."""
    parts: dict[str, list[tuple[Line, int]]] = {}
    for log in logs.servers.values():
        for line in log.events("table"):
            parts.setdefault(str(line.get("table")), []).append((line, whole_of(log.number("updates"))))
    tables = []
    for name, found in sorted(parts.items()):
        lines = [line for line, _ in found]
        hot = sorted((pair for line in lines for pair in _hot_keys(line)), key=lambda pair: (-pair[1], pair[0]))[:8]
        rows, bytes = (sum(whole_of(line.get(what)) for line in lines) for what in ("rows", "bytes"))
        tables.append(Table(name, rows, bytes, hot, max(updates for _, updates in found), _disk_of(lines)))
    return tables


def figures_of(logs: Logs) -> Figures:
    """Compute the figures of a job from its logs."""
    waited = sum(sum(log.numbers("wait_by_server_ms", len(logs.servers))) for log in logs.trainers.values())
    servers = [_server(logs, index, log, waited) for index, log in sorted(logs.servers.items())]
    apply = max([server.apply for server in servers], default=0.0)
    trainers = [_trainer(logs, log, logs.policy, apply) for _, log in sorted(logs.trainers.items())]
    bins = [[int(count) for count in log.numbers("staleness", 16)] for log in logs.servers.values()]
    return Figures(logs.policy, logs.compress, logs.compress_parameters, trainers, servers,
                   max(log.number("step_ms") for log in logs.trainers.values()) / 1e3, logs.began_number("tables"),
                   logs.began_number("compressible_bytes"), add_bins(bins),
                   int(sum(log.number("dropped") for log in logs.servers.values())),
                   int(sum(log.number("skipped") for log in logs.trainers.values())), _tables(logs))
