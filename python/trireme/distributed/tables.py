"""The memory of sparse tables, and their most frequent keys."""

from __future__ import annotations

from dataclasses import dataclass

from .._core import ffi, lib
from ..job import job as _jobs
from ..native.errors import check
from ..native.names import name_chars
from ..native.scope import Scope
from ..parameters.sparse_table import table_names
from ..program import Program, default_main_program
from ..run.scopes import global_scope


@dataclass(frozen=True)
class TableDisk:
    """What lies on disk of a table with ``memory`` and ``spill`` (layers.embedding). ``str(disk)`` is one line.

    ``rows`` rows lie in a file of ``file_bytes``. Look-ups and updates used ``looked_up`` keys; ``found_in_memory`` of them had a row in
    memory. ``reads`` rows were read, which took ``read_bytes`` of the disk; ``reads_ahead`` of them were announced (``prefetch``) and used
    later. Steps waited ``wait_seconds`` for all reads. ``written_bytes`` were written.

    >>> print(fluid.distributed.TableDisk(900, 140_000, 4000, 3000, 1000, 4_096_000, 950, 150_000, 0.02))
    900 rows in 0.1 MB of disk; 75.0 % of 4000 keys found in memory; 1000 reads (4.1 MB), 950 ahead, waited 0.02 s; 0.1 MB written
    """

    rows: int
    file_bytes: int
    looked_up: int
    found_in_memory: int
    reads: int
    read_bytes: int
    reads_ahead: int
    written_bytes: int
    wait_seconds: float

    def __str__(self) -> str:
        found, file = 100 * (self.found_in_memory / max(self.looked_up, 1)), self.file_bytes / 1e6
        return (f"{self.rows} rows in {file:.1f} MB of disk; {found:.1f} % of {self.looked_up} keys found in memory; {self.reads} reads "
                f"({self.read_bytes / 1e6:.1f} MB), {self.reads_ahead} ahead, waited {self.wait_seconds:.2f} s; "
                f"{self.written_bytes / 1e6:.1f} MB written")


@dataclass(frozen=True)
class TablePart:
    """One server's part of a table; in one process the whole table. Bytes of rows count only rows in use.

    The part has ``rows`` rows. ``waiting`` keys were used, but fewer than ``entry_count`` times. One row takes ``row_bytes``. All rows
    together take ``value_bytes``, ``state_bytes`` (the optimizer's states) and ``header_bytes``. The index takes ``index_bytes``, and
    the undo log of an update takes ``journal_bytes``. ``bytes`` is all memory together. ``hot_keys`` are pairs of a key and the number
    of updates that changed its row, in falling order.

    Of a table with ``memory`` and ``spill``, ``disk`` says what lies on disk. Then ``rows`` counts rows in memory and on disk, and
    ``hot_keys`` are of the rows in memory.

    >>> ids = fluid.layers.data("ids", [1], dtype="int64")
    >>> rows = fluid.layers.embedding(ids, [100, 8], is_distributed=True, param_attr="clicks")
    >>> _ = fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(rows))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = exe.run(feed={"ids": np.array([[7], [8]])})
    >>> part = fluid.distributed.table_report()[0].parts[0]
    >>> part.rows, part.value_bytes, part.state_bytes
    (2, 64, 0)
    """

    rows: int
    waiting: int                       # keys that were used, but fewer than ``entry_count`` times
    row_bytes: int                     # of one row: values, the optimizer's states, header
    value_bytes: int
    state_bytes: int
    header_bytes: int
    index_bytes: int
    journal_bytes: int                 # kept to take an update back
    bytes: int                         # taken from the machine in all, with room for rows to come
    hot_keys: list[tuple[int, int]]    # (key, updates that touched its row), most updates first; 32 at most
    disk: TableDisk | None = None      # what lies on disk; None: all rows are in memory


@dataclass(frozen=True)
class TableReport:
    """A table, server by server.

    ``name`` is the table's; ``parts`` has a TablePart for each server.

    ``rows``, ``bytes`` and ``hot_keys`` are those of all servers. ``str(report)`` is a table with a line for each server.

    >>> ids = fluid.layers.data("ids", [1], dtype="int64")
    >>> rows = fluid.layers.embedding(ids, [100, 8], is_distributed=True, param_attr="clicks")
    >>> _ = fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(rows))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = exe.run(feed={"ids": np.array([[7], [8]])})
    >>> report, = fluid.distributed.table_report()
    >>> report.name, report.rows, len(report.parts)
    ('clicks', 2, 1)
    """

    name: str
    parts: list[TablePart]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def hot_keys(self) -> list[tuple[int, int]]:
        """The hottest keys of all servers: (key, updates), at most 32."""
        every = [hot for part in self.parts for hot in part.hot_keys]
        return sorted(every, key=lambda hot: (-hot[1], hot[0]))[:_HOT_KEYS]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.rows} rows, {self.bytes / 1e6:.1f} MB",
                 "  server       rows  bytes a row  values MB  states MB  headers MB  index MB  journal MB    all MB"]
        for server, part in enumerate(self.parts):
            sizes = (part.value_bytes, part.state_bytes, part.header_bytes, part.index_bytes, part.journal_bytes, part.bytes)
            values, states, headers, index, journal, every = (size / 1e6 for size in sizes)
            lines.append(f"  {server:6d} {part.rows:10d} {part.bytes / max(part.rows, 1):12.1f} {values:10.1f} {states:10.1f} "
                         f"{headers:11.1f} {index:9.1f} {journal:11.1f} {every:9.1f}")
        lines += [f"  {server:6d} on disk: {part.disk}" for server, part in enumerate(self.parts) if part.disk]
        if self.hot_keys:
            lines.append("  hottest keys (updates): " + ", ".join(f"{key} ({updates})" for key, updates in self.hot_keys[:8]))
        return "\n".join(lines)


class TableReports(list[TableReport]):
    """A list with one report for each table. Its text has some lines for each.

    ``iterable`` has the reports.

    A program without sparse tables:

    >>> reports = fluid.distributed.table_report()
    >>> len(reports), str(reports)
    (0, '')
    """

    def __str__(self) -> str:
        return "\n".join(map(str, self))


_HOT_KEYS = int(lib.TR_TABLE_HOT_KEYS)


def _disk_of(scope: Scope, name: str, server: int) -> TableDisk | None:
    """What lies on disk of a table; None: it was never used, or all its rows are in memory."""
    out = ffi.new("tr_table_disk *")
    check(lib.tr_table_get_disk(out, scope._native.ptr, name_chars(name), server))
    if not out.looked_up:
        return None
    return TableDisk(out.rows, out.file_bytes, out.looked_up, out.found_in_memory, out.reads, out.read_bytes, out.reads_ahead,
                     out.written_bytes, out.wait_microseconds / 1e6)


def table_report(program: Program | None = None, scope: Scope | None = None) -> TableReports:
    """Return the memory of each sparse table of the program, and its most frequent keys: from the servers in a job, else from the scope.

    Any trainer may call it between its steps. Servers answer when they have applied the steps that this trainer has ended. A server reads
    the header of each row, which takes about a second for 100 million rows.

    >>> ids = fluid.layers.data("ids", [3, 1], dtype="int64")
    >>> rows = fluid.layers.embedding(ids, [1000, 8], is_distributed=True, param_attr="clicks")
    >>> _ = fluid.optimizer.Adagrad(0.1).minimize(fluid.layers.mean(rows))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = exe.run(feed={"ids": np.array([[[7], [7], [-1]]])})
    >>> report, = fluid.distributed.table_report()
    >>> report.name, report.rows, report.hot_keys, report.parts[0].value_bytes
    ('clicks', 2, [(-1, 1), (7, 1)], 64)
    >>> str(fluid.distributed.table_report()).splitlines()[0]
    'clicks: 2 rows, 0.1 MB'

    Raises:
        NotFoundError: The startup program has not run.
    """
    program, scope = program or default_main_program(), scope or global_scope()
    if not isinstance(program, Program):
        raise TypeError(f"table_report takes a Program, got {program!r}")
    job, out = _jobs.current(), ffi.new("tr_table_part *")
    reports = TableReports()
    for name in sorted(table_names(program)):
        parts = []
        for server in range(job.servers if job is not None else 1):
            check(lib.tr_table_get_part(out, scope._native.ptr, name_chars(name), server))
            hot = [(int(out.hot[i].key), int(out.hot[i].updates)) for i in range(out.hot_count)]
            parts.append(TablePart(out.rows, out.waiting, out.row_bytes, out.value_bytes, out.state_bytes, out.header_bytes,
                                   out.index_bytes, out.journal_bytes, out.bytes, hot, _disk_of(scope, name, server)))
        reports.append(TableReport(name, parts))
    return reports
