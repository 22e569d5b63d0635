"""What operators on images are in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_lods import numbered
from .onnx_pieces import extent, extents, reaching, shape_of
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


@converts(*(f"{method}_interp{form}" for method in ("linear", "bilinear", "nearest", "bicubic", "trilinear") for form in ("", "_v2")))
def _interp(graph: Graph, op: Operator) -> None:
    x, out = op.input("X")[0], op.output("Out")[0]
    sizes, sides, corners = graph.shape(out)[2:], graph.shape(x)[2:], bool(op.attr("align_corners"))
    is_nearest, is_cubic, is_later = op.type.startswith("nearest"), op.type.startswith("bicubic"), op.type.endswith("_v2")
    if is_later and not corners and not (_has(op, "OutSize") or _has(op, "SizeTensor")):
        scales = _scales(op) if not _has(op, "Scale") else np.array([np.nan])
        if scales[0] and any(side < 0 or not float(side * scale).is_integer() for side, scale in zip(sides, np.resize(scales, len(sides)))):
            raise _refuse(op, f"its scale is {scales.tolist()}, and {x!r} is {graph.shape(x)}; the sizes must be known, and whole after it")
    if is_cubic and not corners and any(size == 1 != side for size, side in zip(sizes, sides)):
        raise _refuse(op, f"{out!r} is {graph.shape(out)}; a single row or column without align_corners lies elsewhere in ONNX")
    if is_nearest and min(*sizes, *sides) > 0 and not corners and not any(n % m for n, m in zip(sizes, sides)):
        wanted = graph.longs(sizes)                    # whole steps, which floats hit
    else:
        wanted = _wanted(graph, op, sizes)
        if is_nearest:
            _picked(graph, op, wanted, corners)
            return
    front = graph.add("Slice", [graph.add("Shape", [graph.name_of(x)]), graph.longs([0]), graph.longs([2])])
    is_whole = is_nearest or (op.attr("align_mode") == 1 and not is_cubic)
    # the last is Fluid's of one element
    how = "align_corners" if corners else "asymmetric" if is_whole else "half_pixel" if is_cubic else "pytorch_half_pixel"
    rules: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -0.75} if is_cubic else {"mode": "linear"}
    if is_nearest:
        rules = {"mode": "nearest", "nearest_mode": "floor"}
    value, row = graph.name_of(x), [graph.longs([1])] if len(sides) == 1 else []
    if row:                                            # a line is an image of one row
        value = graph.add("Unsqueeze", [value, graph.longs([2])])
    resized = graph.add("Resize", [value, "", "", graph.add("Concat", [front, *row, wanted], axis=0)], None if row else _out(graph, op),
                        coordinate_transformation_mode=how, **rules)
    if row:
        graph.add("Squeeze", [resized, graph.longs([2])], _out(graph, op))


def _scales(op: Operator) -> np.ndarray:
    """Of each axis; one: of all."""
    scales = np.atleast_1d(np.float32(op.attr("scale")))
    return scales if scales.size else np.zeros(1, np.float32)


def _wanted(graph: Graph, op: Operator, sizes: Sequence[int]) -> str:
    """The extents of the output: fed, known, or so many times those of the input."""
    add, int64 = graph.add, int(graph.onnx.TensorProto.INT64)
    if _has(op, "SizeTensor"):
        return add("Cast", [add("Concat", [graph.name_of(name) for name in op.input("SizeTensor")], axis=0)], to=int64)
    if _has(op, "OutSize"):
        return add("Cast", [_in(graph, op, "OutSize")], to=int64)
    if min(sizes) > 0:
        return graph.longs(sizes)
    scale = _in(graph, op, "Scale") if _has(op, "Scale") else graph.constant(_scales(op), np.float32)
    sides = add("Cast", [shape_of(graph, *extents(graph, _in(graph, op, "X"), range(2, 2 + len(sizes))))],
                to=int(graph.onnx.TensorProto.FLOAT))
    return add("Cast", [add("Floor", [add("Mul", [sides, scale])])], to=int64)


def _picked(graph: Graph, op: Operator, wanted: str, corners: bool) -> None:
    """Take the nearest elements by their numbers: Resize finds their places in floats, which are off where sizes do not divide each
    other."""
    value, one, two, add = _in(graph, op, "X"), graph.constant(1, np.int64), graph.constant(2, np.int64), graph.add
    for axis in (2, 3):
        m, n = extent(graph, value, axis), add("Gather", [wanted, graph.constant(axis - 2, np.int64)])
        if corners:                                    # (2 k (m - 1) + n - 1) / (2 (n - 1)), and the first of one
            last = add("Sub", [n, one])
            steps = add("Mul", [add("Mul", [numbered(graph, n), two]), add("Sub", [m, one])])
            places = add("Div", [add("Add", [steps, last]), add("Max", [add("Mul", [last, two]), one])])
        else:
            places = add("Div", [add("Mul", [numbered(graph, n), m]), n])
        value = add("Gather", [value, places], _out(graph, op) if axis == 3 else None, axis=axis)


@converts("affine_grid")
def _affine_grid(graph: Graph, op: Operator) -> None:
    add, theta = graph.add, op.input("Theta")[0]
    if _has(op, "OutputShape"):
        given = add("Cast", [_in(graph, op, "OutputShape")], to=int(graph.onnx.TensorProto.INT64))
        height, width = (add("Gather", [given, graph.longs([k])]) for k in (2, 3))
    else:
        height, width = (graph.longs([int(n)]) for n in op.attr("output_shape")[2:])
    across, down = (_from_end_to_end(graph, theta, n) for n in (width, height))
    both = add("Concat", [height, width], axis=0)
    sides = [add("Expand", [each, both]) for each in (across, add("Unsqueeze", [down, graph.longs([1])]))]
    ones = add("Expand", [graph.number(1.0, theta), both])
    places = add("Concat", [add("Reshape", [each, graph.longs([-1, 1])]) for each in (*sides, ones)], axis=1)
    moved = add("MatMul", [places, add("Transpose", [graph.name_of(theta)], perm=[0, 2, 1])])
    add("Reshape", [moved, shape_of(graph, -1, height, width, 2)], _out(graph, op, "Output"))


def _from_end_to_end(graph: Graph, like: str, count: str) -> str:
    """So many ([1]) numbers from -1 to 1."""
    add, one, to = graph.add, graph.constant(1, np.int64), graph.type_of(like)
    count = add("Reshape", [count, graph.longs([])])
    steps = add("Cast", [add("Max", [add("Sub", [count, one]), one])], to=to)
    places = add("Cast", [add("Mul", [numbered(graph, count), graph.constant(2, np.int64)])], to=to)
    return add("Sub", [add("Div", [places, steps]), graph.number(1.0, like)])


@converts("grid_sampler")
def _grid_sampler(graph: Graph, op: Operator) -> None:
    graph.add("GridSample", [_in(graph, op, "X"), _in(graph, op, "Grid")], _out(graph, op, "Output"), mode="bilinear", padding_mode="zeros",
              align_corners=1)


# -- channels --------------------------------------------------------------------------------------------------------------


@converts("group_norm")
def _group_norm(graph: Graph, op: Operator) -> None:
    x, groups = op.input("X")[0], int(op.attr("groups"))
    channels, rank = _known(graph, op, "X", [1])[0], len(graph.shape(x))
    rows = graph.add("Reshape", [graph.name_of(x), graph.longs([0, groups, -1])])
    plain = [graph.number(np.full(groups, n), x) for n in (1, 0)]
    value = _like(graph, graph.add("InstanceNormalization", [rows, *plain], epsilon=float(op.attr("epsilon"))), graph.name_of(x),
                  graph.fresh("normal"))
    for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
        if _has(op, slot):
            value = graph.add(kind, [value, graph.add("Reshape", [_in(graph, op, slot), graph.longs([channels, *[1] * (rank - 2)])])])
    graph.add("Identity", [value], _out(graph, op, "Y"))


@converts("lrn")
def _lrn(graph: Graph, op: Operator) -> None:
    n, x, add = int(op.attr("n")), op.input("X")[0], graph.add
    if n % 2 == 0:                                     # one channel more behind than before, which LRN takes the other way
        before = (n - 1) // 2
        squares = add("Mul", [graph.name_of(x)] * 2)
        wide = add("Pad", [squares, graph.longs([0, before, 0, 0, 0, n - 1 - before, 0, 0])])
        channels = extent(graph, squares, 1, [1])
        parts = [add("Slice", [wide, graph.longs([k]), add("Add", [channels, graph.longs([k])]), graph.longs([1])]) for k in range(n)]
        middle = add("Add", [add("Mul", [add("Sum", parts), graph.number(op.attr("alpha"), x)]), graph.number(op.attr("k"), x)])
        add("Mul", [graph.name_of(x), add("Pow", [middle, graph.number(-float(op.attr("beta")), x)])], _out(graph, op))
        return
    graph.add("LRN", [_in(graph, op, "X")], _out(graph, op), size=n, alpha=float(op.attr("alpha")) * n, beta=float(op.attr("beta")),
              bias=float(op.attr("k")))


@converts("maxout")
def _maxout(graph: Graph, op: Operator) -> None:
    x, groups = _in(graph, op, "X"), int(op.attr("groups"))
    channels, sides = _known(graph, op, "X", [1])[0], extents(graph, x, [2, 3])
    parts = graph.add("Reshape", [x, shape_of(graph, 0, channels // groups, groups, *sides)])
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
    x, block = _in(graph, op, "X"), int(op.attr("blocksize"))
    channels, sides = _known(graph, op, "X", [1])[0], extents(graph, x, [2, 3])
    parts = graph.add("Reshape", [x, shape_of(graph, 0, block, block, channels // block ** 2, *sides)])
    turned = graph.add("Transpose", [parts], perm=[0, 3, 4, 1, 5, 2])
    small = [graph.add("Div", [side, graph.longs([block])]) for side in sides]
    graph.add("Reshape", [turned, shape_of(graph, 0, channels * block ** 2, *small)], _out(graph, op))


@converts("temporal_shift")
def _temporal_shift(graph: Graph, op: Operator) -> None:
    x, frames = op.input("X")[0], int(op.attr("seg_num"))
    channels, sides = _known(graph, op, "X", [1])[0], extents(graph, graph.name_of(x), [2, 3])
    ratio = float(np.float32(op.attr("shift_ratio")))
    cuts = [0, int(channels * ratio), int(channels * 2 * ratio), channels]
    videos = graph.add("Reshape", [graph.name_of(x), shape_of(graph, -1, frames, channels, *sides)])
    wide = graph.add("Pad", [videos, graph.longs([0, 1, 0, 0, 0, 0, 1, 0, 0, 0]), graph.number(0.0, x)])
    parts = [graph.add("Slice", [wide, graph.longs([first, low]), graph.longs([first + frames, high]), graph.longs([1, 2])])
             for first, low, high in zip((0, 2, 1), cuts, cuts[1:]) if high > low]
    graph.add("Reshape", [graph.add("Concat", parts, axis=2), shape_of(graph, -1, channels, *sides)], _out(graph, op))


@converts("max_pool2d_with_index", "max_pool3d_with_index")
def _max_pool_with_index(graph: Graph, op: Operator) -> None:
    x, rank = op.input("X")[0], len(graph.shape(op.input("X")[0]))
    if op.attr("adaptive"):
        raise _refuse(op, "adaptive windows are not exported")
    is_global = bool(op.attr("global_pooling"))
    kernel = _known(graph, op, "X", range(2, rank)) if is_global else [int(n) for n in op.attr("ksize")]
    pads = [0] * 2 * len(kernel) if is_global else reaching([int(n) for n in op.attr("paddings")] * 2, graph.shape(x)[2:], kernel)
    places = graph.fresh("places")
    graph.add_node("MaxPool", [graph.name_of(x)], [_out(graph, op), places], kernel_shape=kernel, pads=pads,
                   strides=[int(n) for n in op.attr("strides")])
    plane = graph.add("ReduceProd", [shape_of(graph, *extents(graph, graph.name_of(x), range(2, rank)))], keepdims=1)
    inside = graph.add("Mod", [places, plane])         # ONNX counts over all planes
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
