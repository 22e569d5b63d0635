"""Checkpoints: all that a training needs to go on, in one folder (docs/checkpoints.md).

    fluid.io.save_checkpoint(exe, "checkpoints")                # in one process
    fluid.io.load_checkpoint(exe, "checkpoints")                # the newest valid one, whoever wrote it

A job writes and resumes them by itself: ``distributed.checkpoint``. ``trireme checkpoint list|verify|export`` looks at
them from a command line.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ._core import ffi, lib
from .checkpoint_folder import steps
from .core import OpRole
from .desc import _text, take_text
from .dtypes import NUMPY_DTYPES, VarType
from .errors import DTypeError, FileError, InvalidArgumentError, NotFoundError, ShapeError, UnsupportedError, check
from .executor import Executor, global_scope
from .framework import Parameter, Program, Variable, default_main_program
from .native import Native
from .sparse_table import is_table, row_dtype, table_names
from .tensor import LoDTensor, Scope

PARAMETER, OPTIMIZER, SCHEDULE, STATISTIC, TABLE = range(5)    # tr_state_kind
KINDS = ("parameter", "optimizer", "schedule", "statistic", "table")
_STEP = re.compile(r"step-(\d{9,})$")


class Array:
    """What a checkpoint says of one array: ``name``, ``kind``, the parameter ``param`` it belongs to, ``shape``, ``dtype``."""

    __slots__ = ("index", "name", "param", "kind", "shape", "dtype")

    def __init__(self, index: int, state: Any) -> None:
        self.index = index
        self.name = _text(state.name)
        self.param = _text(state.param) if state.param else None
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
        self.index, self.name, self.rows = index, _text(table.name), rows
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


class Checkpoint:
    """An open checkpoint: ``arrays`` and sparse ``tables`` by name, ``step``, ``mode``, where each trainer was.

    ``folder`` is that of one checkpoint, ``DIR/step-000000123``. What is read is compared with its checksums; a
    difference raises and says where it is.
    """

    def __init__(self, folder: str | os.PathLike[str], _ptr: Any = None) -> None:
        if _ptr is None:
            out = ffi.new("tr_checkpoint **")
            check(lib.tr_checkpoint_open(out, os.fsencode(folder)))
            _ptr = out[0]
        self._native = Native(_ptr, lib.tr_checkpoint_free)
        self.folder = _text(lib.tr_checkpoint_folder(_ptr))
        self.step: int = lib.tr_checkpoint_step(_ptr)
        self.mode = _text(lib.tr_checkpoint_mode(_ptr))
        self.digest = _text(lib.tr_checkpoint_digest(_ptr))
        self.version = _text(lib.tr_checkpoint_version(_ptr))
        self.created: int = lib.tr_checkpoint_created(_ptr)
        self.cut: int = lib.tr_checkpoint_cut(_ptr)
        self.trainers: int = lib.tr_checkpoint_trainers(_ptr)
        self.parts: int = lib.tr_checkpoint_parts(_ptr)
        self.nbytes: int = lib.tr_checkpoint_bytes(_ptr)
        state = ffi.new("tr_state *")
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

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is not None:
            native.release()

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

    def table_rows(self, name: str) -> np.ndarray:
        """Return a table's rows, sorted by key: records of key, touches, last, values and (of an optimizer) states."""
        table = self._find_table(name)
        out, size = ffi.new("void **"), ffi.new("int64_t *")
        check(lib.tr_checkpoint_read_table(out, size, self._native.ptr, table.index))
        try:
            rows = np.frombuffer(bytes(ffi.buffer(out[0], size[0])), table.row_dtype)
        finally:
            lib.tr_free(out[0])
        return rows[np.argsort(rows["key"], kind="stable")]

    def _find_table(self, name: str) -> Table:
        if name not in self.tables:
            raise NotFoundError(f"the checkpoint {self.folder!r} of step {self.step} has no sparse table {name!r}, which the "
                                "program keeps: was it written by another program?")
        return self.tables[name]

    def load_table(self, name: str, scope: Scope) -> None:
        """Put a sparse table with all its rows into the variable of its name."""
        check(lib.tr_checkpoint_load_table(scope._native.ptr, self._native.ptr, self._find_table(name).index))

    def read_into(self, name: str, tensor: LoDTensor) -> None:
        """Give a tensor the type, shape and value of an array."""
        array = self._find(name)
        check(lib.tr_tensor_resize(tensor._ptr, int(array.dtype), len(array.shape), list(array.shape)))
        self._read(array, lib.tr_tensor_data(tensor._ptr))


# -- finding them ---------------------------------------------------------------------------------------------------


def path_of(folder: str | os.PathLike[str], step: int) -> str:
    """Return the folder of a step's checkpoint."""
    return take_text(ffi.new("char **", lib.tr_checkpoint_path(os.fsencode(folder), step)))


def newest(folder: str | os.PathLike[str]) -> Checkpoint:
    """Open the newest checkpoint that is valid to the last byte; ``refused`` says what was wrong with newer ones."""
    out, refused = ffi.new("tr_checkpoint **"), ffi.new("char **")
    check(lib.tr_checkpoint_open_newest(out, refused, os.fsencode(folder)))
    checkpoint = Checkpoint(folder, out[0])
    if refused[0]:
        checkpoint.refused = take_text(refused).splitlines()
    return checkpoint


def find(folder: str | os.PathLike[str], step: int | None = None) -> Checkpoint:
    """Open the checkpoint of a step, or (None) the newest valid one; ``folder`` may also be that of one checkpoint."""
    if step is None and _STEP.search(os.path.basename(os.path.normpath(folder))):
        return Checkpoint(folder)
    return newest(folder) if step is None else Checkpoint(path_of(folder, step))


# -- what a program keeps --------------------------------------------------------------------------------------------


def kept_variables(program: Program) -> list[Variable]:
    """Return the dense variables that a checkpoint of the program holds."""
    from .io import is_persistable

    found = [var for var in program.list_vars() if is_persistable(var) and not is_table(var)]
    return sorted({var.name: var for var in found}.values(), key=lambda var: var.name)


def kinds_of(program: Program) -> dict[str, tuple[int, str | None]]:
    """Return, for each dense variable that the program keeps, its kind and the parameter that it belongs to."""
    result: dict[str, tuple[int, str | None]] = {}
    moving: set[str] = set()                           # what the forward part writes
    for op in program.global_block().ops:
        role = op.attr("op_role") if op.has_attr("op_role") else OpRole.Forward
        if role & OpRole.LRSched:
            result.update(dict.fromkeys([*op.input_arg_names, *op.output_arg_names], (SCHEDULE, None)))
        elif role & OpRole.Optimize and op.input("Param"):
            for slot in op.input_names:
                kind = SCHEDULE if slot == "LearningRate" else OPTIMIZER
                param = None if kind == SCHEDULE else op.input("Param")[0]
                result.update(dict.fromkeys(op.input(slot), (kind, param)))
        elif not role & OpRole.Optimize:
            moving.update(op.output_arg_names)
    result.update({var.name: (PARAMETER, None) for var in program.list_vars()
                   if isinstance(var, Parameter) and var.name not in moving})
    return {var.name: result.get(var.name, (STATISTIC, None)) for var in kept_variables(program)}


def digest_of(program: Program) -> str:
    """Return what tells a program from others: of its operators and variables, not of the lines that made them."""
    return hashlib.sha256(str(program).encode("utf-8", "surrogateescape")).hexdigest()[:16]


# -- one process -----------------------------------------------------------------------------------------------------


def scope_of(place: Any, what: str) -> Scope:
    """Return the scope of an executor (the global one), or the scope itself."""
    if isinstance(place, Executor):
        return global_scope()
    if isinstance(place, Scope):
        return place
    raise TypeError(f"{what}: expected an Executor or a Scope, got {place!r}")


def program_of(program: Program | None, what: str) -> Program:
    program = default_main_program() if program is None else program
    if not isinstance(program, Program):
        raise TypeError(f"{what}: main_program must be a Program, got {program!r}")
    return program


class States:
    """Arrays for the core: ``native`` holds ``count`` descriptions, everything they point at lives as long as this."""

    def __init__(self, count: int) -> None:
        self.native = ffi.new("tr_state[]", count)
        self.count = 0
        self._keep: list[Any] = []

    def chars(self, text: str) -> Any:
        self._keep.append(ffi.new("char[]", text.encode("utf-8", "surrogateescape")))
        return self._keep[-1]

    def add(self, name: str, kind: int, param: str | None, tensor: LoDTensor) -> None:
        state, ptr = self.native[self.count], tensor._ptr
        if lib.tr_tensor_has_rows(ptr) or lib.tr_tensor_lod_levels(ptr):
            raise UnsupportedError(f"a checkpoint holds dense arrays; {name!r} has "
                                   f"{'selected rows' if lib.tr_tensor_has_rows(ptr) else 'sequence offsets'}")
        state.name, state.kind = self.chars(name), kind
        state.param = self.chars(param) if param is not None else ffi.NULL
        state.dtype, state.rank = lib.tr_tensor_dtype(ptr), lib.tr_tensor_rank(ptr)
        state.dims, state.data = lib.tr_tensor_dims(ptr), lib.tr_tensor_data(ptr)
        self._keep.append(tensor)
        self.count += 1

    def add_table(self, scope: Scope, name: str) -> None:
        state, about = self.native[self.count], ffi.new("tr_job_table *")
        check(lib.tr_job_describe_table(about, scope._native.ptr, self.chars(name)))
        state.name, state.kind, state.data = about.name, TABLE, about
        self._keep.append(about)
        self.count += 1


def value_in(scope: Scope, name: str) -> LoDTensor:
    """Return the tensor of a variable that must have a value."""
    var = scope.find_var(name)
    if var is None or var.kind() is None:
        raise NotFoundError(f"{name!r} has no value: run the startup program before a checkpoint")
    if var.kind() != VarType.LOD_TENSOR:
        raise UnsupportedError(f"a checkpoint holds dense arrays; {name!r} is {VarType(var.kind())!r}")
    tensor = var.get_tensor()
    if not tensor._is_initialized():
        raise NotFoundError(f"{name!r} has no value: run the startup program before a checkpoint")
    return tensor


def save_checkpoint(executor: Executor, checkpoint_dir: str, main_program: Program | None = None, *,
                    step: int | None = None, keep: int = 3, position: bytes | None = None) -> str:
    """Write all that persists in ``main_program`` as a checkpoint; return its folder.

    ``step`` (default: how often the executor has run the program) names it, ``position`` is whatever the script needs to
    find its place in the data again. All but the newest ``keep`` checkpoints of the folder are removed. In a job trainer 0
    writes for all, with what the servers have; ``distributed.checkpoint`` does so without stopping the training.

    >>> import tempfile
    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1))
    >>> _ = fluid.optimizer.Adam(0.1).minimize(loss)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> _ = exe.run(fluid.default_startup_program())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fluid.io.save_checkpoint(exe, folder, step=7)
    ...     fluid.io.load_checkpoint(exe, folder).step
    7
    """
    from .io import _fetch_state, _is_writer

    if not isinstance(executor, Executor):
        raise TypeError(f"save_checkpoint: expected an Executor, got {executor!r}")
    program, scope = program_of(main_program, "save_checkpoint"), global_scope()
    runs = lib.tr_executor_runs(executor._native.ptr, program.desc._native.ptr, scope._native.ptr)
    step = runs if step is None else step
    if not isinstance(step, int) or step < 0 or not isinstance(keep, int) or keep < 0:
        raise InvalidArgumentError(f"save_checkpoint: step={step!r}, keep={keep!r}; whole numbers from 0 are possible")
    kinds, tables = kinds_of(program), sorted(table_names(program))
    if not _is_writer():
        return path_of(checkpoint_dir, step)
    os.makedirs(checkpoint_dir, exist_ok=True)
    if tables and _save_by_servers(checkpoint_dir, step, keep, position):
        return path_of(checkpoint_dir, step)
    _fetch_state(kept_variables(program), checkpoint_dir)
    states = States(len(kinds) + len(tables))
    for name, (kind, param) in kinds.items():
        states.add(name, kind, param, value_in(scope, name))
    for name in tables:
        states.add_table(scope, name)
    trainer = ffi.new("tr_trainer_state *", {"index": 0, "steps": step, "runs": runs})
    if position is not None:
        bytes_ = ffi.from_buffer(position)
        trainer.position, trainer.position_size = bytes_, len(position)
    facts = ffi.new("tr_checkpoint_facts *", {
        "step": step, "mode": states.chars("local"), "digest": states.chars(digest_of(program)),
        "trainer_count": 1, "trainers": trainer})
    check(lib.tr_checkpoint_save(os.fsencode(checkpoint_dir), facts, states.count, states.native, keep))
    return path_of(checkpoint_dir, step)


def _save_by_servers(folder: str, step: int, keep: int, position: bytes | None) -> bool:
    """In a job whose servers have the rows of tables: let them write. Return whether this is such a job."""
    training = sys.modules.get(f"{__package__}.distributed.training")
    return training is not None and training.save_by_servers(folder, step, keep, position)


def load_checkpoint(executor: Executor | Scope, checkpoint_dir: str, main_program: Program | None = None, *,
                    step: int | None = None) -> Checkpoint:
    """Read a checkpoint into the executor's scope, or into a scope; return it.

    It is the newest valid one (``refused`` of what is returned says what was wrong with newer ones), or that of ``step``.
    All that persists in ``main_program`` must be in it, with the program's shapes and types; what is read then is all of
    it, or nothing where one does not fit. A program without optimizers, for inference, takes the parameters alone. An
    executor goes on to draw the random numbers (dropout) that the training would have drawn.
    """
    scope = scope_of(executor, "load_checkpoint")
    program = program_of(main_program, "load_checkpoint")
    checkpoint = find(checkpoint_dir, step)
    restore(checkpoint, scope, kept_variables(program), table_names(program))
    if isinstance(executor, Executor):
        runs = checkpoint.trainer()[1]
        check(lib.tr_executor_set_runs(executor._native.ptr, program.desc._native.ptr, scope._native.ptr, runs))
    return checkpoint


def restore(checkpoint: Checkpoint, scope: Scope, variables: Iterable[Variable], tables: Iterable[str] = ()) -> None:
    """Give variables and sparse tables their values of a checkpoint: all of them, or none when a variable does not fit."""
    variables = list(variables)
    for var in variables:
        _check_fit(checkpoint, var)
    for name in tables:
        checkpoint._find_table(name)
    for name in tables:
        checkpoint.load_table(name, scope)
    loaded = []
    for var in variables:
        tensor = LoDTensor()
        checkpoint.read_into(var.name, tensor)
        loaded.append(tensor)
    for var, tensor in zip(variables, loaded):
        scope.var(var.name).get_tensor()._share(tensor)


def _check_fit(checkpoint: Checkpoint, var: Variable) -> None:
    array = checkpoint.arrays.get(var.name)
    if array is None:
        raise NotFoundError(f"the checkpoint {checkpoint.folder!r} of step {checkpoint.step} has no {var.name!r}, which the "
                            "program keeps: was it written by another program?")
    want = var.desc.shape()
    if len(want) != len(array.shape) or any(a >= 0 and a != b for a, b in zip(want, array.shape)):
        raise ShapeError(f"{var.name} in {checkpoint.folder!r} has the shape {list(array.shape)}, the program wants {want}")
    if var.dtype is not None and array.dtype != var.dtype:
        raise DTypeError(f"{var.name} in {checkpoint.folder!r} is {array.dtype}, the program wants {var.dtype}")


# -- for others --------------------------------------------------------------------------------------------------------

# What safetensors calls the types that it has (https://github.com/huggingface/safetensors, "Format").
_SAFE = {VarType.BOOL: "BOOL", VarType.INT16: "I16", VarType.INT32: "I32", VarType.INT64: "I64", VarType.FP16: "F16",
         VarType.FP32: "F32", VarType.FP64: "F64", VarType.UINT8: "U8", VarType.INT8: "I8", VarType.BF16: "BF16",
         VarType.SIZE_T: "U64"}


@dataclass(frozen=True)
class _Column:
    """One field of a table's rows, as an array of its own: ``table.key``, ``table.values``, ..."""

    table: Table
    field: str

    @property
    def name(self) -> str:
        return f"{self.table.name}.{self.field}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.rows, *self.table.row_dtype[self.field].shape

    @property
    def dtype(self) -> VarType:
        return {"key": VarType.INT64, "values": self.table.dtype, "states": VarType.FP32}.get(self.field, VarType.INT32)

    @property
    def nbytes(self) -> int:
        return self.table.rows * self.table.row_dtype[self.field].itemsize


def _columns(checkpoint: Checkpoint) -> list[_Column]:
    return [_Column(table, field) for table in checkpoint.tables.values() for field in table.row_dtype.names]


class _Values:
    """The arrays of a checkpoint, and the columns of the one table that is in memory."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._table, self._rows = "", np.empty(0)

    def of(self, item: Array | _Column) -> np.ndarray:
        if isinstance(item, Array):
            return self.checkpoint[item.name]
        if item.table.name != self._table:
            self._rows, self._table = self.checkpoint.table_rows(item.table.name), item.table.name
        column = np.ascontiguousarray(self._rows[item.field])
        return column.view(np.int32) if column.dtype == np.uint32 else column


def export(checkpoint: Checkpoint, path: str, kinds: Iterable[str] = KINDS) -> list[Array | _Column]:
    """Write the arrays of these kinds to ``path``, a NumPy .npz or a .safetensors by its name; return them.

    A sparse table becomes the arrays ``name.key`` [rows], sorted, ``name.touches``, ``name.last``, ``name.values`` [rows, width]
    and ``name.states`` [rows, states, width]; without "table" but with "parameter" its key and values. One array or table is in memory at a time. NumPy has no bfloat16: .npz holds
    such arrays as uint16.
    """
    kinds = set(kinds)
    chosen: list[Array | _Column] = [array for array in checkpoint.arrays.values() if array.kind in kinds]
    chosen += [column for column in _columns(checkpoint)
               if "table" in kinds or ("parameter" in kinds and column.field in ("key", "values"))]
    writers = {".npz": _write_npz, ".safetensors": _write_safetensors}
    write = writers.get(os.path.splitext(path)[1])
    if write is None:
        raise InvalidArgumentError(f"export: {path!r} must end with .npz or .safetensors")
    for array in chosen:
        if array.name != _shown(array.name):
            raise UnsupportedError(f"export: the name {array.name!r} is no text, which a file of arrays needs")
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            write(file, checkpoint, chosen)
        os.replace(part, path)
    except BaseException as error:
        if os.path.exists(part):
            os.unlink(part)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise FileError(f"export: cannot write {path!r}: {error.strerror}") from None
        raise
    return chosen


def _write_npz(file: BinaryIO, checkpoint: Checkpoint, arrays: Iterable[Array | _Column]) -> None:
    values = _Values(checkpoint)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for array in arrays:
            with archive.open(f"{array.name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, values.of(array), allow_pickle=False)


def _write_safetensors(file: BinaryIO, checkpoint: Checkpoint, arrays: Iterable[Array | _Column]) -> None:
    import json                                    # here: `import trireme` stays light

    arrays, values = list(arrays), _Values(checkpoint)
    header: dict[str, Any] = {"__metadata__": {"step": str(checkpoint.step), "mode": checkpoint.mode,
                                               "program": checkpoint.digest}}
    at = 0
    for array in arrays:
        header[array.name] = {"dtype": _SAFE[array.dtype], "shape": list(array.shape),
                              "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)                    # so that the data is aligned
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays:
        file.write(values.of(array).reshape(-1).view(np.uint8).data)


# -- the command line ----------------------------------------------------------------------------------------------------


def command_list(folder: str) -> int:
    """Print a line for each checkpoint of a folder, the newest first. Return the exit code."""
    from datetime import datetime

    found = steps(folder)
    if not found:
        print(f"there is no checkpoint in {folder}")
        return 1
    print(f"{'step':>12}  {'written':19}  {'size':>10}  {'arrays':>6}  {'rows':>10}  {'parts':>5}  mode")
    for step in found:
        try:
            one = Checkpoint(path_of(folder, step))
        except (InvalidArgumentError, OSError, RuntimeError) as error:
            print(f"{step:>12}  damaged: {str(error).splitlines()[0]}")
            continue
        try:
            when = datetime.fromtimestamp(one.created).isoformat(" ", "seconds")
        except (OverflowError, ValueError, OSError):   # no year of ours
            when = "?"
        print(f"{step:>12}  {when:19}  {_size(one.nbytes):>10}  {len(one.arrays):>6}  "
              f"{sum(table.rows for table in one.tables.values()):>10}  {one.parts:>5}  {_shown(one.mode)}")
    return 0


def command_verify(folder: str, step: int | None) -> int:
    """Read checkpoints to the last byte and say which are valid. Return 1 when one is not, or when there is none."""
    if _STEP.search(os.path.basename(os.path.normpath(folder))):
        paths = [folder]
    else:
        paths = [path_of(folder, one) for one in (steps(folder) if step is None else [step])]
    damaged = 0
    for path in paths:
        try:
            checkpoint = Checkpoint(path)
            checkpoint.verify()
            print(f"{path}: valid, {_size(checkpoint.nbytes)}")
        except (OSError, RuntimeError) as error:
            print(f"{path}: damaged: {str(error).splitlines()[0]}")
            damaged += 1
    if not paths:
        print(f"there is no checkpoint in {folder}")
    return 1 if damaged or not paths else 0


def command_export(folder: str, step: int | None, path: str, kinds: Iterable[str]) -> int:
    """Write a checkpoint's arrays for others to read."""
    checkpoint = find(folder, step)
    for line in checkpoint.refused:
        print(f"trireme checkpoint: {_shown(line)}", file=sys.stderr)
    written = export(checkpoint, path, kinds)
    total = sum(array.nbytes for array in written)
    print(f"{path}: {len(written)} arrays of step {checkpoint.step}, {_size(total)}")
    return 0


def _shown(text: str) -> str:
    """As it can be printed: names and modes may hold bytes that are no text."""
    return text.encode("utf-8", "replace").decode()


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}" if unit != "B" else f"{count} B"
        count /= 1000
    return f"{count:.3g} TB"


__all__ = ["Checkpoint", "Array", "Table", "save_checkpoint", "load_checkpoint", "export", "newest", "find", "steps"]
