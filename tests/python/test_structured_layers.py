"""Conditional random fields, labels without places, and beam searches."""

import itertools

import numpy as np
import pytest

import trireme as fluid
from trireme import layers


def sequences(values, *lengths):
    return fluid.create_lod_tensor(values, list(lengths), fluid.CPUPlace())


def crf():
    scores, tags = layers.data("scores", [3], lod_level=1), layers.data("tags", [1], dtype="int64", lod_level=1)
    cost = layers.linear_chain_crf(scores, tags, param_attr=fluid.ParamAttr(name="crfw"))
    return scores, tags, cost


def test_a_crf_says_how_unlikely_tags_are_and_which_are_likeliest(exe, rng):
    scores, tags, cost = crf()
    best = layers.crf_decoding(scores, param_attr=fluid.ParamAttr(name="crfw"))
    right = layers.crf_decoding(scores, param_attr=fluid.ParamAttr(name="crfw"), label=tags)
    exe.run(fluid.default_startup_program())
    x, y = rng.normal(size=(4, 3)).astype("float32"), np.array([[0], [2], [1], [1]])
    feed = {"scores": sequences(x, [4]), "tags": sequences(y, [4])}
    got = [np.array(one) for one in exe.run(feed=feed, fetch_list=[cost, best, right], return_numpy=False)]
    w = np.array(fluid.global_scope().find_var("crfw").get_tensor())
    all_tags = list(itertools.product(range(3), repeat=4))

    def score(path):
        return (w[0, path[0]] + w[1, path[-1]] + sum(x[t, tag] for t, tag in enumerate(path))
                + sum(w[2 + a, b] for a, b in zip(path, path[1:])))

    total = np.log(sum(np.exp(score(path)) for path in all_tags))
    np.testing.assert_allclose(got[0], [[total - score(y[:, 0])]], rtol=1e-5)
    assert tuple(got[1][:, 0]) == max(all_tags, key=score)
    np.testing.assert_array_equal(got[2], got[1] == y)


def test_a_crf_learns_that_tags_alternate(exe, rng):
    """Emissions say nothing: everything must come from the transitions."""
    scores, tags, cost = crf()
    loss = layers.mean(cost)
    fluid.optimizer.SGD(learning_rate=0.5).minimize(loss)
    exe.run(fluid.default_startup_program())
    feed = {"scores": sequences(np.zeros((9, 3), "float32"), [4, 5]),
            "tags": sequences(np.array([[0], [1], [0], [1], [1], [0], [1], [0], [1]]), [4, 5])}
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0][0]) for _ in range(50)]
    assert losses[-1] < 1 < losses[0]


def test_crf_decoding_wants_the_parameter():
    with pytest.raises(ValueError, match="must name the parameter of linear_chain_crf; got 'crfw'"):
        layers.crf_decoding(layers.data("scores", [3], lod_level=1), param_attr=fluid.ParamAttr(name="crfw"))


def test_warpctc_sums_over_all_paths(exe, rng):
    """A path names a class for each row; those that say the labels count."""
    scores, letters = layers.data("scores", [3], lod_level=1), layers.data("letters", [1], dtype="int32", lod_level=1)
    cost = layers.warpctc(scores, letters, blank=2)
    x = rng.normal(size=(6, 3)).astype("float32")
    meant = [[0, 1], [1]]
    got, = exe.run(feed={"scores": sequences(x, [4, 2]), "letters": sequences(np.array([[0], [1], [1]], "int32"), [2, 1])},
                   fetch_list=[cost])

    def says(path):
        return [a for a, before in zip(path, (None, *path)) if a != before and a != 2]

    p = np.exp(x.astype("float64"))
    p /= p.sum(axis=1, keepdims=True)
    for i, rows in enumerate((p[:4], p[4:])):
        right = [path for path in itertools.product(range(3), repeat=len(rows)) if says(path) == meant[i]]
        total = sum(np.prod([rows[t, a] for t, a in enumerate(path)]) for path in right)
        np.testing.assert_allclose(got[i], [-np.log(total)], rtol=1e-5)


def cost_and_gradient(exe, x, labels, **options):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        scores, letters = layers.data("scores", [3], lod_level=1), layers.data("letters", [1], dtype="int32", lod_level=1)
        scores.stop_gradient = False
        cost = layers.reduce_sum(layers.warpctc(scores, letters, **options))
        gradient = fluid.backward.calc_gradient(cost, scores)
        fetches = exe.run(feed={"scores": x, "letters": labels}, fetch_list=[cost, gradient], return_numpy=False)
    return [np.array(one) for one in fetches]


def test_norm_by_times_divides_the_gradient_by_the_rows(exe, rng):
    x, labels = sequences(rng.normal(size=(6, 3)).astype("float32"), [4, 2]), sequences(np.array([[2], [1], [1]], "int32"), [2, 1])
    cost, plain = cost_and_gradient(exe, x, labels)
    same, scaled = cost_and_gradient(exe, x, labels, norm_by_times=True)
    assert cost == same and np.abs(plain).max() > 0.01
    np.testing.assert_allclose(scaled, plain / [[4], [4], [4], [4], [2], [2]], rtol=1e-6)


def test_greedy_decoding_takes_the_greatest_class_of_each_row(exe):
    scores = layers.data("scores", [3], lod_level=1)
    said = layers.ctc_greedy_decoder(scores, blank=0)
    classes = [1, 1, 0, 1, 2, 0, 0, 2, 2]
    got, = exe.run(feed={"scores": sequences(np.eye(3, dtype="float32")[classes], [5, 2, 2])}, fetch_list=[said],
                   return_numpy=False)
    assert np.array(got).tolist() == [[1], [1], [2], [2]]
    assert got.recursive_sequence_lengths() == [[3, 0, 1]]


def spoken(rng, count):
    """Sentences of two to five words out of four; each is heard as some noisy rows, with a pause before and perhaps after it."""
    voices = np.random.default_rng(3).normal(size=(5, 8))       # of a pause, then of the words
    heard, words = [], []
    for _ in range(count):
        sentence = rng.integers(1, 5, size=rng.integers(2, 6))
        rows = [0]
        for word in sentence:
            rows += [word] * rng.integers(2, 5) + [0] * rng.integers(1, 3)
        heard.append(voices[rows] + 0.2 * rng.normal(size=(len(rows), 8)))
        words.append(sentence[:, None])
    return heard, words


def test_a_network_learns_to_spell_what_it_hears(exe, rng):
    """Trained with warpctc, without knowing where the words are, its greedy decoding makes no mistake in new sentences."""
    heard, words = layers.data("heard", [8], lod_level=1), layers.data("words", [1], dtype="int32", lod_level=1)
    scores = layers.fc(layers.fc(heard, size=16, act="tanh"), size=5)
    loss = layers.mean(layers.warpctc(scores, words))
    said = layers.ctc_greedy_decoder(scores, blank=0)
    distance, count = layers.edit_distance(said, layers.cast(words, "int64"), normalized=False)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.02).minimize(loss)
    exe.run(fluid.default_startup_program())

    def batch(sentences):
        x, y = spoken(rng, sentences)
        return {"heard": sequences(np.concatenate(x).astype("float32"), [len(one) for one in x]),
                "words": sequences(np.concatenate(y).astype("int32"), [len(one) for one in y])}

    metric = fluid.metrics.EditDistance()
    new = batch(50)
    metric.update(*exe.run(test_program, feed=new, fetch_list=[distance, count]))
    assert metric.eval()[1] > 0.5
    for _ in range(150):
        exe.run(feed=batch(16), fetch_list=[loss])
    metric.reset()
    metric.update(*exe.run(test_program, feed=new, fetch_list=[distance, count]))
    assert metric.eval() == (0, 0)


def write(array, i, name, dtype):
    var = layers.data(name, [1], dtype=dtype, lod_level=2)
    return layers.array_write(var, layers.fill_constant([1], "int64", i), array)


def test_sentences_are_found_from_the_last_step_back(exe):
    """Two sources; the second one has ended, and been dropped, before the last step."""
    ids, scores = layers.create_array("int64"), layers.create_array("float32")
    for i in range(4):
        ids, scores = write(ids, i, f"i{i}", "int64"), write(scores, i, f"s{i}", "float32")
    sentences, marks = layers.beam_search_decode(ids, scores, beam_size=2, end_id=9)
    steps = [([1, 2], [0.0, 0.0], [1, 1], [1, 1]),
             ([3, 4, 5, 9], [0.5, 0.4, 0.7, 0.6], [1, 1], [2, 2]),
             ([6, 7, 9, 9], [0.9, 0.8, 0.75, 0.6], [2, 2], [2, 0, 1, 1]),
             ([9, 9], [1.2, 1.3], [2, 2], [1, 1, 0, 0])]
    feed = {}
    for i, (words, values, rows, candidates) in enumerate(steps):
        feed[f"i{i}"] = sequences(np.array(words)[:, None], rows, candidates)
        feed[f"s{i}"] = sequences(np.array(values, "float32")[:, None], rows, candidates)
    words, values = exe.run(feed=feed, fetch_list=[sentences, marks], return_numpy=False)
    assert np.array(words).tolist() == [1, 3, 7, 9, 1, 3, 6, 9, 2, 5, 9, 2, 9]
    assert words.recursive_sequence_lengths() == values.recursive_sequence_lengths() == [[2, 2], [4, 4, 3, 2]]
    np.testing.assert_allclose(np.array(values), [0, .5, .8, 1.3, 0, .5, .9, 1.2, 0, .7, .75, 0, .6], rtol=1e-6)


def test_beam_search_decodes_in_a_loop(exe):
    """A chain of words whose scores are known: the best path is found although its first word is not the best one."""
    table = np.log(np.array([[.05, .55, .4], [.4, .3, .3], [.05, .05, .9]], "float32"))      # word -> next word
    words = layers.data("words", [1], dtype="int64", lod_level=2)
    start = layers.data("start", [1], lod_level=2)
    weights = layers.assign(table)
    i, limit = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    ids, scores = layers.array_write(words, i), layers.array_write(start, i)
    condition = layers.less_than(i, limit)
    loop = layers.While(condition)
    with loop.block():
        before, sums = layers.array_read(ids, i), layers.array_read(scores, i)
        after = layers.elementwise_add(layers.matmul(layers.one_hot(before, 3), weights), layers.reshape(sums, [-1]), axis=0)
        after = layers.lod_reset(after, before)
        picked, values = layers.beam_search(before, sums, None, after, beam_size=2, end_id=7)
        layers.increment(i, 1, in_place=True)
        layers.array_write(picked, i, ids)
        layers.array_write(values, i, scores)
        layers.less_than(i, limit, cond=condition)
    sentences, _ = layers.beam_search_decode(ids, scores, beam_size=2, end_id=7)
    got, = exe.run(feed={"words": sequences(np.zeros((1, 1), "int64"), [1], [1]),
                         "start": sequences(np.zeros((1, 1), "float32"), [1], [1])}, fetch_list=[sentences], return_numpy=False)
    assert np.array(got).tolist()[:4] == [0, 2, 2, 2]
