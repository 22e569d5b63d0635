"""Layers on sequences compute what their documentation says; sequences go in, out, to files and back."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

LENGTHS = [2, 0, 3, 1]


def lod_tensor(array, *lengths):
    return fluid.create_lod_tensor(np.asarray(array), list(lengths), fluid.CPUPlace())


def cut(array, lengths=LENGTHS):
    """The sequences, one by one."""
    return np.split(array, np.cumsum(lengths)[:-1])


@pytest.fixture
def rows(rng):
    return rng.uniform(-1, 1, (6, 4)).astype("float32")


@pytest.fixture
def x(rows):
    return layers.data("x", [4], lod_level=1, stop_gradient=False)


@pytest.fixture
def fed(rows):
    return {"x": lod_tensor(rows, LENGTHS)}


@pytest.fixture
def run(exe):
    """Run the startup program, then the main program, and return what is fetched as arrays, without sequences."""
    def run(feed, fetch_list):
        exe.run(fluid.default_startup_program())
        return [np.asarray(result) for result in exe.run(feed=feed, fetch_list=fetch_list, return_numpy=False)]

    return run


def one(run, feed, var):
    result, = run(feed, [var])
    return result


POOLS = {"sum": lambda s: s.sum(axis=0), "average": lambda s: s.mean(axis=0), "sqrt": lambda s: s.sum(axis=0) / len(s) ** 0.5,
         "max": lambda s: s.max(axis=0), "first": lambda s: s[0], "last": lambda s: s[-1]}


@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool, run, x, rows, fed):
    want = [POOLS[pool](s) if len(s) else np.full(4, -1) for s in cut(rows)]
    np.testing.assert_allclose(one(run, fed, layers.sequence_pool(x, pool, pad_value=-1.0)), want, rtol=1e-6)


def test_first_and_last_step(run, x, rows, fed):
    first, last = run(fed, [layers.sequence_first_step(x), layers.sequence_last_step(x)])
    np.testing.assert_array_equal(first, [rows[0], np.zeros(4), rows[2], rows[5]])
    np.testing.assert_array_equal(last, [rows[1], np.zeros(4), rows[4], rows[5]])


def test_a_pool_that_is_none(x):
    with pytest.raises(ValueError, match="average, sum, sqrt, max, last, first; got 'min'"):
        layers.sequence_pool(x, "min")


def test_an_input_without_sequences_is_named(run, x, rows):
    with pytest.raises(fluid.errors.TriremeError, match=r"sequence_pool: X 'x' has no sequences \(LoD\); feed it with "
                                                        "create_lod_tensor"):
        run({"x": rows}, [layers.sequence_pool(x, "max")])


def test_pools_of_sequences_of_sequences(exe, rows):
    x = layers.data("deep", [4], lod_level=2)
    sentences = layers.sequence_pool(x, "sum")
    texts = layers.sequence_pool(sentences, "max")
    assert (sentences.lod_level, texts.lod_level) == (1, 0)
    a, b = exe.run(feed={"deep": lod_tensor(rows, [1, 3], LENGTHS)}, fetch_list=[sentences, texts], return_numpy=False)
    assert a.recursive_sequence_lengths() == [[1, 3]] and b.lod() == []
    sums = np.array([s.sum(axis=0) for s in cut(rows)])
    np.testing.assert_allclose(b, [sums[0], sums[1:].max(axis=0)], rtol=1e-6)


def test_softmax(run, rng):
    scores = rng.uniform(-3, 3, (6, 1)).astype("float32")
    got = one(run, {"s": lod_tensor(scores, LENGTHS)}, layers.sequence_softmax(layers.data("s", [1], lod_level=1)))
    want = [np.exp(s) / np.exp(s).sum() for s in cut(scores.astype("float64"))]
    np.testing.assert_allclose(got, np.concatenate(want), rtol=1e-5)


def windows(rows, start, length):
    padded = np.concatenate([np.zeros((8, rows.shape[1])), rows, np.zeros((8, rows.shape[1]))])
    return [padded[8 + t + start:8 + t + start + length].reshape(-1) for t in range(len(rows))]


@pytest.mark.parametrize("size, start", [(3, None), (4, None), (2, 1), (1, 0)])
def test_convolution(size, start, run, x, rows, fed):
    y = layers.sequence_conv(x, num_filters=5, filter_size=size, padding_start=start, bias_attr=True, act="tanh")
    w, b = fluid.default_main_program().all_parameters()
    assert w.shape == (size * 4, 5) and b.shape == (5,)
    got, w = run(fed, [y, w])
    first = -(size // 2) if start is None else start
    want = [np.tanh(window @ w) for s in cut(rows) for window in windows(s, first, size)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_convolution_and_pool(run, x, rows, fed):
    y = fluid.nets.sequence_conv_pool(x, num_filters=3, filter_size=3, act="relu", pool_type="sum")
    got, w = run(fed, [y, fluid.default_main_program().all_parameters()[0]])
    want = [sum((np.maximum(v @ w, 0) for v in windows(s, -1, 3)), np.zeros(3)) for s in cut(rows)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_row_conv(run, x, rows, fed):
    got, w = run(fed, [layers.row_conv(x, future_context_size=2), *fluid.default_main_program().all_parameters()])
    assert w.shape == (3, 4)
    want = [sum(s[t + i] * w[i] for i in range(3) if t + i < len(s)) for s in cut(rows) for t in range(len(s))]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_expansion(exe, rng):
    a = rng.uniform(-1, 1, (4, 3)).astype("float32")
    x, y = layers.data("a", [3]), layers.data("y", [1], lod_level=1)
    feed = {"a": a, "y": lod_tensor(np.zeros((6, 1), "float32"), LENGTHS)}
    expanded, alike = exe.run(feed=feed, fetch_list=[layers.sequence_expand(x, y), layers.sequence_expand_as(x, y)],
                              return_numpy=False)
    np.testing.assert_array_equal(expanded, np.repeat(a, LENGTHS, axis=0))
    np.testing.assert_array_equal(alike, np.repeat(a, LENGTHS, axis=0))
    assert alike.recursive_sequence_lengths() == [LENGTHS] and expanded.lod() == []


def test_expansion_of_sequences_by_an_outer_level(exe):
    x, y = layers.data("a", [1], lod_level=1), layers.data("y", [1], lod_level=2)
    feed = {"a": lod_tensor(np.array([[1], [2], [3], [4]], "float32"), [2, 2]),
            "y": lod_tensor(np.zeros((8, 1), "float32"), [2, 2], [3, 3, 1, 1])}
    got, = exe.run(feed=feed, fetch_list=[layers.sequence_expand(x, y, ref_level=0)], return_numpy=False)
    assert np.asarray(got)[:, 0].tolist() == [1, 2, 1, 2, 3, 4, 3, 4]
    assert got.recursive_sequence_lengths() == [[2, 2, 2, 2]]


def test_concat_slice_and_reverse(exe, x, rows, fed):
    offset, length = (layers.data(name, [1], dtype="int64") for name in ("offset", "length"))
    feed = {**fed, "offset": np.array([[1], [0], [1], [0]]), "length": np.array([[1], [0], [2], [1]])}
    joined = layers.sequence_concat([x, x])
    results = exe.run(feed=feed, fetch_list=[joined, layers.sequence_slice(x, offset, length), layers.sequence_reverse(x)],
                      return_numpy=False)
    parts = cut(rows)
    wants = [np.concatenate([p for part in parts for p in (part, part)]), rows[[1, 3, 4, 5]],
             np.concatenate([part[::-1] for part in parts])]
    for got, want, lengths in zip(results, wants, [[4, 0, 6, 2], [1, 0, 2, 1], LENGTHS]):
        np.testing.assert_array_equal(got, want)
        assert got.recursive_sequence_lengths() == [lengths]


def test_padding_and_back(exe, x, rows, fed):
    nine = layers.fill_constant([1], "float32", 9.0)
    padded, length = layers.sequence_pad(x, nine)
    wide, _ = layers.sequence_pad(x, nine, maxlen=5)
    back = layers.sequence_unpad(padded, length)
    assert wide.shape == (None, 5, 4) and back.lod_level == 1
    padded, length, wide, back = exe.run(feed=fed, fetch_list=[padded, length, wide, back], return_numpy=False)
    want = np.full((4, 5, 4), 9, "float32")
    for i, part in enumerate(cut(rows)):
        want[i, :len(part)] = part
    np.testing.assert_array_equal(wide, want)
    np.testing.assert_array_equal(padded, want[:, :3])
    assert np.asarray(length).tolist() == [[n] for n in LENGTHS]
    np.testing.assert_array_equal(back, rows)
    assert back.recursive_sequence_lengths() == [LENGTHS]


def test_mask(exe):
    n = layers.data("n", [], dtype="int64")
    exact, wide = exe.run(feed={"n": np.array([2, 0, 3])},
                          fetch_list=[layers.sequence_mask(n), layers.sequence_mask(n, maxlen=4, dtype="float32")])
    assert exact.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]] and exact.dtype == np.int64
    assert wide.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]] and wide.dtype == np.float32


def test_numbers_of_words(exe):
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    feed = {"words": fluid.create_lod_tensor([[1, 2], [], [3, 1, 4], [5]], [LENGTHS])}
    pairs, left = exe.run(feed=feed, fetch_list=[layers.sequence_enumerate(words, win_size=2, pad_value=-1),
                                                 layers.sequence_erase(words, [1, 5])], return_numpy=False)
    assert np.asarray(pairs).tolist() == [[1, 2], [2, -1], [3, 1], [1, 4], [4, -1], [5, -1]]
    assert np.asarray(left)[:, 0].tolist() == [2, 3, 4]
    assert left.recursive_sequence_lengths() == [[1, 0, 2, 0]]


def test_other_rows_and_other_sequences(exe, x, rows, fed):
    y = layers.data("y", [1], lod_level=1)
    feed = {**fed, "y": lod_tensor(np.zeros((6, 1), "float32"), [3, 3])}
    results = exe.run(feed=feed, fetch_list=[layers.sequence_reshape(x, new_dim=2), layers.lod_reset(x, y=y),
                                             layers.lod_reset(x, target_lod=[0, 5, 6])], return_numpy=False)
    for got, lengths in zip(results, [[4, 0, 6, 2], [3, 3], [5, 1]]):
        np.testing.assert_array_equal(np.asarray(got).reshape(-1), rows.reshape(-1))
        assert got.recursive_sequence_lengths() == [lengths]
    with pytest.raises(ValueError, match="either y or target_lod"):
        layers.lod_reset(x)


def test_scatter(run):
    x = layers.data("a", [3])
    index, updates = layers.data("index", [1], dtype="int64", lod_level=1), layers.data("updates", [1], lod_level=1)
    feed = {"a": np.zeros((2, 3), "float32"), "index": lod_tensor(np.array([[0], [2], [0], [1]]), [3, 1]),
            "updates": lod_tensor(np.array([[1], [2], [3], [4]], "float32"), [3, 1])}
    assert one(run, feed, layers.sequence_scatter(x, index, updates)).tolist() == [[4, 0, 2], [0, 4, 0]]


def test_images_become_sequences(exe):
    image = layers.data("image", [1, 4, 4])
    a = np.arange(32, dtype="float32").reshape(2, 1, 4, 4)
    got, = exe.run(feed={"image": a}, fetch_list=[layers.im2sequence(image, filter_size=2, stride=2)], return_numpy=False)
    assert got.recursive_sequence_lengths() == [[4, 4]]
    assert np.asarray(got)[0].tolist() == [0, 1, 4, 5] and np.asarray(got)[7].tolist() == [26, 27, 30, 31]


def test_positions(run, rng):
    a = rng.uniform(-1, 1, (2, 3, 4)).astype("float32")
    got = one(run, {"a": a}, layers.add_position_encoding(layers.data("a", [3, 4]), alpha=2.0, beta=0.5))
    t, slow = np.arange(3)[:, None], np.array([1, 1e-4])
    np.testing.assert_allclose(got, 2 * a + 0.5 * np.concatenate([np.sin(t * slow), np.cos(t * slow)], axis=1), rtol=1e-5)


# -- the way of a gradient ---------------------------------------------------------------------------------------


def test_a_classifier_of_sequences_learns(exe, rng):
    """Does a sequence hold a pair of equal words? Only a window of two can tell."""
    fluid.default_startup_program().random_seed = 1
    words = layers.data("words", [1], dtype="int64", lod_level=1)
    label = layers.data("label", [1], dtype="int64")
    pooled = fluid.nets.sequence_conv_pool(layers.embedding(words, [6, 16]), num_filters=64, filter_size=2, act="relu")
    guess = layers.fc(pooled, 2, act="softmax")
    loss = layers.mean(layers.cross_entropy(guess, label))
    accuracy = layers.accuracy(guess, label)
    fluid.optimizer.Adam(0.01).minimize(loss)
    feeder = fluid.DataFeeder([words, label])
    exe.run(fluid.default_startup_program())

    def sample():
        sentence = rng.integers(0, 6, rng.integers(2, 6))
        return sentence, int(np.any(sentence[1:] == sentence[:-1]))

    scores = [exe.run(feed=feeder.feed([sample() for _ in range(64)]), fetch_list=[accuracy])[0] for _ in range(300)]
    assert np.mean(scores[-10:]) > 0.95


def test_attention_over_a_sequence_has_gradients(exe, x, rows, fed):
    score = layers.sequence_softmax(layers.fc(x, 1, bias_attr=False))
    context = layers.sequence_pool(layers.elementwise_mul(x, score, axis=0), "sum")
    beside = layers.sequence_pool(layers.concat([x, layers.sequence_expand(context, x)], axis=1), "last")
    loss = layers.reduce_sum(layers.square(beside))
    (_, gradient), = fluid.backward.append_backward(loss)
    exe.run(fluid.default_startup_program())
    w = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
    value = np.array(w)

    def at(delta):
        w.set(value + delta)
        return float(exe.run(feed=fed, fetch_list=[loss])[0][0])

    got, = exe.run(feed=fed, fetch_list=[gradient])
    for k in range(4):
        delta = np.zeros((4, 1), "float32")
        delta[k] = 1e-2
        np.testing.assert_allclose(got[k, 0], (at(delta) - at(-delta)) / 2e-2, rtol=2e-2, atol=2e-3)


# -- in, out, to files and back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[[2, 1]], [[1, 2], [1, 0, 2]], [[2], [1, 1], [0, 3]]])
def test_levels_of_sequences(lengths, exe):
    tensor = lod_tensor(np.arange(6, dtype="float32").reshape(3, 2), *lengths)
    assert tensor.recursive_sequence_lengths() == lengths and tensor.has_valid_recursive_sequence_lengths()
    v = layers.data("v", [2], lod_level=len(lengths))
    got, = exe.run(feed={"v": tensor}, fetch_list=[layers.scale(v, 2.0)], return_numpy=False)
    assert got.recursive_sequence_lengths() == lengths and got.lod() == tensor.lod()
    np.testing.assert_array_equal(got, 2 * np.arange(6).reshape(3, 2))


def test_a_fetched_tensor_is_fed_again(exe, x, rows, fed):
    y = layers.sequence_reverse(x)
    once, = exe.run(feed=fed, fetch_list=[y], return_numpy=False)
    twice, = exe.run(feed={"x": once}, fetch_list=[y], return_numpy=False)
    np.testing.assert_array_equal(twice, rows)
    assert twice.recursive_sequence_lengths() == [LENGTHS] and once.recursive_sequence_lengths() == [LENGTHS]


def test_lengths_that_do_not_fit_are_explained(rows):
    tensor = fluid.core.LoDTensor()
    tensor.set(rows)
    with pytest.raises(fluid.errors.TriremeError, match="LoD level 0 ends at 5, but there are 6 rows"):
        tensor.set_recursive_sequence_lengths([[2, 3]])
    with pytest.raises(fluid.errors.TriremeError, match="LoD level 0 ends at 3, but there are 2 sequences one level down"):
        tensor.set_recursive_sequence_lengths([[2, 1], [2, 4]])
    with pytest.raises(fluid.errors.TriremeError, match="falls from 7 to 6"):
        tensor.set_recursive_sequence_lengths([[7, -1]])
    with pytest.raises(TypeError, match=r"a list for each level, such as \[\[2, 3\]\].*got \[2, 4\]"):
        lod_tensor(rows, 2, 4)
    with pytest.raises(ValueError, match=r"recursive_seq_lens is \[\[2, 2\]\], but the lists of the data have \[2, 1\]"):
        fluid.create_lod_tensor([[1, 2], [3]], [[2, 2]])
    assert tensor.lod() == []


def test_a_feeder_makes_sequences_of_sequences():
    texts = layers.data("texts", [1], dtype="int64", lod_level=2)
    points = layers.data("points", [2], lod_level=1)
    feed = fluid.DataFeeder([texts, points]).feed([([[1, 2], []], np.ones((2, 2))), ([[3]], []), ([], [(4, 5)])])
    assert feed["texts"].recursive_sequence_lengths() == [[2, 1, 0], [2, 0, 1]]
    assert feed["texts"].numpy().tolist() == [[1], [2], [3]]
    assert feed["points"].recursive_sequence_lengths() == [[2, 0, 1]]
    assert feed["points"].numpy().tolist() == [[1, 1], [1, 1], [4, 5]]


def test_a_feeder_of_no_samples():
    feed = fluid.DataFeeder([layers.data("words", [1], dtype="int64", lod_level=1)]).feed([])
    assert feed["words"].shape() == [0, 1] and feed["words"].lod() == [[0]]


def test_a_feeder_says_what_is_no_sequence():
    words = fluid.DataFeeder([layers.data("words", [1], dtype="int64", lod_level=1)])
    with pytest.raises(TypeError, match="feed 'words': its lod_level is 1, so samples have sequences there; got 5"):
        words.feed([(5,)])
    texts = fluid.DataFeeder([layers.data("texts", [1], dtype="int64", lod_level=2)])
    with pytest.raises(TypeError, match="its lod_level is 2, so samples have lists of sequences there; got 1"):
        texts.feed([([1, 2],)])
    points = fluid.DataFeeder([layers.data("points", [2], lod_level=1)])
    with pytest.raises(ValueError, match=r"feed 'points': sequences are float32 arrays of \[length, 2\]"):
        points.feed([([1, 2, 3],)])


def test_sequences_are_saved_and_loaded(exe, tmp_path, rows):
    block = fluid.default_main_program().global_block()
    block.create_var(name="memory", shape=[-1, 4], dtype="float32", lod_level=2, persistable=True)
    scope = fluid.global_scope()
    scope.var("memory").get_tensor().set(rows)
    scope.var("memory").get_tensor().set_recursive_sequence_lengths([[1, 3], LENGTHS])
    fluid.io.save_persistables(exe, str(tmp_path / "apart"))
    fluid.io.save_persistables(exe, str(tmp_path), filename="together")
    for dirname, filename in (("apart", None), ("", "together")):
        with fluid.scope_guard(fluid.Scope()):
            fluid.io.load_persistables(exe, str(tmp_path / dirname), filename=filename)
            tensor = fluid.global_scope().find_var("memory").get_tensor()
            np.testing.assert_array_equal(tensor, rows)
            assert tensor.recursive_sequence_lengths() == [[1, 3], LENGTHS]


def test_a_saved_model_takes_sequences(exe, tmp_path, x, rows, fed):
    y = layers.fc(fluid.nets.sequence_conv_pool(x, num_filters=3, filter_size=2), 2)
    exe.run(fluid.default_startup_program())
    want, = exe.run(feed=fed, fetch_list=[y])
    fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe)
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        assert program.global_block().var(names[0]).lod_level == 1
        got, = exe.run(program, feed={names[0]: fed["x"]}, fetch_list=targets)
    np.testing.assert_array_equal(got, want)


def test_sentence_polarity_is_cut_into_training_and_test(monkeypatch):
    polarity = fluid.dataset.sentence_polarity
    blame = [[f"bad{i}", "film", "."] for i in range(20)]
    praise = [[f"good{i}", "film", "!"] for i in range(20)]
    monkeypatch.setattr(polarity, "sentences", lambda: (blame, praise))
    polarity._word_dict.cache_clear()
    words = polarity.word_dict(at_least=2)
    assert words == {"film": 1, "!": 2, ".": 3}
    assert list(polarity.test(words)()) == [([0, 1, 3], 0), ([0, 1, 2], 1)] * 2
    assert len(list(polarity.train()())) == 36
    polarity._word_dict.cache_clear()


def test_a_data_set_in_an_archive(tmp_path, monkeypatch):
    import zipfile
    common = fluid.dataset.common
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("folder/a.txt", "hello")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRIREME_DATA_HOME", raising=False)
    url = (tmp_path / "all.zip").as_uri()
    assert common.read("set", "a.txt", url, common.sha256_of(b"hello")) == b"hello"
    with pytest.raises(common.DataSetError, match="all.zip is damaged: it holds no b.txt"):
        common.read("set", "b.txt", url, common.sha256_of(b"hello"))
