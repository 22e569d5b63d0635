"""Gradients of gradients: against differences in float64, in training steps, and refused by name where there are none."""

import sys

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, results

import trireme as fluid
from trireme import layers

PENALTY = SCRIPT.with_name("penalty.py")
sys.path.insert(0, str(PENALTY.parent))
import penalty  # noqa: E402 - the job's script says what there is

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




UNARY = {name: numbers(2, 3) for name in (
    "abs", "atan", "brelu", "ceil", "cos", "elu", "exp", "floor", "hard_shrink", "hard_sigmoid", "leaky_relu", "logsigmoid",
    "reciprocal", "relu", "relu6", "round", "selu", "sigmoid", "sign", "sin", "softplus", "softshrink", "softsign", "square", "stanh",
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
    "conv2d": (operator("conv2d", ("Output",), strides=[2, 1], paddings=[1, 0]), {"Input": numbers(2, 2, 4, 3), "Filter": numbers(3, 2, 3, 2)}),
    "conv2d, groups": (operator("conv2d", ("Output",), groups=2, dilations=[2, 1]), {"Input": numbers(1, 4, 4, 3), "Filter": numbers(2, 2, 2, 2)}),
    "depthwise_conv2d": (operator("depthwise_conv2d", ("Output",), groups=2), {"Input": numbers(2, 2, 3, 3), "Filter": numbers(2, 1, 2, 2)}),
    "conv3d": (operator("conv3d", ("Output",)), {"Input": numbers(1, 2, 3, 2, 2), "Filter": numbers(2, 2, 2, 1, 2)}),
    "conv2d_transpose": (operator("conv2d_transpose", ("Output",), strides=[2, 2]), {"Input": numbers(2, 2, 2, 2), "Filter": numbers(2, 3, 2, 2)}),
    "elementwise_max": (operator("elementwise_max"), {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "elementwise_min, broadcast": (operator("elementwise_min", axis=0), {"X": numbers(2, 3), "Y": numbers(2)}),
    "layer_norm": (operator("layer_norm", ("Y", "Mean", "Variance"), begin_norm_axis=1), {"X": numbers(2, 3, 2), "Scale": numbers(6), "Bias": numbers(6)}),
    "layer_norm, plain": (operator("layer_norm", ("Y", "Mean", "Variance"), begin_norm_axis=2), {"X": numbers(2, 2, 3)}),
    "sigmoid_cross_entropy_with_logits": (operator("sigmoid_cross_entropy_with_logits"), {"X": numbers(2, 3), "Label": numbers(2, 3, low=0.1, high=0.9, sign=False)}),
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
    "fused_elemwise_activation": (operator("fused_elemwise_activation", ("Out", "IntermediateOut"), functor_list=["elementwise_mul", "tanh"]),
                                  {"X": numbers(2, 3), "Y": numbers(2, 3)}),
    "fc": (lambda Input, W, Bias: layers.tanh(layers.elementwise_add(layers.mul(Input, W), Bias, axis=1)),
           {"Input": numbers(2, 3), "W": numbers(3, 2), "Bias": numbers(2)}),
    "square_error_cost": (lambda X, Y: layers.square_error_cost(X, Y), {"X": numbers(2, 1), "Y": numbers(2, 1)}),
}


def declare(name, value):
    var = layers.data(name, list(value.shape), append_batch_size=False, dtype="float64")
    var.stop_gradient = False
    return var


def differences(run, feeds, name, step=1e-6):
    """The derivative of the number that ``run`` returns, by each element of one feed."""
    grad = np.zeros_like(feeds[name])
    for at in np.ndindex(grad.shape):
        ends = []
        for sign in (1, -1):
            moved = feeds[name].copy()
            moved[at] += sign * step
            ends.append(run({**feeds, name: moved}))
        grad[at] = (ends[0] - ends[1]) / (2 * step)
    return grad


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_gradient_is_that_of_differences(name, exe):
    build, inputs = CASES[name]
    feeds, args = {}, {}
    for slot, value in inputs.items():
        values = value if isinstance(value, list) else [value]
        made = [declare(f"{slot}{i}", one) for i, one in enumerate(values)]
        feeds.update((var.name, one) for var, one in zip(made, values))
        args[slot] = made if isinstance(value, list) else made[0]
    wanted = [fluid.default_main_program().global_block().var(name) for name in feeds]
    out = build(**args)
    shape = exe.run(feed=feeds, fetch_list=[out])[0].shape
    feeds["weight"] = numbers(*shape)
    weight = declare("weight", feeds["weight"])
    first = fluid.backward.gradients(out, wanted, target_gradients=weight)
    parts = []
    for var, grad in [(var, grad) for var, grad in zip(wanted, first) if grad is not None]:
        feeds[f"{var.name}_part"] = numbers(*feeds[var.name].shape)
        parts.append(layers.reduce_sum(layers.elementwise_mul(grad, declare(f"{var.name}_part", feeds[f"{var.name}_part"]))))
    total = layers.sum(parts)
    run = lambda feed: exe.run(feed=feed, fetch_list=[total])[0].item()
    expected = {var.name: differences(run, feeds, var.name) for var in (*wanted, weight)}
    second = fluid.backward.gradients(total, [*wanted, weight])
    got = exe.run(feed=feeds, fetch_list=[grad for grad in second if grad is not None])
    for var, grad in zip((*wanted, weight), second):
        values = np.zeros_like(feeds[var.name]) if grad is None else got.pop(0)
        np.testing.assert_allclose(values, expected[var.name], rtol=2e-6, atol=1e-7, err_msg=f"{name}: {var.name}")


def test_dropout_passes_what_it_let_through(exe):
    x, weight = declare("x", np.ones((50,))), declare("weight", np.ones((50,)))
    first, = fluid.backward.gradients(layers.dropout(x, 0.5), x, target_gradients=weight)
    second, = fluid.backward.gradients(first, weight)
    kept, again = exe.run(feed={"x": np.ones(50), "weight": np.ones(50)}, fetch_list=[first, second])
    np.testing.assert_array_equal(again, kept)
    assert 0 < np.count_nonzero(kept) < 50


def test_a_third_gradient(exe):
    x = declare("x", np.ones(3))
    grad = layers.tanh(x)
    for _ in range(3):
        grad, = fluid.backward.gradients(grad, x)
    at = np.array([0.1, 0.5, 2.0])
    t = np.tanh(at)
    np.testing.assert_allclose(exe.run(feed={"x": at}, fetch_list=[grad])[0], (1 - t * t) * (6 * t * t - 2), rtol=1e-12)


def test_a_gradient_that_is_a_sum_of_several(exe):
    x = declare("x", np.ones(3))
    first, = fluid.backward.gradients(layers.elementwise_mul(layers.elementwise_mul(x, x), x) + layers.exp(x) * x, x)
    second, = fluid.backward.gradients(first, x)
    at = np.array([0.1, -0.5, 2.0])
    np.testing.assert_allclose(exe.run(feed={"x": at}, fetch_list=[second])[0], 6 * at + np.exp(at) * (2 + at), rtol=1e-12)


def test_a_value_that_is_overwritten_is_read_as_it_was(exe):
    x, weight = declare("x", np.ones(3)), declare("weight", np.ones(3))
    first, = fluid.backward.gradients(layers.square(x), x, target_gradients=weight)
    penalty = layers.square(first)
    layers.assign(layers.scale(x, scale=0.0), output=first)
    second, = fluid.backward.gradients(penalty, x)
    at, factor = np.array([0.1, -0.5, 2.0]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(exe.run(feed={"x": at, "weight": factor}, fetch_list=[second])[0], 8 * at * factor ** 2, rtol=1e-12)


REFUSED = {
    "reduce_max_grad": lambda x: layers.reduce_max(x, dim=1),
    "gelu_grad": lambda x: operator("gelu")(X=x),
    "batch_norm_grad": lambda x: layers.batch_norm(x),
    "pool2d_grad": lambda x: layers.pool2d(layers.reshape(x, [-1, 1, 2, 2]), 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_by_name(name):
    x = declare("x", np.ones((2, 4)))
    first, = fluid.backward.gradients(layers.square(REFUSED[name](x)), x)
    with pytest.raises(fluid.core.UnsupportedError, match=f"gradients of gradients: .*{name}.*stop_gradient"):
        fluid.backward.gradients(layers.reduce_sum(layers.square(first)), x)


def test_a_gradient_without_a_gradient_may_count_as_a_constant(exe):
    x = declare("x", np.ones((2, 4)))
    first, = fluid.backward.gradients(layers.reduce_max(x, dim=1), x)
    first.stop_gradient = True
    second, = fluid.backward.gradients(layers.reduce_sum(first * x), x)
    at = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(exe.run(feed={"x": at}, fetch_list=[second])[0], (at == at.max(axis=1, keepdims=True)) * 1.0)


# -- in training ---------------------------------------------------------------------------------------------


def test_a_critic_learns_a_gradient_of_norm_1(exe, tmp_path):
    fluid.default_startup_program().random_seed = 3
    loss, distance = penalty.build()
    test = fluid.default_main_program().clone(for_test=True)
    fluid.io.save_program(fluid.default_main_program(), str(tmp_path / "main"))
    loaded = fluid.io.load_program(str(tmp_path / "main"))
    exe.run(fluid.default_startup_program())
    last = list(penalty.batches(41))[-1]
    before = exe.run(test, feed=last, fetch_list=[distance])[0].item()
    for batch in penalty.batches(40):
        exe.run(loaded, feed=batch, fetch_list=[loss.name])
    assert exe.run(test, feed=last, fetch_list=[distance])[0].item() < 0.5 * before


def test_a_program_for_tests_keeps_the_gradients_that_a_loss_is_made_of():
    penalty.build()
    program = fluid.default_main_program()
    kept = [op.type for op in program.clone(for_test=True).global_block().ops]
    assert "conv2d_grad" in kept and "adam" not in kept
    assert kept.count("conv2d_grad") < [op.type for op in program.global_block().ops].count("conv2d_grad")


def test_a_program_for_tests_keeps_the_block_of_such_a_gradient(exe):
    x = declare("x", np.ones((2, 1)))
    rows, rnn = layers.reshape(x, [2, 1, 1]), layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        before = rnn.memory(shape=[-1, 1], batch_ref=row, ref_batch_dim_idx=1, init_value=1.0)
        after = layers.elementwise_mul(before, layers.square(row))
        rnn.update_memory(before, after)
        rnn.step_output(after)
    slope, = fluid.backward.gradients(layers.reduce_sum(rnn()), x)
    size = layers.reduce_sum(layers.square(slope))
    program = fluid.default_main_program()
    feed = {"x": np.array([[2.0], [3.0]])}
    values = [exe.run(one, feed=feed, fetch_list=[size.name])[0].item() for one in (program, program.clone(for_test=True))]
    assert values == [40.0 ** 2 + 24.0 ** 2] * 2


@needs_mpi
@pytest.mark.mpi
def test_a_job_computes_the_bits_of_one_process(tmp_path):
    alone("--out", tmp_path / "alone.npz", script=PENALTY)
    launch(2, 2, "--out", tmp_path / "job.npz", script=PENALTY)
    want, got = results(tmp_path / "alone.npz"), results(tmp_path / "job.npz")
    assert got.keys() == want.keys() and len(want) > 8
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
