"""Layers on images and volumes: convolutions, pools, pads, and elements that change places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..native.checks import plain
from ..native.dtypes import VarType
from ..parameters.initializer import Constant, Normal
from ..parameters.layer_helper import LayerHelper, SizeLike
from ..parameters.param_attr import ActLike, AttrLike
from ..program import Variable

_AXES = {2: "[n, channels, height, width]", 3: "[n, channels, depth, height, width]"}


def _extents(value: Any, count: int, what: str) -> list[int]:
    """Return ``value``, an int or ``count`` of them, as a list."""
    value = plain(value)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count or any(isinstance(x, bool) or not isinstance(x, int) for x in values):
        raise ValueError(f"{what} must be an int or {count} of them, got {value!r}")
    return values


def _channels(layer: str, input: Variable, spatial: int, groups: int | None, num_filters: int) -> tuple[int, int]:
    """Return the channels of ``input`` and the number of groups, which must cut them and the filters."""
    groups = groups or 1
    if len(input.shape) != spatial + 2 or input.shape[1] is None:
        raise ValueError(f"{layer}: input must be {_AXES[spatial]}, got {input!r}")
    channels = input.shape[1]
    if channels % groups or num_filters % groups:
        raise ValueError(f"{layer}: {channels} channels and {num_filters} filters cannot be cut into {groups} groups")
    return channels, groups


def conv3d(input: Variable, num_filters: int, filter_size: SizeLike, stride: SizeLike = 1, padding: SizeLike = 0, dilation: SizeLike = 1,
           groups: int | None = None, param_attr: AttrLike = None, bias_attr: AttrLike = None, use_cudnn: bool = True, act: ActLike = None,
           name: str | None = None) -> Variable:
    """Return volumes [n, c, d, h, w] convolved with ``num_filters`` filters: [n, num_filters, d', h', w'].

    ``filter_size``, ``stride``, ``padding`` and ``dilation`` are ints or lists [depth, height, width]. An extent becomes
    ``(extent + 2 padding - (dilation (filter - 1) + 1)) / stride + 1``, rounded towards 0. The filters' first values are normal with
    deviation ``sqrt(2 / elements of a filter)``. ``use_cudnn`` means nothing here.

    >>> video = fluid.layers.data("video", [3, 8, 32, 32])
    >>> fluid.layers.conv3d(video, num_filters=4, filter_size=3, act="relu")
    Variable('conv3d_0.tmp_2', float32[?, 4, 6, 30, 30])
    """
    helper = LayerHelper("conv3d", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    helper.check_variable(input, "input")
    channels, groups = _channels("conv3d", input, 3, groups, num_filters)
    window = _extents(filter_size, 3, "conv3d: filter_size")
    w = helper.create_parameter(helper.param_attr, [num_filters, channels // groups, *window], input.dtype,
                                default_initializer=Normal(0.0, math.sqrt(2.0 / (math.prod(window) * channels))))
    out = helper.append("conv3d", {"Input": [input], "Filter": [w]},
                        {"strides": _extents(stride, 3, "conv3d: stride"), "paddings": _extents(padding, 3, "conv3d: padding"),
                         "dilations": _extents(dilation, 3, "conv3d: dilation"), "groups": groups}, slot="Output")
    return helper.append_activation(helper.append_bias_op(out, dim_start=1, dim_end=2))


def _transposed(spatial: int, input: Variable, num_filters: int, output_size: Any, filter_size: SizeLike | None, padding: SizeLike,
                stride: SizeLike, dilation: SizeLike, groups: int | None, param_attr: AttrLike, bias_attr: AttrLike, act: ActLike,
                name: str | None) -> Variable:
    layer = f"conv{spatial}d_transpose"
    helper = LayerHelper(layer, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    helper.check_variable(input, "input")
    channels, groups = _channels(layer, input, spatial, groups, num_filters)
    attrs: dict[str, Any] = {"strides": _extents(stride, spatial, f"{layer}: stride"),
                             "paddings": _extents(padding, spatial, f"{layer}: padding"),
             "dilations": _extents(dilation, spatial, f"{layer}: dilation"), "groups": groups}
    if output_size is not None:
        attrs["output_size"] = _extents(output_size, spatial, f"{layer}: output_size")
    if filter_size is not None:
        window = _extents(filter_size, spatial, f"{layer}: filter_size")
    elif output_size is None or len(known := [extent for extent in input.shape[2:] if extent is not None]) < len(input.shape) - 2:
        raise ValueError(f"{layer}: give filter_size, or output_size for an input of known extents; got {input!r}")
    else:
        window = [(out - (extent - 1) * step + 2 * pad - 1) // distance + 1
                  for out, extent, step, pad, distance in zip(attrs["output_size"], known, attrs["strides"],
                                                              attrs["paddings"], attrs["dilations"])]
    w = helper.create_parameter(helper.param_attr, [channels, num_filters // groups, *window], input.dtype)
    depthwise = spatial == 2 and groups == channels == num_filters and groups > 1
    out = helper.append(f"depthwise_{layer}" if depthwise else layer, {"Input": [input], "Filter": [w]}, attrs, slot="Output")
    return helper.append_activation(helper.append_bias_op(out, dim_start=1, dim_end=2))


def conv2d_transpose(input: Variable, num_filters: int, output_size: Any = None, filter_size: SizeLike | None = None, padding: SizeLike = 0,
                     stride: SizeLike = 1, dilation: SizeLike = 1, groups: int | None = None, param_attr: AttrLike = None,
                     bias_attr: AttrLike = None, use_cudnn: bool = True, act: ActLike = None, name: str | None = None) -> Variable:
    """Return images [n, c, h, w] spread by ``num_filters`` filters: the gradient of a convolution's input.

    An extent becomes ``(extent - 1) stride - 2 padding + dilation (filter - 1) + 1``. Where ``stride`` is above 1,
    ``output_size`` may be up to ``stride - 1`` more. ``output_size`` without ``filter_size`` chooses the filter. ``padding``,
    ``stride`` and ``dilation`` are ints or lists [height, width]. ``use_cudnn`` means nothing here.

    >>> image = fluid.layers.data("image", [8, 7, 7])
    >>> fluid.layers.conv2d_transpose(image, num_filters=4, filter_size=4, stride=2, padding=1)
    Variable('conv2d_transpose_0.tmp_1', float32[?, 4, 14, 14])
    """
    return _transposed(2, input, num_filters, output_size, filter_size, padding, stride, dilation, groups, param_attr, bias_attr, act,
                       name)


def conv3d_transpose(input: Variable, num_filters: int, output_size: Any = None, filter_size: SizeLike | None = None, padding: SizeLike = 0,
                     stride: SizeLike = 1, dilation: SizeLike = 1, groups: int | None = None, param_attr: AttrLike = None,
                     bias_attr: AttrLike = None, use_cudnn: bool = True, act: ActLike = None, name: str | None = None) -> Variable:
    """Return volumes [n, c, d, h, w] spread by ``num_filters`` filters: `conv2d_transpose` with one more dimension.

    ``output_size`` is the size of the result, three numbers, where the size of the filters is not given.

    ``filter_size`` has three numbers, or is one for all.

    >>> video = fluid.layers.data("video", [8, 2, 7, 7])
    >>> fluid.layers.conv3d_transpose(video, num_filters=4, filter_size=2, stride=2)
    Variable('conv3d_transpose_0.tmp_1', float32[?, 4, 4, 14, 14])
    """
    return _transposed(3, input, num_filters, output_size, filter_size, padding, stride, dilation, groups, param_attr, bias_attr, act,
                       name)


def _check_pool_type(layer: str, pool_type: str) -> None:
    if pool_type not in ("max", "avg"):
        raise ValueError(f"{layer}: pool_type must be 'max' or 'avg', got {pool_type!r}")


def pool3d(input: Variable, pool_size: SizeLike = -1, pool_type: str = "max", pool_stride: SizeLike = 1, pool_padding: SizeLike = 0,
           global_pooling: bool = False, use_cudnn: bool = True, ceil_mode: bool = False, name: str | None = None,
           exclusive: bool = True) -> Variable:
    """Return the greatest element (or the mean, ``"avg"``) of each window of volumes [n, c, d, h, w].

    ``pool_size``, ``pool_stride`` and ``pool_padding`` are ints or lists [depth, height, width]. ``exclusive`` means do not count
    padding; with ``ceil_mode`` a window that begins within the volume counts, though it ends beyond.

    >>> video = fluid.layers.data("video", [1, 4, 28, 28])
    >>> fluid.layers.pool3d(video, pool_size=2, pool_stride=2)
    Variable('pool3d_0.tmp_0', float32[?, 1, 2, 14, 14])
    """
    _check_pool_type("pool3d", pool_type)
    if pool_size == -1 and not global_pooling:
        raise ValueError("pool3d: give pool_size, or global_pooling=True")
    return LayerHelper("pool3d", name=name).append(
        "pool3d", {"X": [input]},
        {"pooling_type": pool_type, "ksize": [1] * 3 if pool_size == -1 else _extents(pool_size, 3, "pool3d: pool_size"),
         "global_pooling": global_pooling, "strides": _extents(pool_stride, 3, "pool3d: pool_stride"),
         "paddings": _extents(pool_padding, 3, "pool3d: pool_padding"), "ceil_mode": ceil_mode, "exclusive": exclusive})


def _adaptive_pool(spatial: int, input: Variable, pool_size: SizeLike, pool_type: str, require_index: bool, name: str | None) -> Any:
    layer = f"adaptive_pool{spatial}d"
    _check_pool_type(layer, pool_type)
    if require_index and pool_type == "avg":
        raise ValueError(f"{layer}: a mean has no index; require_index is for pool_type='max'")
    attrs: dict[str, Any] = {"ksize": _extents(pool_size, spatial, f"{layer}: pool_size"), "adaptive": True,
                             "strides": [1] * spatial, "paddings": [0] * spatial}
    helper = LayerHelper(layer, name=name)
    if not require_index:
        return helper.append(f"pool{spatial}d", {"X": [input]}, {**attrs, "pooling_type": pool_type})
    out, mask = helper.append_all(f"max_pool{spatial}d_with_index", {"X": [input]}, {"Out": input.dtype, "Mask": VarType.INT32}, attrs,
                                  stops=["Mask"])
    return out, mask


def adaptive_pool2d(input: Variable, pool_size: SizeLike, pool_type: str = "max", require_index: bool = False,
                    name: str | None = None) -> Any:
    """Return the greatest element (or the mean, ``"avg"``) of windows that make an image of ``pool_size`` [height, width].

    Window i of n along an axis is ``floor(i extent / n)`` up to ``ceil((i + 1) extent / n)``. With ``require_index``, of maxima
    alone, also where they are: int32, row by row of the plane.

    >>> image = fluid.layers.data("image", [3, 30, 31])
    >>> fluid.layers.adaptive_pool2d(image, [4, 5], pool_type="avg")
    Variable('adaptive_pool2d_0.tmp_0', float32[?, 3, 4, 5])
    """
    return _adaptive_pool(2, input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(input: Variable, pool_size: SizeLike, pool_type: str = "max", require_index: bool = False,
                    name: str | None = None) -> Any:
    """Return the greatest element (or the mean, ``"avg"``) of windows that make a volume of ``pool_size``.

    As `adaptive_pool2d`, with [depth, height, width].

    ``require_index`` is as in ``adaptive_pool2d``.

    >>> video = fluid.layers.data("video", [3, 9, 30, 31])
    >>> [v.shape for v in fluid.layers.adaptive_pool3d(video, 4, require_index=True)]
    [(None, 3, 4, 4, 4), (None, 3, 4, 4, 4)]
    """
    return _adaptive_pool(3, input, pool_size, pool_type, require_index, name)


def maxout(x: Variable, groups: int, name: str | None = None) -> Variable:
    """Return the greatest of each ``groups`` neighbouring channels of images [n, c, h, w]: [n, c / groups, h, w].

    >>> fluid.layers.maxout(fluid.layers.data("x", [6, 8, 8]), groups=2)
    Variable('maxout_0.tmp_0', float32[?, 3, 8, 8])
    """
    return LayerHelper("maxout", name=name).append("maxout", {"X": [x]}, {"groups": groups})


def pad2d(input: Variable, paddings: Any = (0, 0, 0, 0), mode: str = "constant", pad_value: float = 0.0,
          data_format: str = "NCHW", name: str | None = None) -> Variable:
    """Return images with rows and columns added: ``paddings`` [top, bottom, left, right], or an int32 variable [4].

    ``mode`` is "constant" (``pad_value``), "reflect" (without the edge: at most extent - 1) or "edge".
    ``data_format`` is "NCHW" or "NHWC".

    >>> fluid.layers.pad2d(fluid.layers.data("x", [3, 8, 8]), [1, 1, 2, 0], mode="reflect")
    Variable('pad2d_0.tmp_0', float32[?, 3, 10, 10])
    """
    inputs, attrs = {"X": [input]}, {"mode": mode, "pad_value": float(pad_value), "data_format": data_format}
    if isinstance(paddings, Variable):
        inputs["Paddings"] = [paddings]
        paddings = [0, 0, 0, 0]
    return LayerHelper("pad2d", name=name).append("pad2d", inputs, {**attrs, "paddings": list(paddings)})


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """Return images with ``r = upscale_factor`` times the extents and 1 / r^2 of the channels. (Shi et al., 2016)

    >>> fluid.layers.pixel_shuffle(fluid.layers.data("x", [9, 4, 4]), upscale_factor=3)
    Variable('pixel_shuffle_0.tmp_0', float32[?, 1, 12, 12])
    """
    return LayerHelper("pixel_shuffle").append("pixel_shuffle", {"X": [x]}, {"upscale_factor": upscale_factor})


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """Return images whose channels were taken from each of ``group`` groups in turn. (Zhang et al., 2018)

    >>> fluid.layers.shuffle_channel(fluid.layers.data("x", [6, 4, 4]), group=2)
    Variable('shuffle_channel_0.tmp_0', float32[?, 6, 4, 4])
    """
    return LayerHelper("shuffle_channel", name=name).append("shuffle_channel", {"X": [x]}, {"group": group})


def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Return images [n, c, h, w] as [n, c b^2, h / b, w / b], b being ``blocksize``, in the order of Fluid (that of Darknet).

    >>> fluid.layers.space_to_depth(fluid.layers.data("x", [4, 8, 8]), blocksize=2)
    Variable('space_to_depth_0.tmp_0', float32[?, 16, 4, 4])
    """
    return LayerHelper("space_to_depth", name=name).append("space_to_depth", {"X": [x]}, {"blocksize": blocksize})


def temporal_shift(x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Variable:
    """Return frames [videos * seg_num, c, h, w] some of whose channels are those of the frames beside them. (Lin et al., 2018)

    The first ``shift_ratio`` of the channels come from the frame before, the next ones from the frame behind, and zeros where
    there is none.

    >>> fluid.layers.temporal_shift(fluid.layers.data("x", [8, 4, 4]), seg_num=2)
    Variable('temporal_shift_0.tmp_0', float32[?, 8, 4, 4])
    """
    return LayerHelper("temporal_shift", name=name).append("temporal_shift", {"X": [x]},
                                                           {"seg_num": seg_num, "shift_ratio": float(shift_ratio)})


def affine_channel(x: Variable, scale: Variable | None = None, bias: Variable | None = None, data_layout: str = "NCHW",
                   name: str | None = None, act: ActLike = None) -> Variable:
    """Return ``act(scale x + bias)``, with a pair of numbers for each channel: [channels] each.

    It stands for a batch normalization whose statistics do not change. ``data_layout`` is "NCHW" or "NHWC".

    >>> scale, bias = (fluid.layers.create_parameter([3], "float32") for _ in range(2))
    >>> fluid.layers.affine_channel(fluid.layers.data("x", [3, 8, 8]), scale, bias)
    Variable('affine_channel_0.tmp_0', float32[?, 3, 8, 8])
    """
    helper = LayerHelper("affine_channel", name=name, act=act)
    helper.check_variable(scale, "scale")
    helper.check_variable(bias, "bias")
    return helper.append_activation(helper.append("affine_channel", {"X": [x], "Scale": [scale], "Bias": [bias]},
                                                  {"data_layout": data_layout}))


def random_crop(x: Variable, shape: Sequence[int], seed: Any = None) -> Variable:
    """Return a box of ``shape``, the last dimensions, of each item of ``x``, at another place each time.

    ``seed`` is an int64 variable [1], which alone decides the places, or an int that the first run begins with. None: the places
    follow from the program's seed.

    >>> fluid.layers.random_crop(fluid.layers.data("x", [3, 32, 32]), shape=[3, 28, 28])
    Variable('random_crop_0.tmp_0', float32[?, 3, 28, 28])
    """
    helper = LayerHelper("random_crop")
    out = helper.create_variable_for_type_inference(x.dtype)
    inputs, outputs = {"X": [x]}, {"Out": [out]}
    seed = plain(seed)
    if isinstance(seed, int):
        state = helper.create_global_variable(persistable=True, dtype="int64", shape=[1], stop_gradient=True)
        helper.set_variable_initializer(state, Constant(seed))
        inputs["Seed"] = outputs["SeedOut"] = [state]
    elif seed is not None:
        inputs["Seed"] = [helper.check_variable(seed, "seed")]
    helper.append_op(type="random_crop", inputs=inputs, outputs=outputs, attrs={"shape": list(shape)})
    return out


__all__ = ["conv3d", "conv2d_transpose", "conv3d_transpose", "pool3d", "adaptive_pool2d", "adaptive_pool3d", "maxout", "pad2d",
           "pixel_shuffle", "shuffle_channel", "space_to_depth", "temporal_shift", "affine_channel", "random_crop"]
