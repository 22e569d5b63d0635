"""Pieces of tensors that several operators are made of: pools of windows that differ in size, and parts of shapes."""

from __future__ import annotations

from collections.abc import Sequence

from .onnx_graph import Graph

Window = tuple[int, int]                               # from where to where; perhaps nowhere


def pooled(graph: Graph, value: str, windows: Sequence[Sequence[Window]], is_max: bool) -> str:
    """The largest elements, or averages, of these windows of each axis from 2 on; 0 of an empty window."""
    for axis, of_axis in enumerate(windows, start=2):
        parts = [_pooled(graph, value, axis, window, is_max) for window in of_axis]
        value = graph.add("Concat", parts, axis=axis) if len(parts) > 1 else parts[0]
    return value


def _pooled(graph: Graph, value: str, axis: int, window: Window, is_max: bool) -> str:
    first, last = window
    if last <= first:
        row = graph.add("Slice", [value, graph.longs([0]), graph.longs([1]), graph.longs([axis])])
        return graph.add("Sub", [row, row])
    part = graph.add("Slice", [value, graph.longs([first]), graph.longs([last]), graph.longs([axis])])
    return graph.add("ReduceMax" if is_max else "ReduceMean", [part], axes=[axis], keepdims=1)


def extent(graph: Graph, value: str, axis: int, shape: Sequence[int] = ()) -> str:
    """How long a value is along an axis: a number without dimensions, or of this shape."""
    return graph.add("Reshape", [graph.add("Gather", [graph.add("Shape", [value]), graph.longs([axis])]), graph.longs(shape)])


def shape_of(graph: Graph, *parts: int | str) -> str:
    """A shape for Reshape of numbers, and of values that are parts of one."""
    return graph.add("Concat", [graph.longs([part]) if isinstance(part, int) else part for part in parts], axis=0)


def part_of_shape(graph: Graph, value: str, first: int, last: int = 2**63 - 1) -> str:
    """Some dimensions of a value, one after the other."""
    return graph.add("Slice", [graph.add("Shape", [value]), graph.longs([first]), graph.longs([last])])


def extents(graph: Graph, value: str, axes: Sequence[int]) -> list[str]:
    """How long a value is along these axes, each as [1]."""
    return [extent(graph, value, axis, [1]) for axis in axes]


def reaching(pads: list[int], extents: Sequence[int], windows: Sequence[int]) -> list[int]:
    """``pads``, and what a window reaches beyond a padded image that is smaller: ONNX has no place for it."""
    rank = len(windows)
    beyond = [max(0, window - n - pads[i] - pads[rank + i]) if n >= 0 else 0 for i, (n, window) in enumerate(zip(extents, windows))]
    return [*pads[:rank], *(end + more for end, more in zip(pads[rank:], beyond))]
