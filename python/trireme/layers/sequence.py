"""Layers on sequences of different lengths, which lie one after the other in the rows of one variable.

Where sequences begin and end is beside the data ("level of detail", LoD): feed LoDTensors (``create_lod_tensor``) to
data variables with ``lod_level=1``, or let ``DataFeeder`` make them. Sequences of sequences have more levels; layers work
on the last one, whose sequences are rows, and keep those above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..native.checks import plain
from ..native.dtypes import DTypeLike, VarType, convert_dtype
from ..parameters.layer_helper import LayerHelper, SizeLike
from ..parameters.param_attr import ActLike, AttrLike
from ..program import Variable

_POOLS = ("average", "sum", "sqrt", "max", "last", "first")


def sequence_pool(input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Variable:
    """Return one row for each sequence: ``"average"``, ``"sum"``, ``"sqrt"``, ``"max"``, ``"last"`` or ``"first"``.

    ``"sqrt"`` is the sum over the root of the length. A sequence without rows gives ``pad_value``.

    >>> words = fluid.layers.data("words", [8], lod_level=1)
    >>> fluid.layers.sequence_pool(words, "max")
    Variable('sequence_pool_0.tmp_0', float32[?, 8])
    """
    if not isinstance(pool_type, str) or pool_type.lower() not in _POOLS:
        raise ValueError(f"sequence_pool: pool_type must be one of {', '.join(_POOLS)}; got {pool_type!r}")
    helper = LayerHelper("sequence_pool", input=input)
    return helper.append_all("sequence_pool", {"X": [input]}, {"Out": helper.input().dtype, "MaxIndex": VarType.INT32},
                             {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": float(pad_value)}, stops=["MaxIndex"])[0]


def sequence_first_step(input: Variable) -> Variable:
    """Return the first row of each sequence.

    >>> fluid.layers.sequence_first_step(fluid.layers.data("x", [8], lod_level=1)).shape
    (None, 8)
    """
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """Return the last row of each sequence.

    >>> fluid.layers.sequence_last_step(fluid.layers.data("x", [8], lod_level=1)).shape
    (None, 8)
    """
    return sequence_pool(input, "last")


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Return ``exp(x) / sum(exp(x))`` within each sequence of single numbers.

    >>> fluid.layers.sequence_softmax(fluid.layers.data("x", [1], lod_level=1))
    Variable('sequence_softmax_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("sequence_softmax", name=name).append("sequence_softmax", {"X": [input]})


def sequence_conv(input: Variable, num_filters: int, filter_size: int = 3, filter_stride: int = 1, padding: SizeLike = True,
                  padding_start: int | None = None, bias_attr: AttrLike = None, param_attr: AttrLike = None, act: ActLike = None,
                  name: str | None = None) -> Variable:
    """Return each row's window of ``filter_size`` rows times a matrix ``[filter_size * width, num_filters]``.

    The window is centred, or begins ``padding_start`` rows away from its row; beyond the ends of a sequence are
    zeros, whatever ``padding`` says.

    ``filter_stride`` must be 1.

    >>> words = fluid.layers.data("words", [8], lod_level=1)
    >>> fluid.layers.sequence_conv(words, num_filters=16, filter_size=3, act="tanh")
    Variable('sequence_conv_0.tmp_2', float32[?, 16])
    """
    helper = LayerHelper("sequence_conv", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    width = helper.input().shape[-1]
    if len(input.shape) != 2 or width is None:
        raise ValueError(f"sequence_conv: input must be [rows, width], of a known width; got {input!r}")
    w = helper.create_parameter(helper.param_attr, [filter_size * width, num_filters], input.dtype)
    out = helper.append("sequence_conv", {"X": [input], "Filter": [w]},
                        {"contextLength": filter_size, "contextStride": filter_stride,
                         "contextStart": -(filter_size // 2) if padding_start is None else padding_start})
    return helper.append_activation(helper.append_bias_op(out))


def row_conv(input: Variable, future_context_size: int, param_attr: AttrLike = None, act: ActLike = None) -> Variable:
    """Return each row mixed with those that follow it: ``sum of x[t + i] * w[i]`` for ``0 <= i <= future_context_size``.

    >>> fluid.layers.row_conv(fluid.layers.data("x", [8], lod_level=1), future_context_size=2)
    Variable('row_conv_0.tmp_0', float32[?, 8])
    """
    helper = LayerHelper("row_conv", input=input, param_attr=param_attr, act=act)
    width = helper.input().shape[-1]
    w = helper.create_parameter(helper.param_attr, [future_context_size + 1, width], input.dtype)
    return helper.append_activation(helper.append("row_conv", {"X": [input], "Filter": [w]}))


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Return each sequence of ``x`` (each row, where it has none) repeated as often as a sequence of ``y`` has parts.

    ``ref_level`` is the level of ``y``'s sequences that counts; -1 is the last.

    >>> x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1], lod_level=1)
    >>> fluid.layers.sequence_expand(x, y)
    Variable('sequence_expand_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("sequence_expand", name=name).append("sequence_expand", {"X": [x], "Y": [y]},
                                                            {"ref_level": ref_level})


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Return row i of ``x`` repeated as often as sequence i of ``y`` has rows, with the sequences of ``y``.

    >>> x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1], lod_level=1)
    >>> fluid.layers.sequence_expand_as(x, y).lod_level
    1
    """
    return LayerHelper("sequence_expand_as", name=name).append("sequence_expand_as", {"X": [x], "Y": [y]})


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Return sequences joined: sequence i is sequence i of every variable of ``input``, in order.

    >>> x, y = (fluid.layers.data(name, [4], lod_level=1) for name in "xy")
    >>> fluid.layers.sequence_concat([x, y])
    Variable('sequence_concat_0.tmp_0', float32[?, 4])
    """
    helper = LayerHelper("sequence_concat", input=input, name=name)
    return helper.append("sequence_concat", {"X": helper.multiple_input()})


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """Return, of each sequence, ``length`` rows from row ``offset`` on; both are int64 [sequences, 1].

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> offset, length = (fluid.layers.data(name, [1], dtype="int64") for name in ("offset", "length"))
    >>> fluid.layers.sequence_slice(x, offset, length)
    Variable('sequence_slice_0.tmp_0', float32[?, 4])
    """
    offset.stop_gradient = length.stop_gradient = True
    return LayerHelper("sequence_slice", name=name).append("sequence_slice", {"X": [input], "Offset": [offset],
                                                                             "Length": [length]})


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """Return each sequence with its rows in the opposite order.

    >>> fluid.layers.sequence_reverse(fluid.layers.data("x", [4], lod_level=1))
    Variable('sequence_reverse_0.tmp_0', float32[?, 4])
    """
    return LayerHelper("sequence_reverse", name=name).append("sequence_reverse", {"X": [x]}, slot="Y")


def sequence_pad(x: Variable, pad_value: Variable, maxlen: int | None = None,
                 name: str | None = None) -> tuple[Variable, Variable]:
    """Return [sequences, maxlen, ...] with ``pad_value`` after the ends, and the lengths, int64 [sequences, 1].

    ``pad_value`` is a variable of one element, or of a row's shape. ``maxlen`` defaults to the longest sequence's.

    >>> x = fluid.layers.data("x", [4], lod_level=1)
    >>> zero = fluid.layers.fill_constant([1], "float32", 0.0)
    >>> [v.shape for v in fluid.layers.sequence_pad(x, zero, maxlen=10)]
    [(None, 10, 4), (None, 1)]
    """
    helper = LayerHelper("sequence_pad", input=x, name=name)
    pad_value.stop_gradient = True
    out, length = helper.append_all("sequence_pad", {"X": [x], "PadValue": [pad_value]},
                                    {"Out": helper.input().dtype, "Length": VarType.INT64},
                                    {"padded_length": -1 if maxlen is None else maxlen}, stops=["Length"])
    return out, length


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Return sequences of the first ``length`` rows of each ``x[i]``: what ``sequence_pad`` was given.

    >>> x, length = fluid.layers.data("x", [10, 4]), fluid.layers.data("length", [1], dtype="int64")
    >>> fluid.layers.sequence_unpad(x, length)
    Variable('sequence_unpad_0.tmp_0', float32[?, 4])
    """
    length.stop_gradient = True
    return LayerHelper("sequence_unpad", name=name).append("sequence_unpad", {"X": [x], "Length": [length]})


def sequence_mask(x: Variable, maxlen: int | None = None, dtype: DTypeLike = "int64", name: str | None = None) -> Variable:
    """Return ``y[..., j] = j < x[...]`` as ones and zeros of ``dtype``; ``maxlen`` defaults to the greatest of ``x``.

    >>> fluid.layers.sequence_mask(fluid.layers.data("length", [], dtype="int64"), maxlen=5)
    Variable('sequence_mask_0.tmp_0', int64[?, 5])
    """
    dtype = convert_dtype(dtype)
    return LayerHelper("sequence_mask", name=name).append(
        "sequence_mask", {"X": [x]}, {"maxlen": -1 if maxlen is None else maxlen, "out_dtype": int(dtype)}, slot="Y",
        dtype=dtype, stop_gradient=True)


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Return the numbers of each sequence in rows of ``new_dim``.

    >>> fluid.layers.sequence_reshape(fluid.layers.data("x", [4], lod_level=1), new_dim=8)
    Variable('sequence_reshape_0.tmp_0', float32[?, 8])
    """
    return LayerHelper("sequence_reshape").append("sequence_reshape", {"X": [input]}, {"new_dim": new_dim})


def sequence_enumerate(input: Variable, win_size: int, pad_value: int = 0, name: str | None = None) -> Variable:
    """Return, for each word of each sequence, it and the ``win_size - 1`` after it; ``pad_value`` beyond the end.

    >>> fluid.layers.sequence_enumerate(fluid.layers.data("words", [1], dtype="int64", lod_level=1), win_size=2)
    Variable('sequence_enumerate_0.tmp_0', int64[?, 2])
    """
    return LayerHelper("sequence_enumerate", name=name).append(
        "sequence_enumerate", {"X": [input]}, {"win_size": win_size, "pad_value": pad_value}, stop_gradient=True)


def sequence_erase(input: Variable, tokens: Sequence[int], name: str | None = None) -> Variable:
    """Return the sequences without the words ``tokens``.

    >>> fluid.layers.sequence_erase(fluid.layers.data("words", [1], dtype="int64", lod_level=1), tokens=[0, 1])
    Variable('sequence_erase_0.tmp_0', int64[?, 1])
    """
    return LayerHelper("sequence_erase", name=name).append("sequence_erase", {"X": [input]}, {"tokens": list(tokens)},
                                                           stop_gradient=True)


def sequence_scatter(input: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """Return ``input`` [sequences, width] with sequence i of ``updates`` added to row i, where ``index`` says.

    >>> x, updates = fluid.layers.data("x", [6]), fluid.layers.data("updates", [1], lod_level=1)
    >>> index = fluid.layers.data("index", [1], dtype="int64", lod_level=1)
    >>> fluid.layers.sequence_scatter(x, index, updates)
    Variable('sequence_scatter_0.tmp_0', float32[?, 6])
    """
    return LayerHelper("sequence_scatter", name=name).append(
        "sequence_scatter", {"X": [input], "Ids": [index], "Updates": [updates]})


def lod_reset(x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None) -> Variable:
    """Return ``x`` with other sequences: those of ``y``, those whose offsets ``y`` holds, or offsets ``target_lod``.

    >>> fluid.layers.lod_reset(fluid.layers.data("x", [4]), target_lod=[0, 2, 5]).lod_level
    1
    """
    if (y is None) == (target_lod is None):
        raise ValueError("lod_reset: give either y or target_lod")
    inputs = {"X": [x]} if y is None else {"X": [x], "Y": [y]}
    return LayerHelper("lod_reset").append("lod_reset", inputs, {"target_lod": list(target_lod or [])})


def _numbers(value: Any, count: int, what: str) -> list[int]:
    value = plain(value)
    numbers = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if count == 4 and len(numbers) == 2:
        numbers = numbers * 2
    if len(numbers) != count or any(isinstance(x, bool) or not isinstance(x, int) for x in numbers):
        raise ValueError(f"im2sequence: {what} must be an int or {'2 or 4' if count == 4 else count} of them, "
                         f"got {value!r}")
    return numbers


def im2sequence(input: Variable, filter_size: SizeLike = 1, stride: SizeLike = 1, padding: SizeLike = 0,
                input_image_size: Variable | None = None, out_stride: Any = 1, name: str | None = None) -> Variable:
    """Return each image's windows, from left to right and from top to bottom, as the rows of a sequence.

    ``padding`` is one number, or those of height and width, or of up, left, down and right. ``input_image_size``
    [images, 2] says how large each image was before it was scaled down by ``out_stride``.

    ``filter_size`` is the height and width of a piece, or one number for both.

    >>> image = fluid.layers.data("image", [3, 8, 8])
    >>> fluid.layers.im2sequence(image, filter_size=2, stride=2)
    Variable('im2sequence_0.tmp_0', float32[?, 12])
    """
    attrs = {"kernels": _numbers(filter_size, 2, "filter_size"), "strides": _numbers(stride, 2, "stride"),
             "paddings": _numbers(padding, 4, "padding")}
    inputs = {"X": [input]}
    if input_image_size is not None:
        inputs["Y"] = [input_image_size]
        attrs["out_stride"] = _numbers(out_stride, 2, "out_stride")
    return LayerHelper("im2sequence", name=name).append("im2sequence", inputs, attrs)


def add_position_encoding(input: Variable, alpha: float, beta: float, name: str | None = None) -> Variable:
    """Return ``alpha * x + beta * p``: ``p`` holds sines and cosines of each row's place in its sequence.

    ``input`` is [sequences, length, width], or [rows, width] of sequences.

    >>> fluid.layers.add_position_encoding(fluid.layers.data("x", [5, 8]), alpha=1.0, beta=1.0)
    Variable('add_position_encoding_0.tmp_0', float32[?, 5, 8])
    """
    return LayerHelper("add_position_encoding", name=name).append(
        "add_position_encoding", {"X": [input]}, {"alpha": float(alpha), "beta": float(beta)})


__all__ = ["sequence_pool", "sequence_first_step", "sequence_last_step", "sequence_softmax", "sequence_conv", "row_conv",
           "sequence_expand", "sequence_expand_as", "sequence_concat", "sequence_slice", "sequence_reverse",
           "sequence_pad", "sequence_unpad", "sequence_mask", "sequence_reshape", "sequence_enumerate",
           "sequence_erase", "sequence_scatter", "lod_reset", "im2sequence", "add_position_encoding"]
