"""Losses of scores: which of two is the higher, what a teacher says, how far two distributions or two groups of vectors are apart."""

from __future__ import annotations

from typing import Any

from ..native.dtypes import VarType
from ..parameters.layer_helper import LayerHelper
from ..program import Variable
from . import math
from .loss import softmax_with_cross_entropy, square_error_cost
from .tensor import cast, fill_constant_batch_size_like, one_hot, reshape, transpose


def kldiv_loss(x: Variable, target: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """Return the Kullback-Leibler divergence of ``target`` from ``exp(x)``: ``target (log(target) - x)``, 0 where ``target`` is not above
    0.

    ``reduction``: "mean" and "sum" of all elements, "batchmean" is the sum divided by the rows, [1] each; "none" leaves the elements.

    >>> x, target = fluid.layers.data("x", [4]), fluid.layers.data("target", [4])
    >>> fluid.layers.kldiv_loss(x, target, reduction="batchmean")
    Variable('kldiv_loss_0.tmp_0', float32[1])
    """
    return LayerHelper("kldiv_loss", name=name).append("kldiv_loss", {"X": [x], "Target": [target]}, {"reduction": reduction}, slot="Loss",
                                                       dtype=x.dtype)


def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """Return ``log(1 + exp(left - right)) - label (left - right)``: ``label`` is 1 where ``left`` should be the higher score, else 0.

    >>> label, left, right = (fluid.layers.data(name, [1]) for name in ("label", "left", "right"))
    >>> fluid.layers.rank_loss(label, left, right)
    Variable('rank_loss_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("rank_loss", name=name).append("rank_loss", {"Label": [label], "Left": [left], "Right": [right]}, dtype=left.dtype)


def margin_rank_loss(label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None) -> Variable:
    """Return ``max(margin - label (left - right), 0)``: ``label`` is 1 where ``left`` should be the higher score, else -1.

    >>> label, left, right = (fluid.layers.data(name, [1]) for name in ("label", "left", "right"))
    >>> fluid.layers.margin_rank_loss(label, left, right)
    Variable('margin_rank_loss_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("margin_rank_loss", name=name).append("margin_rank_loss", {"X1": [left], "X2": [right], "Label": [label]},
                                                             {"margin": float(margin)}, extra=["Activated"])


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """Return, for rows of scores [n, classes], the mean over the other classes j of ``log(1 + exp(score[j] - score[label]))``: [n, 1].

    >>> x, label = fluid.layers.data("x", [9]), fluid.layers.data("label", [1], dtype="int64")
    >>> fluid.layers.bpr_loss(x, label)
    Variable('bpr_loss_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("bpr_loss", name=name).append("bpr_loss", {"X": [input], "Label": [label]}, slot="Y")


def teacher_student_sigmoid_loss(input: Variable, label: Variable, soft_max_up_bound: float = 15.0,
                                 soft_max_lower_bound: float = -15.0) -> Variable:
    """Return the cross entropy of scores [n, 1] and clicks, and of scores and what a teacher thought, where there is a teacher.

    ``label`` is -2 (no click) or -1 (click) without a teacher, and z or 1 + z with one who thought z, from 0 to 1. Scores outside of the
    bounds have no gradient.

    The bounds are ``soft_max_lower_bound`` and ``soft_max_up_bound``.

    >>> x, label = fluid.layers.data("x", [1]), fluid.layers.data("label", [1])
    >>> fluid.layers.teacher_student_sigmoid_loss(x, label)
    Variable('teacher_student_sigmoid_loss_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("teacher_student_sigmoid_loss").append(
        "teacher_student_sigmoid_loss", {"X": [input], "Label": [label]},
        {"soft_max_up_bound": float(soft_max_up_bound), "soft_max_lower_bound": float(soft_max_lower_bound)}, slot="Y")


def mse_loss(input: Variable, label: Variable) -> Variable:
    """Return the mean of ``(input - label)`` squared, [1].

    >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    >>> fluid.layers.mse_loss(x, y).shape
    (1,)
    """
    return math.reduce_mean(square_error_cost(input, label))


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5) -> Variable:
    """Return 1 minus the mean Dice coefficient of samples, [1]: twice the overlap of ``input`` and ``label``, over the sum of both.

    ``input`` [n, ..., classes] holds probabilities, ``label`` [n, ..., 1] of int64 class numbers.

    >>> x, label = fluid.layers.data("x", [8, 8, 2]), fluid.layers.data("label", [8, 8, 1], dtype="int64")
    >>> fluid.layers.dice_loss(x, label).shape
    (1,)
    """
    classes = input.shape[-1]
    if classes is None:
        raise ValueError(f"dice_loss: the last dimension of input must be known, got {input!r}")
    truth = cast(one_hot(label, classes), input.dtype)
    dims = list(range(1, len(input.shape)))
    overlap = math.reduce_sum(math.elementwise_mul(input, truth), dim=dims)
    both = math.reduce_sum(input, dim=dims) + math.reduce_sum(truth, dim=dims)
    return math.reduce_mean(1.0 - overlap * 2.0 / (both + epsilon))


def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """Return the N-pair loss (Sohn, 2016) of embeddings [n, d], [1]: each anchor should be nearest to the positives of its label.

    It is the cross entropy between ``softmax(anchor positive')`` and the rows' equal labels, plus ``l2_reg / 4`` times the mean squared
    lengths of both. ``labels`` holds n numbers.

    >>> anchor, positive, labels = fluid.layers.data("a", [6]), fluid.layers.data("p", [6]), fluid.layers.data("l", [1])
    >>> fluid.layers.npair_loss(anchor, positive, labels).shape
    (1,)
    """
    column = cast(reshape(labels, [-1, 1]), "float64")
    ones = fill_constant_batch_size_like(column, [1, -1], "float64", 1.0, output_dim_idx=1)
    numbers = math.matmul(column, ones)
    numbers.stop_gradient = True
    same = cast(_equal(numbers, transpose(numbers, [1, 0])), anchor.dtype)
    share = math.elementwise_div(same, math.reduce_sum(same, dim=1), axis=0)
    share.stop_gradient = True
    length = math.reduce_mean(math.reduce_sum(anchor * anchor, dim=1)) + math.reduce_mean(math.reduce_sum(positive * positive, dim=1))
    costs = softmax_with_cross_entropy(math.matmul(anchor, positive, transpose_y=True), share, soft_label=True)
    return math.reduce_mean(costs) + length * (0.25 * l2_reg)


def _equal(x: Variable, y: Variable) -> Variable:
    """Whether elements are equal, as bools."""
    return LayerHelper("equal").append("equal", {"X": [x], "Y": [y]}, dtype=VarType.BOOL, stop_gradient=True)


def sampled_softmax_with_cross_entropy(logits: Variable, label: Variable, num_samples: int, num_true: int = 1,
                                       remove_accidental_hits: bool = True, use_customized_samples: bool = False,
                                       customized_samples: Variable | None = None,
                                       customized_probabilities: Variable | None = None, seed: int = 0) -> Variable:
    """Return the softmax cross entropy of scores [n, classes] over the true classes [n, num_true] and ``num_samples`` drawn ones: [n, 1].

    Classes are drawn without repetition, by the log-uniform distribution, once for all rows; or they are given, the true ones first, with
    how often each is to be expected: [n, num_true + num_samples] both. Each true class counts ``1 / num_true``.

    ``logits`` are the scores. With ``remove_accidental_hits`` a drawn class that is a true one of the row does not count. With
    ``use_customized_samples`` the classes are ``customized_samples``, and ``customized_probabilities`` says how often each is to be
    expected.

    >>> x, label = fluid.layers.data("x", [1000]), fluid.layers.data("label", [1], dtype="int64")
    >>> fluid.layers.sampled_softmax_with_cross_entropy(x, label, num_samples=25).shape
    (None, 1)
    """
    helper = LayerHelper("sample_logits")
    inputs: dict[str, Any] = {"Logits": [logits], "Labels": [label]}
    if use_customized_samples:
        if customized_samples is None or customized_probabilities is None:
            raise ValueError("sampled_softmax_with_cross_entropy: use_customized_samples needs customized_samples and "
                             "customized_probabilities")
        inputs.update(CustomizedSamples=[customized_samples], CustomizedProbabilities=[customized_probabilities])
    if label.shape[-1:] not in ((num_true,), (None,)):
        raise ValueError(f"sampled_softmax_with_cross_entropy: num_true is {num_true}, but label is {label!r}")
    places = helper.create_variable_for_type_inference(VarType.INT64, stop_gradient=True)
    picked = helper.create_variable_for_type_inference(logits.dtype)
    kept = {slot: [helper.create_variable_for_type_inference(None, stop_gradient=True)]
            for slot in ("Samples", "Probabilities", "LogitsDim", "LabelsDim")}
    helper.append_op(type="sample_logits", inputs=inputs, outputs={**kept, "SampledLogits": [picked], "SampledLabels": [places]},
                     attrs={"use_customized_samples": use_customized_samples, "uniq": True,
                            "remove_accidental_hits": remove_accidental_hits,
                            "num_samples": num_samples, "seed": seed})
    truth = one_hot(reshape(places, [-1, num_true, 1]), num_true + num_samples)
    truth = math.scale(math.reduce_sum(truth, dim=1), 1.0 / num_true)
    truth.stop_gradient = True
    cost: Variable = softmax_with_cross_entropy(picked, cast(truth, logits.dtype), soft_label=True)
    return cost


def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Return embeddings [n, d] whose first two columns, counts of shows and clicks, are logs; or, without ``use_cvm``, left out.

    ``cvm`` holds the samples' own counts, [n, 2], or a row for each sequence of ``input``: they are the gradient of these columns, which a
    sparse table adds up.

    >>> rows, counts = fluid.layers.data("rows", [10]), fluid.layers.data("counts", [2])
    >>> fluid.layers.continuous_value_model(rows, counts, use_cvm=False)
    Variable('cvm_0.tmp_0', float32[?, 8])
    """
    return LayerHelper("cvm").append("cvm", {"X": [input], "CVM": [cvm]}, {"use_cvm": use_cvm}, slot="Y")


__all__ = ["kldiv_loss", "rank_loss", "margin_rank_loss", "bpr_loss", "teacher_student_sigmoid_loss", "mse_loss", "dice_loss", "npair_loss",
           "sampled_softmax_with_cross_entropy", "continuous_value_model"]
