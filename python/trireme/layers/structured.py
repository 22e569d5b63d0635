"""Outputs that are sequences themselves: tags that depend on their neighbours, labels without places, found sentences."""

from __future__ import annotations

from typing import Any

from ..native.dtypes import VarType
from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import AttrLike, ParamAttr
from ..program import Variable
from .nn import topk


def linear_chain_crf(input: Variable, label: Variable, param_attr: AttrLike = None) -> Variable:
    """Return minus the log of each sequence's probability under a conditional random field: ``[sequences, 1]``.

    ``input`` is ``[rows, tags]``, a score of each tag for each row; ``label`` is ``[rows, 1]`` of int64. The parameter,
    ``[tags + 2, tags]``, holds scores of the first tag, of the last tag, and of each tag after each other; name it, so
    that ``crf_decoding`` finds it.

    >>> scores = fluid.layers.data("scores", [5], lod_level=1)
    >>> tags = fluid.layers.data("tags", [1], dtype="int64", lod_level=1)
    >>> fluid.layers.linear_chain_crf(scores, tags, param_attr=fluid.ParamAttr(name="crfw"))
    Variable('linear_chain_crf_0.tmp_3', float32[?, 1])
    """
    helper = LayerHelper("linear_chain_crf", input=input, param_attr=param_attr)
    tags = helper.input().shape[1]
    if tags is None:
        raise ValueError(f"linear_chain_crf: the number of tags, the width of input, must be known, got {input!r}")
    transition = helper.create_parameter(helper.param_attr, [tags + 2, tags], input.dtype)
    kept = ["Alpha", "EmissionExps", "TransitionExps"]
    return helper.append_all("linear_chain_crf", {"Emission": [input], "Transition": [transition], "Label": [label]},
                             dict.fromkeys([*kept, "LogLikelihood"], input.dtype), stops=kept)[-1]


def crf_decoding(input: Variable, param_attr: AttrLike, label: Variable | None = None) -> Variable:
    """Return the likeliest tags of each row, ``[rows, 1]``; with ``label``, 1 where these are right and 0 where not.

    ``param_attr`` names the parameter that ``linear_chain_crf`` made.

    >>> scores = fluid.layers.data("scores", [5], lod_level=1)
    >>> tags = fluid.layers.data("tags", [1], dtype="int64", lod_level=1)
    >>> cost = fluid.layers.linear_chain_crf(scores, tags, param_attr=fluid.ParamAttr(name="crfw"))
    >>> fluid.layers.crf_decoding(scores, param_attr=fluid.ParamAttr(name="crfw"))
    Variable('crf_decoding_0.tmp_0', int64[?, 1])
    """
    helper = LayerHelper("crf_decoding", input=input)
    name = getattr(ParamAttr._to_attr(param_attr), "name", None)
    block = helper.main_program.global_block()
    if not name or not block.has_var(name):
        raise ValueError(f"crf_decoding: param_attr must name the parameter of linear_chain_crf; got {name!r}")
    inputs = {"Emission": [helper.input()], "Transition": [block.var(name)]}
    if label is not None:
        inputs["Label"] = [label]
    return helper.append("crf_decoding", inputs, slot="ViterbiPath", dtype=VarType.INT64, stop_gradient=True)


def warpctc(input: Variable, label: Variable, blank: int = 0, norm_by_times: bool = False,
            use_cudnn: bool = False) -> Variable:
    """Return minus the log of the probability that each sequence says its labels, wherever these stand: ``[sequences, 1]``.

    ``input`` is ``[rows, classes]``, float, before the softmax; ``label`` is ``[labels, 1]`` of int32, of as many sequences,
    without ``blank``, the class of rows that say nothing. A sequence says its rows' classes, repetitions left out, then blanks
    (connectionist temporal classification; Graves et al., 2006). One that is too short for its labels costs 0 and has no
    gradient. ``norm_by_times`` divides the gradient, not the cost, by the rows of each sequence. ``use_cudnn`` has no effect.

    >>> scores = fluid.layers.data("scores", [28], lod_level=1)
    >>> letters = fluid.layers.data("letters", [1], dtype="int32", lod_level=1)
    >>> fluid.layers.warpctc(scores, letters, blank=27)
    Variable('warpctc_0.tmp_1', float32[?, 1])
    """
    helper = LayerHelper("warpctc", input=input)
    return helper.append_all("warpctc", {"Logits": [helper.input()], "Label": [label]},
                             {"WarpCTCGrad": input.dtype, "Loss": input.dtype},
                             {"blank": blank, "norm_by_times": norm_by_times, "use_cudnn": use_cudnn}, stops=["WarpCTCGrad"])[-1]


def ctc_greedy_decoder(input: Variable, blank: int, name: str | None = None) -> Variable:
    """Return the labels that the greatest class of each row says: ``[labels, 1]`` of int64, with as many sequences as ``input``.

    ``input`` is ``[rows, classes]``, float, scores or probabilities. Rows that repeat the class of the row before are left out,
    then those of class ``blank``; a sequence may end up empty.

    >>> scores = fluid.layers.data("scores", [28], lod_level=1)
    >>> fluid.layers.ctc_greedy_decoder(scores, blank=27)
    Variable('ctc_greedy_decoder_0.tmp_0', int64[?, 1])
    """
    helper = LayerHelper("ctc_greedy_decoder", input=input, name=name)
    _, classes = topk(helper.input(), k=1)
    return helper.append("ctc_align", {"Input": [classes]}, {"blank": blank, "merge_repeated": True}, slot="Output",
                         stop_gradient=True)


def beam_search(pre_ids: Variable, pre_scores: Variable, ids: Variable | None, scores: Variable, beam_size: int, end_id: int,
                level: int = 0, is_accumulated: bool = True, name: str | None = None,
                return_parent_idx: bool = False) -> Any:
    """Return the words that one step of a beam search selects, and their scores (and the rows that they continue).

    Each row is a prefix, with its last word in ``pre_ids`` and its score in ``pre_scores``; ``scores``, ``[rows, k]``, are those
    of the candidates ``ids`` (by default 0 .. k - 1). Of each source, which is a sequence of ``scores`` at ``level``,
    ``beam_size`` candidates are kept. Unless ``is_accumulated``, scores are probabilities of the candidates alone.

    With ``return_parent_idx`` those rows are the third result.

    ``end_id`` is the word that ends a text: a prefix with it is not continued.

    >>> words, before = fluid.layers.data("words", [1], dtype="int64", lod_level=2), fluid.layers.data("before", [1], lod_level=2)
    >>> ids, scores = fluid.layers.data("ids", [4], dtype="int64", lod_level=2), fluid.layers.data("scores", [4], lod_level=2)
    >>> fluid.layers.beam_search(words, before, ids, scores, beam_size=2, end_id=0)
    (Variable('beam_search_0.tmp_0', int64[?, 1]), Variable('beam_search_0.tmp_1', float32[?, 1]))
    """
    helper = LayerHelper("beam_search", name=name)
    inputs = {"pre_ids": [pre_ids], "pre_scores": [pre_scores], "scores": [scores]}
    if ids is not None:
        inputs["ids"] = [ids]
    types = {"selected_ids": VarType.INT64, "selected_scores": scores.dtype, "parent_idx": VarType.INT32}
    selected = helper.append_all("beam_search", inputs, types, {"level": level, "beam_size": beam_size, "end_id": end_id,
                                                                "is_accumulated": is_accumulated}, stops=[*types])
    return tuple(selected if return_parent_idx else selected[:2])


def beam_search_decode(ids: Variable, scores: Variable, beam_size: int, end_id: int,
                       name: str | None = None) -> tuple[Variable, Variable]:
    """Return the sentences of a beam search and the scores up to each word, from the arrays of what its steps selected.

    Both have two levels of sequences: sentences of a source, the best first, and words of a sentence.

    ``ids`` and its scores are the arrays of selected words; ``beam_size`` is that of ``beam_search``; ``end_id`` is the word that ends a
    text.

    >>> ids, scores = fluid.layers.create_array("int64"), fluid.layers.create_array("float32")
    >>> zero = fluid.layers.fill_constant([1], "int64", 0)
    >>> ids = fluid.layers.array_write(fluid.layers.data("words", [1], dtype="int64", lod_level=2), zero, ids)
    >>> scores = fluid.layers.array_write(fluid.layers.data("scores", [1], lod_level=2), zero, scores)
    >>> fluid.layers.beam_search_decode(ids, scores, beam_size=2, end_id=0)[0]
    Variable('beam_search_decode_0.tmp_0', int64[?])
    """
    types = {"SentenceIds": VarType.INT64, "SentenceScores": scores.dtype}
    sentences, sentence_scores = LayerHelper("beam_search_decode", name=name).append_all(
        "beam_search_decode", {"Ids": [ids], "Scores": [scores]}, types, {"beam_size": beam_size, "end_id": end_id}, stops=[*types])
    return sentences, sentence_scores


__all__ = ["linear_chain_crf", "crf_decoding", "warpctc", "ctc_greedy_decoder", "beam_search", "beam_search_decode"]
