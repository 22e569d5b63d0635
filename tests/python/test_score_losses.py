"""Layers of losses between scores, distributions and embeddings, against NumPy; metrics of classes."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers


def softplus(x):
    return np.logaddexp(0, x)


def value(exe, out, **feed):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=[out] if not isinstance(out, list) else out)


def floats(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def test_two_scores(exe, rng):
    label, left, right = (layers.data(name, [1]) for name in ("label", "left", "right"))
    fed = {"label": rng.integers(0, 2, (7, 1)).astype("float32"), "left": floats(rng, 7, 1), "right": floats(rng, 7, 1)}
    o = fed["left"] - fed["right"]
    got = value(exe, [layers.rank_loss(label, left, right), layers.margin_rank_loss(2.0 * label - 1.0, left, right, margin=0.3)], **fed)
    np.testing.assert_allclose(got[0], softplus(o) - fed["label"] * o, rtol=1e-5)
    np.testing.assert_allclose(got[1], np.maximum(0.3 - (2 * fed["label"] - 1) * o, 0), rtol=1e-5, atol=1e-6)


def test_one_score_of_many(exe, rng):
    x, label = layers.data("x", [5]), layers.data("label", [1], dtype="int64")
    a, b = floats(rng, 6, 5), rng.integers(0, 5, (6, 1))
    got, = value(exe, layers.bpr_loss(x, label), x=a, label=b)
    apart = softplus(a - np.take_along_axis(a, b, 1))
    np.testing.assert_allclose(got, (apart.sum(1, keepdims=True) - np.log(2)) / 4, rtol=1e-5)


@pytest.mark.parametrize("reduction, of", [("none", lambda e: e), ("sum", lambda e: [e.sum()]), ("mean", lambda e: [e.mean()]),
                                           ("batchmean", lambda e: [e.sum() / len(e)])])
def test_divergence(exe, rng, reduction, of):
    x, target = layers.data("x", [4]), layers.data("target", [4])
    a, t = floats(rng, 3, 4), rng.random((3, 4)).astype("float32")
    t[0, 0] = 0
    got, = value(exe, layers.kldiv_loss(x, target, reduction), x=a, target=t)
    np.testing.assert_allclose(got, of(np.where(t > 0, t * (np.log(np.maximum(t, 1e-9)) - a), 0)), rtol=1e-4, atol=1e-6)


def test_a_teacher(exe, rng):
    x, label = layers.data("x", [1]), layers.data("label", [1])
    a, b = floats(rng, 4, 1) * 3, np.array([[-2], [-1], [0.3], [1.6]], "float32")
    got, = value(exe, layers.teacher_student_sigmoid_loss(x, label), x=a, label=b)
    s = softplus(a)
    np.testing.assert_allclose(got, [s[0], s[1] - a[1], 2 * s[2] - .3 * a[2], 2 * s[3] - 1.6 * a[3]], rtol=1e-5)


def test_squares(exe, rng):
    x, y = layers.data("x", [3]), layers.data("y", [3])
    a, b = floats(rng, 4, 3), floats(rng, 4, 3)
    np.testing.assert_allclose(value(exe, layers.mse_loss(x, y), x=a, y=b)[0], [((a - b) ** 2).mean()], rtol=1e-5)


def test_dice(exe, rng):
    x, label = layers.data("x", [6, 3]), layers.data("label", [6, 1], dtype="int64")
    p = rng.random((2, 6, 3)).astype("float32")
    b = rng.integers(0, 3, (2, 6, 1))
    truth = np.eye(3)[b[..., 0]]
    dice = 2 * (p * truth).sum((1, 2)) / (p.sum((1, 2)) + truth.sum((1, 2)) + 1e-5)
    np.testing.assert_allclose(value(exe, layers.dice_loss(x, label), x=p, label=b)[0], [1 - dice.mean()], rtol=1e-5)
    with pytest.raises(ValueError, match="must be known"):
        layers.dice_loss(layers.data("z", [6, -1]), label)


@pytest.mark.parametrize("shape", [[1], [-1]])
def test_pairs_of_a_batch(exe, rng, shape):
    anchor, positive = layers.data("anchor", [4]), layers.data("positive", [4])
    labels = layers.data("labels", shape, dtype="int64", append_batch_size=shape == [1])
    anchor.stop_gradient = False
    loss = layers.npair_loss(anchor, positive, labels, l2_reg=0.01)
    grad, = fluid.gradients(loss, anchor)
    a, p, n = floats(rng, 6, 4), floats(rng, 6, 4), np.array([3, 1, 3, 2**40, 1, 2**40 + 1])

    def formula(a):
        same = (n[:, None] == n[None, :]).astype(float)
        scores = a @ p.T
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return -(same / same.sum(1, keepdims=True) * logs).sum(1).mean() + 0.25 * 0.01 * ((a * a).sum(1).mean() + (p * p).sum(1).mean())

    got, slope = value(exe, [loss, grad], anchor=a, positive=p, labels=n.reshape([-1, *([1] if shape == [1] else [])]))
    np.testing.assert_allclose(got, [formula(a.astype(float))], rtol=1e-5)
    step = np.zeros((6, 4))
    step[2, 3] = 1e-4
    np.testing.assert_allclose(slope[2, 3], (formula(a + step) - formula(a - step)) / 2e-4, rtol=1e-3)


def test_few_of_many_classes(exe, rng):
    x, label = layers.data("x", [6]), layers.data("label", [2], dtype="int64")
    samples, chances = layers.data("samples", [5], dtype="int64"), layers.data("chances", [5])
    loss = layers.sampled_softmax_with_cross_entropy(x, label, num_samples=3, num_true=2, use_customized_samples=True,
                                                     customized_samples=samples, customized_probabilities=chances)
    a, ids = floats(rng, 3, 6), np.array([[0, 1, 2, 3, 4], [5, 0, 0, 2, 1], [3, 4, 4, 3, 1]])
    q = rng.uniform(0.1, 1, (3, 5)).astype("float32")
    got, = value(exe, loss, x=a, label=ids[:, :2], samples=ids, chances=q)
    picked = np.take_along_axis(a, ids, 1) - np.log(q)
    for row, k in [(1, 2), (2, 2), (2, 3)]:
        picked[row, k] = -1e20
    logs = picked - np.log(np.exp(picked).sum(1, keepdims=True))
    np.testing.assert_allclose(got, -logs[:, :2].mean(1, keepdims=True), rtol=1e-5)


def test_few_drawn_classes_approach_all_of_them(exe, rng):
    x, label = layers.data("x", [20]), layers.data("label", [1], dtype="int64")
    a, b = floats(rng, 4, 20), rng.integers(0, 20, (4, 1))
    loss = layers.sampled_softmax_with_cross_entropy(x, label, num_samples=20)
    got, whole = value(exe, [loss, layers.softmax_with_cross_entropy(x, label)], x=a, label=b)
    np.testing.assert_allclose(got, whole, rtol=1e-3, atol=1e-3)          # all classes are drawn, each is expected once
    with pytest.raises(ValueError, match="num_true is 2"):
        layers.sampled_softmax_with_cross_entropy(x, label, num_samples=3, num_true=2)
    with pytest.raises(ValueError, match="needs customized_samples"):
        layers.sampled_softmax_with_cross_entropy(x, label, num_samples=3, use_customized_samples=True)


def test_shows_and_clicks(exe, rng):
    rows, counts = layers.data("rows", [5]), layers.data("counts", [2])
    rows.stop_gradient = False
    out, short = layers.continuous_value_model(rows, counts), layers.continuous_value_model(rows, counts, use_cvm=False)
    grad, = fluid.gradients(layers.reduce_sum(out), rows)
    a, c = rng.random((3, 5)).astype("float32") * 9, rng.random((3, 2)).astype("float32")
    got = value(exe, [out, short, grad], rows=a, counts=c)
    logs = np.log(a[:, :2] + 1)
    np.testing.assert_allclose(got[0], np.concatenate([logs[:, :1], logs[:, 1:] - logs[:, :1], a[:, 2:]], 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got[1], a[:, 2:])
    np.testing.assert_array_equal(got[2], np.concatenate([c, np.ones((3, 3))], 1).astype("float32"))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_intersection_over_union(exe, rng, dtype):
    x, label = (layers.data(name, [4, 4], dtype=dtype) for name in ("x", "label"))
    a, b = rng.integers(0, 3, (2, 2, 4, 4)).astype(dtype)
    mean, wrong, right = value(exe, list(layers.mean_iou(x, label, num_classes=4)), x=a, label=b)
    both = np.array([((a == k) & (b == k)).sum() for k in range(4)])
    either = np.array([((a == k) | (b == k)).sum() for k in range(4)])
    np.testing.assert_array_equal(right, both)
    np.testing.assert_allclose(mean, [(both[:3] / either[:3]).mean()], rtol=1e-6)
    assert wrong[3] == 0 and wrong.sum() == 2 * (a != b).sum()
