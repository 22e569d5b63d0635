"""Groups of layers that are often used together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import layers
from .framework import Variable

if TYPE_CHECKING:
    from .param_attr import AttrLike


def simple_img_conv_pool(input: Variable, num_filters: int, filter_size: Any, pool_size: Any, pool_stride: Any,
                         pool_padding: Any = 0, pool_type: str = "max", global_pooling: bool = False,
                         conv_stride: Any = 1, conv_padding: Any = 0, conv_dilation: Any = 1, conv_groups: int = 1,
                         param_attr: AttrLike = None, bias_attr: AttrLike = None, act: Any = None,
                         use_cudnn: bool = True) -> Variable:
    """Return a convolution with its activation, then a pooling.

    >>> image = fluid.layers.data("image", [1, 28, 28])
    >>> fluid.nets.simple_img_conv_pool(image, num_filters=20, filter_size=5, pool_size=2, pool_stride=2, act="relu")
    Variable('pool2d_0.tmp_0', float32[?, 20, 12, 12])
    """
    conv = layers.conv2d(input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups,
                         param_attr, bias_attr, act=act)
    return layers.pool2d(conv, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def img_conv_group(input: Variable, conv_num_filter: Sequence[int], pool_size: Any, conv_padding: Any = 1,
                   conv_filter_size: Any = 3, conv_act: Any = None, param_attr: AttrLike = None,
                   conv_with_batchnorm: Any = False, conv_batchnorm_drop_rate: Any = 0.0, pool_stride: Any = 1,
                   pool_type: str = "max", use_cudnn: bool = True) -> Variable:
    """Return several convolutions, each perhaps with batch normalisation and dropout, then one pooling.

    What is given as one value holds for all convolutions, a list has one for each.

    >>> image = fluid.layers.data("image", [3, 32, 32])
    >>> fluid.nets.img_conv_group(image, [64, 64], pool_size=2, pool_stride=2, conv_act="relu")
    Variable('pool2d_0.tmp_0', float32[?, 64, 16, 16])
    """
    count = len(conv_num_filter)

    def each(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            return [value] * count
        if len(value) != count:
            raise ValueError(f"img_conv_group: {count} convolutions, got {value!r}")
        return list(value)

    out = input
    for filters, padding, size, attr, with_norm, drop in zip(
            conv_num_filter, each(conv_padding), each(conv_filter_size), each(param_attr), each(conv_with_batchnorm),
            each(conv_batchnorm_drop_rate)):
        out = layers.conv2d(out, filters, size, padding=padding, param_attr=attr, act=None if with_norm else conv_act)
        if with_norm:
            out = layers.batch_norm(out, act=conv_act)
            if drop:
                out = layers.dropout(out, dropout_prob=drop)
    return layers.pool2d(out, pool_size, pool_type, pool_stride)


def sequence_conv_pool(input: Variable, num_filters: int, filter_size: int, param_attr: AttrLike = None,
                       act: Any = "sigmoid", pool_type: str = "max", bias_attr: AttrLike = None) -> Variable:
    """Return a convolution over each sequence with its activation, then one row for each sequence.

    >>> words = fluid.layers.data("words", [8], lod_level=1)
    >>> fluid.nets.sequence_conv_pool(words, num_filters=16, filter_size=3, act="tanh", pool_type="max")
    Variable('sequence_pool_0.tmp_0', float32[?, 16])
    """
    conv = layers.sequence_conv(input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act)
    return layers.sequence_pool(conv, pool_type)


def glu(input: Variable, dim: int = -1) -> Variable:
    """Return the first half along ``dim`` times the sigmoid of the second.

    >>> fluid.nets.glu(fluid.layers.data("x", [6]))
    Variable('elementwise_mul_0.tmp_0', float32[?, 3])
    """
    a, b = layers.split(input, 2, dim=dim)
    return layers.elementwise_mul(a, layers.sigmoid(b))


def scaled_dot_product_attention(queries: Variable, keys: Variable, values: Variable, num_heads: int = 1,
                                 dropout_rate: float = 0.0) -> Variable:
    """Return ``softmax(q k' / sqrt(d)) v`` for [n, length, width], in ``num_heads`` parts of the width.

    >>> q, k, v = (fluid.layers.data(name, [5, 8]) for name in "qkv")
    >>> fluid.nets.scaled_dot_product_attention(q, k, v, num_heads=2).shape
    (None, 5, 8)
    """
    width = queries.shape[-1]
    if width is None or width % num_heads or values.shape[-1] is None or values.shape[-1] % num_heads:
        raise ValueError(f"attention: the widths of {queries!r} and {values!r} cannot be cut into {num_heads} heads")

    def heads(x: Variable) -> Variable:
        if num_heads == 1:
            return x
        cut = layers.reshape(x, [0, 0, num_heads, -1])
        return layers.transpose(cut, [0, 2, 1, 3])

    q, k, v = heads(queries), heads(keys), heads(values)
    weights = layers.softmax(layers.matmul(q, k, transpose_y=True, alpha=(width // num_heads) ** -0.5))
    if dropout_rate:
        weights = layers.dropout(weights, dropout_prob=dropout_rate)
    out = layers.matmul(weights, v)
    if num_heads == 1:
        return out
    return layers.reshape(layers.transpose(out, [0, 2, 1, 3]), [0, 0, values.shape[-1]])


__all__ = ["simple_img_conv_pool", "img_conv_group", "sequence_conv_pool", "glu", "scaled_dot_product_attention"]
