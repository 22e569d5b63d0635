"""An exported model gives in onnxruntime what the program gives here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
import trireme.distributed               # makes the operators known that talk to servers
from trireme import errors
from trireme import formats
from trireme.core import op_proto, op_types
from trireme.parameters.layer_helper import LayerHelper

from onnx_support import assert_same, classes, data, made, output_of, parameter, signs, whole
from test_onnx_beams import OPERATORS as OF_BEAMS
from test_onnx_blocks import CASES as OF_BLOCKS
from test_onnx_sequences import CASES as OF_SEQUENCES

layers = fluid.layers


ACTIVATIONS = ["abs", "atan", "ceil", "cos", "exp", "floor", "relu", "sigmoid", "sin", "softplus", "softsign", "tanh", "square",
               "tanh_shrink", "logsigmoid", "round",
               "relu6", "swish", "gelu", "elu", "leaky_relu", "hard_sigmoid", "selu", "brelu", "sign"]
POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal"]


def hinge() -> Any:
    helper = LayerHelper("hinge_loss")
    loss = helper.create_variable_for_type_inference("float32")
    helper.append_op("hinge_loss", {"Logits": [data(1)], "Labels": [layers.cast(signs("y", 1), "float32")]}, {"Loss": [loss]}, {})
    return loss


def fused_conv() -> Any:
    helper = LayerHelper("conv2d_fusion")
    out = helper.create_variable_for_type_inference("float32")
    inputs = {"Input": [data(2, 5, 5)], "Filter": [parameter(3, 2, 3, 3)], "Bias": [parameter(3)]}
    helper.append_op("conv2d_fusion", inputs, {"Output": [out]}, {"activation": "relu", "paddings": [1, 1]})
    return out


def paths(rows: list[list[int]]) -> Any:
    return layers.cast(layers.assign(np.array(rows, "int32")), "int64")


def made_list(type: str, x: Any, count: int, **attrs: Any) -> list[Any]:
    helper = LayerHelper(type)
    outs = [helper.create_variable_for_type_inference("float32") for _ in range(count)]
    helper.append_op(type, {"X": [x]}, {"Out": outs}, {"num": count, **attrs})
    return outs


def pairs(slot: str, weighs: bool) -> Any:
    inputs = {"Score": layers.round(data(3)), "Label": layers.round(data(1, name="label")),
              "QueryID": layers.cast(signs("query", 1), "int64")}
    inputs |= {"Weight": layers.exp(data(1, name="w")),
               "AccumulateNegativePair": layers.fill_constant([1], "float32", 2.0)} if weighs else {}
    if weighs:
        inputs |= {f"Accumulate{kind}Pair": layers.fill_constant([1], "float32", 2.0) for kind in ("Positive", "Neutral")}
    return output_of("positive_negative_pair", slot, dict.fromkeys(("PositivePair", "NegativePair", "NeutralPair"), "float32"), inputs,
                     column=-1)


def precision(slot: str, goes_on: bool) -> Any:
    inputs = {"MaxProbs": data(1), "Indices": classes("guess"), "Labels": classes()}
    if goes_on:
        inputs |= {"Weights": layers.exp(data(1)), "StatesInfo": parameter(6, 4)}
    outputs = {"BatchMetrics": "float64", "AccumMetrics": "float64", "AccumStatesInfo": "float32"}
    return output_of("precision_recall", slot, outputs, inputs, class_number=6)


def trees(depth: int) -> Any:
    edges = [[[1, 2], [1, 3], [2, 4], [2, 5], [2, 6], [3, 7]], [[1, 2], [2, 3], [3, 4], [0, 0], [1, 5], [0, 0]], [[0, 0]] * 6,
             [[1, 3], [3, 2], [0, 4], [2, 5], [2, 6], [2, 7]]]
    return made("tree_conv", data(8, 3), layers.assign(np.array(edges, "int32")), parameter(3, 3, 2, 4),
                slots=("NodesVector", "EdgeSet", "Filter"), max_depth=depth)


def index_pool(rank: int = 2, size: int = 3) -> tuple[Any, Any]:
    type = f"max_pool{rank}d_with_index"
    helper, x = LayerHelper(type), data(2, *[8] * rank)
    out, mask = helper.create_variable_for_type_inference("float32"), helper.create_variable_for_type_inference("int32")
    helper.append_op(type, {"X": [x]}, {"Out": [out], "Mask": [mask]}, {"ksize": [size] * rank, "strides": [2] * rank,
                                                                        "paddings": [size - 2] * rank})
    return out, mask


def image(*shape: int, name: str = "x") -> Any:
    """An image whose size the program does not know."""
    return layers.data(name, [-1, *shape], append_batch_size=False)


def scaled(type: str, **attrs: Any) -> Any:
    return made(type, image(2, -1, -1), out_h=0, out_w=0, scale=1.5, **attrs)


OF_ANY_SIZE: list[tuple[str, Callable[[], Any]]] = [
    *[(f"{type}_{corners}_{mode}", lambda type=type, corners=corners, mode=mode: scaled(type, align_corners=corners, align_mode=mode))
      for type in ("bilinear_interp", "nearest_interp") for corners, mode in ((True, 1), (False, 1), (False, 0))],
    # places that floats hit
    ("bicubic_interp", lambda: made("bicubic_interp", image(2, -1, -1), out_h=0, out_w=0, scale=2.0, align_corners=False)),
    ("maxout", lambda: layers.maxout(image(6, -1, -1), 2)),
    ("space_to_depth", lambda: layers.space_to_depth(image(8, -1, -1), 2)),
    ("temporal_shift", lambda: layers.temporal_shift(image(8, -1, 4), 2)),
    *[(f"max_pool_with_index_{slot}", lambda slot=slot: output_of("max_pool2d_with_index", slot, {"Out": "float32", "Mask": "int32"},
                                                                  {"X": image(2, -1, -1)}, ksize=[2, 2]))
      for slot in ("Out", "Mask")],
    ("layer_norm", lambda: output_of("layer_norm", "Y", dict.fromkeys(("Y", "Mean", "Variance"), "float32"), {"X": image(-1, 4)},
                                     begin_norm_axis=1)),
    ("fc", lambda: layers.fc(image(-1, 4), 3, num_flatten_dims=2)),
    ("one_fc", lambda: made("fc", image(-1, 4), parameter(4, 5), parameter(5), slots=("Input", "W", "Bias"), in_num_col_dims=2,
                            activation_type="relu")),
    ("reshape", lambda: layers.reshape(image(-1, 4), [-1, 2], actual_shape=layers.shape(image(4, -1, name="y")))),
    ("matmul_of_a_vector", lambda: layers.matmul(image(-1, 4), parameter(4))),
    ("split", lambda: layers.concat(made_list("split", image(3, -1), 2, axis=2)[::-1], axis=2)),
    ("add_position_encoding", lambda: made("add_position_encoding", image(-1, 6), alpha=0.5, beta=2.0)),
    ("bpr_loss", lambda: layers.bpr_loss(image(-1), layers.cast(signs("label", 1), "int64"))),
    ("conv_shift", lambda: made("conv_shift", image(-1), data(3, name="y"))),
]


CASES: list[tuple[str, Callable[[], Any]]] = [
    *[(name, lambda name=name: getattr(layers, name)(data(3, 4))) for name in ACTIVATIONS if hasattr(layers, name)],
    *[(name, lambda name=name: getattr(layers, name)(layers.exp(data(3)))) for name in POSITIVE if hasattr(layers, name)],
    ("pow", lambda: layers.pow(layers.exp(data(3)), 2.5)),
    ("clip", lambda: layers.clip(data(5), -0.5, 0.25)),
    ("softmax", lambda: layers.softmax(data(4, 5))),
    ("scale", lambda: layers.scale(data(3), 2.0, 1.0)),
    ("scale_after", lambda: layers.scale(data(3), 2.0, 1.0, bias_after_scale=False)),
    ("cast", lambda: layers.cast(data(3), "int64")),
    ("sums", lambda: layers.sums([data(3), data(3, name="y")])),
    *[(f"elementwise_{kind}", lambda kind=kind: getattr(layers, f"elementwise_{kind}")(data(3, 4), layers.exp(data(3, 4, name="y"))))
      for kind in ("add", "sub", "mul", "div", "max", "min")],
    ("elementwise_axis", lambda: layers.elementwise_add(data(3, 4), layers.fill_constant([3], "float32", 2.0), axis=1)),
    *[(kind, lambda kind=kind: layers.cast(getattr(layers, kind)(layers.round(data(6)), layers.round(data(6, name="y"))), "float32"))
      for kind in ("less_than", "equal", "less_equal", "greater_than", "greater_equal", "not_equal")],
    ("fc", lambda: layers.fc(data(3, 4), 5, num_flatten_dims=1)),
    ("fc_of_sequences", lambda: layers.fc(data(3, 4), 5, num_flatten_dims=2)),
    ("matmul", lambda: layers.matmul(data(3, 4), data(5, 4, name="y"), transpose_y=True, alpha=0.5)),
    ("reshape", lambda: layers.reshape(data(3, 4), [-1, 6, 2])),
    ("flatten", lambda: layers.flatten(data(3, 4, 2), axis=2)),
    ("squeeze", lambda: layers.squeeze(data(1, 4), [1])),
    ("squeeze_all", lambda: layers.squeeze(data(1, 4, 1), [])),
    ("unsqueeze", lambda: layers.unsqueeze(data(4), [1, 2])),
    ("transpose", lambda: layers.transpose(data(3, 4), [0, 2, 1])),
    ("concat", lambda: layers.concat([data(3, 4), data(2, 4, name="y")], axis=1)),
    ("stack", lambda: layers.stack([data(3), data(3, name="y")], axis=1)),
    ("split", lambda: layers.concat(layers.split(data(6), 3, dim=1)[::-1], axis=1)),
    ("split_sections", lambda: layers.split(data(6), [1, 5], dim=1)[1]),
    ("slice", lambda: layers.slice(data(5, 6), axes=[1, 2], starts=[1, -3], ends=[4, 6])),
    ("expand", lambda: layers.expand(data(2, 3), [1, 2, 3])),
    ("pad", lambda: layers.pad(data(3), [0, 0, 1, 2], 0.5)),
    ("pad2d", lambda: layers.pad2d(data(1, 4, 4), [1, 0, 2, 1], mode="reflect")),
    ("gather", lambda: layers.gather(data(3), layers.fill_constant([2], "int64", 1))),
    ("top_k", lambda: layers.topk(data(6), 3)[0]),
    *[(f"reduce_{kind}", lambda kind=kind: getattr(layers, f"reduce_{kind}")(data(3, 4), dim=[1]))
      for kind in ("sum", "mean", "max", "min", "prod")],
    ("reduce_keeps", lambda: layers.reduce_sum(data(3, 4), dim=[1, 2], keep_dim=True)),
    ("mean", lambda: layers.mean(data(3, 4))),
    ("conv2d", lambda: layers.conv2d(data(2, 8, 8), 4, 3, stride=2, padding=1, act="relu")),
    ("conv2d_groups", lambda: layers.conv2d(data(4, 8, 8), 4, 3, dilation=2, groups=2)),
    ("conv3d", lambda: layers.conv3d(data(1, 4, 5, 6), 2, 2)),
    ("conv2d_window_larger_than_the_image", lambda: layers.conv2d(data(2, 6, 9), 4, 7, stride=2, dilation=1)),
    *[(f"pool_{how}_window_larger_than_the_image_{up}", lambda how=how,
       up=up: layers.pool2d(data(2, 5, 9), 6, how, 3, 0, ceil_mode=up, exclusive=not up))
      for how in ("max", "avg") for up in (False, True)],
    ("max_pool_with_index_window_larger_than_the_image", lambda: output_of("max_pool2d_with_index", "Mask",
                                                                           {"Out": "float32", "Mask": "int32"}, {"X": data(2, 5, 9)},
                                                                           ksize=[6, 3], strides=[2, 2])),
    ("conv2d_transpose", lambda: layers.conv2d_transpose(data(2, 5, 5), 3, filter_size=3, stride=2, padding=1)),
    ("pool_max", lambda: layers.pool2d(data(2, 8, 8), 3, "max", 2, 1)),
    ("pool_average", lambda: layers.pool2d(data(2, 8, 8), 3, "avg", 2, 1)),
    ("pool_average_with_padding", lambda: layers.pool2d(data(2, 8, 8), 3, "avg", 2, 1, exclusive=False)),
    ("pool_global", lambda: layers.pool2d(data(2, 8, 8), pool_type="avg", global_pooling=True)),
    ("batch_norm", lambda: layers.batch_norm(data(3, 4, 4))),
    ("layer_norm", lambda: layers.layer_norm(data(3, 4), begin_norm_axis=1)),
    ("dropout", lambda: layers.dropout(data(5), 0.3)),
    ("dropout_upscale", lambda: layers.dropout(data(5), 0.3, dropout_implementation="upscale_in_train")),
    ("embedding", lambda: layers.embedding(layers.cast(layers.clip(layers.abs(data(3, 1) * 3.0), 0.0, 9.0), "int64"), [10, 4],
                                           padding_idx=2)),
    ("one_hot", lambda: layers.one_hot(layers.cast(layers.clip(layers.abs(data(1) * 3.0), 0.0, 4.0), "int64"), 5)),
    *[(name, lambda name=name: getattr(layers, name)(layers.tanh(data(3)))) for name in ("acos", "asin", "erf")],
    *[(name, lambda name=name: made(name, data(3, 4))) for name in ("hard_shrink", "softshrink", "thresholded_relu", "stanh")],
    *[(f"prelu_{mode}", lambda mode=mode: layers.prelu(data(3, 4, 4), mode)) for mode in ("all", "channel", "element")],
    *[(name, lambda name=name: made(name, signs("x"), signs("y"))) for name in ("logical_and", "logical_or", "logical_xor")],
    ("logical_not", lambda: made("logical_not", signs("x"))),
    ("shape", lambda: made("shape", data(3, 4), slots=("Input",))),
    ("minus", lambda: made("minus", data(3), data(3, name="y"))),
    ("elementwise_pow", lambda: layers.elementwise_pow(layers.exp(data(3)), data(3, name="y"))),
    ("old_reshape", lambda: made("reshape", data(3, 4), shape=[-1, 6, 2])),
    ("old_flatten", lambda: made("flatten", data(3, 4), axis=2)),
    ("old_squeeze", lambda: made("squeeze", data(1, 4), axes=[1])),
    ("old_unsqueeze", lambda: made("unsqueeze", data(4), axes=[1])),
    ("old_transpose", lambda: made("transpose", data(3, 4), axis=[0, 2, 1])),
    ("gather_nd", lambda: layers.gather_nd(data(3, 4), layers.assign(np.array([[0, 1], [3, 2]], "int32")))),
    *[(name, lambda name=name: made(name, data(3, 4), axis=1)) for name in ("arg_max", "arg_min")],
    ("cumsum", lambda: layers.cumsum(data(3, 4), axis=1, exclusive=True, reverse=True)),
    ("cumsum_of_the_last", lambda: layers.cumsum(data(3, 4))),
    ("depthwise_conv2d", lambda: layers.conv2d(data(4, 8, 8), 4, 3, groups=4, use_cudnn=False)),
    ("pool3d", lambda: layers.pool3d(data(2, 4, 6, 6), 2, "avg", 2)),
    ("conv2d_transpose_of_a_size", lambda: layers.conv2d_transpose(data(2, 5, 5), 3, output_size=[10, 9], filter_size=3, stride=2,
                                                                   padding=1)),
    ("conv3d_transpose", lambda: layers.conv3d_transpose(data(2, 3, 4, 5), 2, filter_size=2, stride=2)),
    ("depthwise_conv2d_transpose", lambda: layers.conv2d_transpose(data(4, 5, 5), 4, filter_size=3, groups=4, use_cudnn=False)),
    *[(f"{way}_{size}_{corners}_{mode}", lambda way=way, size=size, corners=corners, mode=mode: layers.image_resize(
        data(2, 5, 6), size, resample=way, align_corners=corners, align_mode=mode))
      for way in ("BILINEAR", "NEAREST") for size in ([10, 18], [7, 4], [1, 1]) for corners, mode in ((True, 1), (False, 1), (False, 0))],
    ("bilinear_scale", lambda: layers.image_resize(data(2, 5, 6), scale=1.5, align_corners=False)),
    ("bilinear_of_a_size_that_is_fed", lambda: layers.image_resize(data(2, 5, 6), layers.assign(np.array([3, 9], "int32")))),
    ("affine_grid", lambda: layers.affine_grid(data(2, 3), [4, 1, 3, 5])),
    ("grid_sampler", lambda: layers.grid_sampler(data(2, 5, 6), data(3, 4, 2, name="grid"))),
    ("max_pool3d_with_index", lambda: index_pool(3)[1]),
    *[(f"pool_{how}_up", lambda how=how: layers.pool2d(data(2, 8, 7), 3, how, 2, 0, ceil_mode=True)) for how in ("max", "avg")],
    *[(f"pool_{how}_up_and_padded", lambda how=how: layers.pool2d(data(2, 8, 8), 3, how, 2, 1, ceil_mode=True)) for how in ("max", "avg")],
    *[(f"adaptive_{how}_{sizes}", lambda how=how, sizes=sizes: layers.adaptive_pool2d(data(2, 8, 6), sizes, how))
      for how in ("max", "avg") for sizes in ([1, 1], [4, 3])],
    ("batch_norm_of_the_last", lambda: layers.batch_norm(data(4, 5, 3), data_layout="NHWC")),
    ("group_norm", lambda: layers.group_norm(data(6, 4, 5), 3)),
    ("group_norm_plain", lambda: layers.group_norm(data(6, 4, 5), 2, param_attr=False, bias_attr=False)),
    ("lrn", lambda: layers.lrn(data(7, 3, 3), n=3, alpha=0.5)),
    ("maxout", lambda: layers.maxout(data(6, 3, 4), 2)),
    ("pixel_shuffle", lambda: layers.pixel_shuffle(data(8, 3, 4), 2)),
    ("shuffle_channel", lambda: layers.shuffle_channel(data(6, 3, 4), 2)),
    ("space_to_depth", lambda: layers.space_to_depth(data(8, 4, 6), 2)),
    ("temporal_shift", lambda: layers.temporal_shift(data(8, 2, 3), 2)),
    *[(f"max_pool2d_with_index_{slot}", lambda slot=slot: index_pool()[slot]) for slot in (0, 1)],
    *[(f"{name}_{bad}", lambda name=name,
       bad=bad: made(name, layers.log(layers.elementwise_max(data(3), layers.fill_constant([1], "float32", bad)))))
      for name in ("isnan", "isinf", "isfinite") for bad in (-1.0, 0.0, 0.5)],
    *[(f"{name}_{dims}_{keeps}", lambda name=name, dims=dims, keeps=keeps: made(name, signs("x"), dim=dims, keep_dim=keeps,
                                                                                reduce_all=not dims))
      for name in ("reduce_all", "reduce_any") for dims in ([1], []) for keeps in (False, True)],
    ("where", lambda: layers.where(signs("x"))),
    ("is_empty", lambda: made("is_empty", data(3))),
    *[(f"sequence_mask_{longest}", lambda longest=longest: layers.sequence_mask(whole("x", 1), longest)) for longest in (3, None)],
    *[(name, lambda name=name: made(name, whole("x"), layers.cast(layers.scale(layers.tanh(data(4, name="y")), 3.0), "int64")))
      for name in ("elementwise_mod", "elementwise_floordiv")],
    ("increment", lambda: layers.increment(layers.reduce_sum(data(3)), 2.0, in_place=False)),
    ("crop", lambda: layers.crop(data(4, 5), [-1, 2, 3], [1, 1, 2])),
    ("crop_like", lambda: layers.crop(data(4, 5), data(2, 3, name="y"), [0, 1, 2])),
    ("crop_from", lambda: layers.crop(data(4, 5), [2, 2, 3], layers.assign(np.array([1, 0, 2], "int32")))),
    ("reverse", lambda: layers.reverse(data(4, 5), [1, -1])),
    ("pad_constant_like", lambda: layers.pad_constant_like(data(4, 5), data(2, 3, name="y"), 1.5)),
    ("unstack", lambda: layers.unstack(data(3, 4), 1)[1]),
    ("multiplex", lambda: layers.multiplex([data(3), data(3, name="y")], layers.assign(np.array([[1], [0], [0], [1]], "int32")))),
    *[(f"scatter_{overwrites}", lambda overwrites=overwrites: made("scatter", data(3),
                                                                   layers.assign(np.array([2, 0, 3, 1] if overwrites else [2, 0, 2, 0],
                                                                                          "int32")),
                                                                 data(3, name="y"), slots=("X", "Ids", "Updates"), overwrite=overwrites))
      for overwrites in (True, False)],
    ("scatter_nd_add", lambda: layers.scatter_nd_add(data(3), layers.assign(np.array([[2], [0], [2], [0]], "int32")), data(3, name="y"))),
    *[(f"argsort_{axis}_{i}", lambda axis=axis, i=i: layers.argsort(layers.round(data(5, 3)), axis)[i]) for axis in (1, -1)
      for i in (0, 1)],
    ("norm", lambda: made("norm", data(3, 4), axis=1)),
    ("l2_normalize", lambda: layers.l2_normalize(data(3, 4), 1)),
    ("cos_sim", lambda: layers.cos_sim(data(3), data(3, name="y"))),
    *[(name, lambda name=name: made(name, data(3, 4))) for name in ("squared_l2_norm", "l1_norm", "soft_relu")],
    ("range", lambda: layers.range(1, layers.reduce_max(whole("x")), 2, "int64")),
    *[(f"linspace_{n}", lambda n=n: layers.linspace(-1.0, 2.5, n, "float32")) for n in (1, 5)],
    ("fill", lambda: made("fill", value=[1.0, 2.0], shape=[2, 1])),
    ("fill_zeros_like", lambda: layers.zeros_like(data(3))),
    *[(f"batch_size_like_{shape}", lambda shape=shape,
       at=at: layers.fill_constant_batch_size_like(data(3), shape, "float32", 2.0, output_dim_idx=at))
      for shape, at in (([-1, 2], 0), ([2, -1], 1), ([-1], 0))],
    ("affine_channel", lambda: layers.affine_channel(data(3, 4, 4), *[layers.create_parameter([3], "float32") for _ in range(2)])),
    *[(f"one_fc_{columns}", lambda columns=columns, act=act: made("fc", data(3, 4), parameter(12 if columns == 1 else 4, 5), parameter(5),
                                                                  slots=("Input", "W", "Bias"),
                                                                   in_num_col_dims=columns, activation_type=act)) for columns,
      act in ((1, ""), (2, "relu"))],
    *[(f"lstm_unit_{i}", lambda i=i: layers.lstm_unit(data(3), data(4, name="h"), data(4, name="c"), forget_bias=0.5)[i]) for i in (0, 1)],
    *[(f"gru_unit_{mode}", lambda mode=mode: layers.gru_unit(data(12), data(4, name="h"), 12, origin_mode=mode)[0])
      for mode in (False, True)],
    ("data_norm", lambda: layers.data_norm(data(3))),
    *[(f"cvm_{uses}", lambda uses=uses: layers.continuous_value_model(layers.exp(data(5)), data(2, name="y"), uses))
      for uses in (True, False)],
    ("sum_of_squares", lambda: made("sum_of_squares", [data(3), data(3, 2, name="y")])),
    *[(f"clip_by_norm_{most}", lambda most=most: layers.clip_by_norm(data(3), most)) for most in (0.5, 100.0)],
    ("fill_zeros_like2", lambda: made("fill_zeros_like2", data(3), dtype=2)),
    ("sync_batch_norm", lambda: layers.sync_batch_norm(data(3, 4, 4))),
    ("bilinear_tensor_product", lambda: layers.bilinear_tensor_product(data(3), data(4, name="y"), 2)),
    ("label_smooth", lambda: layers.label_smooth(data(4), epsilon=0.1)),
    ("squared_l2_distance", lambda: made("squared_l2_distance", data(3), data(3, name="y"))),
    ("fsp", lambda: layers.fsp_matrix(data(3, 4, 5), data(2, 4, 5, name="y"))),
    ("fused_elemwise_activation", lambda: made("fused_elemwise_activation", data(3), data(3, name="y"),
                                               functor_list=["elementwise_add", "relu"])),
    ("hard_swish", lambda: made("hard_swish", data(3))),
    ("bmm", lambda: made("bmm", data(3, 4), data(4, 2, name="y"))),
    ("expand_v2", lambda: made("expand_v2", data(1, 3), shape=[2, -1, 4, 3])),
    ("fill_any_like", lambda: made("fill_any_like", data(3), value=2.5)),
    ("flip", lambda: made("flip", data(3, 4), axis=[2, 1])),
    ("index_select", lambda: made("index_select", data(3, 4), layers.assign(np.array([2, 0], "int32")), slots=("X", "Index"), dim=2)),
    ("log_softmax", lambda: made("log_softmax", data(3, 4), axis=1)),
    ("mish", lambda: made("mish", data(3))),
    *[(f"p_norm_{p}", lambda p=p: made("p_norm", data(3, 4), porder=p, axis=1)) for p in (1.0, 2.0, 3.0, np.inf)],
    ("silu", lambda: made("silu", data(3))),
    ("slice_that_drops", lambda: made("slice", data(3, 4), slots=("Input",), axes=[1], starts=[-1], ends=[0], decrease_axis=[1])),
    ("strided_slice", lambda: made("strided_slice", data(5, 4), slots=("Input",), axes=[1, 2], starts=[-1, 1], ends=[-1, 4],
                                   strides=[-2, 2])),
    ("tile", lambda: made("tile", data(3), repeat_times=[2, 1, 2])),
    ("where_index", lambda: layers.cast(made("where_index", layers.less_than(data(3), layers.fill_constant([1], "float32", 0.2)),
                                             slots=("Condition",)), "float32")),
    *[(f"{type}_of_{scale}", lambda type=type, scale=scale: made(type, data(2, 4, 6), scale=scale, align_corners=False, align_mode=0))
      for type in ("bilinear_interp_v2", "nearest_interp_v2") for scale in ([1.5, 2.0], [2.0, 0.5])],
    *[(f"bicubic_interp_v2_of_{scale}", lambda scale=scale: made("bicubic_interp_v2", data(2, 4, 6), scale=scale, align_corners=False))
      for scale in ([1.5, 2.0], [2.0, 0.5])],
    *[(f"{type}_{corners}_{mode}_{size}", lambda type=type, shape=shape, corners=corners, mode=mode, size=size: made(
          type, data(2, *shape), align_corners=corners, align_mode=mode, **dict(zip(("out_w", "out_h", "out_d"), [size, 3, 5]))))
      for type, shape in (("linear_interp", [5]), ("linear_interp_v2", [5]), ("trilinear_interp", [3, 2, 5]),
                          ("trilinear_interp_v2", [3, 2, 5]), ("bilinear_interp", [2, 5]))
      for corners, mode in ((True, 1), (False, 1), (False, 0)) for size in (1, 7)],
    ("resized_to_tensors", lambda: made("bilinear_interp", data(2, 4, 5), [layers.assign(np.array([n], "int32")) for n in (3, 7)],
                                        slots=("X", "SizeTensor"), out_h=0, out_w=0)),
    ("resized_by_a_tensor", lambda: made("nearest_interp", data(2, 4, 5), layers.assign(np.array([1.5], "float32")), slots=("X", "Scale"),
                                         out_h=0, out_w=0)),
    ("where_of_two", lambda: made("where", layers.less_than(data(3), layers.fill_constant([1], "float32", 0.2)), data(3), data(3, name="y"),
                                  slots=("Condition", "X", "Y"))),
    ("expand_as", lambda: made("expand_as", data(1, 3), data(4, 6, name="y"), slots=("X", "target_tensor"))),
    ("expand_as_v2", lambda: made("expand_as_v2", data(1, 3), data(4, 3, name="y"), slots=("X", "Y"))),
    ("expand_as_v2_of_a_shape", lambda: made("expand_as_v2", data(1, 3), target_shape=[2, -1, 4, 3])),
    ("matmul_v2", lambda: made("matmul_v2", data(3, 4), data(5, 4, name="y"), trans_y=True)),
    ("flatten_contiguous_range", lambda: made("flatten_contiguous_range", data(3, 4, 2), start_axis=1, stop_axis=2)),
    ("lookup_table_v2", lambda: made("lookup_table_v2", parameter(7, 3), classes(), slots=("W", "Ids"))),
    ("one_hot_v2", lambda: layers.scale(made("one_hot_v2", classes(), depth=6), 1.0)),
    ("top_k_v2", lambda: output_of("top_k_v2", "Out", {"Out": "float32", "Indices": "int64"}, {"X": data(6)}, k=2, largest=False)),
    ("fusion_squared_mat_sub", lambda: made("fusion_squared_mat_sub", data(3), parameter(3, 4), scalar=0.5)),
    ("fusion_transpose_flatten_concat", lambda: made("fusion_transpose_flatten_concat", [data(3, 4), data(2, 4, name="y")],
                                                     trans_axis=[0, 2, 1], flatten_axis=1, concat_axis=1)),
    ("unpool", lambda: made("unpool", *index_pool(size=2), slots=("X", "Indices"), ksize=[2, 2], strides=[2, 2], unpooling_type="max")),
    *[(f"add_position_encoding_{width}", lambda width=width: made("add_position_encoding", data(5, width), alpha=0.5, beta=2.0))
      for width in (2, 6)],
    *[(f"softmax_with_cross_entropy_{ignored}",
       lambda ignored=ignored: layers.softmax_with_cross_entropy(data(5), classes(), ignore_index=ignored)) for ignored in (-100, 1)],
    ("softmax_with_cross_entropy_soft", lambda: layers.softmax_with_cross_entropy(data(5), layers.softmax(data(5, name="y")),
                                                                                  soft_label=True)),
    ("cross_entropy", lambda: layers.cross_entropy(layers.softmax(data(5)), classes())),
    ("cross_entropy_soft", lambda: layers.cross_entropy(layers.softmax(data(5)), layers.softmax(data(5, name="y")), soft_label=True)),
    ("rank_loss", lambda: layers.rank_loss(layers.sigmoid(data(1, name="y")), data(1), data(1, name="z"))),
    ("margin_rank_loss", lambda: layers.margin_rank_loss(layers.sign(data(1, name="y")), data(1), data(1, name="z"), margin=0.2)),
    ("hinge_loss", lambda: hinge()),
    ("log_loss", lambda: layers.log_loss(layers.sigmoid(data(1)), layers.cast(signs("y", 1), "float32"))),
    ("huber_loss", lambda: layers.huber_loss(data(1), data(1, name="y"), 0.7)),
    ("cross_entropy2", lambda: output_of("cross_entropy2", "Y", dict.fromkeys(("Y", "XShape", "MatchX"), "float32"),
                                         {"X": layers.softmax(data(5)), "Label": classes()}, ignore_index=1)),
    ("bpr_loss", lambda: layers.bpr_loss(data(5), classes())),
    *[(f"kldiv_loss_{how}", lambda how=how: layers.kldiv_loss(data(5), layers.relu(data(5, name="y")), how))
      for how in ("none", "mean", "sum", "batchmean")],
    ("modified_huber_loss", lambda: made("modified_huber_loss", layers.scale(data(1), 2.0), layers.cast(signs("y", 1), "float32"))),
    *[(f"sigmoid_cross_entropy_{normalizes}", lambda normalizes=normalizes: layers.sigmoid_cross_entropy_with_logits(
        data(5), layers.relu(layers.sign(data(5, name="y"))), ignore_index=0, normalize=normalizes)) for normalizes in (False, True)],
    ("smooth_l1_loss", lambda: layers.smooth_l1(data(3, 2), data(3, 2, name="y"))),
    ("smooth_l1_loss_weighed", lambda: layers.smooth_l1(data(5), data(5, name="y"), data(5, name="inside"),
                                                        layers.exp(data(5, name="outside")), sigma=1.5)),
    ("teacher_student", lambda: layers.teacher_student_sigmoid_loss(data(1),
                                                                    layers.elementwise_max(data(1, name="y"),
                                                                                           layers.fill_constant([1], "float32", -2.0)))),
    *[(f"hierarchical_sigmoid_{n}", lambda n=n: layers.hsigmoid(data(3), classes(), n)) for n in (5, 8)],
    ("hierarchical_sigmoid_of_a_tree", lambda: layers.hsigmoid(data(3), classes(), 6,
                                                               path_table=paths([[0, 2, -1], [0, 1, 4], [5, -1, 3], [-1, 1, 1]]),
                                                               path_code=paths([[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]]),
                                                               is_custom=True, bias_attr=False)),
    ("accuracy", lambda: layers.accuracy(data(5), classes(), k=2)),
    *[(f"mean_iou_{i}", lambda i=i: layers.mean_iou(classes(), classes("other"), 6)[i]) for i in (0, 1, 2)],
    *[(f"positive_negative_pair_{slot}", lambda slot=slot: pairs(slot, slot == "NegativePair"))
      for slot in ("PositivePair", "NegativePair", "NeutralPair")],
    *[(f"precision_recall_{slot}", lambda slot=slot: precision(slot, slot != "BatchMetrics"))
      for slot in ("BatchMetrics", "AccumMetrics", "AccumStatesInfo")],
    ("print", lambda: layers.Print(data(3), first_n=1)),
    ("conv_shift", lambda: made("conv_shift", data(5), data(3, name="y"))),
    *[(f"spp_{how}_{size}", lambda how=how, size=size: made("spp", data(2, *size), pyramid_height=3, pooling_type=how))
      for how in ("max", "avg") for size in ((8, 7), (5, 2))],
    *[(f"similarity_focus_{axis}", lambda axis=axis: made("similarity_focus", data(3, 4, 5), axis=axis, indexes=[0, 2]))
      for axis in (1, 2, 3)],
    *[(f"tree_conv_{depth}", lambda depth=depth: trees(depth)) for depth in (1, 2, 4)],
    ("conv2d_fusion", lambda: fused_conv()),
    ("fusion_repeated_fc_relu", lambda: made("fusion_repeated_fc_relu", data(3), [parameter(3, 4), parameter(4, 2)],
                                             [parameter(4), parameter(2)], slots=("X", "W", "Bias"))),
    ("spectral_norm", lambda: layers.spectral_norm(parameter(3, 4), power_iters=2)),
    *[(f"matmul_of_vectors_{kind}", lambda make=make: make()) for kind, make in (
        ("left", lambda: layers.matmul(layers.fill_constant([3], "float32", 1.5), data(3, 2), alpha=0.5)),
        ("right", lambda: layers.matmul(data(2, 3), parameter(3))),
        ("both", lambda: layers.matmul(layers.scale(parameter(3), 2.0), parameter(3))))],
    ("top_k_of_a_number_that_is_fed", lambda: output_of("top_k", "Indices", {"Out": "float32", "Indices": "int64"},
                                                        {"X": data(6), "K": layers.assign(np.array([2], "int32"))})),
    *[(f"lrn_{n}", lambda n=n: layers.lrn(data(5, 3, 3), n=n, alpha=0.5)) for n in (2, 4)],
    *[(f"pool_avg_up_with_padding_{pad}", lambda pad=pad: layers.pool2d(data(2, 8, 7), 3, "avg", 2, pad, ceil_mode=True, exclusive=False))
      for pad in (0, 1)],
    *[(f"adaptive_{how}_uneven", lambda how=how: layers.adaptive_pool2d(data(2, 8, 7), [3, 4], how)) for how in ("max", "avg")],
    ("adaptive_3d", lambda: layers.adaptive_pool3d(data(2, 4, 5, 6), [2, 3, 4], "avg")),
    ("pad2d_of_the_last", lambda: layers.pad2d(data(4, 5, 2), [1, 0, 2, 1], data_format="NHWC")),
    ("pad2d_that_is_fed", lambda: layers.pad2d(data(1, 4, 4), layers.assign(np.array([1, 0, 2, 1], "int32")), pad_value=0.5)),
    ("crop_the_rest", lambda: layers.crop(data(4, 5), [2, -1, 3], layers.assign(np.array([1, 0, 2], "int32")))),
    ("affine_grid_of_a_shape_that_is_fed", lambda: layers.affine_grid(data(2, 3), layers.assign(np.array([4, 1, 3, 5], "int32")))),
    *[(f"of_any_size_{name}", lambda make=make: make()) for name, make in OF_ANY_SIZE],
    ("written_twice", lambda: layers.assign(layers.relu(data(3)), layers.sigmoid(data(3)))),
]


# they hold constants for a batch of four
OF_FOUR = {"affine_grid", "crop_from", "multiplex", "scatter_True", "scatter_False", "scatter_nd_add", "hierarchical_sigmoid_of_a_tree",
           "tree_conv_1", "tree_conv_2", "tree_conv_4", "crop_the_rest", "affine_grid_of_a_shape_that_is_fed"}


@pytest.mark.parametrize(("name", "make"), [pytest.param(name, make, id=name) for name, make in CASES])
def test_onnxruntime_gives_the_same(name: str, make: Callable[[], Any], tmp_path: Path) -> None:
    assert_same(make, tmp_path, (4,) if name in OF_FOUR else (4, 8) if name.startswith("of_any_size") else (4, 6))


def in_cases() -> set[str]:
    used = set(OF_BEAMS)
    for _, make in (*CASES, *OF_BLOCKS, *OF_SEQUENCES):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
            make()
            used |= {op.type for block in fluid.default_main_program().blocks for op in block.ops}
    return used


def test_each_operator_is_in_a_case_or_refused_with_a_reason() -> None:
    used, known = in_cases(), set(formats.onnx_operators())
    assert known - used == set()
    page = (Path(__file__).resolve().parents[2] / "docs" / "formats-of-others.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (`[^|]+`) \|$", page, re.MULTILINE)
    refused = [name for _, names in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(refused) == len(set(refused))
    assert set(refused) & (known | used) == set()
    forward = {type for type in op_types() if not (type.endswith("_grad") and op_proto(type.removesuffix("_grad")))}
    assert forward - used == set(refused) | {"feed", "fetch"}


@pytest.mark.parametrize(("make", "why"), [
    (lambda: output_of("max_pool2d_with_index", "Out", {"Out": "float32", "Mask": "int32"}, {"X": data(2, 8, 8)}, ksize=[3, 3],
                       adaptive=True), "adaptive windows are not exported"),
    (lambda: made("spp", layers.data("x", [-1, 2, -1, 8], append_batch_size=False), pyramid_height=2, pooling_type="max"),
     "spp: .*the size of the images must be known"),
    (lambda: layers.adaptive_pool2d(layers.data("x", [-1, 2, -1, 8], append_batch_size=False), [4, 3], "avg"),
     "adaptive pools are exported of images of known sizes only"),
    (lambda: made("nearest_interp_v2", data(2, 5, 6), scale=[1.5, 1.5], align_corners=False),
     "nearest_interp_v2: its scale is .* whole after it"),
    (lambda: made("bicubic_interp", data(2, 5, 6), out_h=1, out_w=3, align_corners=False), "bicubic_interp: .* a single row or column"),
    (lambda: layers.im2sequence(layers.data("x", [-1, 2, -1, 8], append_batch_size=False), 2),
     "im2sequence: .* images of known sizes alone"),
    (lambda: layers.maxout(layers.data("x", [-1, -1, 4, 3], append_batch_size=False), 2), r"the dimensions \[1\] must be known"),
], ids=lambda value: None if callable(value) else value[:12])
def test_a_form_that_onnx_lacks_is_named(make: Callable[[], Any], why: str, tmp_path: Path) -> None:
    target, exe = make(), fluid.Executor()
    with pytest.raises(errors.UnsupportedError, match=why):
        formats.export_onnx(tmp_path / "m.onnx", ["x"], [target], exe)


def test_an_operator_that_onnx_lacks_is_named(tmp_path: Path) -> None:
    exe = fluid.Executor()
    rows = layers.embedding(layers.data("keys", [1], dtype="int64"), [10, 4], is_distributed=True)
    with pytest.raises(errors.UnsupportedError, match=r"operator \d+ \(lookup_sparse_table\) has no "
                                                      r"counterpart.*docs/formats-of-others\.md says why"):
        formats.export_onnx(tmp_path / "m.onnx", ["keys"], [rows], exe)
    with pytest.raises(errors.InvalidArgumentError, match=r"NAME\.onnx"):
        formats.export_onnx(tmp_path / "model", ["keys"], [rows], exe)
    with pytest.raises(ValueError, match=r"no variable 'kyes'; did you mean 'keys'\?"):
        formats.export_onnx(tmp_path / "m.onnx", ["kyes"], [rows], exe)


def test_saving_to_a_file_of_onnx_says_what_to_call() -> None:
    x = data(2)
    exe = fluid.Executor()
    y = layers.fc(x, 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"fluid\.formats\.export_onnx\('m\.onnx', \['x'\]"):
        fluid.io.save_inference_model("m.onnx", ["x"], [y], exe)
