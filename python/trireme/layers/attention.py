"""Attention, the layers of a Transformer, and recurrent layers over dense batches."""

from __future__ import annotations

from typing import Any

from ..parameters.layer_helper import LayerHelper
from ..parameters.param_attr import AttrLike, ParamAttr
from ..program import Variable
from .math import elementwise_add, elementwise_mul, matmul, mul, scale
from .nn import dropout, embedding, fc, layer_norm, softmax
from .ops import sigmoid, tanh
from .rnn import StaticRNN
from .tensor import cast, concat, reshape, slice, squeeze, transpose, unsqueeze, zeros_like
from .tensor_ops import cumsum, reverse

_NEVER = 1e9                                               # taken from a score that must not count


def _ones(x: Variable, lengthwise: bool) -> Variable:
    """Return ones [n, length, 1], or [n, 1, length], for ``x`` [n, length, width]."""
    ones = scale(zeros_like(slice(x, axes=[2], starts=[0], ends=[1])), bias=1.0)
    ones.stop_gradient = True
    return transpose(ones, [0, 2, 1]) if lengthwise else ones


def _bias(queries: Variable, keys: Variable, mask: Variable | None, causal: bool) -> Variable | None:
    """Return what is added to scores [n, q, k]: 0 where a query may look at a key, a large negative number elsewhere."""
    allowed = []
    if mask is not None:
        mask = mask if mask.dtype == queries.dtype else cast(mask, queries.dtype)
        allowed.append(matmul(_ones(queries, False), unsqueeze(mask, [1])) if len(mask.shape) == 2 else mask)
    if causal:
        down, across = _ones(queries, False), _ones(keys, True)
        rows, columns = matmul(cumsum(down, axis=1), across), matmul(down, cumsum(across, axis=2))
        allowed.append(cast(columns <= rows, queries.dtype))
    if not allowed:
        return None
    both = allowed[0] if len(allowed) == 1 else elementwise_mul(allowed[0], allowed[1])
    bias = scale(both, scale=_NEVER, bias=-_NEVER)
    bias.stop_gradient = True
    return bias


def multi_head_attention(queries: Variable, keys: Variable | None = None, values: Variable | None = None, *, size: int | None = None,
                         num_heads: int = 8, mask: Variable | None = None, causal: bool = False, dropout_rate: float = 0.0,
                         is_test: bool = False, param_attr: AttrLike = None, bias_attr: AttrLike = None,
                         name: str | None = None) -> Variable:
    """Return attention in several heads: [n, q, size]. (Vaswani et al., Attention is all you need, 2017)

    ``queries`` is [n, q, width], ``keys`` [n, k, ...] and ``values`` [n, k, ...]; keys are the queries unless given, values the keys.
    Each is projected to ``size`` (that of the queries unless given), which ``num_heads`` must divide; in each head
    ``softmax(q k^T / sqrt(size / heads)) v``; then comes a last projection. ``mask`` has 1 where a query may look and 0 elsewhere:
    [n, k] for all queries alike, or [n, q, k]. With ``causal`` a query looks at keys up to its own place.
    ``param_attr`` and ``bias_attr`` hold for all four projections and are not shared unless they have a name of their own.

    >>> x = fluid.layers.data("x", [5, 16])
    >>> fluid.layers.multi_head_attention(x, num_heads=4, causal=True).shape
    (None, 5, 16)
    """
    helper = LayerHelper("multi_head_attention", name=name)
    keys = queries if keys is None else keys
    values = keys if values is None else values
    for what, var in (("queries", queries), ("keys", keys), ("values", values)):
        helper.check_variable(var, what)
        if len(var.shape) != 3 or var.shape[2] is None:
            raise ValueError(f"multi_head_attention: {what} must be [n, length, width] with a known width, got {var!r}")
    size = int(queries.shape[2] or 0) if size is None else size
    if size % num_heads:
        raise ValueError(f"multi_head_attention: size {size} cannot be cut into {num_heads} heads")

    def projected(x: Variable, part: str) -> Variable:
        attrs = [ParamAttr._to_attr(attr) for attr in (param_attr, bias_attr)]
        w, b = (attr if attr is False or attr.name else attr._copy() for attr in attrs)
        for attr, end in ((w, "w"), (b, "b")):
            if attr is not False and attr.name is None:
                attr.name = f"{helper.name}.{part}.{end}"
        return fc(x, size, num_flatten_dims=2, param_attr=w, bias_attr=b)

    def heads(x: Variable) -> Variable:                    # [heads, n, length, width], so that a bias of [n, q, k] fits
        return transpose(reshape(x, [0, 0, num_heads, size // num_heads]), [2, 0, 1, 3])

    q, k, v = heads(projected(queries, "q")), heads(projected(keys, "k")), heads(projected(values, "v"))
    scores = matmul(q, k, transpose_y=True, alpha=(size // num_heads) ** -0.5)
    bias = _bias(queries, keys, mask, causal)
    weights = softmax(scores if bias is None else elementwise_add(scores, bias))
    if dropout_rate:
        weights = dropout(weights, dropout_rate, is_test=is_test, dropout_implementation="upscale_in_train")
    joined = reshape(transpose(matmul(weights, v), [1, 2, 0, 3]), [0, 0, size])
    return projected(joined, "out")


def _around(x: Variable, part: Any, dropout_rate: float, is_test: bool, normalize_before: bool, name: str) -> Variable:
    """Return ``x + part(x)`` with a normalization before ``part`` or after the sum."""
    def normalized(x: Variable) -> Variable:
        return layer_norm(x, begin_norm_axis=2, param_attr=f"{name}.norm.w", bias_attr=f"{name}.norm.b")

    out = part(normalized(x) if normalize_before else x)
    if dropout_rate:
        out = dropout(out, dropout_rate, is_test=is_test, dropout_implementation="upscale_in_train")
    out = elementwise_add(x, out)
    return out if normalize_before else normalized(out)


def _feed_forward(x: Variable, inner_size: int, act: str, name: str) -> Variable:
    inner = fc(x, inner_size, num_flatten_dims=2, act=act, param_attr=f"{name}.inner.w", bias_attr=f"{name}.inner.b")
    return fc(inner, int(x.shape[2] or 0), num_flatten_dims=2, param_attr=f"{name}.outer.w", bias_attr=f"{name}.outer.b")


def transformer_encoder_layer(x: Variable, num_heads: int, inner_size: int, *, mask: Variable | None = None, causal: bool = False,
                              dropout_rate: float = 0.1, act: str = "relu", normalize_before: bool = False, is_test: bool = False,
                              name: str | None = None) -> Variable:
    """Return one encoder layer of a Transformer: attention of ``x`` [n, length, width] to itself, then two dense layers.

    Around each stand a sum with its input and a layer normalization, after the sum or, with ``normalize_before``, before the part.
    ``mask`` and ``causal`` are those of `multi_head_attention`. Layers with the same ``name`` share their parameters.

    ``num_heads`` is that of `multi_head_attention`, ``inner_size`` the width of the first dense layer.

    >>> x, seen = fluid.layers.data("x", [5, 16]), fluid.layers.data("seen", [5])
    >>> fluid.layers.transformer_encoder_layer(x, num_heads=4, inner_size=32, mask=seen).shape
    (None, 5, 16)
    """
    name = LayerHelper("transformer_encoder_layer", name=name).name
    x = _around(x, lambda x: multi_head_attention(x, num_heads=num_heads, mask=mask, causal=causal, dropout_rate=dropout_rate,
                                                  is_test=is_test, name=f"{name}.self"),
                dropout_rate, is_test, normalize_before, f"{name}.self")
    return _around(x, lambda x: _feed_forward(x, inner_size, act, name), dropout_rate, is_test, normalize_before, f"{name}.dense")


def transformer_decoder_layer(x: Variable, memory: Variable, num_heads: int, inner_size: int, *, mask: Variable | None = None,
                              memory_mask: Variable | None = None, dropout_rate: float = 0.1, act: str = "relu",
                              normalize_before: bool = False, is_test: bool = False, name: str | None = None) -> Variable:
    """Return one decoder layer of a Transformer: causal attention of ``x`` to itself, attention to ``memory``, two dense layers.

    ``memory`` [n, k, width] is what the encoder gives; ``memory_mask`` has 1 for those of its rows that count. The rest is as in
    `transformer_encoder_layer`.

    ``mask`` holds for the attention of ``x`` to itself. With ``normalize_before`` each part normalises what it reads, otherwise what it
    gives.

    ``num_heads`` and ``inner_size`` are those of `transformer_encoder_layer`, too.

    >>> x, memory = fluid.layers.data("x", [5, 16]), fluid.layers.data("memory", [7, 16])
    >>> fluid.layers.transformer_decoder_layer(x, memory, num_heads=4, inner_size=32).shape
    (None, 5, 16)
    """
    name = LayerHelper("transformer_decoder_layer", name=name).name
    options: dict[str, Any] = {"num_heads": num_heads, "dropout_rate": dropout_rate, "is_test": is_test}
    around = (dropout_rate, is_test, normalize_before)
    x = _around(x, lambda x: multi_head_attention(x, mask=mask, causal=True, name=f"{name}.self", **options), *around, f"{name}.self")
    x = _around(x, lambda x: multi_head_attention(x, memory, mask=memory_mask, name=f"{name}.memory", **options), *around, f"{name}.memory")
    return _around(x, lambda x: _feed_forward(x, inner_size, act, name), *around, f"{name}.dense")


def learned_position_encoding(x: Variable, max_length: int, param_attr: AttrLike = None, name: str | None = None) -> Variable:
    """Return ``x`` [n, length, width] plus a learnt row for each place; ``length`` is at most ``max_length``.

    `add_position_encoding` adds sines and cosines instead, which are not learnt.

    >>> fluid.layers.learned_position_encoding(fluid.layers.data("x", [5, 16]), max_length=100).shape
    (None, 5, 16)
    """
    helper = LayerHelper("learned_position_encoding", name=name)
    helper.check_variable(x, "x")
    if len(x.shape) != 3 or x.shape[2] is None:
        raise ValueError(f"learned_position_encoding: x must be [n, length, width] with a known width, got {x!r}")
    attr = ParamAttr._to_attr(param_attr)
    if attr.name is None:
        attr.name = f"{helper.name}.w"
    places = cast(scale(cumsum(_ones(x, False), axis=1), bias=-1.0), "int64")
    return elementwise_add(x, embedding(places, [max_length, x.shape[2]], param_attr=attr))


def _lstm_direction(x: Variable, h: Variable, c: Variable, size: int, initializer: Any, name: str) -> tuple[Variable, Variable]:
    """Return hidden states and cells [length, n, size] of one layer in one direction."""
    def parameter(end: str, shape: list[int | None], is_bias: bool = False) -> Variable:
        attr = ParamAttr(name=f"{name}.{end}", initializer=None if is_bias else initializer)
        made: Variable = LayerHelper("lstm", name=name).create_parameter(attr, shape, x.dtype, is_bias=is_bias)
        return made

    w, u, b = parameter("w", [x.shape[2], 4 * size]), parameter("u", [size, 4 * size]), parameter("b", [4 * size], True)
    given = elementwise_add(mul(x, w, x_num_col_dims=2), b)
    rnn = StaticRNN()
    with rnn.step():
        gates_in, before, cell_before = rnn.step_input(given), rnn.memory(init=h), rnn.memory(init=c)
        gates = elementwise_add(gates_in, mul(before, u))
        in_gate, forget, out_gate = (sigmoid(slice(gates, [1], [k * size], [(k + 1) * size])) for k in range(3))
        candidate = tanh(slice(gates, [1], [3 * size], [4 * size]))
        cell = elementwise_add(elementwise_mul(forget, cell_before), elementwise_mul(in_gate, candidate))
        hidden = elementwise_mul(out_gate, tanh(cell))
        rnn.update_memory(before, hidden)
        rnn.update_memory(cell_before, cell)
        rnn.step_output(hidden)
        rnn.step_output(cell)
    hidden, cell = rnn()
    return hidden, cell


def lstm(input: Variable, init_h: Variable, init_c: Variable, max_len: int, hidden_size: int, num_layers: int, dropout_prob: float = 0.0,
         is_bidirec: bool = False, is_test: bool = False, name: str | None = None, default_initializer: Any = None,
         seed: int = -1) -> tuple[Variable, Variable, Variable]:
    """Return the outputs, the last hidden states and the last cells of several layers of long short-term memory.

    ``input`` [length, n, width] is a batch of sequences of one length; ``init_h`` and ``init_c`` are
    [num_layers * directions, n, hidden_size]. The outputs are [length, n, hidden_size * directions], the last states are like the first.
    With ``is_bidirec`` each layer goes both ways. Between layers stands dropout with ``dropout_prob``. ``max_len`` means nothing here.
    Parameters are named ``<name>.<layer>.<direction>.w`` (input), ``.u`` (hidden state) and ``.b``, in the order input, forget and output
    gate, candidate.

    >>> x, h, c = (fluid.layers.data(name, shape, append_batch_size=False) for name, shape in
    ...            (("x", [7, 3, 8]), ("h", [4, 3, 16]), ("c", [4, 3, 16])))
    >>> [v.shape for v in fluid.layers.lstm(x, h, c, 7, hidden_size=16, num_layers=2, is_bidirec=True)]
    [(7, 3, 32), (4, 3, 16), (4, 3, 16)]
    """
    helper = LayerHelper("lstm", name=name)
    if len(input.shape) != 3 or input.shape[2] is None:
        raise ValueError(f"lstm: input must be [length, n, width] with a known width, got {input!r}")
    if num_layers < 1:
        raise ValueError(f"lstm: num_layers must be at least 1, got {num_layers!r}")
    x, last_h, last_c, directions = input, [], [], 2 if is_bidirec else 1
    for layer in range(num_layers):
        if layer and dropout_prob:
            x = dropout(x, dropout_prob, is_test=is_test, seed=seed if seed > 0 else None, dropout_implementation="upscale_in_train")
        outs = []
        for way in range(directions):
            at = layer * directions + way
            h, c = (squeeze(slice(state, [0], [at], [at + 1]), [0]) for state in (init_h, init_c))
            hidden, cell = _lstm_direction(reverse(x, 0) if way else x, h, c, hidden_size, default_initializer,
                                           f"{helper.name}.{layer}.{way}")
            last_h.append(slice(hidden, [0], [-1], [2 ** 31 - 1]))
            last_c.append(slice(cell, [0], [-1], [2 ** 31 - 1]))
            outs.append(reverse(hidden, 0) if way else hidden)
        x = outs[0] if directions == 1 else concat(outs, axis=2)
    return x, concat(last_h, axis=0), concat(last_c, axis=0)


__all__ = ["multi_head_attention", "transformer_encoder_layer", "transformer_decoder_layer", "learned_position_encoding", "lstm"]
