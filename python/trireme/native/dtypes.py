"""Data types and kinds of variables, numbered as the saved programs number them."""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import numpy as np

from .checks import plain
from .errors import DTypeError, user_line

# A VarType, its number, its name, or NumPy's type; of a variable without a type it is None.
DTypeLike: TypeAlias = "VarType | int | str | type | np.dtype[Any] | None"


class VarType(enum.IntEnum):
    """What a variable holds (``LOD_TENSOR``, ...) or the type of its elements (``FP32``, ...).

    >>> FP32 = fluid.core.VarDesc.VarType.FP32
    >>> FP32 == "float32", FP32 == np.float32, FP32 == 5
    (True, True, True)
    >>> str(fluid.core.VarDesc.VarType.INT64)
    'int64'
    """

    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    TUPLE = 18
    SIZE_T = 19
    UINT8 = 20
    INT8 = 21
    BF16 = 22

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return int(self) == int(other)
        if isinstance(other, (str, np.dtype)) or (isinstance(other, type) and issubclass(other, np.generic)):
            return _BY_NAME.get(_name_of(other)) is self
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = int.__hash__

    def __str__(self) -> str:
        return _NAMES.get(int(self), self.name)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        return f"VarType.{self.name}"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of the elements; bfloat16, which NumPy does not have, as the 16 bits that it is made of."""
        return numpy_dtype(self)


_NAMES = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64",
          19: "size_t", 20: "uint8", 21: "int8", 22: "bfloat16"}
_NUMPY_NAMES = {**_NAMES, 19: "uint64", 22: "uint16"}
_BY_NAME = {name: VarType(value) for value, name in _NAMES.items()}
_BY_NAME.update({"uint64": VarType.SIZE_T, "float": VarType.FP32, "double": VarType.FP64,
                 "int": VarType.INT32, "half": VarType.FP16})
NUMPY_DTYPES: dict[int, np.dtype] = {value: np.dtype(name) for value, name in _NUMPY_NAMES.items()}
FROM_NUMPY: dict[np.dtype, int] = {np.dtype(_NAMES[value]): value for value in (0, 1, 2, 3, 4, 5, 6, 20, 21)}
FROM_NUMPY[np.dtype("uint64")] = 19
FROM_NUMPY[np.dtype("uint16")] = 22               # the bits of bfloat16


def _name_of(dtype: Any) -> str:
    return dtype if isinstance(dtype, str) else np.dtype(dtype).name


def convert_dtype(dtype: DTypeLike) -> VarType:
    """Return the VarType for a name, a NumPy type, a number or a VarType.

    >>> fluid.core.convert_dtype("float32"), fluid.core.convert_dtype(np.int64)
    (VarType.FP32, VarType.INT64)
    """
    if isinstance(dtype, VarType):
        return dtype
    dtype = plain(dtype)
    if isinstance(dtype, int) and not isinstance(dtype, bool) and dtype in _NAMES:
        return VarType(dtype)
    try:
        found = _BY_NAME.get(_name_of(dtype))
    except TypeError:
        found = None
    if found is None:
        raise TypeError(f"dtype must be one of {', '.join(_NAMES.values())} or a NumPy type, got {dtype!r}")
    return found


def array_of(values: Any, dtype: np.dtype[Any] | None, name: str) -> np.ndarray:
    """Return what is no array yet, such as lists, as an array of ``dtype``, for the feed ``name``. DTypeError: the type cannot hold a
    value.

    An integer holds no fraction, a flag nothing but 0 and 1, and a float no number beyond its range. Texts are read as numbers. Nothing
    holds None.
    """
    array = np.asarray(values)
    if dtype is None or array.dtype == dtype:
        return array
    if array.dtype.kind == "O" and (array == None).any():  # noqa: E711 - element by element
        raise _unheld(name, dtype, None)
    if array.dtype.kind == "c":
        raise _unheld(name, dtype, values)
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            made = np.asarray(values, dtype) if array.dtype.kind in "OUS" else array.astype(dtype, copy=False)
            lost = (np.isinf(made) & np.isfinite(array) if dtype.kind == "f" else made != array) if array.dtype.kind in "biuf" else None
    except (OverflowError, TypeError):                     # a number that no 64 bits hold
        raise _unheld(name, dtype, values) from None
    if lost is not None and lost.any():
        raise _unheld(name, dtype, array[lost].flat[0])
    return made


def _unheld(name: str, dtype: np.dtype[Any], value: Any) -> DTypeError:
    advice = {"i": "whole numbers", "u": "whole numbers", "b": "True and False, or 1 and 0"}.get(dtype.kind, "numbers of its range")
    return DTypeError(f"feed {name!r} is {dtype}, which cannot hold {value!r:.80}: give {advice}\n  your line: {user_line()}")


def constant_for(what: str, value: Any, dtype: DTypeLike) -> float:
    """Return a constant of an operator, which keeps it as a float32. DTypeError: it would become another number in a tensor of ``dtype``.

    >>> from trireme.native.dtypes import constant_for
    >>> constant_for("fill_constant: value", 3, "int64")
    3.0
    """
    number = float(value)
    kind = np.dtype(np.float32) if convert_dtype(dtype) == VarType.BF16 else numpy_dtype(dtype)
    with np.errstate(over="ignore"):
        kept = float(np.float32(number))
    limits: Any = np.iinfo(kind) if kind.kind in "iu" else None
    if limits:
        is_held = kept == number and limits.min <= number <= limits.max
    else:
        is_held = kind.kind == "b" or np.isfinite(kept) or not np.isfinite(number)
    if is_held:
        return number
    raise DTypeError(f"{what} is {value!r}, which {kind} cannot hold by this operator (it keeps a constant as float32); layers.assign "
                     f"takes an array of any {kind}\n  your line: {user_line()}")


def bfloat16_bits(array: np.ndarray) -> np.ndarray:
    """Return the numbers of an array as bfloat16, rounded to nearest even: an array of uint16, the bits.

    An array of ``ml_dtypes.bfloat16`` is not copied, nor is one of uint16, which is taken for bits.

    >>> [hex(bits) for bits in fluid.core.bfloat16_bits(np.array([1.0, -2.5], "float32"))]
    ['0x3f80', '0xc020']
    """
    if array.dtype == np.uint16:
        return array
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16)
    if array.dtype.kind != "f":
        raise TypeError(f"bfloat16 is made of floating-point numbers, got an array of {array.dtype}")
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).reshape(array.shape)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(array), bits >> np.uint32(16) | np.uint32(0x40), rounded).astype(np.uint16)


def floats_of_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Return the numbers that the bits of bfloat16 stand for, as float32, which has all of them.

    >>> fluid.core.floats_of_bfloat16(np.array([0x3F80, 0xC020], "uint16"))
    array([ 1. , -2.5], dtype=float32)
    """
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def numpy_dtype(dtype: Any) -> np.dtype:
    """Return the NumPy type of the elements.

    ``dtype`` is a VarType, its number or name, or a type of NumPy. Another value is a TypeError. bfloat16 is uint16: the bits.

    >>> fluid.core.numpy_dtype("float32"), fluid.core.numpy_dtype(fluid.core.VarDesc.VarType.BF16)
    (dtype('float32'), dtype('uint16'))
    """
    value = int(convert_dtype(dtype))
    return NUMPY_DTYPES[value]
