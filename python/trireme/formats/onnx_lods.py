"""Sequences as nodes: where each begins and ends, to which one a row belongs, and sequences side by side in one tensor.

The offsets of the sequences are a value of the graph ([sequences + 1] int64). What is worked out from them is made once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..program import Operator
from .onnx_graph import Graph
from .onnx_registry import _refuse

TO_THE_END = 2**63 - 1


class Sequences:
    """The sequences that offsets tell of."""

    def __init__(self, graph: Graph, offsets: str) -> None:
        self.graph, self.offsets = graph, offsets

    def _once(self, what: str, make: Callable[[], str]) -> str:
        return self.graph.once((what, self.offsets), make)

    def _part(self, first: int, last: int) -> str:
        return self.graph.add("Slice", [self.offsets, self.graph.longs([first]), self.graph.longs([last])])

    @property
    def starts(self) -> str:
        return self._once("starts", lambda: self._part(0, -1))

    @property
    def ends(self) -> str:
        return self._once("ends", lambda: self._part(1, TO_THE_END))

    @property
    def lengths(self) -> str:
        return self._once("lengths", lambda: self.graph.add("Sub", [self.ends, self.starts]))

    @property
    def count(self) -> str:
        """How many sequences there are: a number without dimensions."""
        return self._once("count", lambda: self.graph.add("Size", [self.starts]))

    @property
    def rows(self) -> str:
        """How many rows all have: a number without dimensions."""
        return self._once("rows", lambda: self.graph.add("Gather", [self.offsets, self.graph.constant(-1, np.int64)]))

    @property
    def longest(self) -> str:
        """How many rows the longest has: a number without dimensions."""
        graph = self.graph
        return self._once("longest", lambda: graph.add("ReduceMax", [graph.add("Concat", [self.lengths, graph.longs([0])], axis=0)],
                                                       keepdims=0))

    @property
    def owner(self) -> str:
        """The number of the sequence of each row."""
        return self._once("owner", self._owner)

    def _owner(self) -> str:
        graph, add, one = self.graph, self.graph.add, self.graph.constant(1, np.int64)
        room = add("Expand", [graph.constant(0, np.int64), add("Unsqueeze", [add("Add", [self.rows, one]), graph.longs([0])])])
        ones = add("Expand", [one, add("Shape", [self.starts])])
        marks = add("ScatterElements", [room, self.starts, ones], axis=0, reduction="add")         # how many sequences begin at a row
        begun = add("CumSum", [marks, graph.constant(0, np.int64)])
        return add("Sub", [add("Slice", [begun, graph.longs([0]), graph.longs([-1])]), one])

    def of_rows(self, value: str) -> str:
        """For each row what a value has for the row's sequence."""
        return self.graph.add("Gather", [value, self.owner])

    @property
    def numbers(self) -> str:
        """0, 1, ... for all rows."""
        return self._once("numbers", lambda: numbered(self.graph, self.rows))

    @property
    def place(self) -> str:
        """The place of each row in its sequence, from 0 on."""
        return self._once("place", lambda: self.graph.add("Sub", [self.numbers, self.of_rows(self.starts)]))

    @property
    def place_from_end(self) -> str:
        """The place of each row in its sequence, counted from the last row on."""
        graph = self.graph
        return self._once("place_from_end",
                          lambda: graph.add("Sub", [graph.add("Sub", [self.of_rows(self.ends), graph.constant(1, np.int64)]),
                                                    self.numbers]))

    # -- side by side --------------------------------------------------------------------------------------------------------

    @property
    def scanned(self) -> str:
        """How many steps a Scan goes: those of the longest sequence, and at least one, since runtimes refuse a Scan of none."""
        return self._once("scanned", lambda: self.graph.add("Max", [self.longest, self.graph.constant(1, np.int64)]))

    def steps(self, is_reverse: bool = False, count: str | None = None) -> str:
        """The row that is step t of sequence i, at [t, i]; the number of all rows where the sequence is over. ``count`` steps, or those of
        a Scan."""
        return self._once(f"steps {is_reverse} {count}", lambda: self._steps(is_reverse, count or self.scanned))

    def _steps(self, is_reverse: bool, count: str) -> str:
        graph, add = self.graph, self.graph.add
        step = add("Unsqueeze", [numbered(graph, count), graph.longs([1])])
        goes_on = add("Less", [step, self.lengths])
        if is_reverse:
            row = add("Sub", [add("Sub", [self.ends, graph.constant(1, np.int64)]), step])
        else:
            row = add("Add", [self.starts, step])
        return add("Where", [goes_on, row, self.rows])

    def side_by_side(self, value: str, fill: str, is_reverse: bool = False, count: str | None = None) -> str:
        """Lay the sequences of a value side by side: [steps, sequences, ...], with ``fill`` behind the ends; ``steps`` says how many
        steps."""
        return self.graph.add("Gather", [with_rows(self.graph, value, fill), self.steps(is_reverse, count)], axis=0)

    def over(self, kind: str, value: str, fill: str) -> str:
        """Reduce each sequence to one row: by ReduceSum or ReduceMax, and to ``fill`` where it has no rows."""
        graph = self.graph
        steps = self.side_by_side(value, fill)
        if kind == "ReduceSum":
            return graph.add(kind, [steps, graph.longs([0])], keepdims=0)
        return graph.add(kind, [steps], axes=[0], keepdims=0)

    def in_a_row(self, value: str, is_reverse: bool = False) -> str:
        """Put sequences that lie side by side ([steps, sequences, ...]) one behind the other again."""
        graph, add = self.graph, self.graph.add
        place = self.place_from_end if is_reverse else self.place
        return add("GatherND", [value, add("Concat", [add("Unsqueeze", [each, graph.longs([1])]) for each in (place, self.owner)], axis=1)])


def numbered(graph: Graph, count: str) -> str:
    """0, 1, ... count - 1"""
    return graph.add("Range", [graph.constant(0, np.int64), count, graph.constant(1, np.int64)])


def with_rows(graph: Graph, value: str, fill: str) -> str:
    """A value and, behind it, one more row: of this number, or these numbers."""
    rest = graph.add("Slice", [graph.add("Shape", [value]), graph.longs([1]), graph.longs([TO_THE_END])])
    row = graph.add("Expand", [fill, graph.add("Concat", [graph.longs([1]), rest], axis=0)])
    return graph.add("Concat", [value, row], axis=0)


def offsets_from(graph: Graph, lengths: str) -> str:
    """The offsets of sequences of these lengths."""
    return graph.add("Concat", [graph.longs([0]), graph.add("CumSum", [lengths, graph.constant(0, np.int64)])], axis=0)


def picked(graph: Graph, starts: str, lengths: str) -> tuple[str, str]:
    """The rows of sequences that begin and are as long as this says, one behind the other; and the offsets of these."""
    offsets = offsets_from(graph, lengths)
    new = Sequences(graph, offsets)
    return graph.add("Add", [new.of_rows(starts), new.place]), offsets


def sequences_of(graph: Graph, op: Operator, slot: str, index: int = 0, level: int = -1) -> Sequences:
    """The sequences of an input: of its last level, or another one."""
    name = op.input(slot)[index]
    lods = graph.lods(name)
    if not lods:
        raise _refuse(op, f"{name!r} has no sequences here: what is fed gets them by lod_level in layers.data")
    if level >= len(lods):
        raise _refuse(op, f"{name!r} has {len(lods)} levels of sequences, and no level {level}")
    return Sequences(graph, lods[level])


def like_rows(graph: Graph, value: str, rank: int) -> str:
    """One number for each row ([n]) in as many dimensions as the rows have: [n, 1, ...]."""
    return value if rank == 1 else graph.add("Reshape", [value, graph.longs([-1, *[1] * (rank - 1)])])
