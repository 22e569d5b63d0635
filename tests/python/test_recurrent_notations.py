"""LSTM and GRU as StaticRNN, as DynamicRNN, as a While over arrays, and as the fused operators: one net, one gradient."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers
from trireme.backward import append_backward

STEPS, BATCH, SIZE = 4, 3, 5
RAGGED = [2, 5, 0, 1, 3]


# -- the cells, as Fluid defines lstm and gru over an input that is projected already ---------------


def var(name):
    return fluid.default_main_program().global_block().var(name)


def columns(x, begin, end):
    return layers.slice(x, axes=[1], starts=[begin], ends=[end])


class LSTM:
    """Gates in the order candidate, input, forget, output; with peepholes, which stand after the bias."""

    gates, states = 4, ["h", "c"]
    shapes = {"w": [SIZE, 4 * SIZE], "b": [1, 7 * SIZE]}

    def __init__(self):
        self.bias = layers.reshape(columns(var("b"), 0, 4 * SIZE), [4 * SIZE])
        self.peep = [layers.reshape(columns(var("b"), k * SIZE, (k + 1) * SIZE), [SIZE]) for k in (4, 5, 6)]

    def step(self, x, h, c):
        every = x + self.bias + layers.mul(h, var("w"))
        candidate, take, keep, give = (columns(every, k * SIZE, (k + 1) * SIZE) for k in range(4))
        take = layers.sigmoid(take + c * self.peep[0])
        keep = layers.sigmoid(keep + c * self.peep[1])
        cell = layers.tanh(candidate) * take + c * keep
        return [layers.sigmoid(give + cell * self.peep[2]) * layers.tanh(cell), cell]

    @staticmethod
    def fused(x, h, c):
        return layers.dynamic_lstm(x, 4 * SIZE, h_0=h, c_0=c, param_attr="w", bias_attr="b", dtype="float64")


class GRU:
    """Update gate, reset gate, candidate; the weight is [size, 2 size] of the gates and then [size, size]."""

    gates, states = 3, ["h"]
    shapes = {"w": [SIZE, 3 * SIZE], "b": [1, 3 * SIZE]}

    def __init__(self):
        flat, both = layers.reshape(var("w"), [1, 3 * SIZE * SIZE]), 2 * SIZE * SIZE
        self.gate = layers.reshape(columns(flat, 0, both), [SIZE, 2 * SIZE])
        self.candidate = layers.reshape(columns(flat, both, 3 * SIZE * SIZE), [SIZE, SIZE])
        self.bias = layers.reshape(var("b"), [3 * SIZE])

    def step(self, x, h):
        x = x + self.bias
        gates = layers.sigmoid(columns(x, 0, 2 * SIZE) + layers.mul(h, self.gate))
        update, reset = columns(gates, 0, SIZE), columns(gates, SIZE, 2 * SIZE)
        candidate = layers.tanh(columns(x, 2 * SIZE, 3 * SIZE) + layers.mul(reset * h, self.candidate))
        return [h - update * h + update * candidate]

    @staticmethod
    def fused(x, h):
        return [layers.dynamic_gru(x, SIZE, h_0=h, param_attr="w", bias_attr="b")]


# -- the notations: each returns the states of all steps, [steps, batch, size] or sequences --------------


def batch_of_steps(net, count):
    x = layers.data("x", [STEPS, count, net.gates * SIZE], dtype="float64", append_batch_size=False, stop_gradient=False)
    return x, first_states(net, count)


def sequences(net, count):
    x = layers.data("x", [net.gates * SIZE], dtype="float64", lod_level=1, stop_gradient=False)
    return x, first_states(net, count)


def first_states(net, count):
    return [layers.data(name + "0", [count, SIZE], dtype="float64", append_batch_size=False, stop_gradient=False)
            for name in net.states]


def static_rnn(net, count):
    x, first = batch_of_steps(net, count)
    cell, rnn = net(), layers.StaticRNN()
    with rnn.step():
        before = [rnn.memory(init=one) for one in first]
        after = cell.step(rnn.step_input(x), *before)
        for old, new in zip(before, after):
            rnn.update_memory(old, new)
            rnn.step_output(new)
    outs = rnn()
    return outs if isinstance(outs, (list, tuple)) else [outs]


def while_loop(net, count):
    x, first = batch_of_steps(net, count)
    cell = net()
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", STEPS)
    steps = None
    for t in range(STEPS):
        steps = layers.array_write(x[t], layers.fill_constant([1], "int64", t), steps)
    states = [layers.array_write(one, i) for one in first]
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        after = cell.step(layers.array_read(steps, i), *[layers.array_read(one, i) for one in states])
        layers.increment(i)
        for array, new in zip(states, after):
            layers.array_write(new, i, array)
        layers.less_than(i, n, cond=cond)
    at = [layers.fill_constant([1], "int64", t + 1) for t in range(STEPS)]
    return [layers.stack([layers.array_read(array, t) for t in at]) for array in states]


def dynamic_rnn(net, count):
    x, first = sequences(net, count)
    cell, rnn = net(), layers.DynamicRNN()
    with rnn.block():
        step = rnn.step_input(x)
        before = [rnn.memory(init=one, need_reorder=True) for one in first]
        after = cell.step(step, *before)
        for old, new in zip(before, after):
            rnn.update_memory(old, new)
        rnn.output(*after)
    outs = rnn()
    return outs if isinstance(outs, (list, tuple)) else [outs]


def fused(net, count):
    x, first = sequences(net, count)
    return net.fused(x, *first)


# -- running one ------------------------------------------------------------------------------------------


def rows_of(x):
    """[steps, batch, ...] as the rows of one sequence for each of the batch."""
    return np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(-1, x.shape[2])


def run_net(exe, notation, net, values, lengths):
    """Return the states as rows, then the gradients of x (as rows), of the first states and of the weights."""
    by_steps = notation in (static_rnn, while_loop)
    feed = dict(values["feed"])
    if not by_steps:
        rows = feed["x"] if feed["x"].ndim == 2 else rows_of(feed["x"])
        feed["x"] = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        for name, shape in net.shapes.items():
            layers.create_parameter(shape, "float64", name=name)
        states = notation(net, len(lengths))
        weighted = [layers.reduce_sum(layers.square(one) * (1.0 + 0.5 * k) + one) for k, one in enumerate(states)]
        loss = layers.sums(weighted)
        append_backward(loss)
        exe.run(fluid.default_startup_program())
        for name, value in values["weights"].items():
            fluid.global_scope().var(name).get_tensor().set(value, fluid.CPUPlace())
        names = ["x", *(name + "0" for name in net.states), *net.shapes]
        got = exe.run(feed=feed, fetch_list=[*states, *(name + "@GRAD" for name in names)], return_numpy=False)
    got = [np.array(one) for one in got]
    labels = [*net.states, *(name + "@GRAD" for name in names)]
    return {label: rows_of(one) if one.ndim == 3 else one for label, one in zip(labels, got)}


def random_values(net, rng, lengths, is_equal):
    shape = (STEPS, BATCH) if is_equal else (sum(lengths),)
    return {"feed": {"x": rng.normal(size=(*shape, net.gates * SIZE)),
                     **{name + "0": rng.normal(size=(len(lengths), SIZE)) for name in net.states}},
            "weights": {name: rng.normal(size=shape) * 0.6 for name, shape in net.shapes.items()}}


def expect_same(one, other):
    assert one.keys() == other.keys()
    for label, value in one.items():
        assert np.abs(value).max() > 1e-3, label
        np.testing.assert_allclose(other[label], value, rtol=0, atol=1e-10, err_msg=label)


@pytest.mark.parametrize("notation", [static_rnn, while_loop, dynamic_rnn])
@pytest.mark.parametrize("net", [LSTM, GRU])
def test_equally_long_sequences_have_the_states_and_gradients_of_the_fused_operator(exe, rng, net, notation):
    values, lengths = random_values(net, rng, [STEPS] * BATCH, True), [STEPS] * BATCH
    expect_same(run_net(exe, fused, net, values, lengths), run_net(exe, notation, net, values, lengths))


@pytest.mark.parametrize("net", [LSTM, GRU])
def test_ragged_sequences_have_the_states_and_gradients_of_the_fused_operator(exe, rng, net):
    values = random_values(net, rng, RAGGED, False)
    expect_same(run_net(exe, fused, net, values, RAGGED), run_net(exe, dynamic_rnn, net, values, RAGGED))


@pytest.mark.parametrize("net", [LSTM, GRU])
def test_the_fused_operator_has_the_numeric_gradient(exe, rng, net):
    """So that the notations do not agree on something wrong."""
    values = random_values(net, rng, RAGGED, False)
    got = run_net(exe, fused, net, values, RAGGED)

    def loss():
        states = run_net(exe, fused, net, values, RAGGED)
        return sum((states[name] ** 2 * (1 + 0.5 * k) + states[name]).sum() for k, name in enumerate(net.states))

    for name, value in {**values["feed"], **values["weights"]}.items():
        for at in rng.choice(value.size, 6, replace=False):
            flat, step = value.reshape(-1), 1e-6
            old = flat[at]
            flat[at] = old + step
            above = loss()
            flat[at] = old - step
            below = loss()
            flat[at] = old
            assert got[name + "@GRAD"].reshape(-1)[at] == pytest.approx((above - below) / (2 * step), abs=1e-7), (name, at)


# -- attention_lstm ---------------------------------------------------------------------------------

WIDTH = 4
ATTENTION_WEIGHTS = {"AttentionWeight": [SIZE + WIDTH, 1], "AttentionBias": [1, 1], "LSTMWeight": [WIDTH + SIZE, 4 * WIDTH],
                     "LSTMBias": [1, 4 * WIDTH]}


def attention_operator(x, states):
    """`states`: C0, or C0 and H0."""
    block = fluid.default_main_program().global_block()
    outs = {slot: block.create_var(dtype="float64", lod_level=1) for slot in ("Hidden", "Cell", "AttentionedX", "AttentionFCOut", "LSTMX",
                                                                              "LSTMOUT")}
    inputs = {"X": x, **dict(zip(("C0", "H0"), states)), **{name: var(name) for name in ATTENTION_WEIGHTS}}
    block.append_op(type="attention_lstm", inputs={slot: [one] for slot, one in inputs.items()},
                    outputs={slot: [one] for slot, one in outs.items()})
    return outs["Hidden"], outs["Cell"]


def attention_loop(x, states):
    weight = var("AttentionWeight")
    own = layers.elementwise_add(layers.mul(x, layers.slice(weight, [0], [0], [SIZE])), layers.reshape(var("AttentionBias"), [1]))
    loop = fluid.layers.DynamicRNN()
    with loop.block():
        loop.step_input(x)                             # for its number of steps
        rows, scores = loop.static_input(x), loop.static_input(own)
        cell = loop.memory(init=states[0], need_reorder=True)
        hidden = loop.memory(init=states[1], need_reorder=True) if len(states) > 1 else loop.memory(shape=[WIDTH], dtype="float64")
        about = layers.sequence_expand(layers.mul(cell, layers.slice(weight, [0], [SIZE], [SIZE + WIDTH])), scores)
        shares = layers.reshape(layers.sequence_softmax(layers.relu(scores + about)), [-1])
        mixture = layers.sequence_pool(layers.elementwise_mul(rows, shares, axis=0), "sum")
        gates = layers.mul(layers.concat([hidden, mixture], 1), var("LSTMWeight")) + layers.reshape(var("LSTMBias"), [4 * WIDTH])
        keep, take, give, candidate = layers.split(gates, 4, dim=1)
        new = layers.sigmoid(keep) * cell + layers.sigmoid(take) * layers.tanh(candidate)
        out = layers.sigmoid(give) * layers.tanh(new)
        loop.update_memory(hidden, out)
        loop.update_memory(cell, new)
        loop.output(out, new)
    return loop()


@pytest.mark.parametrize("states", [["c"], ["c", "h"]])
def test_attention_lstm_has_the_states_of_a_loop_of_operators(exe, rng, states):
    lengths, scope = [2, 5, 1, 3, 4, 1, 5], fluid.Scope()
    feed = {"x": fluid.create_lod_tensor(rng.standard_normal((sum(lengths), SIZE)), [lengths], fluid.CPUPlace()),
            **{name: rng.standard_normal((len(lengths), WIDTH)) for name in states}}
    x = layers.data("x", [SIZE], dtype="float64", lod_level=1)
    first = [layers.data(name, [WIDTH], dtype="float64") for name in states]
    for name, shape in ATTENTION_WEIGHTS.items():
        layers.create_parameter(shape, "float64", name=name)
        scope.var(name).get_tensor().set(rng.standard_normal(shape), fluid.CPUPlace())
    fetched = exe.run(fluid.default_main_program(), feed, [*attention_operator(x, first), *attention_loop(x, first)], scope=scope,
                      return_numpy=False)
    hidden, cell, loop_hidden, loop_cell = map(np.asarray, fetched)
    np.testing.assert_allclose(hidden, loop_hidden, rtol=0, atol=1e-12)
    np.testing.assert_allclose(cell, loop_cell, rtol=0, atol=1e-12)
    assert np.abs(hidden).max() > 1e-2
