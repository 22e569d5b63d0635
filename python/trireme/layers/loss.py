"""Losses: how far an answer is from the truth."""

from __future__ import annotations

from typing import Any

from ..parameters.layer_helper import LayerHelper
from ..program import Variable
from .tensor import transpose

IGNORED = -100


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = IGNORED) -> Variable:
    """Return ``-log(input[label])`` for rows [n, d] of probabilities and labels [n, 1] of int64: [n, 1].

    With ``soft_label`` the labels are probabilities too, [n, d], and it is ``-sum(label log(input))``.

    >>> x, label = fluid.layers.data("x", [10]), fluid.layers.data("label", [1], dtype="int64")
    >>> fluid.layers.cross_entropy(x, label)
    Variable('cross_entropy_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("cross_entropy").append("cross_entropy", {"X": [input], "Label": [label]},
                                               {"soft_label": soft_label, "ignore_index": ignore_index}, slot="Y")


def softmax_with_cross_entropy(logits: Variable, label: Variable, soft_label: bool = False,
                               ignore_index: int = IGNORED, numeric_stable_mode: bool = True,
                               return_softmax: bool = False, axis: int = -1) -> Any:
    """Return ``cross_entropy(softmax(logits), label)``, faster and for any size of logits.

    ``label`` is [n, 1] of int64; with ``soft_label`` it is [n, classes], a probability for each class. With ``return_softmax`` the result
    is a pair: the loss and the softmax. ``axis`` is the dimension of the classes, which has 1 element in ``label`` and in the loss.

    >>> x, label = fluid.layers.data("x", [10]), fluid.layers.data("label", [1], dtype="int64")
    >>> fluid.layers.softmax_with_cross_entropy(x, label)
    Variable('softmax_with_cross_entropy_0.tmp_1', float32[?, 1])
    """
    helper = LayerHelper("softmax_with_cross_entropy")
    rank = len(logits.shape)
    if not -rank <= axis < rank:
        raise ValueError(f"softmax_with_cross_entropy: axis must be one of the {rank} dimensions of {logits!r}, got {axis!r}")
    if axis % rank != rank - 1:
        order = [dim for dim in range(rank) if dim != axis % rank] + [axis % rank]
        both = softmax_with_cross_entropy(transpose(logits, order), transpose(label, order), soft_label, ignore_index,
                                          numeric_stable_mode, True)
        loss, softmax = (transpose(var, [order.index(dim) for dim in range(rank)]) for var in both)
        return (loss, softmax) if return_softmax else loss
    softmax, loss = helper.append_all(
        "softmax_with_cross_entropy", {"Logits": [logits], "Label": [label]}, {"Softmax": logits.dtype, "Loss": logits.dtype},
        {"soft_label": soft_label, "ignore_index": ignore_index, "numeric_stable_mode": numeric_stable_mode})
    return (loss, softmax) if return_softmax else loss


def sigmoid_cross_entropy_with_logits(x: Variable, label: Variable, ignore_index: int = IGNORED,
                                      name: str | None = None, normalize: bool = False) -> Variable:
    """Return, for each element, ``-label log(s) - (1 - label) log(1 - s)`` with ``s = sigmoid(x)``.

    With ``normalize`` the result is divided by the number of labels that are not ``ignore_index``.

    >>> x, label = fluid.layers.data("x", [1]), fluid.layers.data("label", [1])
    >>> fluid.layers.sigmoid_cross_entropy_with_logits(x, label)
    Variable('sigmoid_cross_entropy_with_logits_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("sigmoid_cross_entropy_with_logits", name=name).append(
        "sigmoid_cross_entropy_with_logits", {"X": [x], "Label": [label]},
        {"ignore_index": ignore_index, "normalize": normalize})


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """Return ``(input - label)`` squared, element by element.

    >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    >>> fluid.layers.square_error_cost(x, y)
    Variable('square_error_cost_0.tmp_1', float32[?, 1])
    """
    helper = LayerHelper("square_error_cost")
    difference = helper.append("elementwise_sub", {"X": [input], "Y": [label]}, {"axis": -1})
    return helper.append("square", {"X": [difference]})


def log_loss(input: Variable, label: Variable, epsilon: float = 1e-4, name: str | None = None) -> Variable:
    """Return ``-label log(input + epsilon) - (1 - label) log(1 - input + epsilon)``, [n, 1].

    >>> guess, label = fluid.layers.data("guess", [1]), fluid.layers.data("label", [1])
    >>> fluid.layers.log_loss(guess, label)
    Variable('log_loss_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("log_loss", name=name).append("log_loss", {"Predicted": [input], "Labels": [label]},
                                                     {"epsilon": float(epsilon)}, slot="Loss")


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """Return half the squared error where it is at most ``delta``, growing linearly beyond.

    >>> guess, label = fluid.layers.data("guess", [1]), fluid.layers.data("label", [1])
    >>> fluid.layers.huber_loss(guess, label, delta=1.0)
    Variable('huber_loss_0.tmp_0', float32[?, 1])
    """
    return LayerHelper("huber_loss").append("huber_loss", {"X": [input], "Y": [label]}, {"delta": float(delta)},
                                            extra=["Residual"])


def smooth_l1(x: Variable, y: Variable, inside_weight: Variable | None = None,
              outside_weight: Variable | None = None, sigma: float | None = None) -> Variable:
    """Return the smooth L1 distance of rows, [n, 1].

    It is ``0.5 (sigma d)**2`` where ``|d| < 1 / sigma**2``, else ``|d| - 0.5 / sigma**2``, summed over each row, with ``d = inside_weight *
    (x - y)``. ``y`` is shaped like ``x``. ``outside_weight`` multiplies each element's distance. Both weights are shaped like ``x``; None:
    1. ``sigma`` is 1 by default.

    >>> fluid.layers.smooth_l1(fluid.layers.data("x", [4]), fluid.layers.data("y", [4]))
    Variable('smooth_l1_loss_0.tmp_0', float32[?, 1])
    """
    inputs = {"X": [x], "Y": [y]}
    for slot, var in (("InsideWeight", inside_weight), ("OutsideWeight", outside_weight)):
        if var is not None:
            inputs[slot] = [var]
    return LayerHelper("smooth_l1_loss").append("smooth_l1_loss", inputs, {"sigma": 1.0 if sigma is None else sigma},
                                                extra=["Diff"])


__all__ = ["cross_entropy", "softmax_with_cross_entropy", "sigmoid_cross_entropy_with_logits", "square_error_cost",
           "log_loss", "huber_loss", "smooth_l1"]
