"""Losses over many classes: nce and hsigmoid."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

CHANCES = [0.4, 0.05, 0.25, 0.0, 0.3]


def fetched(op_type, slot):
    """The name of what the one operator of a type gives in a slot."""
    (op,) = [op for op in fluid.default_main_program().global_block().ops if op.type == op_type]
    return op.output(slot)[0]


def values(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


def chance_of(sampler, ids, classes):
    if sampler == "uniform":
        return np.full(ids.shape, 1 / classes)
    if sampler == "log_uniform":
        return np.log((ids + 2) / (ids + 1)) / np.log(classes + 1)
    return np.array(CHANCES)[ids]


# -- nce ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
def test_nce_is_its_formula(exe, rng, sampler):
    x, label = layers.data("x", [3]), layers.data("label", [2], dtype="int64")
    weight = layers.data("weight", [1])
    cost = layers.nce(x, label, num_total_classes=5, sample_weight=weight, num_neg_samples=4, sampler=sampler,
                      custom_dist=CHANCES if sampler == "custom_dist" else None, param_attr=fluid.ParamAttr(name="w"),
                      bias_attr=fluid.ParamAttr(name="b", initializer=fluid.initializer.Uniform(-1, 1)))
    assert cost.shape == (None, 1)
    exe.run(fluid.default_startup_program())
    feed = {"x": rng.normal(size=(6, 3)).astype("float32"), "label": rng.choice([0, 1, 2, 4], size=(6, 2)),
            "weight": rng.random((6, 1)).astype("float32")}
    got, ids = exe.run(feed=feed, fetch_list=[cost, fetched("nce", "SampleLabels")])
    np.testing.assert_array_equal(ids[:, :2], feed["label"])
    assert ids.shape == (6, 6) and ids.min() >= 0 and ids.max() < 5
    o = 1 / (1 + np.exp(-(np.einsum("nk,njk->nj", feed["x"], values("w")[ids]) + values("b")[ids, 0])))
    b = 4 * chance_of(sampler, ids, 5)
    each = np.where(np.arange(6) < 2, -np.log(o / (o + b)), -np.log(b / (o + b)))
    np.testing.assert_allclose(got, feed["weight"] * each.sum(1, keepdims=True) / 5, rtol=2e-5)


def test_custom_dist_is_what_is_drawn(exe, rng):
    x, label = layers.data("x", [2]), layers.data("label", [1], dtype="int64")
    layers.nce(x, label, num_total_classes=5, num_neg_samples=50, sampler="custom_dist", custom_dist=CHANCES)
    exe.run(fluid.default_startup_program())
    feed = {"x": rng.normal(size=(400, 2)).astype("float32"), "label": np.zeros((400, 1), "int64")}
    ids, = exe.run(feed=feed, fetch_list=[fetched("nce", "SampleLabels")])
    seen = np.bincount(ids[:, 1:].ravel(), minlength=5) / ids[:, 1:].size
    np.testing.assert_allclose(seen, CHANCES, atol=0.018)              # 20000 draws: 5 standard deviations
    assert seen[3] == 0


def test_draws_differ_by_step_and_seed_and_are_repeated(exe):
    def draws(seed, program_seed=0):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            fluid.default_main_program().random_seed = program_seed
            x, label = layers.data("x", [2]), layers.data("label", [1], dtype="int64")
            layers.nce(x, label, num_total_classes=1000, num_neg_samples=5, seed=seed)
            exe.run(fluid.default_startup_program())
            feed = {"x": np.ones((3, 2), "float32"), "label": np.zeros((3, 1), "int64")}
            return [exe.run(feed=feed, fetch_list=[fetched("nce", "SampleLabels")])[0].tolist() for _ in range(2)]

    first, second = draws(0)
    assert first != second and draws(0) == [first, second]
    assert draws(1)[0] != first and draws(0, program_seed=3)[0] != first


@pytest.mark.parametrize("arguments, said", [
    ({"sampler": "normal"}, "sampler must be one of uniform, log_uniform, custom_dist; got 'normal'"),
    ({"sampler": "custom_dist"}, "the sampler 'custom_dist' needs custom_dist"),
    ({"sampler": "custom_dist", "custom_dist": [0.5, 0.5]}, r"each of the 5 classes, got \(2,\)"),
    ({"sampler": "custom_dist", "custom_dist": [0.5, 0.5, 0.5, 0, 0]}, "add up to 1.5"),
    ({"sampler": "custom_dist", "custom_dist": [1.5, -0.5, 0, 0, 0]}, "they go from -0.5 to 1.5"),
    ({"num_neg_samples": 0}, "num_neg_samples"),
])
def test_mistakes_of_nce_are_explained(arguments, said):
    x, label = layers.data("x", [2]), layers.data("label", [1], dtype="int64")
    with pytest.raises(ValueError, match=said):
        layers.nce(x, label, num_total_classes=5, **arguments)


def test_a_label_that_is_no_class_is_named(exe):
    x, word = layers.data("x", [2]), layers.data("word", [1], dtype="int64")
    cost = layers.nce(x, word, num_total_classes=5)
    exe.run(fluid.default_startup_program())
    with pytest.raises(ValueError, match="label 5 in row 1 of 'word' is none of the 5 classes"):
        exe.run(feed={"x": np.ones((2, 2), "float32"), "word": np.array([[4], [5]])}, fetch_list=[cost])


# -- hsigmoid -------------------------------------------------------------------------------------------------------


def test_hsigmoid_is_a_distribution(exe, rng):
    """Over all classes exp(-cost) adds up to 1, for a number of classes that is no power of 2."""
    x, label = layers.data("x", [3]), layers.data("label", [1], dtype="int64")
    cost = layers.hsigmoid(x, label, num_classes=11, bias_attr=fluid.ParamAttr(initializer=fluid.initializer.Uniform(-1, 1)))
    assert cost.shape == (None, 1)
    exe.run(fluid.default_startup_program())
    row = rng.normal(size=(1, 3)).astype("float32")
    got, = exe.run(feed={"x": np.repeat(row, 11, axis=0), "label": np.arange(11)[:, None]}, fetch_list=[cost])
    assert np.exp(-got.astype("float64")).sum() == pytest.approx(1, abs=1e-6)


def test_the_complete_tree_can_be_given_as_ones_own(exe, rng):
    """The paths of 8 classes, written down: the costs are those of the layer that works them out."""
    x, label = layers.data("x", [3]), layers.data("label", [1], dtype="int64")
    table, code = layers.data("table", [4], dtype="int64"), layers.data("code", [4], dtype="int64")
    same = {"param_attr": fluid.ParamAttr(name="w"), "bias_attr": fluid.ParamAttr(name="b")}
    known = layers.hsigmoid(x, label, num_classes=8, **same)
    own = layers.hsigmoid(x, label, num_classes=7, path_table=table, path_code=code, is_custom=True, **same)
    exe.run(fluid.default_startup_program())
    classes = rng.integers(0, 8, size=(20, 1))
    codes = classes + 8
    paths = np.concatenate([(codes >> bit) - 1 for bit in (1, 2, 3)] + [np.full((20, 1), -1)], axis=1)
    turns = np.concatenate([codes >> bit & 1 for bit in (0, 1, 2)] + [np.full((20, 1), -1)], axis=1)
    a, b = exe.run(feed={"x": rng.normal(size=(20, 3)).astype("float32"), "label": classes, "table": paths, "code": turns},
                   fetch_list=[known, own])
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("arguments, said", [
    ({"num_classes": 1}, "at least 2"),
    ({"num_classes": 4, "path_table": "label"}, "is_custom=False with path_table"),
    ({"num_classes": 4, "is_custom": True}, "is_custom=True with no path"),
    ({"num_classes": 4, "is_custom": True, "path_code": "label"}, "is_custom=True with path_code"),
])
def test_mistakes_of_hsigmoid_are_explained(arguments, said):
    x, label = layers.data("x", [2]), layers.data("label", [1], dtype="int64")
    arguments = {name: label if value == "label" else value for name, value in arguments.items()}
    with pytest.raises(ValueError, match=said):
        layers.hsigmoid(x, label, **arguments)


# -- training -------------------------------------------------------------------------------------------------------


def cost_of(kind, hidden, label, classes, is_sparse):
    if kind == "nce":
        return layers.nce(hidden, label, classes, num_neg_samples=6, is_sparse=is_sparse)
    return layers.hsigmoid(hidden, label, classes, is_sparse=is_sparse)


def losses(exe, kind, optimizer, is_sparse, steps=150):
    """Learn which class goes with which word; return the losses and the parameters."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        fluid.default_startup_program().random_seed = 5
        word, label = layers.data("word", [1], dtype="int64"), layers.data("label", [1], dtype="int64")
        hidden = layers.embedding(word, size=[20, 8])
        loss = layers.mean(cost_of(kind, hidden, label, 20, is_sparse))
        optimizer().minimize(loss)
        exe.run(fluid.default_startup_program())
        words = np.arange(20)[:, None]
        feed = {"word": words, "label": (words * 7 + 3) % 20}
        got = [float(exe.run(feed=feed, fetch_list=[loss])[0][0]) for _ in range(steps)]
        return got, {one.name: values(one.name) for one in fluid.default_main_program().global_block().all_parameters()}


def sgd():
    return fluid.optimizer.SGD(learning_rate=0.5)


def adam():
    return fluid.optimizer.Adam(learning_rate=0.1)


@pytest.mark.parametrize("kind", ["nce", "hsigmoid"])
def test_sampled_losses_learn_which_words_go_together(exe, kind):
    got, _ = losses(exe, kind, adam, is_sparse=False)
    assert np.mean(got[-10:]) < 0.35 * got[0]


@pytest.mark.parametrize("optimizer", [sgd, adam])
@pytest.mark.parametrize("kind", ["nce", "hsigmoid"])
def test_sparse_gradients_train_like_dense_ones(exe, kind, optimizer):
    dense, dense_values = losses(exe, kind, optimizer, is_sparse=False, steps=20)
    sparse, sparse_values = losses(exe, kind, optimizer, is_sparse=True, steps=20)
    np.testing.assert_allclose(sparse, dense, rtol=1e-5)
    for name, value in dense_values.items():
        np.testing.assert_allclose(sparse_values[name], value, rtol=1e-4, atol=1e-5)


def test_sparse_gradients_are_selected_rows():
    word, label = layers.data("word", [1], dtype="int64"), layers.data("label", [1], dtype="int64")
    hidden = layers.embedding(word, size=[20, 8])
    loss = layers.mean(layers.sums([cost_of(kind, hidden, label, 20, True) for kind in ("nce", "hsigmoid")]))
    gradients = {param.name: grad.type for param, grad in fluid.backward.append_backward(loss)}
    rows = fluid.core.VarDesc.VarType.SELECTED_ROWS
    assert [gradients[name] for name in ("nce_0.w_0", "nce_0.b_0", "hierarchical_sigmoid_0.w_0",
                                         "hierarchical_sigmoid_0.b_0")] == [rows] * 4
