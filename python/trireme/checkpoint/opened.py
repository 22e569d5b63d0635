"""An open checkpoint: its arrays and tables, and how it is found."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..native.dtypes import VarType
from ..native.errors import NotFoundError, check
from ..native.handles import Handle, Native
from ..native.names import name_chars, path_chars, take_text, text_of
from ..native.tensor import LoDTensor
from ..native.scope import Scope
from ..parameters.table_files import SHARDS, declare, describe, row_dtype, set_rows
from .kinds import KINDS

_STEP = re.compile(r"step-(\d{9,})$")


class Array:
    """What a checkpoint says of one array: ``name``, ``kind``, the parameter ``param`` it belongs to, ``shape``, ``dtype``."""

    __slots__ = ("index", "name", "param", "kind", "shape", "dtype")

    def __init__(self, index: int, state: Any) -> None:
        self.index = index
        self.name = text_of(state.name)
        self.param = text_of(state.param) if state.param else None
        self.kind = KINDS[state.kind]
        self.dtype = VarType(state.dtype)
        self.shape = tuple(ffi.unpack(state.dims, state.rank)) if state.rank else ()

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}, {self.kind}"


class Table:
    """What a checkpoint says of one sparse table: ``name``, ``rows``, ``width``, ``states`` of each value, ``dtype``."""

    __slots__ = ("index", "name", "rows", "width", "states", "dtype", "updates")

    def __init__(self, index: int, table: Any, rows: int) -> None:
        self.index, self.name, self.rows = index, text_of(table.name), rows
        self.width, self.states, self.updates = table.width, table.states, table.updates
        self.dtype = VarType(table.dtype)

    @property
    def row_dtype(self) -> np.dtype:
        """How a row lies in memory: key, touches, last, values, states."""
        return row_dtype({"dtype": int(self.dtype), "width": self.width, "states": self.states})

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.name}: {self.rows} rows of {self.width} {self.dtype}, {self.states} states, table"


class Checkpoint(Handle):
    """An open checkpoint: ``arrays`` and sparse ``tables`` by name, ``step``, ``mode``, where each trainer was.

    ``folder`` is that of one checkpoint, ``DIR/step-000000123``. What is read is compared with its checksums; a
    difference raises and says where it is.
    """

    _instead = "Open its folder again: Checkpoint(checkpoint.folder)"

    def __init__(self, folder: str | os.PathLike[str], _ptr: Any = None, _owner: Native | None = None) -> None:
        """``_owner``: ``_ptr`` belongs to this."""
        if _ptr is None:
            out = ffi.new("tr_checkpoint **")
            check(lib.tr_checkpoint_open(out, path_chars(folder)))
            _ptr = out[0]
        self._native = Native(_ptr, lib.tr_checkpoint_free if _owner is None else lambda ptr: None, (_owner,) if _owner is not None else (),
                              "Checkpoint")
        self.folder = text_of(lib.tr_checkpoint_folder(_ptr))
        self.step: int = lib.tr_checkpoint_step(_ptr)
        self.mode = text_of(lib.tr_checkpoint_mode(_ptr))
        self.digest = text_of(lib.tr_checkpoint_digest(_ptr))
        self.version = text_of(lib.tr_checkpoint_version(_ptr))
        self.created: int = lib.tr_checkpoint_created(_ptr)
        self.snapshot: int = lib.tr_checkpoint_number(_ptr)
        self.trainers: int = lib.tr_checkpoint_trainers(_ptr)
        self.parts: int = lib.tr_checkpoint_parts(_ptr)
        self.nbytes: int = lib.tr_checkpoint_bytes(_ptr)       # of its own files
        base = lib.tr_checkpoint_base_step(_ptr)
        self.base_step: int | None = base if base >= 0 else None       # it has the changes of tables since that one; None: it is full
        self.row_type = "int8" if lib.tr_checkpoint_rows_of(_ptr) == lib.TR_ROWS_INT8 else "exact"     # of tables, in its own files
        run = ffi.new("tr_checkpoint_run *")
        lib.tr_checkpoint_run_of(run, _ptr)
        self.run: int = run.number             # the training that it belongs to; 0: not known
        self.run_began: int = run.began
        self.command = text_of(run.command)
        state = ffi.new("tr_checkpoint_item *")
        self.arrays: dict[str, Array] = {}
        for index in range(lib.tr_checkpoint_count(_ptr)):
            lib.tr_checkpoint_array(state, _ptr, index)
            array = Array(index, state)
            self.arrays[array.name] = array
        about, rows = ffi.new("tr_job_table *"), ffi.new("int64_t *")
        self.tables: dict[str, Table] = {}
        for index in range(lib.tr_checkpoint_tables(_ptr)):
            lib.tr_checkpoint_table(about, rows, _ptr, index)
            table = Table(index, about, rows[0])
            self.tables[table.name] = table
        size = ffi.new("size_t *")
        tasks = lib.tr_checkpoint_tasks(size, _ptr)
        self.tasks = bytes(ffi.buffer(tasks, size[0])) if tasks else None      # state of leased tasks
        self.refused: list[str] = []           # what was wrong with newer ones

    def __repr__(self) -> str:
        return f"Checkpoint({self.folder!r}, step={self.step}, {len(self.arrays)} arrays)"

    def verify(self) -> None:
        """Read everything and compare it with its checksums."""
        check(lib.tr_checkpoint_verify(self._native.ptr))

    def trainer(self, index: int = 0) -> tuple[int, int, bytes | None]:
        """Return (steps, runs, position in the data) of a trainer; zeros for one that the checkpoint does not know."""
        one = ffi.new("tr_trainer_state *")
        for i in range(lib.tr_checkpoint_trainers(self._native.ptr)):
            lib.tr_checkpoint_trainer(one, self._native.ptr, i)
            if one.index == index:
                position = bytes(ffi.buffer(one.position, one.position_size)) if one.position else None
                return one.steps, one.runs, position
        return 0, 0, None

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __getitem__(self, name: str) -> np.ndarray:
        """Return an array's value; bfloat16 as the 16 bits it is made of."""
        array = self._find(name)
        value = np.empty(array.shape, array.dtype.dtype)
        self._read(array, ffi.from_buffer(value) if value.nbytes else ffi.NULL)
        return value

    def _find(self, name: str) -> Array:
        if name not in self.arrays:
            raise NotFoundError(f"the checkpoint {self.folder!r} has no array {name!r}")
        return self.arrays[name]

    def _read(self, array: Array, to: Any) -> None:
        rows = array.shape[0] if array.shape else 1
        check(lib.tr_checkpoint_read(self._native.ptr, array.index, 0, rows, to, array.nbytes))

    def table_rows(self, name: str, shards: range = range(SHARDS)) -> np.ndarray:
        """Return a table's rows, sorted by key: records of key, touches, last, values and (of an optimizer) states.

        ``shards``: those of these virtual shards, into which keys are divided by their hashes, in all checkpoints alike: of a table that
        is larger than memory some at a time.
        """
        table = self.find_table(name)
        out, size = ffi.new("void **"), ffi.new("int64_t *")
        check(lib.tr_checkpoint_read_table(out, size, self._native.ptr, table.index, shards.start, len(shards)))
        try:
            rows = np.frombuffer(bytes(ffi.buffer(out[0], size[0])), f"V{table.row_dtype.itemsize}")
        finally:
            lib.tr_free(out[0])
        order = np.argsort(rows.view(table.row_dtype)["key"], kind="stable")
        return rows[order].view(table.row_dtype)       # sorted as records they would have any bytes behind their fields

    def find_table(self, name: str) -> Table:
        """Return what is said of a table; raise where there is none of that name."""
        if name not in self.tables:
            raise NotFoundError(f"the checkpoint {self.folder!r} of step {self.step} has no sparse table {name!r}, which the "
                                "program keeps: was it written by another program?")
        return self.tables[name]

    def load_table(self, name: str, scope: Scope) -> None:
        """Put a sparse table with all its rows into the variable of its name."""
        var, index = scope.find_var(name), self.find_table(name).index
        here = describe(scope, name) if var is not None and var.kind() == VarType.RAW else None

        def fill(target: Scope) -> None:
            if here is not None and target.find_var(name) is None:
                declare(target, name, here)
            status = lib.tr_checkpoint_load_table(target._native.ptr, self._native.ptr, index)
            check(status, f"for the sparse table {name!r} of the checkpoint {self.folder!r}")

        set_rows(scope, name, f"loading of the table {name!r} from the checkpoint of step {self.step}", fill, clear=True)

    def find_array(self, name: str, trainer: int = 0) -> Array | None:
        """Return what is said of the array that a trainer goes on with: its own, if each trainer had one, else the only one; None: there is
        none."""
        index = lib.tr_checkpoint_find_own(self._native.ptr, name_chars(name), trainer)
        return next((array for array in self.arrays.values() if array.index == index), None)

    def read_into(self, name: str, tensor: LoDTensor, trainer: int = 0, trainers: int = 1) -> None:
        """Give a tensor the type, shape and value of an array, for this ``trainer`` of so many ``trainers``: see
        ``tr_checkpoint_read_own``."""
        array = self.find_array(name, trainer)
        if array is None:
            raise NotFoundError(f"the checkpoint {self.folder!r} has no array {name!r}")
        place = f"for variable {name!r} of the checkpoint {self.folder!r}"
        check(lib.tr_tensor_resize(tensor._ptr, int(array.dtype), len(array.shape), list(array.shape)), place)
        check(lib.tr_checkpoint_read_own(self._native.ptr, name_chars(name), trainer, trainers, lib.tr_tensor_data(tensor._ptr),
                                         array.nbytes), place)


# -- finding them ---------------------------------------------------------------------------------------------------


def path_of(folder: str | os.PathLike[str], step: int) -> str:
    """Return the folder of a step's checkpoint."""
    return take_text(ffi.new("char **", lib.tr_checkpoint_path(path_chars(folder), step)))


def newest(folder: str | os.PathLike[str]) -> Checkpoint:
    """Open the newest checkpoint that is valid to the last byte; ``refused`` says what was wrong with newer ones."""
    out, refused = ffi.new("tr_checkpoint **"), ffi.new("char **")
    check(lib.tr_checkpoint_open_newest(out, refused, path_chars(folder)))
    checkpoint = Checkpoint(folder, out[0])
    if refused[0]:
        checkpoint.refused = take_text(refused).splitlines()
    return checkpoint


def is_one(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder is, by its name, that of one checkpoint."""
    return _STEP.search(os.path.basename(os.path.normpath(folder))) is not None


def find(folder: str | os.PathLike[str], step: int | None = None) -> Checkpoint:
    """Open the checkpoint of a step, or (None) the newest valid one; ``folder`` may also be that of one checkpoint."""
    if step is None and is_one(folder):
        return Checkpoint(folder)
    return newest(folder) if step is None else Checkpoint(path_of(folder, step))
