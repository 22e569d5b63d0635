"""What was worked out for runs of a program with the same feeds and fetches: the core's plan, and what the first look at each feed needs.

Feeds lend NumPy's memory to the core for the time of the run, fetches are arrays over the core's memory; nothing is copied unless an array
is not contiguous, or is a small result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from .._core import PlanCall, ffi, lib
from ..native import calls
from ..native.dtypes import FROM_NUMPY, NUMPY_DTYPES, VarType, array_of, bfloat16_bits
from ..native.errors import DTypeError, NotFoundError, ShapeError, UnsupportedError, check, error_of, user_line
from ..native.handles import Native, Uncopied
from ..native.names import name_array
from ..native.suggest import did_you_mean
from ..native.tensor import LoDTensor, view_of_owned, with_batch_sizes
from ..native.scope import Scope
from ..program import Program, Variable

_MAX_RANK = 9


def refuse_within_call() -> None:
    """Refuse a run on a thread that is within a function which a program has called."""
    if calls.is_within():
        raise UnsupportedError("a function that a program calls (layers.py_func) may not run a program: the run that has called it is not "
                               f"over. Compute with NumPy, or run the other program before or afterwards\n  your line: {user_line()}")


class _Feed:
    """One fed variable of a prepared run: what it must be."""

    __slots__ = ("name", "code", "dtype", "dims")

    def __init__(self, name: str, var: Variable) -> None:
        self.name = name
        self.code = int(var.dtype) if var.dtype is not None else -1
        self.dtype = NUMPY_DTYPES.get(self.code)
        self.dims = var.desc.shape()

    def accept(self, value: Any) -> tuple[Any, ...]:
        """Return the value as the core reads it: a contiguous array, and the number of its type. Sequences come with the number of levels,
        addresses of the counts of offsets and of the offsets, and what keeps these alive.

        The core's part asks for each value that is not an array of the type and shape of the one before.
        """
        if isinstance(value, LoDTensor):
            return self._accept_tensor(value)
        if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            value = np.from_dlpack(value)              # of another library, without a copy
        value = np.asarray(value) if isinstance(value, np.ndarray) else array_of(value, self.dtype, self.name)
        if value.dtype != self.dtype:
            value = self._converted(value)
        self._check_shape(value.shape)
        return value if value.flags.c_contiguous else np.ascontiguousarray(value), self.code

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        dims = self.dims
        if dims and len(dims) != len(shape):           # other numbers than those declared are the operators' to refuse
            want = ["?" if dim < 0 else dim for dim in dims]
            raise ShapeError(f"feed {self.name!r} has the shape {list(shape)}, the program wants "
                             f"[{', '.join(map(str, want))}]; a feed has as many dimensions as its variable: declare {len(shape)}, "
                             f"such as layers.data({self.name!r}, {[None] * len(shape)}, append_batch_size=False)\n  your line: "
                             f"{user_line()}")
        if len(shape) > _MAX_RANK:
            raise ShapeError(f"feed {self.name!r} has {len(shape)} dimensions, at most {_MAX_RANK} are possible")

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

    def _accept_tensor(self, tensor: LoDTensor) -> tuple[Any, ...]:
        array, code = self.accept(tensor._read(f"feed {self.name!r}"))
        if not (lod := tensor.lod()):
            return array, code
        counts = ffi.new("int64_t[]", [len(level) for level in lod])
        levels = [ffi.new("int64_t[]", level) for level in lod]
        offsets = ffi.new("int64_t *[]", levels)
        return array, code, len(lod), address_of(counts), address_of(offsets), (counts, levels, offsets)


def address_of(pointer: Any) -> int:
    """Return a pointer of cffi as a number."""
    return int(ffi.cast("intptr_t", pointer))


class Prepared(PlanCall, Uncopied):                    # type: ignore[misc]  # the extension has no types
    """A plan of the core with the memory for its feeds and fetches. The plan goes with its program, scope and executor, none of which this
    keeps.
    """

    __slots__ = ("_names",)

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
        check(lib.tr_executor_prepare(out, executor.ptr, program.desc._native.ptr, scope._native.ptr, feed_count, feed_names,
                                      fetch_count, fetch_names))
        self._names = tuple(fetch)
        super().__init__(address_of(out[0]), tuple(feed), tuple([_Feed(name, block.var(name)).accept for name in feed]), fetch_count)

    def _failed(self, status: int, feed: dict[str, Any]) -> NoReturn:
        """Raise for a run that has failed."""
        error = error_of(status)
        raise with_batch_sizes(error, feed) if isinstance(error, ShapeError) else error

    def _result(self, address: int, number: int) -> Any:
        """Return what a run has fetched where it is no plain array: rows, sequences in a run that returns arrays, or bfloat16."""
        tensor = ffi.cast("tr_tensor *", address)
        if lib.tr_tensor_has_rows(tensor):
            from ..native.selected_rows import SelectedRows

            return SelectedRows._adopt(tensor)
        if lib.tr_tensor_lod_levels(tensor):
            lib.tr_tensor_free(tensor)
            raise ValueError(f"{self._names[number]!r} has sequence offsets, which a NumPy array would lose: "
                             "fetch it with return_numpy=False")
        return view_of_owned(tensor)
