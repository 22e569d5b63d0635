"""Which function makes nodes of an operator, by its type; and what these functions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..native.dtypes import VarType
from ..native.errors import UnsupportedError
from ..program import Operator
from .onnx_graph import Graph

Converter = Callable[[Graph, Operator], None]
CONVERTERS: dict[str, Converter] = {}


def converts(*types: str) -> Callable[[Converter], Converter]:
    def put(function: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(types, function))
        return function

    return put


def convert(graph: Graph, ops: Iterable[Operator]) -> None:
    """Append the nodes of these operators of the graph's block."""
    for index, op in enumerate(ops):
        if op.type in ("feed", "fetch"):
            continue
        if op.type not in CONVERTERS:
            place = f"operator {index} of block {graph.block.idx}" if graph.parent else f"operator {index}"
            raise UnsupportedError(f"export_onnx: {place} ({op.type}) has no counterpart in ONNX, or none that is known here: "
                                   "docs/formats-of-others.md says why")
        CONVERTERS[op.type](graph, op)
        _hand_on_sequences(graph, op)


def _hand_on_sequences(graph: Graph, op: Operator) -> None:
    """Outputs that have sequences have those of the first input of as many levels, unless the operator has given them others."""
    for name in op.output_arg_names:
        var = graph.var(name)
        levels = var.lod_level if var.type == VarType.LOD_TENSOR and graph.find(name) is not None else 0
        if levels and not graph.lods(name):
            found = (graph.lods(source) for source in op.input_arg_names if source != "@EMPTY@")
            graph.put_lods(name, next((lods for lods in found if len(lods) == levels), []))


def _in(graph: Graph, op: Operator, slot: str, index: int = 0) -> str:
    return graph.name_of(op.input(slot)[index])


def _has(op: Operator, slot: str) -> bool:
    return slot in op.input_names and bool(op.input(slot)) and op.input(slot)[0] != "@EMPTY@"


def _out(graph: Graph, op: Operator, slot: str = "Out", index: int = 0) -> str:
    return graph.written(op.output(slot)[index])


def _attr(op: Operator, name: str, default: Any = None) -> Any:
    return op.attr(name) if op.has_attr(name) else default


def _refuse(op: Operator, why: str) -> UnsupportedError:
    return UnsupportedError(f"export_onnx: {op.type}: {why}")


def _type_of(graph: Graph, var: str) -> int:
    return graph.type_of(var)


def _scalar(graph: Graph, op: Operator, slot: str) -> str:
    """The one number of an input, as ONNX wants it: without dimensions."""
    return graph.add("Reshape", [_in(graph, op, slot), graph.longs([])])


def _int64(graph: Graph, value: str) -> str:
    return graph.add("Cast", [value], to=int(graph.onnx.TensorProto.INT64))
