"""The values that a trainer's steps fetched. They outlive the process: a replayed step (replay.py) returns them again.

Each trainer has a file with one record per step. The file lies beside the checkpoints where the job keeps any, so a resumed job has
it, too. Otherwise it lies in the host's memory, as the servers' state does. A record is written before the next step begins, so a
death may prevent the record of the last step. Two rules save most of its values. Values that are computed before the end of the step
are in a second file by then (pserver/api/job_fetched.h). Numbers that all trainers share (the loss, ``all_mean``) are parameters of
the servers (docs/adr/0005). If a trainer's own file is lost with its host, these shared numbers come from another trainer's file.

A record is ``<HHI`` and a payload: the number of its form, the low half of the payload's CRC-32, the step. Record number 0 is a form:
it describes later payloads in JSON, with names, types and shapes. So a step that fetches one float32 takes 12 bytes.

What must stay true: steps ascend in a file. A replacement writes a new file under the old name. So a process that was declared dead,
and wakes, writes to the old file.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from ..checkpoint.folder import warn
from ..job.job import Job
from ..native.dtypes import NUMPY_DTYPES, VarType, floats_of_bfloat16
from ..native.tensor import LoDTensor, as_fetched

if TYPE_CHECKING:
    from .fetched_copy import Copy

_MAGIC = b"trireme fetched 1\n"
_HEAD = struct.Struct("<HHI")          # number of the form, check, step; in a form: 0, check, bytes
_VALUE_BYTES = 4096                    # of a value that is kept, at most
_ALL_BYTES = 128 << 20                 # of a file: ten million steps of one float32
_FORMS = 0xffff
_SLOT_BYTES = 1 << 16                  # as in pserver/api/job_fetched.c


class _Form:
    """The layout of the payloads of one form: name, type, shape and LoD of each value."""

    def __init__(self, values: Sequence[Sequence[Any]]) -> None:
        self.values: list[tuple[str, np.dtype, tuple[int, ...], Any, int]] = []
        self.bytes = 0
        for name, dtype, shape, lod in values:
            kind, dims = np.dtype(dtype), tuple(shape)
            self.values.append((name, kind, dims, lod, self.bytes))
            self.bytes += kind.itemsize * int(np.prod(dims, dtype=np.int64))

    def value(self, name: str, payload: memoryview) -> Any:
        """Return the value of this name in a payload, as (array, LoD); None: the form has no such value."""
        for own, dtype, shape, lod, at in self.values:
            if own == name:
                count = int(np.prod(shape, dtype=np.int64))
                return np.frombuffer(payload, dtype, count, at).reshape(shape).copy(), lod
        return None


def _records(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Return the complete records of a file, as (form, step, begin and end of the payload). The step of a form is 0."""
    forms, at = [0], len(_MAGIC)
    if data[:at] != _MAGIC:
        return
    while at + _HEAD.size <= len(data):
        form, check, step = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        if form >= len(forms):
            return
        end = begin + (forms[form] if form else step)
        if end > len(data) or crc32(data[begin:end]) & 0xffff != check:
            return
        if form == 0:
            forms.append(_Form(json.loads(data[begin:end])).bytes)
        yield form, step if form else 0, begin, end
        at = end


def _files(folder: str, prefix: str) -> dict[int, str]:
    """The files of all trainers, by their indices."""
    return {int(number): os.path.join(folder, prefix + number) for number in _rests_of_names(folder, prefix) if number.isdecimal()}


def _rests_of_names(folder: str, beginning: str) -> list[str]:
    """Return the rest of each file name in a folder that begins with ``beginning``."""
    with contextlib.suppress(OSError):
        return [name.removeprefix(beginning) for name in os.listdir(folder) if name.startswith(beginning)]
    return []


def _read(path: str) -> bytes:
    """Return the bytes of a file, or none if it cannot be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _store_of(folder: str | None) -> str | None:
    """Return the folder of checkpoints if it is in a store, whose files cannot grow."""
    if not folder:
        return None
    from ..stores.names import is_uri  # here: without checkpoints a trainer needs nothing of stores

    return folder if is_uri(folder) else None


def _last_of(path: str) -> str:
    return f"{path}.last"


def _read_last(path: str, step: int) -> dict[str, Any]:
    """Return the values of a step that pserver/api/job_fetched.c has written, each as (array, LoD). Only the last two steps are there."""
    slot, found = _read(path)[step % 2 * _SLOT_BYTES:][:_SLOT_BYTES], {}
    if len(slot) < 24 or struct.unpack_from("<Q", slot)[0] != step:
        return {}
    end = 16 + struct.unpack_from("<Q", slot, 8)[0]
    if end + 8 > len(slot) or struct.unpack_from("<Q", slot, end)[0] != step:
        return {}
    at = 16
    while at < end:
        name_bytes, dtype, rank, levels = struct.unpack_from("<IIII", slot, at)
        at += 16
        name = slot[at:at + name_bytes].decode()
        at += name_bytes
        shape = struct.unpack_from(f"<{rank}q", slot, at)
        at += 8 * rank
        lod = []
        for _ in range(levels):
            count, = struct.unpack_from("<q", slot, at)
            lod.append(list(struct.unpack_from(f"<{count}q", slot, at + 8)))
            at += 8 + 8 * count
        kind, count = NUMPY_DTYPES[dtype], int(np.prod(shape, dtype=np.int64))
        value = np.frombuffer(slot, kind, count, at).reshape(shape)
        found[name] = floats_of_bfloat16(value) if dtype == VarType.BF16 else value.copy(), lod
        at += kind.itemsize * count
    return found


class _Read:
    """The records of a file up to the step ``last``."""

    def __init__(self, path: str, last: int) -> None:
        self.data, self.size = _read(path), 0          # size: of the records up to ``last``
        self.forms: list[_Form] = []
        self._step, self._form, self._begin = array("q"), array("H"), array("q")
        for form, step, begin, end in _records(self.data):
            if step > last:
                break
            if form == 0:
                self.forms.append(_Form(json.loads(self.data[begin:end])))
            else:
                self._step.append(step)
                self._form.append(form)
                self._begin.append(begin)
            self.size = end
        self._at = 0                                   # index of the record that was found last: callers ask for steps in order

    def find(self, step: int, name: str) -> Any:
        while self._at < len(self._step) and self._step[self._at] < step:
            self._at += 1
        if self._at == len(self._step) or self._step[self._at] != step:
            return None
        form, begin = self.forms[self._form[self._at] - 1], self._begin[self._at]
        return form.value(name, memoryview(self.data)[begin:begin + form.bytes])


class Fetched:
    """The fetched values of one trainer's steps. ``first``: steps made before. ``shared``: names of values that all trainers share."""

    @staticmethod
    def of(folder: str | None, job: Job, first: int, shared: Iterable[str]) -> Fetched | None:
        """Return the values of this process's trainer; ``folder`` has the job's checkpoints. None: no later process would read them."""
        state = os.environ.get("TRIREME_STATE")
        store = _store_of(folder)
        if store is None and folder:
            place, prefix = folder, ".fetched-"
        elif state:
            place, prefix = "/dev/shm", f"{state}.fetched"
        else:
            return None
        if first == 0 and job.index == 0:              # remove files of an earlier training that had more trainers
            for index, path in _files(place, prefix).items():
                if index >= job.trainers:
                    _remove(path)
                    _remove(_last_of(path))
        if store is None:
            return Fetched(place, prefix, job.index, first, shared)
        from .fetched_copy import Copy, fetch

        path, name = os.path.join(place, f"{prefix}{job.index}"), f"{store}/.fetched-{job.index}"
        if first:
            fetch(path, name)
        fetched = Fetched(place, prefix, job.index, first, shared)
        fetched.copy = Copy(path, name)
        return fetched

    def __init__(self, folder: str, prefix: str, index: int, first: int, shared: Iterable[str]) -> None:
        self.path, self.index, self.first, self.shared = os.path.join(folder, f"{prefix}{index}"), index, first, frozenset(shared)
        self._folder, self._prefix = folder, prefix
        self.copy: Copy | None = None                  # in the store that has the job's checkpoints
        self._own: _Read | None = None                 # read for a replay
        self._other: _Read | None = None
        self._file, self._size = -1, 0                 # -1: not opened yet
        self._is_full = self._has_said = False
        self._forms: dict[Any, tuple[int, list[int]]] = {}
        self._count = 0                                # forms in the file
        self.last_path = _last_of(self.path)
        self._last: dict[str, Any] | None = None
        if first == 0:                                 # the files belong to an earlier training
            _remove(self.path)
            _remove(self.last_path)

    # -- in a replay ---------------------------------------------------------------------------------------------------

    def find(self, step: int, name: str) -> Any:
        """Return the value of ``name`` that step ``step`` fetched, as (array, LoD). None: it is unknown."""
        if self._own is None:
            self._own = _Read(self.path, self.first)
        found = self._own.find(step, name)
        if found is None and step == self.first:
            if self._last is None:
                self._last = _read_last(self.last_path, step)
            found = self._last.get(name)
        if found is None and name in self.shared:
            if self._other is None:
                self._other = self._read_other()
            found = self._other.find(step, name)
        return found

    def _read_other(self) -> _Read:
        """Read the largest file of another trainer."""
        def size(path: str) -> int:
            with contextlib.suppress(OSError):
                return os.stat(path).st_size
            return 0

        others = [path for index, path in _files(self._folder, self._prefix).items() if index != self.index]
        return _Read(max(others, key=size, default=self.path), self.first)

    def end_replay(self) -> None:
        """The replay is over: free the values of old steps."""
        self._own = self._other = self._last = None

    def say_unknown(self, step: int, name: str) -> None:
        """Report once that the script gets NaN."""
        if not self._has_said:
            self._has_said = True
            warn(f"trainer {self.index}: nothing is kept of what step {step} fetched as {name!r}; the script gets NaN there. Kept are "
                 f"values of up to {_VALUE_BYTES} bytes; fluid.distributed.is_replaying() tells such steps")

    # -- in a step -----------------------------------------------------------------------------------------------------

    def keep(self, step: int, names: tuple[str, ...], results: Sequence[Any]) -> None:
        """Append the record of a step."""
        if self._is_full:
            return
        try:
            self._append(step, names, results)
        except OSError as error:
            self._end(f"{self.path}: {error.strerror}")

    def _end(self, why: str) -> None:
        self._is_full = True
        warn(f"trainer {self.index}: {why}; what further steps fetch is not kept: a job that is started again fetches NaN in their place")

    def _append(self, step: int, names: tuple[str, ...], results: Sequence[Any]) -> None:
        if self._file < 0:
            self._open()
        key = names, *[(one.shape, one.dtype) if isinstance(one, np.ndarray) else _key_of(one) for one in results]
        known = self._forms.get(key)
        if known is None:
            known = self._new_form(key, names, results)
        form, places = known
        if not places or self._is_full:
            return
        payload = b"".join([np.asarray(results[i]).tobytes()
                            for i in places]) if len(places) > 1 else np.asarray(results[places[0]]).tobytes()
        self._write(_HEAD.pack(form, crc32(payload) & 0xffff, step) + payload)

    def _new_form(self, key: Any, names: tuple[str, ...], results: Sequence[Any]) -> tuple[int, list[int]]:
        places, values = [], []
        for i, one in enumerate(results):
            lod = one.lod() if isinstance(one, LoDTensor) else []
            value = np.asarray(one) if isinstance(one, (np.ndarray, LoDTensor)) else None
            if value is not None and value.nbytes <= _VALUE_BYTES:
                places.append(i)
                values.append([names[i], value.dtype.str, list(value.shape), lod])
        if self._count == _FORMS:
            self._end(f"steps have fetched in {_FORMS} different shapes")
            return 0, []
        if places:
            text = json.dumps(values).encode()
            self._write(_HEAD.pack(0, crc32(text) & 0xffff, len(text)) + text)
            self._count += 1
        self._forms[key] = self._count, places
        return self._forms[key]

    def _write(self, record: bytes) -> None:
        if self._size + len(record) > _ALL_BYTES:
            self._end(f"{self.path} has {_ALL_BYTES >> 20} MiB")
            return
        os.pwrite(self._file, record, self._size)
        self._size += len(record)

    def _open(self) -> None:
        """Begin a new file with the records of the old file up to ``first``."""
        old = self._own or _Read(self.path, self.first)
        begun = old.data[:old.size] or _MAGIC
        beside = f"{self.path}~{os.getpid()}"
        for end in _rests_of_names(self._folder, f"{self._prefix}{self.index}~"):     # left by processes that died here
            _remove(f"{self.path}~{end}")
        self._file = os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        os.write(self._file, begun)
        os.replace(beside, self.path)
        self._size, self._count = len(begun), len(old.forms)


def _key_of(one: Any) -> Any:
    """Return a key for the type of a value that is no array."""
    if isinstance(one, LoDTensor):
        return tuple(one.shape()), one._dtype(), tuple(map(tuple, one.lod()))
    return type(one)


def hand_out(found: Any, kind: Any) -> Any:
    """Return a kept value in the form that ``Executor.run`` gives it: an array, or a LoDTensor where ``kind`` is one."""
    value, lod = found
    if not isinstance(kind, LoDTensor):
        return as_fetched(value)
    tensor = LoDTensor()
    tensor.set(value)
    if lod:
        tensor.set_lod(lod)
    return tensor
