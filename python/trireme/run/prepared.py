"""What was worked out for runs of a program with the same feeds and fetches: the core's plan, where it reads feeds, and where results come.

Feeds lend NumPy's memory to the core for the time of the run, fetches are arrays over the core's memory; nothing is copied unless an array
is not contiguous, or is a small result, whose tensor stays for the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..native import calls
from ..native.dtypes import FROM_NUMPY, NUMPY_DTYPES, VarType, array_of, bfloat16_bits
from ..native.errors import DTypeError, NotFoundError, ShapeError, UnsupportedError, check, user_line
from ..native.handles import Native, Uncopied
from ..native.names import name_array, name_chars
from ..native.suggest import did_you_mean
from ..native.tensor import LoDTensor, view_of_memory, view_of_owned, with_batch_sizes
from ..native.scope import Scope
from ..native.selected_rows import SelectedRows
from ..program import Program, Variable

_from_buffer = ffi.from_buffer
_plan_run = lib.tr_plan_run
_plan_retain, _plan_release = lib.tr_plan_retain, lib.tr_plan_release
_revision = lib.tr_program_revision
_new_tensor = lib.tr_tensor_new
_data = lib.tr_tensor_data
_bytes = lib.tr_tensor_bytes
_MAX_COPIED = 4096                   # bytes; the memory of a larger result is handed out


def refuse_within_call() -> None:
    """Refuse a run on a thread that is within a function which a program has called."""
    if calls.is_within():
        raise UnsupportedError("a function that a program calls (layers.py_func) may not run a program: the run that has called it is not "
                               f"over. Compute with NumPy, or run the other program before or afterwards\n  your line: {user_line()}")


class _Feed:
    """One fed variable of a prepared run: what it must be, and the place where the core reads it."""

    __slots__ = ("name", "code", "dtype", "dims", "native", "_dims", "_shape", "_keep", "_changed")

    def __init__(self, name: str, var: Variable, native: Any, changed: list[bool]) -> None:
        self._changed = changed                        # shared by the feeds of a run: whether one has another shape than before
        self.name = name
        self.code = int(var.dtype) if var.dtype is not None else -1
        self.dtype = NUMPY_DTYPES.get(self.code)
        self.dims = var.desc.shape()
        self._dims = ffi.new("int64_t[9]")
        self._keep = ffi.new("char[]", name_chars(name))
        self.native = native
        native.name = self._keep
        native.dims = self._dims
        self._shape: Any = None

    def set(self, value: Any) -> Any:
        """Point the core at the array; return what must stay alive during the run."""
        native = self.native
        if type(value) is np.ndarray and value.dtype is self.dtype and value.shape == self._shape:
            try:
                native.data = buffer = _from_buffer(value)
                return buffer
            except ValueError:                         # it is not contiguous
                pass
        if type(value) is not np.ndarray:
            if isinstance(value, LoDTensor):
                return self._set_tensor(value)
            if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
                value = np.from_dlpack(value)          # of another library, without a copy
            value = np.asarray(value) if isinstance(value, np.ndarray) else array_of(value, self.dtype, self.name)
        if value.dtype != self.dtype:
            value = self._converted(value)
        if value.shape != self._shape:
            self._set_shape(value.shape)
        if not value.flags.c_contiguous:
            value = np.ascontiguousarray(value)
        native.lod_levels = 0
        buffer = _from_buffer(value)
        native.data = buffer
        return buffer

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        native = self.native
        dims = self.dims
        if dims and len(dims) != len(shape):           # other numbers than those declared are the operators' to refuse
            want = ["?" if dim < 0 else dim for dim in dims]
            raise ShapeError(f"feed {self.name!r} has the shape {list(shape)}, the program wants "
                             f"[{', '.join(map(str, want))}]; a feed has as many dimensions as its variable: declare {len(shape)}, "
                             f"such as layers.data({self.name!r}, {[None] * len(shape)}, append_batch_size=False)\n  your line: "
                             f"{user_line()}")
        if len(shape) > 9:
            raise ShapeError(f"feed {self.name!r} has {len(shape)} dimensions, at most 9 are possible")
        native.rank = len(shape)
        self._dims[0:len(shape)] = shape
        native.dtype = self.code
        self._shape = shape
        self._changed[0] = True

    def _converted(self, value: np.ndarray) -> np.ndarray:
        """Return an array of another type as one of the program's type: only bfloat16 is made of others, since NumPy does not have it."""
        if value.dtype.name == "bfloat16" or (self.code == VarType.BF16 and value.dtype.kind == "f"):
            value = bfloat16_bits(value)
        if self.dtype is None:
            if value.dtype not in FROM_NUMPY:
                raise DTypeError(f"feed {self.name!r} is {value.dtype}, which no tensor can hold")
            self.dtype, self.code = value.dtype, FROM_NUMPY[value.dtype]
        if value.dtype == self.dtype:
            return value
        raise DTypeError(f"feed {self.name!r} is {value.dtype}, the program wants {self.dtype}: "
                         f"give {self.name}.astype({str(self.dtype)!r})\n  your line: {user_line()}")

    def _set_tensor(self, tensor: LoDTensor) -> Any:
        keep = self.set(tensor._read(f"feed {self.name!r}"))
        lod = tensor.lod()
        counts = ffi.new("int64_t[]", [len(level) for level in lod])
        levels = [ffi.new("int64_t[]", level) for level in lod]
        pointers = ffi.new("int64_t *[]", levels)
        self._shape = None                             # the next feed is looked at anew
        self.native.lod_counts, self.native.lod_offsets = counts, pointers
        self.native.lod_levels = len(lod)
        return keep, counts, levels, pointers


def is_small(tensor: Any) -> bool:
    """Whether a result is an array of a few bytes, whose tensor can stay for the next run."""
    return (0 < _bytes(tensor) <= _MAX_COPIED and not lib.tr_tensor_has_rows(tensor) and not lib.tr_tensor_lod_levels(tensor)
            and view_of_memory(tensor, None) is not None)


class SmallResult(Uncopied):
    """One small result of a run, whose tensor stays from run to run.

    The core writes a result into one of a few buffers in turn, so an array over each is kept. It is used only while the tensor
    has that very memory and size. A run whose feeds have other shapes begins with new tensors.
    """

    __slots__ = ("tensor", "_size", "_dims", "_first_dims", "_views")

    def __init__(self, tensor: Any) -> None:
        self.tensor: Any = tensor
        self._size = _bytes(tensor)
        self._dims = ffi.buffer(lib.tr_tensor_dims(tensor), 8 * lib.tr_tensor_rank(tensor))     # where each run writes them
        self._first_dims = self._dims[:]
        self._views: dict[Any, np.ndarray] = {}

    def __del__(self) -> None:
        if getattr(self, "tensor", None) is not None:  # it is made, and not given away
            lib.tr_tensor_free(self.tensor)

    def value(self) -> np.ndarray | None:
        """Return a copy of the result, or None where it has another shape than before."""
        tensor = self.tensor
        if self._dims[:] != self._first_dims:
            return None
        data = _data(tensor)
        view = self._views.get(data)
        if view is None:
            if len(self._views) > 8:                   # memory of layouts that are gone
                self._views.clear()
            view = view_of_memory(tensor, ffi.buffer(ffi.cast("char *", data), self._size))
            assert view is not None                    # bfloat16 alone has none, and its results are no small ones
            self._views[data] = view
        return view.copy()


class Prepared(Uncopied):
    """A plan of the core with the memory for its feeds and fetches. The plan goes with its program, scope and executor, none of which this
    keeps."""

    __slots__ = ("plan", "executor", "revision", "erased", "feeds", "natives", "fetches", "count", "_small", "_changed", "_retained")

    def __init__(self, executor: Native, program: Program, scope: Scope, feed: Sequence[str],
                 fetch: Sequence[str]) -> None:
        block = program.global_block()
        for name in feed:
            if not isinstance(name, str):
                raise TypeError(f"feed maps names to arrays, got the key {name!r}")
            if not block.has_var(name):
                raise NotFoundError(f"feed {name!r} is no variable of the program{did_you_mean(name, block.vars)}\n"
                                    f"  your line: {user_line()}")
        out = ffi.new("tr_plan **")
        feed_count, feed_names, _keep = name_array(feed)
        fetch_count, fetch_names, _keep_too = name_array(fetch)
        native = program.desc._native
        check(lib.tr_executor_prepare(out, executor.ptr, native.ptr, scope._native.ptr, feed_count, feed_names,
                                      fetch_count, fetch_names))
        self.plan = out[0]
        _plan_retain(self.plan)
        self._retained = ffi.gc(self.plan, _plan_release)
        self.natives = ffi.new("tr_feed[]", feed_count)
        self._changed = [True]
        self._small: list[SmallResult] | None = None   # one for each result, where all are small: their tensors stay
        self.feeds = [(name, _Feed(name, block.var(name), self.natives[i], self._changed)) for i, name in enumerate(feed)]
        self.fetches = ffi.new("tr_tensor *[]", fetch_count)
        self.count = fetch_count
        self.executor = executor                       # not retained: to be compared
        self.revision = _revision(native.ptr)
        self.erased = scope._erased

    def begin(self, feed: dict[str, Any], return_numpy: bool) -> list[Any]:
        """Point the core at what is fed, and make room for what is fetched; return what must stay alive during the run."""
        keep = [one.set(feed[name]) for name, one in self.feeds]
        if self._small is None or not return_numpy or self._changed[0]:
            self._renew()
        return keep

    def _renew(self) -> None:
        self._small = None
        for i in range(self.count):
            self.fetches[i] = _new_tensor()

    def drop(self) -> None:
        """Free what a run that failed was to fetch. Tensors that stay from run to run are none of it."""
        for i in range(self.count if self._small is None else 0):
            lib.tr_tensor_free(self.fetches[i])

    def run(self, feed: dict[str, Any], return_numpy: bool, names: Sequence[str]) -> list[Any]:
        keep = []
        for name, one in self.feeds:                   # a loop costs less than a comprehension, which is a call
            keep.append(one.set(feed[name]))
        if self._small is not None and return_numpy and not self._changed[0]:
            status = _plan_run(self.plan, self.natives, self.fetches)
            if status:
                check(status)
            return self._small_values() or self.collect(True, names)
        self._renew()
        try:
            check(_plan_run(self.plan, self.natives, self.fetches))
        except BaseException as error:                 # KeyboardInterrupt as well, which Python raises when the call returns
            self.drop()
            if isinstance(error, ShapeError):
                raise with_batch_sizes(error, feed) from None
            raise
        del keep
        return return_numpy and self.small_results() or self.collect(return_numpy, names)

    def small_results(self) -> list[Any]:
        """Return copies of what a run has fetched where all of it is small: its tensors stay for the next run. Else return an empty list:
        the results are to be collected."""
        if self._small is None:
            if not all([is_small(self.fetches[i]) for i in range(self.count)]):
                return []
            self._changed[0] = False
            self._small = [SmallResult(self.fetches[i]) for i in range(self.count)]
        return self._small_values()

    def _small_values(self) -> list[Any]:
        small = self._small or ()
        results: list[Any] = []
        for one in small:
            value = one.value()
            if value is None:                          # its shape depends on values: the tensors are handed out
                for other in small:
                    other.tensor = None
                self._small = None
                return []
            results.append(value)
        return results

    def collect(self, return_numpy: bool, names: Sequence[str]) -> list[Any]:
        """Return what a run has fetched."""
        fetches = self.fetches
        results: list[Any] = []
        for i in range(self.count):
            tensor = fetches[i]
            if lib.tr_tensor_has_rows(tensor):
                results.append(SelectedRows._adopt(tensor))
            elif not return_numpy:
                results.append(LoDTensor._adopt(tensor))
            elif lib.tr_tensor_lod_levels(tensor):
                for j in range(i, self.count):
                    lib.tr_tensor_free(fetches[j])
                raise ValueError(f"{names[i]!r} has sequence offsets, which a NumPy array would lose: "
                                 "fetch it with return_numpy=False")
            else:
                results.append(view_of_owned(tensor))
        return results
