"""Deep gradient compression: what is sent of a gradient, what waits, and what a training makes of it."""

import os
import signal
import sys
import time

import numpy as np
import pytest
from job_support import SCRIPT, Launched, launch, needs_mpi, own_of, wait_for_newest
from test_compression import run as digits

import trireme as fluid
from trireme import checkpoint, core, layers
from trireme.job import compression
from trireme.job.mode import parse
from trireme.distributed.transpiler import transpile
from trireme.optimizer import DGCMomentumOptimizer


class Reference:
    """The algorithm for one parameter, in NumPy."""

    def __init__(self, size, momentum, sparsity, begin, period, nesterov=False):
        self.u, self.v = np.zeros(size), np.zeros(size)
        self.momentum, self.sparsity, self.begin, self.period, self.nesterov, self.step = momentum, sparsity, begin, period, nesterov, -1

    def sent(self, gradient):
        self.step += 1
        self.u = self.momentum * self.u + gradient
        now = gradient + self.momentum * self.u if self.nesterov else self.u
        if self.step < self.begin:
            return now
        at = int((self.step - self.begin) * len(self.sparsity) / self.period)
        share = 1 - self.sparsity[min(at, len(self.sparsity) - 1)]
        self.v = self.v + now
        chosen = np.zeros(self.v.size, bool)
        chosen[np.argsort(-np.abs(self.v.ravel()), kind="stable")[:max(1, round(self.v.size * share))]] = True
        chosen = chosen.reshape(self.v.shape)
        result = np.where(chosen, self.v, 0)
        self.u, self.v = np.where(chosen, 0, self.u), np.where(chosen, 0, self.v)
        return result


SIZES = [128, 192]                     # 24576 elements: large enough
SPARSITY = [0.75, 0.9375, 0.984375]


def training(dtype="float64", **options):
    """A parameter whose gradient is fed; the trained parameter, and what is sent."""
    start = np.ones(SIZES)
    w = layers.create_parameter(SIZES, dtype, attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0)))
    g = layers.data("g", SIZES, dtype=dtype, append_batch_size=False)
    loss = layers.reduce_sum(layers.elementwise_mul(w, g))
    DGCMomentumOptimizer(0.5, 0.9, **options).minimize(loss)
    op = next(op for op in fluid.default_main_program().global_block().ops if op.type == "dgc")
    return start, op.output("Grad_out")[0]


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("begin", [0, 4])
def test_twenty_steps_are_those_of_the_algorithm(exe, nesterov, begin):
    w, sent = training(rampup_begin_step=begin, rampup_step=9, sparsity=SPARSITY, use_nesterov=nesterov)
    exe.run(fluid.default_startup_program())
    reference, rng = Reference(SIZES, float(np.float32(0.9)), SPARSITY, begin, 9, nesterov), np.random.default_rng(0)
    for _ in range(20):
        g = rng.normal(size=SIZES)
        want = reference.sent(g)
        w = w - 0.5 * want
        got, = exe.run(feed={"g": g}, fetch_list=[sent])
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(got != 0, want != 0)
        np.testing.assert_allclose(np.array(fluid.global_scope().find_var("w").get_tensor()), w, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(got) == round(w.size * (1 - SPARSITY[-1]))


def test_dense_steps_are_those_of_momentum():
    def train(optimizer):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, y = layers.data("x", [256]), layers.data("y", [1])
            loss = layers.mean(layers.square_error_cost(layers.fc(layers.fc(x, 64, act="tanh"), 1), y))
            optimizer().minimize(loss)
        exe = fluid.Executor()
        exe.run(startup, scope=scope)
        rng = np.random.default_rng(0)
        for _ in range(6):
            x = rng.normal(size=(8, 256)).astype("float32")
            exe.run(main, feed={"x": x, "y": x[:, :1]}, scope=scope)
        return np.array(scope.find_var("fc_0.w_0").get_tensor())

    decay = fluid.regularizer.L2Decay(0.01)
    for nesterov in (False, True):
        want = train(lambda n=nesterov: fluid.optimizer.Momentum(0.05, 0.9, n, regularization=decay))
        got = train(lambda n=nesterov: DGCMomentumOptimizer(0.05, 0.9, 100, use_nesterov=n, regularization=decay))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


def test_own_gradients_are_clipped_from_the_first_compressed_step_on(exe):
    _, sent = training(rampup_begin_step=1, sparsity=[0.0], local_grad_clip_norm=6.0, num_trainers=4)
    exe.run(fluid.default_startup_program())
    g = np.full(SIZES, 2.0)
    first, = exe.run(feed={"g": g}, fetch_list=[sent])
    second, = exe.run(feed={"g": g}, fetch_list=[sent])
    np.testing.assert_array_equal(first, g)
    np.testing.assert_allclose(second, 0.9 * g + g * 3 / np.linalg.norm(g), rtol=1e-6)


def test_a_gradient_that_is_no_number_goes_as_it_is_and_nothing_waits_for_ever(exe):
    _, sent = training(rampup_begin_step=0, sparsity=[0.99])
    exe.run(fluid.default_startup_program())
    g = np.random.default_rng(0).normal(size=SIZES)
    exe.run(feed={"g": g})
    before = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("w_dgc_u_0", "w_dgc_v_0")}
    bad = g.copy()
    bad[1, 1] = np.nan
    got, = exe.run(feed={"g": bad}, fetch_list=[sent])
    np.testing.assert_array_equal(got, bad)
    for name, value in before.items():
        np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), value)


def test_replicas_compress_the_gradient_of_the_whole_batch():
    def train(places):
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, y = layers.data("x", [256], dtype="float64"), layers.data("y", [1], dtype="float64")
            loss = layers.mean(layers.square_error_cost(layers.fc(layers.fc(x, 64, act="tanh"), 1), y))
            DGCMomentumOptimizer(0.02, 0.9, 2, 4, [0.75, 0.99], regularization=fluid.regularizer.L2Decay(0.01)).minimize(loss)
        exe = fluid.Executor()
        exe.run(startup, scope=scope)
        program = fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places) if places else main
        rng = np.random.default_rng(0)
        for _ in range(8):
            x = rng.normal(size=(7, 256))
            exe.run(program, feed={"x": x, "y": x[:, :1]}, scope=scope)
        names = ["fc_0.w_0", "fc_0.w_0_dgc_u_0", "fc_0.w_0_dgc_v_0"]
        assert np.array(scope.find_var("dgc_step_0").get_tensor()) == [7]
        return [np.array(scope.find_var(name).get_tensor()) for name in names]

    for got, want in zip(train(3), train(0)):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_dgc_learns_with_one_gradient_in_fifty():
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    startup.random_seed = 3
    with fluid.program_guard(main, startup):
        x, y = layers.data("x", [256]), layers.data("y", [1], dtype="int64")
        chances = layers.fc(layers.fc(x, 64, act="relu"), 4, act="softmax")
        loss = layers.mean(layers.cross_entropy(chances, y))
        DGCMomentumOptimizer(0.05, 0.9, 10, 40, [0.75, 0.9, 0.98]).minimize(loss)
    exe = fluid.Executor()
    exe.run(startup, scope=scope)
    rng = np.random.default_rng(0)
    centres, costs = rng.normal(size=(4, 256)), []
    for _ in range(120):
        label = rng.integers(0, 4, (16, 1))
        x = (centres[label[:, 0]] + 2 * rng.normal(size=(16, 256))).astype("float32")
        costs.append(exe.run(main, feed={"x": x, "y": label}, fetch_list=[loss], scope=scope)[0].item())
    assert np.mean(costs[-20:]) < 0.1 < 1 < np.mean(costs[:3])


def test_small_and_sparse_parameters_have_momentum(exe):
    ids, y = layers.data("ids", [1], dtype="int64"), layers.data("y", [1])
    rows = layers.embedding(ids, [4000, 8], is_sparse=True)
    loss = layers.mean(layers.square_error_cost(layers.fc(rows, 1), y))
    ops, _ = DGCMomentumOptimizer(0.1, 0.9, 0).minimize(loss)
    assert {op.type for op in ops} == {"momentum"}
    exe.run(fluid.default_startup_program())
    exe.run(feed={"ids": [[1], [2]], "y": np.ones((2, 1), "float32")})


def test_tests_of_a_program_have_nothing_of_it():
    training(rampup_begin_step=0)
    types = {op.type for op in fluid.default_main_program().clone(for_test=True).global_block().ops}
    assert not types & {"dgc", "increment", "sgd"}


def test_trainers_compress_and_servers_only_subtract():
    training("float32", rampup_begin_step=0, regularization=fluid.regularizer.L2Decay(0.1), local_grad_clip_norm=1.0, num_trainers=2)
    result = transpile(fluid.default_main_program(), 2)
    types = [op.type for op in result.trainer.global_block().ops]
    assert types.index("dgc_clip_by_norm") < types.index("dgc") < len(types) - types[::-1].index("send")
    kept = next(op for op in result.trainer.global_block().ops if op.type == "keep_variables").input("X")
    assert kept == ["dgc_step_0", "w_dgc_u_0", "w_dgc_v_0"]
    for server in result.servers:
        assert {op.type for block in server.blocks for op in block.ops} <= {"sgd", "scale", "assign"}


@pytest.mark.parametrize(("options", "error", "text"), [
    ({"sparsity": []}, core.InvalidArgumentError, "sparsity=\\[\\]; a list of shares"),
    ({"sparsity": [0.5, 1.0]}, ValueError, "sparsity must be .* got 1.0"),
    ({"rampup_begin_step": -1}, core.InvalidArgumentError, "rampup_begin_step=-1"),
    ({"rampup_step": 0}, core.InvalidArgumentError, "rampup_step=0"),
    ({"local_grad_clip_norm": 0}, ValueError, "local_grad_clip_norm must be .* got 0"),
    ({"num_trainers": 0}, core.InvalidArgumentError, "num_trainers=0"),
    ({"momentum": 2}, ValueError, "momentum must be"),
])
def test_numbers_that_make_no_sense_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        DGCMomentumOptimizer(**{"learning_rate": 0.1, "momentum": 0.9, "rampup_begin_step": 0, **options})


# -- jobs -------------------------------------------------------------------------------------------------------

JOB = SCRIPT.with_name("dgc.py")
sys.path.insert(0, str(JOB.parent))
import dgc as job  # noqa: E402 - the job's script says what it does


def assert_same(got, want):
    assert got.keys() == want.keys()
    for key, array in want.items():
        np.testing.assert_array_equal(got[key], array, err_msg=str(key))


def test_zeros_do_not_travel_unless_another_method_was_chosen():
    training("float32", rampup_begin_step=0)
    program = fluid.default_main_program()
    assert compression.chosen_for(program, parse("sync")) == "nonzero"
    assert compression.chosen_for(program, parse("geo(3)")) == "none" == compression.chosen_for(fluid.Program(), parse("sync"))
    fluid.distributed.set_compression("int8")
    try:
        assert compression.chosen_for(program, parse("sync")) == "int8"
    finally:
        fluid.distributed.set_compression("none")


@needs_mpi
@pytest.mark.mpi
def test_a_job_computes_the_algorithm_with_accumulators_of_each_trainer(tmp_path):
    launch(2, 2, "--out", tmp_path / "r", script=JOB)
    got = own_of(tmp_path / "r", 2)
    references = [Reference(job.SIZES, 0.9, job.SPARSITY, job.BEGIN, job.PERIOD) for _ in range(2)]
    w = np.ones(job.SIZES)
    for pair in zip(*(job.gradients(trainer) for trainer in range(2))):
        w -= 0.5 * np.mean([reference.sent(gradient) for reference, gradient in zip(references, pair)], axis=0)
    np.testing.assert_array_equal(got[0, "w"], got[1, "w"])
    np.testing.assert_allclose(got[0, "w"], w, rtol=1e-3, atol=1e-3)
    for trainer, reference in enumerate(references):
        np.testing.assert_allclose(got[trainer, "w_dgc_v_0"], reference.v, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(got[trainer, "w_dgc_u_0"], reference.u, rtol=1e-3, atol=1e-3)


@needs_mpi
@pytest.mark.mpi
def test_a_killed_trainer_costs_no_bit_of_the_accumulators(tmp_path):
    launch(2, 2, "--out", tmp_path / "whole", script=JOB)
    started = Launched(2, 2, "--out", tmp_path / "killed", "--mark", tmp_path / "begun", "--pause", 0.02, script=JOB)
    ranks = started.ranks()
    started.await_training(tmp_path / "begun")
    time.sleep(0.4)
    os.kill(ranks.known[3].pid, signal.SIGKILL)
    code, text = started.end()
    assert code == 0 and "starting the job again (1 of 3)" in text, text
    assert_same(own_of(tmp_path / "killed", 2), own_of(tmp_path / "whole", 2))


@needs_mpi
@pytest.mark.mpi
def test_digits_are_learnt_with_few_bytes_on_the_wire():
    got = digits("--dgc", "--steps", 150)
    assert got["accuracy"] > 0.86 and got["loss"] < 0.12
    assert got["bytes"] < 50_000                       # a mean that contains the 20 dense steps; uncompressed it is 204 KB


# -- checkpoints ------------------------------------------------------------------------------------------------


def test_each_trainer_reads_its_own_and_another_number_of_them_the_mean(exe, tmp_path):
    values = {"a@TRAINER@0": [1.0, 2.0], "a@TRAINER@1": [3.0, 6.0], "a@TRAINER@2": [5.0, 1.0], "b": [7.0, 8.0]}
    for name, value in {**values, "n@TRAINER@0": [4, 5], "n@TRAINER@1": [6, 7]}.items():
        dtype = "int64" if name[0] == "n" else "float64" if name[0] == "a" else "float32"
        fluid.default_main_program().global_block().create_var(name=name, shape=[2], dtype=dtype, persistable=True)
        fluid.global_scope().var(name).get_tensor().set(np.array(value, dtype))
    fluid.io.save_checkpoint(exe, tmp_path)
    found = checkpoint.newest(tmp_path)

    def read(name, trainer, trainers):
        tensor = fluid.LoDTensor()
        found.read_into(name, tensor, trainer, trainers)
        return np.array(tensor).tolist()

    assert [read("a", trainer, 3) for trainer in range(3)] == [[1, 2], [3, 6], [5, 1]]
    assert read("a", 0, 1) == read("a", 1, 2) == read("a", 4, 5) == [3, 3]
    assert read("b", 0, 1) == read("b", 1, 3) == [7, 8]
    assert read("n", 1, 2) == [6, 7] and read("n", 2, 3) == [4, 5]     # whole numbers have no mean
    with pytest.raises(core.NotFoundError, match="no array 'c'"):
        read("c", 0, 1)


def stopped_in_the_middle(tmp_path, servers, steps, *words, options):
    """Stop a job of two trainers after so many steps, and return its newest checkpoint."""
    mark = tmp_path / "begun"
    started = Launched(servers, 2, "--out", tmp_path / "r", *words, "--mark", mark, "--pause", 0.04, script=JOB, options=options)
    started.wait_for(lambda: mark.exists() and mark.stat().st_size >= steps, f"{steps} steps")
    started.process.send_signal(signal.SIGUSR1)
    code, text = started.end()
    assert code == 75 and "stopped by SIGUSR1" in text, text
    found = checkpoint.newest(tmp_path / "c")
    found.verify()
    return found


@needs_mpi
@pytest.mark.mpi
def test_a_checkpoint_has_the_accumulators_of_every_trainer(tmp_path):
    """A job that was stopped, in the middle of what waits to be sent, goes on with the same bits; another number of trainers begins with
    the mean."""
    launch(1, 2, "--out", tmp_path / "whole", script=JOB)
    keep = ("--checkpoint", tmp_path / "c")
    found = stopped_in_the_middle(tmp_path, 1, 20, options=keep)
    names = [f"w_dgc_{one}_0" for one in "uv"]
    assert {name for name in found.arrays if "dgc_" in name} == {"dgc_step_0", *(f"{name}@TRAINER@{i}" for name in names for i in range(2))}
    assert not list((tmp_path / "c").glob(".own-*"))
    text = launch(1, 2, "--out", tmp_path / "r", script=JOB, options=(*keep, "--resume"))
    assert f"going on from step {found.step}" in text, text
    assert_same(own_of(tmp_path / "r", 2), own_of(tmp_path / "whole", 2))

    one_process = fluid.Scope()
    training("float32", rampup_begin_step=job.BEGIN, rampup_step=job.PERIOD, sparsity=job.SPARSITY)
    loaded = fluid.io.load_checkpoint(one_process, tmp_path / "c", step=found.step)
    for name in names:
        mean = (loaded[f"{name}@TRAINER@0"] + loaded[f"{name}@TRAINER@1"]) / np.float32(2)
        np.testing.assert_array_equal(np.array(one_process.find_var(name).get_tensor()), mean)


@needs_mpi
@pytest.mark.mpi
def test_a_standby_in_a_trainers_place_makes_its_part_of_checkpoints(tmp_path):
    launch(1, 2, "--out", tmp_path / "whole", script=JOB)
    started = Launched(1, 2, "--out", tmp_path / "r", "--mark", tmp_path / "begun", "--pause", 0.02, script=JOB, replacements=True,
                       options=("--checkpoint", tmp_path / "c", "--checkpoint-steps", 5))
    ranks = started.ranks()
    wait_for_newest(tmp_path / "c", started.process)
    os.kill(ranks.known[2].pid, signal.SIGKILL)
    code, text = started.end()
    assert code == 0, text
    assert_same(own_of(tmp_path / "r", 2), own_of(tmp_path / "whole", 2))
    last = checkpoint.newest(tmp_path / "c")
    assert last.step == job.STEPS
    for (trainer, name), array in own_of(tmp_path / "r", 2).items():
        np.testing.assert_array_equal(last[f"{name}@TRAINER@{trainer}" if "dgc_" in name and name != "dgc_step_0" else name], array)


def references(steps):
    """The algorithm after so many steps of each trainer, and all that was sent until then."""
    made, sent = [Reference(job.SIZES, 0.9, job.SPARSITY, job.BEGIN, job.PERIOD) for _ in steps], 0
    for trainer, (reference, count) in enumerate(zip(made, steps)):
        for gradient in job.gradients(trainer)[:count]:
            sent = sent + reference.sent(gradient)
    return made, sent


def assert_accumulated(found, steps):
    for trainer, reference in enumerate(references(steps)[0]):
        np.testing.assert_allclose(found[f"w_dgc_v_0@TRAINER@{trainer}"], reference.v, atol=1e-3)
        np.testing.assert_allclose(found[f"w_dgc_u_0@TRAINER@{trainer}"], reference.u, atol=1e-3)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("mode", "fewer", "share"), [
    ("async", 45, 0.5), ("geo(3)", 0, 0.25), ("sync", -45, None),
    *(pytest.param(*one, marks=pytest.mark.soak) for one in [("ssp(1)", 0, 0.5), ("geo(3)", 45, 0.25), ("average(3)", 0, 0.25),
                                                             ("sync(backups=1)", 0, None)])])
def test_trainers_at_different_steps_leave_what_each_has_behind_its_own(mode, fewer, share, tmp_path):
    """Also one that has made its last step, and one that has nothing to do after the resumption. What the parameter has, and what waits, is
    all that there was."""
    keep = ("--checkpoint", tmp_path / "c", "--mode", mode)
    found = stopped_in_the_middle(tmp_path, 2, 30, "--fewer", fewer, options=keep)
    assert 0 < found.step < job.STEPS
    assert_accumulated(found, [found.trainer(i)[0] or found.step for i in range(2)])     # in lockstep the place of one is known
    text = launch(2, 2, "--out", tmp_path / "r", "--fewer", fewer, script=JOB, options=(*keep, "--resume"))
    assert f"going on from step {found.step}" in text, text
    last = checkpoint.newest(tmp_path / "c")
    steps = [job.STEPS - max(-fewer, 0), job.STEPS - max(fewer, 0)]
    assert_accumulated(last, steps)
    if share:
        np.testing.assert_allclose(last["w"], 1 - share * references(steps)[1], atol=2e-3)


@needs_mpi
@pytest.mark.mpi
def test_a_dead_trainers_accumulators_alone_are_lost(tmp_path):
    started = Launched(1, 2, "--out", tmp_path / "r", "--mark", tmp_path / "begun", "--pause", 0.02, script=JOB,
                       options=("--checkpoint", tmp_path / "c", "--checkpoint-steps", 10, "--mode", "async", "--restarts", 0))
    ranks = started.ranks()
    started.await_training(tmp_path / "begun")
    os.kill(ranks.known[2].pid, signal.SIGKILL)
    _, text = started.end()
    assert "the others go on" in text, text
    last = checkpoint.newest(tmp_path / "c")
    last.verify()
    assert last.step == job.STEPS
    reference, = references([job.STEPS])[0]
    np.testing.assert_allclose(last["w_dgc_v_0@TRAINER@0"], reference.v, atol=1e-3)
    assert not last["w_dgc_v_0@TRAINER@1"].any() and not last["w_dgc_u_0@TRAINER@1"].any()


@needs_mpi
@pytest.mark.mpi
def test_a_checkpoint_that_cannot_have_all_accumulators_is_refused(tmp_path):
    code, text = Launched(1, 2, "--out", tmp_path / "r", script=JOB,
                          options=("--checkpoint", tmp_path / "c", "--mode", "sync(degraded)", "--restarts", 0)).end()
    assert code != 0 and "each of the 2 trainers accumulates gradients of its own" in text and "train in another mode" in text, text
    text = launch(1, 2, "--out", tmp_path / "r", "--steps", 2, "--save", tmp_path / "s", script=JOB)
    assert "start the job with --checkpoint FOLDER" in text and not checkpoint.steps(tmp_path / "s"), text
    text = launch(1, 2, "--out", tmp_path / "r", "--steps", 5, "--save", tmp_path / "s", script=JOB,
                  options=("--checkpoint", tmp_path / "c"))
    assert "w_dgc_v_0@TRAINER@1" in checkpoint.newest(tmp_path / "s"), text
