"""Layers with parameters, and what stands between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..native.checks import plain
from ..native.dtypes import DTypeLike, VarType, convert_dtype
from ..native.errors import check_whole
from ..native.lazy import answer_for_package
from ..parameters.initializer import Constant, Normal
from ..parameters.layer_helper import LayerHelper, SizeLike
from ..parameters.param_attr import ActLike, AttrLike, ParamAttr
from ..program import Variable


def fc(input: Variable | Sequence[Variable], size: int, num_flatten_dims: int = 1, param_attr: AttrLike = None, bias_attr: AttrLike = None,
       act: ActLike = None, is_test: bool = False, name: str | None = None, *, with_bias: bool = True,
       activation: ActLike = None) -> Variable:
    """Return ``act(x @ w + b)``: fully connected, ``w: [features, size]``, ``b: [size]``.

    Dimensions of ``input`` from ``num_flatten_dims`` on are its features. A list of inputs gets a matrix each;
    the products are summed. ``with_bias=False`` is ``bias_attr=False``, ``activation`` is ``act``.

    >>> x = fluid.layers.data("x", [28, 28])
    >>> fluid.layers.fc(x, size=10, act="softmax")
    Variable('fc_0.tmp_2', float32[?, 10])
    >>> [p.name for p in fluid.default_main_program().all_parameters()]
    ['fc_0.w_0', 'fc_0.b_0']
    """
    size = plain(size)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"fc: size must be a positive int, got {size!r}")
    if not with_bias:
        bias_attr = False
    helper = LayerHelper("fc", input=input, param_attr=param_attr, bias_attr=bias_attr,
                         act=activation if act is None else act, name=name)
    inputs = helper.multiple_input()
    dtype = helper.input_dtype()
    products = []
    for x, attr in zip(inputs, helper.multiple_param_attr(len(inputs))):
        if not 1 <= num_flatten_dims < len(x.shape):
            raise ValueError(f"fc: {x!r} cannot be flattened after {num_flatten_dims!r} dimensions")
        features = x.shape[num_flatten_dims:]
        if None in features:
            raise ValueError(f"fc: the features of {x!r}, from dimension {num_flatten_dims} on, must be known")
        w = helper.create_parameter(attr, [_product(features), size], dtype)
        if w is None:
            raise ValueError("fc: param_attr=False leaves nothing to multiply by")
        products.append(helper.append("mul", {"X": [x], "Y": [w]},
                                      {"x_num_col_dims": num_flatten_dims, "y_num_col_dims": 1}))
    out = products[0] if len(products) == 1 else helper.append("sum", {"X": products})
    return helper.append_activation(helper.append_bias_op(out, dim_start=num_flatten_dims))


fc_layer = fc


def embedding(input: Variable, size: Sequence[int], is_sparse: bool = False, is_distributed: bool = False,
              padding_idx: int | None = None, param_attr: AttrLike = None, dtype: DTypeLike = "float32", *,
              row_dtype: Any = "float32", entry_count: int = 0, entry_probability: float = 1.0, max_age: int = 0,
              keep_count: int = 0, max_rows: int = 0, memory: int | str = 0, spill: str = "") -> Variable:
    """Return the rows of a table ``size = [rows, width]`` that the int64 ids ``input [..., 1]`` name.

    ``is_sparse`` makes its gradient the rows that were used. Rows for ``padding_idx`` are zero; a negative one
    counts from ``size[0]``, also where the table is one of rows by key: -1 is the key ``size[0] - 1``, and no negative key can be it.

    ``is_distributed`` makes the table one of rows by key: any int64 is a key, ``size[0]`` bounds nothing (the first values of
    Xavier depend on it), and a row takes memory from its first update on. In a job its rows are spread over the parameter
    servers; in one process they are here. The first values are those of a dense table. Optimizers update the rows that a step
    used, and no others. Of such a table alone:

    ``row_dtype`` "float16" or "bfloat16" stores the values in half the memory; what is looked up is float32 all the same.
    ``entry_count`` n: the n-th step that uses a key makes its row, which reads zeros before; ``entry_probability``: only such a
    share of the keys ever has one. ``max_age``: a row that no step has used for more steps goes, unless ``keep_count`` steps
    had used it; ``max_rows``: so many stay, those used last. Rows go some time after they could, as all rows are looked at once
    in 1024 steps. ``memory`` and ``spill``: so many bytes stay in memory ("8GB"), rows used last and the index; the other
    rows lie in a file in the folder ``spill``, on a disk of this machine. Results are the same (docs/how-to/size-a-job.md). In a job
    each server does so.

    >>> ids = fluid.layers.data("ids", [1], dtype="int64")
    >>> fluid.layers.embedding(ids, size=[1000, 16], is_sparse=True)
    Variable('embedding_0.tmp_0', float32[?, 16])
    """
    from ..parameters.sparse_table import TableOptions, is_table, lookup  # which other layers do not need

    size = plain(list(size))
    if len(size) != 2 or any(not isinstance(dim, int) or dim < 1 for dim in size):
        raise ValueError(f"embedding: size must be [rows, width], got {size!r}")
    if padding_idx is not None:
        padding_idx = check_whole("embedding: padding_idx", padding_idx, -(1 << 63), (1 << 63) - 1)
    if padding_idx is not None and padding_idx < -size[0]:
        raise ValueError(f"embedding: padding_idx {padding_idx}; of {size[0]} rows {-size[0]} is the first")
    helper = LayerHelper("embedding", param_attr=param_attr)
    helper.check_variable(input, "input")
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    options = TableOptions(row_dtype, entry_count, entry_probability, max_age, keep_count, max_rows, memory, spill)
    if is_distributed:
        return lookup(helper, input, size, dtype, padding, options)
    if options != TableOptions():
        raise ValueError("embedding: row_dtype, entry_count, entry_probability, max_age, keep_count, max_rows, memory and spill are of "
                         "distributed tables: give is_distributed=True, too")
    table = helper.create_parameter(helper.param_attr, list(size), dtype)
    if is_table(table):
        raise ValueError(f"embedding: {table.name!r} is a distributed table: give is_distributed=True here, too")
    return helper.append("lookup_table", {"W": [table], "Ids": [input]},
                         {"is_sparse": is_sparse, "is_distributed": is_distributed, "padding_idx": padding},
                         dtype=convert_dtype(dtype))


def _product(dims: Sequence[int | None]) -> int:
    """Return the product of dimensions that are all known."""
    return math.prod(dim for dim in dims if dim is not None)


def _pair(value: Any, what: str) -> list[int]:
    value = plain(value)
    pair = list(value) if isinstance(value, (list, tuple)) else [value, value]
    if len(pair) != 2 or any(isinstance(x, bool) or not isinstance(x, int) for x in pair):
        raise ValueError(f"{what} must be an int or two of them, got {value!r}")
    return pair


def conv2d(input: Variable, num_filters: int, filter_size: SizeLike, stride: SizeLike = 1, padding: SizeLike = 0, dilation: SizeLike = 1,
           groups: int | None = None, param_attr: AttrLike = None, bias_attr: AttrLike = None, use_cudnn: bool = True,
           act: ActLike = None, name: str | None = None) -> Variable:
    """Return images [n, c, h, w] convolved with ``num_filters`` filters: [n, num_filters, h', w'].

    ``filter_size`` is the height and width of a filter, or one number for both.

    >>> image = fluid.layers.data("image", [1, 28, 28])
    >>> fluid.layers.conv2d(image, num_filters=20, filter_size=5, act="relu")
    Variable('conv2d_0.tmp_2', float32[?, 20, 24, 24])
    """
    helper = LayerHelper("conv2d", input=input, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    helper.check_variable(input, "input")
    groups = groups or 1
    if len(input.shape) != 4 or input.shape[1] is None:
        raise ValueError(f"conv2d: input must be [n, channels, height, width], got {input!r}")
    channels = input.shape[1]
    if channels % groups or num_filters % groups:
        raise ValueError(f"conv2d: {channels} channels and {num_filters} filters cannot be cut into {groups} groups")
    window = _pair(filter_size, "conv2d: filter_size")
    fan_in = window[0] * window[1] * channels
    w = helper.create_parameter(helper.param_attr, [num_filters, channels // groups, *window], input.dtype,
                                default_initializer=Normal(0.0, math.sqrt(2.0 / fan_in)))
    depthwise = groups == channels and num_filters % channels == 0 and groups > 1
    out = helper.append("depthwise_conv2d" if depthwise else "conv2d", {"Input": [input], "Filter": [w]},
                        {"strides": _pair(stride, "conv2d: stride"), "paddings": _pair(padding, "conv2d: padding"),
                         "dilations": _pair(dilation, "conv2d: dilation"), "groups": groups}, slot="Output")
    return helper.append_activation(helper.append_bias_op(out, dim_start=1, dim_end=2))


def pool2d(input: Variable, pool_size: SizeLike = -1, pool_type: str = "max", pool_stride: SizeLike = 1, pool_padding: SizeLike = 0,
           global_pooling: bool = False, use_cudnn: bool = True, ceil_mode: bool = False, name: str | None = None,
           exclusive: bool = True) -> Variable:
    """Return the greatest element (or the mean, ``"avg"``) of each window of images [n, c, h, w].

    ``ceil_mode`` rounds the size of the result up, so that the last window may reach over the edge; otherwise it is rounded down. With
    ``exclusive`` a mean counts only elements of the image, and not the padding.

    ``pool_size`` is the height and width of a window, ``pool_stride`` the distance between two windows; each may be one number for both.

    >>> image = fluid.layers.data("image", [1, 28, 28])
    >>> fluid.layers.pool2d(image, pool_size=2, pool_stride=2)
    Variable('pool2d_0.tmp_0', float32[?, 1, 14, 14])
    """
    if pool_type not in ("max", "avg"):
        raise ValueError(f"pool2d: pool_type must be 'max' or 'avg', got {pool_type!r}")
    if pool_size == -1 and not global_pooling:
        raise ValueError("pool2d: give pool_size, or global_pooling=True")
    size = [1, 1] if pool_size == -1 else _pair(pool_size, "pool2d: pool_size")
    return LayerHelper("pool2d", name=name).append(
        "pool2d", {"X": [input]},
        {"pooling_type": pool_type, "ksize": size, "global_pooling": global_pooling,
         "strides": _pair(pool_stride, "pool2d: pool_stride"),
         "paddings": _pair(pool_padding, "pool2d: pool_padding"), "ceil_mode": ceil_mode, "exclusive": exclusive})


def _wide(dtype: DTypeLike) -> Any:
    """Return the type of a norm's parameters and statistics: float32 where the input is stored in 16 bits."""
    return VarType.FP32 if dtype in (VarType.FP16, VarType.BF16) else dtype


def batch_norm(input: Variable, act: ActLike = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-5,
               param_attr: AttrLike = None, bias_attr: AttrLike = None, data_layout: str = "NCHW", in_place: bool = False,
               name: str | None = None, moving_mean_name: str | None = None, moving_variance_name: str | None = None,
               do_model_average_for_mean_and_var: bool = False, fuse_with_relu: bool = False,
               use_global_stats: bool = False) -> Variable:
    """Return each channel with mean 0 and variance 1 over the batch, then scaled and shifted.

    Training keeps running averages of means and variances; ``is_test`` (a program cloned for tests) uses them.

    ``momentum`` is the weight of the old average in a running average. ``use_global_stats`` uses the running averages in training, too.
    ``fuse_with_relu`` is accepted for old programs and changes nothing. ``data_layout`` may also be ``"NHWC"``: [n, height, width,
    channels].

    >>> image = fluid.layers.data("image", [3, 8, 8])
    >>> fluid.layers.batch_norm(image)
    Variable('batch_norm_0.tmp_2', float32[?, 3, 8, 8])
    """
    return _batch_norm("batch_norm", input, act, is_test, momentum, epsilon, param_attr, bias_attr, data_layout, in_place, name,
                       moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var, use_global_stats)


def sync_batch_norm(input: Variable, act: ActLike = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-5,
                    param_attr: AttrLike = None, bias_attr: AttrLike = None, data_layout: str = "NCHW", in_place: bool = False,
                    name: str | None = None, moving_mean_name: str | None = None, moving_variance_name: str | None = None,
                    do_model_average_for_mean_and_var: bool = False, use_global_stats: bool = False) -> Variable:
    """Return what ``batch_norm`` does, by the mean and variance of the samples of all replicas of the program.

    Replicas are those of ``CompiledProgram.with_data_parallel`` and ``ParallelExecutor``. They wait for each other at this layer, so each
    has a thread of its own. ``BuildStrategy.sync_batch_norm`` makes such a layer of each ``batch_norm``. A program that runs alone, and
    each trainer of a job, normalizes by its own batch. ``momentum`` and ``use_global_stats`` are those of ``batch_norm``.

    >>> image = fluid.layers.data("image", [3, 8, 8])
    >>> fluid.layers.sync_batch_norm(image)
    Variable('sync_batch_norm_0.tmp_2', float32[?, 3, 8, 8])
    """
    return _batch_norm("sync_batch_norm", input, act, is_test, momentum, epsilon, param_attr, bias_attr, data_layout, in_place, name,
                       moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var, use_global_stats)


def _batch_norm(type: str, input: Variable, act: ActLike, is_test: bool, momentum: float, epsilon: float, param_attr: AttrLike,
                bias_attr: AttrLike, data_layout: str, in_place: bool, name: str | None, moving_mean_name: str | None,
                moving_variance_name: str | None,
                do_model_average_for_mean_and_var: bool, use_global_stats: bool) -> Variable:
    helper = LayerHelper(type, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    helper.check_variable(input, "input")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"{type}: data_layout must be 'NCHW' or 'NHWC', got {data_layout!r}")
    channels = input.shape[1 if data_layout == "NCHW" else -1]
    if channels is None:
        raise ValueError(f"{type}: the number of channels of {input!r} must be known")
    dtype = _wide(input.dtype)
    scale = helper.create_parameter(helper.param_attr, [channels], dtype, default_initializer=Constant(1.0))
    bias = helper.create_parameter(helper.bias_attr, [channels], dtype, is_bias=True)

    def moving(name: str | None, value: float) -> Variable:
        var: Variable = helper.create_parameter(ParamAttr(name=name, initializer=Constant(value), trainable=False,
                                                do_model_average=do_model_average_for_mean_and_var), [channels], dtype)
        var.stop_gradient = True
        return var

    mean, variance = moving(moving_mean_name, 0.0), moving(moving_variance_name, 1.0)
    saved = [helper.create_variable_for_type_inference(dtype, stop_gradient=True) for _ in range(2)]
    out = input if in_place else helper.create_variable_for_type_inference(input.dtype)
    helper.append_op(type=type,
                     inputs={"X": [input], "Scale": [scale], "Bias": [bias], "Mean": [mean], "Variance": [variance]},
                     outputs={"Y": [out], "MeanOut": [mean], "VarianceOut": [variance], "SavedMean": [saved[0]],
                              "SavedVariance": [saved[1]]},
                     attrs={"momentum": momentum, "epsilon": epsilon, "is_test": is_test, "data_layout": data_layout,
                            "use_global_stats": use_global_stats})
    return helper.append_activation(out)


def layer_norm(input: Variable, scale: bool = True, shift: bool = True, begin_norm_axis: int = 1,
               epsilon: float = 1e-5, param_attr: AttrLike = None, bias_attr: AttrLike = None, act: ActLike = None,
               name: str | None = None) -> Variable:
    """Return each sample with mean 0 and variance 1 over its dimensions from ``begin_norm_axis`` on.

    ``scale`` and ``shift`` say whether the result is multiplied by a weight, and a bias added, for each of these dimensions' elements.

    >>> fluid.layers.layer_norm(fluid.layers.data("x", [8]))
    Variable('layer_norm_0.tmp_2', float32[?, 8])
    """
    helper = LayerHelper("layer_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    helper.check_variable(input, "input")
    features = input.shape[begin_norm_axis:]
    if not features or None in features:
        raise ValueError(f"layer_norm: the dimensions of {input!r} from {begin_norm_axis} on must be known")
    size = _product(features)
    inputs = {"X": [input]}
    if scale:
        inputs["Scale"] = [helper.create_parameter(helper.param_attr, [size], _wide(input.dtype),
                                                   default_initializer=Constant(1.0))]
    if shift:
        inputs["Bias"] = [helper.create_parameter(helper.bias_attr, [size], _wide(input.dtype), is_bias=True)]
    wide = _wide(input.dtype)
    out = helper.append_all("layer_norm", inputs, {"Mean": wide, "Variance": wide, "Y": input.dtype},
                            {"epsilon": epsilon, "begin_norm_axis": begin_norm_axis}, stops=["Mean", "Variance"])[-1]
    return helper.append_activation(out)


def dropout(x: Variable, dropout_prob: float, is_test: bool = False, seed: int | None = None, name: str | None = None,
            dropout_implementation: str = "downgrade_in_infer") -> Variable:
    """Return ``x`` with each element zero with probability ``dropout_prob``.

    ``"downgrade_in_infer"`` multiplies by 1 - dropout_prob in tests, ``"upscale_in_train"`` divides in training.

    These two texts are the values of ``dropout_implementation``.

    >>> fluid.layers.dropout(fluid.layers.data("x", [8]), dropout_prob=0.5)
    Variable('dropout_0.tmp_0', float32[?, 8])
    """
    if not 0 <= dropout_prob <= 1:
        raise ValueError(f"dropout: dropout_prob must be in [0, 1], got {dropout_prob!r}")
    if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
        raise ValueError("dropout: dropout_implementation must be 'downgrade_in_infer' or 'upscale_in_train', "
                         f"got {dropout_implementation!r}")
    return LayerHelper("dropout", name=name).append(
        "dropout", {"X": [x]}, {"dropout_prob": float(dropout_prob), "is_test": is_test, "fix_seed": seed is not None,
                                "seed": seed or 0, "dropout_implementation": dropout_implementation}, extra=["Mask"])


def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Variable:
    """Return ``exp(x) / sum(exp(x))`` along ``axis``.

    >>> fluid.layers.softmax(fluid.layers.data("x", [10]))
    Variable('softmax_0.tmp_0', float32[?, 10])
    """
    return LayerHelper("softmax", name=name).append("softmax", {"X": [input]}, {"axis": axis})


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """Return the ``k`` greatest elements of each row, and where they are (int64).

    >>> [v.shape for v in fluid.layers.topk(fluid.layers.data("x", [10]), 3)]
    [(None, 3), (None, 3)]
    """
    values, indices = LayerHelper("top_k", name=name).append_all(
        "top_k", {"X": [input]}, {"Out": input.dtype, "Indices": VarType.INT64}, {"k": k}, stops=["Indices"])
    return values, indices


def label_smooth(label: Variable, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: DTypeLike = "float32",
                 name: str | None = None) -> Variable:
    """Return ``(1 - epsilon) label + epsilon / classes``, or ``+ epsilon prior_dist``, for one-hot labels [n, classes].

    >>> fluid.layers.label_smooth(fluid.layers.data("label", [10]))
    Variable('label_smooth_0.tmp_0', float32[?, 10])
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"label_smooth: epsilon must be in [0, 1], got {epsilon!r}")
    inputs = {"X": [label]} if prior_dist is None else {"X": [label], "PriorDist": [prior_dist]}
    return LayerHelper("label_smooth", name=name).append("label_smooth", inputs, {"epsilon": float(epsilon)})


__all__ = ["fc", "fc_layer", "embedding", "conv2d", "pool2d", "batch_norm", "sync_batch_norm", "layer_norm", "dropout", "softmax",
           "topk", "label_smooth"]

if not TYPE_CHECKING:                # a checker that saw it would take any name
    __getattr__ = answer_for_package(__name__)
