"""Metrics as operators of the program."""

from __future__ import annotations

from ..dtypes import VarType
from ..framework import Variable
from ..initializer import Constant
from ..layer_helper import LayerHelper
from .nn import topk


def accuracy(input: Variable, label: Variable, k: int = 1, correct: Variable | None = None,
             total: Variable | None = None) -> Variable:
    """Return the share of rows [n, classes] whose label [n, 1] is among their ``k`` greatest: [1].

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
                     outputs={"Accuracy": [result], "Correct": [correct], "Total": [total]})
    return result


def auc(input: Variable, label: Variable, curve: str = "ROC", num_thresholds: int = 2**12 - 1, topk: int = 1,
        slide_steps: int = 1) -> tuple[Variable, Variable, list[Variable]]:
    """Return the area under the curve over all runs, that of the last runs, and the counts it is made of.

    ``input`` is [n, 2]: the probabilities of 0 and 1.

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


__all__ = ["accuracy", "auc"]
