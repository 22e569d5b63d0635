"""Groups of layers that are often used together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import layers
from ..program import Variable

if TYPE_CHECKING:
    from ..parameters.layer_helper import SizeLike
    from ..parameters.param_attr import ActLike, AttrLike


def simple_img_conv_pool(input: Variable, num_filters: int, filter_size: SizeLike, pool_size: SizeLike, pool_stride: SizeLike,
                         pool_padding: SizeLike = 0, pool_type: str = "max", global_pooling: bool = False,
                         conv_stride: SizeLike = 1, conv_padding: SizeLike = 0, conv_dilation: Any = 1, conv_groups: int = 1,
                         param_attr: AttrLike = None, bias_attr: AttrLike = None, act: ActLike = None,
                         use_cudnn: bool = True) -> Variable:
    """Return a convolution with its activation, then a pooling.

    ``conv_stride``, ``conv_padding``, ``conv_dilation`` and ``conv_groups`` are ``conv2d``'s ``stride``, ``padding``, ``dilation`` and
    ``groups``.

    ``num_filters`` and ``filter_size`` are ``conv2d``'s, ``pool_size`` and ``pool_stride`` are ``pool2d``'s.

    >>> image = fluid.layers.data("image", [1, 28, 28])
    >>> fluid.nets.simple_img_conv_pool(image, num_filters=20, filter_size=5, pool_size=2, pool_stride=2, act="relu")
    Variable('pool2d_0.tmp_0', float32[?, 20, 12, 12])
    """
    conv = layers.conv2d(input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups,
                         param_attr, bias_attr, act=act)
    return layers.pool2d(conv, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def img_conv_group(input: Variable, conv_num_filter: Sequence[int], pool_size: SizeLike, conv_padding: SizeLike = 1,
                   conv_filter_size: SizeLike = 3, conv_act: ActLike = None, param_attr: AttrLike = None,
                   conv_with_batchnorm: Any = False, conv_batchnorm_drop_rate: Any = 0.0, pool_stride: SizeLike = 1,
                   pool_type: str = "max", use_cudnn: bool = True) -> Variable:
    """Return several convolutions, each perhaps with batch normalisation and dropout, then one pooling.

    What is given as one value holds for all convolutions, a list has one for each.

    ``conv_num_filter`` has the number of filters of each convolution, and so says how many there are; ``conv_filter_size`` and
    ``conv_padding`` are those of ``conv2d``. ``conv_with_batchnorm`` says whether batch normalisation follows, and
    ``conv_batchnorm_drop_rate`` the dropout after it.

    ``conv_act`` is the activation of each convolution; ``pool_size`` and ``pool_stride`` are ``pool2d``'s.

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
                       act: ActLike = "sigmoid", pool_type: str = "max", bias_attr: AttrLike = None) -> Variable:
    """Return a convolution over each sequence with its activation, then one row for each sequence.

    ``num_filters`` and ``filter_size`` are ``sequence_conv``'s.

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

    ``queries`` are q, ``keys`` k and ``values`` v.

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


def squeeze_excite(input: Variable, reduction: int = 16, name: str | None = None) -> Variable:
    """Return images [n, c, h, w] whose channels are weighed by what the whole image has in them. (Hu et al., 2018)

    The means of the channels go through a layer of ``c / reduction`` (at least 1) with relu and one of c with sigmoid.

    >>> fluid.nets.squeeze_excite(fluid.layers.data("image", [32, 8, 8]), reduction=4).shape
    (None, 32, 8, 8)
    """
    channels = input.shape[1]
    if channels is None or reduction < 1:
        raise ValueError(f"squeeze_excite: the channels of {input!r} must be known, and reduction at least 1; got {reduction!r}")

    def attrs(part: str) -> dict[str, Any]:
        return {} if name is None else {"param_attr": f"{name}.{part}.w", "bias_attr": f"{name}.{part}.b"}

    means = layers.pool2d(input, pool_type="avg", global_pooling=True)
    inner = layers.fc(means, max(channels // reduction, 1), act="relu", **attrs("squeeze"))
    return layers.elementwise_mul(input, layers.fc(inner, channels, act="sigmoid", **attrs("excite")), axis=0)


def residual_block(input: Variable, num_filters: int, stride: int = 1, bottleneck: bool = False, squeeze_reduction: int = 0,
                   act: str = "relu", is_test: bool = False) -> Variable:
    """Return a block of a residual network for images [n, c, h, w]: convolutions with batch normalization, plus their input.

    Two convolutions of 3 x 3, or with ``bottleneck`` 1 x 1, 3 x 3 and 1 x 1, the last with 4 times as many filters. The input goes through
    a convolution of 1 x 1 where its channels or its size differ from the result's. ``squeeze_reduction`` above 0 puts
    `squeeze_excite` before the sum. (He et al., 2016)

    ``num_filters`` is the number of filters of the first convolution.

    >>> fluid.nets.residual_block(fluid.layers.data("image", [16, 8, 8]), 32, stride=2).shape
    (None, 32, 4, 4)
    """
    def normalized(x: Variable, filters: int, size: int, step: int, act: str | None) -> Variable:
        x = layers.conv2d(x, filters, size, step, (size - 1) // 2, bias_attr=False)
        return layers.batch_norm(x, act=act, is_test=is_test)

    if bottleneck:
        x = normalized(normalized(input, num_filters, 1, 1, act), num_filters, 3, stride, act)
        x = normalized(x, 4 * num_filters, 1, 1, None)
    else:
        x = normalized(normalized(input, num_filters, 3, stride, act), num_filters, 3, 1, None)
    if squeeze_reduction:
        x = squeeze_excite(x, squeeze_reduction)
    if stride != 1 or input.shape[1] != x.shape[1]:
        input = normalized(input, int(x.shape[1] or 0), 1, stride, None)
    return layers.elementwise_add(input, x, act=act)


__all__ = ["simple_img_conv_pool", "img_conv_group", "sequence_conv_pool", "glu", "scaled_dot_product_attention", "squeeze_excite",
           "residual_block"]
