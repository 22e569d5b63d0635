"""Models written for serving: once, or again and again while a training goes on.

The folder of an Exporter holds folders that never change, and the file ``current``, which names those that make the newest model
(serving/export.h describes it). ``full-...`` is a whole model. ``delta-...`` has all dense parameters, and of sparse tables the rows that
changed since the export before. A server tells which rows these are by the number of the last update of each row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .._core import lib
from ..job import job as jobs
from ..native import checksums
from ..native.checks import path_text, plain
from ..native.errors import InvalidArgumentError, NotFoundError, check, check_whole
from ..native.files import new_folder, path_inside
from ..native.names import path_chars
from ..native.scope import Scope
from ..parameters.sparse_table import table_names
from ..parameters.table_files import File, cuts, save_files
from ..program import Program, Variable, default_main_program
from ..program.variable import is_persistable
from ..run.runner import Runner
from ..run.scopes import global_scope
from ..saving import slot_file
from ..saving.io import _inference_program
from ..stores.names import join
from .export_folder import folder_of

_MOST_BYTES = 128 << 20               # of rows in a file: larger than what a reader copies


@dataclass(frozen=True)
class Export:
    """What one export has written.

    ``version`` counts 1, 2, ... ``is_full`` says whether it is whole. ``rows`` has, by the name of each sparse table, how many of its rows
    were written. It took ``seconds`` and lies in ``folder``.

    >>> guess = fluid.layers.fc(fluid.layers.data("x", [1]), 1)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> done = fluid.serving.export_model("serving", ["x"], [guess], exe)
    >>> done.version, done.is_full, done.rows, done.folder
    (1, True, {}, 'serving/full-000000001')
    """

    version: int                       # 1, 2, ...
    is_full: bool
    rows: dict[str, int]               # of each sparse table, that were written
    seconds: float
    folder: str


class _Table:
    """One sparse table, and its files of the newest complete export. Each says up to which update of its server it has the rows."""

    def __init__(self, scope: Scope, name: str) -> None:
        self.scope, self.name = scope, name
        self._files: list[File] = []
        self._written: list[File] = []                 # of the export that is being made

    def write(self, place: str, folder: str, is_full: bool) -> tuple[list[str], int]:
        """Write the rows, all of them or those that changed, to files that begin with ``NAME``; return their names and how many rows.

        They lie in ``place``, an absolute path or a URI; ``folder`` is the local folder of the other files. A delta has a file for the
        shards of each file of the newest whole export.
        """
        if is_full:
            first = cuts(self.scope, self.name, _MOST_BYTES, 1)
            parts = [(shard, end - shard, 0) for shard, end in zip(first, first[1:])]
        else:
            parts = [(file.shard, file.shards, max(file.since, file.last)) for file in self._files]
        names = [f"{self.name}.{shard:04d}.rows" if shard else f"{self.name}.rows" for shard, _, _ in parts]
        os.makedirs(os.path.dirname(path_inside(folder, names[0])), exist_ok=True)
        self._written = [File(f"{place}/{name}", *part) for name, part in zip(names, parts)]
        save_files(self.scope, self.name, self._written)
        return names, sum(file.rows for file in self._written)

    def keep(self) -> None:
        """The export is complete: the next one has what changes from here on."""
        self._files = self._written


class Exporter:
    """Writes a model for serving to ``folder``, again and again: each export has what changed since the one before.

    ``feeds``: names to feed (list of str). ``targets``: Variables to fetch. ``executor``: an Executor. ``main_program``: the training's
    program (default: the default one). ``scope``: where its variables are (default: the global one). ``full_every``: every so many exports
    one is whole (int from 1, default 16), and what is older than that is removed; so a process that follows looks at no more than so many
    files for a row. ``keep_seconds``: how long a folder that is no longer current stays (default 60), for processes that are just reading
    it. ``slots``: the Dataset that the model is trained on, or a list of slots and variables with one for each feed. A Predictor then takes
    rows of raw values (``Predictor.run_rows``).

    In a job every trainer makes the same calls, and trainer 0 writes; nobody waits. Rows come from the servers, as they are after the steps
    that trainer 0 has ended. A row that a table has evicted goes with the next whole export. A job that is started again begins with a
    whole one.

    >>> import tempfile
    >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    >>> guess = fluid.layers.fc(x, 1)
    >>> _ = fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(fluid.layers.square_error_cost(guess, y)))
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> exporter = fluid.serving.Exporter(tempfile.mkdtemp(), ["x"], [guess], exe)
    >>> exporter.export().is_full, exporter.export().is_full
    (True, False)
    """

    def __init__(self, folder: str | os.PathLike[str], feeds: Sequence[str], targets: Sequence[Variable], executor: Runner,
                 main_program: Program | None = None, *, scope: Scope | None = None, full_every: int = 16,
                 keep_seconds: float = 60.0, slots: slot_file.Given = None) -> None:
        full_every, keep_seconds = check_whole("Exporter: full_every", full_every, 1, 1000), plain(keep_seconds)
        if not isinstance(keep_seconds, (int, float)) or not 0 <= keep_seconds < 1e9:
            raise InvalidArgumentError(f"Exporter: keep_seconds={keep_seconds!r}; seconds from 0 on are possible")
        self.folder, self.full_every, self.keep_seconds = path_text(folder), full_every, keep_seconds
        self._place = folder_of(self.folder)
        self._feeds, self._targets = [feeds] if isinstance(feeds, str) else list(feeds), list(targets)
        self._executor, self._scope = executor, scope or global_scope()
        program = main_program or default_main_program()
        for name in self._feeds:
            program.global_block().var(name)           # NotFoundError says what there is
        self._slots = None if slots is None else slot_file.text_of(slot_file.slots_of("Exporter", slots, self._feeds,
                                                                                      program.global_block()))
        self._model = _inference_program(program, self._feeds, self._targets)
        tables = table_names(self._model)
        self._tables = [_Table(self._scope, name) for name in sorted(tables)]
        self._vars = [var for var in self._model.list_vars() if is_persistable(var) and var.name not in tables]
        self._parts: dict[str, str] = {}               # the newest model's folders, and the checksums of their files of checksums
        self._version = 0

    def export(self, full: bool = False) -> Export | None:
        """Write what has changed, or with ``full`` the whole model. Return what was written; None on trainers that do not write."""
        job = jobs.current()
        if job is not None and (job.index != 0 or _is_replaying()):
            return None
        begin = time.monotonic()
        if not self._parts:
            self._version = max(self._place.found(), default=0)
        is_full = full or not self._parts or len(self._parts) >= self.full_every
        self._version += 1
        part = f"{'full' if is_full else 'delta'}-{self._version:09d}"
        rows, own = self._write(os.path.join(self._place.stage(), part), is_full)
        self._place.publish(part)
        self._parts = {part: own} if is_full else {**self._parts, part: own}
        for table in self._tables:
            table.keep()
        self._name_current()
        self._place.remove_old(list(self._parts), self.keep_seconds)
        return Export(self._version, is_full, rows, time.monotonic() - begin, join(self.folder, part))

    def _write(self, path: str, is_full: bool) -> tuple[dict[str, int], str]:
        """Write a folder; return the rows of each table, and the checksum of its file of checksums."""
        rows, names = {}, []
        with new_folder(path) as (part, about):
            uri = self._place.uri_of(os.path.basename(path))
            texts = self._texts() if is_full else {}
            for name, text in texts.items():
                with open(os.path.join(part, name), "wb") as file:
                    file.write(text)
            for var in self._vars:
                self._write_array(part, var.name)
            for table in self._tables:
                of_table, rows[table.name] = table.write(uri or os.path.abspath(part), part, is_full)
                names += of_table
            if len(set(names)) != len(names):
                raise InvalidArgumentError(f"Exporter: tables {sorted(rows)} have files of one name; rename a table")
            files = [*texts, *(var.name for var in self._vars), *(names if uri is None else ())]
            own = checksums.write(part, files, self._place.lines_of(os.path.basename(path), names))
            about.write(b'{"format": 2}\n')
        return rows, own

    def _texts(self) -> dict[str, bytes]:
        """Return the files of a whole export that are neither parameters nor rows, by name."""
        found = {"__model__": self._model.serialize_to_string()}
        if self._slots is not None:
            found["__model__.slots"] = self._slots
        return found

    def _write_array(self, folder: str, name: str) -> None:
        found, path = self._scope.find_var(name), path_inside(folder, name)
        if found is None or found.kind() is None:
            raise NotFoundError(f"Exporter: {name!r} has no value yet: run the startup program first")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        check(lib.tr_tensor_save(found.get_tensor()._ptr, path_chars(path)))

    def _name_current(self) -> None:
        lines = ["trireme-export 2\n", f"version {self._version}\n", f"step {_steps()}\n",
                 *(f"{part.split('-')[0]} {part} {own}\n" for part, own in self._parts.items())]
        self._place.name_current(checksums.ended(lines))


def _steps() -> int:
    """Return how many steps the training has made, where a job counts them."""
    if jobs.current() is None:
        return 0
    from ..distributed.reached import steps_made  # in one process it is not needed

    return steps_made()


def _is_replaying() -> bool:
    from ..distributed.reached import is_replaying

    return is_replaying()


def export_model(dirname: str | os.PathLike[str], feeds: Sequence[str], targets: Sequence[Variable], executor: Runner,
                 main_program: Program | None = None, *, slots: slot_file.Given = None) -> Export | None:
    """Write a model for serving, once. Rows of its sparse tables can be mapped, which those of ``save_inference_model`` cannot.

    Arguments are those of ``Exporter``, also ``slots``: with it a Predictor takes rows of raw values. Return what was written; None on
    trainers that do not write.

    ``feeds`` is a list of names, ``targets`` a list of Variables.

    >>> guess = fluid.layers.fc(fluid.layers.data("x", [1]), 1)
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.serving.export_model("serving", ["x"], [guess], exe)
    >>> fluid.serving.Predictor("serving").run({"x": np.ones((4, 1), "float32")})[0].shape
    (4, 1)
    """
    return Exporter(dirname, feeds, targets, executor, main_program, slots=slots).export(full=True)
