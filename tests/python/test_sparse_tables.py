"""Sparse tables: rows by key, in one process like a dense table, in a job like in one process."""

import ast
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import Launched, alone, launch, needs_mpi

import trireme as fluid
from trireme import layers
from trireme.errors import InvalidArgumentError, NotFoundError, RangeError, TriremeError, UnsupportedError
from trireme.launch import logs
from trireme.launch.figures import figures_of

COUNTS = ("wanted", "ahead", "cached")
KEPT = Path(__file__).parent / "jobs" / "kept_rows.py"
TABLES = Path(__file__).parent / "jobs" / "tables.py"


def results(path):
    """The arrays of a run, without what it counted."""
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays if name not in COUNTS}


def counts(path):
    with np.load(path) as arrays:
        return {name: int(arrays[name]) for name in COUNTS}


def assert_follows(got, want):
    """Of jobs of several trainers: their gradients are added in another order, and Adam's steps hardly depend on a gradient's size."""
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5 * max(1, np.abs(array).max()), err_msg=name)


def model(is_distributed, ids_shape=(3, 1), **options):
    ids = fluid.layers.data("ids", list(ids_shape), dtype="int64")
    rows = fluid.layers.embedding(ids, [50, 4], is_sparse=True, is_distributed=is_distributed, param_attr="table", **options)
    y = fluid.layers.fc(fluid.layers.reshape(rows, [-1, 12]), 1)
    return rows, fluid.layers.mean(fluid.layers.square(y - 0.5))


def train(is_distributed, optimizer, steps=6):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        _, loss = model(is_distributed)
        optimizer().minimize(loss)
    exe, scope, random = fluid.Executor(), fluid.Scope(), np.random.RandomState(3)
    exe.run(startup, scope=scope)
    return [float(exe.run(main, feed={"ids": random.randint(0, 50, (8, 3, 1))}, fetch_list=[loss], scope=scope)[0][0])
            for _ in range(steps)]


@pytest.mark.parametrize("padding, may_be_dynamic", [(None, ()), (3, ("lookup_sparse_table_grad", "lookup_sparse_table_update"))])
def test_shapes_of_a_net_with_tables_are_known_before_it_runs(programs, padding, may_be_dynamic):
    """A table has no shape; a net of which no shape was known would run without its layout. Keys of a padding have no rows."""
    _, loss = model(True, padding_idx=padding)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe, call = run_startup(), {"feed": {"ids": np.arange(24).reshape(8, 3, 1)}, "fetch_list": [loss]}
    exe.run(**call)
    plan = exe.plan(fluid.default_main_program(), **call)
    dynamic = [line for line in plan.splitlines() if line.endswith(" dynamic")]
    assert "(arena" in plan and "(in place of" in plan
    assert all(any(f"{operator}(" in line for operator in may_be_dynamic) for line in dynamic), plan


@pytest.mark.parametrize("optimizer", [
    lambda: fluid.optimizer.SGD(0.1), lambda: fluid.optimizer.Adagrad(0.1),
    lambda: fluid.optimizer.Adam(0.05, lazy_mode=True)], ids=["sgd", "adagrad", "adam"])
def test_keys_in_the_range_of_a_dense_table_train_bitwise_like_it(optimizer):
    assert train(True, optimizer) == train(False, optimizer)


@pytest.fixture
def programs():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield


def run_startup():
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return exe


def test_any_key_has_a_row_and_an_empty_batch_none(programs):
    rows, loss = model(True, padding_idx=2)
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe = run_startup()
    keys = np.array([[[-1], [2**63 - 1], [-2**63]], [[2], [10**12], [-1]]], np.int64)
    first, = exe.run(feed={"ids": keys}, fetch_list=[rows])
    assert (first[1, 0] == 0).all() and (first[0] != 0).all()
    np.testing.assert_array_equal(first[0, 0], first[1, 2])
    second, = exe.run(feed={"ids": keys}, fetch_list=[rows])
    assert (second[0] != first[0]).all() and (second[1, 0] == 0).all()
    empty, = exe.run(feed={"ids": np.zeros((0, 3, 1), np.int64)}, fetch_list=[rows])
    assert empty.shape == (0, 3, 4)


@pytest.mark.parametrize("size", [[1 << 40, 64], [1 << 62, 8]])
def test_rows_are_as_wide_as_the_user_likes_whatever_the_range_of_keys(programs, size):
    """The range times the width is more values than a machine has memory for."""
    ids = fluid.layers.data("ids", [1], dtype="int64")
    rows = fluid.layers.embedding(ids, size, is_distributed=True, param_attr=fluid.ParamAttr("table", fluid.initializer.Uniform(-1.0, 1.0)))
    loss = fluid.layers.mean(rows)
    fluid.optimizer.Adagrad(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    feed = {"ids": np.array([[size[0] - 1], [5]])}
    before, again = (exe.run(feed=feed, fetch_list=[rows])[0] for _ in range(2))
    assert before.shape == (2, size[1]) and (again < before).all()


def test_a_negative_padding_counts_from_the_size_of_the_table(programs):
    rows, _ = model(True, padding_idx=-2)
    first, = run_startup().run(feed={"ids": np.array([[[48], [-2], [-1]]])}, fetch_list=[rows])
    assert (first[0, 0] == 0).all() and (first[0, 1:] != 0).all()
    with pytest.raises(ValueError, match="embedding: padding_idx -51; of 50 rows -50 is the first"):
        model(True, padding_idx=-51)


def test_a_test_program_looks_rows_up_and_makes_none(programs):
    rows, loss = model(True)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = run_startup()
    keys = np.arange(6).reshape(2, 3, 1)
    before, = exe.run(test, feed={"ids": keys}, fetch_list=[rows])
    np.testing.assert_array_equal(exe.run(test, feed={"ids": keys}, fetch_list=[rows])[0], before)
    exe.run(feed={"ids": keys})
    assert (exe.run(test, feed={"ids": keys}, fetch_list=[rows])[0] != before).all()


def test_rows_enter_by_count_and_leave_by_age(programs):
    rows, loss = model(True, entry_count=2, max_age=3)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = run_startup()
    keys = np.full((1, 3, 1), 77)
    seen = [exe.run(feed={"ids": keys}, fetch_list=[rows])[0] for _ in range(4)]
    assert (seen[0] == 0).all() and (seen[1] == 0).all()
    assert (seen[2] != 0).all() and (seen[3] != seen[2]).all()
    others = np.full((1, 3, 1), 78)
    for _ in range(1030):                              # every row is looked at once in 1024 steps
        exe.run(feed={"ids": others})
    assert (exe.run(feed={"ids": keys}, fetch_list=[rows])[0] == 0).all()


def test_mistakes_are_explained(programs):
    ids = fluid.layers.data("ids", [1], dtype="int64")
    for error, options, text in [
            (ValueError, dict(dtype="float64"), "what is looked up in a distributed table is float32"),
            (ValueError, dict(row_dtype="int8"), "row_dtype must be float32, float16 or bfloat16"),
            (ValueError, dict(max_age=-1), "max_age must be an int of at least 0"),
            (ValueError, dict(row_dtype="bf16"), "row_dtype must be float32, float16 or bfloat16, got 'bf16'"),
            (ValueError, dict(entry_probability=0.0), "entry_probability must be above 0"),
            (ValueError, dict(entry_probability="x"), "entry_probability must be above 0 and at most 1, got 'x'"),
            (RangeError, dict(entry_count=1 << 32), "'entry_count' must be >= 0 and <= 2147483647, got 4294967296"),
            (RangeError, dict(max_age=1 << 32), "'max_age' must be >= 0 and <= 4294967295, got 4294967296"),
            (ValueError, dict(padding_idx="x"), "embedding: padding_idx='x'; a whole number"),
            (ValueError, dict(keep_count=2), "give max_age, too"),
            (UnsupportedError, dict(param_attr=fluid.ParamAttr("fixed", initializer=fluid.initializer.NumpyArrayInitializer(
                np.zeros((9, 2), "float32")))), "constant, uniform, normal or truncated normal; assign_value")]:
        with pytest.raises(error, match=text):
            fluid.layers.embedding(ids, [9, 2], is_distributed=True, **options)
    with pytest.raises(ValueError, match="are of distributed tables"):
        fluid.layers.embedding(ids, [9, 2], max_rows=5)
    fluid.layers.embedding(ids, [9, 2], is_distributed=True, param_attr="shared")
    with pytest.raises(ValueError, match="'shared' is shared and was made with"):
        fluid.layers.embedding(ids, [9, 2], is_distributed=True, param_attr="shared", max_age=5)
    with pytest.raises(ValueError, match="'shared' is a distributed table: give is_distributed=True here, too"):
        fluid.layers.embedding(ids, [9, 2], param_attr="shared")
    fluid.layers.embedding(ids, [9, 2], param_attr="dense")
    with pytest.raises(ValueError, match="'dense' is shared and was made as a dense parameter"):
        fluid.layers.embedding(ids, [9, 2], is_distributed=True, param_attr="dense")
    with pytest.raises(TriremeError, match="Ids must be int64"):
        fluid.layers.embedding(fluid.layers.data("x", [1]), [9, 2], is_distributed=True)


def test_a_startup_program_that_ran_too_early_is_named(programs):
    _, loss = model(True)
    exe = run_startup()
    exe.run(fetch_list=[loss], feed={"ids": np.zeros((1, 3, 1), np.int64)})
    fluid.optimizer.SGD(0.1).minimize(loss)
    rate = fluid.global_scope().var("learning_rate_0").get_tensor()
    rate.set(np.ones(1, "float32"))
    exe.run(feed={"ids": np.zeros((1, 3, 1), np.int64)})                   # SGD keeps nothing: the table is right
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        _, loss = model(True)
        exe.run(fluid.default_startup_program())
        fluid.optimizer.Adagrad(0.1).minimize(loss)
        with pytest.raises(TriremeError, match="run the startup program"):
            exe.run(feed={"ids": np.zeros((1, 3, 1), np.int64)})
    with fluid.scope_guard(fluid.Scope()), pytest.raises(NotFoundError, match="run the startup program"):
        exe.run(feed={"ids": np.zeros((1, 3, 1), np.int64)})


@pytest.mark.parametrize("row_dtype", ["float32", "float16", "bfloat16"])
def test_saved_rows_are_the_loaded_rows(programs, tmp_path, row_dtype):
    rows, loss = model(True, row_dtype=row_dtype)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe, random = run_startup(), np.random.RandomState(1)
    batches = [{"ids": random.randint(-10**12, 10**12, (20, 3, 1))} for _ in range(3)]
    for batch in batches:
        exe.run(feed=batch)
    fluid.io.save_persistables(exe, str(tmp_path))
    part = np.concatenate([np.load(path) for path in sorted((tmp_path / "table").glob("rows-*.npy"))])
    assert len(part) == 180 and set(part["key"]) == {key for batch in batches for key in batch["ids"].ravel()}
    assert part["states"].shape == (180, 2, 4)
    want = exe.run(test, feed=batches[0], fetch_list=[rows])[0]
    exe.run(feed=batches[0])
    after = exe.run(test, feed=batches[0], fetch_list=[rows])[0]
    exe.run(fluid.default_startup_program())
    fluid.io.load_persistables(exe, str(tmp_path))
    np.testing.assert_array_equal(exe.run(test, feed=batches[0], fetch_list=[rows])[0], want)
    exe.run(feed=batches[0])                           # the states are there, too: the next step is the same
    np.testing.assert_array_equal(exe.run(test, feed=batches[0], fetch_list=[rows])[0], after)


def test_an_inference_model_has_its_rows(programs, tmp_path):
    rows, loss = model(True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe, keys = run_startup(), np.arange(6).reshape(2, 3, 1) - 3
    exe.run(feed={"ids": keys})
    fluid.io.save_inference_model(str(tmp_path), ["ids"], [rows], exe)
    want = exe.run(fluid.default_main_program().clone(for_test=True), feed={"ids": keys}, fetch_list=[rows])[0]
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        np.testing.assert_array_equal(exe.run(program, feed={feeds[0]: keys}, fetch_list=targets)[0], want)


def test_a_saved_table_that_does_not_fit_is_refused(programs, tmp_path):
    _, loss = model(True)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = run_startup()
    fluid.io.save_persistables(exe, str(tmp_path))
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        _, loss = model(True)
        fluid.optimizer.Adagrad(0.1).minimize(loss)
        exe.run(fluid.default_startup_program())
        with pytest.raises(TriremeError, match="has states 0, the program wants 1"):
            fluid.io.load_params(exe, str(tmp_path))
        with pytest.raises(NotFoundError, match="no saved sparse table"):
            fluid.io.load_vars(exe, str(tmp_path / "other"), vars=["table"])


def test_rows_to_be_kept_are_numbers():
    for numbers, text in [((-1, 2), "rows=-1; a whole number from 0"), ((5, 0.5), "staleness=0.5; a whole number"),
                          ((True, 1), "rows=True"), ((1 << 40, 1), "rows=1099511627776")]:
        with pytest.raises(InvalidArgumentError, match=text):
            fluid.distributed.set_row_cache(*numbers)


def test_mode_geo_keeps_the_optimizer_of_a_table_with_the_trainers(programs):
    _, loss = model(True)
    fluid.optimizer.Adagrad(0.1).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.mode = "geo(4)"
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(0, pservers="a:1,b:1", trainers=2)
    ops = [op.type for op in transpiler.get_trainer_program().global_block().ops]
    assert ops[0] == "prefetch" and ops[-1] == "exchange_deltas" and "lookup_sparse_table_update" in ops
    assert ops.count("pull_sparse") == 1 and "lookup_sparse_table" not in ops
    server = transpiler.get_pserver_program("a:1")
    assert [op.type for op in server.block(1).ops] == ["elementwise_add", "scale"]


def test_a_step_moves_rows_and_no_whole_table(programs):
    _, loss = model(True)
    fluid.optimizer.Adam(0.1).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(0, pservers="a:1,b:1", trainers=2)
    ops = [op.type for op in transpiler.get_trainer_program().global_block().ops]
    assert "prefetch" in ops[:2] and ops.count("pull_sparse") == ops.count("push_sparse") == 1
    assert not {"lookup_sparse_table", "lookup_sparse_table_update"} & set(ops)
    for endpoint in ("a:1", "b:1"):
        server = transpiler.get_pserver_program(endpoint)
        assert [op.type for op in server.global_block().ops].count("lookup_sparse_table_update") == 1
        assert server.global_block().var("table@TILE_beta1_pow_acc_0").persistable


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("alone"), {}

    def run(*args):
        if args not in known:
            alone(*args, "--out", folder / f"{len(known)}.npz", script=TABLES)
            known[args] = results(folder / f"{len(known)}.npz")
        return known[args]

    return run


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("args", [
    ("--optimizer", "sgd"), ("--optimizer", "adagrad"), ("--optimizer", "adam"), ("--optimizer", "decayed"),
    ("--optimizer", "adagrad", "--row-dtype", "bfloat16"), ("--optimizer", "sgd", "--entry-count", 3, "--max-age", 2),
    ("--optimizer", "adam", "--batch", 3)], ids=lambda args: "-".join(str(arg).lstrip("-") for arg in args))
def test_two_servers_and_two_trainers_follow_one_process(args, one_process, tmp_path):
    """Two tables, one of them looked up twice; keys of all kinds, repeated, a padding; batches that leave a trainer empty."""
    launch(2, 2, *args, "--out", tmp_path / "r.npz", script=TABLES)
    assert_follows(results(tmp_path / "r.npz"), one_process(*args))


@needs_mpi
@pytest.mark.mpi
def test_the_number_of_servers_changes_no_bit(one_process, tmp_path):
    want = one_process("--optimizer", "adam")
    for servers in (1, 3):
        launch(servers, 1, "--optimizer", "adam", "--out", tmp_path / "r.npz", script=TABLES)
        for name, array in want.items():
            np.testing.assert_array_equal(results(tmp_path / "r.npz")[name], array, err_msg=name)
    for servers in (1, 3):
        launch(servers, 3, "--optimizer", "adam", "--out", tmp_path / f"{servers}.npz", script=TABLES)
    for name, array in results(tmp_path / "1.npz").items():
        np.testing.assert_array_equal(results(tmp_path / "3.npz")[name], array, err_msg=name)


@needs_mpi
@pytest.mark.mpi
def test_servers_report_what_one_process_reports(tmp_path):
    """Rows, bytes and hot keys, from the servers' shards and from one process; nothing of it is in the trainers. Logs say the same."""
    alone("--optimizer", "adam", "--report", tmp_path / "one", script=TABLES)
    launch(2, 1, "--optimizer", "adam", "--report", tmp_path / "job", script=TABLES, options=("--log", tmp_path / "logs"))
    one, job = (ast.literal_eval((tmp_path / name).read_text()) for name in ("one", "job"))
    assert [report[0] for report in one] == ["user.table", "words.table"]
    for (name, hot, sums, parts), (name2, hot2, sums2, parts2) in zip(one, job):
        assert (name, hot) == (name2, hot2) and (parts, parts2) == (1, 2)
        assert sums[0] == sums2[0] > 20 and sums[2:] == sums2[2:] and 2 * sums[1] == sums2[1]
        assert sums[2] == sums[0] * 4 * (3 if "user" in name else 6) and sums[3] == 2 * sums[2]
        assert hot[0][1] == 8 if "words" in name else 4 <= hot[0][1] <= 8
    logged = figures_of(logs.read(tmp_path / "logs")).tables
    assert [(table.name, table.rows, table.hot_keys) for table in logged] == [(name, sums[0], hot[:8]) for name, hot, sums, _ in one]
    assert not any(table.disk for table in logged)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_rows_that_are_asked_for_ahead_are_those_of_their_step(mode, one_process, tmp_path):
    """A row that comes with the update of the step before has that update in it; only the first step asks by itself."""
    want = one_process("--optimizer", "adam")
    launch(2, 1, "--optimizer", "adam", "--ahead", "--out", tmp_path / "r.npz", script=TABLES, options=("--mode", mode))
    for name, array in want.items():
        np.testing.assert_array_equal(results(tmp_path / "r.npz")[name], array, err_msg=name)
    seen = counts(tmp_path / "r.npz")
    assert 0.6 * seen["wanted"] < seen["ahead"] < seen["wanted"]
    if mode == "sync":
        launch(2, 2, "--optimizer", "adam", "--ahead", "--out", tmp_path / "r.npz", script=TABLES)
        assert_follows(results(tmp_path / "r.npz"), want)


@needs_mpi
@pytest.mark.mpi
def test_kept_rows_are_used_for_so_many_steps_and_no_longer(tmp_path):
    """Each step trains one row by its number: what a trainer reads tells whose update it has seen last."""
    for mode, trainers, keep in [("async", 1, 3), ("async", 2, 3), ("ssp(2)", 2, 50), ("ssp(0)", 2, 3), ("sync", 1, 3), ("async", 1, 0)]:
        launch(2, trainers, "--keep", keep, "--out", tmp_path / "r", script=KEPT, options=("--mode", mode))
        for trainer in range(trainers):
            with np.load(f"{tmp_path}/r.{trainer}.npz") as seen:
                lag, others, cached = seen["lag"], seen["others"], int(seen["cached"])
            bound = 0 if mode == "sync" else keep
            assert lag.min() >= 0 and lag.max() <= bound, (mode, lag)
            if mode == "async" and keep:                               # pulled, used so many times more, pulled again
                np.testing.assert_array_equal(lag, np.arange(len(lag)) % (keep + 1))
            if mode.startswith("ssp"):
                assert others.max() <= int(mode[4]), (mode, others)
            assert (cached > 0) == (mode != "sync" and mode != "ssp(0)" and keep > 0), (mode, cached)


@needs_mpi
@pytest.mark.mpi
def test_kept_rows_of_frequent_keys_save_messages_bytes_and_are_counted(tmp_path):
    sizes = {}
    for keep in (0, 4):
        launch(2, 2, "--zipf", "--keep", keep, "--out", tmp_path / "r", script=KEPT, options=("--mode", "async"))
        with np.load(f"{tmp_path}/r.0.npz") as seen:
            sizes[keep] = int(seen["bytes"])
            rate = int(seen["cached"]) / int(seen["wanted"])
        assert (rate == 0) if keep == 0 else 0.3 < rate < 0.9, rate
    assert sizes[4] < 0.8 * sizes[0], sizes


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("args", [("--optimizer", "sgd"), ("--optimizer", "adam"), ("--optimizer", "adagrad", "--ahead")],
                         ids=lambda args: args[1])
def test_geo_with_one_trainer_is_one_process_but_for_the_rounding_of_differences(args, one_process, tmp_path):
    """The servers have a row plus what the trainer made of it, which is the row that the trainer made; its states stay with it."""
    want = one_process(*args[:2])
    for mode in ("geo(1)", "geo(3)"):
        launch(2, 1, *args, "--out", tmp_path / "r.npz", script=TABLES, options=("--mode", mode))
        for name, array in results(tmp_path / "r.npz").items():
            np.testing.assert_allclose(array, want[name], rtol=2e-5, atol=2e-6, err_msg=f"{mode} {name}")


@needs_mpi
@pytest.mark.mpi
def test_geo_adds_each_trainers_part_once(tmp_path):
    """Each step of a trainer moves a row by 1 in its column, so the servers have half of the steps of both that were exchanged."""
    launch(2, 2, "--keep", 0, "--out", tmp_path / "r", script=KEPT, options=("--mode", "geo(4)"))
    for trainer in range(2):
        with np.load(f"{tmp_path}/r.{trainer}.npz") as seen:
            read, last = seen["read"], seen["last"]
        own = read[:, trainer]
        steps = np.arange(len(own))
        np.testing.assert_array_equal(own, steps // 4 * 4 / 2 + steps % 4)           # its own since the exchange, half of those before
        other = read[:, 1 - trainer]
        assert (np.diff(other) >= 0).all() and set(other) <= set(np.arange(0, 21, 2)) and (np.diff(other)[steps[1:] % 4 != 0] == 0).all()
        assert last[trainer] == 20 and last[1 - trainer] in np.arange(0, 21, 2)


@needs_mpi
@pytest.mark.mpi
def test_a_job_saves_its_rows_and_another_goes_on_with_them(one_process, tmp_path):
    """Two servers, then three; what both did is what one process does, which saves and loads in the middle as well."""
    for name, run in (("one", lambda *args: alone(*args, script=TABLES)),
                      ("job", lambda *args: launch(2 + ("--load" in args), 1, *args, script=TABLES))):
        run("--optimizer", "adam", "--save", tmp_path / name)
        run("--optimizer", "adam", "--load", tmp_path / name, "--out", tmp_path / f"{name}.npz")
    want = results(tmp_path / "one.npz")
    for name in ("words", "user", "losses"):
        np.testing.assert_array_equal(results(tmp_path / "job.npz")[name], want[name], err_msg=name)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_rank_costs_no_bit_of_a_table(victim, tmp_path):
    """Servers find their rows in shared memory; a step that some of them had and others had not is made again."""
    args = ("--optimizer", "adam", "--steps", 80, "--pause", 0.005, "--ahead")
    launch(2, 2, *args, "--out", tmp_path / "whole.npz", script=TABLES)
    job = Launched(2, 2, *args, "--out", tmp_path / "r.npz", "--mark", tmp_path / "begun", script=TABLES)
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    said = "died; the others go on" if victim < 2 else "starting the job again (1 of 3)"
    assert code == 0 and said in text, text
    got = results(tmp_path / "r.npz")
    for name, array in results(tmp_path / "whole.npz").items():
        if name != "losses":
            np.testing.assert_array_equal(got[name], array, err_msg=name + text)
    assert not list(Path("/dev/shm").glob(f"trireme-state-{job.process.pid}-*"))


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode, keep", [("geo(3)", ()), ("async", ("--row-cache", 500, 3))], ids=["geo", "async-kept"])
@pytest.mark.parametrize("victim", [0, 2], ids=["server", "trainer"])
@pytest.mark.turns(2)
def test_a_killed_rank_does_not_confuse_what_a_trainer_has_of_a_table(mode, keep, victim, tmp_path):
    """Of a server that was replaced a lone trainer gets what it would have got; a job that starts again has kept nothing."""
    args = ("--optimizer", "adagrad", "--steps", 90, "--pause", 0.005, "--ahead", *keep)
    launch(2, 1, *args, "--out", tmp_path / "whole.npz", script=TABLES, options=("--mode", mode))
    job = Launched(2, 1, *args, "--out", tmp_path / "r.npz", "--mark", tmp_path / "begun", script=TABLES, options=("--mode", mode))
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    time.sleep(random.uniform(0.0, 0.3))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and ("died" in text), text
    got, want = results(tmp_path / "r.npz"), results(tmp_path / "whole.npz")
    for name in ("words", "user", "fc"):
        assert np.isfinite(got[name]).all(), name + text
        if victim == 0:
            np.testing.assert_array_equal(got[name], want[name], err_msg=name + text)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "ssp(2)", "geo(3)", "sync(backups=1)"])
def test_the_other_modes_train_tables_too(mode, one_process, tmp_path):
    launch(2, 1, "--optimizer", "adagrad", "--out", tmp_path / "r.npz", script=TABLES, options=("--mode", mode))
    for name, array in one_process("--optimizer", "adagrad").items():      # a trainer alone is one process in any mode
        rounding = 2e-5 if mode.startswith("geo") else 0
        np.testing.assert_allclose(results(tmp_path / "r.npz")[name], array, rtol=rounding, atol=rounding / 10, err_msg=name)
    launch(2, 2, "--optimizer", "adagrad", "--steps", 60, "--out", tmp_path / "r.npz", script=TABLES, options=("--mode", mode))
    losses = results(tmp_path / "r.npz")["losses"]
    assert len(losses) == 60 and np.isfinite(losses).all()
    assert np.mean(losses[-20:]) < np.mean(losses[:20])


def test_many_tables_train_in_one_process(programs):
    """More than there were addresses for when each table reserved those of its largest size."""
    ids = fluid.layers.data("ids", [1], dtype="int64")
    rows = [fluid.layers.embedding(ids, [100, 9], is_distributed=True, param_attr=f"t{k}") for k in range(600)]
    loss = fluid.layers.mean(fluid.layers.sums(rows))
    fluid.optimizer.Adam(0.1).minimize(loss)
    types = [op.type for op in fluid.default_main_program().global_block().ops]
    assert types.count("lookup_sparse_table_update") == 600 and "adam" not in types
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    feed = {"ids": np.ones((4, 1), "int64")}
    first = exe.run(feed=feed, fetch_list=[loss])[0]
    assert exe.run(feed=feed, fetch_list=[loss])[0] < first


def test_a_length_of_all_rows_is_refused_by_name():
    ids, normed = layers.data("ids", [1], dtype="int64"), fluid.WeightNormParamAttr(dim=None, name="words")
    with pytest.raises(UnsupportedError, match="embedding: WeightNormParamAttr .* distributed table 'words'(.|\n)*test_sparse_tables.py"):
        layers.embedding(ids, [100, 3], is_distributed=True, param_attr=normed)
    loss = layers.mean(layers.embedding(ids, [100, 3], param_attr=normed))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    assert np.isfinite(exe.run(feed={"ids": np.array([[1], [2]])}, fetch_list=[loss])[0])


def test_a_table_counts_nothing_in_an_estimate_of_memory():
    loss = layers.mean(layers.fc(layers.embedding(layers.data("ids", [1], dtype="int64"), [1 << 40, 3], is_distributed=True), 1))
    fluid.optimizer.SGD(0.5).minimize(loss)
    assert fluid.contrib.memory_usage(fluid.default_main_program(), 10)[2] == "KB"
