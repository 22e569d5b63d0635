"""What operators that compare labels of sequences are in ONNX: random fields, costs of labels without places, distances, chunks.

All are a Scan over the steps of all sequences side by side, where a sequence that is over keeps its state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..program import Operator
from .onnx_blocks import scanned
from .onnx_graph import Graph
from .onnx_lods import Sequences, numbered, sequences_of
from .onnx_registry import _has, _in, _int64, _out, _type_of, converts

NEVER = -1e30                                          # the log of 0, as a number


class _Steps:
    """The steps of sequences side by side, as items of a Scan: whether each goes on, and whether a step is the first."""

    def __init__(self, graph: Graph, s: Sequences) -> None:
        types = graph.onnx.TensorProto
        # [steps, sequences, 1]
        goes_on = graph.add("Unsqueeze", [graph.add("Not", [graph.add("Equal", [s.steps(), s.rows])]), graph.longs([2])])
        self.number = numbered(graph, s.scanned)
        is_first = graph.add("Equal", [self.number, graph.constant(0, np.int64)])
        self.items = [(goes_on, int(types.BOOL)), (is_first, int(types.BOOL))]


def _matrix(graph: Graph, value: str, first: int, last: int) -> str:
    return graph.add("Slice", [value, graph.longs([first]), graph.longs([last]), graph.longs([0])])


def _flat(graph: Graph, op: Operator, slot: str) -> str:
    return graph.add("Reshape", [_int64(graph, _in(graph, op, slot)), graph.longs([-1])])


# -- conditional random fields -----------------------------------------------------------------------------------------------


class _Field:
    """The scores of a conditional random field, and those of rows side by side."""

    def __init__(self, graph: Graph, op: Operator) -> None:
        self.x, weights = op.input("Emission")[0], _in(graph, op, "Transition")
        self.s, self.type = sequences_of(graph, op, "Emission"), _type_of(graph, self.x)
        self.tags = graph.shape(op.input("Transition")[0])[1]
        self.first, self.last, self.next = (_matrix(graph, weights, *edges) for edges in ((0, 1), (1, 2), (2, self.tags + 2)))
        self.rows = self.s.side_by_side(graph.name_of(self.x), graph.number(0.0, self.x)), self.type
        shape = graph.add("Concat", [graph.add("Reshape", [self.s.count, graph.longs([1])]), graph.longs([self.tags])], axis=0)
        self.zeros = graph.add("Expand", [graph.number(0.0, self.x), shape]), self.type

    def ways(self, body: Graph, score: str) -> str:
        """Scores of ways to tag j (last) over tag i (middle) of the row before."""
        return body.add("Add", [body.add("Unsqueeze", [score, body.longs([2])]), self.next])


@converts("linear_chain_crf")
def _linear_chain_crf(graph: Graph, op: Operator) -> None:
    field = _Field(graph, op)
    s, x, add = field.s, field.x, graph.add

    def step(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        row, goes_on, is_first = items
        all = body.add("ReduceLogSumExp", [field.ways(body, states[0])], axes=[1], keepdims=0)
        score = body.add("Add", [body.add("Where", [is_first, field.first, all]), row])
        return [body.add("Where", [goes_on, score, states[0]])], []

    [behind], _ = scanned(graph, [field.zeros], [field.rows, *_Steps(graph, s).items], step)
    total = add("ReduceLogSumExp", [add("Add", [behind, field.last])], axes=[1], keepdims=0)
    label, zero = _flat(graph, op, "Label"), graph.constant(0, np.int64)
    score = add("Squeeze", [add("GatherElements", [graph.name_of(x), add("Unsqueeze", [label, graph.longs([1])])], axis=1),
                            graph.longs([1])])
    before = add("Slice", [add("Concat", [graph.longs([0]), label], axis=0), graph.longs([0]), graph.longs([-1])])
    follows = add("GatherND", [field.next, add("Concat", [add("Unsqueeze", [each, graph.longs([1])]) for each in (before, label)], axis=1)])
    begins, ends = (add("Gather", [add("Reshape", [matrix, graph.longs([-1])]), label]) for matrix in (field.first, field.last))
    score = add("Add", [score, add("Where", [add("Equal", [s.place, zero]), begins, follows])])
    score = add("Add", [score, add("Where", [add("Equal", [s.place_from_end, zero]), ends, graph.number(0.0, x)])])
    cost = add("Sub", [total, s.over("ReduceSum", score, graph.number(0.0, x))])
    is_some = add("Greater", [s.lengths, zero])
    add("Unsqueeze", [add("Where", [is_some, cost, graph.number(0.0, x)]), graph.longs([1])], _out(graph, op, "LogLikelihood"))


@converts("crf_decoding")
def _crf_decoding(graph: Graph, op: Operator) -> None:
    field, int64 = _Field(graph, op), int(graph.onnx.TensorProto.INT64)
    s, add, itself = field.s, graph.add, graph.constant(np.arange(field.tags)[None, :], np.int64)

    def on(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        row, goes_on, is_first = items
        ways = field.ways(body, states[0])
        best = body.add("ReduceMax", [ways], axes=[1], keepdims=0)
        score = body.add("Add", [body.add("Where", [is_first, field.first, best]), row])
        back = body.add("Where", [goes_on, body.add("ArgMax", [ways], axis=1, keepdims=0), itself])
        return [body.add("Where", [goes_on, score, states[0]])], [(back, int64)]

    def back(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        return [body.add("GatherElements", [items[0], states[0]], axis=1)], [(states[0], int64)]

    [behind], [came_from] = scanned(graph, [field.zeros], [field.rows, *_Steps(graph, s).items], on)
    last = add("ArgMax", [add("Add", [behind, field.last])], axis=1, keepdims=1)
    _, [tags] = scanned(graph, [(last, int64)], [(came_from, int64)], back, is_reverse=True)
    path = s.in_a_row(tags)
    if _has(op, "Label"):
        right = add("Equal", [add("Reshape", [path, graph.longs([-1])]), _flat(graph, op, "Label")])
        path = add("Unsqueeze", [_int64(graph, right), graph.longs([1])])
    add("Identity", [path], _out(graph, op, "ViterbiPath"))


# -- labels without places ---------------------------------------------------------------------------------------------------


def _ahead(graph: Graph, value: str, by: int, fill: float) -> str:
    """[n, states], moved on by so many states; ``fill`` comes in."""
    moved = graph.add("Pad", [value, graph.longs([0, by, 0, 0]), graph.constant(fill, np.float64)])
    return graph.add("Slice", [moved, graph.longs([0]), graph.longs([-by]), graph.longs([1])])


@converts("warpctc")
def _warpctc(graph: Graph, op: Operator) -> None:
    """Paths are in one of 2 labels + 1 states: blank, label 0, blank, label 1, ..., blank. States behind those of a shorter sequence lead
    nowhere."""
    x, add, double = op.input("Logits")[0], graph.add, int(graph.onnx.TensorProto.DOUBLE)
    s, of_labels, never = sequences_of(graph, op, "Logits"), sequences_of(graph, op, "Label"), graph.constant(NEVER, np.float64)
    label, blank = _flat(graph, op, "Label"), graph.constant(int(op.attr("blank")), np.int64)
    # [n, labels, 1]
    labels = add("Unsqueeze", [add("Transpose", [of_labels.side_by_side(label, blank, count=of_labels.longest)], perm=[1, 0]),
                               graph.longs([2])])
    pairs = add("Concat", [add("Expand", [blank, add("Shape", [labels])]), labels], axis=2)
    count = add("Reshape", [s.count, graph.longs([1])])
    width = add("Mul", [of_labels.longest, graph.constant(2, np.int64)])
    flat = add("Reshape", [pairs, add("Concat", [count, add("Reshape", [width, graph.longs([1])])], axis=0)], allowzero=1)
    # the class of each
    states = add("Concat", [flat, add("Expand", [blank, add("Concat", [count, graph.longs([1])], axis=0)])], axis=1)
    same = add("Equal", [add("Cast", [states], to=double), _ahead(graph, add("Cast", [states], to=double), 2, -1.0)])
    jump = add("Where", [same, never, graph.constant(0.0, np.float64)])
    logs = add("Max", [add("LogSoftmax", [add("Cast", [graph.name_of(x)], to=double)], axis=1), never])
    number = add("Unsqueeze", [numbered(graph, add("Add", [width, graph.constant(1, np.int64)])), graph.longs([0])])
    begins = add("Less", [number, graph.constant(2, np.int64)])

    def step(body: Graph, before: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        row, goes_on, is_first = items
        share = body.add("GatherElements", [row, states], axis=1)
        ways = [before[0], _ahead(body, before[0], 1, NEVER), body.add("Add", [_ahead(body, before[0], 2, NEVER), jump])]
        sums = body.add("ReduceLogSumExp", [body.add("Concat", [body.add("Unsqueeze", [way, body.longs([0])]) for way in ways], axis=0)],
                        axes=[0], keepdims=0)
        first = body.add("Where", [begins, share, never])
        new = body.add("Where", [is_first, first, body.add("Add", [sums, share])])
        return [body.add("Where", [goes_on, body.add("Max", [new, never]), before[0]])], []

    room = add("Expand", [never, add("Shape", [states])])
    [behind], _ = scanned(graph, [(room, double)], [(s.side_by_side(logs, graph.constant(0.0, np.float64)), double),
                                                    *_Steps(graph, s).items], step)
    last = add("Mul", [add("Unsqueeze", [of_labels.lengths, graph.longs([1])]), graph.constant(2, np.int64)])
    before_last = add("Max", [add("Sub", [last, graph.constant(1, np.int64)]), graph.constant(0, np.int64)])
    at_last, at_label = (add("GatherElements", [behind, index], axis=1) for index in (last, before_last))
    at_label = add("Where", [add("Equal", [last, graph.constant(0, np.int64)]), never, at_label])
    total = add("ReduceLogSumExp", [add("Concat", [at_last, at_label], axis=1)], axes=[1], keepdims=1)
    cost = add("Where", [add("LessOrEqual", [total, graph.constant(NEVER / 2, np.float64)]), graph.constant(np.inf, np.float64),
                         add("Neg", [total])])
    fits = add("Unsqueeze", [add("And", [add("Greater", [s.lengths, graph.constant(0, np.int64)]), _enough(graph, s, of_labels, label)]),
                             graph.longs([1])])
    add("Cast", [add("Where", [fits, cost, graph.constant(0.0, np.float64)])], _out(graph, op, "Loss"), to=_type_of(graph, x))


def _enough(graph: Graph, s: Sequences, of_labels: Sequences, label: str) -> str:
    """Whether sequences have a row for each label, and one more between equal neighbours."""
    add = graph.add
    before = add("Slice", [add("Concat", [graph.longs([-1]), label], axis=0), graph.longs([0]), graph.longs([-1])])
    repeats = _int64(graph, add("And", [add("Equal", [before, label]), add("Greater", [of_labels.place, graph.constant(0, np.int64)])]))
    needed = add("Add", [of_labels.lengths, of_labels.over("ReduceSum", repeats, graph.constant(0, np.int64))])
    return add("LessOrEqual", [needed, s.lengths])


# -- distances and chunks ----------------------------------------------------------------------------------------------------


@converts("edit_distance")
def _edit_distance(graph: Graph, op: Operator) -> None:
    """The table of Wagner and Fischer, a row for each word of Hyps. What comes from the left in a row is the least of all on the left, each
    so many steps away."""
    add, int64, s, refs = graph.add, int(graph.onnx.TensorProto.INT64), sequences_of(graph, op, "Hyps"), sequences_of(graph, op, "Refs")
    zero, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    # [sequences, longest of Refs]
    words = add("Transpose", [refs.side_by_side(_flat(graph, op, "Refs"), zero, count=refs.longest)], perm=[1, 0])
    hyps = add("Unsqueeze", [s.side_by_side(_flat(graph, op, "Hyps"), zero), graph.longs([2])])
    places = numbered(graph, add("Add", [refs.longest, one]))
    is_right_of = add("LessOrEqual", [places, add("Unsqueeze", [places, graph.longs([1])])])                         # [to, from]
    far = graph.constant(2**40, np.int64)
    steps = _Steps(graph, s)

    def step(body: Graph, states: list[str], items: list[str]) -> tuple[list[str], list[tuple[str, int]]]:
        hyp, goes_on, _, number = items
        cells = states[0]
        others = body.add("Add", [body.add("Slice", [cells, body.longs([1]), body.longs([2**62]), body.longs([1])]), one])
        differs = _int64(body, body.add("Not", [body.add("Equal", [words, hyp])]))
        changed = body.add("Add", [body.add("Slice", [cells, body.longs([0]), body.longs([-1]), body.longs([1])]), differs])
        edge = body.add("Expand", [body.add("Add", [number, one]), body.add("Shape", [hyp])])
        least = body.add("Sub", [body.add("Concat", [edge, body.add("Min", [others, changed])], axis=1), places])
        from_left = body.add("Where", [is_right_of, body.add("Unsqueeze", [least, body.longs([1])]), far])           # [sequences, to, from]
        new = body.add("Add", [body.add("ReduceMin", [from_left], axes=[2], keepdims=0), places])
        return [body.add("Where", [goes_on, new, cells])], []

    shape = add("Concat", [add("Reshape", [s.count, graph.longs([1])]), add("Shape", [places])], axis=0)
    [behind], _ = scanned(graph, [(add("Expand", [places, shape]), int64)], [(hyps, int64), *steps.items, (steps.number, int64)], step)
    lengths, to = add("Unsqueeze", [refs.lengths, graph.longs([1])]), int(graph.onnx.TensorProto.FLOAT)
    distance = add("Cast", [add("GatherElements", [behind, lengths], axis=1)], to=to)
    if op.attr("normalized"):
        add("Div", [distance, add("Cast", [lengths], to=to)], _out(graph, op))
    else:
        add("Identity", [distance], _out(graph, op))
    if op.output("SequenceNum"):
        add("Reshape", [s.count, graph.longs([1])], _out(graph, op, "SequenceNum"))


# tags of a type; those that begin and end a chunk
_SCHEMES = {"IOB": (2, [0], []), "IOE": (2, [], [1]), "IOBES": (4, [0, 3], [2, 3]), "plain": (1, [], [])}


def _is_one_of(graph: Graph, value: str, numbers: Sequence[int]) -> str:
    hits = _int64(graph, graph.add("Equal", [graph.add("Unsqueeze", [value, graph.longs([1])]), graph.longs(numbers)]))
    return graph.add("Greater", [graph.add("ReduceSum", [hits, graph.longs([1])], keepdims=0), graph.constant(0, np.int64)])


def _chunks(graph: Graph, op: Operator, slot: str, s: Sequences) -> tuple[str, str, str]:
    """For each row its type, whether a chunk that counts ends with it, and the first row of its chunk."""
    add, zero, one = graph.add, graph.constant(0, np.int64), graph.constant(1, np.int64)
    tags, begins, ends = _SCHEMES[op.attr("chunk_scheme")]
    number = _flat(graph, op, slot)
    type, tag = add("Div", [number, graph.constant(tags, np.int64)]), add("Mod", [number, graph.constant(tags, np.int64)])
    next_type, next_tag = (add("Slice", [add("Concat", [value, graph.longs([0])], axis=0), graph.longs([1]), graph.longs([2**62])])
                           for value in (type, tag))
    cut = add("Or", [add("Equal", [s.place_from_end, zero]), add("Not", [add("Equal", [type, next_type])])])
    cut = add("Or", [cut, add("Or", [_is_one_of(graph, tag, ends), _is_one_of(graph, next_tag, begins)])])
    counts = add("Less", [type, graph.constant(int(op.attr("num_chunk_types")), np.int64)])
    counts = add("And", [counts, add("Not", [_is_one_of(graph, type, [int(one) for one in op.attr("excluded_chunk_types")])])])
    behind = add("Add", [add("Reshape", [add("NonZero", [cut]), graph.longs([-1])]), one])
    firsts = add("Concat", [graph.longs([0]), behind], axis=0)
    chunk = add("CumSum", [_int64(graph, cut), zero], exclusive=1)
    return type, add("And", [cut, counts]), add("Gather", [firsts, chunk])


@converts("chunk_eval")
def _chunk_eval(graph: Graph, op: Operator) -> None:
    add, s, double, zero = graph.add, sequences_of(graph, op,
                                                   "Inference"), int(graph.onnx.TensorProto.DOUBLE), graph.constant(0.0, np.float64)
    (found_type, found, found_first), (real_type, real, real_first) = (_chunks(graph, op, slot, s) for slot in ("Inference", "Label"))
    same = add("And", [add("Equal", [found_type, real_type]), add("Equal", [found_first, real_first])])
    sums = [add("ReduceSum", [_int64(graph, mask)], keepdims=1) for mask in (found, real, add("And", [add("And", [found, real]), same]))]
    for slot, count in zip(("NumInferChunks", "NumLabelChunks", "NumCorrectChunks"), sums):
        add("Identity", [count], _out(graph, op, slot))
    some, all, right = (add("Cast", [count], to=double) for count in sums)
    precision, recall = (_quotient(graph, right, count, zero) for count in (some, all))
    score = _quotient(graph, add("Mul", [graph.constant(2.0, np.float64), add("Mul", [precision, recall])]),
                      add("Add", [precision, recall]), zero)
    for slot, value in (("Precision", precision), ("Recall", recall), ("F1-Score", score)):
        add("Cast", [value], _out(graph, op, slot), to=int(graph.onnx.TensorProto.FLOAT))


def _quotient(graph: Graph, part: str, whole: str, zero: str) -> str:
    """part / whole, and 0 of nothing."""
    is_some = graph.add("Greater", [whole, zero])
    return graph.add("Where", [is_some, graph.add("Div", [part, graph.add("Where", [is_some, whole, graph.constant(1.0, np.float64)])]),
                               zero])
