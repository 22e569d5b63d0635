"""Which operators compute in 16 bits."""

from __future__ import annotations

from collections.abc import Iterable

# Products: most of the work of a network, and safe in bfloat16, since their sums are float32.
WHITE = frozenset({"conv2d", "conv3d", "depthwise_conv2d", "conv2d_transpose", "conv3d_transpose", "matmul", "mul", "fc", "sequence_conv",
                   "lstm", "lstmp", "gru"})

# Sums of many numbers, functions that are steep, and losses.
BLACK = frozenset({"exp", "log", "square", "mean", "sum", "cos_sim", "softmax", "sequence_softmax", "softmax_with_cross_entropy",
                   "sigmoid_cross_entropy_with_logits", "cross_entropy", "cross_entropy2", "square_error_cost"})

# What computes in 16 bits where one of its inputs is stored so already.
GRAY = frozenset({
    "elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div", "elementwise_max", "elementwise_min",
    "batch_norm", "layer_norm",
    "relu", "relu6", "leaky_relu", "brelu", "elu", "selu", "swish", "gelu", "hard_sigmoid", "hard_shrink", "softshrink", "soft_relu",
    "softplus", "softsign", "sigmoid", "logsigmoid", "tanh", "stanh", "thresholded_relu", "abs", "prelu", "maxout",
    "pool2d", "pool3d", "dropout", "scale", "clip", "top_k",
    "reshape", "reshape2", "transpose", "transpose2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "flatten", "flatten2",
    "concat", "split", "stack", "unstack", "slice", "gather", "expand", "pad", "pad2d", "crop", "reverse", "assign",
    "sequence_pool", "sequence_concat", "sequence_reverse", "sequence_reshape", "sequence_expand", "sequence_slice",
})


class AutoMixedPrecisionLists:
    """Three lists of operator types, which say where 16 bits are used.

    An operator of the **white** list computes in 16 bits: its float32 inputs are cast. One of the **black** list computes in float32, and
    so does every operator of no list. One of the **gray** list follows its inputs: it computes in 16 bits if one of them is stored so.

    ``custom_white_list`` and ``custom_black_list`` are types that move to the white or to the black list. A type in both is a ValueError.

    >>> lists = fluid.contrib.mixed_precision.AutoMixedPrecisionLists(custom_black_list={"conv2d"})
    >>> "conv2d" in lists.white_list, "conv2d" in lists.black_list
    (False, True)
    """

    def __init__(self, custom_white_list: Iterable[str] | None = None, custom_black_list: Iterable[str] | None = None) -> None:
        white, black = (_types(name, given)
                        for name, given in (("custom_white_list", custom_white_list), ("custom_black_list", custom_black_list)))
        both = sorted(white & black)
        if both:
            raise ValueError(f"AutoMixedPrecisionLists: {', '.join(both)} cannot be both in custom_white_list and in custom_black_list")
        self.white_list = set(WHITE - black | white)
        self.black_list = set(BLACK - white | black)
        self.gray_list = set(GRAY - white - black)


def _types(name: str, given: Iterable[str] | None) -> set[str]:
    """Return the types of a custom list; each must be an operator."""
    from ...program.op_protos import op_proto

    if isinstance(given, str):
        raise TypeError(f"AutoMixedPrecisionLists: {name} must be a set of operator types, got {given!r}")
    types = set(given or ())
    unknown = sorted(str(type) for type in types if not isinstance(type, str) or op_proto(type) is None)
    if unknown:
        raise ValueError(f"AutoMixedPrecisionLists: {name} names {', '.join(unknown)}, which no operator is called")
    return types
