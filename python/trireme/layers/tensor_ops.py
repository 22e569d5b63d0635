"""Tensors padded, cropped, sorted, picked from and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..framework import Variable
from ..layer_helper import LayerHelper


def pad(x: Variable, paddings: Sequence[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """Return ``x`` with ``pad_value`` around it; ``paddings`` is [before, behind] of each dimension, one after the other.

    >>> x = fluid.layers.data("x", [2, 3], append_batch_size=False)
    >>> fluid.layers.pad(x, [0, 1, 2, 0])
    Variable('pad_0.tmp_0', float32[3, 5])
    """
    return LayerHelper("pad", name=name).append("pad", {"X": [x]}, {"paddings": list(paddings), "pad_value": float(pad_value)})


def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """Return ``y`` with ``pad_value`` behind it in each dimension, so that it is as large as ``x``.

    >>> x, y = (fluid.layers.data(name, shape, append_batch_size=False) for name, shape in (("x", [4, 5]), ("y", [2, 3])))
    >>> fluid.layers.pad_constant_like(x, y)
    Variable('pad_constant_like_0.tmp_0', float32[4, 5])
    """
    return LayerHelper("pad_constant_like", name=name).append("pad_constant_like", {"X": [x], "Y": [y]}, {"pad_value": float(pad_value)})


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """Return the box of ``x`` of ``shape`` that begins at ``offsets`` (None: at the front).

    ``shape`` is a list, in which -1 is the rest of a dimension, or a variable of that shape. ``offsets`` is a list, or an int32
    variable [rank].

    >>> x = fluid.layers.data("x", [4, 5], append_batch_size=False)
    >>> fluid.layers.crop(x, shape=[2, 3], offsets=[1, 1])
    Variable('crop_0.tmp_0', float32[2, 3])
    """
    inputs: dict[str, Any] = {"X": [x]}
    attrs: dict[str, Any] = {}
    if shape is None:
        raise ValueError("crop: shape must be a list or a variable, got None")
    if isinstance(shape, Variable):
        inputs["Y"] = [shape]
    else:
        attrs["shape"] = list(shape)
    if isinstance(offsets, Variable):
        inputs["Offsets"] = [offsets]
    elif offsets is not None:
        attrs["offsets"] = list(offsets)
    return LayerHelper("crop", name=name).append("crop", inputs, attrs)


__all__ = ["pad", "pad_constant_like", "crop"]
