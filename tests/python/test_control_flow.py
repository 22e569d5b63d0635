"""Blocks within blocks: recurrent nets in four notations, branches, loops, arrays; values and gradients."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.backward import append_backward

STEPS, BATCH, SIZE = 4, 3, 2


@pytest.fixture
def weights(rng):
    return {"u": rng.normal(size=(SIZE, SIZE)) * 0.7, "w": rng.normal(size=(SIZE, SIZE)) * 0.7}


def make_weights():
    for name in "uw":
        layers.create_parameter([SIZE, SIZE], "float64", name=name)


def var(name):
    return fluid.default_main_program().global_block().var(name)


def cell(x, h):
    """One step of the recurrent net: tanh(x u + h w)."""
    return layers.tanh(layers.mul(x, var("u")) + layers.mul(h, var("w")))


def results(exe, feed, weights, loss, more=()):
    """The loss and its gradients by the weights (and by the variables of these names)."""
    append_backward(loss)
    exe.run(fluid.default_startup_program())
    for name, value in weights.items():
        fluid.global_scope().var(name).get_tensor().set(value, fluid.CPUPlace())
    names = [*weights, *more]
    return [np.array(one) for one in exe.run(feed=feed, fetch_list=[loss] + [f"{name}@GRAD" for name in names],
                                             return_numpy=False)]


def in_new_program(build):
    """Call ``build`` with empty default programs and an empty scope."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), \
            fluid.scope_guard(fluid.Scope()):
        return build()


def sequence(name="x"):
    return layers.data(name, [STEPS, BATCH, SIZE], dtype="float64", append_batch_size=False, stop_gradient=False)


def batch(name):
    return layers.data(name, [BATCH, SIZE], dtype="float64", append_batch_size=False, stop_gradient=False)


def total(var):
    return layers.reduce_sum(layers.square(var))


# -- one recurrent net in four notations ----------------------------------------------------------


def unrolled():
    make_weights()
    x, h = sequence(), batch("h0")
    outs = []
    for t in range(STEPS):
        h = cell(x[t], h)
        outs.append(h)
    return total(layers.stack(outs))


def static_rnn():
    make_weights()
    x, h0 = sequence(), batch("h0")
    rnn = layers.StaticRNN()
    with rnn.step():
        h = rnn.memory(init=h0)
        new = cell(rnn.step_input(x), h)
        rnn.update_memory(h, new)
        rnn.step_output(new)
    return total(rnn())


def while_with_arrays():
    make_weights()
    x, h0 = sequence(), batch("h0")
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", STEPS)
    steps = None
    for t in range(STEPS):
        steps = layers.array_write(x[t], layers.fill_constant([1], "int64", t), steps)
    states = layers.array_write(h0, i)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        new = cell(layers.array_read(steps, i), layers.array_read(states, i))
        layers.increment(i)
        layers.array_write(new, i, states)
        layers.less_than(i, n, cond=cond)
    return total(layers.stack([layers.array_read(states, layers.fill_constant([1], "int64", t + 1))
                               for t in range(STEPS)]))


def dynamic_rnn():
    """The same sequences batch by batch: BATCH sequences of STEPS rows."""
    make_weights()
    rows = layers.data("rows", [SIZE], dtype="float64", lod_level=1, stop_gradient=False)
    h0 = batch("h0")
    rnn = layers.DynamicRNN()
    with rnn.block():
        x = rnn.step_input(rows)
        h = rnn.memory(init=h0, need_reorder=True)
        new = cell(x, h)
        rnn.update_memory(h, new)
        rnn.output(new)
    return total(rnn())


def as_rows(x):
    return fluid.create_lod_tensor(np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(-1, SIZE),
                                   [[STEPS] * BATCH], fluid.CPUPlace())


@pytest.mark.parametrize("build", [static_rnn, while_with_arrays, dynamic_rnn])
def test_four_notations_are_one_net(exe, rng, weights, build):
    x, h0 = rng.normal(size=(STEPS, BATCH, SIZE)), rng.normal(size=(BATCH, SIZE))
    plain = results(exe, {"x": x, "h0": h0}, weights, unrolled(), ["h0", "x"])
    if build is dynamic_rnn:
        plain[-1] = plain[-1].transpose(1, 0, 2).reshape(-1, SIZE)
        feed, more = {"rows": as_rows(x), "h0": h0}, ["h0", "rows"]
    else:
        feed, more = {"x": x, "h0": h0}, ["h0", "x"]
    got = in_new_program(lambda: results(exe, feed, weights, build(), more))
    for one, other in zip(plain, got):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-10)
