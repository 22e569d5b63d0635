"""What operators that look at windows of each row, image or tree are in ONNX, where no node does the same."""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_blocks import scanned
from .onnx_graph import Graph
from .onnx_lods import numbered
from .onnx_pieces import extent, pooled
from .onnx_registry import _in, _out, _refuse, _type_of, converts


@converts("print")
def _print(graph: Graph, op: Operator) -> None:
    """What passes through is the same; nothing is printed."""
    if op.output("Out"):
        graph.add("Identity", [_in(graph, op, "In")], _out(graph, op))


@converts("conv_shift")
def _conv_shift(graph: Graph, op: Operator) -> None:
    x, y = op.input("X")[0], op.input("Y")[0]
    wide, narrow, one = (*(extent(graph, graph.name_of(name), 1) for name in (x, y)), graph.constant(1, np.int64))
    half = graph.add("Div", [graph.add("Sub", [narrow, one]), graph.constant(2, np.int64)])
    taps = graph.add("Sub", [numbered(graph, narrow), half])
    places = graph.add("Mod", [graph.add("Add", [graph.add("Unsqueeze", [numbered(graph, wide), graph.longs([1])]), taps]), wide])
    windows = graph.add("Gather", [graph.name_of(x), places], axis=1)                  # [rows, wide, narrow]
    sums = graph.add("MatMul", [windows, graph.add("Unsqueeze", [graph.name_of(y), graph.longs([-1])])])
    graph.add("Squeeze", [sums, graph.longs([-1])], _out(graph, op))


@converts("spp")
def _spp(graph: Graph, op: Operator) -> None:
    x, add, is_max = op.input("X")[0], graph.add, op.attr("pooling_type") == "max"
    extents = graph.shape(x)[2:]
    if min(extents) < 1:
        raise _refuse(op, f"{x!r} is {graph.shape(x)}; the size of the images must be known")
    levels = []
    for level in range(int(op.attr("pyramid_height"))):
        windows = 2**level
        cells = pooled(graph, graph.name_of(x), [[_window(n, windows, o) for o in range(windows)] for n in extents], is_max)
        levels.append(add("Flatten", [cells], axis=1))
    add("Concat", levels, _out(graph, op), axis=1)


def _window(n: int, windows: int, o: int) -> tuple[int, int]:
    """From where to where, along an axis of n elements, window ``o`` of as many goes; perhaps nowhere."""
    size = -(-n // windows)
    pad = (size * windows - n + 1) // 2
    return max(o * size - pad, 0), min((o + 1) * size - pad, n)


@converts("similarity_focus")
def _similarity_focus(graph: Graph, op: Operator) -> None:
    """Round by round the largest element whose row and column are free; all samples and matrices at once."""
    x, add, axis, indexes = op.input("X")[0], graph.add, int(op.attr("axis")), [int(index) for index in op.attr("indexes")]
    others, to, truth = [dim for dim in (1, 2, 3) if dim != axis], _type_of(graph, x), int(graph.onnx.TensorProto.BOOL)
    rows, columns = (graph.shape(x)[dim] for dim in others)
    if min(rows, columns) < 1:
        raise _refuse(op, f"{x!r} is {graph.shape(x)}; the matrices' size must be known")
    picked = add("Transpose", [add("Gather", [graph.name_of(x), graph.longs(indexes)], axis=axis)], perm=[0, axis, *others])
    matrices = add("Reshape", [picked, graph.longs([-1, rows * columns])])
    finite = add("Max", [matrices, graph.number(np.finfo(graph.dtype(x)).min, x)])
    row, column = np.divmod(np.arange(rows * columns)[None, :], columns)
    taken = graph.number(-np.inf, x)

    def round(body: Graph, states: list[str], _: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        scores, mask = states
        best = body.add("ArgMax", [scores], axis=1, keepdims=1)
        in_row, in_column = (body.add("Equal", [body.add(kind, [best, body.constant(columns, np.int64)]), body.constant(which, np.int64)])
                             for kind, which in (("Div", row), ("Mod", column)))
        left = body.add("Where", [body.add("Or", [in_row, in_column]), taken, scores])
        return [left, body.add("Or", [mask, body.add("And", [in_row, in_column])])], []

    nothing = add("Cast", [add("Mul", [finite, graph.number(0.0, x)])], to=truth)
    rounds = graph.longs(range(min(rows, columns)))
    [_, mask], _ = scanned(graph, [(finite, to), (nothing, truth)], [(rounds, int(graph.onnx.TensorProto.INT64))], round)
    of_samples = add("ReduceMax", [add("Reshape", [add("Cast", [mask], to=to), graph.longs([-1, len(indexes), rows, columns])])], axes=[1],
                     keepdims=0)
    add("Expand", [add("Unsqueeze", [of_samples, graph.longs([axis])]), add("Shape", [graph.name_of(x)])], _out(graph, op))


@converts("tree_conv")
def _tree_conv(graph: Graph, op: Operator) -> None:
    x, add, depth = op.input("NodesVector")[0], graph.add, int(op.attr("max_depth"))
    to, int64 = _type_of(graph, x), int(graph.onnx.TensorProto.INT64)
    zero, one = graph.number(0.0, x), graph.number(1.0, x)
    edges = add("Cast", [_in(graph, op, "EdgeSet")], to=int64)                         # [batch, edges, 2]
    zeros = add("Cast", [add("Equal", [add("ReduceMin", [edges], axes=[2], keepdims=1), graph.constant(0, np.int64)])], to=int64)
    is_used = add("Equal", [add("CumSum", [zeros, graph.constant(1, np.int64)]), graph.constant(0, np.int64)])      # [batch, edges, 1]
    used = add("Cast", [is_used], to=to)
    numbers = add("Range", [graph.constant(1, np.int64), add("Add", [extent(graph, graph.name_of(x), 1), graph.constant(1, np.int64)]),
                            graph.constant(1, np.int64)])
    ends = [add("Mul", [used, add("Cast", [add("Equal", [add("Gather", [edges, graph.longs([side])], axis=2), numbers])], to=to)])
            for side in (0, 1)]
    parents = add("Transpose", [ends[0]], perm=[0, 2, 1])                              # [batch, nodes, edges]
    siblings = add("ReduceSum", [parents, graph.longs([2])], keepdims=1)               # [batch, nodes, 1]: children of each node
    so_far = add("CumSum", [ends[0], graph.constant(1, np.int64)])                     # children of the node up to this edge
    index = add("ReduceSum", [add("Mul", [so_far, ends[0]]), graph.longs([2])], keepdims=1)         # [batch, edges, 1]
    count = add("MatMul", [ends[0], siblings])
    is_alone = add("Equal", [count, one])
    place = add("Where", [is_alone, graph.number(0.5, x),
                          add("Div", [add("Sub", [index, one]), add("Max", [add("Sub", [count, one]), one])])])
    children = add("MatMul", [parents, ends[1]])                                       # [batch, nodes, nodes]: who is whose child
    places = add("MatMul", [parents, add("Mul", [ends[1], place])])                    # and where, from 0 to 1
    named = add("Add", [add("ReduceSum", [used, graph.longs([1])], keepdims=1), one])
    is_root = add("Cast", [add("LessOrEqual", [add("Cast", [add("Unsqueeze", [numbers, graph.longs([1])])], to=to), named])], to=to)
    windows: list[list[str]] = [[], [], []]            # [batch, nodes, nodes] of left, right and top, for each generation
    reached = add("EyeLike", [add("Expand", [zero, add("Concat", [extent(graph, graph.name_of(x), 1, [1])] * 2, axis=0)])])
    left = None
    for generation in range(depth):
        top = (depth - generation) / depth
        if generation:
            before = reached
            reached = add("MatMul", [before, children])
            left = add("Mul", [add("MatMul", [before, places]), graph.number(1 - top, x)])
            windows[0].append(left)
            windows[1].append(add("Mul", [add("Sub", [reached, left]), graph.number(1 - top, x)]))
        windows[2].append(add("Mul", [reached, graph.number(top, x)]))
    filters = graph.shape(op.input("Filter")[0])
    parts = []
    for k, mixed in enumerate(windows):
        if not mixed:
            continue
        window = add("Mul", [add("Sum", mixed) if len(mixed) > 1 else mixed[0], is_root])
        filter = add("Reshape", [add("Gather", [_in(graph, op, "Filter"), graph.constant(k, np.int64)], axis=1),
                                 graph.longs([filters[0], -1])])
        parts.append(add("MatMul", [add("MatMul", [window, graph.name_of(x)]), filter]))
    shape = add("Concat", [add("Slice", [add("Shape", [graph.name_of(x)]), graph.longs([0]), graph.longs([2])]), graph.longs(filters[2:])],
                axis=0)
    add("Reshape", [add("Sum", parts) if len(parts) > 1 else parts[0], shape], _out(graph, op))
