"""What scripts of Fluid do by habit: shapes that are not the declared ones, columns without their 1, truth of variables."""

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers


def ran(exe, fetch, feed=None):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed or {}, fetch_list=fetch, return_numpy=True)


# -- gradients -------------------------------------------------------------------------------------


def test_one_input_has_a_gradient_and_several_have_a_list():
    x, y = layers.data("x", [3], stop_gradient=False), layers.data("y", [3], stop_gradient=False)
    assert fluid.backward.calc_gradient(layers.square(x), x).name == "x@GRAD"
    assert [grad.name for grad in fluid.backward.calc_gradient(x * y, [x, y])] == ["x@GRAD_0", "y@GRAD"]
    assert fluid.backward.calc_gradient(layers.square(y), x) is None
    assert [grad.name for grad in fluid.gradients(layers.square(y), y)] == ["y@GRAD_0"]


# -- truth -----------------------------------------------------------------------------------------


def test_a_variable_is_true_where_a_script_asks_whether_there_is_one():
    x, mask = layers.data("x", [3]), layers.data("mask", [3], dtype="bool")
    assert x and bool(layers.fc(x, 2)) is True
    for truth in (x < 1.0, x == x, mask, layers.less_than(x, x)):
        with pytest.raises(TypeError, match="has no truth value while the program is built"):
            bool(truth)


# -- shapes of feeds -------------------------------------------------------------------------------


def test_any_negative_dimension_is_unknown():
    assert layers.data("x", [-2, 7, -3], append_batch_size=False).shape == (None, 7, None)
    assert layers.data("y", [-5, 4]).shape == (None, 4)


def test_shorter_sequences_than_declared_are_fed(exe):
    x = layers.data("x", [8, 5])
    x.stop_gradient = False
    y = layers.relu(layers.fc(x, 4, num_flatten_dims=2))
    total = layers.reduce_sum(layers.square(y))
    grad, = fluid.gradients(total, x)
    exe.run(fluid.default_startup_program())
    rng = np.random.default_rng(1)
    whole = rng.normal(size=(2, 8, 5)).astype("float32")
    full, full_grad = exe.run(feed={"x": whole}, fetch_list=[y, grad])
    for length in (3, 8, 0, 12):
        part = whole[:, :length] if length <= 8 else np.concatenate([whole, whole[:, :4]], 1)
        got, got_grad = exe.run(feed={"x": part}, fetch_list=[y, grad])
        assert got.shape == (2, length, 4) and got_grad.shape == (2, length, 5)
        np.testing.assert_allclose(got[:, :8], full[:, :length], rtol=1e-5)
        np.testing.assert_allclose(got_grad[:, :8], full_grad[:, :length], rtol=1e-5)


def test_a_feed_whose_rows_do_not_fit_is_named_with_the_operator(exe, line):
    x, other = layers.data("x", [5]), layers.data("other", [2])
    y = layers.fc(x, 4)
    exe.run(fluid.default_startup_program())
    with pytest.raises(core.ShapeError) as caught:
        exe.run(feed={"x": np.ones((2, 6), "float32"), "other": np.ones((2, 2), "float32")}, fetch_list=[y, other])
    text = str(caught.value)
    assert "with feed 'x' of shape [2, 6], which the program declares as [?, 5]" in text and text.startswith("fc: Input is [2, 6]")
    assert "'other'" not in text
    with pytest.raises(core.ShapeError, match=r"feed 'x' has the shape \[2, 5, 1\], the program wants \[\?, 5\]; .*"
                                                r"layers.data\('x', \[None, None, None\], append_batch_size=False\)"):
        exe.run(feed={"x": np.ones((2, 5, 1), "float32")}, fetch_list=[y])


# -- indices ---------------------------------------------------------------------------------------

INDICES = [np.s_[0], np.s_[-1], np.s_[:, 1], np.s_[::2], np.s_[::-1], np.s_[1:4:2, 1:], np.s_[4:0:-2], np.s_[-2::-1], np.s_[:, ::-1, 0],
           np.s_[..., 1], np.s_[1, ..., ::2], np.s_[:-3:-1], np.s_[:, 3:1:-1, ::3], np.s_[2:2:3], np.s_[:, :, 10:0:-1]]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("declared", [[5, 4, 6], [None, None, None], [None, 4, 6]], ids=str)
def test_indices_are_those_of_numpy(exe, index, declared):
    x = layers.data("x", declared, append_batch_size=False)
    x.stop_gradient = False
    y = x[index]
    grad, = fluid.gradients(layers.reduce_sum(layers.square(y)), x)
    a = np.random.default_rng(0).normal(size=(5, 4, 6)).astype("float32")
    value, slope = exe.run(feed={"x": a}, fetch_list=[y, grad])
    np.testing.assert_array_equal(value, a[index])
    expected = np.zeros_like(a)
    expected[index] = 2 * a[index]
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


@pytest.mark.parametrize("declared, index", [([5], 2), ([5, 4], (1, -1)), ([None, 4, 6], (0, 1, 2)), ([5, 4], (1, slice(2, 3)))], ids=str)
def test_a_single_element_has_one_dimension(exe, declared, index):
    x = layers.data("x", declared, append_batch_size=False)
    y = x[index]
    a = np.arange(np.prod([5, 4, 6][:len(declared)]), dtype="float32").reshape([5, 4, 6][:len(declared)])
    value, = exe.run(feed={"x": a}, fetch_list=[y])
    assert y.shape == value.shape == (1,) and value[0] == np.ravel(a[index])[0]


def test_a_program_that_deletes_variables_runs(exe, tmp_path):
    """As programs are that Fluid saved after release_memory."""
    x = layers.data("x", [3])
    y = layers.scale(x, 2.0)
    block = fluid.default_main_program().global_block()
    block.append_op(type="delete_var", inputs={"X": [x]})
    z = layers.scale(y, 2.0)
    block.append_op(type="delete_var", inputs={"X": [y, z]})
    fluid.io.save_program(fluid.default_main_program(), str(tmp_path / "program"))
    for program in (fluid.default_main_program(), fluid.io.load_program(str(tmp_path / "program"))):
        np.testing.assert_array_equal(exe.run(program, feed={"x": np.ones((1, 3), "float32")}, fetch_list=[z.name])[0], [[4, 4, 4]])
    assert "delete_var" not in str(exe.plan(fetch_list=[z], feed=["x"]))
    with pytest.raises(ValueError, match="delete_var: input X is missing"):
        block.append_op(type="delete_var", inputs={})


def test_an_index_that_cannot_be_is_refused():
    x = layers.data("x", [4])
    with pytest.raises(IndexError, match="at most one ellipsis"):
        x[..., ...]
    with pytest.raises(IndexError, match="has 2 dimensions"):
        x[0, 0, 0]
    with pytest.raises(ValueError, match="must not be 0"):
        x[::0]


# -- one of a list, columns without their 1 --------------------------------------------------------


def test_a_reduction_takes_a_list_of_one(exe):
    x = layers.data("x", [3])
    total, = exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[layers.reduce_sum([x])])
    assert total == 6
    with pytest.raises(TypeError, match="reduce_sum: input must be a Variable"):
        layers.reduce_sum([x, x])


def one_column(value):
    """Return a value twice: [n, 1] and [n]."""
    value = np.asarray(value)
    return value.reshape(-1, 1), value.reshape(-1)


def sequence(array, lengths):
    return fluid.create_lod_tensor(array, [lengths])


def both(exe, build, feeds):
    """Run what ``build`` makes for [n, 1] and for [n]; return the two lists of results."""
    results = []
    for number, columns in enumerate((True, False)):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 1
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            fetch = build([1] if columns else [])
            exe.run(startup)
            fetched = exe.run(main, feed={name: value[number] if isinstance(value, tuple) else value for name, value in feeds.items()},
                              fetch_list=fetch, return_numpy=False)
            results.append([np.array(value) for value in fetched])
    for one, other in zip(*results):
        np.testing.assert_array_equal(one, other)
    return results[0]


def test_labels_of_losses_may_be_flat(exe, rng):
    def build(column):
        x = layers.data("x", [4])
        x.stop_gradient = False
        label = layers.data("label", [-1, *column], dtype="int64", append_batch_size=False)
        costs = [layers.cross_entropy(layers.softmax(x), label), layers.softmax_with_cross_entropy(x, label),
                 layers.hsigmoid(x, label, num_classes=5), layers.nce(x, label, num_total_classes=5, num_neg_samples=3)]
        return [*costs, *(fluid.gradients(cost, x)[0] for cost in costs)]

    label = rng.integers(0, 4, 6)
    costs = both(exe, build, {"x": rng.normal(size=(6, 4)).astype("float32"), "label": one_column(label)})
    assert all(cost.shape == (6, 1) for cost in costs[:4])


def test_a_label_that_does_not_fit_is_refused():
    x, label = layers.data("x", [6, 4], append_batch_size=False), layers.data("label", [5], dtype="int64", append_batch_size=False)
    for build in (lambda: layers.softmax_with_cross_entropy(x, label), lambda: layers.hsigmoid(x, label, num_classes=5),
                  lambda: layers.nce(x, label, num_total_classes=5, num_neg_samples=3)):
        with pytest.raises(core.ShapeError, match="Label"):
            build()


def test_a_bias_may_be_flat(exe, rng):
    def build(column):
        x, label = layers.data("x", [4]), layers.data("label", [1], dtype="int64")
        block = fluid.default_main_program().global_block()
        weight = layers.create_parameter([4, 4], "float32", name="w", default_initializer=fluid.initializer.Normal(seed=3))
        bias = layers.create_parameter([4, *column], "float32", name="b", default_initializer=fluid.initializer.Normal(seed=4))
        out, pre = block.create_var(name="out", dtype="float32"), block.create_var(name="pre", dtype="float32")
        block.append_op(type="hierarchical_sigmoid", inputs={"X": x, "W": weight, "Label": label, "Bias": bias},
                        outputs={"Out": out, "PreOut": pre}, attrs={"num_classes": 5})
        grad, = fluid.gradients(out, bias)
        assert grad.shape == (4, *column)
        return [out, layers.reshape(grad, [-1])]

    both(exe, build, {"x": rng.normal(size=(6, 4)).astype("float32"), "label": rng.integers(0, 5, (6, 1))})


def test_sequences_of_chunks_may_be_flat(exe):
    def build(column):
        found, real = (layers.data(name, [-1, *column], dtype="int64", append_batch_size=False, lod_level=1) for name in ("found", "real"))
        return list(layers.chunk_eval(found, real, "IOB", 2))

    found, real = ([sequence(column, [3, 3]) for column in one_column(np.array(tags))] for tags in ([0, 1, 4, 2, 3, 0], [0, 1, 4, 2, 4, 0]))
    counts = both(exe, build, {"found": tuple(found), "real": tuple(real)})
    assert [int(count[0]) for count in counts[3:]] == [3, 3, 2]


def test_prefixes_of_beams_may_be_flat(exe):
    def build(column):
        pre_ids = layers.data("pre_ids", [-1, *column], dtype="int64", append_batch_size=False)
        pre_scores = layers.data("pre_scores", [-1, *column], append_batch_size=False)
        scores = layers.data("scores", [3], lod_level=1)
        return list(layers.beam_search(pre_ids, pre_scores, None, scores, beam_size=2, end_id=0))[:2]

    ids, _ = both(exe, build, {"pre_ids": one_column(np.array([1, 2])), "pre_scores": one_column(np.array([0.5, 0.25], "float32")),
                               "scores": sequence(np.array([[.1, .5, .2], [.9, .1, .1]], "float32"), [2])})
    assert ids.ravel().tolist() == [1, 0]


def test_an_images_true_size_may_be_flat(exe, rng):
    image = layers.data("image", [2, 6, 6])
    size = layers.data("size", [-1], append_batch_size=False)
    windows = layers.im2sequence(image, filter_size=2, stride=2, input_image_size=size, out_stride=1)
    feed = {"image": rng.normal(size=(2, 2, 6, 6)).astype("float32"), "size": np.array([6, 4, 2, 6], "float32")}
    got, = exe.run(feed=feed, fetch_list=[windows], return_numpy=False)
    assert got.recursive_sequence_lengths() == [[6, 3]]
    with pytest.raises(core.ShapeError, match=r"Y must be \[4\]"):
        exe.run(feed={**feed, "size": np.ones(3, "float32")}, fetch_list=[windows])


# -- servers' programs, lengths --------------------------------------------------------------------


def test_a_servers_program_outside_of_a_job_says_what_to_do(exe):
    loss = layers.mean(layers.fc(layers.data("x", [3]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    t = fluid.DistributeTranspiler()
    t.transpile(trainer_id=0, pservers="a:1,b:2", trainers=2)
    exe.run(t.get_startup_program("a:1", t.get_pserver_program("a:1")))
    with pytest.raises(core.UnsupportedError, match="trireme launch --servers 2 --trainers 2"):
        exe.run(t.get_pserver_program("a:1"))


def test_wrong_lengths_fail_as_in_fluid():
    for data, lengths in [([[1, 2], [3]], [[2, 2]]), (np.zeros((5, 1), "int64"), [[2, 2]]), (np.zeros((5, 1), "int64"), [[1, 1], [2, 2]])]:
        with pytest.raises(AssertionError, match="recursive_seq_lens is"):
            fluid.create_lod_tensor(data, lengths)
        with pytest.raises(ValueError, match="recursive_seq_lens is"):
            fluid.create_lod_tensor(data, lengths)


# -- arguments and names ---------------------------------------------------------------------------


def test_the_classes_of_a_cross_entropy_may_be_any_dimension(exe):
    logits, label = layers.data("logits", [3, 4]), layers.data("label", [1, 4], dtype="int64")
    turned, flat = layers.transpose(logits, [0, 2, 1]), layers.transpose(label, [0, 2, 1])
    loss, softmax = layers.softmax_with_cross_entropy(logits, label, return_softmax=True, axis=1)
    want, want_softmax = layers.softmax_with_cross_entropy(turned, flat, return_softmax=True)
    random = np.random.default_rng(0)
    feed = {"logits": random.normal(size=(2, 3, 4)).astype("float32"), "label": random.integers(0, 3, (2, 1, 4))}
    got = exe.run(feed=feed, fetch_list=[loss, softmax, want, want_softmax])
    assert got[0].shape == (2, 1, 4) and got[1].shape == (2, 3, 4)
    np.testing.assert_array_equal(got[0], got[2].transpose(0, 2, 1))
    np.testing.assert_array_equal(got[1], got[3].transpose(0, 2, 1))
    with pytest.raises(ValueError, match="axis must be one of the 3 dimensions"):
        layers.softmax_with_cross_entropy(logits, label, axis=3)


def test_layers_of_one_number_take_their_arguments_by_place(exe):
    x = layers.data("x", [2])
    assert layers.relu(x, "mine").name.startswith("mine") and layers.softshrink(x, "short").name.startswith("short")
    feed = {"x": np.array([[-1.0, 2.0]], "float32")}
    plain, none = exe.run(feed=feed, fetch_list=[layers.selu(x), layers.selu(x, None, None)])
    np.testing.assert_array_equal(plain, none)
    with pytest.raises(TypeError, match="less_than takes x, y, force_cpu, cond: got an unexpected keyword argument 'out'"):
        layers.less_than(x, x, out=x)


def test_a_comparison_is_written_where_a_script_says(exe):
    x, out = layers.data("x", [2]), layers.create_tensor("bool")
    for result in (layers.less_than(x, x + 1.0, True, out), layers.less_than(x, x + 1.0, out), layers.equal(x, x, out)):
        assert result is out
    either = layers.logical_or(out, layers.equal(x, x), None, "either")
    assert either.name.startswith("either")


def test_a_variable_is_loaded_by_an_operator(exe, tmp_path):
    w = layers.create_parameter([2], "float32", name="w", default_initializer=fluid.initializer.Constant(3.0))
    exe.run(fluid.default_startup_program())
    fluid.io.save_vars(exe, str(tmp_path), vars=[w])
    program = fluid.Program()
    with fluid.program_guard(program):
        layers.load(program.global_block().create_var(name="loaded", shape=[2], dtype="float32"), str(tmp_path / "w"))
    np.testing.assert_array_equal(exe.run(program, fetch_list=["loaded"])[0], [3.0, 3.0])


def test_a_scope_of_names_without_a_name_is_the_one_around_it():
    x = layers.data("x", [2])
    with fluid.name_scope("outer"), fluid.name_scope():
        layers.relu(x)
    assert fluid.default_main_program().global_block().ops[-1].attr("op_namescope") == "/outer/"


def test_gradients_are_applied_in_the_program_of_the_loss(exe):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        loss = layers.mean(layers.fc(layers.data("x", [2]), 1))
        pairs = fluid.backward.append_backward(loss)
    fluid.optimizer.SGD(0.1).apply_optimize(loss, startup, pairs)
    assert [op.type for op in main.global_block().ops].count("sgd") == 2
    exe.run(startup)
    exe.run(main, feed={"x": np.ones((1, 2), "float32")}, fetch_list=[loss])


def test_a_feeder_makes_feeds_for_one_place_and_for_several():
    feeder = fluid.DataFeeder([layers.data("x", [1])], fluid.CPUPlace())
    batches = [[([i],), ([i + 1],)] for i in range(5)]
    feeds = list(feeder.decorate_reader(lambda: iter(batches), multi_devices=False)())
    assert [feed["x"][0, 0] for feed in feeds] == [0, 1, 2, 3, 4]
    lists = list(feeder.decorate_reader(lambda: iter(batches), multi_devices=True, num_places=2)())
    assert [[feed["x"][0, 0] for feed in some] for some in lists] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="the last 1 batches are too few for 2 places"):
        list(feeder.decorate_reader(lambda: iter(batches), True, 2, drop_last=False)())
    with pytest.raises(ValueError, match="there are 2 places, so 2 batches are needed, got 1"):
        list(feeder.feed_parallel(batches[:1], 2))


def test_the_parts_of_a_decoder_are_names_of_contrib():
    assert fluid.contrib.StateCell is fluid.contrib.decoder.StateCell


def test_the_places_where_something_is_true(exe):
    x = layers.data("x", [3])
    places = layers.where(x > 0.5)
    got, = exe.run(feed={"x": np.array([[0, 1, 0], [1, 0, 1]], "float32")}, fetch_list=[places])
    assert got.dtype == np.int64 and got.tolist() == [[0, 1], [1, 0], [1, 2]]
    assert exe.run(feed={"x": np.zeros((2, 3), "float32")}, fetch_list=[places])[0].shape == (0, 2)


def test_labels_without_their_1_have_an_accuracy(exe):
    x, label = layers.data("x", [3]), layers.data("label", [], dtype="int64")
    got, = exe.run(feed={"x": np.eye(3, dtype="float32"), "label": np.array([0, 1, 1])}, fetch_list=[layers.accuracy(x, label)])
    np.testing.assert_allclose(got, [2 / 3])
    area = layers.auc(layers.softmax(layers.slice(x, [1], [0], [2])), label)[0]
    exe.run(fluid.default_startup_program())
    assert 0 <= exe.run(feed={"x": np.eye(3, dtype="float32"), "label": np.array([0, 1, 1])}, fetch_list=[area])[0].item() <= 1
