"""Gradients against differences: of whole networks, with branches, loops and variables used twice."""

import numpy as np
import pytest

import trireme as fluid
from trireme import core, layers


def numeric(run, a, eps):
    """Return the gradient of run(a) by differences."""
    grad = np.zeros_like(a)
    for i in np.ndindex(a.shape):
        keep = a[i]
        a[i] = keep + eps
        up = run(a)
        a[i] = keep - eps
        grad[i] = (up - run(a)) / (2 * eps)
        a[i] = keep
    return grad


def check_input_gradient(exe, build, shape, rng, low=-1.0, high=1.0):
    """Compare d(loss)/dx in float64, where differences are good to 9 digits."""
    x = layers.data("x", list(shape), append_batch_size=False, dtype="float64")
    x.stop_gradient = False
    loss = build(x)
    grad, = fluid.backward.gradients(loss, x)
    exe.run(fluid.default_startup_program())
    a = rng.uniform(low, high, shape)
    got, = exe.run(feed={"x": a}, fetch_list=[grad])
    want = numeric(lambda a: float(exe.run(feed={"x": a}, fetch_list=[loss])[0].reshape(-1)[0]), a, 1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)


def total(x):
    return layers.reduce_sum(x)


@pytest.mark.parametrize("build", [
    lambda x: total(layers.square(x) * layers.exp(x)),
    lambda x: total(x * x + x),                                             # one variable, used three times
    lambda x: layers.mean(layers.softmax(x) * x),
    lambda x: total(layers.fc(x, 3, act="tanh")),
    lambda x: total(layers.square(layers.concat([x, layers.sigmoid(x)], axis=1))),
    lambda x: total(layers.matmul(x, x, transpose_y=True)),
    lambda x: total(layers.square(layers.reduce_mean(x, dim=0))),
    lambda x: total(layers.square(layers.transpose(layers.reshape(x, [2, 6]), [1, 0]))),
    lambda x: total(layers.square(layers.split(x, [1, 3], dim=1)[1]) * 2.0),
    lambda x: total(layers.square(layers.layer_norm(x))),
    lambda x: total(layers.square(layers.l2_normalize(x, axis=1)) * x),
    lambda x: total(layers.square(layers.stack([x, x * 2.0])) * 3.0),
    lambda x: total((2.0 / (x * x + 1.0)) ** 3),
], ids=range(13))
def test_gradient_is_that_of_differences(build, exe, rng):
    check_input_gradient(exe, build, (3, 4), rng)


def test_images(exe, rng):
    def build(x):
        conv = layers.conv2d(x, 2, 3, padding=1, act="relu")
        return total(layers.square(layers.pool2d(conv, 2, "avg", 2)))

    check_input_gradient(exe, build, (2, 2, 4, 4), rng)


def test_classification(exe, rng):
    def build(x):
        label = layers.fill_constant([3, 1], "int64", 2)
        return layers.mean(layers.softmax_with_cross_entropy(x, label)) + layers.mean(
            layers.cross_entropy(layers.softmax(x), label))

    check_input_gradient(exe, build, (3, 4), rng)


def test_a_loop_has_a_gradient(exe, rng):
    def build(x):
        i, n = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
        state = layers.assign(x)
        state.stop_gradient = False
        cond = layers.less_than(i, n)
        loop = layers.While(cond)
        with loop.block():
            layers.assign(layers.tanh(state) * state, state)
            layers.increment(i, 1)
            layers.less_than(i, n, cond=cond)
        return total(state * x)

    check_input_gradient(exe, build, (2, 3), rng)


def test_pairs_of_parameters_and_gradients():
    x = layers.data("x", [3])
    hidden = layers.fc(x, 4, param_attr=fluid.ParamAttr(name="frozen", trainable=False), bias_attr=False)
    loss = layers.mean(layers.fc(hidden, 1, param_attr="w", bias_attr="b"))
    pairs = fluid.backward.append_backward(loss)
    assert [(p.name, g.name) for p, g in pairs] == [("w", "w@GRAD"), ("b", "b@GRAD")]
    block = fluid.default_main_program().global_block()
    assert not block.has_var("frozen@GRAD") and not block.has_var("x@GRAD")


def test_chosen_parameters_and_no_gradient_sets():
    x = layers.data("x", [3])
    loss = layers.mean(layers.fc(layers.fc(x, 4, param_attr="a", bias_attr=False), 1, param_attr="b", bias_attr=False))
    other = fluid.default_main_program().clone()
    pairs = fluid.backward.append_backward(loss, parameter_list=["b"])
    assert [p.name for p, _ in pairs] == ["b"]
    loss = other.global_block().var(loss.name)
    pairs = fluid.backward.append_backward(loss, no_grad_set={"a"})
    assert [p.name for p, _ in pairs] == ["b"] and not other.global_block().has_var("a@GRAD")


def test_a_parameter_on_which_the_loss_does_not_depend_is_named():
    x = layers.data("x", [3])
    layers.fc(x, 4, param_attr="unused")
    loss = layers.mean(layers.fc(x, 1))
    with pytest.raises(ValueError, match="does not depend on unused"):
        fluid.backward.append_backward(loss, parameter_list=["unused"])


def test_stopped_gradients_stop(exe):
    x = layers.data("x", [2], append_batch_size=False)
    x.stop_gradient = False
    y = layers.square(x)
    y.stop_gradient = True
    grad, = fluid.backward.gradients(layers.reduce_sum(y * x), x)
    got, = exe.run(feed={"x": np.array([2.0, 3.0], "float32")}, fetch_list=[grad])
    assert got.tolist() == [4.0, 9.0]                       # y is taken as a constant


def test_given_target_gradients(exe):
    x = layers.data("x", [2], append_batch_size=False)
    x.stop_gradient = False
    weight = layers.data("weight", [2], append_batch_size=False)
    grad, = fluid.backward.gradients(layers.square(x), x, target_gradients=weight)
    got, = exe.run(feed={"x": np.array([2.0, 3.0], "float32"), "weight": np.array([1.0, 10.0], "float32")},
                   fetch_list=[grad])
    assert got.tolist() == [4.0, 60.0]


def test_a_second_gradient_of_a_variable_has_a_name_of_its_own(exe):
    x = layers.data("x", [2], append_batch_size=False)
    x.stop_gradient = False
    first, = fluid.backward.gradients(layers.square(x), x)
    second, = fluid.backward.gradients(layers.exp(x) * x, x)
    third, = fluid.backward.gradients(layers.square(x) * x, x)
    assert [grad.name for grad in (first, second, third)] == ["x@GRAD", "x@GRAD_0", "x@GRAD_1"]
    a = np.array([2.0, 3.0], "float32")
    got = exe.run(feed={"x": a}, fetch_list=[first, second, third])
    for g, want in zip(got, (2 * a, np.exp(a) * (1 + a), 3 * a * a)):
        np.testing.assert_allclose(g, want, rtol=1e-6)


def test_a_gradient_of_before_is_not_taken_for_one_of_now():
    x, y = (layers.data(name, [2], append_batch_size=False) for name in "xy")
    x.stop_gradient = y.stop_gradient = False
    assert fluid.backward.gradients(layers.square(x), x)[0].name == "x@GRAD"
    assert fluid.backward.gradients(layers.square(y), [x, y])[0] is None


def test_a_target_that_is_an_input_has_the_gradient_that_it_was_given(exe):
    x, weight = (layers.data(name, [2], append_batch_size=False) for name in ("x", "weight"))
    x.stop_gradient = False
    grads = fluid.backward.gradients([x, layers.square(x)], x, target_gradients=[weight, None])
    grads += fluid.backward.gradients(x, x, target_gradients=weight)
    got = exe.run(feed={"x": np.array([2.0, 3.0], "float32"), "weight": np.array([5.0, 7.0], "float32")}, fetch_list=grads)
    assert [g.tolist() for g in got] == [[9.0, 13.0], [5.0, 7.0]]


def test_two_losses_of_one_parameter_have_a_gradient_each(exe):
    x = layers.data("x", [2], append_batch_size=False)
    y = x * layers.create_parameter([2], "float32", name="w", default_initializer=fluid.initializer.Constant(3.0))
    y.error_clip = fluid.ErrorClipByValue(max=1.5)
    one, two = layers.reduce_sum(y), layers.reduce_sum(layers.square(y))
    grads = [fluid.backward.append_backward(loss)[0][1] for loss in (one, two)]
    assert [grad.name for grad in grads] == ["w@GRAD", "w@GRAD_0"]
    exe.run(fluid.default_startup_program())
    got = exe.run(feed={"x": np.array([0.1, 2.0], "float32")}, fetch_list=grads)
    np.testing.assert_allclose(got, [[0.1, 2.0], [0.06, 3.0]], rtol=1e-6)


def test_error_clip_limits_what_flows_back(exe):
    x = layers.data("x", [2], append_batch_size=False)
    x.stop_gradient = False
    y = x * 1.0
    y.error_clip = fluid.ErrorClipByValue(max=1.0)
    loss = layers.reduce_sum(layers.square(y))
    layers.create_parameter([1], "float32", name="w")
    fluid.backward.append_backward(loss)
    got, = exe.run(feed={"x": np.array([0.1, 3.0], "float32")}, fetch_list=["x@GRAD"])
    np.testing.assert_allclose(got, [0.2, 1.0], rtol=1e-6)


def test_backward_operators_know_where_they_come_from():
    x = layers.data("x", [3])
    loss = layers.mean(layers.fc(x, 1))
    fluid.backward.append_backward(loss)
    ops = fluid.default_main_program().global_block().ops
    grads = [op for op in ops if op.type.endswith("_grad")]
    assert grads and all(op.attr("op_role") & core.OpRole.Backward for op in grads)
    assert all("test_backward.py:" in op.attr("op_callstack")[0] for op in grads)


def test_the_gradient_of_a_variable_that_is_computed_from_data_alone(exe):
    x = layers.data("x", [2], append_batch_size=False)
    middle = layers.scale(x, scale=3.0)
    grad, = fluid.backward.gradients(layers.square(middle), middle)
    got, = exe.run(feed={"x": np.array([1.0, 2.0], "float32")}, fetch_list=[grad])
    assert got.tolist() == [6.0, 12.0]


def test_a_list_of_parameters_may_name_what_is_computed_from_data_alone(exe):
    x = layers.data("x", [2], append_batch_size=False)
    middle = layers.scale(x, scale=3.0)
    w = layers.create_parameter([2], "float32", default_initializer=fluid.initializer.Constant(5.0))
    (var, grad), = fluid.backward.append_backward(layers.reduce_sum(layers.elementwise_mul(middle, w)), parameter_list=[middle])
    assert var is middle
    exe.run(fluid.default_startup_program())
    np.testing.assert_array_equal(exe.run(feed={"x": np.ones(2, "float32")}, fetch_list=[grad])[0], [5.0, 5.0])


def test_gradients_are_made_of_what_leads_from_the_inputs_alone():
    x = layers.data("x", [2])
    x.stop_gradient = False
    fluid.backward.gradients(layers.fc(layers.fc(x, 3), 1), x)
    block = fluid.default_main_program().global_block()
    assert "x@GRAD" in block.vars and not [name for name in block.vars if ".w_0@GRAD" in name or ".b_0@GRAD" in name]


def test_two_losses_train_the_parameters_that_they_share():
    """What the first optimizer updates is a leaf of the second loss, too."""
    def changes(*losses):
        main, start = fluid.Program(), fluid.Program()
        start.random_seed = 3
        with fluid.program_guard(main, start), fluid.unique_name.guard():
            x = fluid.layers.data("x", [4])
            hidden = fluid.layers.fc(x, 5, act="tanh", param_attr="shared", bias_attr=False)
            one = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1, param_attr="a", bias_attr=False)))
            two = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1, param_attr="b", bias_attr=False) - 1.0))
            pairs = [fluid.optimizer.SGD(0.1).minimize({"a": one, "b": two}[name])[1] for name in losses]
        for name, made in zip(losses, pairs, strict=True):
            assert [param.name for param, _ in made] == ["shared", name]
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        with fluid.scope_guard(scope):
            exe.run(start)
            before = {name: np.array(scope.find_var(name).get_tensor()) for name in ("shared", "a", "b")}
            exe.run(main, feed={"x": np.ones((2, 4), "float32")})
            return {name: np.array(scope.find_var(name).get_tensor()) - value for name, value in before.items()}

    both, first, second = changes("a", "b"), changes("a"), changes("b")
    for name in both:
        np.testing.assert_allclose(both[name], first[name] + second[name], rtol=1e-4, atol=1e-7, err_msg=name)
    assert np.abs(first["shared"]).max() > 0 and np.abs(second["shared"]).max() > 0
