"""fluid.contrib.mixed_precision: where casts go, what stays float32, loss scaling, and that nets learn as well in one process and in
jobs."""

import json
import re

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi

import trireme as fluid
from trireme.contrib import mixed_precision

layers = fluid.layers
DIGITS = SCRIPT.with_name("digits.py")
DTYPES = ["bfloat16", "float16"]


def net(width=16):
    x, y = layers.data("x", [1, 8, 8]), layers.data("y", [1], dtype="int64")
    hidden = layers.batch_norm(layers.conv2d(x, 4, 3), act="relu")
    hidden = layers.dropout(layers.fc(layers.pool2d(hidden, 2, pool_stride=2), width, act="tanh"), 0.1)
    scores = layers.fc(hidden, 3)
    return scores, layers.mean(layers.softmax_with_cross_entropy(scores, y))


def batch(count=64):
    x = np.random.default_rng(0).standard_normal((count, 1, 8, 8)).astype("float32")
    return {"x": x, "y": (x[:, 0, 0, :1] > 0).astype("int64") + (x[:, 0, 3, 3:4] > 0)}


def trained(steps, loss, fetch=()):
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return [exe.run(feed=batch(), fetch_list=[loss, *fetch]) for _ in range(steps)]


def dtypes_of(program, *types):
    """Return the types of the first outputs of the operators of these types."""
    block = program.global_block()
    return {op.type: str(block.var(op.output_arg_names[0]).dtype) for op in block.ops if op.type in types}


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations_and_their_gradients_are_stored_in_16_bits_and_parameters_in_float32(dtype):
    scores, loss = net()
    _, pairs = mixed_precision.decorate(fluid.optimizer.Momentum(0.1, 0.9), dtype=dtype).minimize(loss)
    main = fluid.default_main_program()
    found = dtypes_of(main, "conv2d", "batch_norm", "relu", "pool2d", "mul", "tanh", "dropout", "tanh_grad", "pool2d_grad", "dropout_grad")
    assert set(found.values()) == {dtype} and len(found) == 10
    assert dtypes_of(main, "softmax_with_cross_entropy", "mean", "mean_grad") == dict.fromkeys(
        ["softmax_with_cross_entropy", "mean", "mean_grad"], "float32")
    assert {str(var.dtype) for pair in pairs for var in pair} == {"float32"}
    assert all(str(var.dtype) in ("float32", "int32") for var in main.list_vars() if var.persistable)
    assert str(scores.dtype) == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_net_learns_as_in_float32(dtype):
    results = []
    for mixed in (False, True):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 5
            _, loss = net()
            optimizer = fluid.optimizer.Momentum(0.05, 0.9, regularization=fluid.regularizer.L2Decay(1e-4))
            optimizer = mixed_precision.decorate(optimizer, init_loss_scaling=128.0, dtype=dtype) if mixed else optimizer
            optimizer.minimize(loss)
            results.append([one.item() for one, in trained(40, loss)])
    exact, rough = np.array(results)
    assert exact[-1] < 0.4 * exact[0]
    assert np.abs(exact - rough).max() < 0.05 and np.abs(exact[-10:].mean() - rough[-10:].mean()) < 0.02


def test_a_value_is_cast_once_for_all_who_read_it_and_shared_weights_get_the_sum_of_their_gradients():
    x = layers.data("x", [6])
    hidden = [layers.fc(x, 6, param_attr="w", bias_attr=False) for _ in range(2)]
    loss = layers.mean(layers.elementwise_mul(*hidden))
    _, pairs = mixed_precision.decorate(fluid.optimizer.SGD(0.0)).minimize(loss)
    casts = [op.input("X")[0] for op in fluid.default_main_program().global_block().ops if op.type == "cast" and op.role == 0]
    assert sorted(casts) == ["elementwise_mul_0.tmp_0", "x"]
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    value = np.random.default_rng(1).standard_normal((5, 6)).astype("float32")
    w, grad = exe.run(feed={"x": value}, fetch_list=pairs[0])
    np.testing.assert_allclose(grad, 2 * value.T @ (value @ w) / 30, atol=0.02)


def test_products_read_parameters_as_they_are_and_give_the_bits_that_a_cast_would_give():
    x = layers.data("x", [6])
    w = layers.create_parameter([6, 5], "float32", "w")
    half = layers.cast(x, "bfloat16")
    products = [layers.mul(half, w), layers.mul(half, layers.cast(w, "bfloat16"))]
    assert [str(product.dtype) for product in products] == ["bfloat16"] * 2
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    value = np.random.default_rng(1).standard_normal((9, 6)).astype("float32")
    np.testing.assert_array_equal(*exe.run(feed={"x": value}, fetch_list=products))


def test_gradients_of_parameters_are_not_rounded_to_16_bits():
    _, loss = net()
    _, pairs = mixed_precision.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
    assert not [op for op in fluid.default_main_program().global_block().ops if op.type == "cast" and
                {*op.input("X"), *op.output("Out")} & {var.name for pair in pairs for var in pair}]
    _, *grads = trained(1, loss, [grad for _, grad in pairs])[0]
    for (param, _), grad in zip(pairs, grads):
        assert (grad.view("uint32") & 0xFFFF).any(), param.name


def test_recurrent_layers_compute_in_16_bits_and_keep_their_states_in_float32():
    x = layers.data("x", [4], lod_level=1)
    hidden, cell = layers.dynamic_lstm(layers.fc(x, 12), 12)
    other = layers.dynamic_gru(layers.fc(x, 9), 3)
    loss = layers.mean(layers.sequence_pool(hidden, "sum")) + layers.mean(layers.sequence_pool(other, "sum"))
    mixed_precision.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
    assert [str(var.dtype) for var in (hidden, cell, other)] == ["bfloat16", "float32", "bfloat16"]
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    feed = {"x": fluid.create_lod_tensor(np.random.default_rng(1).standard_normal((5, 4)).astype("float32"), [[2, 3]], fluid.CPUPlace())}
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and np.isfinite(losses).all()


def test_an_update_runs_with_the_product_that_makes_its_gradient():
    x, y = layers.data("x", [4]), layers.data("y", [1])
    loss = layers.mean(layers.square_error_cost(layers.fc(layers.fc(x, 8, act="relu"), 1), y))
    mixed_precision.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
    feed = {"x": np.ones((2, 4), "float32"), "y": np.ones((2, 1), "float32")}
    assert str(fluid.Executor().plan(feed=feed, fetch_list=[loss])).count("mul_grad_sgd") == 2


def test_lists_can_be_changed():
    lists = mixed_precision.AutoMixedPrecisionLists(custom_white_list={"tanh"}, custom_black_list=["conv2d", "relu"])
    assert {"conv2d", "relu"} <= lists.black_list and "tanh" in lists.white_list and "relu" not in lists.gray_list
    _, loss = net()
    mixed_precision.decorate(fluid.optimizer.SGD(0.1), lists).minimize(loss)
    assert dtypes_of(fluid.default_main_program(), "conv2d", "relu", "tanh", "batch_norm") == {
        "conv2d": "float32", "relu": "float32", "tanh": "bfloat16", "batch_norm": "float32"}
    assert np.isfinite(trained(2, loss)[-1][0])


def test_variables_of_sub_blocks_and_variables_that_are_written_twice_keep_their_type():
    x = layers.data("x", [4])
    hidden = layers.fc(x, 4)
    again = layers.fc(hidden, 4)
    layers.assign(layers.fc(x, 4), again)
    step, end = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 2)
    total = layers.fill_constant([1], "float32", 0.0)
    less = layers.less_than(step, end)
    loop = layers.While(less)
    with loop.block():
        layers.assign(total + layers.mean(hidden), total)
        layers.increment(step, 1)
        layers.less_than(step, end, cond=less)
    loss = layers.mean(again)
    mixed_precision.decorate(fluid.optimizer.SGD(0.1)).minimize(loss)
    assert str(hidden.dtype) == str(again.dtype) == "float32"
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    value, mean = exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[total, layers.mean(hidden)])
    assert abs(value.item() - 2 * mean.item()) < 1e-5


def test_dynamic_scaling_leaves_out_a_step_that_is_not_finite_and_shrinks_the_factor():
    x = layers.data("x", [3])
    loss = layers.mean(layers.fc(x, 1, param_attr="w", bias_attr=False))
    optimizer = mixed_precision.decorate(fluid.optimizer.SGD(1.0), init_loss_scaling=2.0**15, incr_every_n_steps=2,
                                         decr_every_n_nan_or_inf=1, incr_ratio=4.0, decr_ratio=0.5, dtype="float16")
    optimizer.minimize(loss)
    exe, scaling = fluid.Executor(), optimizer.get_loss_scaling()
    exe.run(fluid.default_startup_program())
    before = np.array(fluid.fetch_var("w"))
    seen = [exe.run(feed={"x": np.full((1, 3), value, "float32")}, fetch_list=[scaling])[0].item() for value in (1e5, 1.0, 1.0)]
    assert seen == [2.0**14, 2.0**14, 2.0**16]         # 1e5 is infinite in float16
    np.testing.assert_allclose(np.array(fluid.fetch_var("w")), before - 2, rtol=1e-5)


@pytest.mark.parametrize("kind", ["fluid", "contrib"])
def test_trainers_take_a_decorated_optimizer(kind):
    def network():
        x, y = layers.data("x", [3]), layers.data("y", [1])
        return layers.mean(layers.square_error_cost(layers.fc(layers.fc(x, 8, act="tanh"), 1), y))

    random = np.random.default_rng(0)
    samples = [(x, x[:1] - x[2:]) for x in random.standard_normal((64, 3)).astype("float32")]
    optimizer = mixed_precision.decorate(fluid.optimizer.Adam(0.02))
    if kind == "fluid":
        trainer = fluid.Trainer(network(), optimizer)
        trainer.train(lambda: [samples] * 150)
        cost, program = trainer.test(lambda: [samples]).cost, trainer.program
    else:
        trainer = fluid.contrib.trainer.Trainer(network, lambda: optimizer)
        trainer.train(150, lambda event: None, lambda: [samples], ["x", "y"])
        cost, program = trainer.test(lambda: [samples], ["x", "y"])[0], trainer.train_program
    assert cost < 0.1 and dtypes_of(program, "mul", "tanh") == {"mul": "bfloat16", "tanh": "bfloat16"}


def test_a_fixed_factor_is_taken_out_of_the_gradients_again():
    grads = []
    for factor in (1.0, 64.0):
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            fluid.default_startup_program().random_seed = 3
            x = layers.data("x", [3])
            loss = layers.mean(layers.fc(x, 2, param_attr="w"))
            optimizer = mixed_precision.decorate(fluid.optimizer.SGD(0.1), init_loss_scaling=factor)
            _, pairs = optimizer.minimize(loss)
            assert (optimizer.get_loss_scaling() is None) == (factor == 1.0)
            exe = fluid.Executor()
            exe.run(fluid.default_startup_program())
            values = exe.run(feed={"x": np.ones((4, 3), "float32")}, fetch_list=[loss, optimizer.get_scaled_loss(), pairs[-1][1]])
            assert abs(values[1].item() - factor * values[0].item()) < 1e-4
            grads.append(values[2])
    np.testing.assert_array_equal(*grads)


def test_programs_for_test_and_saved_models_have_the_casts(tmp_path):
    scores, loss = net()
    optimizer = fluid.optimizer.Adam(0.01, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))
    test = None
    mixed_precision.decorate(optimizer).minimize(loss)
    test = fluid.default_main_program().clone(for_test=True)
    assert "cast" in [op.type for op in test.global_block().ops]
    trained(3, loss)
    exe = fluid.Executor()
    want, = exe.run(test, feed=batch(), fetch_list=[scores.name])
    fluid.io.save_inference_model(str(tmp_path), ["x"], [scores], exe)
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        got, = exe.run(program, feed={"x": batch()["x"]}, fetch_list=targets)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.float32


@pytest.mark.parametrize("what, error, message", [
    ({"dtype": "float64"}, ValueError, "dtype must be 'bfloat16' or 'float16', got 'float64'"),
    ({"init_loss_scaling": 0}, ValueError, "init_loss_scaling"),
    ({"incr_ratio": 1.0}, ValueError, "incr_ratio"),
    ({"decr_ratio": 1.0}, ValueError, "decr_ratio"),
    ({"incr_every_n_steps": 0}, ValueError, "incr_every_n_steps=0; a whole number from 1"),
    ({"amp_lists": {"mul"}}, TypeError, "amp_lists must be AutoMixedPrecisionLists"),
])
def test_arguments_that_make_no_sense_are_refused(what, error, message):
    with pytest.raises(error, match=message):
        mixed_precision.decorate(fluid.optimizer.SGD(0.1), **what)


def test_lists_that_make_no_sense_are_refused():
    with pytest.raises(TypeError, match="optimizer must be an Optimizer, got None"):
        mixed_precision.decorate(None)
    with pytest.raises(ValueError, match="mul cannot be both"):
        mixed_precision.AutoMixedPrecisionLists({"mul"}, {"mul"})
    with pytest.raises(ValueError, match="custom_white_list names convolution, which no operator is called"):
        mixed_precision.AutoMixedPrecisionLists(["convolution"])
    with pytest.raises(TypeError, match="custom_white_list must be a set of operator types, got 'mul'"):
        mixed_precision.AutoMixedPrecisionLists("mul")


# -- real data ---------------------------------------------------------------------------------------------------------


def result(text):
    return json.loads(re.search(r"^result (.*)$", text, re.M)[1])


@pytest.fixture(scope="module")
def exact():
    return result(alone(script=DIGITS))


@pytest.mark.parametrize("dtype", DTYPES)
def test_digits_are_learnt_as_well(dtype, exact):
    got = result(alone("--mixed", dtype, script=DIGITS))
    assert abs(got["loss"] - exact["loss"]) < 0.01 and abs(got["accuracy"] - exact["accuracy"]) < 0.01


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("options", [("--mode", "sync"), ("--mode", "ssp(1)", "--compress", "bf16")])
def test_digits_are_learnt_as_well_in_a_job(options, exact):
    got = result(launch(2, 2, "--mixed", "bfloat16", "--clip", 5.0, options=options, script=DIGITS))
    assert got["loss"] < 0.25 and got["accuracy"] > exact["accuracy"] - 0.025
