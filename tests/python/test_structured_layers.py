"""Conditional random fields and beam searches."""

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
