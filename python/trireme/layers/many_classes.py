"""Losses over so many classes that scoring all of them would cost too much: the words of a language, the pages of a shop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..native.dtypes import VarType
from ..parameters.initializer import NumpyArrayInitializer
from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import AttrLike
from ..program import Variable

SAMPLERS = {"uniform": 0, "log_uniform": 1, "custom_dist": 2}


def nce(input: Variable, label: Variable, num_total_classes: int, sample_weight: Variable | None = None,
        param_attr: AttrLike = None, bias_attr: AttrLike = None, num_neg_samples: int | None = None, name: str | None = None,
        sampler: str = "uniform", custom_dist: Sequence[float] | None = None, seed: int = 0,
        is_sparse: bool = False) -> Variable:
    """Return the cost of noise-contrastive estimation, ``[n, 1]`` (Gutmann and Hyvärinen, 2010).

    The layer learns to tell the classes ``label`` [n, classes of a row] of the rows ``input`` [n, width] from
    ``num_neg_samples`` (10) that are drawn for each row, in place of scoring all ``num_total_classes``. Its parameters are
    a matrix [num_total_classes, width] and a bias [num_total_classes, 1]; the score of a class is ``input . w + b``. The
    cost is that of the operator ``nce`` divided by ``num_neg_samples + 1``; ``sample_weight`` [n, 1] says what each row counts.

    ``sampler`` says how classes are drawn: ``"uniform"``; ``"log_uniform"``, class c with probability
    ``log((c + 2) / (c + 1)) / log(num_total_classes + 1)``, which suits words numbered by their frequency; or
    ``"custom_dist"``, by the list of probabilities ``custom_dist``, which the others do not look at. Draws differ from step to step and are
    the same in every run of the script; another ``seed`` gives others. With ``is_sparse`` the gradients are selected rows.

    Raises ValueError for an unknown sampler, or a ``custom_dist`` that is not a distribution over the classes.

    >>> x, word = fluid.layers.data("x", [32]), fluid.layers.data("word", [1], dtype="int64")
    >>> fluid.layers.nce(x, word, num_total_classes=10000, num_neg_samples=16, sampler="log_uniform")
    Variable('tmp_0', float32[?, 1])
    """
    helper = LayerHelper("nce", name=name, input=input, param_attr=param_attr, bias_attr=bias_attr)
    drawn = 10 if num_neg_samples is None else int(num_neg_samples)
    if sampler not in SAMPLERS:
        raise ValueError(f"nce: sampler must be one of {', '.join(SAMPLERS)}; got {sampler!r}")
    if sampler != "custom_dist":
        custom_dist = None                             # as in Fluid
    elif custom_dist is None:
        raise ValueError("nce: the sampler 'custom_dist' needs custom_dist, a list of probabilities")
    inputs = {"Input": [helper.input()], "Label": [label],
              **_parameters(helper, "Weight", [num_total_classes, input.shape[1]])}
    if sample_weight is not None:
        inputs["SampleWeight"] = [sample_weight]
    if custom_dist is not None:
        tables = _alias_tables(_distribution(custom_dist, num_total_classes))
        for slot, table in zip(("CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs"), tables):
            inputs[slot] = [_constant(helper, table)]
    cost, *_ = helper.append_all(
        "nce", inputs, {"Cost": input.dtype, "SampleLogits": input.dtype, "SampleLabels": VarType.INT64},
        {"num_total_classes": int(num_total_classes), "num_neg_samples": drawn, "seed": int(seed), "sampler": SAMPLERS[sampler],
         "is_sparse": is_sparse, "remote_prefetch": False}, stops=["SampleLabels"])
    return cost / (drawn + 1)


def hsigmoid(input: Variable, label: Variable, num_classes: int, param_attr: AttrLike = None, bias_attr: AttrLike = None,
             name: str | None = None, path_table: Variable | None = None, path_code: Variable | None = None,
             is_custom: bool = False, is_sparse: bool = False) -> Variable:
    """Return the cost of hierarchical sigmoid, ``[n, 1]``: classes are leaves of a binary tree (Morin and Bengio, 2005).

    Minus the log of the probability of the turns from the root to the leaf of ``label`` [n, 1], given the rows ``input``
    [n, width]. A step costs as many products as a path has nodes, about ``log2(num_classes)``, where a softmax takes
    ``num_classes``. The parameters are a row of width and a bias for each of the ``num_classes - 1`` nodes of the complete tree.

    With ``is_custom`` the tree is the script's own, and ``num_classes`` is the number of its inner nodes. ``path_table`` [n, depth]
    holds the nodes on the way to each row's class and ``path_code``, of the same shape, the turns there, 0 or 1; -1 fills the
    end of a shorter path. ``label`` is then of no account. With ``is_sparse`` the gradients are selected rows.

    Raises ValueError when the two are not given together, or given without ``is_custom``, and for fewer than 2 classes.

    >>> x, word = fluid.layers.data("x", [32]), fluid.layers.data("word", [1], dtype="int64")
    >>> fluid.layers.hsigmoid(x, word, num_classes=10000)
    Variable('hierarchical_sigmoid_0.tmp_0', float32[?, 1])
    """
    helper = LayerHelper("hierarchical_sigmoid", name=name, input=input, param_attr=param_attr, bias_attr=bias_attr)
    paths = {"PathTable": path_table, "PathCode": path_code}
    if not is_custom and num_classes < 2:
        raise ValueError(f"hsigmoid: num_classes must be at least 2, got {num_classes!r}")
    if any((var is not None) != is_custom for var in paths.values()):
        given = [name for name, var in (("path_table", path_table), ("path_code", path_code)) if var is not None]
        raise ValueError(f"hsigmoid: is_custom={is_custom} with {' and '.join(given) or 'no path'}; a tree of one's own needs "
                         "is_custom=True, path_table and path_code")
    nodes = num_classes if is_custom else num_classes - 1
    inputs = {"X": [helper.input()], "Label": [label], **_parameters(helper, "W", [nodes, input.shape[1]]),
              **{slot: [var] for slot, var in paths.items() if var is not None}}
    return helper.append("hierarchical_sigmoid", inputs, {"num_classes": int(num_classes), "is_sparse": is_sparse},
                         extra=["PreOut"])


def _parameters(helper: LayerHelper, slot: str, shape: list[int | None]) -> dict[str, list[Variable]]:
    """The matrix and, unless bias_attr is False, a bias for each of its rows."""
    dtype = helper.input_dtype()
    bias = helper.create_parameter(helper.bias_attr, [shape[0], 1], dtype, is_bias=True)
    matrix = helper.create_parameter(helper.param_attr, shape, dtype)
    return {slot: [matrix]} if bias is None else {slot: [matrix], "Bias": [bias]}


def _constant(helper: LayerHelper, values: np.ndarray) -> Variable:
    """A variable that the startup program fills and nothing changes."""
    var = helper.create_global_variable(persistable=True, dtype=values.dtype, shape=values.shape, stop_gradient=True)
    helper.set_variable_initializer(var, NumpyArrayInitializer(values))
    return var


def _distribution(given: Sequence[float], classes: int) -> np.ndarray:
    chances = np.asarray(given, dtype=np.float64)
    if chances.shape != (classes,):
        raise ValueError(f"nce: custom_dist must have a probability for each of the {classes} classes, got {chances.shape}")
    if not (chances >= 0).all() or abs(chances.sum() - 1) > 1e-3:
        raise ValueError(f"nce: custom_dist must be probabilities that add up to 1; they go from {chances.min():g} to "
                         f"{chances.max():g} and add up to {chances.sum():g}")
    return np.asarray(chances / chances.sum())


def _alias_tables(chances: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probabilities (float32), the aliases (int32) and how often a place stands for itself (float32).

    Vose's way (1991) to Walker's tables: a place whose class is too rare to fill it is filled up by one that is too frequent.
    """
    count = len(chances)
    share = chances * count
    alias = np.full(count, -1, np.int32)
    rare, frequent = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share > 1))
    while rare and frequent:
        place, other = rare.pop(), frequent[-1]
        alias[place] = other
        share[other] -= 1 - share[place]
        if share[other] <= 1:
            frequent.pop()
            if share[other] < 1:
                rare.append(other)
    share[alias < 0] = 1                         # what rounding left over
    return chances.astype(np.float32), alias, share.astype(np.float32)


__all__ = ["nce", "hsigmoid"]
