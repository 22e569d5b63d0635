"""Every optimizer against the same training written in plain NumPy, with dense and with sparse gradients."""

import numpy as np
import pytest

import trireme as fluid
from trireme import layers

RATE, STEPS = 0.05, 6


class Reference:
    """One parameter's updates in float64; ``rows`` are those a sparse gradient has (None: all)."""

    def __init__(self, w):
        self.w, self.state = w.astype(np.float64), {}

    def slot(self, name, fill=0.0):
        return self.state.setdefault(name, np.full_like(self.w, fill))


def sgd(p, g, rows, t):
    p.w[rows] -= RATE * g[rows]


def momentum(p, g, rows, t, nesterov=False):
    v = p.slot("v")
    v[:] = 0.9 * v + g
    p.w -= RATE * ((g + 0.9 * v) if nesterov else v)


def nesterov(p, g, rows, t):
    momentum(p, g, rows, t, nesterov=True)


def adagrad(p, g, rows, t):
    m = p.slot("m")
    m[rows] += g[rows] ** 2
    p.w[rows] -= RATE * g[rows] / (np.sqrt(m[rows]) + 1e-6)


def decayed_adagrad(p, g, rows, t):
    m = p.slot("m")
    m[:] = 0.95 * m + 0.05 * g * g
    p.w -= RATE * g / (np.sqrt(m) + 1e-6)


def adam(p, g, rows, t):
    m, v = p.slot("m"), p.slot("v")
    m[:] = 0.9 * m + 0.1 * g
    v[:] = 0.999 * v + 0.001 * g * g
    p.w -= RATE * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m / (np.sqrt(v) + 1e-8)


def lazy_adam(p, g, rows, t):
    m, v = p.slot("m"), p.slot("v")
    m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
    v[rows] = 0.999 * v[rows] + 0.001 * g[rows] ** 2
    p.w[rows] -= RATE * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m[rows] / (np.sqrt(v[rows]) + 1e-8)


def adamax(p, g, rows, t):
    m, n = p.slot("m"), p.slot("n")
    m[:] = 0.9 * m + 0.1 * g
    n[:] = np.maximum(0.999 * n + 1e-8, abs(g))          # Fluid puts epsilon inside the maximum
    p.w -= RATE / (1 - 0.9 ** t) * m / n


def adadelta(p, g, rows, t):
    a, u = p.slot("a"), p.slot("u")
    a[:] = 0.95 * a + 0.05 * g * g
    d = g * np.sqrt((u + 1e-6) / (a + 1e-6))
    u[:] = 0.95 * u + 0.05 * d * d
    p.w -= d


def rmsprop(p, g, rows, t, centered=False):
    a, m, mean = p.slot("a"), p.slot("m"), p.slot("mean")
    a[:] = 0.95 * a + 0.05 * g * g
    mean[:] = 0.95 * mean + 0.05 * g if centered else 0.0
    m[:] = 0.3 * m + RATE * g / np.sqrt(a - mean ** 2 + 1e-6)
    p.w -= m


def centered_rmsprop(p, g, rows, t):
    rmsprop(p, g, rows, t, centered=True)


def ftrl(p, g, rows, t):
    n, z = p.slot("n"), p.slot("z")
    new = n + g * g
    z += g - (np.sqrt(new) - np.sqrt(n)) / RATE * p.w
    n[:] = new
    l1, l2 = 0.01, 0.02
    p.w[:] = np.where(abs(z) > l1, (np.sign(z) * l1 - z) / (np.sqrt(n) / RATE + 2 * l2), 0.0)


def lars_momentum(p, g, rows, t):
    v = p.slot("v")
    norm_w, norm_g = np.linalg.norm(p.w), np.linalg.norm(g)
    local = RATE * 0.001 * norm_w / (norm_g + 0.0005 * norm_w)
    v[:] = 0.9 * v + local * (g + 0.0005 * p.w)
    p.w -= v


def lamb(p, g, rows, t):
    m, v = p.slot("m"), p.slot("v")
    m[:] = 0.9 * m + 0.1 * g
    v[:] = 0.999 * v + 0.001 * g * g
    step = m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-6) + 0.01 * p.w
    p.w -= RATE * np.linalg.norm(p.w) / np.linalg.norm(step) * step


def adam_w(p, g, rows, t):
    p.w *= 1 - 0.02
    adam(p, g, rows, t)


def decayed_adagrad_w(p, g, rows, t):
    p.w *= 1 - 0.02
    decayed_adagrad(p, g, rows, t)


DENSE = {
    "sgd": (lambda: fluid.optimizer.SGD(RATE), sgd),
    "momentum": (lambda: fluid.optimizer.Momentum(RATE, 0.9), momentum),
    "nesterov": (lambda: fluid.optimizer.Momentum(RATE, 0.9, use_nesterov=True), nesterov),
    "adagrad": (lambda: fluid.optimizer.Adagrad(RATE), adagrad),
    "decayed_adagrad": (lambda: fluid.optimizer.DecayedAdagrad(RATE), decayed_adagrad),
    "adam": (lambda: fluid.optimizer.Adam(RATE), adam),
    "adamax": (lambda: fluid.optimizer.Adamax(RATE), adamax),
    "adadelta": (lambda: fluid.optimizer.Adadelta(RATE), adadelta),
    "rmsprop": (lambda: fluid.optimizer.RMSProp(RATE, momentum=0.3), rmsprop),
    "centered_rmsprop": (lambda: fluid.optimizer.RMSProp(RATE, momentum=0.3, centered=True), centered_rmsprop),
    "ftrl": (lambda: fluid.optimizer.Ftrl(RATE, l1=0.01, l2=0.02), ftrl),
    "lars_momentum": (lambda: fluid.optimizer.LarsMomentum(RATE, 0.9), lars_momentum),
    "lamb": (lambda: fluid.optimizer.Lamb(RATE), lamb),
    "adam_w": (lambda: fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.Adam)(weight_decay=0.02, learning_rate=RATE),
               adam_w),
    "decayed_adagrad_w": (lambda: fluid.contrib.extend_with_decoupled_weight_decay(fluid.optimizer.DecayedAdagrad)(
        weight_decay=0.02, learning_rate=RATE), decayed_adagrad_w),
}
SPARSE = {
    "sgd": DENSE["sgd"],
    "adagrad": DENSE["adagrad"],
    "adam": DENSE["adam"],
    "lazy_adam": (lambda: fluid.optimizer.Adam(RATE, lazy_mode=True), lazy_adam),
    "momentum": DENSE["momentum"],
    "rmsprop": DENSE["rmsprop"],
    "ftrl": DENSE["ftrl"],
    "lamb": DENSE["lamb"],
}


@pytest.mark.parametrize("name", DENSE)
def test_dense_training_is_that_of_numpy(name, exe, rng):
    make, update = DENSE[name]
    w0 = rng.standard_normal((4, 3)).astype("float32")
    x = layers.data("x", [4])
    w = layers.create_parameter([4, 3], "float32", name="w",
                                default_initializer=fluid.initializer.NumpyArrayInitializer(w0))
    loss = layers.mean(layers.square(layers.mul(x, w)))
    make().minimize(loss)
    exe.run(fluid.default_startup_program())
    p = Reference(w0)
    for t in range(1, STEPS + 1):
        a = rng.standard_normal((5, 4)).astype("float32")
        exe.run(feed={"x": a}, fetch_list=[loss])
        b = a.astype(np.float64)
        update(p, 2 * b.T @ (b @ p.w) / 15, slice(None), t)
        np.testing.assert_allclose(fluid.fetch_var("w"), p.w, rtol=2e-4, atol=2e-6, err_msg=f"step {t}")


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_training_is_that_of_numpy(name, exe, rng):
    make, update = SPARSE[name]
    w0 = rng.standard_normal((9, 3)).astype("float32")
    ids = layers.data("ids", [1], dtype="int64")
    rows = layers.embedding(ids, [9, 3], is_sparse=True, param_attr=fluid.ParamAttr(
        name="w", initializer=fluid.initializer.NumpyArrayInitializer(w0)))
    loss = layers.mean(layers.square(rows))
    _, pairs = make().minimize(loss)
    assert pairs[0][1].type == fluid.core.VarType.SELECTED_ROWS
    exe.run(fluid.default_startup_program())
    p = Reference(w0)
    for t in range(1, STEPS + 1):
        batch = rng.integers(0, 9, (4, 1))
        batch[1] = batch[0]                               # a row that stands twice adds up
        exe.run(feed={"ids": batch}, fetch_list=[loss])
        g = np.zeros_like(p.w)
        np.add.at(g, batch.ravel(), 2 * p.w[batch.ravel()] / 12)
        update(p, g, np.unique(batch), t)
        np.testing.assert_allclose(fluid.fetch_var("w"), p.w, rtol=2e-4, atol=2e-6, err_msg=f"step {t}")


def one_step(exe, w0, a, make, attr=None, **minimize):
    """Return the parameter after one step on mean(x w), whose gradient is the mean of x over 3 columns."""
    x = layers.data("x", [4])
    attr = attr or fluid.ParamAttr()
    attr.name, attr.initializer = "w", fluid.initializer.NumpyArrayInitializer(w0)
    loss = layers.mean(layers.fc(x, 3, param_attr=attr, bias_attr=False))
    make().minimize(loss, **minimize)
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": a})
    return fluid.fetch_var("w"), np.repeat(a.mean(axis=0)[:, None] / 3, 3, axis=1)


@pytest.fixture
def values(rng):
    return rng.standard_normal((4, 3)).astype("float32"), rng.standard_normal((5, 4)).astype("float32")


def test_accumulators_are_named_after_the_parameter(exe, values):
    one_step(exe, *values, lambda: fluid.optimizer.Adam(0.1))
    names = {v.name for v in fluid.default_main_program().list_vars() if v.persistable}
    assert names == {"w", "learning_rate_0", "w_moment1_0", "w_moment2_0", "w_beta1_pow_acc_0", "w_beta2_pow_acc_0"}


@pytest.mark.parametrize("where", ["optimizer", "parameter"])
@pytest.mark.parametrize("kind", ["L1Decay", "L2Decay"])
def test_weight_decay(exe, values, kind, where):
    w0, a = values
    decay = getattr(fluid.regularizer, kind)(0.1)
    if where == "optimizer":
        w, g = one_step(exe, w0, a, lambda: fluid.optimizer.SGD(0.5, regularization=decay))
    else:
        other = fluid.regularizer.L2Decay(7.0)             # a parameter's own goes first
        w, g = one_step(exe, w0, a, lambda: fluid.optimizer.SGD(0.5, regularization=other),
                        fluid.ParamAttr(regularizer=decay))
    term = np.sign(w0) if kind == "L1Decay" else w0
    np.testing.assert_allclose(w, w0 - 0.5 * (g + 0.1 * term), rtol=1e-5)


CLIPS = {
    "value": (lambda: fluid.clip.GradientClipByValue(0.05), lambda g: np.clip(g, -0.05, 0.05)),
    "norm": (lambda: fluid.clip.GradientClipByNorm(0.05), lambda g: g * min(1, 0.05 / np.linalg.norm(g))),
    "global": (lambda: fluid.clip.GradientClipByGlobalNorm(0.05), lambda g: g * min(1, 0.05 / np.linalg.norm(g))),
}


@pytest.mark.parametrize("where", ["optimizer", "parameter", "program"])
@pytest.mark.parametrize("name", CLIPS)
def test_clipped_gradients(exe, values, name, where):
    make, clip = CLIPS[name]
    w0, a = values
    attr = fluid.ParamAttr(gradient_clip=make()) if where == "parameter" else None

    def optimizer():
        if where == "program":
            fluid.clip.set_gradient_clip(make())
        return fluid.optimizer.SGD(0.5, grad_clip=make() if where == "optimizer" else None)

    w, g = one_step(exe, w0, a, optimizer, attr)
    np.testing.assert_allclose(w, w0 - 0.5 * clip(g), rtol=1e-5, atol=1e-7)


def test_the_global_norm_is_that_of_all(exe, rng):
    ids, x = layers.data("ids", [1], dtype="int64"), layers.data("x", [3])
    start = fluid.initializer.Constant(1.0)
    table = layers.embedding(ids, [5, 3], is_sparse=True, param_attr=fluid.ParamAttr(name="t", initializer=start))
    out = layers.fc(x, 3, param_attr=fluid.ParamAttr(name="w", initializer=start), bias_attr=False)
    loss = layers.reduce_sum(table * 2.0) + layers.reduce_sum(out)
    fluid.optimizer.SGD(1.0, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)).minimize(loss)
    exe.run(fluid.default_startup_program())
    a = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "float32")
    exe.run(feed={"ids": np.array([[1], [3], [1]]), "x": a})
    g_table = np.zeros((5, 3))
    g_table[1], g_table[3] = 4.0, 2.0
    g_w = np.repeat(a.sum(axis=0)[:, None], 3, axis=1)
    norm = np.sqrt((g_table ** 2).sum() + (g_w ** 2).sum())
    np.testing.assert_allclose(fluid.fetch_var("t"), 1 - g_table / norm, rtol=1e-5)
    np.testing.assert_allclose(fluid.fetch_var("w"), 1 - g_w / norm, rtol=1e-5)


def test_a_parameters_own_rate(exe, values):
    w0, a = values
    w, g = one_step(exe, w0, a, lambda: fluid.optimizer.SGD(0.5), fluid.ParamAttr(learning_rate=0.1))
    np.testing.assert_allclose(w, w0 - 0.05 * g, rtol=1e-5)


def test_backward_and_apply_gradients_are_minimize(exe, values):
    w0, a = values
    x = layers.data("x", [4])
    loss = layers.mean(layers.fc(x, 3, bias_attr=False, param_attr=fluid.ParamAttr(
        name="w", initializer=fluid.initializer.NumpyArrayInitializer(w0))))
    sgd = fluid.optimizer.SGD(0.5)
    pairs = sgd.backward(loss)
    assert [op.type for op in sgd.apply_gradients(pairs)] == ["sgd"]
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": a})
    assert not np.array_equal(fluid.fetch_var("w"), w0)


def test_minimize_refuses_a_loss_without_gradients():
    loss = layers.mean(layers.data("x", [1]))
    with pytest.raises(ValueError, match="SGDOptimizer: no parameter has a gradient"):
        fluid.optimizer.SGD(0.1).minimize(loss)


@pytest.mark.parametrize("name", CLIPS)
def test_clipped_sparse_gradients(name, exe):
    make, clip = CLIPS[name]
    ids = layers.data("ids", [1], dtype="int64")
    rows = layers.embedding(ids, [6, 2], is_sparse=True, param_attr=fluid.ParamAttr(
        name="t", initializer=fluid.initializer.Constant(0.0)))
    weight = layers.data("weight", [2])
    loss = layers.reduce_sum(rows * weight)
    fluid.optimizer.SGD(1.0, grad_clip=make()).minimize(loss)
    exe.run(fluid.default_startup_program())
    weights = np.array([[0.04, -0.2], [0.01, 0.3], [0.04, 0.5]], "float32")
    exe.run(feed={"ids": np.array([[4], [1], [4]]), "weight": weights})
    g = np.zeros((6, 2))
    np.add.at(g, [4, 1, 4], weights)
    np.testing.assert_allclose(fluid.fetch_var("t"), -clip(g), rtol=1e-5, atol=1e-7)


def test_rows_are_merged_in_ascending_order(exe):
    block = fluid.default_main_program().global_block()
    x = block.create_var(name="x", type=fluid.core.VarType.SELECTED_ROWS, dtype="float32", shape=[-1, 2],
                         persistable=True)
    merged = fluid.operator.merge_selected_rows(X=x)
    values = fluid.operator.get_tensor_from_selected_rows(X=merged)
    rows = fluid.global_scope().var("x").get_selected_rows()
    rows.set(np.array([[1, 2], [3, 4], [5, 6]], "float32"), rows=[7, 2, 7], height=9)
    got, dense = exe.run(fetch_list=[merged, values])
    assert got.rows() == [2, 7] and got.height() == 9
    assert dense.tolist() == [[3, 4], [6, 8]]
    with pytest.raises(fluid.core.InvalidArgumentError, match="X must be selected rows, got a dense tensor"):
        fluid.operator.merge_selected_rows(X=layers.data("d", [2]))
