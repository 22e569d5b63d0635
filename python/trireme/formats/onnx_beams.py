"""What a beam search is in ONNX: the best continuations of the prefixes of each source, and the sentences that they make."""

from __future__ import annotations

import numpy as np

from ..program import Operator
from .onnx_blocks import info, inner_graph, scalar_info
from .onnx_graph import Graph
from .onnx_lods import TO_THE_END, Sequences, numbered, offsets_from, with_rows
from .onnx_registry import _has, _in, _int64, _out, _refuse, converts


def _column(graph: Graph, value: str) -> str:
    return graph.add("Reshape", [value, graph.longs([-1, 1])])


def _sources(graph: Graph, op: Operator) -> Sequences:
    """The rows of each source: offsets of the levels below its own lead there."""
    name, level = op.input("scores")[0], int(op.attr("level"))
    lods = graph.lods(name)
    if not lods or level >= len(lods):
        raise _refuse(op, f"{name!r} has {len(lods)} levels of sequences here, and no level {level}")
    offsets, *below = lods[level:] if level >= 0 else lods[-1:]
    for each in below:
        offsets = graph.add("Gather", [each, offsets])
    return Sequences(graph, offsets)


@converts("beam_search")
def _beam_search(graph: Graph, op: Operator) -> None:
    scores, add, s = op.input("scores")[0], graph.add, _sources(graph, op)
    width, beam, zero = graph.shape(scores)[1], int(op.attr("beam_size")), graph.constant(0, np.int64)
    if width < 1:
        raise _refuse(op, f"{scores!r} is {graph.shape(scores)}; how many candidates there are must be known")
    score, before = graph.name_of(scores), _column(graph, _in(graph, op, "pre_scores"))
    if not op.attr("is_accumulated"):
        score = add("Add", [add("Log", [score]), before])
    end = graph.constant(int(op.attr("end_id")), np.int64)
    has_ended = add("Equal", [_column(graph, _in(graph, op, "pre_ids")), end])                   # such a prefix goes on as itself alone
    is_first = graph.constant(np.arange(width)[None, :] == 0, np.bool_)
    is_one = add("Or", [add("Not", [has_ended]), is_first])
    ids = _in(graph, op, "ids") if _has(op, "ids") else graph.constant(np.arange(width)[None, :], np.int64)
    ids = add("Where", [has_ended, end, add("Expand", [ids, add("Shape", [score])])])
    score = add("Where", [has_ended, before, score])
    key = add("Where", [is_one, add("Max", [score, graph.number(np.finfo(graph.dtype(scores)).min, scores)]),
                        graph.number(-np.inf, scores)])
    # [sources, candidates]: the best of each source, and those of its places that are candidates
    laid = add("Transpose", [s.side_by_side(key, graph.number(-np.inf, scores))], perm=[1, 0, 2])
    rows = add("Transpose", [s.steps()], perm=[1, 0])
    each = add("Reshape", [laid, add("Concat", [add("Reshape", [s.count, graph.longs([1])]), _width(graph, s, width)], axis=0)],
               allowzero=1)
    most = add("Min", [graph.longs([beam]), _width(graph, s, width)])
    best, place = graph.add_node("TopK", [each, most], [graph.fresh("best"), graph.fresh("place")], axis=1)
    row = add("GatherElements", [rows, add("Div", [place, graph.constant(width, np.int64)])], axis=1)
    candidate = add("Add", [add("Mul", [row, graph.constant(width, np.int64)]), add("Mod", [place, graph.constant(width, np.int64)])])
    is_one = add("Greater", [best, graph.number(-np.inf, scores)])
    candidate = add("Where", [is_one, candidate, zero])
    flat_ids, flat_ended = (add("Reshape", [add("Expand", [value, add("Shape", [score])]), graph.longs([-1])])
                            for value in (ids, has_ended))
    goes_on = add("And", [is_one, add("Not", [add("Gather", [with_rows(graph, flat_ended, graph.constant(True, np.bool_)), candidate])])])
    is_open = add("Greater", [add("ReduceSum", [_int64(graph, goes_on), graph.longs([1])], keepdims=1), zero])
    taken = add("Reshape", [add("And", [is_one, is_open]), graph.longs([-1])])
    _put_selected(graph, op, s, add("Compress", [add("Reshape", [row, graph.longs([-1])]), taken]),
                  add("Compress", [add("Reshape", [candidate, graph.longs([-1])]), taken]), flat_ids,
                  add("Reshape", [score, graph.longs([-1])]))


def _width(graph: Graph, s: Sequences, width: int) -> str:
    return graph.add("Reshape", [graph.add("Mul", [s.scanned, graph.constant(width, np.int64)]), graph.longs([1])])


def _put_selected(graph: Graph, op: Operator, s: Sequences, row: str, candidate: str, ids: str, scores: str) -> None:
    """Write candidates in the order of their rows; those of a row are in the order of their scores already."""
    add, one = graph.add, graph.constant(1, np.int64)
    count = add("Size", [row])
    key = add("Add", [add("Mul", [row, count]), numbered(graph, count)])
    _, order = graph.add_node("TopK", [key, add("Reshape", [count, graph.longs([1])])], [graph.fresh("key"), graph.fresh("order")], axis=0,
                              largest=0)
    row, candidate = (add("Gather", [value, order]) for value in (row, candidate))
    room = add("Expand", [graph.constant(0, np.int64), add("Reshape", [s.rows, graph.longs([1])])])
    counts = add("ScatterElements", [room, row, add("Expand", [one, add("Shape", [row])])], axis=0, reduction="add")
    lods = [s.offsets, offsets_from(graph, counts)]
    for slot, value in (("selected_ids", ids), ("selected_scores", scores)):
        add("Unsqueeze", [add("Gather", [value, candidate]), graph.longs([1])], _out(graph, op, slot))
        graph.put_lods(op.output(slot)[0], lods)
    if op.output("parent_idx"):
        add("Cast", [row], _out(graph, op, "parent_idx"), to=int(graph.onnx.TensorProto.INT32))


@converts("beam_search_decode")
def _beam_search_decode(graph: Graph, op: Operator) -> None:
    """A walk from the last step to the first; then sentences in the order of their scores, and words in the order of the steps."""
    ids, scores, add, beam = op.input("Ids")[0], op.input("Scores")[0], graph.add, int(op.attr("beam_size"))
    if len(graph.lods(ids)) != 2:
        raise _refuse(op, f"elements of {ids!r} have {len(graph.lods(ids))} levels of sequences, and must have two")
    sources = add("Sub", [add("Size", [add("SequenceAt", [graph.lods(ids)[0], graph.constant(0, np.int64)])]), graph.constant(1, np.int64)])
    shape = add("Concat", [add("Reshape", [sources, graph.longs([1])]), graph.longs([beam])], axis=0)
    alive, best, words, values, taken = _walk(graph, op, shape, ids, scores)
    low = graph.number(np.finfo(graph.dtype(scores)).min, scores)
    key = add("Where", [alive, add("Max", [best, low]), graph.number(-np.inf, scores)])
    _, order = graph.add_node("TopK", [key, graph.longs([beam])], [graph.fresh("best"), graph.fresh("order")], axis=1)
    alive = add("Reshape", [add("GatherElements", [alive, order], axis=1), graph.longs([-1])])
    backwards, behind, to = graph.longs([-1]), graph.longs([-(2**63)]), graph.longs([2])
    sorted = []
    for value in (words, values, taken):               # [steps, sources, beam] from the last step on, to [sources, beam, steps]
        turned = add("Slice", [add("Transpose", [value], perm=[1, 2, 0]), backwards, behind, to, backwards])
        sorted.append(add("GatherElements", [turned, add("Expand", [add("Unsqueeze", [order, to]), add("Shape", [turned])])], axis=1))
    lengths = add("Reshape", [add("ReduceSum", [_int64(graph, sorted[2]), to], keepdims=0), graph.longs([-1])])
    counts = add("ReduceSum", [_int64(graph, add("Reshape", [alive, shape])), graph.longs([1])], keepdims=0)
    lods = [offsets_from(graph, counts), offsets_from(graph, add("Compress", [lengths, alive]))]
    mask = add("Reshape", [sorted[2], graph.longs([-1])])
    for slot, value in (("SentenceIds", sorted[0]), ("SentenceScores", sorted[1])):
        add("Compress", [add("Reshape", [value, graph.longs([-1])]), mask], _out(graph, op, slot))
        graph.put_lods(op.output(slot)[0], lods)


def _walk(graph: Graph, op: Operator, shape: str, ids: str, scores: str) -> list[str]:
    """Append a Loop over the steps, the last one first.

    Its states, [sources, beam], are the candidate at which each sentence is, whether there is one, and its last score. Returns whether
    there are sentences, their last scores, and for each step ([steps, sources, beam]) words, scores, and whether a sentence has a word
    there.
    """
    types, body = graph.onnx.TensorProto, graph.inside(graph.block)
    add, count, kind = body.add, graph.add("SequenceLength", [graph.name_of(ids)]), graph.type_of(scores)
    number, condition, at, alive, best = (body.fresh(hint) for hint in ("iteration", "condition", "at", "alive", "best"))
    one = body.constant(1, np.int64)
    step = add("Sub", [add("Sub", [count, one]), number])
    word, score, *levels = (add("SequenceAt", [value, step]) for value in (body.name_of(ids), body.name_of(scores), *body.lods(ids)))
    word, score = (add("Reshape", [value, body.longs([-1])]) for value in (word, score))
    of_rows = Sequences(body, levels[1])
    edges = add("Gather", [levels[1], levels[0]])                          # the first candidate of each source
    first, last = (add("Unsqueeze", [add("Slice", [edges, body.longs([a]), body.longs([b])]), body.longs([1])])
                   for a, b in ((0, -1), (1, TO_THE_END)))
    places = add("Add", [first, body.constant(np.arange(int(op.attr("beam_size")))[None, :], np.int64)])
    has_some = add("Greater", [add("ReduceSum", [add("Cast", [alive], to=int(types.INT64)), body.longs([1])], keepdims=1),
                               body.constant(0, np.int64)])
    is_there = add("Or", [alive, add("And", [add("Not", [has_some]), add("Less", [places, last])])])
    candidate = add("Where", [is_there, add("Where", [has_some, at, places]), of_rows.rows])
    here = [add("Gather", [with_rows(body, value, fill), candidate])
            for value,
            fill in ((word, body.constant(0, np.int64)), (score, body.number(0.0, scores)), (of_rows.owner, body.constant(0, np.int64)))]
    # the end of a sentence is taken once
    has_ended = add("And", [has_some, add("Equal", [here[0], body.constant(int(op.attr("end_id")), np.int64)])])
    taken = add("And", [is_there, add("Not", [has_ended])])
    states = [(here[2], types.INT64), (is_there, types.BOOL), (add("Where", [has_some, best, here[1]]), kind)]
    outs = [*states, (here[0], types.INT64), (here[1], kind), (taken, types.BOOL)]
    inputs = [scalar_info(body, number, "INT64"), scalar_info(body, condition, "BOOL"),
              *(info(body, name, type) for name, type in ((at, types.INT64), (alive, types.BOOL), (best, kind)))]
    outputs = [scalar_info(body, add("Identity", [condition]), "BOOL"), *(info(body, add("Identity", [name]), type) for name, type in outs)]
    begin = [graph.add("Expand", [value, shape])
             for value in (graph.constant(0, np.int64), graph.constant(False, np.bool_), graph.number(0.0, scores))]
    names = [graph.fresh("walked") for _ in outs]
    return graph.add_node("Loop", [count, "", *begin], names, body=inner_graph(body, "walk", inputs, outputs))[1:]
