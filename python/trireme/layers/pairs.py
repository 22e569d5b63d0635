"""Layers that join two tensors, or learn how."""

from __future__ import annotations

from collections.abc import Sequence

from ..parameters.initializer import Constant
from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import ActLike, AttrLike
from ..program import Variable


def prelu(x: Variable, mode: str, param_attr: AttrLike = None, name: str | None = None) -> Variable:
    """Return ``x`` where it is above 0, else ``alpha x`` with a learnt ``alpha``, which begins as 0.25.

    ``mode`` says what has an ``alpha`` of its own: "all" (one number), "channel" (each channel) or "element" (each element of
    a sample).

    >>> fluid.layers.prelu(fluid.layers.data("x", [3, 4, 4]), "channel").shape
    (None, 3, 4, 4)
    """
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    helper.check_variable(x, "x")
    if mode not in ("all", "channel", "element"):
        raise ValueError(f"prelu: mode must be 'all', 'channel' or 'element', got {mode!r}")
    shapes: dict[str, list[int | None]] = {"all": [1], "channel": [1, *x.shape[1:2], 1, 1], "element": [1, *x.shape[1:]]}
    shape = shapes[mode]
    if None in shape or len(x.shape) < 2 and mode != "all":
        raise ValueError(f"prelu: with mode {mode!r} the dimensions of x after the first must be known, got {x!r}")
    alpha = helper.create_parameter(helper.param_attr, shape, x.dtype, default_initializer=Constant(0.25))
    return helper.append("prelu", {"X": [x], "Alpha": [alpha]}, {"mode": mode})


def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """Return the flow between two layers [n, c, c']: the mean over pixels of ``x[n, i] y[n, j]``.

    ``x`` is [n, c, h, w] and ``y`` [n, c', h, w]. (Yim et al., 2017)

    >>> x, y = fluid.layers.data("x", [3, 4, 4]), fluid.layers.data("y", [5, 4, 4])
    >>> fluid.layers.fsp_matrix(x, y).shape
    (None, 3, 5)
    """
    return LayerHelper("fsp_matrix").append("fsp", {"X": [x], "Y": [y]})


def similarity_focus(input: Variable, axis: int, indexes: Sequence[int], name: str | None = None) -> Variable:
    """Return a mask like ``input`` [n, a, b, c] with 1 at its strongest pairs.

    Each of ``indexes`` picks a matrix along ``axis`` (1, 2 or 3). Of that the largest element is taken, its row and column struck
    out, and so on; all along ``axis`` these places are 1. No gradient.

    >>> fluid.layers.similarity_focus(fluid.layers.data("x", [3, 4, 4]), axis=1, indexes=[0]).shape
    (None, 3, 4, 4)
    """
    if axis not in (1, 2, 3):
        raise ValueError(f"similarity_focus: axis must be 1, 2 or 3, got {axis!r}")
    if not isinstance(indexes, (list, tuple)) or not indexes:
        raise ValueError(f"similarity_focus: indexes must be a list of one number at least, got {indexes!r}")
    return LayerHelper("similarity_focus", name=name).append("similarity_focus", {"X": [input]}, {"axis": axis, "indexes": list(indexes)},
                                                             stop_gradient=True)


def bilinear_tensor_product(x: Variable, y: Variable, size: int, act: ActLike = None, name: str | None = None, param_attr: AttrLike = None,
                            bias_attr: AttrLike = None) -> Variable:
    """Return [n, ``size``]: ``x[n] W[i] y[n]^T + b[i]`` for rows ``x`` [n, a] and ``y`` [n, b], with learnt W [size, a, b] and b.

    >>> x, y = fluid.layers.data("x", [3]), fluid.layers.data("y", [4])
    >>> fluid.layers.bilinear_tensor_product(x, y, size=5).shape
    (None, 5)
    """
    helper = LayerHelper("bilinear_tensor_product", act=act, name=name, param_attr=param_attr, bias_attr=bias_attr)
    for var, what in ((x, "x"), (y, "y")):
        helper.check_variable(var, what)
        if len(var.shape) != 2 or var.shape[1] is None:
            raise ValueError(f"bilinear_tensor_product: {what} must be [n, width] with a known width, got {var!r}")
    weight = helper.create_parameter(helper.param_attr, [size, x.shape[1], y.shape[1]], x.dtype)
    inputs = {"X": [x], "Y": [y], "Weight": [weight]}
    if helper.bias_attr is not False:
        inputs["Bias"] = [helper.create_parameter(helper.bias_attr, [1, size], x.dtype, is_bias=True)]
    return helper.append_activation(helper.append("bilinear_tensor_product", inputs))


def tree_conv(nodes_vector: Variable, edge_set: Variable, output_size: int, num_filters: int = 1, max_depth: int = 2, act: ActLike = "tanh",
              param_attr: AttrLike = None, bias_attr: AttrLike = None, name: str | None = None) -> Variable:
    """Return a tree-based convolution of nodes [n, nodes, features]: [n, nodes, output_size, num_filters]. (Mou et al., 2016)

    ``edge_set`` [n, edges, 2], int32, has the pairs (parent, child) of each tree; nodes count from 1, and the first 0 ends the
    list. The window of a node is its descendants of fewer than ``max_depth`` generations.

    ``nodes_vector`` has the features of the nodes.

    >>> nodes, edges = fluid.layers.data("nodes", [10, 5]), fluid.layers.data("edges", [9, 2], dtype="int32")
    >>> fluid.layers.tree_conv(nodes, edges, output_size=6, num_filters=2).shape
    (None, 10, 6, 2)
    """
    helper = LayerHelper("tree_conv", act=act, name=name, param_attr=param_attr, bias_attr=bias_attr)
    helper.check_variable(nodes_vector, "nodes_vector")
    features = nodes_vector.shape[-1]
    if features is None:
        raise ValueError(f"tree_conv: the number of features of {nodes_vector!r} must be known")
    w = helper.create_parameter(helper.param_attr, [features, 3, output_size, num_filters], nodes_vector.dtype)
    out = helper.append("tree_conv", {"NodesVector": [nodes_vector], "EdgeSet": [edge_set], "Filter": [w]}, {"max_depth": max_depth})
    if bias_attr is not False:
        bias = helper.create_parameter(helper.bias_attr, [num_filters], out.dtype, is_bias=True)
        out = helper.append("elementwise_add", {"X": [out], "Y": [bias]}, {"axis": -1})
    return helper.append_activation(out)


__all__ = ["prelu", "fsp_matrix", "similarity_focus", "bilinear_tensor_product", "tree_conv"]
