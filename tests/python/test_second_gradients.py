"""Gradients of gradients: against differences in float64, in training steps, and refused by name where there are none."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, results
from second_gradient_cases import CASES, NAMED, NORMED, PARTLY, REFUSED, TABLES, Case, Constant, declare, numbers, operator, parameter

import trireme as fluid
from trireme import layers
from trireme.program.op_protos import op_proto, op_types

PENALTY = SCRIPT.with_name("penalty.py")
sys.path.insert(0, str(PENALTY.parent))
import penalty  # noqa: E402 - the job's script says what there is


def ones(name, *shape):
    return declare(name, np.ones(shape))[0]


def differences(run, feeds, name, step=1e-6):
    """The derivative of the number that ``run`` returns, by each element of one feed."""
    grad = np.zeros_like(feeds[name])
    for at in np.ndindex(grad.shape):
        ends = []
        for sign in (1, -1):
            moved = feeds[name].copy()
            moved[at] += sign * step
            ends.append(run({**feeds, name: moved}))
        grad[at] = (ends[0] - ends[1]) / (2 * step)
    return grad


def weighted(case, variables, grads, tag):
    """The sum of the gradients, each times a constant of its own; None: there are none."""
    parts = []
    for var, grad in [(var, grad) for var, grad in zip(variables, grads) if grad is not None]:
        name = f"{var.name}_{tag}"
        part, case.feeds[name] = declare(name, Constant(numbers(*case.feeds[var.name].shape)))
        parts.append(layers.reduce_sum(layers.elementwise_mul(grad, part)))
    return layers.sum(parts) if parts else None


def check_gradient(case, exe, target, tolerance):
    """The gradients of one number by all inputs of a case are those of differences."""
    run = lambda feeds: case.run(exe, feeds, [target])[0].item()
    expected = {var.name: differences(run, case.feeds, var.name) for var in case.wanted}
    grads = fluid.backward.gradients(target, case.wanted)
    got = case.run(exe, case.feeds, [grad for grad in grads if grad is not None])
    for var, grad in zip(case.wanted, grads):
        values = np.zeros_like(case.feeds[var.name]) if grad is None else got.pop(0)
        np.testing.assert_allclose(values, expected[var.name], rtol=tolerance, atol=tolerance / 20, err_msg=var.name)
    return grads


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_gradient_is_that_of_differences(name, exe):
    case = Case(name)
    shape = case.run(exe, case.feeds, [case.out])[0].shape
    inputs = list(case.wanted)
    weight = case.take("weight", numbers(*shape))
    first = fluid.backward.gradients(case.out, inputs, target_gradients=weight)
    assert any(grad is not None for grad in first)
    second = check_gradient(case, exe, weighted(case, inputs, first, "part"), 2e-6)
    total = weighted(case, case.wanted, second, "again")
    if total is not None:
        check_gradient(case, exe, total, 2e-5)             # a third gradient


def test_dropout_passes_what_it_let_through(exe):
    x, weight = ones("x", 50), ones("weight", 50)
    first, = fluid.backward.gradients(layers.dropout(x, 0.5), x, target_gradients=weight)
    second, = fluid.backward.gradients(first, weight)
    kept, again = exe.run(feed={"x": np.ones(50), "weight": np.ones(50)}, fetch_list=[first, second])
    np.testing.assert_array_equal(again, kept)
    assert 0 < np.count_nonzero(kept) < 50


def test_rows_without_a_gradient_take_sequences_from_what_has_one(exe):
    x, y = ones("x", 2, 1), ones("y", 3, 1)
    x.stop_gradient = True
    taken = layers.sequence_expand_as(x, operator("lod_reset", target_lod=[0, 1, 3])(X=y))
    grad, = fluid.backward.gradients(layers.reduce_sum(taken * y), y)
    at = np.array([[2.0], [5.0]])
    np.testing.assert_array_equal(exe.run(feed={"x": at, "y": np.ones((3, 1))}, fetch_list=[grad])[0], [[2], [5], [5]])


def test_statistics_of_a_batch_are_not_taken_for_constants():
    x = ones("x", 4, 2)
    block = fluid.default_main_program().global_block()
    out = operator("batch_norm", NORMED)(X=x, Scale=parameter(2), Bias=parameter(2), Mean=parameter(2), Variance=parameter(2))
    saved = block.var(next(op for op in block.ops if op.type == "batch_norm").output("SavedMean")[0])
    with pytest.raises(fluid.core.UnsupportedError, match="batch_norm: no gradient flows through the statistics of a batch.*stop_gradient"):
        fluid.backward.gradients(layers.reduce_sum(out) + layers.reduce_sum(saved), x)


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm"])
def test_norms_of_bfloat16_have_parameters_of_float32(norm, exe):
    x = layers.data("x", [6], dtype="float32")
    x.stop_gradient = False
    at = {"x": np.random.RandomState(5).normal(size=(8, 6)).astype("float32")}
    slopes = []
    for dtype in ("float32", "bfloat16"):
        y = layers.cast(getattr(layers, norm)(layers.cast(x, dtype), param_attr=f"{norm}.scale", bias_attr=f"{norm}.shift"), "float32")
        first, = fluid.backward.gradients(layers.reduce_sum(y * y * y), x)
        slopes += fluid.backward.gradients(layers.reduce_sum(layers.square(first)),
                                           [x, fluid.default_main_program().global_block().var(f"{norm}.scale")])
    exe.run(fluid.default_startup_program())
    values = exe.run(feed=at, fetch_list=slopes)
    for want, got in zip(values[:2], values[2:]):
        np.testing.assert_allclose(got, want, atol=0.05 * np.abs(want).max())


def test_a_softmax_beside_its_loss_has_a_gradient(exe):
    x, label = ones("x", 2, 3), layers.cast(layers.assign(np.array([[0], [2]], "int32")), "int64")
    _, softmax = layers.softmax_with_cross_entropy(x, label, return_softmax=True)
    grad, = fluid.backward.gradients(layers.reduce_sum(layers.square(softmax)), x)
    other, = fluid.backward.gradients(layers.reduce_sum(layers.square(layers.softmax(x))), x)
    got, want = exe.run(feed={"x": np.array([[0.1, 0.5, -1.0], [2.0, 0.0, 1.0]])}, fetch_list=[grad, other])
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_third_gradient(exe):
    x = ones("x", 3)
    grad = layers.tanh(x)
    for _ in range(3):
        grad, = fluid.backward.gradients(grad, x)
    at = np.array([0.1, 0.5, 2.0])
    t = np.tanh(at)
    np.testing.assert_allclose(exe.run(feed={"x": at}, fetch_list=[grad])[0], (1 - t * t) * (6 * t * t - 2), rtol=1e-12)


def test_a_gradient_that_is_a_sum_of_several(exe):
    x = ones("x", 3)
    first, = fluid.backward.gradients(layers.elementwise_mul(layers.elementwise_mul(x, x), x) + layers.exp(x) * x, x)
    second, = fluid.backward.gradients(first, x)
    at = np.array([0.1, -0.5, 2.0])
    np.testing.assert_allclose(exe.run(feed={"x": at}, fetch_list=[second])[0], 6 * at + np.exp(at) * (2 + at), rtol=1e-12)


def test_a_value_that_is_overwritten_is_read_as_it_was(exe):
    x, weight = ones("x", 3), ones("weight", 3)
    first, = fluid.backward.gradients(layers.square(x), x, target_gradients=weight)
    penalty = layers.square(first)
    layers.assign(layers.scale(x, scale=0.0), output=first)
    second, = fluid.backward.gradients(penalty, x)
    at, factor = np.array([0.1, -0.5, 2.0]), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(exe.run(feed={"x": at, "weight": factor}, fetch_list=[second])[0], 8 * at * factor ** 2, rtol=1e-12)


@pytest.mark.parametrize("name", [*REFUSED, *PARTLY])
def test_operators_without_second_gradients_are_refused_by_name(name):
    x = ones("x", 4, 4)
    first, = fluid.backward.gradients(layers.square((REFUSED | PARTLY)[name](x)), x)
    with pytest.raises(fluid.core.UnsupportedError, match=f"gradients of gradients: .*{NAMED.get(name, f'{name}_grad')}.*stop_gradient"):
        fluid.backward.gradients(layers.reduce_sum(layers.square(layers.sum([first, x]))), x)


def test_every_operator_with_a_gradient_is_differentiated_twice_or_refused():
    with_gradient = {type for type in op_types() if op_proto(type).has_grad}
    differentiated = {name.split(",")[0] for name in CASES} | {"dropout"}            # which has a test of its own
    assert differentiated.isdisjoint(REFUSED)
    assert differentiated | REFUSED.keys() | TABLES == with_gradient


def test_the_documents_list_what_is_refused():
    text = (Path(__file__).parents[2] / "docs" / "adr" / "0034-gradients-of-gradients.md").read_text()
    listed = text.split("<!-- refused -->")[1]
    rows = re.findall(r"^\| (`[^|]*`) \|", listed, re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(REFUSED.keys() | TABLES)


def test_a_gradient_without_a_gradient_may_count_as_a_constant(exe):
    x = ones("x", 2, 4)
    first, = fluid.backward.gradients(layers.reduce_max(x, dim=1), x)
    first.stop_gradient = True
    second, = fluid.backward.gradients(layers.reduce_sum(first * x), x)
    at = np.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(exe.run(feed={"x": at}, fetch_list=[second])[0], (at == at.max(axis=1, keepdims=True)) * 1.0)


# -- in training ---------------------------------------------------------------------------------------------


def test_a_critic_learns_a_gradient_of_norm_1(exe, tmp_path):
    fluid.default_startup_program().random_seed = 3
    loss, distance = penalty.build()
    test = fluid.default_main_program().clone(for_test=True)
    fluid.io.save_program(fluid.default_main_program(), str(tmp_path / "main"))
    loaded = fluid.io.load_program(str(tmp_path / "main"))
    exe.run(fluid.default_startup_program())
    last = list(penalty.batches(41))[-1]
    before = exe.run(test, feed=last, fetch_list=[distance])[0].item()
    for batch in penalty.batches(40):
        exe.run(loaded, feed=batch, fetch_list=[loss.name])
    assert exe.run(test, feed=last, fetch_list=[distance])[0].item() < 0.5 * before


def test_a_program_for_tests_keeps_the_gradients_that_a_loss_is_made_of():
    penalty.build()
    program = fluid.default_main_program()
    kept = [op.type for op in program.clone(for_test=True).global_block().ops]
    assert "conv2d_grad" in kept and "adam" not in kept
    assert kept.count("conv2d_grad") < [op.type for op in program.global_block().ops].count("conv2d_grad")


def test_a_program_for_tests_keeps_the_block_of_such_a_gradient(exe):
    x = ones("x", 2, 1)
    rows, rnn = layers.reshape(x, [2, 1, 1]), layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        before = rnn.memory(shape=[-1, 1], batch_ref=row, ref_batch_dim_idx=1, init_value=1.0)
        after = layers.elementwise_mul(before, layers.square(row))
        rnn.update_memory(before, after)
        rnn.step_output(after)
    slope, = fluid.backward.gradients(layers.reduce_sum(rnn()), x)
    size = layers.reduce_sum(layers.square(slope))
    program = fluid.default_main_program()
    feed = {"x": np.array([[2.0], [3.0]])}
    values = [exe.run(one, feed=feed, fetch_list=[size.name])[0].item() for one in (program, program.clone(for_test=True))]
    assert values == [40.0 ** 2 + 24.0 ** 2] * 2


@needs_mpi
@pytest.mark.mpi
def test_a_job_computes_the_bits_of_one_process(tmp_path):
    alone("--out", tmp_path / "alone.npz", script=PENALTY)
    launch(2, 2, "--out", tmp_path / "job.npz", script=PENALTY)
    want, got = results(tmp_path / "alone.npz"), results(tmp_path / "job.npz")
    assert got.keys() == want.keys() and len(want) > 8
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
