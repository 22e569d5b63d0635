"""What activations, arithmetic, shapes, look-ups, reductions and nets are in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_pieces import part_of_shape, pooled, reaching, shape_of
from .onnx_registry import CONVERTERS, _attr, _has, _in, _int64, _out, _refuse, _type_of, converts

# -- one to one ----------------------------------------------------------------------------------------------------------

_SAME = {"abs": "Abs", "acos": "Acos", "asin": "Asin", "atan": "Atan", "ceil": "Ceil", "cos": "Cos", "erf": "Erf", "exp": "Exp",
         "floor": "Floor", "log": "Log", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin",
         "softplus": "Softplus", "softsign": "Softsign",
         "sqrt": "Sqrt", "tanh": "Tanh", "assign": "Identity", "logical_not": "Not", "shape": "Shape"}


def _one_to_one(graph: Graph, op: Operator) -> None:
    slot = "Input" if op.type == "shape" else "X"
    source = _in(graph, op, slot)
    if op.type == "shape":                             # int32 here
        return_name = graph.add("Shape", [source])
        graph.add("Cast", [return_name], _out(graph, op), to=_type_of(graph, op.output("Out")[0]))
        return
    graph.add(_SAME[op.type], [source], _out(graph, op))


CONVERTERS.update(dict.fromkeys(_SAME, _one_to_one))


# -- activations -----------------------------------------------------------------------------------------------------------


@converts("elu", "leaky_relu")
def _with_alpha(graph: Graph, op: Operator) -> None:
    graph.add({"elu": "Elu", "leaky_relu": "LeakyRelu"}[op.type], [_in(graph, op, "X")], _out(graph, op), alpha=float(op.attr("alpha")))


@converts("hard_sigmoid")
def _hard_sigmoid(graph: Graph, op: Operator) -> None:
    graph.add("HardSigmoid", [_in(graph, op, "X")], _out(graph, op), alpha=float(op.attr("slope")), beta=float(op.attr("offset")))


_BOUNDS = {"relu6": ("", "threshold"), "brelu": ("t_min", "t_max"), "clip": ("min", "max")}


@converts(*_BOUNDS)
def _clip(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    low, high = (op.attr(name) if name else 0.0 for name in _BOUNDS[op.type])
    graph.add("Clip", [graph.name_of(x), graph.number(low, x), graph.number(high, x)], _out(graph, op))


@converts("swish")
def _swish(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    source = graph.name_of(x)
    inner = graph.add("Sigmoid", [graph.add("Mul", [source, graph.number(op.attr("beta"), x)])])
    graph.add("Mul", [source, inner], _out(graph, op))


@converts("gelu")
def _gelu(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    source = graph.name_of(x)
    erf = graph.add("Erf", [graph.add("Mul", [source, graph.number(2 ** -0.5, x)])])
    half = graph.add("Mul", [source, graph.number(0.5, x)])
    graph.add("Mul", [half, graph.add("Add", [erf, graph.number(1.0, x)])], _out(graph, op))


@converts("logsigmoid")
def _logsigmoid(graph: Graph, op: Operator) -> None:
    graph.add("Neg", [graph.add("Softplus", [graph.add("Neg", [_in(graph, op, "X")])])], _out(graph, op))


@converts("square", "rsqrt", "tanh_shrink", "round")
def _of_two(graph: Graph, op: Operator) -> None:
    source = _in(graph, op, "X")
    if op.type == "square":
        graph.add("Mul", [source, source], _out(graph, op))
    elif op.type == "rsqrt":
        graph.add("Reciprocal", [graph.add("Sqrt", [source])], _out(graph, op))
    elif op.type == "tanh_shrink":
        graph.add("Sub", [source, graph.add("Tanh", [source])], _out(graph, op))
    else:                                              # halves away from zero, where ONNX takes the even one
        x = op.input("X")[0]
        whole = graph.add("Floor", [graph.add("Add", [graph.add("Abs", [source]), graph.number(0.5, x)])])
        graph.add("Mul", [graph.add("Sign", [source]), whole], _out(graph, op))


@converts("hard_shrink", "softshrink", "thresholded_relu")
def _shrink(graph: Graph, op: Operator) -> None:
    x = _in(graph, op, "X")
    limit = float(op.attr("lambda" if op.type == "softshrink" else "threshold"))
    if op.type == "thresholded_relu":
        graph.add("ThresholdedRelu", [x], _out(graph, op), alpha=limit)
    else:
        graph.add("Shrink", [x], _out(graph, op), lambd=limit, bias=limit if op.type == "softshrink" else 0.0)


@converts("stanh")
def _stanh(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    inner = graph.add("Tanh", [graph.add("Mul", [graph.name_of(x), graph.number(op.attr("scale_a"), x)])])
    graph.add("Mul", [inner, graph.number(op.attr("scale_b"), x)], _out(graph, op))


@converts("prelu")
def _prelu(graph: Graph, op: Operator) -> None:
    alpha, rank = _in(graph, op, "Alpha"), len(graph.shape(op.input("X")[0]))
    if op.attr("mode") == "channel":
        alpha = graph.add("Reshape", [alpha, graph.longs([-1, *[1] * (rank - 2)])])
    graph.add("PRelu", [_in(graph, op, "X"), alpha], _out(graph, op))


@converts("selu")
def _selu(graph: Graph, op: Operator) -> None:
    graph.add("Selu", [_in(graph, op, "X")], _out(graph, op), alpha=float(op.attr("alpha")), gamma=float(op.attr("scale")))


@converts("pow")
def _pow(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    graph.add("Pow", [graph.name_of(x), graph.number(op.attr("factor"), x)], _out(graph, op))


@converts("softmax")
def _softmax(graph: Graph, op: Operator) -> None:
    graph.add("Softmax", [_in(graph, op, "X")], _out(graph, op), axis=int(_attr(op, "axis", -1)))


# -- arithmetic ------------------------------------------------------------------------------------------------------------

_ELEMENTWISE = {"elementwise_add": "Add", "elementwise_sub": "Sub", "elementwise_mul": "Mul", "elementwise_div": "Div",
                "elementwise_max": "Max", "elementwise_min": "Min", "elementwise_pow": "Pow", "equal": "Equal", "less_than": "Less",
                "less_equal": "LessOrEqual", "greater_than": "Greater", "greater_equal": "GreaterOrEqual", "logical_and": "And",
                "logical_or": "Or",
                "logical_xor": "Xor"}


@converts(*_ELEMENTWISE, "not_equal")
def _elementwise(graph: Graph, op: Operator) -> None:
    x, y = op.input("X")[0], op.input("Y")[0]
    ranks, axis = (len(graph.shape(x)), len(graph.shape(y))), _attr(op, "axis", -1)
    second = graph.name_of(y)
    behind = 0 if axis == -1 else ranks[0] - axis - ranks[1]
    if behind > 0:                                     # Y stands at an axis in the middle of X
        second = graph.add("Unsqueeze", [second, graph.longs(range(ranks[1], ranks[1] + behind))])
    if op.type == "not_equal":
        graph.add("Not", [graph.add("Equal", [graph.name_of(x), second])], _out(graph, op))
    else:
        graph.add(_ELEMENTWISE[op.type], [graph.name_of(x), second], _out(graph, op))


@converts("scale")
def _scale(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    scale, bias = graph.number(op.attr("scale"), x), graph.number(op.attr("bias"), x)
    if op.attr("bias_after_scale"):
        graph.add("Add", [graph.add("Mul", [graph.name_of(x), scale]), bias], _out(graph, op))
    else:
        graph.add("Mul", [graph.add("Add", [graph.name_of(x), bias]), scale], _out(graph, op))


@converts("sum")
def _sum(graph: Graph, op: Operator) -> None:
    graph.add("Sum", [graph.name_of(name) for name in op.input("X")], _out(graph, op))


@converts("minus")
def _minus(graph: Graph, op: Operator) -> None:
    graph.add("Sub", [_in(graph, op, "X"), _in(graph, op, "Y")], _out(graph, op))


def _flat(graph: Graph, name: str, columns: int) -> str:
    rank = len(graph.shape(name))
    return graph.name_of(name) if rank == 2 and columns == 1 else graph.add("Flatten", [graph.name_of(name)], axis=columns)


@converts("mul")
def _mul(graph: Graph, op: Operator) -> None:
    x, y, out = op.input("X")[0], op.input("Y")[0], op.output("Out")[0]
    product = [_flat(graph, x, op.attr("x_num_col_dims")), _flat(graph, y, op.attr("y_num_col_dims"))]
    if len(graph.shape(out)) == 2:
        graph.add("MatMul", product, _out(graph, op))
    else:
        sides = [part_of_shape(graph, graph.name_of(x), 0, op.attr("x_num_col_dims")),
                 part_of_shape(graph, graph.name_of(y), op.attr("y_num_col_dims"))]
        graph.add("Reshape", [graph.add("MatMul", product), shape_of(graph, *sides)], _out(graph, op))


@converts("matmul")
def _matmul(graph: Graph, op: Operator) -> None:
    sides, vectors = [], []
    for slot, flag, axis in (("X", "transpose_X", -2), ("Y", "transpose_Y", -1)):
        name = op.input(slot)[0]
        rank, value = len(graph.shape(name)), graph.name_of(name)
        if rank == 1:                                  # a row on the left, a column on the right
            value = graph.add("Reshape", [value, graph.longs([1, -1] if slot == "X" else [-1, 1])])
            vectors.append(axis)
        sides.append(graph.add("Transpose", [value], perm=[*range(rank - 2), rank - 1, rank - 2]) if op.attr(flag) and rank > 1 else value)
    product = graph.add("MatMul", sides)
    if op.attr("alpha") != 1:
        product = graph.add("Mul", [product, graph.number(op.attr("alpha"), op.input("X")[0])])
    if len(vectors) == 2:
        graph.add("Reshape", [product, graph.longs([1])], _out(graph, op))
    else:
        graph.add("Squeeze" if vectors else "Identity", [product, *([graph.longs(vectors)] if vectors else [])], _out(graph, op))


# -- shapes ----------------------------------------------------------------------------------------------------------------


@converts("reshape", "reshape2", "flatten", "flatten2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2")
def _reshape(graph: Graph, op: Operator) -> None:
    source = _in(graph, op, "X")
    if op.type.startswith("flatten"):
        graph.add("Flatten", [source], _out(graph, op), axis=int(op.attr("axis")))
    elif op.type.startswith("reshape"):
        shape = _int64(graph, _in(graph, op, "Shape")) if _has(op, "Shape") else graph.longs(op.attr("shape"))
        graph.add("Reshape", [source, shape], _out(graph, op))
    elif op.type.startswith("squeeze"):                # without axes all dimensions of 1
        graph.add("Squeeze", [source, *([graph.longs(op.attr("axes"))] if op.attr("axes") else [])], _out(graph, op))
    else:
        graph.add("Unsqueeze", [source, graph.longs(op.attr("axes"))], _out(graph, op))


@converts("flatten_contiguous_range")
def _flatten_contiguous_range(graph: Graph, op: Operator) -> None:
    source, rank = _in(graph, op, "X"), len(graph.shape(op.input("X")[0]))
    start, stop = (int(op.attr(name)) % rank for name in ("start_axis", "stop_axis"))
    dims = graph.add("Shape", [source])
    front, behind = (graph.add("Slice", [dims, graph.longs([begin]), graph.longs([end])]) for begin, end in ((0, start), (stop + 1, rank)))
    graph.add("Reshape", [source, graph.add("Concat", [front, graph.longs([-1]), behind], axis=0)], _out(graph, op))


@converts("transpose", "transpose2")
def _transpose(graph: Graph, op: Operator) -> None:
    graph.add("Transpose", [_in(graph, op, "X")], _out(graph, op), perm=[int(axis) for axis in op.attr("axis")])


@converts("concat")
def _concat(graph: Graph, op: Operator) -> None:
    graph.add("Concat", [graph.name_of(name) for name in op.input("X")], _out(graph, op), axis=int(op.attr("axis")))


@converts("stack")
def _stack(graph: Graph, op: Operator) -> None:
    axis = graph.longs([int(op.attr("axis"))])
    graph.add("Concat", [graph.add("Unsqueeze", [graph.name_of(name), axis]) for name in op.input("X")], _out(graph, op, "Y"),
              axis=int(op.attr("axis")))


@converts("split")
def _split(graph: Graph, op: Operator) -> None:
    names, axis, source = op.output("Out"), int(op.attr("axis")), _in(graph, op, "X")
    sizes = [int(size) for size in _attr(op, "sections") or []]
    inputs = [source, graph.longs(sizes)] if sizes else [source]           # equal parts, if nothing is said
    graph.add_node("Split", inputs, [graph.written(name) for name in names], axis=axis)


@converts("slice", "strided_slice")
def _slice(graph: Graph, op: Operator) -> None:
    rank, dropped = len(graph.shape(op.input("Input")[0])), list(op.attr("decrease_axis"))
    axes, starts, ends = [axis % rank for axis in op.attr("axes")], list(op.attr("starts")), list(op.attr("ends"))
    steps, gone = list(op.attr("strides")) if op.type == "strided_slice" else [1] * len(axes), {axis % rank for axis in dropped}
    for i, axis in enumerate(axes):
        if starts[i] == -1 and ends[i] == 0 and axis in gone:
            ends[i] = np.iinfo(np.int32).max           # x[-1]
        if steps[i] < 0 and ends[i] == -1:
            ends[i] = np.iinfo(np.int32).min           # as far as the first element
    part = graph.add("Slice", [_in(graph, op, "Input"), *map(graph.longs, (starts, ends, axes, steps))], None if gone else _out(graph, op))
    if len(gone) == rank:
        graph.add("Reshape", [part, graph.longs([1])], _out(graph, op))
    elif gone:
        graph.add("Squeeze", [part, graph.longs(sorted(gone))], _out(graph, op))


@converts("expand", "tile")
def _expand(graph: Graph, op: Operator) -> None:
    times, x = list(op.attr("expand_times" if op.type == "expand" else "repeat_times")), _in(graph, op, "X")
    lack = len(times) - len(graph.shape(op.input("X")[0]))
    if lack > 0:
        x = graph.add("Unsqueeze", [x, graph.longs(range(lack))])
    graph.add("Tile", [x, graph.longs([1] * -lack + times)], _out(graph, op))


@converts("expand_v2")
def _expand_v2(graph: Graph, op: Operator) -> None:
    graph.add("Expand", [_in(graph, op, "X"), graph.longs([max(extent, 1) for extent in op.attr("shape")])], _out(graph, op))


@converts("pad", "pad2d")
def _pad(graph: Graph, op: Operator) -> None:
    x, pads, mode = op.input("X")[0], [int(n) for n in op.attr("paddings")], "constant"
    if op.type == "pad2d":
        mode, is_last, zero = str(op.attr("mode")), op.attr("data_format") == "NHWC", graph.longs([0])
        sides = [graph.longs([n]) for n in pads]
        if _has(op, "Paddings"):                       # top, bottom, left, right
            given = graph.add("Cast", [_in(graph, op, "Paddings")], to=int(graph.onnx.TensorProto.INT64))
            sides = [graph.add("Gather", [given, graph.longs([k])]) for k in range(4)]
        before, behind = ([zero, *two, zero] if is_last else [zero, zero, *two] for two in (sides[::2], sides[1::2]))
        amounts = graph.add("Concat", [*before, *behind], axis=0)
    else:
        amounts = graph.longs([*pads[::2], *pads[1::2]])
    inputs = [graph.name_of(x), amounts]
    graph.add("Pad", inputs + ([graph.number(op.attr("pad_value"), x)] if mode == "constant" else []), _out(graph, op), mode=mode)


@converts("cast")
def _cast(graph: Graph, op: Operator) -> None:
    graph.add("Cast", [_in(graph, op, "X")], _out(graph, op), to=_type_of(graph, op.output("Out")[0]))


# -- look-ups ----------------------------------------------------------------------------------------------------------------


@converts("lookup_table")
def _lookup_table(graph: Graph, op: Operator) -> None:
    ids = graph.add("Squeeze", [_in(graph, op, "Ids"), graph.longs([-1])])
    padding = op.attr("padding_idx")
    if padding == -1:
        graph.add("Gather", [_in(graph, op, "W"), ids], _out(graph, op), axis=0)
        return
    rows = graph.add("Gather", [_in(graph, op, "W"), ids], axis=0)
    is_padding = graph.add("Unsqueeze", [graph.add("Equal", [ids, graph.longs([padding])]), graph.longs([-1])])
    graph.add("Where", [is_padding, graph.number(0.0, op.input("W")[0]), rows], _out(graph, op))


@converts("gather")
def _gather(graph: Graph, op: Operator) -> None:
    index = op.input("Index")[0]
    value = graph.name_of(index)
    if len(graph.shape(index)) == 2:
        value = graph.add("Squeeze", [value, graph.longs([1])])
    graph.add("Gather", [_in(graph, op, "X"), value], _out(graph, op), axis=0)


@converts("gather_nd")
def _gather_nd(graph: Graph, op: Operator) -> None:
    index = graph.add("Cast", [_in(graph, op, "Index")], to=int(graph.onnx.TensorProto.INT64))
    graph.add("GatherND", [_in(graph, op, "X"), index], _out(graph, op))


@converts("arg_max", "arg_min")
def _arg(graph: Graph, op: Operator) -> None:
    graph.add({"arg_max": "ArgMax", "arg_min": "ArgMin"}[op.type], [_in(graph, op, "X")], _out(graph, op), axis=int(op.attr("axis")),
              keepdims=0)


@converts("cumsum")
def _cumsum(graph: Graph, op: Operator) -> None:
    graph.add("CumSum", [_in(graph, op, "X"), graph.constant(op.attr("axis"), np.int64)], _out(graph, op),
              exclusive=int(op.attr("exclusive")), reverse=int(op.attr("reverse")))


@converts("one_hot")
def _one_hot(graph: Graph, op: Operator) -> None:
    ids = graph.add("Squeeze", [_in(graph, op, "X"), graph.longs([-1])])
    graph.add("OneHot", [ids, graph.constant(op.attr("depth"), np.int64), graph.constant([0, 1], np.float32)], _out(graph, op))


@converts("top_k")
def _top_k(graph: Graph, op: Operator) -> None:
    count = graph.longs([op.attr("k")])
    if _has(op, "K"):
        count = graph.add("Cast", [graph.add("Reshape", [_in(graph, op, "K"), graph.longs([1])])], to=int(graph.onnx.TensorProto.INT64))
    graph.add_node("TopK", [_in(graph, op, "X"), count], [_out(graph, op), _out(graph, op, "Indices")], axis=-1)


@converts("fill_constant")
def _fill_constant(graph: Graph, op: Operator) -> None:
    out = op.output("Out")[0]
    value = np.full(op.attr("shape"), op.attr("value"), graph.dtype(out))
    graph.constants[graph.written(out)] = value


@converts("assign_value")
def _assign_value(graph: Graph, op: Operator) -> None:
    out = op.output("Out")[0]
    values: Any = next((op.attr(name) for name in op.attr_names if name.endswith("_values") and op.attr(name)), [])
    graph.constants[graph.written(out)] = np.array(values, graph.dtype(out)).reshape(op.attr("shape"))


# -- reductions ----------------------------------------------------------------------------------------------------------------


@converts("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "mean")
def _reduce(graph: Graph, op: Operator) -> None:
    kind = {"reduce_sum": "ReduceSum", "reduce_mean": "ReduceMean", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin",
            "reduce_prod": "ReduceProd",
            "mean": "ReduceMean"}[op.type]
    rank = len(graph.shape(op.input("X")[0]))
    dims = list(range(rank)) if op.type == "mean" or op.attr("reduce_all") else [int(dim) for dim in op.attr("dim")]
    keeps = op.type != "mean" and op.attr("keep_dim")
    axes: dict[str, Any] = {} if kind == "ReduceSum" else {"axes": dims}
    inputs = [_in(graph, op, "X"), *([graph.longs(dims)] if kind == "ReduceSum" else [])]
    scalar = not keeps and len(dims) == rank           # [1] here, [] there
    reduced = graph.add(kind, inputs, None if scalar else _out(graph, op), keepdims=int(bool(keeps)), **axes)
    if scalar:
        graph.add("Reshape", [reduced, graph.longs([1])], _out(graph, op))


# -- nets --------------------------------------------------------------------------------------------------------------------


def _pads(values: Sequence[int]) -> list[int]:
    return [*map(int, values), *map(int, values)]


@converts("conv2d", "depthwise_conv2d", "conv3d", "conv2d_transpose", "conv3d_transpose", "depthwise_conv2d_transpose")
def _conv(graph: Graph, op: Operator) -> None:
    inputs = [_in(graph, op, slot) for slot in ("Input", "Filter", "Bias") if _has(op, slot)]
    how: dict[str, Any] = {"strides": [int(n) for n in op.attr("strides")], "pads": _pads(op.attr("paddings")),
                           "dilations": [int(n) for n in op.attr("dilations")], "group": int(op.attr("groups") or 1)}
    if "transpose" not in op.type:
        windows = [dilation * (k - 1) + 1 for dilation, k in zip(how["dilations"], graph.shape(op.input("Filter")[0])[2:])]
        how["pads"] = reaching(how["pads"], graph.shape(op.input("Input")[0])[2:], windows)
    if "transpose" in op.type and _attr(op, "output_size"):
        how["output_padding"] = _beyond(graph, op)
    graph.add("ConvTranspose" if "transpose" in op.type else "Conv", inputs, _out(graph, op, "Output"), **how)


def _beyond(graph: Graph, op: Operator) -> list[int]:
    """How much larger than the smallest that fits an output of a given size is."""
    extents, kernel = graph.shape(op.input("Input")[0])[2:], graph.shape(op.input("Filter")[0])[2:]
    if min(extents) < 0:
        raise _refuse(op, "an output_size is exported of inputs of known sizes only")
    return [int(size) - ((n - 1) * stride - 2 * pad + dilation * (k - 1) + 1)
            for size, n, k, stride, pad, dilation in zip(op.attr("output_size"), extents, kernel, op.attr("strides"), op.attr("paddings"),
                                                         op.attr("dilations"))]


@converts("pool2d", "pool3d")
def _pool(graph: Graph, op: Operator) -> None:
    is_max, source = op.attr("pooling_type") == "max", _in(graph, op, "X")
    sizes = [int(n) for n in op.attr("ksize")]
    if op.attr("global_pooling") or (op.attr("adaptive") and set(sizes) == {1}):
        graph.add("GlobalMaxPool" if is_max else "GlobalAveragePool", [source], _out(graph, op))
        return
    if op.attr("adaptive"):                            # equal windows side by side
        extents = graph.shape(op.input("X")[0])[2:]
        if min(extents) < 0:
            raise _refuse(op, f"{op.input('X')[0]!r} is {graph.shape(op.input('X')[0])}; adaptive pools are exported of images of known "
                              "sizes only")
        if any(extent % size for extent, size in zip(extents, sizes)):
            windows_of = [[(o * n // size, -(-(o + 1) * n // size)) for o in range(size)] for n, size in zip(extents, sizes)]
            graph.add("Identity", [pooled(graph, source, windows_of, is_max)], _out(graph, op))
            return
        windows = [extent // size for extent, size in zip(extents, sizes)]
        graph.add("MaxPool" if is_max else "AveragePool", [source], _out(graph, op), kernel_shape=windows, strides=windows)
        return
    pads, counts = reaching(_pads(op.attr("paddings")), graph.shape(op.input("X")[0])[2:], sizes), not is_max and not op.attr("exclusive")
    rounds_up = bool(op.attr("ceil_mode"))
    if rounds_up and counts:                           # runtimes differ about the edge: make all that a window sees a part of the image
        ends = [int(end) + int(stride) - 1 for end, stride in zip(pads[len(sizes):], op.attr("strides"))]
        source = graph.add("Pad", [source, graph.longs([0, 0, *pads[:len(sizes)], 0, 0, *ends])])
        pads, counts, rounds_up = [0] * len(pads), False, False
    how: dict[str, Any] = {} if is_max else {"count_include_pad": int(counts)}
    graph.add("MaxPool" if is_max else "AveragePool", [source], _out(graph, op), kernel_shape=sizes,
              strides=[int(n) for n in op.attr("strides")], pads=pads, ceil_mode=int(rounds_up), **how)


@converts("batch_norm", "sync_batch_norm")
def _batch_norm(graph: Graph, op: Operator) -> None:
    x, last = graph.name_of(op.input("X")[0]), len(graph.shape(op.input("X")[0])) - 1
    is_last = op.attr("data_layout") == "NHWC" and last > 1
    if is_last:
        x = graph.add("Transpose", [x], perm=[0, last, *range(1, last)])
    inputs = [x, *(_in(graph, op, slot) for slot in ("Scale", "Bias", "Mean", "Variance"))]
    value = graph.add("BatchNormalization", inputs, None if is_last else _out(graph, op, "Y"), epsilon=float(op.attr("epsilon")))
    if is_last:
        graph.add("Transpose", [value], _out(graph, op, "Y"), perm=[0, *range(2, last + 1), 1])


@converts("layer_norm")
def _layer_norm(graph: Graph, op: Operator) -> None:
    x, begin = op.input("X")[0], int(op.attr("begin_norm_axis"))
    shape = graph.shape(x)
    inner = graph.add("Slice", [graph.add("Shape", [graph.name_of(x)]), graph.longs([begin]), graph.longs([len(shape)])])
    axes = list(range(begin, len(shape)))
    centred = graph.add("Sub", [graph.name_of(x), graph.add("ReduceMean", [graph.name_of(x)], axes=axes, keepdims=1)])
    variance = graph.add("ReduceMean", [graph.add("Mul", [centred, centred])], axes=axes, keepdims=1)
    value = graph.add("Div", [centred, graph.add("Sqrt", [graph.add("Add", [variance, graph.number(op.attr("epsilon"), x)])])])
    for slot, kind in (("Scale", "Mul"), ("Bias", "Add")):
        if _has(op, slot):
            value = graph.add(kind, [value, graph.add("Reshape", [_in(graph, op, slot), inner])])
    graph.add("Identity", [value], _out(graph, op, "Y"))


@converts("dropout")
def _dropout(graph: Graph, op: Operator) -> None:
    x = op.input("X")[0]
    factor = 1.0 if op.attr("dropout_implementation") == "upscale_in_train" else 1.0 - op.attr("dropout_prob")
    graph.add("Mul", [graph.name_of(x), graph.number(factor, x)], _out(graph, op))
