"""What operators on images are in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..framework import Operator
from .onnx_graph import Graph
from .onnx_registry import _has, _in, _out, _refuse, converts


def _known(graph: Graph, op: Operator, slot: str, axes: Sequence[int]) -> list[int]:
    """Return the extents of an input along these axes, which must not be free."""
    shape = graph.shape(op.input(slot)[0])
    dims = [shape[axis] for axis in axes]
    if any(dim < 0 for dim in dims):
        raise _refuse(op, f"{op.input(slot)[0]!r} is {shape}; the dimensions {list(axes)} must be known")
    return dims


def _like(graph: Graph, value: str, shape_of: str, out: str) -> str:
    return graph.add("Reshape", [value, graph.add("Shape", [shape_of])], out)


# -- sizes -----------------------------------------------------------------------------------------------------------------


@converts("bilinear_interp", "nearest_interp")
def _interp(graph: Graph, op: Operator) -> None:
    x, out = op.input("X")[0], op.output("Out")[0]
    sizes, corners, is_nearest = graph.shape(out)[2:], bool(op.attr("align_corners")), op.type == "nearest_interp"
    extents = graph.shape(x)[2:]
    if not _has(op, "OutSize") and min(sizes) < 0:
        raise _refuse(op, f"{x!r} is {graph.shape(x)}; a scale is exported of images of known sizes only")
    if is_nearest and min(*sizes, *extents) > 0 and (corners or any(n % m for n, m in zip(sizes, extents))):
        _picked(graph, op, extents, sizes, corners)
        return
    wanted = graph.add("Cast", [_in(graph, op, "OutSize")], to=int(graph.onnx.TensorProto.INT64)) if _has(op, "OutSize") else graph.longs(sizes)
    front = graph.add("Slice", [graph.add("Shape", [graph.name_of(x)]), graph.longs([0]), graph.longs([2])])
    how = "align_corners" if corners else "asymmetric" if is_nearest or op.attr("align_mode") == 1 else "half_pixel"
    inputs = [graph.name_of(x), "", "", graph.add("Concat", [front, wanted], axis=0)]
    rounding = {"nearest_mode": "round_prefer_ceil" if corners else "floor"} if is_nearest else {}
    graph.add("Resize", inputs, _out(graph, op), mode="nearest" if is_nearest else "linear", coordinate_transformation_mode=how, **rounding)


def _picked(graph: Graph, op: Operator, extents: Sequence[int], sizes: Sequence[int], corners: bool) -> None:
    """Take the nearest elements by their numbers: Resize finds their places in floats, which are off where sizes do not divide each other."""
    value = _in(graph, op, "X")
    for axis, (m, n) in enumerate(zip(extents, sizes), start=2):
        places = [(2 * k * (m - 1) + n - 1) // (2 * (n - 1)) if n > 1 else 0 for k in range(n)] if corners else [k * m // n for k in range(n)]
        value = graph.add("Gather", [value, graph.longs(places)], _out(graph, op) if axis == 3 else None, axis=axis)


@converts("affine_grid")
def _affine_grid(graph: Graph, op: Operator) -> None:
    if _has(op, "OutputShape"):
        raise _refuse(op, "a shape from a variable is not exported")
    height, width = (int(n) for n in op.attr("output_shape")[2:])
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    theta = op.input("Theta")[0]
    places = graph.number(np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3), theta)
    moved = graph.add("MatMul", [places, graph.add("Transpose", [graph.name_of(theta)], perm=[0, 2, 1])])
    graph.add("Reshape", [moved, graph.longs([-1, height, width, 2])], _out(graph, op, "Output"))


@converts("grid_sampler")
def _grid_sampler(graph: Graph, op: Operator) -> None:
    graph.add("GridSample", [_in(graph, op, "X"), _in(graph, op, "Grid")], _out(graph, op, "Output"), mode="bilinear", padding_mode="zeros", align_corners=1)


# -- channels --------------------------------------------------------------------------------------------------------------


@converts("group_norm")
def _group_norm(graph: Graph, op: Operator) -> None:
    x, groups = op.input("X")[0], int(op.attr("groups"))
    channels, rank = _known(graph, op, "X", [1])[0], len(graph.shape(x))
    rows = graph.add("Reshape", [graph.name_of(x), graph.longs([0, groups, -1])])
    plain = [graph.number(np.full(groups, n), x) for n in (1, 0)]
    value = _like(graph, graph.add("InstanceNormalization", [rows, *plain], epsilon=float(op.attr("epsilon"))), graph.name_of(x), graph.fresh("normal"))
    for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
        if _has(op, slot):
            value = graph.add(kind, [value, graph.add("Reshape", [_in(graph, op, slot), graph.longs([channels, *[1] * (rank - 2)])])])
    graph.add("Identity", [value], _out(graph, op, "Y"))


@converts("lrn")
def _lrn(graph: Graph, op: Operator) -> None:
    n = int(op.attr("n"))
    if n % 2 == 0:
        raise _refuse(op, f"sums over an even number of channels ({n}) are not exported")
    graph.add("LRN", [_in(graph, op, "X")], _out(graph, op), size=n, alpha=float(op.attr("alpha")) * n, beta=float(op.attr("beta")), bias=float(op.attr("k")))


@converts("maxout")
def _maxout(graph: Graph, op: Operator) -> None:
    channels, height, width = _known(graph, op, "X", [1, 2, 3])
    groups = int(op.attr("groups"))
    parts = graph.add("Reshape", [_in(graph, op, "X"), graph.longs([0, channels // groups, groups, height, width])])
    graph.add("ReduceMax", [parts], _out(graph, op), axes=[2], keepdims=0)


@converts("pixel_shuffle")
def _pixel_shuffle(graph: Graph, op: Operator) -> None:
    graph.add("DepthToSpace", [_in(graph, op, "X")], _out(graph, op), blocksize=int(op.attr("upscale_factor")), mode="CRD")


@converts("shuffle_channel")
def _shuffle_channel(graph: Graph, op: Operator) -> None:
    x, group = _in(graph, op, "X"), int(op.attr("group"))
    parts = graph.add("Reshape", [x, graph.longs([0, group, _known(graph, op, "X", [1])[0] // group, -1])])
    _like(graph, graph.add("Transpose", [parts], perm=[0, 2, 1, 3]), x, _out(graph, op))


@converts("space_to_depth")
def _space_to_depth(graph: Graph, op: Operator) -> None:
    channels, height, width = _known(graph, op, "X", [1, 2, 3])
    block = int(op.attr("blocksize"))
    parts = graph.add("Reshape", [_in(graph, op, "X"), graph.longs([0, block, block, channels // block ** 2, height, width])])
    turned = graph.add("Transpose", [parts], perm=[0, 3, 4, 1, 5, 2])
    graph.add("Reshape", [turned, graph.longs([0, channels * block ** 2, height // block, width // block])], _out(graph, op))


@converts("temporal_shift")
def _temporal_shift(graph: Graph, op: Operator) -> None:
    x, frames = op.input("X")[0], int(op.attr("seg_num"))
    channels, height, width = _known(graph, op, "X", [1, 2, 3])
    ratio = float(np.float32(op.attr("shift_ratio")))
    cuts = [0, int(channels * ratio), int(channels * 2 * ratio), channels]
    videos = graph.add("Reshape", [graph.name_of(x), graph.longs([-1, frames, channels, height, width])])
    wide = graph.add("Pad", [videos, graph.longs([0, 1, 0, 0, 0, 0, 1, 0, 0, 0]), graph.number(0.0, x)])
    parts = [graph.add("Slice", [wide, graph.longs([first, low]), graph.longs([first + frames, high]), graph.longs([1, 2])])
             for first, low, high in zip((0, 2, 1), cuts, cuts[1:]) if high > low]
    graph.add("Reshape", [graph.add("Concat", parts, axis=2), graph.longs([-1, channels, height, width])], _out(graph, op))


@converts("max_pool2d_with_index", "max_pool3d_with_index")
def _max_pool_with_index(graph: Graph, op: Operator) -> None:
    extents = _known(graph, op, "X", range(2, len(graph.shape(op.input("X")[0]))))
    if op.attr("adaptive"):
        raise _refuse(op, "adaptive windows are not exported")
    is_global = bool(op.attr("global_pooling"))
    kernel, pads = (extents, [0] * 2 * len(extents)) if is_global else (list(map(int, op.attr("ksize"))), [int(n) for n in op.attr("paddings")] * 2)
    places = graph.fresh("places")
    graph.nodes.append(graph.onnx.helper.make_node("MaxPool", [_in(graph, op, "X")], [_out(graph, op), places], kernel_shape=kernel, pads=pads,
                                                   strides=[int(n) for n in op.attr("strides")]))
    inside = graph.add("Mod", [places, graph.longs([int(np.prod(extents))])])     # ONNX counts over all planes
    graph.add("Cast", [inside], _out(graph, op, "Mask"), to=int(graph.onnx.TensorProto.INT32))


@converts("unpool")
def _unpool(graph: Graph, op: Operator) -> None:
    x, out = op.input("X")[0], op.output("Out")[0]
    height, width = graph.shape(out)[2:]
    channels = _known(graph, op, "X", [1, 2, 3])[0]
    front = graph.add("Slice", [graph.add("Shape", [graph.name_of(x)]), graph.longs([0]), graph.longs([2])])
    empty = graph.add("Expand", [graph.number(0.0, x), graph.add("Concat", [front, graph.longs([height * width])], axis=0)])
    values, places = (graph.add("Reshape", [_in(graph, op, slot), graph.longs([0, 0, -1])]) for slot in ("X", "Indices"))
    placed = graph.add("ScatterElements", [empty, places, values], axis=2)
    graph.add("Reshape", [placed, graph.longs([0, channels, height, width])], _out(graph, op))


__all__: list[str] = []
