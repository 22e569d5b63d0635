"""Files that programs are fed from, read and parsed by threads of the native core.

>>> import tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "houses.csv")
>>> _ = open(path, "w").write("rooms,price\\n2,1.5\\n3,2.5\\n4,3.5\\n")
>>> rooms, price = fluid.layers.data("rooms", [1]), fluid.layers.data("price", [1])
>>> data = fluid.Dataset(files=[path], format="csv", header=True, batch_size=2, slots=[rooms, price])
>>> [batch["rooms"].tolist() for batch in data]
[[[2.0], [3.0]], [[4.0]]]

``Executor.train_from_dataset(program, data)`` trains over it without any Python per batch. Fluid's names make the same:
``DatasetFactory().create_dataset("InMemoryDataset")`` and the ``set_...`` methods. The formats are described in
docs/data.md.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import numbers
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .._core import ffi, lib
from ..job.job import trainer_count, trainer_index
from ..native.checks import plain
from ..native.dtypes import VarType
from ..native.errors import InvalidArgumentError, UnsupportedError, check, check_whole, user_line
from ..native.handles import Handle, Native, new_lock_of
from ..native.names import path_chars
from ..native.threads import num_threads
from ..stores.folders import glob
from ..stores.names import PATTERN, place
from .slots import Slot, _value_of
from .tables import TABLE_FORMATS, TableReader

_FORMATS = {"multislot": lib.TR_DATA_MULTISLOT, "csv": lib.TR_DATA_CSV, "libsvm": lib.TR_DATA_LIBSVM,
            "parquet": lib.TR_DATA_TABLE, "arrow": lib.TR_DATA_TABLE}
_SPLITS = {"batches": lib.TR_SPLIT_BATCHES, "files": lib.TR_SPLIT_FILES, "tasks": lib.TR_SPLIT_TASKS}
_LOOP = object()                       # as a Dataset's pass: a loop of the core
_LONG = (1 << 63) - 1
_WHOLE = {"batch_size": (1,), "threads": (0, 256), "bad_lines": (0, _LONG), "first_index": (-_LONG, _LONG), "task_bytes": (0, _LONG),
          "block_bytes": (0, 1 << 28)}   # from, to


class Dataset(Handle):
    """Files as batches.

    ``format`` is ``"multislot"``, ``"csv"`` or ``"libsvm"`` for text, ``"parquet"`` or ``"arrow"`` for tables, which pyarrow decodes;
    ``slots`` are variables or ``Slot`` objects in the order of the lines (None: a multislot slot that is not used). ``files`` are paths or
    patterns. ``threads`` parse; the batches are the same for any number of them, unless ``ordered=False`` takes them as they come.
    ``bad_lines`` is how many lines that cannot be read are skipped and counted (``"skip"``: any number); otherwise the first ends the pass
    with a FormatError. ``delimiter`` is the character between fields of CSV. ``header``: True if every CSV file begins with a line of
    names, or the names. ``first_index`` is the index that libsvm files give the first feature. ``pipe_command`` is a shell command that
    reads each file and writes lines. ``drop_last`` leaves out a pass's last batch when it is smaller. Files are read ``block_bytes`` at a
    time (0: 1 MiB).

    In a job ``split`` says how trainers share the data: ``"batches"``: all read the same and take their slices of each
    batch, as one process would go; ``"tasks"``: files are cut into tasks of ``task_bytes``, which are dealt out, in modes
    async, ssp and geo on a lease of so many seconds; ``"files"``: each trainer is given files of its own.

    One pass at a time goes over a Dataset: a new one ends the one before. Threads take turns, batch by batch. A copy, also a pickled one,
    has the same description and reads the files anew.

    >>> with open("houses.csv", "w") as file:
    ...     _ = file.write("1.5,10\\n2.5,20\\n3.5,30\\n")
    >>> size, price = fluid.layers.data("size", [1]), fluid.layers.data("price", [1])
    >>> houses = fluid.Dataset("houses.csv", "csv", batch_size=2, slots=[size, price])
    >>> houses
    Dataset(1 files, csv, batch_size=2)
    >>> [batch["price"].tolist() for batch in houses]
    [[[10.0], [20.0]], [[30.0]]]
    """

    _split = "batches"

    def __init__(self, files: Sequence[str] | str = (), format: str = "multislot", batch_size: int = 1,
                 slots: Sequence[Any] = (), *, threads: int | None = None, drop_last: bool = False, ordered: bool = True,
                 bad_lines: int | str = 0, pipe_command: str | None = None, delimiter: str = ",",
                 header: bool | Sequence[str] = False, first_index: int = 1, split: str | None = None,
                 task_bytes: int = 0, lease: float = 300.0, block_bytes: int = 0) -> None:
        self._begin_anew()
        self._given: dict[str, Any] = {}
        self._set(files=[], format=format, batch_size=batch_size, slots=(), threads=threads, drop_last=drop_last,
                  ordered=ordered, bad_lines=bad_lines, pipe_command=pipe_command, delimiter=delimiter, header=header,
                  first_index=first_index, split=split or self._split, task_bytes=task_bytes, lease=lease, block_bytes=block_bytes)
        self.set_filelist(files)
        self.set_use_var(slots)

    def _begin_anew(self) -> None:
        self._lock = new_lock_of(self)                # held for each call of the core
        self._pass: Any = None                         # what goes over the lines now
        self._reader_pid: int | None = None            # the process whose threads read for a pass, or into memory
        self._shuffles = 0

    # -- copies ---------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _described_dataset, (type(self), dict(self._given))

    def __copy__(self) -> Dataset:
        return _described_dataset(type(self), dict(self._given))

    def __deepcopy__(self, memo: Any) -> Dataset:
        return _described_dataset(type(self), copy.deepcopy(self._given, memo))

    # -- description ----------------------------------------------------------------------------------------

    def _set(self, **given: Any) -> None:
        given = {name: plain(value) for name, value in given.items()}
        for name, value in given.items():
            if name == "format" and value not in _FORMATS or name == "split" and value not in _SPLITS:
                known = _FORMATS if name == "format" else _SPLITS
                raise InvalidArgumentError(f"Dataset: {name}={value!r}; {', '.join(map(repr, known))} are possible")
            if name == "delimiter" and (not isinstance(value, str) or len(value) != 1 or ord(value) > 127):
                raise InvalidArgumentError(f"Dataset: delimiter={value!r}; one character is possible")
            if name in _WHOLE and (value, name) not in ((None, "threads"), ("skip", "bad_lines")):
                value = check_whole(f"Dataset: {name}", value, *_WHOLE[name])
            if name == "lease" and not (isinstance(value, numbers.Real) and 0 < float(value) < 1e8):
                raise InvalidArgumentError(f"Dataset: lease={value!r}; seconds above 0 are possible")
            if name == "header" and not isinstance(value, (bool, list, tuple)):
                raise InvalidArgumentError(f"Dataset: header={value!r}; True, False or a list of names is possible")
            if name == "pipe_command" and not isinstance(value, (str, type(None))):
                raise InvalidArgumentError(f"Dataset: pipe_command={value!r}; a shell command, or None, is possible")
        self._given.update(given)
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._let_go()
            self._pass = self._reader_pid = None

    def _let_go(self) -> bool:
        if getattr(self, "_reader_pid", None) not in (None, os.getpid()):
            self.__dict__.pop("_native", None)         # a parent's threads, which do not exist here, would be waited for
        return super()._let_go()

    def set_batch_size(self, batch_size: int) -> None:
        """Set the number of samples in a batch, as the constructor's ``batch_size`` does."""
        self._set(batch_size=batch_size)

    def set_thread(self, thread_num: int) -> None:
        """Let so many threads parse."""
        self._set(threads=thread_num)

    def set_filelist(self, filelist: Sequence[str] | str) -> None:
        """Set the files, in order; a pattern (``data/part-*``) stands for the sorted names that fit. ``filelist`` is a path or a list of
        paths. A path may be a URI, such as ``s3://bucket/part-*``."""
        if not isinstance(filelist, (str, os.PathLike, Iterable)):
            raise InvalidArgumentError(f"Dataset: files={filelist!r:.80}; a name, a pattern or a list of them is possible")
        names = [filelist] if isinstance(filelist, (str, os.PathLike)) else list(filelist)
        files: list[str] = []
        for name in map(os.fspath, names):
            found = _found(name)
            if not found:
                raise InvalidArgumentError(f"Dataset: no file fits {name!r}")
            files += found
        self._set(files=files)

    def set_use_var(self, var_list: Sequence[Any]) -> None:
        """Set the variables (or Slots) in the order of the lines. ``var_list`` is the list of them."""
        self._set(slots=[one if one is None or isinstance(one, Slot) else Slot(one) for one in var_list])

    def set_pipe_command(self, pipe_command: str | None) -> None:
        """Let a shell command turn each file into lines: it reads the file and writes them. ``cat`` means none.
        ``pipe_command`` is that command, a text, or None.
        """
        self._set(pipe_command=pipe_command)

    @property
    def slots(self) -> list[Slot | None]:
        return list(self._given["slots"])

    @property
    def files(self) -> list[str]:
        return list(self._given["files"])

    @property
    def batch_size(self) -> int:
        return int(self._given["batch_size"])

    def desc(self) -> str:
        """Return the description as text."""
        return "\n".join(f"{name}: {value!r}" for name, value in self._given.items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.files)} files, {self._given['format']}, batch_size={self.batch_size})"

    # -- the native one -------------------------------------------------------------------------------------

    def _spec(self) -> tuple[Any, list[Any]]:
        """Return the tr_data_spec, and what must live as long."""
        given, keep = self._given, []

        def chars(text: str | None) -> Any:
            keep.append(ffi.NULL if text is None else ffi.new("char[]", path_chars(text)))
            return keep[-1]

        def texts(items: Sequence[str]) -> Any:
            keep.append(ffi.new("char *[]", [chars(item) for item in items]))
            return keep[-1]

        slots = ffi.new("tr_data_slot[]", len(given["slots"]))
        for native, slot in zip(slots, given["slots"]):
            self._fill_slot(native, slot or Slot("", VarType.FP32), chars, texts, keep)
            if slot is None:
                native.name = ffi.NULL
        spec = ffi.new("tr_data_spec *")
        spec.format, spec.split = _FORMATS[given["format"]], _SPLITS[given["split"]]
        spec.slots, spec.slot_count = slots, len(given["slots"])
        spec.files, spec.file_count = texts(given["files"]), len(given["files"])
        spec.batch_size, spec.drop_last = given["batch_size"], given["drop_last"]
        spec.threads = given["threads"] or max(1, num_threads())
        spec.is_unordered = not given["ordered"]
        spec.bad_lines = -1 if given["bad_lines"] == "skip" else given["bad_lines"]
        spec.pipe_command = chars(None if given["pipe_command"] in (None, "", "cat") else given["pipe_command"])
        spec.delimiter = given["delimiter"].encode()
        names = [] if isinstance(given["header"], bool) else list(given["header"])
        spec.has_header = given["header"] is True
        spec.columns, spec.column_count = texts(names), len(names)
        spec.first_index = given["first_index"]
        spec.task_bytes, spec.block_bytes = given["task_bytes"], given["block_bytes"]
        keep.append(slots)
        return spec, keep

    @staticmethod
    def _fill_slot(native: Any, slot: Slot, chars: Any, texts: Any, keep: list[Any]) -> None:
        dims = ffi.new("int64_t[]", slot.shape)
        keep.append(dims)
        columns = [f"#{column}" if isinstance(column, int) else column for column in slot.columns]
        native.name, native.dtype, native.lod_level = chars(slot.name), int(slot.dtype), slot.lod_level
        native.rank, native.dims = len(slot.shape), dims
        native.columns, native.column_count = texts(columns), len(columns)
        native.hash_buckets, native.has_missing = slot.hash, slot.missing is not None
        native.missing = slot.missing or 0

    @contextlib.contextmanager
    def _used(self) -> Iterator[Any]:
        """Use the native dataset, made when it was not, under its lock; in a job it has this trainer's part."""
        with self._lock:
            if self._reader_pid not in (None, os.getpid()):
                raise InvalidArgumentError(f"this Dataset was being read when process {os.getpid()} was forked (os.fork, multiprocessing). "
                                           "The threads that read do not exist here. Make or copy the Dataset in the child\n"
                                           f"  your line: {user_line()}")
            with self._made() as dataset:
                yield dataset

    def _made(self) -> Native:
        with contextlib.nullcontext() if self._is_open else self._lock:
            return self.__dict__.get("_native") or self._make()

    def _make(self) -> Native:
        spec, keep = self._spec()
        out = ffi.new("tr_dataset **")
        reader = self._reader()
        if reader is not None:
            reader.fill(spec.reader)
        check(lib.tr_dataset_new(out, spec))
        del keep
        self._native = native = Native(out[0], functools.partial(_free, reader), owner="Dataset")
        if reader is not None:
            reader.dataset = out[0]
        if lib.tr_job_is_launched():
            check(lib.tr_dataset_set_part(out[0], trainer_index(), trainer_count()))
        return native

    def _reader(self) -> TableReader | None:
        given = self._given
        if given["format"] not in TABLE_FORMATS:
            return None
        return TableReader(given["format"], given["slots"], given["block_bytes"] or 1 << 20)

    def _may_lease(self) -> bool:
        with self._used() as dataset:
            return bool(self._given["split"] == "tasks" and lib.tr_dataset_lines_in_memory(dataset) < 0)

    # -- batches --------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over one pass: dicts of arrays, LoDTensors where a variable has ``lod_level``."""
        own, pid = object(), os.getpid()
        with self._used() as dataset:
            self._check_idle()
            check(lib.tr_dataset_begin(dataset))
            native = self._native.retain()
            self._pass, self._reader_pid = own, pid
            batch = lib.tr_batch_new(dataset)
        try:
            while (feeds := self._next(own, batch)) is not None:
                if feeds:
                    yield feeds
        finally:
            if pid == os.getpid():                     # a child has no threads of this pass that it could end
                with self._lock:
                    if self._pass is own:
                        lib.tr_dataset_end(native.ptr)
                        self._pass = self._reader_pid = None
                lib.tr_batch_free(batch)
                native.release()

    def _next(self, own: Any, batch: Any) -> dict[str, Any] | None:
        """Return the next batch of a pass; an empty dict: there is none yet; None: the pass is over."""
        got = ffi.new("bool *")
        with self._used() as dataset:
            if self._pass is not own:
                raise InvalidArgumentError("this pass over the Dataset is over: another pass has begun, or the Dataset was set anew. One "
                                           "pass at a time goes over a Dataset: copy.copy(dataset) reads for itself\n  your line: "
                                           f"{user_line()}")
            status = lib.tr_dataset_next(got, batch, dataset, 0.2)
            if status == lib.TR_ETIMEOUT:
                return {}
            check(status)
            if not got[0]:
                return None
            feeds = lib.tr_batch_feeds(batch)
            return dict(_value_of(feeds[i]) for i in range(lib.tr_batch_feed_count(batch)))

    def _check_idle(self) -> None:
        """Refuse where a loop of the core goes over the lines: a callback of that loop wants to."""
        if self._pass is _LOOP:
            raise InvalidArgumentError("this Dataset is being gone over by train_from_dataset or infer_from_dataset: give the callback a "
                                       f"Dataset of its own, copy.copy(dataset)\n  your line: {user_line()}")

    @contextlib.contextmanager
    def _looped(self) -> Iterator[Any]:
        """Use the native dataset for a loop of the core; other threads wait for its end."""
        with self._used() as dataset:
            self._check_idle()
            self._pass, self._reader_pid = _LOOP, os.getpid()
            try:
                yield dataset
            finally:
                self._pass = self._reader_pid = None

    # -- memory ---------------------------------------------------------------------------------------------

    def load_into_memory(self) -> None:
        """Read all lines; passes then go over memory."""
        done = ffi.new("bool *")
        while not done[0]:
            self._load(done, 0.2)

    def _load(self, done: Any, seconds: float) -> None:
        with self._used() as dataset:
            self._check_idle()
            self._pass, self._reader_pid = None, os.getpid()
            status = lib.tr_dataset_load(done, dataset, seconds)
            if status or done[0]:
                self._reader_pid = None
            check(status)

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Begin to read all lines; ``wait_preload_done`` goes on with it."""
        if thread_num is not None:
            self.set_thread(thread_num)
        self._load(ffi.new("bool *"), 0.0)

    def wait_preload_done(self) -> None:
        """Return when ``preload_into_memory`` has read all files."""
        self.load_into_memory()

    def local_shuffle(self, seed: int | None = None) -> None:
        """Shuffle the lines in memory. Without a seed the n-th shuffle of a run is that of the last run."""
        if seed is None:
            seed = self._shuffles
        self._shuffles += 1
        with self._used() as dataset:
            check(lib.tr_dataset_shuffle(dataset, int(seed) & 0xFFFFFFFFFFFFFFFF))

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12, seed: int | None = None) -> None:
        """Shuffle the lines of all trainers: all have read the same ones, and shuffle them alike."""
        if self._given["split"] != "batches" and lib.tr_job_is_launched():
            if trainer_count() > 1:
                raise UnsupportedError(f"global_shuffle: with split={self._given['split']!r} each trainer has lines of its "
                                       "own, which do not travel; give all trainers all files and split=\"batches\", or use "
                                       "local_shuffle")
        self.local_shuffle(seed)

    def release_memory(self) -> None:
        """Free the samples that ``load_into_memory`` has read."""
        with self._lock:
            if self._is_open:
                self._check_idle()
                lib.tr_dataset_release(self._native.ptr)

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """Return the number of lines in memory."""
        with self._made() as dataset:
            return int(max(0, lib.tr_dataset_lines_in_memory(dataset)))

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """Return the number of samples in memory after a shuffle, as ``get_memory_data_size`` does."""
        return self.get_memory_data_size(fleet)

    # -- counts ---------------------------------------------------------------------------------------------

    def _counts(self) -> Any:
        counts = ffi.new("tr_data_counts *")
        with self._made() as dataset:                  # without the lock: it may be asked while a loop runs
            lib.tr_dataset_count(dataset, counts)
        return counts

    @property
    def lines_read(self) -> int:
        """Lines that were read, without the bad ones."""
        return int(self._counts().lines)

    @property
    def bad_lines(self) -> int:
        """Lines that were skipped."""
        return int(self._counts().bad_lines)

    @property
    def first_bad_line(self) -> str:
        """What was wrong with the first line that was skipped, and where it is."""
        with self._made() as dataset:
            return str(ffi.string(lib.tr_dataset_first_bad_line(dataset)).decode("utf-8", "replace"))


def _found(name: str) -> list[str]:
    """Return the files that a name, a pattern or a URI stands for."""
    one = place(name)
    is_pattern = PATTERN.search(one.path) and (one.scheme or not os.path.exists(one.path))
    return glob(name) if is_pattern else [one.uri]


def _described_dataset(kind: type[Dataset], given: dict[str, Any]) -> Dataset:
    """Return a Dataset of a description."""
    made = kind()
    made._given = given
    return made


def _free(reader: TableReader | None, dataset: Any) -> None:
    """Free a dataset, then its reader, which its threads may be calling."""
    if reader is not None:
        reader.dataset = None
    lib.tr_dataset_free(dataset)


class InMemoryDataset(Dataset):
    """Fluid's: ``load_into_memory``, perhaps shuffle, then train. Each trainer of a job has files of its own.

    >>> with open("part-0", "w") as file:
    ...     _ = file.write("1 7\\n1 8\\n1 9\\n")
    >>> data = fluid.feeds.InMemoryDataset("part-*", batch_size=3, slots=[fluid.layers.data("id", [1], dtype="int64")])
    >>> data.load_into_memory()
    >>> data.local_shuffle(seed=1)
    >>> sorted(int(row[0]) for batch in data for row in batch["id"])
    [7, 8, 9]
    """

    _split = "files"


class QueueDataset(Dataset):
    """Fluid's: lines are read while training. Each trainer of a job has files of its own.

    ``load_into_memory``, ``local_shuffle`` and ``global_shuffle`` are an UnsupportedError.

    >>> with open("part-0", "w") as file:
    ...     _ = file.write("1 7\\n1 8\\n1 9\\n")
    >>> data = fluid.feeds.QueueDataset("part-*", batch_size=2, slots=[fluid.layers.data("id", [1], dtype="int64")])
    >>> [np.array(batch["id"]).tolist() for batch in data]
    [[[7], [8]], [[9]]]
    """

    _split = "files"

    def local_shuffle(self, seed: int | None = None) -> None:
        raise UnsupportedError("QueueDataset: lines are not in memory and cannot be shuffled; use InMemoryDataset")

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12, seed: int | None = None) -> None:
        self.local_shuffle(seed)

    def load_into_memory(self) -> None:
        raise UnsupportedError("QueueDataset: lines are read while training; InMemoryDataset loads them into memory")


class DatasetFactory:
    """Makes datasets by Fluid's names.

    >>> fluid.DatasetFactory().create_dataset("InMemoryDataset")
    InMemoryDataset(0 files, multislot, batch_size=1)
    """

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> Dataset:
        """Return a new data set. ``datafeed_class`` is ``"QueueDataset"`` (the default) or ``"InMemoryDataset"``; another name is an
        error."""
        known = {"QueueDataset": QueueDataset, "InMemoryDataset": InMemoryDataset}
        if datafeed_class not in known:
            raise InvalidArgumentError(f"create_dataset: {datafeed_class!r}; {', '.join(map(repr, known))} are possible")
        return known[datafeed_class]()


__all__ = ["Dataset", "DatasetFactory", "InMemoryDataset", "QueueDataset"]
