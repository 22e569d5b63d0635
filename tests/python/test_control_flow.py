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


def numeric_gradient(run, value, step=1e-6):
    """Central differences of ``run(value)``, a number."""
    out = np.zeros_like(value)
    for place in np.ndindex(*value.shape):
        ups = [value.copy(), value.copy()]
        ups[0][place] += step
        ups[1][place] -= step
        out[place] = (run(ups[0]) - run(ups[1])) / (2 * step)
    return out


def check_numeric(exe, loss, feed, names, tolerance=1e-7, lods=None):
    """Compare the gradients by these feeds with differences of the loss."""
    lods = lods or {}
    append_backward(loss)
    exe.run(fluid.default_startup_program())

    def wrap(values):
        return {name: fluid.create_lod_tensor(value, lods[name], fluid.CPUPlace()) if name in lods else value
                for name, value in values.items()}

    def run(fetch, **changed):
        return np.array(exe.run(feed=wrap({**feed, **changed}), fetch_list=[fetch], return_numpy=False)[0])

    for name in names:
        expected = numeric_gradient(lambda value, name=name: run(loss, **{name: value}).item(), feed[name])
        np.testing.assert_allclose(run(f"{name}@GRAD"), expected, atol=tolerance * (1 + np.abs(expected).max()))


# -- StaticRNN ------------------------------------------------------------------------------------


def test_static_rnn_makes_its_memory_and_runs_over_two_inputs_with_two_outputs(exe, rng):
    x, y = sequence("x"), sequence("y")
    rnn = layers.StaticRNN()
    with rnn.step():
        a, b = rnn.step_input(x), rnn.step_input(y)
        seen = rnn.memory(shape=[-1, SIZE], batch_ref=a, init_value=0.5)
        product = rnn.memory(shape=[-1, SIZE], batch_ref=b, init_value=1.0)
        new_seen, new_product = seen + a, product * layers.sin(b + seen)
        rnn.update_memory(seen, new_seen)
        rnn.update_memory(product, new_product)
        rnn.output(new_seen, new_product)
    sums, products = rnn()
    assert sums.shape == products.shape == (STEPS, BATCH, SIZE)
    feed = {name: rng.normal(size=(STEPS, BATCH, SIZE)) for name in "xy"}
    loss = layers.reduce_sum(sums * products)
    got = exe.run(feed=feed, fetch_list=[sums])[0]
    np.testing.assert_allclose(got, 0.5 + np.cumsum(feed["x"], axis=0), atol=1e-12)
    check_numeric(exe, loss, feed, ["x", "y"])


def test_a_recurrent_net_within_one(exe, rng):
    """Each step of the outer net runs an inner one over the rows of its state; the weight is the outermost block's."""
    x, w = sequence(), batch("w")
    outer = layers.StaticRNN()
    with outer.step():
        row = outer.step_input(x)                        # [BATCH, SIZE]: the inner net's steps
        h = outer.memory(init=w)
        zeros = layers.zeros([SIZE], "float64")
        inner = layers.StaticRNN()
        with inner.step():
            one = inner.step_input(row)
            s = inner.memory(init=zeros)
            new_s = layers.tanh(s + one * layers.reduce_sum(w * h))
            inner.update_memory(s, new_s)
            inner.step_output(new_s)
        new_h = h * 0.5 + inner()
        outer.update_memory(h, new_h)
        outer.step_output(new_h)
    check_numeric(exe, total(outer()), {"x": rng.normal(size=(STEPS, BATCH, SIZE)),
                                        "w": rng.normal(size=(BATCH, SIZE)) * 0.5}, ["x", "w"], 1e-6)


def test_a_parameter_made_in_a_step_is_the_global_blocks_and_learns(exe, rng):
    x = sequence()
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(x)
        h = rnn.memory(shape=[-1, 4], batch_ref=row)
        new = layers.fc([row, h], 4, act="tanh")
        rnn.update_memory(h, new)
        rnn.step_output(new)
    loss = layers.reduce_mean(layers.square(rnn() - 0.3))
    names = [p.name for p in fluid.default_main_program().all_parameters()]
    assert len(names) == 3 and all(fluid.default_main_program().global_block().has_var(name) for name in names)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.2).minimize(loss)
    exe.run(fluid.default_startup_program())
    feed = {"x": rng.normal(size=(STEPS, BATCH, SIZE))}
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert float(exe.run(test, feed=feed, fetch_list=[loss.name])[0]) < losses[-1]


def test_the_net_of_no_steps_has_no_rows(exe):
    x = layers.data("x", [-1, BATCH, SIZE], dtype="float64", append_batch_size=False)
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(x)
        h = rnn.memory(shape=[-1, SIZE], batch_ref=row)
        rnn.update_memory(h, h + row)
        rnn.step_output(row * 2.0)
    out = rnn()
    assert exe.run(feed={"x": np.ones((0, BATCH, SIZE))}, fetch_list=[out])[0].shape == (0, BATCH, SIZE)
    assert exe.run(feed={"x": np.ones((2, BATCH, SIZE))}, fetch_list=[out])[0].shape == (2, BATCH, SIZE)


# -- DynamicRNN -----------------------------------------------------------------------------------

RAGGED = [[2, 5, 0, 1, 3]]


def ragged_net():
    make_weights()
    rows = layers.data("rows", [SIZE], dtype="float64", lod_level=1, stop_gradient=False)
    bias = layers.data("bias", [SIZE], dtype="float64", stop_gradient=False)
    rnn = layers.DynamicRNN()
    with rnn.block():
        x = rnn.step_input(rows)
        b = rnn.static_input(bias)
        h = rnn.memory(shape=[SIZE], dtype="float64", value=0.25)
        new = cell(x + b, h)
        rnn.update_memory(h, new)
        rnn.output(new, x)
    return rnn()


def test_ragged_sequences_are_as_if_each_were_alone(exe, rng, weights):
    lengths = RAGGED[0]
    feed = {"rows": rng.normal(size=(sum(lengths), SIZE)), "bias": rng.normal(size=(len(lengths), SIZE))}
    states, copies = ragged_net()
    loss = total(states)
    append_backward(loss)
    exe.run(fluid.default_startup_program())
    for name, value in weights.items():
        fluid.global_scope().var(name).get_tensor().set(value, fluid.CPUPlace())
    fed = {**feed, "rows": fluid.create_lod_tensor(feed["rows"], RAGGED, fluid.CPUPlace())}
    got = exe.run(feed=fed, fetch_list=[states, copies, "u@GRAD", "bias@GRAD"], return_numpy=False)
    assert got[0].recursive_sequence_lengths() == RAGGED
    np.testing.assert_array_equal(np.array(got[1]), feed["rows"])
    expected, start = [], 0
    for k, length in enumerate(lengths):
        h = np.full(SIZE, 0.25)
        for row in feed["rows"][start:start + length]:
            h = np.tanh((row + feed["bias"][k]) @ weights["u"] + h @ weights["w"])
            expected.append(h)
        start += length
    np.testing.assert_allclose(np.array(got[0]), np.array(expected), atol=1e-12)
    assert np.array(got[3])[2].tolist() == [0.0, 0.0]    # of the empty sequence


def test_ragged_sequences_have_the_numeric_gradient(exe, rng):
    states, copies = ragged_net()
    feed = {"rows": rng.normal(size=(sum(RAGGED[0]), SIZE)), "bias": rng.normal(size=(len(RAGGED[0]), SIZE))}
    check_numeric(exe, total(states) + layers.reduce_sum(copies * states), feed, ["rows", "bias"],
                  lods={"rows": RAGGED})


def test_a_batch_of_empty_sequences_has_no_rows(exe):
    states, _ = ragged_net()
    exe.run(fluid.default_startup_program())
    rows = fluid.create_lod_tensor(np.zeros((0, SIZE)), [[0, 0]], fluid.CPUPlace())
    got = exe.run(feed={"rows": rows, "bias": np.zeros((2, SIZE))}, fetch_list=[states], return_numpy=False)[0]
    assert np.array(got).shape == (0, SIZE) and got.recursive_sequence_lengths() == [[0, 0]]


def test_steps_over_two_levels_are_sequences(exe, rng):
    """Level 0 is stepped through; at every step the net sees the sub-sequences, and hands them on."""
    rows = layers.data("rows", [SIZE], dtype="float64", lod_level=2, stop_gradient=False)
    rnn = layers.DynamicRNN()
    with rnn.block():
        part = rnn.step_input(rows)
        rnn.output(part * part)
    out = rnn()
    lod = [[2, 0, 3], [1, 2, 0, 2, 1]]
    feed = {"rows": rng.normal(size=(6, SIZE))}
    got = exe.run(feed={"rows": fluid.create_lod_tensor(feed["rows"], lod, fluid.CPUPlace())}, fetch_list=[out],
                  return_numpy=False)[0]
    assert got.recursive_sequence_lengths() == lod
    np.testing.assert_allclose(np.array(got), feed["rows"] ** 2)
    check_numeric(exe, layers.reduce_sum(out * rows), feed, ["rows"], lods={"rows": lod})


def test_a_net_over_sentences_of_words(exe, rng):
    """The outer net steps over sentences; at each step an inner one runs over their words, from the outer memory."""
    words = layers.data("words", [SIZE], dtype="float64", lod_level=2, stop_gradient=False)
    w = layers.data("w", [SIZE, SIZE], dtype="float64", append_batch_size=False, stop_gradient=False)
    outer = layers.DynamicRNN()
    with outer.block():
        sentence = outer.step_input(words)
        memory = outer.memory(shape=[SIZE], dtype="float64", value=0.25)
        inner = layers.DynamicRNN()
        with inner.block():
            word = inner.step_input(sentence)
            seen = inner.static_input(memory)
            h = inner.memory(init=memory, need_reorder=True)
            new = layers.tanh(layers.mul(word, w) + h * seen)
            inner.update_memory(h, new)
            inner.output(new)
        states = inner()
        new_memory = layers.tanh(layers.sequence_pool(states, "sum") + memory)
        outer.update_memory(memory, new_memory)
        outer.output(new_memory, states)
    memories, states = outer()
    lod = [[2, 1, 3], [1, 3, 2, 2, 0, 1]]
    feed = {"words": rng.normal(size=(9, SIZE)), "w": rng.normal(size=(SIZE, SIZE))}
    got = exe.run(feed={**feed, "words": fluid.create_lod_tensor(feed["words"], lod, fluid.CPUPlace())},
                  fetch_list=[memories, states], return_numpy=False)
    assert [one.recursive_sequence_lengths() for one in got] == [[lod[0]], lod]
    start, sentence, expected = 0, 0, []
    for sentences in lod[0]:
        memory = np.full(SIZE, 0.25)
        for length in lod[1][sentence:sentence + sentences]:
            h, total_h = memory, np.zeros(SIZE)
            for word in feed["words"][start:start + length]:
                h = np.tanh(word @ feed["w"] + h * memory)
                total_h = total_h + h
            memory = np.tanh(total_h + memory)
            expected.append(memory)
            start += length
        sentence += sentences
    np.testing.assert_allclose(np.array(got[0]), expected, atol=1e-12)
    check_numeric(exe, total(memories) + total(states), feed, ["words", "w"], 1e-6, {"words": lod})


def test_a_branch_writes_into_an_array_in_a_loop(exe, rng):
    """Element i becomes sin(x) where i is even; otherwise it stays what was written before the loop."""
    x = batch("x")
    x.stop_gradient = False
    indices = [layers.fill_constant([1], "int64", k) for k in range(4)]
    array = None
    for k in indices:
        array = layers.array_write(x * 2.0, k, array)
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 4)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        even = layers.equal(i % 2, layers.fill_constant([1], "int64", 0))
        with layers.ConditionalBlock([even], is_scalar_condition=True).block():
            layers.array_write(layers.sin(layers.array_read(array, i)), i, array)
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    parts = [layers.array_read(array, k) for k in indices]
    value = rng.normal(size=(BATCH, SIZE))
    got = exe.run(feed={"x": value}, fetch_list=parts)
    for k, part in enumerate(got):
        np.testing.assert_allclose(part, np.sin(2 * value) if k % 2 == 0 else 2 * value, atol=1e-12)
    check_numeric(exe, total(parts[0] * parts[1]) + total(parts[2]) + total(parts[3]), {"x": value}, ["x"], 1e-6)


def test_a_recurrent_net_over_sequences_within_a_loop(exe, rng):
    """Arrays of a loop's body are empty at every turn; gradients of what it reads add up over turns."""
    rows = layers.data("rows", [SIZE], dtype="float64", lod_level=1, stop_gradient=False)
    w = layers.data("w", [1], dtype="float64", append_batch_size=False, stop_gradient=False)
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    result = layers.elementwise_mul(w, w)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        rnn = layers.DynamicRNN()
        with rnn.block():
            x = rnn.step_input(rows)
            h = rnn.memory(shape=[SIZE], dtype="float64", value=0.5)
            new = layers.tanh(layers.elementwise_mul(x, w) + h)
            rnn.update_memory(h, new)
            rnn.output(new)
        layers.assign(result * 0.5 + layers.reshape(total(rnn()), [1]), result)
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    feed = {"rows": rng.normal(size=(5, SIZE)), "w": np.array([0.7])}
    check_numeric(exe, layers.reduce_sum(result), feed, ["rows", "w"], lods={"rows": [[2, 3]]})


def test_words_train_through_an_embedding_and_a_layer_in_the_block(exe, rng):
    """Sparse gradients add up over steps; the optimizer sees parameters that were made in the block."""
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = layers.embedding(rnn.step_input(words), [10, 4], is_sparse=True, param_attr="table")
        h = rnn.memory(shape=[4])
        new = layers.fc([word, h], 4, act="tanh")
        rnn.update_memory(h, new)
        rnn.output(new)
    loss = layers.reduce_mean(layers.square(rnn() - 0.3))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe.run(fluid.default_startup_program())
    ids = fluid.create_lod_tensor(rng.integers(0, 10, (8, 1)), [[3, 1, 4]], fluid.CPUPlace())
    table = np.array(fluid.global_scope().var("table").get_tensor())
    losses = [float(exe.run(feed={"words": ids}, fetch_list=[loss])[0]) for _ in range(30)]
    assert losses[-1] < losses[0] / 5
    changed = (np.array(fluid.global_scope().var("table").get_tensor()) != table).any(axis=1)
    assert changed.tolist() == [k in np.array(ids) for k in range(10)]


@pytest.mark.parametrize("build", [static_rnn, dynamic_rnn])
def test_a_saved_net_is_the_same_net(exe, rng, weights, tmp_path, build):
    loss = build()
    x, h0 = rng.normal(size=(STEPS, BATCH, SIZE)), rng.normal(size=(BATCH, SIZE))
    feed = {"x": x, "h0": h0} if build is static_rnn else {"rows": as_rows(x), "h0": h0}
    append_backward(loss)
    exe.run(fluid.default_startup_program())
    expected, gradient = exe.run(feed=feed, fetch_list=[loss, "w@GRAD"])
    again = fluid.Program.parse_from_string(fluid.default_main_program().serialize_to_string())
    np.testing.assert_array_equal(exe.run(again, feed=feed, fetch_list=["w@GRAD"])[0], gradient)
    fluid.io.save_inference_model(str(tmp_path), list(feed), [loss], exe)
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        assert sorted(names) == sorted(feed)
        assert exe.run(program, feed=feed, fetch_list=targets)[0] == expected


# -- loops and branches ---------------------------------------------------------------------------


def test_a_branch_in_a_loop(exe, rng):
    """h = 2 h + x where the step is even, h = sin(h x) where it is odd."""
    x = batch("x")
    x.stop_gradient = False
    h = layers.scale(x, 1.0)
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 5)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        with layers.Switch() as switch:
            with switch.case(layers.equal(i % 2, layers.fill_constant([1], "int64", 0))):
                layers.assign(h * 2.0 + x, h)
            with switch.default():
                layers.assign(layers.sin(h * x), h)
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    value = rng.normal(size=(BATCH, SIZE))
    expected = value
    for t in range(5):
        expected = expected * 2 + value if t % 2 == 0 else np.sin(expected * value)
    np.testing.assert_allclose(exe.run(feed={"x": value}, fetch_list=[h])[0], expected, atol=1e-12)
    check_numeric(exe, total(h), {"x": value}, ["x"], 1e-6)


def test_nested_loops_write_one_array(exe, rng):
    """steps[3 i + j] = x (i + 1) + steps[..]: element by element through two loops."""
    x = batch("x")
    x.stop_gradient = False
    zero = layers.fill_constant([1], "int64", 0)
    i, k, n, m = (layers.fill_constant([1], "int64", value) for value in (0, 0, 2, 3))
    steps = layers.array_write(x * 1.0, zero)
    outer_cond = layers.less_than(i, n)
    outer = layers.While(outer_cond)
    with outer.block():
        j = layers.fill_constant([1], "int64", 0)
        inner_cond = layers.less_than(j, m)
        inner = layers.While(inner_cond)
        with inner.block():
            last = layers.array_read(steps, k)
            layers.increment(k)
            layers.array_write(layers.sin(last * x) + last, k, steps)
            layers.increment(j)
            layers.less_than(j, m, cond=inner_cond)
        layers.increment(i)
        layers.less_than(i, n, cond=outer_cond)
    length = layers.array_length(steps)
    loss = total(layers.array_read(steps, k)) + total(layers.array_read(steps, layers.fill_constant([1], "int64", 2)))
    value = rng.normal(size=(BATCH, SIZE))
    assert exe.run(feed={"x": value}, fetch_list=[length])[0].item() == 7
    check_numeric(exe, loss, {"x": value}, ["x"], 1e-6)


def test_an_element_written_twice_has_the_gradients_of_what_was_read_in_between(exe):
    x, y = batch("x"), batch("y")
    x.stop_gradient = False
    i = layers.fill_constant([1], "int64", 0)
    array = layers.array_write(layers.scale(x, 1.0), i)
    first = layers.array_read(array, i)
    layers.array_write(y, i, array)                      # y wants no gradient
    second = layers.array_read(array, i)
    append_backward(layers.reduce_sum(first * 3.0 + second * 100.0))
    one = np.ones((BATCH, SIZE))
    assert exe.run(feed={"x": one, "y": one}, fetch_list=["x@GRAD"])[0].tolist() == (3 * one).tolist()


def test_if_else_computes_and_differentiates_row_by_row(exe, rng):
    x = layers.data("x", [SIZE], dtype="float64", stop_gradient=False)
    mask = layers.data("mask", [1], dtype="bool")
    w = layers.data("w", [SIZE], dtype="float64", append_batch_size=False, stop_gradient=False)
    choose = layers.IfElse(mask)
    with choose.true_block():
        rows = choose.input(x)
        choose.output(layers.elementwise_mul(rows, w), layers.sin(rows))
    with choose.false_block():
        rows = choose.input(x)
        choose.output(rows * rows, layers.elementwise_add(rows, w))
    first, second = choose()
    feed = {"x": rng.normal(size=(4, SIZE)), "mask": np.array([[True], [False], [False], [True]]),
            "w": rng.normal(size=SIZE)}
    got = exe.run(feed=feed, fetch_list=[first, second])
    np.testing.assert_allclose(got[0], np.where(feed["mask"], feed["x"] * feed["w"], feed["x"] ** 2))
    np.testing.assert_allclose(got[1], np.where(feed["mask"], np.sin(feed["x"]), feed["x"] + feed["w"]))
    check_numeric(exe, layers.reduce_sum(first * second), feed, ["x", "w"])
    for mask_value in (True, False):                     # one side is empty
        feed["mask"] = np.full((4, 1), mask_value)
        expected = np.where(feed["mask"], feed["x"] * feed["w"], feed["x"] ** 2)
        np.testing.assert_allclose(exe.run(feed=feed, fetch_list=[first])[0], expected)


def test_switch_runs_the_first_case_that_holds(exe):
    step = layers.data("step", [1], dtype="int64", append_batch_size=False)
    rate = layers.fill_constant([1], "float32", -1.0)
    with layers.Switch() as switch:
        for bound, value in ((10, 1.0), (20, 2.0)):
            with switch.case(step < bound):
                layers.fill_constant([1], "float32", value, out=rate)
        with switch.default():
            layers.fill_constant([1], "float32", 3.0, out=rate)
    rates = [exe.run(feed={"step": np.array([k])}, fetch_list=[rate])[0].item() for k in (0, 9, 10, 19, 20, 99)]
    assert rates == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]


def test_split_and_merge_deal_out_whole_sequences(exe, rng):
    x = layers.data("x", [SIZE], dtype="float64", lod_level=1, stop_gradient=False)
    mask = layers.data("mask", [1], dtype="bool")
    yes, no = layers.split_lod_tensor(x, mask)
    merged = layers.merge_lod_tensor(yes * 2.0, no * 3.0, x=x, mask=mask)
    feed = {"x": rng.normal(size=(6, SIZE)), "mask": np.array([[False], [True], [True], [False]])}
    lod = [[2, 0, 3, 1]]
    fed = {**feed, "x": fluid.create_lod_tensor(feed["x"], lod, fluid.CPUPlace())}
    got = exe.run(feed=fed, fetch_list=[yes, no, merged], return_numpy=False)
    assert [one.recursive_sequence_lengths() for one in got] == [[[0, 3]], [[2, 1]], lod]
    factor = np.array([3, 3, 2, 2, 2, 3])[:, None]
    np.testing.assert_allclose(np.array(got[2]), feed["x"] * factor)
    check_numeric(exe, layers.reduce_sum(merged * merged) + layers.reduce_sum(no), feed, ["x"], lods={"x": lod})


def test_is_empty_tells_and_writes_where_it_is_told(exe):
    x = layers.data("x", [SIZE])
    cond = layers.create_tensor("bool")
    layers.is_empty(x, cond=cond)
    for rows in (0, 2):
        got = exe.run(feed={"x": np.zeros((rows, SIZE), "float32")}, fetch_list=[cond, layers.is_empty(x)])
        assert [one.item() for one in got] == [rows == 0] * 2


# -- what is shown, and mistakes ------------------------------------------------------------------


def test_a_program_shows_its_blocks_within_blocks():
    static_rnn()
    text = str(fluid.default_main_program())
    assert "recurrent(" in text and "\n    block 1:" in text and "\n        static_rnn_0.state_0" in text


def test_mistakes_are_explained(exe):
    x, i = batch("x"), layers.fill_constant([1], "int64", 0)
    with pytest.raises(TypeError, match="array must be a tensor array"):
        layers.array_write(x, i, x)
    with pytest.raises(Exception, match="read_from_array: X must be a tensor array, got a tensor"):
        layers.array_read(x, i)
    read = layers.array_read(layers.array_write(x, i), layers.fill_constant([1], "int64", 3))
    with pytest.raises(Exception, match="has 1 elements, there is no element 3"):
        exe.run(feed={"x": np.zeros((BATCH, SIZE))}, fetch_list=[read])


def test_mistakes_of_recurrent_nets_are_explained():
    rnn = layers.StaticRNN()
    with pytest.raises(ValueError, match="step_input must stand inside the block"):
        rnn.step_input(sequence())
    with pytest.raises(ValueError, match="has no update_memory"), rnn.step():
        rnn.memory(init=batch("h0"))
        rnn.step_input(sequence("y"))
    with pytest.raises(ValueError, match="call it after its block"):
        layers.DynamicRNN()()
    dynamic = layers.DynamicRNN()
    with pytest.raises(ValueError, match="memory must come after step_input"), dynamic.block():
        dynamic.memory(shape=[2])


def test_mistakes_of_branches_are_explained():
    choose = layers.IfElse(layers.data("mask", [1], dtype="bool"))
    with pytest.raises(ValueError, match="must stand inside true_block"):
        choose.input(batch("x"))
    with pytest.raises(ValueError, match="has no output"), choose.true_block():
        pass
    with pytest.raises(ValueError, match="default comes after"), layers.Switch() as switch:
        switch.default()


# -- variables with two parts ---------------------------------------------------------------------


def zeros_to_write():
    out = layers.fill_constant([BATCH, SIZE], "float64", 0.0)
    out.stop_gradient = False
    return out


def test_a_condition_that_its_block_reads_has_its_gradient(exe, rng):
    x = batch("x")
    h, out = layers.tanh(x), zeros_to_write()
    with layers.ConditionalBlock([h]).block():
        layers.assign(h * h, out)
    check_numeric(exe, total(out) + layers.reduce_sum(h), {"x": rng.normal(size=(BATCH, SIZE))}, ["x"])


def test_a_condition_that_its_block_writes_has_its_gradient(exe, rng):
    x = batch("x")
    h = layers.tanh(x)
    with layers.ConditionalBlock([h, x]).block():
        layers.assign(layers.sin(h) * x, h)
    check_numeric(exe, total(h), {"x": rng.normal(size=(BATCH, SIZE))}, ["x"])


def test_a_condition_read_by_a_block_in_its_block_has_its_gradient(exe, rng):
    x = batch("x")
    h, out = layers.tanh(x), zeros_to_write()
    with layers.ConditionalBlock([h]).block():
        with layers.ConditionalBlock([h]).block():
            layers.assign(h * x, out)
    check_numeric(exe, total(out), {"x": rng.normal(size=(BATCH, SIZE))}, ["x"])


def test_a_condition_inside_a_loop_has_its_gradient(exe, rng):
    x = batch("x")
    h, out = layers.tanh(x), zeros_to_write()
    i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    cond = layers.less_than(i, n)
    loop = layers.While(cond)
    with loop.block():
        with layers.ConditionalBlock([h]).block():
            layers.assign(layers.sin(h) + out, out)
        layers.increment(i)
        layers.less_than(i, n, cond=cond)
    check_numeric(exe, total(out), {"x": rng.normal(size=(BATCH, SIZE))}, ["x"])


def test_a_branch_may_read_what_it_also_splits(exe, rng):
    x = batch("x")
    h = layers.tanh(x)
    choose = layers.IfElse(layers.reduce_sum(h, dim=1, keep_dim=True) < layers.fill_constant([1], "float64", 0.0))
    with choose.true_block():
        choose.output(choose.input(h) * layers.reduce_sum(h))
    with choose.false_block():
        choose.output(choose.input(h) * layers.reduce_mean(x))
    feed = {"x": np.array([[-0.5, -0.25], [0.5, 1.0], [0.25, -1.0]])}
    check_numeric(exe, total(choose()[0]), feed, ["x"])


def test_a_first_memory_may_be_read_in_the_step(exe, rng):
    x, h0 = sequence(), batch("h0")
    first = layers.tanh(h0)
    rnn = layers.StaticRNN()
    with rnn.step():
        h = rnn.memory(init=first)
        again = rnn.memory(init=first)
        new = layers.sin(h * first + rnn.step_input(x) * again)
        rnn.update_memory(h, new)
        rnn.update_memory(again, new + first)
        rnn.step_output(new)
    feed = {"x": rng.normal(size=(STEPS, BATCH, SIZE)), "h0": rng.normal(size=(BATCH, SIZE))}
    check_numeric(exe, total(rnn()), feed, ["x", "h0"])


def test_one_value_may_update_two_memories_and_be_two_outputs(exe, rng):
    x, h0 = sequence(), batch("h0")
    rnn = layers.StaticRNN()
    with rnn.step():
        a, b = rnn.memory(init=h0), rnn.memory(init=h0)
        new = layers.sin(a * b + rnn.step_input(x))
        rnn.update_memory(a, new)
        rnn.update_memory(b, new)
        rnn.output(new, new, a)
    one, two, old = rnn()
    feed = {"x": rng.normal(size=(STEPS, BATCH, SIZE)), "h0": rng.normal(size=(BATCH, SIZE))}
    check_numeric(exe, total(one) + layers.reduce_sum(two * old), feed, ["x", "h0"])


def test_a_sequence_may_be_stepped_through_twice(exe, rng):
    x, h0 = sequence(), batch("h0")
    rnn = layers.StaticRNN()
    with rnn.step():
        h = rnn.memory(init=h0)
        new = layers.sin(h * rnn.step_input(x) + rnn.step_input(x))
        rnn.update_memory(h, new)
        rnn.step_output(new)
    feed = {"x": rng.normal(size=(STEPS, BATCH, SIZE)), "h0": rng.normal(size=(BATCH, SIZE))}
    check_numeric(exe, total(rnn()), feed, ["x", "h0"])


def test_a_step_may_read_the_whole_sequence_only_by_another_name(exe, rng):
    x, h0 = sequence(), batch("h0")
    whole = layers.assign(x)
    rnn = layers.StaticRNN()
    with rnn.step():
        h = rnn.memory(init=h0)
        row = rnn.step_input(x)
        with pytest.raises(ValueError, match=r"reduce_sum: X is .* of block 0, but in block 1 the name 'x' means"):
            layers.reduce_sum(x)
        new = layers.sin(h + row * layers.reduce_sum(whole))
        rnn.update_memory(h, new)
        rnn.step_output(new)
    feed = {"x": rng.normal(size=(STEPS, BATCH, SIZE)), "h0": rng.normal(size=(BATCH, SIZE))}
    h = feed["h0"]
    for row in feed["x"]:
        h = np.sin(h + row * feed["x"].sum())
    np.testing.assert_allclose(exe.run(feed=feed, fetch_list=[rnn()])[0][-1], h)
    check_numeric(exe, total(rnn()), feed, ["x", "h0"])


def test_a_dynamic_net_may_read_its_input_and_its_first_memory(exe, rng):
    rows = layers.data("rows", [SIZE], dtype="float64", lod_level=1, stop_gradient=False)
    start = layers.data("start", [SIZE], dtype="float64", stop_gradient=False)
    first = layers.tanh(start)
    rnn = layers.DynamicRNN()
    with rnn.block():
        x = rnn.step_input(rows)
        again = rnn.step_input(rows)
        h = rnn.memory(init=first, need_reorder=True)
        fixed = rnn.static_input(first)
        new = layers.sin(h * fixed + x * again * layers.reduce_sum(rows) + layers.reduce_mean(first))
        rnn.update_memory(h, new)
        rnn.output(new, h)
    new, h = rnn()
    feed = {"rows": rng.normal(size=(sum(RAGGED[0]), SIZE)), "start": rng.normal(size=(len(RAGGED[0]), SIZE))}
    check_numeric(exe, total(new) + layers.reduce_sum(new * h), feed, ["rows", "start"], 1e-6, lods={"rows": RAGGED})
