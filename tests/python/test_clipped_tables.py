"""Clipping where a sparse table is among the parameters: as for dense ones, and in a job as in one process."""

import os
import random
import signal
import time

import numpy as np
import pytest
from job_support import Launched, launch, needs_mpi
from test_sparse_tables import TABLES, assert_follows, one_process, results  # noqa: F401 - a fixture

import trireme as fluid
from trireme.job import mode as modes
from trireme.distributed.transpiler import transpile
from trireme.errors import UnsupportedError

clip = fluid.clip
CLIPS = {"value": clip.GradientClipByValue(0.01), "norm": clip.GradientClipByNorm(0.02), "global": clip.GradientClipByGlobalNorm(0.05)}
each_clip = pytest.mark.parametrize("kind", CLIPS)
WIDTH, RATE = 4, 0.5


def net(optimizer, *, is_distributed=True, is_sparse=True, own_clip=None):
    """A table, looked up three times a sample with repeated keys, and a dense layer; returns the loss."""
    ids = fluid.layers.data("ids", [3, 1], dtype="int64")
    found = fluid.layers.embedding(ids, [50, WIDTH], is_sparse=is_sparse, is_distributed=is_distributed, param_attr="table")
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(fluid.layers.reshape(found, [-1, 3 * WIDTH]), 1) - 0.5))
    if own_clip:
        clip.set_gradient_clip(own_clip)
    optimizer.minimize(loss)
    return loss


def train(kind, steps=6, **how):
    """Return the losses."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = net(fluid.optimizer.SGD(RATE, grad_clip=CLIPS[kind] if kind else None), **how)
    exe, scope, rng = fluid.Executor(), fluid.Scope(), np.random.RandomState(3)
    exe.run(startup, scope=scope)
    return [exe.run(main, feed={"ids": rng.randint(0, 50, (40, 3, 1))}, fetch_list=[loss], scope=scope)[0].item() for _ in range(steps)]


@each_clip
def test_a_table_is_clipped_like_a_dense_parameter(kind):
    """Bit by bit, sparse gradients too: squares are summed exactly, so rows of zeros change nothing."""
    table = train(kind)
    assert table != train(None)
    assert table == train(kind, is_distributed=False) == train(kind, is_distributed=False, is_sparse=False)


def rows_of(exe, program, found, keys):
    return exe.run(program, feed={"ids": keys}, fetch_list=[found])[0].astype("float64").reshape(-1, WIDTH)


@each_clip
def test_the_step_is_that_of_numpy(exe, kind):
    """Repeated keys are one row of the gradient; keys without a row, which wait for their admission, count in the norm."""
    ids = fluid.layers.data("ids", [1], dtype="int64")
    found = fluid.layers.embedding(ids, [9, WIDTH], is_distributed=True, param_attr="table")
    late = fluid.layers.embedding(ids, [9, WIDTH], is_distributed=True, param_attr="late", entry_count=5)
    scale = fluid.layers.create_parameter([WIDTH], "float32", name="scale")
    factor = fluid.layers.data("factor", [WIDTH])
    # The gradient of a sample's row is its factor; that of scale the sum of all factors.
    product = fluid.layers.elementwise_mul(fluid.layers.elementwise_add(fluid.layers.elementwise_add(found, late), scale, axis=1), factor)
    loss = fluid.layers.reduce_sum(product)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(RATE, grad_clip=CLIPS[kind]).minimize(loss)
    exe.run(fluid.default_startup_program())
    keys = np.array([[3], [-5], [3], [2**62], [3]], np.int64)
    factors = np.random.RandomState(1).normal(0, 0.01, (5, WIDTH)).astype("float32")
    before, scale_before = rows_of(exe, test, found, keys[[0, 1, 3]]), np.array(fluid.global_scope().find_var("scale").get_tensor())
    exe.run(feed={"ids": keys, "factor": factors})
    grads = np.array([factors[[0, 2, 4]].sum(0), factors[1], factors[3]], "float64")
    dense = factors.sum(0).astype("float64")
    if kind == "value":
        grads, dense = np.clip(grads, -0.01, 0.01), np.clip(dense, -0.01, 0.01)
    elif kind == "norm":
        grads, dense = (g * min(1, 0.02 / np.linalg.norm(g)) for g in (grads, dense))
    else:
        shrink = min(1, 0.05 / np.sqrt(2 * (grads ** 2).sum() + (dense ** 2).sum()))
        assert shrink < 0.9
        grads, dense = grads * shrink, dense * shrink
    np.testing.assert_allclose(rows_of(exe, test, found, keys[[0, 1, 3]]), before - RATE * grads, rtol=2e-6, atol=1e-8)
    np.testing.assert_allclose(np.array(fluid.global_scope().find_var("scale").get_tensor()), scale_before - RATE * dense, rtol=2e-6)
    assert (rows_of(exe, test, late, keys) == 0).all()


def test_an_empty_batch_is_clipped(exe):
    loss = net(fluid.optimizer.SGD(0.1, grad_clip=CLIPS["global"]))
    exe.run(fluid.default_startup_program())
    exe.run(feed={"ids": np.zeros((2, 3, 1), np.int64)}, fetch_list=[loss])
    exe.run(feed={"ids": np.zeros((0, 3, 1), np.int64)})


def test_clips_follow_each_other(exe):
    """By value first, then by the norm of what is left; each key of the result comes once."""
    net(fluid.optimizer.SGD(0.1, grad_clip=CLIPS["value"]), own_clip=CLIPS["norm"])
    ops = fluid.default_main_program().global_block().ops
    update = next(op for op in ops if op.type == "lookup_sparse_table_update")
    assert update.attr("is_merged")
    made = {name: op for op in ops for name in op.output_arg_names}
    chain, name = [], update.input("Grad")[0]
    while name in made:
        chain.append(made[name].type)
        name = made[name].input("X")[0] if "X" in made[name].input_names else None
    assert chain == ["elementwise_mul", "merge_selected_rows", "clip", "lookup_sparse_table_grad"]


def test_a_regularizer_that_needs_all_rows_is_refused():
    class Mean(fluid.regularizer.WeightDecayRegularizer):
        def __call__(self, param, grad, block):
            return fluid.layers.elementwise_mul(param, fluid.layers.reduce_mean(param))

    with pytest.raises(UnsupportedError, match="reduce_mean of the optimizer needs all rows of the sparse table 'table'"):
        net(fluid.optimizer.SGD(0.1, regularization=Mean()))


def cut(kind, mode, servers):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        net(fluid.optimizer.Adam(0.1, regularization=fluid.regularizer.L2Decay(0.1), grad_clip=CLIPS[kind]))
        return transpile(fluid.default_main_program(), servers, mode=modes.parse(mode))


def types(program):
    return [op.type for op in program.global_block().ops]


@pytest.mark.parametrize("mode", ["sync", "sync(degraded)", "sync(backups=1)"])
@pytest.mark.parametrize("kind", ["norm", "global"])
def test_servers_that_make_the_same_updates_add_up_the_squares_of_their_rows(kind, mode):
    result = cut(kind, mode, 2)
    assert "sum_of_squares" not in types(result.trainer) and types(result.trainer).count("push_sparse") == 1
    for server in result.servers:
        ops = types(server)
        assert ops.count("exchange_squares") == ops.count("pushed_rows") == ops.count("lookup_sparse_table_update") == 1
        assert "merge_selected_rows" not in ops and ops.index("pushed_rows") < ops.index("exchange_squares")
    squared = [name for server in result.servers for op in server.global_block().ops if op.type == "exchange_squares"
               for name in op.input("X")]
    assert len(squared) == 2 + (2 if kind == "global" else 0)           # of the table on each server; of the dense ones once


@pytest.mark.parametrize("mode", ["async", "ssp(2)", "async(compensation=0.04)"])
@pytest.mark.parametrize("kind", ["norm", "global"])
def test_trainers_that_are_apart_clip_their_own_rows(kind, mode):
    result = cut(kind, mode, 2)
    ops = types(result.trainer)
    assert ops.index("merge_selected_rows") < ops.index("sum_of_squares") < ops.index("push_sparse")
    for server in result.servers:
        assert not {"pushed_rows", "exchange_squares", "sum_of_squares"} & set(types(server))


def test_rows_are_clipped_by_value_on_the_servers():
    for server in cut("value", "async", 2).servers:
        ops = types(server)
        assert ops.index("pushed_rows") < ops.index("clip") < ops.index("lookup_sparse_table_update")


# -- jobs ------------------------------------------------------------------------------------------------------------

LIMITS = {"value": 0.001, "norm": 0.01, "global": 0.02}


def assert_same(got, want):
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def clipped(kind, optimizer="decayed", *more):
    return ("--optimizer", optimizer, "--clip", kind, "--limit", LIMITS[kind], *more)


@needs_mpi
@pytest.mark.mpi
@each_clip
def test_servers_clip_bit_by_bit_like_one_process(kind, one_process, tmp_path):
    """Two tables and dense layers, under weight decay; rows are asked for ahead in one of the jobs."""
    want = one_process(*clipped(kind))
    assert np.abs(one_process("--optimizer", "decayed")["losses"] - want["losses"]).max() > 1e-5      # it was clipped
    for servers in (1, 2):
        launch(servers, 1, *clipped(kind), *["--ahead"] * (servers - 1), "--out", tmp_path / "r.npz", script=TABLES)
        assert_same(results(tmp_path / "r.npz"), want)


@needs_mpi
@pytest.mark.mpi
def test_several_trainers_clip_by_the_norm_of_their_mean(one_process, tmp_path):
    args = clipped("global", "adam", "--entry-count", 2)
    for servers in (1, 3):
        launch(servers, 2, *args, "--out", tmp_path / f"{servers}.npz", script=TABLES)
    assert_same(results(tmp_path / "3.npz"), results(tmp_path / "1.npz"))
    assert_follows(results(tmp_path / "3.npz"), one_process(*args))


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("kind, mode, kept", [
    ("global", "async", 0), ("norm", "ssp(2)", 3), ("global", "geo(2)", 0), ("norm", "sync(backups=1)", 0)], ids=lambda value: str(value))
def test_a_trainer_alone_clips_like_one_process_in_any_mode(kind, mode, kept, one_process, tmp_path):
    args = clipped(kind, "adagrad")
    launch(2, 1, *args, "--out", tmp_path / "r.npz", script=TABLES, options=("--mode", mode))
    rounding = 2e-5 if mode.startswith("geo") else 0
    for name, array in one_process(*args).items():
        np.testing.assert_allclose(results(tmp_path / "r.npz")[name], array, rtol=rounding, atol=rounding / 10, err_msg=name)
    launch(2, 2, *args, "--row-cache", 500, kept, "--steps", 40, "--out", tmp_path / "r.npz", script=TABLES, options=("--mode", mode))
    losses = results(tmp_path / "r.npz")["losses"]
    assert len(losses) == 40 and np.isfinite(losses).all()


@needs_mpi
@pytest.mark.mpi
def test_a_killed_server_costs_no_bit_of_a_clipped_table(tmp_path):
    """Its successor computes the last update again, and asks the others for what they gathered in it; where they miss what the dead
    one had said, all start again from the update before."""
    args = (*clipped("global", "adam"), "--steps", 80, "--pause", 0.005, "--ahead")
    launch(2, 2, *args, "--out", tmp_path / "whole.npz", script=TABLES)
    job = Launched(2, 2, *args, "--out", tmp_path / "r.npz", "--mark", tmp_path / "begun", script=TABLES)
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "died; the others go on" in text, text
    got, want = results(tmp_path / "r.npz"), results(tmp_path / "whole.npz")
    for name in ("losses", "words", "user", "fc"):
        np.testing.assert_array_equal(got[name], want[name], err_msg=name + text)
