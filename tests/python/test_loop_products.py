"""Products in loops: a weight that stays is packed once for all steps; one that the loop changes is read anew in each."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.backward import append_backward

WIDE = 96                            # wide enough to be packed


def wide_weight(name, rng):
    w = layers.create_parameter([WIDE, WIDE], "float32", name=name)
    return w, rng.normal(size=(WIDE, WIDE)).astype("float32") / WIDE


@pytest.mark.parametrize("precision, near", [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_a_weight_that_a_loop_changes_is_read_anew_in_each_step(rng, precision, near):
    """Beside one that stays. Both are multiplied in each step, and the loop runs twice, with other weights."""
    exe = fluid.Executor(matmul_precision=precision)
    x = layers.data("x", [WIDE])
    (still, a), (moving, b) = wide_weight("still", rng), wide_weight("moving", rng)
    out, i, n = layers.scale(x, 1.0), layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        layers.assign(layers.mul(layers.mul(out, still), moving) + x, out)
        layers.assign(layers.scale(moving, -0.5), moving)
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    exe.run(fluid.default_startup_program())
    value = rng.normal(size=(8, WIDE)).astype("float32")
    for turn in range(2):
        a, b = a * (1 - 3 * turn), b * (1 + turn)
        fluid.global_scope().find_var("still").get_tensor().set(a)
        fluid.global_scope().find_var("moving").get_tensor().set(b)
        want, weight = value, b
        for _ in range(3):
            want, weight = want @ a @ weight + value, weight * -0.5
        got, = exe.run(feed={"x": value}, fetch_list=[out])
        np.testing.assert_allclose(got, want, rtol=near, atol=near)


@pytest.mark.parametrize("precision, near", [("float32", 1e-4), ("bfloat16", 5e-2)])
def test_gradients_of_a_weight_that_all_steps_multiply(rng, precision, near):
    """StaticRNN forward and backward, as NumPy has them."""
    exe = fluid.Executor(matmul_precision=precision)
    x = layers.data("x", [4, 8, WIDE], append_batch_size=False)
    w, value_of_w = wide_weight("w", rng)
    zeros = layers.fill_constant([8, WIDE], "float32", 0.0)
    rnn = layers.StaticRNN()
    with rnn.step():
        state = rnn.memory(init=zeros)
        new = rnn.step_input(x) + layers.mul(state, w)
        rnn.update_memory(state, new)
        rnn.step_output(new)
    loss = layers.reduce_sum(layers.square(rnn()))
    (_, gradient), = append_backward(loss, parameter_list=["w"])
    exe.run(fluid.default_startup_program())
    value = rng.normal(size=(4, 8, WIDE)).astype("float32")
    for turn in range(2):
        value_of_w = value_of_w * (1 + turn)
        fluid.global_scope().find_var("w").get_tensor().set(value_of_w)
        states, back, want = [np.zeros((8, WIDE))], np.zeros((8, WIDE)), np.zeros((WIDE, WIDE))
        for t in range(4):
            states.append(value[t] + states[-1] @ value_of_w)
        for t in reversed(range(4)):
            back = back @ value_of_w.T + 2 * states[t + 1]
            want += states[t].T @ back
        got, = exe.run(feed={"x": value}, fetch_list=[gradient])
        np.testing.assert_allclose(got, want, rtol=near, atol=near * np.abs(want).max())
