"""Metrics as operators of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..native.dtypes import VarType
from ..native.lazy import answer_for_package
from ..parameters.initializer import Constant
from ..parameters.layer_helper import LayerHelper
from ..program import Variable
from .nn import topk


def accuracy(input: Variable, label: Variable, k: int = 1, correct: Variable | None = None,
             total: Variable | None = None) -> Variable:
    """Return the share of rows [n, classes] whose label [n, 1] is among their ``k`` greatest: [1].

    A label below 0, or not below ``classes``, is an error.

    ``correct`` and ``total``, int32 [1], get the two counts whose quotient is returned; None: new variables.

    >>> x, label = fluid.layers.data("x", [10]), fluid.layers.data("label", [1], dtype="int64")
    >>> fluid.layers.accuracy(x, label)
    Variable('accuracy_0.tmp_0', float32[1])
    """
    helper = LayerHelper("accuracy")
    values, indices = topk(input, k)
    result = helper.create_variable_for_type_inference(VarType.FP32, stop_gradient=True)
    if correct is None:
        correct = helper.create_variable_for_type_inference(VarType.INT32, stop_gradient=True)
    if total is None:
        total = helper.create_variable_for_type_inference(VarType.INT32, stop_gradient=True)
    helper.append_op(type="accuracy", inputs={"Out": [values], "Indices": [indices], "Label": [label]},
                     outputs={"Accuracy": [result], "Correct": [correct], "Total": [total]},
                     attrs={"num_classes": max(0, input.shape[-1] or 0)})
    return result


def auc(input: Variable, label: Variable, curve: str = "ROC", num_thresholds: int = 2**12 - 1, topk: int = 1,
        slide_steps: int = 1) -> tuple[Variable, Variable, list[Variable]]:
    """Return the area under the curve over all runs, that of the last runs, and the counts it is made of.

    ``input`` is [n, 2]: the probabilities of 0 and 1. ``label`` is [n, 1] of int64. A label that is neither 0 nor 1, and a
    probability that is not from 0 to 1, are errors.

    Predictions are counted in ``num_thresholds`` + 1 equal steps. The second result is of the last ``slide_steps`` runs; ``topk`` is
    accepted for old programs and changes nothing.

    >>> x, label = fluid.layers.data("x", [2]), fluid.layers.data("label", [1], dtype="int64")
    >>> area, batch_area, _ = fluid.layers.auc(x, label)
    >>> area
    Variable('auc_0.tmp_2', float64[1])
    """
    helper = LayerHelper("auc")

    def counts(steps: int) -> tuple[Variable, Variable]:
        shape = [max(1, steps), num_thresholds + 1]
        positives, negatives = (helper.create_global_variable(persistable=True, dtype="int64", shape=shape,
                                                              stop_gradient=True) for _ in range(2))
        for var in (positives, negatives):
            helper.set_variable_initializer(var, Constant(0.0))
        return positives, negatives

    def area(positives: Variable, negatives: Variable, steps: int) -> Variable:
        out = helper.create_variable_for_type_inference(VarType.FP64, stop_gradient=True)
        helper.append_op(type="auc", inputs={"Predict": [input], "Label": [label], "StatPos": [positives],
                                             "StatNeg": [negatives]},
                         outputs={"AUC": [out], "StatPosOut": [positives], "StatNegOut": [negatives]},
                         attrs={"curve": curve, "num_thresholds": num_thresholds, "slide_steps": steps})
        return out

    total = counts(0)
    whole = area(*total, 0)
    recent = counts(slide_steps)
    return whole, area(*recent, slide_steps), [*recent, *total]


def edit_distance(input: Variable, label: Variable, normalized: bool = True,
                  ignored_tokens: Sequence[int] | None = None) -> tuple[Variable, Variable]:
    """Return how far each sequence is from that of ``label``, ``[sequences, 1]`` of float32, and how many there are, ``[1]``.

    Both are ``[rows, 1]`` of int64, or both of int32. The distance (Levenshtein's) is how many rows must at least be put in,
    taken out or changed; ``normalized``, divided by the rows of the label's sequence, which must not be empty then.
    ``ignored_tokens`` are left out of both before.

    >>> said, meant = (fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in ("said", "meant"))
    >>> fluid.layers.edit_distance(said, meant, ignored_tokens=[0])
    (Variable('edit_distance_0.tmp_1', float32[?, 1]), Variable('edit_distance_0.tmp_0', int64[1]))
    """
    helper = LayerHelper("edit_distance", input=input, label=label)
    input, label = helper.input(), helper.input("label")
    if ignored_tokens:
        from .sequence import sequence_erase

        input, label = sequence_erase(input, ignored_tokens), sequence_erase(label, ignored_tokens)
    count, distances = helper.append_all("edit_distance", {"Hyps": [input], "Refs": [label]},
                                         {"SequenceNum": VarType.INT64, "Out": VarType.FP32}, {"normalized": normalized},
                                         stops=["SequenceNum", "Out"])
    return distances, count


def chunk_eval(input: Variable, label: Variable, chunk_scheme: str, num_chunk_types: int,
               excluded_chunk_types: Sequence[int] | None = None) -> tuple[Variable, ...]:
    """Return how well chunks, such as names in a text, were found: precision, recall and F1 score, each ``[1]`` of float32, and
    how many chunks were found, how many there are, how many of those found are right, each ``[1]`` of int64.

    ``input`` and ``label`` are ``[rows, 1]`` of int64, of the same sequences: ``type * tags + tag``, or
    ``num_chunk_types * tags`` outside of chunks. ``chunk_scheme`` says what tags a type has: ``"IOB"`` begins a chunk (0) and goes
    on (1); ``"IOE"`` goes on (0) and ends (1); ``"IOBES"`` begins, goes on, ends, or is a chunk of one row; ``"plain"`` has one
    tag, and neighbours of one type are one chunk. Chunks of ``excluded_chunk_types`` are not counted.

    >>> found, tags = (fluid.layers.data(name, [1], dtype="int64", lod_level=1) for name in ("found", "tags"))
    >>> precision, recall, f1, *counts = fluid.layers.chunk_eval(found, tags, "IOB", num_chunk_types=4)
    >>> counts[0]
    Variable('chunk_eval_0.tmp_3', int64[1])
    """
    helper = LayerHelper("chunk_eval", input=input, label=label)
    outputs = {slot: helper.create_variable_for_type_inference(dtype, stop_gradient=True)
               for slot, dtype in (("Precision", VarType.FP32), ("Recall", VarType.FP32), ("F1-Score", VarType.FP32),
                                   ("NumInferChunks", VarType.INT64), ("NumLabelChunks", VarType.INT64),
                                   ("NumCorrectChunks", VarType.INT64))}
    helper.append_op(type="chunk_eval", inputs={"Inference": [helper.input()], "Label": [helper.input("label")]},
                     outputs={slot: [var] for slot, var in outputs.items()},
                     attrs={"chunk_scheme": chunk_scheme, "num_chunk_types": num_chunk_types,
                            "excluded_chunk_types": list(excluded_chunk_types or [])})
    return tuple(outputs.values())


def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]:
    """Return the mean over classes of intersection over union, [1], and of each class the wrong and the right elements, [num_classes] of
    int32.

    ``input`` and ``label`` hold class numbers, int32 or int64, of one shape. Classes that do not occur do not count.

    >>> x, label = (fluid.layers.data(name, [8, 8], dtype="int32") for name in ("x", "label"))
    >>> fluid.layers.mean_iou(x, label, num_classes=3)[0]
    Variable('mean_iou_0.tmp_0', float32[1])
    """
    types = {"OutMeanIou": VarType.FP32, "OutWrong": VarType.INT32, "OutCorrect": VarType.INT32}
    mean, wrong, right = LayerHelper("mean_iou").append_all("mean_iou", {"Predictions": [input], "Labels": [label]}, types,
                                                            {"num_classes": num_classes}, stops=[*types])
    return mean, wrong, right


__all__ = ["mean_iou", "accuracy", "auc", "edit_distance", "chunk_eval"]

if not TYPE_CHECKING:                # a checker that saw it would take any name
    __getattr__ = answer_for_package(__name__)
