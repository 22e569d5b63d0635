"""Recurrent layers over sequences, against the same nets step by step in numpy."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

LENGTHS = [2, 0, 3, 1]


@pytest.fixture
def run(exe):
    """Run the startup program, then the main program, and return the fetches without their sequences."""
    def run(feed, fetch_list):
        exe.run(fluid.default_startup_program())
        return [np.array(one) for one in exe.run(feed=feed, fetch_list=fetch_list, return_numpy=False)]

    return run


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sequences(values, lengths=LENGTHS):
    return fluid.create_lod_tensor(values, [lengths], fluid.CPUPlace())


def parameters():
    """The parameters' values, in the order in which layers made them."""
    scope = fluid.global_scope()
    return [np.array(scope.find_var(p.name).get_tensor()) for p in fluid.default_main_program().global_block().all_parameters()]


def lstm(x, weight, bias, h, c, projection=None):
    """One sequence; returns the rows of what is fed back and of the cell."""
    n = len(c)
    peeps = bias[4 * n:] if bias.size == 7 * n else np.zeros(3 * n)
    hidden, cell = [], []
    for row in x:
        gates = row + bias[:4 * n] + h @ weight
        i = sigmoid(gates[n:2 * n] + peeps[:n] * c)
        f = sigmoid(gates[2 * n:3 * n] + peeps[n:2 * n] * c)
        c = np.tanh(gates[:n]) * i + c * f
        h = sigmoid(gates[3 * n:] + peeps[2 * n:] * c) * np.tanh(c)
        if projection is not None:
            h = np.tanh(h @ projection)
        hidden.append(h)
        cell.append(c)
    return hidden, cell


def gru(x, weight, bias, h):
    n = len(h)
    flat = weight.reshape(-1)
    gates, candidate = flat[:2 * n * n].reshape(n, 2 * n), flat[2 * n * n:].reshape(n, n)
    states = []
    for row in x:
        row = row + bias
        u, r = np.split(sigmoid(row[:2 * n] + h @ gates), 2)
        h = (1 - u) * h + u * np.tanh(row[2 * n:] + (r * h) @ candidate)
        states.append(h)
    return states


def split(x, lengths=LENGTHS):
    return np.split(x, np.cumsum(lengths)[:-1])


@pytest.fixture
def random_biases():
    return fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=0.5))


@pytest.mark.parametrize("use_peepholes", [True, False])
def test_dynamic_lstm_is_lstm_over_each_sequence(run, rng, random_biases, use_peepholes):
    x = layers.data("x", [12], lod_level=1)
    hidden, cell = layers.dynamic_lstm(x, 12, use_peepholes=use_peepholes, bias_attr=random_biases)
    values = rng.normal(size=(6, 12)).astype("float32")
    got = run({"x": sequences(values)}, [hidden, cell])
    weight, bias = parameters()
    assert bias.shape == (1, 21 if use_peepholes else 12)
    want = [lstm(rows, weight, bias[0], np.zeros(3), np.zeros(3)) for rows in split(values)]
    np.testing.assert_allclose(got[0], [row for h, _ in want for row in h], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], [row for _, c in want for row in c], rtol=1e-5, atol=1e-6)


def test_dynamic_lstm_begins_with_the_states_given_and_keeps_sequences(exe, rng, random_biases):
    x = layers.data("x", [8], lod_level=1)
    h0, c0 = layers.data("h0", [2]), layers.data("c0", [2])
    hidden, _ = layers.dynamic_lstm(x, 8, h_0=h0, c_0=c0, is_reverse=True, bias_attr=random_biases)
    values, h, c = (rng.normal(size=size).astype("float32") for size in ((6, 8), (4, 2), (4, 2)))
    exe.run(fluid.default_startup_program())
    got, = exe.run(feed={"x": sequences(values), "h0": h, "c0": c}, fetch_list=[hidden], return_numpy=False)
    assert got.recursive_sequence_lengths() == [LENGTHS]
    weight, bias = parameters()
    want = [row for i, rows in enumerate(split(values)) for row in lstm(rows[::-1], weight, bias[0], h[i], c[i])[0][::-1]]
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-6)


def test_dynamic_lstmp_feeds_its_projection_back(run, rng, random_biases):
    x = layers.data("x", [12], lod_level=1)
    out, cell = layers.dynamic_lstmp(x, 12, 2, bias_attr=random_biases)
    values = rng.normal(size=(6, 12)).astype("float32")
    got = run({"x": sequences(values)}, [out, cell])
    weight, projection, bias = parameters()
    want = [lstm(rows, weight, bias[0], np.zeros(2), np.zeros(3), projection) for rows in split(values)]
    np.testing.assert_allclose(got[0], [row for h, _ in want for row in h], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], [row for _, c in want for row in c], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("is_reverse", [False, True])
def test_a_projected_input_that_is_kept_gives_the_same_bits_as_one_whose_memory_the_gates_take(exe, rng, is_reverse, projected):
    x = layers.data("x", [5], dtype="float64", lod_level=1)
    gates = layers.fc(x, 12)
    if projected:
        out, cell = layers.dynamic_lstmp(gates, 12, 2, is_reverse=is_reverse, dtype="float64")
    else:
        out, cell = layers.dynamic_lstm(gates, 12, is_reverse=is_reverse, dtype="float64")
    loss = layers.reduce_sum(layers.elementwise_mul(out, out)) + layers.reduce_sum(cell)
    grads = [grad.name for _, grad in fluid.backward.append_backward(loss)]
    kept = [name for op in fluid.default_main_program().global_block().ops if op.type in ("lstm", "lstmp")
            for name in op.output("BatchGate")]
    exe.run(fluid.default_startup_program())
    feed = {"x": sequences(rng.normal(size=(6, 5)))}

    alone = exe.run(feed=feed, fetch_list=[loss, *grads])
    beside = exe.run(feed=feed, fetch_list=[loss, *grads, gates.name, gates.name + "@GRAD", *kept], return_numpy=False)

    for one, other in zip(alone, beside):
        np.testing.assert_array_equal(one, np.array(other))


def test_dynamic_gru_is_gru_over_each_sequence(run, rng, random_biases):
    x, h0 = layers.data("x", [9], lod_level=1), layers.data("h0", [3])
    hidden = layers.dynamic_gru(x, 3, h_0=h0, bias_attr=random_biases)
    values, first = rng.normal(size=(6, 9)).astype("float32"), rng.normal(size=(4, 3)).astype("float32")
    got, = run({"x": sequences(values), "h0": first}, [hidden])
    weight, bias = parameters()
    want = [row for rows, h in zip(split(values), first) for row in gru(rows, weight, bias[0], h)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_gru_unit_is_one_step(run, rng):
    x, h = layers.data("x", [9]), layers.data("h", [3])
    after, reset, gate = layers.gru_unit(x, h, 9)
    values, first = rng.normal(size=(4, 9)).astype("float32"), rng.normal(size=(4, 3)).astype("float32")
    got, gates = run({"x": values, "h": first}, [after, gate])
    weight, bias = parameters()
    np.testing.assert_allclose(got, [gru([row], weight, bias[0], one)[0] for row, one in zip(values, first)],
                               rtol=1e-5, atol=1e-6)
    assert gates.shape == (4, 9) and reset.shape[1] == 3


def test_lstm_unit_is_one_step(run, rng):
    x, h, c = layers.data("x", [5]), layers.data("h", [3]), layers.data("c", [3])
    hidden, cell = layers.lstm_unit(x, h, c, forget_bias=1.0)
    feed = {name: rng.normal(size=(4, size)).astype("float32") for name, size in (("x", 5), ("h", 3), ("c", 3))}
    got = run(feed, [hidden, cell])
    weight, bias = parameters()
    i, f, o, j = np.split(np.hstack([feed["x"], feed["h"]]) @ weight + bias, 4, axis=1)
    after = feed["c"] * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    np.testing.assert_allclose(got[1], after, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[0], np.tanh(after) * sigmoid(o), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_net_learns_which_row_came_first(exe, rng, cell):
    """Sequences of different lengths; the label is in the first row alone."""
    x, label = layers.data("x", [2], lod_level=1), layers.data("label", [1], dtype="int64")
    if cell == "lstm":
        states, _ = layers.dynamic_lstm(layers.fc(x, 32), 32)
    else:
        states = layers.dynamic_gru(layers.fc(x, 24), 8)
    scores = layers.fc(layers.sequence_last_step(states), 2)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
    fluid.optimizer.Adam(learning_rate=0.03).minimize(loss)
    exe.run(fluid.default_startup_program())
    losses = []
    for _ in range(120):
        lengths = rng.integers(1, 7, size=16)
        values, labels = np.zeros((lengths.sum(), 2), "float32"), rng.integers(0, 2, size=(16, 1))
        values[np.cumsum(lengths) - lengths, labels[:, 0]] = 1
        losses += exe.run(feed={"x": sequences(values, list(lengths)), "label": labels}, fetch_list=[loss])
    assert np.mean(losses[-10:]) < 0.1 < 0.5 < losses[0]


def test_wrong_sizes_are_explained():
    x = layers.data("x", [12], lod_level=1)
    with pytest.raises(ValueError, match="size must be 4 times the hidden size, got 10"):
        layers.dynamic_lstm(x, 10)
    with pytest.raises(ValueError, match=r"input must be \[rows, 16\], 4 times the hidden size 4"):
        layers.dynamic_lstm(x, 16)
    with pytest.raises(ValueError, match=r"input must be \[rows, 15\], 3 times the hidden size 5"):
        layers.dynamic_gru(x, 5)
    with pytest.raises(ValueError, match="bias_attr must not be False"):
        layers.dynamic_lstm(x, 12, bias_attr=False)
    with pytest.raises(ValueError, match="one of identity, sigmoid, tanh, relu; got 'elu'"):
        layers.gru_unit(x, layers.data("h", [4]), 12, activation="elu")
