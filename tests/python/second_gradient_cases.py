"""What operators are differentiated twice with, for test_second_gradients.py and test_zeros.py: a case or a refusal for each that has a
gradient."""

from typing import NamedTuple

import numpy as np

import trireme as fluid
from trireme import layers

RANDOM = np.random.RandomState(7)


def numbers(*shape, low=0.3, high=1.7, sign=True):
    """Numbers away from 0, of both signs or positive."""
    values = RANDOM.uniform(low, high, shape)
    return values * RANDOM.choice([-1.0, 1.0], shape) if sign else values


def positive(*shape):
    return numbers(*shape, sign=False)


def operator(type, outputs=("Out",), **attrs):
    """A function that appends an operator whose inputs are its arguments, by slot."""
    def build(**inputs):
        made = {slot: fluid.default_main_program().global_block().create_var(
            name=fluid.unique_name.generate(slot), dtype="float64") for slot in outputs}
        fluid.default_main_program().global_block().append_op(type=type, inputs=inputs, outputs=made, attrs=attrs)
        return made[outputs[0]]
    return build


def split_byref(X):
    parts = [fluid.default_main_program().global_block().create_var(name=fluid.unique_name.generate("part"), dtype="float64")
             for _ in range(2)]
    fluid.default_main_program().global_block().append_op(type="split_byref", inputs={"X": X}, outputs={"Out": parts},
                                                          attrs={"sections": [1, 2]})
    return parts


def lstm_unit(X, C_prev):
    C, H = (fluid.default_main_program().global_block().create_var(name=fluid.unique_name.generate("state"), dtype="float64")
            for _ in range(2))
    fluid.default_main_program().global_block().append_op(type="lstm_unit", inputs={"X": X, "C_prev": C_prev}, outputs={"C": C, "H": H},
                                                          attrs={"forget_bias": 0.5})
    return [C, H]


class Constant(NamedTuple):
    """An input without a gradient: labels, numbers of rows, sizes."""
    values: np.ndarray


class Sequences(NamedTuple):
    """Rows of sequences of these lengths; of several levels from the outside in."""
    values: np.ndarray
    lengths: list
    is_constant: bool = False


def whole(*values, dtype="int64"):
    return Constant(np.array(values, dtype))


def apart(*shape):
    """Numbers that differ by more than a step of differences, in any order: for maxima."""
    return RANDOM.permutation(int(np.prod(shape))).reshape(shape) * 0.1 - 0.65


# Places inside of images of 3 x 4 and outside, none of which lies on an element.
GRID = np.array([[[[-0.83, 0.3], [0.41, -0.57]], [[1.21, 0.77], [-0.2, -1.3]], [[-3.0, 0.1], [0.9, 0.93]]],
                 [[[0.55, -0.1], [-1.15, -1.2]], [[0.05, 0.6], [-0.4, 0.33]], [[0.7, 5.0], [-0.6, -0.9]]]])
PYRAMID = np.array([[[[0.5, -1.0], [2.0, 1.5]]]])
PYRAMID_TOP = np.array([[2.0, 0.5, -1.0, 2.0, 1.5]])

UNARY = {name: numbers(2, 3) for name in (
    "abs", "atan", "brelu", "ceil", "cos", "elu", "erf", "exp", "floor", "gelu", "hard_shrink", "hard_sigmoid", "leaky_relu", "logsigmoid",
    "reciprocal", "relu", "relu6", "round", "selu", "sigmoid", "sign", "sin", "soft_relu", "softplus", "softshrink", "softsign", "square",
    "stanh",
    "swish", "tanh", "tanh_shrink", "thresholded_relu")}
UNARY |= {name: positive(2, 3) for name in ("log", "sqrt", "rsqrt")}
UNARY |= {name: numbers(2, 3, low=0.2, high=0.8) for name in ("acos", "asin")}

CASES = {name: (operator(name), {"X": x}) for name, x in UNARY.items()}
CASES |= {
    "pow": (operator("pow", factor=2.5), {"X": positive(2, 3)}),
    "pow, squared": (operator("pow", factor=2.0), {"X": numbers(2, 3)}),
    "elu, alpha": (operator("elu", alpha=0.7), {"X": numbers(2, 3)}),
    "swish, beta": (operator("swish", beta=1.3), {"X": numbers(2, 3)}),
    "cos, scale": (operator("cos", scale=2.0), {"X": numbers(2, 3)}),
    "clip": (operator("clip", min=-1.0, max=1.0), {"X": numbers(2, 3)}),
    "mul": (operator("mul"), {"X": numbers(2, 3), "Y": numbers(3, 4)}),
    "mul, ranks": (operator("mul", x_num_col_dims=2, y_num_col_dims=2), {"X": numbers(2, 3, 4), "Y": numbers(2, 2, 5)}),
    "matmul": (operator("matmul"), {"X": numbers(2, 3), "Y": numbers(3, 4)}),
    "matmul, turned": (operator("matmul", transpose_X=True, transpose_Y=True, alpha=0.5), {"X": numbers(3, 2), "Y": numbers(4, 3)}),
    "matmul, stacks": (operator("matmul", transpose_Y=True), {"X": numbers(2, 2, 3), "Y": numbers(2, 4, 3)}),
    "elementwise_add": (operator("elementwise_add"), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "elementwise_add, broadcast": (operator("elementwise_add", axis=1), {"X": numbers(2, 3, 4), "Y": numbers(3)}),
    "elementwise_sub": (operator("elementwise_sub"), {"X": numbers(2, 3), "Y": numbers(3)}),
    "elementwise_mul": (operator("elementwise_mul"), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "elementwise_mul, broadcast": (operator("elementwise_mul", axis=0), {"X": numbers(2, 3), "Y": numbers(2)}),
    "elementwise_div": (operator("elementwise_div"), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "elementwise_div, broadcast": (operator("elementwise_div", axis=0), {"X": numbers(2, 3), "Y": numbers(2)}),
    "scale": (operator("scale", scale=3.0, bias=1.0), {"X": numbers(2, 3)}),
    "sum": (operator("sum"), {"X": [numbers(2, 3), numbers(2, 3)]}),
    "mean": (operator("mean"), {"X": numbers(2, 3)}),
    "reduce_sum": (operator("reduce_sum", dim=[0, 2]), {"X": numbers(2, 3, 2)}),
    "reduce_mean": (operator("reduce_mean", dim=[1], keep_dim=True), {"X": numbers(2, 3, 2)}),
    "softmax": (operator("softmax"), {"X": numbers(2, 3)}),
    "softmax, axis": (operator("softmax", axis=1), {"X": numbers(2, 3, 2)}),
    "reshape": (operator("reshape", shape=[3, 2]), {"X": numbers(2, 3)}),
    "reshape2": (operator("reshape2", ("Out", "XShape"), shape=[0, -1]), {"X": numbers(2, 3, 2)}),
    "squeeze2": (operator("squeeze2", ("Out", "XShape"), axes=[1]), {"X": numbers(2, 1, 3)}),
    "unsqueeze2": (operator("unsqueeze2", ("Out", "XShape"), axes=[1]), {"X": numbers(2, 3)}),
    "flatten_contiguous_range": (operator("flatten_contiguous_range", ("Out", "XShape"), start_axis=1), {"X": numbers(2, 3, 2)}),
    "matmul_v2": (operator("matmul_v2", trans_y=True), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "hard_swish": (operator("hard_swish"), {"X": numbers(2, 3)}),
    "flatten2": (operator("flatten2", ("Out", "XShape"), axis=2), {"X": numbers(2, 3, 2)}),
    "transpose": (operator("transpose", axis=[1, 0, 2]), {"X": numbers(2, 3, 2)}),
    "transpose2": (operator("transpose2", ("Out", "XShape"), axis=[2, 0, 1]), {"X": numbers(2, 3, 2)}),
    "concat": (operator("concat", axis=1), {"X": [numbers(2, 3), numbers(2, 1)]}),
    "split": (lambda X: layers.split(X, 3, dim=1)[1], {"X": numbers(2, 3)}),
    "slice": (operator("slice", axes=[1], starts=[1], ends=[3]), {"Input": numbers(2, 3)}),
    "stack": (operator("stack", ("Y",), axis=1), {"X": [numbers(2, 3), numbers(2, 3)]}),
    "unstack": (lambda X: layers.unstack(X, axis=1)[0], {"X": numbers(2, 3)}),
    "expand": (operator("expand", expand_times=[2, 1]), {"X": numbers(2, 3)}),
    "gather": (lambda X: layers.gather(X, layers.assign(np.array([2, 0, 2], "int32"))), {"X": numbers(3, 2)}),
    "cast": (lambda X: layers.cast(layers.cast(X, "float64"), "float64"), {"X": numbers(2, 3)}),
    "conv2d": (operator("conv2d", ("Output",), strides=[2, 1], paddings=[1, 0]),
               {"Input": numbers(2, 2, 4, 3), "Filter": numbers(3, 2, 3, 2)}),
    "conv2d, groups": (operator("conv2d", ("Output",), groups=2, dilations=[2, 1]),
                       {"Input": numbers(1, 4, 4, 3), "Filter": numbers(2, 2, 2, 2)}),
    "depthwise_conv2d": (operator("depthwise_conv2d", ("Output",), groups=2),
                         {"Input": numbers(2, 2, 3, 3), "Filter": numbers(2, 1, 2, 2)}),
    "conv3d": (operator("conv3d", ("Output",)), {"Input": numbers(1, 2, 3, 2, 2), "Filter": numbers(2, 2, 2, 1, 2)}),
    "conv2d_transpose": (operator("conv2d_transpose", ("Output",), strides=[2, 2]),
                         {"Input": numbers(2, 2, 2, 2), "Filter": numbers(2, 3, 2, 2)}),
    "elementwise_max": (operator("elementwise_max"), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "elementwise_min, broadcast": (operator("elementwise_min", axis=0), {"X": numbers(2, 3), "Y": numbers(2)}),
    "layer_norm": (operator("layer_norm", ("Y", "Mean", "Variance"), begin_norm_axis=1),
                   {"X": numbers(2, 3, 2), "Scale": numbers(6), "Bias": numbers(6)}),
    "layer_norm, plain": (operator("layer_norm", ("Y", "Mean", "Variance"), begin_norm_axis=2), {"X": numbers(2, 2, 3)}),
    "sigmoid_cross_entropy_with_logits": (operator("sigmoid_cross_entropy_with_logits"),
                                          {"X": numbers(2, 3), "Label": numbers(2, 3, low=0.1, high=0.9, sign=False)}),
    "pool2d, averages": (operator("pool2d", pooling_type="avg", ksize=[2, 2], strides=[1, 2], paddings=[1, 0]), {"X": numbers(2, 2, 3, 4)}),
    "pool2d, global": (operator("pool2d", pooling_type="avg", ksize=[1, 1], global_pooling=True), {"X": numbers(2, 2, 3, 4)}),
    "l1_norm": (operator("l1_norm"), {"X": numbers(2, 3)}),
    "squared_l2_norm": (operator("squared_l2_norm"), {"X": numbers(2, 3)}),
    "pad": (operator("pad", paddings=[0, 1, 2, 0], pad_value=3.0), {"X": numbers(2, 3)}),
    "crop": (operator("crop", offsets=[0, 1], shape=[2, 2]), {"X": numbers(2, 3)}),
    "label_smooth": (operator("label_smooth", epsilon=0.1), {"X": positive(2, 3)}),
    "squared_l2_distance": (operator("squared_l2_distance", ("Out", "sub_result")), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "cos_sim": (operator("cos_sim", ("Out", "XNorm", "YNorm")), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "affine_channel": (operator("affine_channel"), {"X": numbers(2, 3, 2, 2), "Scale": numbers(3), "Bias": numbers(3)}),
    "bilinear_tensor_product": (operator("bilinear_tensor_product"),
                                {"X": numbers(2, 3), "Y": numbers(2, 2), "Weight": numbers(2, 3, 2), "Bias": numbers(1, 2)}),
    "fsp": (operator("fsp"), {"X": numbers(2, 2, 2, 2), "Y": numbers(2, 3, 2, 2)}),
    "fused_elemwise_activation": (operator("fused_elemwise_activation", ("Out", "IntermediateOut"),
                                           functor_list=["elementwise_mul", "tanh"]),
                                  {"X": numbers(2, 3), "Y": numbers(2, 3)}),
}

# rules that were written as forward operators again
CASES |= {
    "add_position_encoding": (operator("add_position_encoding", alpha=0.5, beta=2.0), {"X": numbers(1, 2, 4)}),
    "affine_grid": (operator("affine_grid", ("Output",), output_shape=[1, 1, 2, 3]), {"Theta": numbers(1, 2, 3)}),
    "affine_grid, fed": (operator("affine_grid", ("Output",)),
                         {"Theta": numbers(1, 2, 3), "OutputShape": whole(1, 1, 2, 3, dtype="int32")}),
    "assign": (operator("assign"), {"X": numbers(2, 3)}),
    "bilinear_interp_v2": (operator("bilinear_interp_v2", scale=[1.5, 2.0], align_corners=False), {"X": numbers(1, 2, 3, 2)}),
    "nearest_interp_v2": (operator("nearest_interp_v2", out_h=3, out_w=2), {"X": numbers(1, 2, 2, 3)}),
    "linear_interp": (operator("linear_interp", out_w=5), {"X": numbers(1, 2, 3)}),
    "linear_interp_v2": (operator("linear_interp_v2", scale=[1.5], align_corners=False), {"X": numbers(1, 2, 3)}),
    "bicubic_interp": (operator("bicubic_interp", out_h=3, out_w=4), {"X": numbers(1, 1, 2, 3), "OutSize": whole(3, 2, dtype="int32")}),
    "bicubic_interp_v2": (operator("bicubic_interp_v2", scale=[1.5, 2.0], align_corners=False), {"X": numbers(1, 1, 3, 2)}),
    "trilinear_interp": (operator("trilinear_interp", out_d=3, out_h=2, out_w=1), {"X": numbers(1, 1, 2, 3, 2)}),
    "trilinear_interp_v2": (operator("trilinear_interp_v2", scale=[1.5, 1.0, 2.0], align_corners=False), {"X": numbers(1, 1, 2, 1, 2)}),
    "expand_as": (operator("expand_as"), {"X": numbers(2, 1), "target_tensor": Constant(numbers(4, 3))}),
    "expand_as_v2": (operator("expand_as_v2"), {"X": numbers(2, 1), "Y": Constant(numbers(2, 2, 3))}),
    "where, of two": (operator("where"), {"Condition": Constant(np.array([[True, False], [False, True]])), "X": numbers(2, 2),
                                          "Y": numbers(2, 2)}),
    "bmm": (operator("bmm"), {"X": numbers(2, 2, 3), "Y": numbers(2, 3, 2)}),
    "expand_v2": (operator("expand_v2", shape=[2, -1, 3]), {"X": numbers(2, 1)}),
    "flip": (operator("flip", axis=[1]), {"X": numbers(2, 3)}),
    "index_select": (operator("index_select", dim=1), {"X": numbers(2, 3), "Index": whole(2, 0, 2)}),
    "log_softmax": (operator("log_softmax", axis=0), {"X": numbers(3, 2)}),
    "mish": (operator("mish"), {"X": numbers(2, 3)}),
    "p_norm": (operator("p_norm", porder=3.0, axis=0), {"X": numbers(3, 2)}),
    "silu": (operator("silu"), {"X": numbers(2, 3)}),
    "strided_slice": (operator("strided_slice", axes=[1], starts=[-1], ends=[-1], strides=[-2]), {"Input": numbers(2, 5)}),
    "tile": (operator("tile", repeat_times=[2, 1, 2]), {"X": numbers(2, 3)}),
    "bilinear_interp": (operator("bilinear_interp", out_h=3, out_w=4), {"X": numbers(1, 2, 2, 3)}),
    "nearest_interp": (operator("nearest_interp", out_h=3, out_w=2), {"X": numbers(1, 2, 2, 3), "OutSize": whole(3, 2, dtype="int32")}),
    "conv3d_transpose": (operator("conv3d_transpose", ("Output",)), {"Input": numbers(1, 2, 2, 1, 2), "Filter": numbers(2, 2, 2, 1, 2)}),
    "conv_shift": (operator("conv_shift"), {"X": numbers(2, 4), "Y": numbers(2, 3)}),
    "cumsum": (operator("cumsum", axis=1, exclusive=True), {"X": numbers(2, 3)}),
    "depthwise_conv2d_transpose": (operator("depthwise_conv2d_transpose", ("Output",), groups=2),
                                   {"Input": numbers(1, 2, 2, 2), "Filter": numbers(2, 1, 2, 2)}),
    "flatten": (operator("flatten", axis=2), {"X": numbers(2, 3, 2)}),
    "gather_nd": (operator("gather_nd"), {"X": numbers(2, 3, 2), "Index": whole([1, 2], [0, 0], [1, 2])}),
    "im2sequence": (operator("im2sequence", kernels=[2, 2], strides=[1, 1]), {"X": numbers(1, 2, 3, 3)}),
    "increment": (operator("increment", step=2.0), {"X": numbers(1)}),
    "lookup_table_v2": (operator("lookup_table_v2", padding_idx=1), {"W": numbers(4, 2), "Ids": whole(2, 1, 2, 0)}),
    "lookup_table": (operator("lookup_table", padding_idx=1), {"W": numbers(4, 2), "Ids": whole([2], [1], [2], [0])}),
    "lod_reset": (operator("lod_reset", target_lod=[0, 1, 4]), {"X": Sequences(numbers(4, 2), [2, 2])}),
    "lod_reset, Y": (lambda X, Y: layers.sequence_softmax(operator("lod_reset")(X=X, Y=Y)),
                     {"X": Sequences(numbers(4, 1), [2, 2]), "Y": Sequences(numbers(4, 2), [1, 3], True)}),
    "minus": (operator("minus"), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "multiplex": (operator("multiplex"), {"Ids": whole([1], [0], [1], dtype="int32"), "X": [numbers(3, 2), numbers(3, 2)]}),
    "pad2d": (operator("pad2d", paddings=[1, 0, 2, 1], pad_value=3.0), {"X": numbers(1, 2, 2, 3)}),
    "pad2d, reflected": (operator("pad2d", paddings=[1, 0, 2, 1], mode="reflect"), {"X": numbers(1, 2, 2, 3)}),
    "pad2d, fed": (operator("pad2d", pad_value=2.0, data_format="NHWC"),
                   {"X": numbers(1, 2, 2, 3), "Paddings": whole(0, 1, 1, 0, dtype="int32")}),
    "pad_constant_like": (operator("pad_constant_like", pad_value=3.0), {"X": Constant(numbers(3, 3)), "Y": numbers(2, 3)}),
    "pixel_shuffle": (operator("pixel_shuffle", upscale_factor=2), {"X": numbers(1, 4, 1, 2)}),
    "print": (operator("print", first_n=0), {"In": numbers(2, 3)}),
    "reverse": (operator("reverse", axis=[1]), {"X": numbers(2, 3)}),
    "rnn_memory_helper": (operator("rnn_memory_helper"), {"X": numbers(2, 3)}),
    "row_conv": (operator("row_conv"), {"X": Sequences(numbers(5, 2), [3, 2]), "Filter": numbers(2, 2)}),
    "scatter": (operator("scatter"), {"X": numbers(4, 2), "Ids": whole(2, 0, 2), "Updates": numbers(3, 2)}),
    "scatter, sums": (operator("scatter", overwrite=False), {"X": numbers(4, 2), "Ids": whole(2, 0, 2), "Updates": numbers(3, 2)}),
    "scatter_nd_add": (operator("scatter_nd_add"), {"X": numbers(2, 3), "Index": whole([1, 2], [0, 0], [1, 2]), "Updates": numbers(3)}),
    "shuffle_channel": (operator("shuffle_channel", group=2), {"X": numbers(1, 4, 1, 2)}),
    "space_to_depth": (operator("space_to_depth", blocksize=2), {"X": numbers(1, 4, 2, 4)}),
    "split_byref": (lambda X: layers.concat([layers.square(part) for part in split_byref(X)], 0), {"X": numbers(3, 2)}),
    "squeeze": (operator("squeeze", axes=[1]), {"X": numbers(2, 1, 3)}),
    "take_places": (operator("take_places"), {"X": numbers(1, 2, 2, 2), "Places": whole([[3, 3, 0], [1, 2, 1]], dtype="int32")}),
    "temporal_shift": (operator("temporal_shift", seg_num=2, shift_ratio=0.25), {"X": numbers(2, 4, 1, 2)}),
    "tree_conv": (operator("tree_conv", max_depth=2), {"NodesVector": numbers(1, 3, 2), "EdgeSet": whole([[1, 2], [1, 3]], dtype="int32"),
                                                        "Filter": numbers(2, 3, 1, 2)}),
    "unpool": (operator("unpool", unpooling_type="max", ksize=[2, 2], strides=[2, 2], paddings=[0, 0]),
               {"X": numbers(1, 1, 1, 2), "Indices": Constant(np.array([[[[1, 6]]]], "int32"))}),
    "unsqueeze": (operator("unsqueeze", axes=[1]), {"X": numbers(2, 3)}),
}

# choices, rows, and one step of a recurrent net
GRU_UNIT = {"Input": numbers(2, 6), "HiddenPrev": numbers(2, 2), "Weight": numbers(2, 6), "Bias": numbers(1, 6)}
OUTPUTS_OF_GRU_UNIT = ("Hidden", "Gate", "ResetHiddenPrev")
CASES |= {
    "gru_unit": (operator("gru_unit", OUTPUTS_OF_GRU_UNIT), GRU_UNIT),
    "gru_unit, origin mode": (operator("gru_unit", OUTPUTS_OF_GRU_UNIT, origin_mode=True), GRU_UNIT),
    "gru_unit, other activations": (operator("gru_unit", OUTPUTS_OF_GRU_UNIT, activation=0, gate_activation=3), GRU_UNIT),
    "gru_unit, no bias": (operator("gru_unit", OUTPUTS_OF_GRU_UNIT, activation=1),
                          {name: GRU_UNIT[name] for name in ("Input", "HiddenPrev", "Weight")}),
    "gru_unit, no rows": (operator("gru_unit", OUTPUTS_OF_GRU_UNIT), GRU_UNIT | {"Input": numbers(0, 6), "HiddenPrev": numbers(0, 2)}),
    "grid_sampler": (operator("grid_sampler", ("Output",)), {"X": numbers(2, 3, 3, 4), "Grid": GRID}),
    "grid_sampler, one row": (operator("grid_sampler", ("Output",)), {"X": numbers(1, 2, 1, 3), "Grid": GRID[:1]}),
    "grid_sampler, no images": (operator("grid_sampler", ("Output",)), {"X": numbers(0, 2, 3, 3), "Grid": GRID[:0]}),
    "spp": (operator("spp", pyramid_height=3, pooling_type="max"), {"X": apart(2, 2, 3, 5)}),
    "spp, averages": (operator("spp", pyramid_height=3, pooling_type="avg"), {"X": apart(2, 2, 3, 5)}),
    "spp, windows of padding": (operator("spp", pyramid_height=3, pooling_type="max"), {"X": apart(1, 2, 1, 2)}),
    "spp, no images": (operator("spp", pyramid_height=2, pooling_type="max"), {"X": apart(0, 2, 3, 3)}),
    "nonzero_rows": (lambda X: layers.square(layers.sum([layers.zeros_like(X), operator("nonzero_rows")(X=X)])), {"X": numbers(3, 2)}),
    "spp_take": (operator("spp_take", ("Taken",), pyramid_height=2, pooling_type="max"),
                 {"X": Constant(PYRAMID), "Out": Constant(PYRAMID_TOP), "From": numbers(1, 1, 2, 2)}),
}

# sequences
SENTENCES = [2, 0, 3]
CASES |= {
    "reorder_lod_tensor_by_rank": (lambda X: layers.reorder_lod_tensor_by_rank(X, layers.lod_rank_table(X)),
                                   {"X": Sequences(numbers(5, 2), [2, 3])}),
    "sequence_concat": (operator("sequence_concat"), {"X": [Sequences(numbers(3, 2), [1, 2]), Sequences(numbers(2, 2), [1, 1])]}),
    "sequence_conv": (operator("sequence_conv", contextLength=3, contextStart=-1),
                      {"X": Sequences(numbers(5, 2), [2, 3]), "Filter": numbers(6, 2)}),
    "sequence_expand": (operator("sequence_expand", ref_level=0), {"X": numbers(2, 2), "Y": Sequences(numbers(3, 1), [1, 2], True)}),
    "sequence_expand_as": (operator("sequence_expand_as"), {"X": numbers(2, 2), "Y": Sequences(numbers(3, 1), [1, 2], True)}),
    "sequence_pad": (operator("sequence_pad", ("Out", "Length"), padded_length=4),
                     {"X": Sequences(numbers(5, 2), SENTENCES), "PadValue": Constant(np.full(1, 7.0))}),
    "sequence_pool": (operator("sequence_pool", ("Out", "MaxIndex"), pooltype="SQRT", pad_value=5.0),
                      {"X": Sequences(numbers(5, 2), SENTENCES)}),
    "sequence_pool, last": (operator("sequence_pool", ("Out", "MaxIndex"), pooltype="LAST"), {"X": Sequences(numbers(5, 2), SENTENCES)}),
    "sequence_pool, maxima": (operator("sequence_pool", ("Out", "MaxIndex"), pooltype="MAX", pad_value=5.0),
                              {"X": Sequences(apart(5, 2), SENTENCES)}),
    "sequence_reshape": (operator("sequence_reshape", new_dim=4), {"X": Sequences(numbers(4, 2), [2, 2])}),
    "sequence_reverse": (operator("sequence_reverse", ("Y",)), {"X": Sequences(numbers(5, 2), SENTENCES)}),
    "sequence_scatter": (operator("sequence_scatter"), {"X": numbers(2, 4), "Ids": Sequences(np.array([[1], [0], [1]]), [1, 2], True),
                                                        "Updates": Sequences(numbers(3, 1), [1, 2])}),
    "sequence_slice": (operator("sequence_slice"), {"X": Sequences(numbers(5, 2), [2, 3]), "Offset": whole([1], [0]),
                                                    "Length": whole([1], [2])}),
    "sequence_softmax": (operator("sequence_softmax"), {"X": Sequences(numbers(5, 1), SENTENCES)}),
    "sequence_unpad": (operator("sequence_unpad"), {"X": numbers(2, 3, 2), "Length": whole([2], [3])}),
    "fused_embedding_seq_pool": (operator("fused_embedding_seq_pool", combiner="sum"),
                                 {"W": numbers(4, 2), "Ids": Sequences(np.array([[2], [1], [2]]), [1, 2], True)}),
}

# maxima
WINDOWS = {"ksize": [2, 2], "strides": [2, 1], "paddings": [1, 0]}
CASES |= {
    "pool2d": (operator("pool2d", pooling_type="max", **WINDOWS), {"X": apart(1, 2, 3, 4)}),
    "pool2d, ceil": (operator("pool2d", pooling_type="max", ksize=[2, 2], strides=[2, 2], ceil_mode=True), {"X": apart(1, 2, 3, 3)}),
    "pool2d, adaptive": (operator("pool2d", pooling_type="max", ksize=[2, 3], adaptive=True), {"X": apart(1, 1, 3, 4)}),
    "pool3d": (operator("pool3d", pooling_type="max", ksize=[1, 2, 2], global_pooling=True), {"X": apart(1, 2, 2, 1, 3)}),
    "pool3d, averages": (operator("pool3d", pooling_type="avg", ksize=[1, 2, 2]), {"X": numbers(1, 2, 2, 2, 3)}),
    "max_pool2d_with_index": (operator("max_pool2d_with_index", ("Out", "Mask"), **WINDOWS), {"X": apart(1, 2, 3, 4)}),
    "max_pool3d_with_index": (operator("max_pool3d_with_index", ("Out", "Mask"), ksize=[2, 1, 2]), {"X": apart(1, 1, 2, 2, 3)}),
    "maxout": (operator("maxout", groups=2), {"X": apart(1, 4, 1, 2)}),
    "reduce_max": (operator("reduce_max", dim=[0, 2]), {"X": apart(2, 3, 2)}),
    "reduce_min": (operator("reduce_min", dim=[-1], keep_dim=True), {"X": apart(2, 3)}),
    "reduce_max, all": (operator("reduce_max", reduce_all=True), {"X": apart(2, 3)}),
    "reduce_prod": (operator("reduce_prod", dim=[1]), {"X": numbers(2, 3)}),
}

# norms and other curves
CHANNELS = {"Scale": numbers(2), "Bias": numbers(2), "Mean": Constant(numbers(2)), "Variance": Constant(positive(2))}
NORMED = ("Y", "MeanOut", "VarianceOut", "SavedMean", "SavedVariance")
CASES |= {
    "batch_norm": (operator("batch_norm", NORMED), {"X": numbers(3, 2, 2), **CHANNELS}),
    "batch_norm, rows": (operator("batch_norm", NORMED), {"X": numbers(4, 2), **CHANNELS}),
    "batch_norm, NHWC": (operator("batch_norm", NORMED, data_layout="NHWC"), {"X": numbers(2, 2, 1, 2), **CHANNELS}),
    "batch_norm, given": (operator("batch_norm", NORMED, use_global_stats=True), {"X": numbers(2, 2, 2), **CHANNELS}),
    "group_norm": (operator("group_norm", ("Y", "Mean", "Variance"), groups=2),
                   {"X": numbers(2, 4, 1, 2), "Scale": numbers(4), "Bias": numbers(4)}),
    "group_norm, plain": (operator("group_norm", ("Y", "Mean", "Variance"), groups=1), {"X": numbers(2, 2, 3)}),
    "data_norm": (operator("data_norm", ("Y", "Means", "Scales")), {"X": numbers(2, 3), "BatchSize": Constant(positive(3)),
                                                                    "BatchSum": Constant(numbers(3)),
                                                                    "BatchSquareSum": Constant(positive(3))}),
    "lrn": (operator("lrn", ("Out", "MidOut"), n=3, alpha=0.1), {"X": numbers(1, 4, 1, 2)}),
    "lrn, even": (operator("lrn", ("Out", "MidOut"), n=2, k=1.0, alpha=0.1, beta=0.5), {"X": numbers(1, 4, 1, 2)}),
    "norm": (operator("norm", ("Out", "Norm"), axis=1), {"X": numbers(2, 3, 2)}),
    "spectral_norm": (operator("spectral_norm", power_iters=0), {"Weight": numbers(2, 3), "U": Constant(numbers(2)),
                                                                 "V": Constant(numbers(3))}),
    "prelu": (operator("prelu", mode="all"), {"X": numbers(2, 2, 2), "Alpha": numbers(1)}),
    "prelu, channels": (operator("prelu", mode="channel"), {"X": numbers(2, 2, 2), "Alpha": numbers(1, 2, 1)}),
    "prelu, elements": (operator("prelu", mode="element"), {"X": numbers(2, 2, 2), "Alpha": numbers(1, 2, 2)}),
    "elementwise_pow": (operator("elementwise_pow"), {"X": positive(2, 3), "Y": numbers(2, 3)}),
    "elementwise_pow, broadcast": (operator("elementwise_pow", axis=0), {"X": positive(2, 3), "Y": numbers(2)}),
    "elementwise_max, one side": (operator("elementwise_max"), {"X": Constant(numbers(2, 3)), "Y": numbers(2, 3)}),
    "fc": (operator("fc", activation_type="tanh"), {"Input": numbers(2, 3), "W": numbers(3, 2), "Bias": numbers(1, 2)}),
    "fc, plain": (operator("fc", in_num_col_dims=2), {"Input": numbers(2, 1, 3), "W": numbers(3, 2)}),
    "lstm_unit": (lambda X, C_prev: layers.concat(lstm_unit(X, C_prev), 1), {"X": numbers(2, 8), "C_prev": numbers(2, 2)}),
}

# losses
CLASSES = whole([1], [2], [0])
CASES |= {
    "bpr_loss": (operator("bpr_loss", ("Y",)), {"X": numbers(3, 3), "Label": CLASSES}),
    "cross_entropy": (operator("cross_entropy", ("Y",), ignore_index=2), {"X": positive(3, 3), "Label": CLASSES}),
    "cross_entropy, soft": (operator("cross_entropy", ("Y",), soft_label=True), {"X": positive(3, 3), "Label": Constant(positive(3, 3))}),
    "cross_entropy2": (operator("cross_entropy2", ("Y", "XShape", "MatchX"), ignore_index=2), {"X": positive(3, 3), "Label": CLASSES}),
    "softmax_with_cross_entropy": (operator("softmax_with_cross_entropy", ("Loss", "Softmax"), ignore_index=2),
                                   {"Logits": numbers(3, 3), "Label": CLASSES}),
    "softmax_with_cross_entropy, both": (
        lambda Logits, Label: layers.concat(layers.softmax_with_cross_entropy(Logits, Label, return_softmax=True), 1),
        {"Logits": numbers(3, 3), "Label": CLASSES}),
    "softmax_with_cross_entropy, soft": (operator("softmax_with_cross_entropy", ("Loss", "Softmax"), soft_label=True),
                                         {"Logits": numbers(3, 3), "Label": Constant(positive(3, 3))}),
    "cvm": (lambda X, CVM: layers.slice(operator("cvm", ("Y",))(X=X, CVM=CVM), axes=[1], starts=[2], ends=[4]),
            {"X": positive(2, 4), "CVM": Constant(positive(2, 2))}),
    "cvm, without": (lambda X, CVM: layers.square(operator("cvm", ("Y",), use_cvm=False)(X=X, CVM=CVM)),
                     {"X": positive(2, 4), "CVM": Constant(np.zeros((2, 2)))}),
    "hinge_loss": (operator("hinge_loss", ("Loss",)), {"Logits": numbers(3, 1), "Labels": Constant(np.array([[1.0], [0.0], [1.0]]))}),
    "huber_loss": (operator("huber_loss", ("Out", "Residual"), delta=1.0), {"X": apart(4, 1), "Y": numbers(4, 1)}),
    "huber_loss, one side": (operator("huber_loss", ("Out", "Residual"), delta=1.0), {"X": numbers(4, 1), "Y": Constant(numbers(4, 1))}),
    "kldiv_loss": (operator("kldiv_loss", ("Loss",)), {"X": numbers(2, 3), "Target": Constant(numbers(2, 3))}),
    "kldiv_loss, batchmean": (operator("kldiv_loss", ("Loss",), reduction="batchmean"),
                              {"X": numbers(2, 3), "Target": Constant(positive(2, 3))}),
    "kldiv_loss, sum": (operator("kldiv_loss", ("Loss",), reduction="sum"), {"X": numbers(2, 3), "Target": Constant(positive(2, 3))}),
    "kldiv_loss, none": (operator("kldiv_loss", ("Loss",), reduction="none"), {"X": numbers(2, 3), "Target": Constant(positive(2, 3))}),
    "log_loss": (operator("log_loss", ("Loss",), epsilon=0.01), {"Predicted": numbers(3, 1, low=0.2, high=0.8, sign=False),
                                                                 "Labels": Constant(np.array([[1.0], [0.0], [0.3]]))}),
    "margin_rank_loss": (operator("margin_rank_loss", ("Out", "Activated"), margin=0.1),
                         {"X1": numbers(4, 1), "X2": numbers(4, 1), "Label": Constant(np.array([[1.0], [-1.0], [1.0], [-1.0]]))}),
    "modified_huber_loss": (operator("modified_huber_loss", ("Out", "IntermediateVal")),
                            {"X": numbers(4, 1), "Y": Constant(np.array([[1.0], [0.0], [1.0], [0.0]]))}),
    "rank_loss": (operator("rank_loss"), {"Label": Constant(positive(3, 1)), "Left": numbers(3, 1), "Right": numbers(3, 1)}),
    "sample_logits": (operator("sample_logits", ("SampledLogits", "Samples", "Probabilities", "LogitsDim", "LabelsDim", "SampledLabels"),
                               num_samples=2, use_customized_samples=True),
                      {"Logits": numbers(2, 4), "Labels": whole([1], [0]), "CustomizedSamples": whole([1, 2, 3], [0, 2, 2]),
                       "CustomizedProbabilities": Constant(positive(2, 3))}),
    "smooth_l1_loss": (operator("smooth_l1_loss", ("Out", "Diff")), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "smooth_l1_loss, weights": (operator("smooth_l1_loss", ("Out", "Diff"), sigma=0.7),
                                {"X": numbers(2, 3), "Y": numbers(2, 3), "InsideWeight": Constant(positive(2, 3)),
                                 "OutsideWeight": Constant(positive(2, 3))}),
    "teacher_student_sigmoid_loss": (operator("teacher_student_sigmoid_loss", ("Y",), soft_max_up_bound=1.6),
                                     {"X": numbers(5, 1), "Label": Constant(np.array([[-2.0], [-1.0], [0.0], [0.4], [1.4]]))}),
}

# -- refused by name: how to make the gradient operator, and what operator the message names -----------------------------


def sentences(x):
    """The rows of x as sequences: x has 4 rows."""
    return operator("lod_reset", target_lod=[0, 1, 4])(X=x)


def recurrent(x):
    rows, rnn = layers.reshape(x, [2, 4, 2]), layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        before = rnn.memory(shape=[-1, 2], batch_ref=row)
        after = layers.elementwise_add(before, layers.square(row))
        rnn.update_memory(before, after)
        rnn.step_output(after)
    return rnn()


def loop(x):
    index, most = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 2)
    state, go = layers.square(x), layers.less_than(index, most)
    loop = layers.While(go)
    with loop.block():
        layers.assign(layers.square(state), state)
        layers.increment(index, 1, in_place=True)
        layers.less_than(index, most, cond=go)
    return state


def branch(x):
    out = layers.square(x)
    with layers.Switch() as switch:
        with switch.case(layers.less_than(layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 1))):
            layers.assign(layers.square(x), out)
    return out


def element(x):
    at = layers.fill_constant([1], "int64", 0)
    return layers.array_read(layers.array_write(layers.square(x), at), at)


def steps(x):
    table = layers.lod_rank_table(x)
    return table, layers.lod_tensor_to_array(x, table)


def of_steps(x):
    table, array = steps(x)
    return layers.array_to_lod_tensor(array, table)


def joined(x):
    at = layers.fill_constant([1], "int64", 0)
    return layers.tensor_array_to_tensor(layers.array_write(layers.square(x), at), axis=0)[0]


def halves(x):
    mask = layers.less_than(layers.reduce_sum(x, dim=1, keep_dim=True), layers.fill_constant([1], "float64", 0.0))
    return layers.split_lod_tensor(layers.square(x), mask), mask


def merged(x):
    (false, true), mask = halves(x)
    return layers.merge_lod_tensor(layers.square(true), layers.square(false), x, mask)


def parameter(*shape):
    return layers.create_parameter(list(shape), "float64")


def labels(*values):
    return layers.cast(layers.assign(np.array(values, "int32").reshape(-1, 1)), "int64")


def call(x):
    out = fluid.default_main_program().current_block().create_var(name="called", dtype="float64", shape=[4, 4])
    return layers.py_func(np.square, x, out, backward_func=lambda x, out, grad: 2 * x * grad)


# An operator with a gradient, and how to make one of x, which is [4, 4] of float64.
REFUSED = {
    "array_to_lod_tensor": lambda x: of_steps(sentences(x)),
    "conditional_block": branch,
    "gru": lambda x: operator("gru", ("Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"))(
        Input=layers.concat([sentences(x)] * 3, 1), Weight=parameter(4, 12)),
    "hierarchical_sigmoid": lambda x: operator("hierarchical_sigmoid", ("Out", "PreOut"), num_classes=4)(
        X=x, W=parameter(3, 4), Label=labels(0, 1, 2, 3)),
    "linear_chain_crf": lambda x: operator("linear_chain_crf", ("LogLikelihood", "Alpha", "EmissionExps", "TransitionExps"))(
        Emission=sentences(x), Transition=parameter(6, 4), Label=sentences(labels(0, 1, 2, 3))),
    "lod_tensor_to_array": lambda x: layers.array_read(steps(sentences(x))[1], layers.fill_constant([1], "int64", 0)),
    "lstm": lambda x: operator("lstm", ("Hidden", "Cell", "BatchGate", "BatchCellPreAct"), use_peepholes=False)(
        Input=sentences(x), Weight=parameter(1, 4), Bias=parameter(1, 4)),
    "lstmp": lambda x: operator("lstmp", ("Projection", "Cell", "BatchGate", "BatchCellPreAct", "BatchHidden"), use_peepholes=False)(
        Input=sentences(x), Weight=parameter(1, 4), ProjWeight=parameter(1, 1), Bias=parameter(1, 4)),
    "merge_lod_tensor": merged,
    "nce": lambda x: operator("nce", ("Cost", "SampleLogits", "SampleLabels"), num_total_classes=4, num_neg_samples=2)(
        Input=x, Label=labels(0, 1, 2, 3), Weight=parameter(4, 4)),
    "py_func": call,
    "read_from_array": element,
    "recurrent": recurrent,
    "shrink_rnn_memory": lambda x: layers.shrink_memory(layers.square(x), layers.fill_constant([1], "int64", 0),
                                                        layers.lod_rank_table(sentences(x))),
    "split_lod_tensor": lambda x: halves(x)[0][0],
    "sync_batch_norm": lambda x: operator("sync_batch_norm", NORMED)(X=x, Scale=parameter(4), Bias=parameter(4), Mean=parameter(4),
                                                                     Variance=parameter(4)),
    "tensor_array_to_tensor": joined,
    "warpctc": lambda x: operator("warpctc", ("Loss", "WarpCTCGrad"))(Logits=sentences(x),
                                                                      Label=sentences(layers.cast(labels(1, 1, 2, 3), "int32"))),
    "while": loop,
    "write_to_array": element,
}
# What the message names where it is not the gradient operator of this name.
NAMED = {
    "array_to_lod_tensor": "lod_tensor_to_array_grad", "merge_lod_tensor": "split_lod_tensor_grad", "py_func": "backward_func of py_func",
    "read_from_array": "write_to_array_grad", "tensor_array_to_tensor": "write_to_array_grad",
}
# Selected rows: their gradient has none.
TABLES = {"lookup_sparse_table", "split_ids", "split_selected_rows"}
# Operators that have a second gradient, except with these attributes.
PARTLY = {
    "lookup_table": lambda x: operator("lookup_table", is_sparse=True)(W=x, Ids=labels(0, 1)),
    "sequence_conv": lambda x: operator("sequence_conv", contextLength=2, contextStart=-1, paddingTrainable=True)(
        X=sentences(x), PaddingData=parameter(1, 4), Filter=parameter(8, 2)),
}


# -- a case as a program -----------------------------------------------------------------------------------------------


def declare(name, value):
    """A variable for what a case feeds, and the value as it is fed."""
    values = value.values if isinstance(value, (Constant, Sequences)) else value
    levels = 0 if not isinstance(value, Sequences) else 1
    var = layers.data(name, [-1, *values.shape[1:]] if levels else list(values.shape), append_batch_size=False, dtype=str(values.dtype),
                      lod_level=levels)
    var.stop_gradient = isinstance(value, Constant) or getattr(value, "is_constant", False)
    return var, values


class Case:
    """A case of the table as a program: its feeds, and which of them have gradients."""

    def __init__(self, name):
        build, inputs = CASES[name]
        self.feeds, self.lengths, self.wanted, args = {}, {}, [], {}
        for slot, value in inputs.items():
            made = [self.take(f"{slot}{i}", one) for i, one in enumerate(value if isinstance(value, list) else [value])]
            args[slot] = made if isinstance(value, list) else made[0]
        self.out = build(**args)

    def take(self, name, value):
        var, self.feeds[name] = declare(name, value)
        if isinstance(value, Sequences):
            self.lengths[name] = [value.lengths]
        if not var.stop_gradient:
            self.wanted.append(var)
        return var

    def run(self, exe, feeds, fetch_list):
        fed = {name: fluid.create_lod_tensor(value, self.lengths[name], fluid.CPUPlace()) if name in self.lengths else value
               for name, value in feeds.items()}
        return [np.asarray(value) for value in exe.run(feed=fed, fetch_list=fetch_list, return_numpy=False)]
