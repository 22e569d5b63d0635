"""Images in another size, or sampled at the places of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..parameters.layer_helper import LayerHelper
from ..program import Variable
from .tensor import fill_constant

_AXES = {"LINEAR": 1, "BILINEAR": 2, "NEAREST": 2, "TRILINEAR": 3}


def image_resize(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, resample: str = "BILINEAR",
                 actual_shape: Variable | None = None, align_corners: bool = True, align_mode: int = 1,
                 data_format: str | None = None) -> Variable:
    """Return images [n, c, h, w] in another size.

    The size is ``out_shape``, a list [height, width] of ints or int32 variables [1], or an int32 variable [2]; or ``scale`` times the old
    one, a number or a float32 variable [1]. ``actual_shape``, an int32 variable [2], overrides both when it is run. ``resample`` is
    "BILINEAR" (mixed of the four nearest elements) or "NEAREST"; "LINEAR" is for lines [n, c, w], "TRILINEAR" for volumes [n, c, d, h, w].
    With ``align_corners`` the centres of the corners meet: ``s = k (m - 1) / (n - 1)`` is the place of element k of n among m. Without, it
    is ``s = k m / n``, or ``(k + 1/2) m / n - 1/2`` of linear ones with ``align_mode`` 0. ``data_format`` may name the order of dimensions
    that is taken anyway.

    >>> image = fluid.layers.data("image", [3, 8, 8])
    >>> fluid.layers.image_resize(image, [12, 16])
    Variable('image_resize_0.tmp_0', float32[?, 3, 12, 16])
    """
    if resample not in _AXES:
        raise ValueError(f"image_resize: resample must be 'LINEAR', 'BILINEAR', 'TRILINEAR' or 'NEAREST', got {resample!r}")
    if out_shape is None and scale is None:
        raise ValueError("image_resize: give out_shape or scale")
    if align_mode not in (0, 1):
        raise ValueError(f"image_resize: align_mode must be 0 or 1, got {align_mode!r}")
    axes = _AXES[resample]
    order = ("NCW", "NCHW", "NCDHW")[axes - 1]
    if data_format not in (None, order):
        raise ValueError(f"image_resize: data_format must be {order!r}, got {data_format!r}; transpose the images before and after")
    attrs: dict[str, Any] = {"out_h": -1, "out_w": -1, "interp_method": resample.lower(), "align_corners": align_corners,
                             "align_mode": align_mode}
    inputs: dict[str, Any] = {"X": [input]}
    if isinstance(out_shape, Variable):
        inputs["OutSize"] = [out_shape]
    elif out_shape is not None:
        _put_shape(inputs, attrs, list(out_shape), axes)
    elif isinstance(scale, Variable):
        inputs["Scale"] = [scale]
    else:
        attrs["scale"] = float(scale)
    if actual_shape is not None:
        inputs["OutSize"] = [actual_shape]
        inputs.pop("SizeTensor", None)                     # which would come first
    return LayerHelper("image_resize", name=name).append(f"{resample.lower()}_interp", inputs, attrs)


def _put_shape(inputs: dict[str, Any], attrs: dict[str, Any], extents: list[Any], axes: int) -> None:
    """Into attributes; a list with variables is one of variables alone."""
    names = ("depth", "height", "width")[-axes:]
    if len(extents) != axes:
        raise ValueError(f"image_resize: out_shape must be [{', '.join(names)}], got {extents!r}")
    if any(isinstance(extent, Variable) for extent in extents):
        inputs["SizeTensor"] = [extent if isinstance(extent, Variable) else fill_constant([1], "int32", int(extent)) for extent in extents]
        return
    for side, extent in zip(names, extents):
        attrs[f"out_{side[0]}"] = int(extent)


def resize_linear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Variable | None = None,
                  align_corners: bool = True, align_mode: int = 1, data_format: str = "NCW") -> Variable:
    """Return lines [n, c, w] in another length, mixed of the two nearest elements: see `image_resize`.

    >>> fluid.layers.resize_linear(fluid.layers.data("line", [3, 8]), [12]).shape
    (None, 3, 12)
    """
    return image_resize(input, out_shape, scale, name, "LINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_bilinear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None,
                    actual_shape: Variable | None = None,
                    align_corners: bool = True, align_mode: int = 1, data_format: str = "NCHW") -> Variable:
    """Return images [n, c, h, w] in another size, mixed of the four nearest elements: see `image_resize`.

    The size is ``out_shape`` or ``scale`` times the old one. ``align_mode`` 0 puts the centres of elements at halves, 1 at whole
    numbers, where ``align_corners`` is False.

    >>> fluid.layers.resize_bilinear(fluid.layers.data("image", [3, 8, 8]), scale=1.5).shape
    (None, 3, 12, 12)
    """
    return image_resize(input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_trilinear(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None,
                     actual_shape: Variable | None = None,
                     align_corners: bool = True, align_mode: int = 1, data_format: str = "NCDHW") -> Variable:
    """Return volumes [n, c, d, h, w] in another size, mixed of the eight nearest elements: see `image_resize`.

    >>> fluid.layers.resize_trilinear(fluid.layers.data("volume", [3, 4, 8, 8]), [2, 4, 6]).shape
    (None, 3, 2, 4, 6)
    """
    return image_resize(input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format)


def resize_nearest(input: Variable, out_shape: Any = None, scale: Any = None, name: str | None = None, actual_shape: Variable | None = None,
                   align_corners: bool = True, data_format: str = "NCHW") -> Variable:
    """Return images [n, c, h, w] in another size, each element the nearest of the old ones: see `image_resize`.

    The size is ``out_shape`` or ``scale`` times the old one.

    >>> fluid.layers.resize_nearest(fluid.layers.data("image", [3, 8, 8]), [4, 6]).shape
    (None, 3, 4, 6)
    """
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, data_format=data_format)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Return images whose shorter side is ``out_short_len``, of the same proportions; ``resample`` as in `image_resize`.

    >>> fluid.layers.image_resize_short(fluid.layers.data("image", [3, 8, 12]), 4).shape
    (None, 3, 4, 6)
    """
    sides = [side for side in input.shape[2:] if side is not None]
    if len(input.shape) != 4 or len(sides) != 2:
        raise ValueError(f"image_resize_short: input must be [n, channels, height, width] with known sides, got {input!r}")
    short = min(sides)
    out_shape = [out_short_len if side == short else int(side * (out_short_len / short) + 0.5) for side in sides]
    return image_resize(input, out_shape, resample=resample)


def affine_grid(theta: Variable, out_shape: Sequence[int] | Variable, name: str | None = None) -> Variable:
    """Return places in images [n, h, w, 2]: the place of each element, x and y from -1 to 1, times its image's matrix.

    ``theta`` [n, 2, 3] has the matrices; ``out_shape`` is the new images' shape [n, c, h, w], a list or an int32 variable.

    >>> theta = fluid.layers.data("theta", [2, 3])
    >>> fluid.layers.affine_grid(theta, [-1, 3, 4, 5]).shape
    (None, 4, 5, 2)
    """
    inputs: dict[str, Any] = {"Theta": [theta]}
    attrs = {}
    if isinstance(out_shape, Variable):
        inputs["OutputShape"] = [out_shape]
    else:
        attrs["output_shape"] = list(out_shape)
    return LayerHelper("affine_grid", name=name).append("affine_grid", inputs, attrs, slot="Output")


def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """Return images [n, c, h', w'] with the elements of ``x`` [n, c, h, w] at the places ``grid`` [n, h', w', 2].

    A place is x and y; -1 and 1 are the first and the last column or row. Between elements the four around are mixed, outside
    there are zeros.

    >>> x, grid = fluid.layers.data("x", [3, 8, 8]), fluid.layers.data("grid", [4, 5, 2])
    >>> fluid.layers.grid_sampler(x, grid).shape
    (None, 3, 4, 5)
    """
    return LayerHelper("grid_sampler", name=name).append("grid_sampler", {"X": [x], "Grid": [grid]}, slot="Output")


__all__ = ["image_resize", "resize_linear", "resize_bilinear", "resize_trilinear", "resize_nearest", "image_resize_short", "affine_grid",
           "grid_sampler"]
