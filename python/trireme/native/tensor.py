"""Tensors and scopes of the native core, and their way to and from NumPy.

Arrays that come out of here are views: they share the core's memory, which is counted, so that they stay
valid and unchanged whatever the program computes afterwards.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .._core import array_of as _array_of, ffi, lib, use_arrays
from .dtypes import FROM_NUMPY, NUMPY_DTYPES, VarType, array_of, bfloat16_bits, convert_dtype, floats_of_bfloat16
from .errors import EnforceNotMet, InvalidArgumentError, LengthsError, ShapeError, check, user_line
from .handles import Handle, Native

_new_tensor = lib.tr_tensor_new
_free_tensor = lib.tr_tensor_free


class CPUPlace:
    """The processor; every operator runs there.

    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> fluid.CPUPlace() == fluid.CPUPlace()
    True
    """

    def __repr__(self) -> str:
        return "CPUPlace"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CPUPlace)

    def __hash__(self) -> int:
        return hash(CPUPlace)


class _OneElement(np.ndarray):
    """An array of one element, such as a loss [1], that is a number where one is wanted: ``float(loss)``, ``"%f" % loss``.

    NumPy, which allowed it when the scripts of Fluid were written, refuses it for arrays with dimensions since 2.4.
    """

    __slots__ = ()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __repr__(self) -> str:
        return repr(np.asarray(self))

    def __array_wrap__(self, array: Any, *rest: Any) -> Any:       # a sum of it is a number, as of any array
        return super().__array_wrap__(array, *rest) if array.ndim else array[()]

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def view_of_owned(tensor: Any) -> np.ndarray:
    """Return the tensor's data as an array which frees the tensor at its end; bfloat16 as float32, which is a copy."""
    is_bfloat16 = lib.tr_tensor_dtype(tensor) == VarType.BF16
    array: np.ndarray = _array_of(int(ffi.cast("intptr_t", tensor)))
    return as_fetched(floats_of_bfloat16(array)) if is_bfloat16 else array


class _CallableShape(tuple[int, ...]):
    """The shape of an array that scripts also read as a LoDTensor: ``array.shape`` and ``array.shape()``."""

    def __call__(self) -> list[int]:
        return list(self)


class FedArray(np.ndarray):
    """An array that `DataFeeder` has made. Fluid has LoDTensors there, so ``shape()``, ``lod()`` and the like work, too."""

    @property                                          # type: ignore[misc]
    def shape(self) -> _CallableShape:                 # type: ignore[override]  # arrays of numpy can be given a shape
        return _CallableShape(super().shape)

    def lod(self) -> list[list[int]]:
        return []

    recursive_sequence_lengths = lod

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


def as_fetched(array: np.ndarray) -> np.ndarray:
    """Return an array as one that a run has fetched: see _OneElement."""
    return array.view(_OneElement) if array.ndim and array.size == 1 else array


def _tensor_dtype(array: np.ndarray) -> int:
    code = FROM_NUMPY.get(array.dtype)
    if code is None:
        raise TypeError(f"no tensor can hold a NumPy array of {array.dtype} (shape {list(array.shape)}); "
                        f"types are {', '.join(str(dtype) for dtype in FROM_NUMPY)}")
    return code


def _offsets(lod: Sequence[Sequence[int]]) -> tuple[Any, Any, list[Any]]:
    """Return (counts, pointers, what keeps them alive) for the C API."""
    levels = [ffi.new("int64_t[]", [int(x) for x in level]) for level in lod]
    counts = ffi.new("int64_t[]", [len(level) for level in lod])
    return counts, ffi.new("int64_t *[]", levels), levels


class _Late:
    """An attribute of a tensor that is made when it is first used. From then on the tensor's own one hides it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, tensor: Any, kind: type | None = None) -> Any:
        if tensor is None:
            return self
        tensor._make_late()
        return tensor.__dict__[self._name]


class _Tensor(Handle):
    """What LoDTensor and SelectedRows share: one native tensor, of its own or in a scope.

    ``copy.copy`` makes another handle of the same tensor, ``copy.deepcopy`` a tensor of its own with the same values. ``pickle`` keeps
    values. A tensor that was never set has no values, and says so to whatever reads them. One that was set may have no rows.
    """

    _what = "the tensor"                               # what errors call it
    _memory: Any = None                                # of a result of a run: what frees the tensor
    _native: Any = _Late()
    _ptr: Any = _Late()

    def __init__(self, _native: Native | None = None, _ptr: Any = None) -> None:
        if _native is None:
            _native = Native(_new_tensor(), _free_tensor, owner="LoDTensor")
        else:
            _native.retain()
        self._native = _native
        self._ptr = _native.ptr if _ptr is None else _ptr

    @classmethod
    def _adopt(cls, ptr: Any) -> Any:
        """Wrap a tensor that is freed with the wrapper."""
        native = Native(ptr, _free_tensor)
        tensor = cls(_native=native)
        native.release()
        return tensor

    def _make_late(self) -> None:
        """Make what a result of a run does not have before it is used: the extension makes it with its memory alone."""
        memory = self._memory
        if memory is None:
            raise AttributeError(f"{type(self).__name__!r} object has no tensor yet")
        made = Native(ffi.cast("tr_tensor *", memory.address), memory.let_go, owner=type(self).__name__)
        self.__dict__.setdefault("_ptr", made.ptr)
        self.__dict__.setdefault("_native", made)      # of several threads one gives its own

    def _let_go(self) -> bool:
        if self._memory is not None:
            _ = self._native                           # which is made now
        return super()._let_go()

    def __del__(self) -> None:
        if self._memory is None:                       # else the memory goes with the last that looks at it
            self._let_go()

    def __copy__(self) -> Any:
        return self._called(type(self)(_native=self._native, _ptr=self._ptr))

    def _called(self, other: Any) -> Any:
        """Return another handle of this tensor, which errors call the same."""
        other._what = self._what
        return other

    def __deepcopy__(self, memo: Any) -> Any:
        check(lib.tr_tensor_await(self._ptr))
        copied = type(self)()
        check(lib.tr_tensor_copy(copied._ptr, self._ptr))
        return copied

    def _bits(self) -> np.ndarray | None:
        """Return a copy of the values, as ``set`` takes them; None: the tensor was never set."""
        if not self._is_initialized():
            return None
        values = self.numpy()
        return bfloat16_bits(values) if self._dtype() == VarType.BF16 else np.array(values)

    def shape(self) -> list[int]:
        return list(ffi.unpack(lib.tr_tensor_dims(self._ptr), lib.tr_tensor_rank(self._ptr)))

    def _is_initialized(self) -> bool:
        return bool(lib.tr_tensor_dtype(self._ptr) >= 0)

    def _dtype(self) -> VarType:
        code = lib.tr_tensor_dtype(self._ptr)
        if code < 0:
            self._refuse_unset(self._what)
        return VarType(code)

    def _refuse_unset(self, what: str) -> NoReturn:
        raise InvalidArgumentError(f"{what} was never set: it has no data type, shape or values. Call set(array) first, or where it is a "
                                   f"variable of a scope run the program that computes it, or load it\n  your line: {user_line()}")

    def numpy(self) -> np.ndarray:
        """Return the data as an array that shares the memory; see the head of this module. Of bfloat16 it is a copy in float32.

        Raises InvalidArgumentError where the tensor was never set.
        """
        return self._read(self._what)

    def _read(self, what: str) -> np.ndarray:
        """Return the data as ``numpy`` does; ``what`` is what an error calls the tensor."""
        check(lib.tr_tensor_await(self._ptr))
        if not self._is_initialized():
            self._refuse_unset(what)
        shared = _new_tensor()
        lib.tr_tensor_share(shared, self._ptr)
        return view_of_owned(shared)

    def __dlpack__(self, **how: Any) -> Any:
        """The memory for another library, which shares it: ``torch.from_dlpack(tensor)``."""
        return self.numpy().__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def _share(self, other: _Tensor) -> None:
        """Look at the memory of another tensor from now on."""
        lib.tr_tensor_share(self._ptr, other._ptr)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def _set(self, array: Any) -> None:
        array = np.asarray(array)
        if array.dtype.name == "bfloat16" or (array.dtype.kind == "f" and lib.tr_tensor_dtype(self._ptr) == VarType.BF16):
            array = bfloat16_bits(array)               # a tensor of bfloat16 stays one
        if array.dtype not in FROM_NUMPY and array.dtype.kind in "iu":
            array = array.astype(np.int64)
        array = np.ascontiguousarray(array).reshape(array.shape)
        code = _tensor_dtype(array)
        check(lib.tr_tensor_resize(self._ptr, code, array.ndim, list(array.shape)))
        if array.nbytes:
            ffi.memmove(lib.tr_tensor_data(self._ptr), ffi.from_buffer(array), array.nbytes)


class LoDTensor(_Tensor):
    """A dense array, perhaps of sequences one after the other ("level of detail").

    ``recursive_seq_lens`` is the lengths of sequences, a list for each level; they must fit the array that is set.

    A slice is a copy, without sequences: ``t[1:3]``, ``t[0:2, 1]``. Every dimension stays: a number selects a slice of one element.

    >>> t = fluid.core.LoDTensor()
    >>> t.set(np.zeros((5, 2), "float32"))
    >>> t.set_recursive_sequence_lengths([[2, 3]])
    >>> t
    LoDTensor(float32[5, 2], lod=[[0, 2, 5]])
    >>> np.asarray(t).shape
    (5, 2)
    >>> t[1:3].shape(), t[0, 1].shape()
    ([2, 2], [1, 1])
    """

    def __init__(self, recursive_seq_lens: Sequence[Sequence[int]] | None = None, *, _native: Native | None = None,
                 _ptr: Any = None) -> None:
        super().__init__(_native, _ptr)
        if recursive_seq_lens is not None:
            self.set_recursive_sequence_lengths(recursive_seq_lens)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _lod_tensor_of, (self._bits(), self.lod())

    def set(self, array: Any, place: CPUPlace | None = None) -> None:
        """Copy ``array`` into the tensor. Sequence offsets, which may be set first, stay if they fit its rows, and are dropped otherwise.

        An array of uint16 is taken for the bits of bfloat16, as one of ``ml_dtypes.bfloat16`` is. Floats that are set into a tensor of
        bfloat16 are rounded to it.
        """
        lod = self.lod()
        self._set(array)
        if lod and self.shape()[:1] == lod[-1][-1:]:
            self.set_lod(lod)

    def lod(self) -> list[list[int]]:
        """Return the offsets of every level, the outermost first."""
        ptr = self._ptr
        return [ffi.unpack(lib.tr_tensor_lod_offsets(ptr, i), lib.tr_tensor_lod_count(ptr, i))
                for i in range(lib.tr_tensor_lod_levels(ptr))]

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Set the offsets of sequences: ``lod`` is a list of offsets for each level, such as ``[[0, 2, 5]]``."""
        counts, pointers, levels = _offsets(lod)
        check(lib.tr_tensor_set_lod(self._ptr, len(levels), counts, pointers))

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Return the lengths of sequences, a list for each level."""
        return [[b - a for a, b in zip(level, level[1:])] for level in self.lod()]

    def set_recursive_sequence_lengths(self, lengths: Sequence[Sequence[int]]) -> None:
        """Set the lengths of sequences: ``lengths`` is a list for each level, such as ``[[2, 3]]``."""
        self.set_lod(lengths_to_offsets(lengths))

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Return whether the offsets fit each other and the rows. They always do: ``set_lod`` refuses others."""
        return True

    def __getitem__(self, index: Any) -> LoDTensor:
        parts = index if isinstance(index, tuple) else (index,)
        values, dims = self.numpy(), self.shape()
        if len(parts) > len(dims):
            raise IndexError(f"{len(parts)} indices for a tensor of {len(dims)} dimensions, {dims}")
        found = LoDTensor()
        found._set(values[tuple(_as_slice(part, dim, i) for i, (part, dim) in enumerate(zip(parts, dims)))])
        return found

    # -- what scripts of Fluid's tests use ------------------------------------------------------------------

    def _get_dims(self) -> list[int]:
        return self.shape()

    def _set_dims(self, dims: Sequence[int]) -> None:
        """Give the tensor this shape. Its values stay if there are as many, and become zeros otherwise."""
        if self._is_initialized() and int(np.prod(dims, dtype=np.int64)) == int(np.prod(self.shape(), dtype=np.int64)):
            self._set(self.numpy().reshape(tuple(dims)).copy())
        else:
            self._set(np.zeros(tuple(dims), NUMPY_DTYPES[lib.tr_tensor_dtype(self._ptr)] if self._is_initialized() else np.float32))

    def _alloc(self, dtype: Any) -> None:
        if not self._is_initialized() or self._dtype() != FROM_NUMPY[np.dtype(dtype)]:
            self._set(np.zeros(tuple(self.shape()), dtype))

    def _alloc_float(self, place: Any = None) -> None:
        self._alloc(np.float32)

    def _alloc_double(self, place: Any = None) -> None:
        self._alloc(np.float64)

    def _alloc_int(self, place: Any = None) -> None:
        self._alloc(np.int32)

    def _get_element(self, at: int) -> Any:
        return self.numpy().reshape(-1)[at].item()

    def _set_element(self, at: int, value: Any) -> None:
        array = self.numpy().copy()
        array.reshape(-1)[at] = value
        self.set(array)

    _get_float_element = _get_double_element = _get_element
    _set_float_element = _set_double_element = _set_element

    def __repr__(self) -> str:
        if not self._is_initialized():
            return "LoDTensor(not set)"
        lod = self.lod()
        return f"LoDTensor({self._dtype()}{self.shape()}" + (f", lod={lod})" if lod else ")")


Tensor = LoDTensor                     # its newer name
use_arrays(np.ndarray, _OneElement, NUMPY_DTYPES, LoDTensor)


def _as_slice(part: Any, dim: int, axis: int) -> slice:
    if isinstance(part, slice):
        return part
    at = operator.index(part)
    if not -dim <= at < dim:
        raise IndexError(f"index {at} is outside of dimension {axis}, which has {dim} elements")
    return slice(at % dim, at % dim + 1)


def _lod_tensor_of(values: np.ndarray | None, lod: list[list[int]]) -> LoDTensor:
    """Return a LoDTensor that was pickled."""
    tensor = LoDTensor()
    if values is not None:
        tensor.set(values)
    tensor.set_lod(lod)
    return tensor


def lengths_to_offsets(lengths: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return ``[[0, 2, 5]]`` for ``[[2, 3]]``."""
    result = []
    for level in lengths:
        if not isinstance(level, (Sequence, np.ndarray)) or isinstance(level, str):
            raise TypeError("the lengths of sequences are a list for each level, such as [[2, 3]] for two sequences of "
                            f"2 and 3 rows; got {lengths!r}")
        offsets = [0]
        for length in level:
            offsets.append(offsets[-1] + int(length))
        result.append(offsets)
    return result


def samples_of(value: Any) -> int:
    """Return the samples of a fed value: sequences of the outermost level, or rows."""
    if type(value) is np.ndarray and value.ndim:
        return len(value)
    if isinstance(value, LoDTensor):
        lod = value.lod()
        return len(lod[0]) - 1 if lod else (value.shape() or [1])[0]
    shape = np.shape(value)
    return int(shape[0]) if shape else 1


def samples_of_batch(feed: Mapping[str, Any], kept: Container[str]) -> int:
    """Return the samples of a batch: those of the first feed that is none of the variables ``kept``, which persist. 1: there is no such
    feed."""
    return next((samples_of(value) for name, value in feed.items() if name not in kept), 1)


def with_batch_sizes(error: ShapeError, feed: Mapping[str, Any]) -> ShapeError:
    """Return the error, which speaks of feeds, too, where these have batches of different sizes."""
    sizes = {name: samples_of(value) for name, value in feed.items()}
    if len(set(sizes.values())) < 2:
        return error
    told = ", ".join(f"{name!r} has {size}" for name, size in sizes.items())
    found = type(error)(f"{error}\n  the feeds have batches of different sizes: {told}")
    found.status = error.status
    return found


def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]],
                      place: CPUPlace | None = None) -> LoDTensor:
    """Return a LoDTensor of an array, of another LoDTensor, or of a list of sequences of int64 numbers.

    ``data`` is that array, LoDTensor or list. The lengths must fit: an error shows both sums.

    >>> fluid.create_lod_tensor(np.zeros((5, 1), "int64"), [[2, 3]], fluid.CPUPlace())
    LoDTensor(int64[5, 1], lod=[[0, 2, 5]])
    >>> fluid.create_lod_tensor([[1, 2], [3, 4, 5]], [[2, 3]])
    LoDTensor(int64[5, 1], lod=[[0, 2, 5]])
    """
    lengths_to_offsets(recursive_seq_lens)             # complains about anything but lists of lengths
    if isinstance(data, list):
        lengths = [len(sequence) for sequence in data]
        if not recursive_seq_lens or list(recursive_seq_lens[-1]) != lengths:
            raise LengthsError(f"recursive_seq_lens is {recursive_seq_lens}, but the lists of the data have {lengths} elements")
        data = array_of(np.concatenate([np.asarray(sequence) for sequence in data]), np.dtype(np.int64), "data").reshape(-1, 1)
    elif isinstance(data, LoDTensor):
        data = data.numpy()
    tensor = LoDTensor()
    tensor.set(data, place)
    try:
        tensor.set_recursive_sequence_lengths(recursive_seq_lens)
    except EnforceNotMet as error:
        raise LengthsError(f"recursive_seq_lens is {recursive_seq_lens}, which does not fit the data {tensor.shape()}: {error}") from None
    return tensor


def create_random_int_lodtensor(recursive_seq_lens: Sequence[Sequence[int]], base_shape: Sequence[int],
                                place: CPUPlace | None, low: int, high: int) -> LoDTensor:
    """Return a LoDTensor of random int64 numbers from ``low`` to ``high``, both included.

    NumPy's global generator draws them: ``np.random.seed`` makes them the same again.

    >>> words = fluid.create_random_int_lodtensor([[2, 3]], [1], fluid.CPUPlace(), low=0, high=9)
    >>> words
    LoDTensor(int64[5, 1], lod=[[0, 2, 5]])
    """
    rows = sum(recursive_seq_lens[-1])
    data = np.random.randint(low, high + 1, [rows, *base_shape]).astype(np.int64)
    return create_lod_tensor(data, recursive_seq_lens, place)


__all__ = ["CPUPlace", "LoDTensor", "VarType", "convert_dtype", "create_lod_tensor", "create_random_int_lodtensor", "lengths_to_offsets",
           "view_of_owned", "Tensor"]
