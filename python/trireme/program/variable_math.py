"""Arithmetic on variables: ``a + b``, ``2 * a``, ``a ** 2``, ``a < b``, ``a[0:2]``, as operators of the program."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

from ..native import unique_name
from ..native.dtypes import VarType, convert_dtype

if TYPE_CHECKING:
    from .variable import Variable

_INTEGERS = (VarType.INT8, VarType.INT16, VarType.INT32, VarType.INT64, VarType.UINT8, VarType.SIZE_T)
_NUMBER = (numbers.Number,)


def _append(x: Any, type: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None, *, dtype: Any = None) -> Variable:
    """Append an operator with one new output to the block the program is being built in."""
    block = x.block.program.current_block()
    out: Variable = block.create_var(name=unique_name.generate("tmp"), dtype=x.dtype if dtype is None else dtype)
    block.append_op(type=type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def _is_integer(x: Any) -> bool:
    return x.dtype in _INTEGERS


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, complex)


def _fits(x: Any, value: Any) -> float:
    if _is_integer(x) and value != int(value):
        raise TypeError(f"{x.name} holds {x.dtype}, which has no {value!r}; use {x.name}.astype('float32')")
    return float(value)


def _scale(x: Any, scale: float, bias: float = 0.0) -> Variable:
    return _append(x, "scale", {"X": [x]}, {"scale": _fits(x, scale), "bias": _fits(x, bias)})


def _scalar(x: Any, value: Any) -> Variable:
    """A constant of one element, of the type of ``x``."""
    _fits(x, value)
    return _append(x, "fill_constant", {}, {"shape": [1], "dtype": int(x.dtype), "value": float(value)})


def _constant_like(x: Any, value: Any) -> Variable:
    zeros = _append(x, "fill_zeros_like", {"X": [x]})
    return _scale(zeros, 1.0, value)


def _elementwise(type: str, x: Any, y: Any) -> Variable:
    return _append(x, type, {"X": [x], "Y": [y]}, {"axis": -1})


def _compare(type: str, x: Any, y: Any) -> Variable:
    y = _scalar(x, y) if _is_number(y) else y
    out = _append(x, type, {"X": [x], "Y": [y]}, dtype=VarType.BOOL)
    out.stop_gradient = True
    return out


_END = 2**31 - 1


def _without_ellipsis(items: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if not places:
        return items
    if len(places) > 1:
        raise IndexError(f"an index has at most one ellipsis, got {items!r}")
    return (*items[:places[0]], *[slice(None)] * (rank - len(items) + 1), *items[places[0] + 1:])


def _every(x: Any, axis: int, step: int) -> Variable:
    """Every ``step``-th element along an axis: from the front, or from the back where the step is below 0."""
    length: Any = x.shape[axis]
    if length is None:
        whole = _append(x, "shape", {"Input": [x]}, dtype=VarType.INT32)[axis:axis + 1]
        length = whole.astype("int64")
    else:
        length = _append(x, "fill_constant", {}, {"shape": [1], "dtype": int(VarType.INT64), "value": float(length)},
                         dtype=VarType.INT64)
    start, end = (_constant_like(length, 0), length) if step > 0 else (length - 1, _constant_like(length, -1))
    places = _append(x, "range", {"Start": [start], "End": [end], "Step": [_constant_like(length, step)]}, dtype=VarType.INT64)
    places.stop_gradient = True
    order = [axis, *[i for i in range(len(x.shape)) if i != axis]]
    back = [order.index(i) for i in range(len(order))]
    if axis:
        x = _append(x, "transpose", {"X": [x]}, {"axis": order})
    x = _append(x, "gather", {"X": [x], "Index": [places]})
    return _append(x, "transpose", {"X": [x]}, {"axis": back}) if axis else x


class VariableMath:
    """The operators of Python for ``Variable``. A number stands for a constant of the variable's type.

    >>> x = fluid.layers.data("x", [3])
    >>> (2 * x + 1) / x
    Variable('tmp_2', float32[?, 3])
    >>> x < 0.5
    Variable('tmp_4', bool[?, 3])
    """

    if TYPE_CHECKING:
        @property
        def name(self) -> str: ...
        @property
        def shape(self) -> tuple[int | None, ...]: ...
        @property
        def dtype(self) -> VarType | None: ...

    def _is_operand(self, other: Any) -> bool:
        return _is_number(other) or isinstance(other, VariableMath)

    def __add__(self, other: Any) -> Variable:
        if _is_number(other):
            return _scale(self, 1.0, other)
        return _elementwise("elementwise_add", self, other) if self._is_operand(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Variable:
        if _is_number(other):
            return _scale(self, 1.0, -other)
        return _elementwise("elementwise_sub", self, other) if self._is_operand(other) else NotImplemented

    def __rsub__(self, other: Any) -> Variable:
        return _scale(self, -1.0, other) if _is_number(other) else NotImplemented

    def __mul__(self, other: Any) -> Variable:
        if _is_number(other):
            return _scale(self, other)
        return _elementwise("elementwise_mul", self, other) if self._is_operand(other) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Variable:
        if _is_number(other):
            if other == 0:
                raise ZeroDivisionError(f"{self.name} / {other!r}")
            if not _is_integer(self):
                return _scale(self, 1.0 / other)
            other = _scalar(self, other)
        return _elementwise("elementwise_div", self, other) if self._is_operand(other) else NotImplemented

    def __rtruediv__(self, other: Any) -> Variable:
        if not _is_number(other):
            return NotImplemented
        if _is_integer(self):
            return _elementwise("elementwise_div", _constant_like(self, other), self)
        return _scale(_append(self, "reciprocal", {"X": [self]}), other)

    def __floordiv__(self, other: Any) -> Variable:
        other = _scalar(self, other) if _is_number(other) else other
        return _elementwise("elementwise_floordiv", self, other) if self._is_operand(other) else NotImplemented

    def __mod__(self, other: Any) -> Variable:
        other = _scalar(self, other) if _is_number(other) else other
        return _elementwise("elementwise_mod", self, other) if self._is_operand(other) else NotImplemented

    def __pow__(self, other: Any) -> Variable:
        if _is_number(other):
            return _append(self, "pow", {"X": [self]}, {"factor": float(other)})
        return _elementwise("elementwise_pow", self, other) if self._is_operand(other) else NotImplemented

    def __rpow__(self, other: Any) -> Variable:
        if not _is_number(other):
            return NotImplemented
        if other > 0:
            return _append(self, "exp", {"X": [_scale(self, math.log(other))]})
        return _elementwise("elementwise_pow", _constant_like(self, other), self)

    def __matmul__(self, other: Any) -> Variable:
        if not isinstance(other, VariableMath):
            return NotImplemented
        return _append(self, "matmul", {"X": [self], "Y": [other]})

    def __neg__(self) -> Variable:
        return _scale(self, -1.0)

    def __abs__(self) -> Variable:
        return _append(self, "abs", {"X": [self]})

    def __eq__(self, other: Any) -> Any:
        return _compare("equal", self, other) if self._is_operand(other) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return _compare("not_equal", self, other) if self._is_operand(other) else NotImplemented

    def __lt__(self, other: Any) -> Variable:
        return _compare("less_than", self, other) if self._is_operand(other) else NotImplemented

    def __le__(self, other: Any) -> Variable:
        return _compare("less_equal", self, other) if self._is_operand(other) else NotImplemented

    def __gt__(self, other: Any) -> Variable:
        return _compare("greater_than", self, other) if self._is_operand(other) else NotImplemented

    def __ge__(self, other: Any) -> Variable:
        return _compare("greater_equal", self, other) if self._is_operand(other) else NotImplemented

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        """Return True, so that ``if bias:`` asks whether there is a variable. A bool tensor's truth is not known while a program is
        built."""
        if self.dtype == VarType.BOOL:
            raise TypeError(f"{self!r} has no truth value while the program is built; "
                            "use layers.While or layers.ConditionalBlock, or compare names")
        return True

    def astype(self, dtype: Any) -> Variable:
        """Return the variable's values as another data type.

        >>> fluid.layers.data("x", [3]).astype("int64")
        Variable('tmp_0', int64[?, 3])
        """
        target = convert_dtype(dtype)
        return _append(self, "cast", {"X": [self]}, {"in_dtype": self.dtype, "out_dtype": target},
                       dtype=target)

    def __getitem__(self, index: Any) -> Variable:
        """Return a part, cut by numbers and slices: ``x[0]``, ``x[:, 1:3]``, ``x[..., ::-1]``.

        As in NumPy, and in Fluid since 1.5, a number takes its dimension away. A single element has the shape [1].
        """
        items = _without_ellipsis(index if isinstance(index, tuple) else (index,), len(self.shape))
        if len(items) > len(self.shape):
            raise IndexError(f"{self!r} has {len(self.shape)} dimensions, got the index {index!r}")
        axes, starts, ends, drop, steps = [], [], [], [], {}
        for axis, item in enumerate(items):
            if isinstance(item, slice):
                start, end, step = item.start, item.stop, 1 if item.step is None else int(item.step)
                if step == 0:
                    raise ValueError(f"{self.name}: the step of a slice must not be 0, got {item!r}")
                if step < 0:                           # the same elements from the front
                    start, end = (None if end is None else _END if end == -1 else end + 1,
                                  None if start is None or start == -1 else start + 1)
                if step != 1:
                    steps[axis] = step
                if start is None and end is None:
                    continue
            else:
                start, end = int(item), int(item) + 1 if item != -1 else None
                drop.append(axis)
            axes.append(axis)
            starts.append(start or 0)
            ends.append(_END if end is None else end)
        out: Any = self
        if axes:
            out = _append(self, "slice", {"Input": [self]}, {"axes": axes, "starts": starts, "ends": ends})
        for axis, step in steps.items():
            out = _every(out, axis, step)
        if len(drop) == len(self.shape):
            drop.remove(next((axis for axis in drop if self.shape[axis] is not None), 0))
        if drop:
            out = _append(out, "squeeze", {"X": [out]}, {"axes": drop})
        made: Variable = out
        return made

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} is not iterable while the program is built; use layers.unstack or layers.split")
