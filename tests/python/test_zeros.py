"""Values and gradients at 0 and at the ends of domains: finite where Fluid, NumPy or PyTorch has a finite value, and never 0 / 0 or 0 times infinity."""

import numpy as np
import pytest

import trireme as fluid

L = fluid.layers
ROWS = np.float32([[0, 0, 0], [1, 2, 3]])
COMMON = np.float32([[-1000, -88.8, 0], [88, 1, 1000]])


def column(*values):
    return L.assign(np.float32(values).reshape(-1, 1))


CASES = {                                              # a layer, and what it is tried at
    "cos_sim with itself": (lambda x: L.cos_sim(x, x), ROWS),
    "cos_sim": (lambda x: L.cos_sim(x, L.assign(np.ones((2, 3), "float32"))), ROWS),
    "cos_sim of one row": (lambda x: L.cos_sim(L.assign(np.ones((2, 3), "float32")), L.slice(x, [0], [0], [1])), ROWS),
    "l2_normalize": (lambda x: L.l2_normalize(x, axis=1), ROWS),
    "layer_norm of equal numbers": (lambda x: L.layer_norm(x), np.ones((2, 3), "float32")),
    "batch_norm of one row": (lambda x: L.batch_norm(x), ROWS[:1]),
    "pow 0": (lambda x: L.pow(x, 0.0), ROWS),
    "pow 1": (lambda x: L.pow(x, 1.0), ROWS),
    "pow 2": (lambda x: L.pow(x, 2.0), ROWS),
    "elementwise_pow 0": (lambda x: L.elementwise_pow(x, L.assign(np.zeros((2, 3), "float32"))), ROWS),
    "elementwise_pow of 0": (lambda x: L.elementwise_pow(L.assign(np.zeros((2, 3), "float32")), x), ROWS),
    "reduce_prod": (lambda x: L.reduce_prod(x, dim=1), np.float32([[0, 2, 3], [0, 0, 4]])),
    "reduce_prod of columns": (lambda x: L.reduce_prod(x, dim=0), ROWS),
    "abs": (L.abs, ROWS), "square": (L.square, ROWS), "sign": (L.sign, ROWS), "softsign": (L.softsign, ROWS), "relu": (L.relu, ROWS),
    "sigmoid": (L.sigmoid, COMMON), "logsigmoid": (L.logsigmoid, COMMON), "softplus": (L.softplus, COMMON), "tanh": (L.tanh, COMMON),
    "elu": (L.elu, COMMON), "swish": (L.swish, COMMON), "softmax": (L.softmax, COMMON * 1e30),
    "log_loss": (lambda x: L.log_loss(x, column(0, 1, 0, 1)), np.float32([[0], [1], [1], [0]])),
    "huber_loss": (lambda x: L.huber_loss(x, column(0, 1), 1.0), np.float32([[0], [1]])),
    "smooth_l1": (lambda x: L.smooth_l1(x, L.assign(ROWS)), ROWS),
    "kldiv_loss": (lambda x: L.kldiv_loss(x, L.assign(np.zeros((2, 3), "float32")), "mean"), ROWS),
    "rank_loss": (lambda x: L.rank_loss(column(0, 1), x, x), np.float32([[0], [1000]])),
    "sigmoid cross entropy": (lambda x: L.sigmoid_cross_entropy_with_logits(x, L.assign(np.zeros((2, 3), "float32"))), COMMON),
    "softmax cross entropy": (lambda x: L.softmax_with_cross_entropy(x, L.cast(column(0, 2), "int64")), COMMON),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_finite(name):
    layer, at = CASES[name]
    x = L.data("x", list(at.shape[1:]))
    x.stop_gradient = False
    out = layer(x)
    grad, = fluid.backward.gradients(L.reduce_sum(out), [x])
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    for value in exe.run(feed={"x": at}, fetch_list=[out, grad]):
        assert np.isfinite(value).all(), value


def gradient(layer, at):
    x = L.data("x", list(at.shape[1:]))
    x.stop_gradient = False
    grad, = fluid.backward.gradients(L.reduce_sum(layer(x)), [x])
    return fluid.Executor().run(feed={"x": np.float32(at)}, fetch_list=[grad])[0]


def test_the_gradient_of_a_product_is_the_product_of_the_others():
    at = np.float32([[0, 2, 3], [0, 0, 4], [5, 1, 2]])
    np.testing.assert_array_equal(gradient(lambda x: L.reduce_prod(x, dim=1), at), [[6, 0, 0], [0, 0, 0], [2, 10, 5]])
    np.testing.assert_array_equal(gradient(lambda x: L.reduce_prod(x, dim=0), at), [[0, 0, 8], [0, 2, 6], [0, 0, 12]])


def test_a_gradient_of_zero_leaves_a_parameter_that_has_had_none():
    """Not 0 / 0: the first step of an embedding's other rows, or a batch without samples."""
    start = np.float32([1, -2])
    program = fluid.Program()
    block = program.global_block()
    for name, shape in (("p", [2]), ("m", [2]), ("g", [2]), ("rate", [1])):
        block.create_var(name=name, shape=shape, dtype="float32", is_data=True)
    for name in ("p_out", "m_out"):
        block.create_var(name=name, dtype="float32")
    block.append_op(type="proximal_adagrad", inputs={"Param": ["p"], "Moment": ["m"], "Grad": ["g"], "LearningRate": ["rate"]},
                    outputs={"ParamOut": ["p_out"], "MomentOut": ["m_out"]})
    got = fluid.Executor().run(program, feed={"p": start, "m": np.zeros(2, "float32"), "g": np.zeros(2, "float32"), "rate": np.float32([0.1])},
                               fetch_list=["p_out", "m_out"])
    np.testing.assert_array_equal(got, [start, [0, 0]])
