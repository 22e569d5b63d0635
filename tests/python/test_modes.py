"""The modes of consistency, in real jobs."""

import signal

import numpy as np
import pytest
from job_support import MPIS, SCRIPT, Launched, ended, alone, each_mpi, environment, launch, needs_mpi, results

import trireme as fluid
from trireme.job import mode as modes
from trireme.distributed.transpiler import transpile
from trireme.errors import TriremeError

pytestmark = pytest.mark.mpi
ALONE = ["async", "ssp(2)", "geo(3)", "sync(backups=1)", "sync(degraded)"]


def run(tmp_path, servers, trainers, mode, *args):
    out = tmp_path / f"{servers}-{trainers}-{mode}.npz"
    code, text = ended(servers, trainers, "--out", out, *args, options=("--mode", mode))
    assert code == 0, text
    return results(out)


@needs_mpi
@pytest.mark.parametrize("mode", ["async", "ssp(1)", "sync(backups=1)", "sync(degraded)"])
def test_a_trainer_alone_is_one_process_in_any_mode(mode, tmp_path):
    alone("--optimizer", "adam", "--out", tmp_path / "one.npz")
    one, job = results(tmp_path / "one.npz"), run(tmp_path, 2, 1, mode, "--optimizer", "adam")
    for name in one:
        assert np.array_equal(one[name], job[name]), name


ONE_PARAMETER = """
import sys
import numpy as np
import trireme as fluid

x, y, ids = fluid.layers.data("x", [4]), fluid.layers.data("y", [1]), fluid.layers.data("ids", [1], dtype="int64")
guess = fluid.layers.fc(x, 1, param_attr="w", bias_attr=False)
if "table" in sys.argv:
    guess = guess + fluid.layers.embedding(ids, [50, 1], is_distributed=True, param_attr="t")
loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random = np.random.default_rng(0)
for step in range(6):
    value = random.normal(size=(2, 4)).astype("float32")
    cost, = exe.run(feed={"x": value, "y": value.sum(1, keepdims=True), "ids": np.full((2, 1), step % 2)}, fetch_list=[loss])
    print("step", step, cost, np.array(fluid.global_scope().find_var("w").get_tensor()).ravel(), flush=True)
"""


@needs_mpi
@pytest.mark.parametrize("what", ["", "table"])
def test_a_server_that_holds_nothing_that_a_step_needs_makes_no_step_late(what, tmp_path):
    script = tmp_path / "one_parameter.py"
    script.write_text(ONE_PARAMETER)
    steps = [line for line in alone(what, script=script).splitlines() if line.startswith("step")]
    text = launch(3, 1, what, script=script, options=("--mode", "sync(backups=1)"))
    assert len(set(steps)) == 6
    assert [line for line in text.splitlines() if line.startswith("step")] == steps


@needs_mpi
def test_geo_with_one_trainer_is_one_process_but_for_the_rounding_of_differences(tmp_path):
    alone("--optimizer", "adam", "--out", tmp_path / "one.npz")
    one, job = results(tmp_path / "one.npz"), run(tmp_path, 2, 1, "geo(3)", "--optimizer", "adam")
    for name in one:
        np.testing.assert_allclose(job[name], one[name], rtol=1e-4, atol=1e-5, err_msg=name)


@needs_mpi
@pytest.mark.parametrize("mode", [*ALONE, "async(compensation=0.04)"])
def test_trainers_end_with_numbers_in_every_mode(mode, tmp_path):
    job = run(tmp_path, 2, 3, mode, "--optimizer", "momentum", "--steps", 40)
    for name, value in job.items():
        if name != "losses":
            assert np.isfinite(value).all(), name


@needs_mpi
@pytest.mark.parametrize("version, mode", [*[(max(MPIS, default=""), mode) for mode in ALONE],
                                           *[(one, "async") for one in sorted(MPIS)[:-1]]])
def test_in_asynchronous_modes_a_death_interrupts_nobody(version, mode, tmp_path):
    out = tmp_path / "params.npz"
    code, text = Launched(2, 3, "--steps", 60, "--pause", 0.005, "--out", out, "--fault", "kill", "--fault-trainer", 1,
                          version=version, options=("--mode", mode)).end()
    assert code == 0, text
    assert "rank 3 (trainer 1) died; the others go on" in text
    assert "trainer 2 of 3" in text and "trainer 1 of 3" not in text
    assert all(np.isfinite(value).all() for name, value in results(out).items() if name != "losses")


@each_mpi
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.turns(2)
def test_trainers_may_end_further_apart_than_a_rank_may_be_silent(version, mode):
    """Those that have ended wait for the last one, and must not think that the others are dead."""
    code, text = Launched(2, 3, "--linger", 3, version=version, options=("--mode", mode, "--restarts", 0),
                          env=environment(TRIREME_TIMEOUT="1.5")).end()
    assert code == 0, text
    assert "silent" not in text and text.count(" of 3: ") == 3


@needs_mpi
@pytest.mark.parametrize("mode", ["async", "sync(degraded)"])
def test_a_trainer_that_was_thought_dead_changes_nothing_when_it_wakes(mode, tmp_path):
    job = Launched(2, 2, "--steps", 150, "--pause", 0.02, "--mark", tmp_path / "begun", options=("--mode", mode),
                   env=environment(TRIREME_TIMEOUT="1.5"))
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    signal.pidfd_send_signal(ranks.known[3].fd, signal.SIGSTOP)
    job.await_word("lost.3")
    signal.pidfd_send_signal(ranks.known[3].fd, signal.SIGCONT)
    code, text = job.end()
    assert code == 0, text
    assert "rank 3 (trainer 1) was silent for 1.5 s; the others go on" in text
    assert "trainer 0 of 2" in text and "trainer 1 of 2" not in text


@needs_mpi
def test_the_death_of_the_last_trainer_fails_the_job():
    code, text = Launched(1, 1, "--steps", 60, "--fault", "kill", options=("--mode", "async", "--restarts", 0)).end()
    assert code != 0, text
    assert "trainer 0" in text


def net():
    x = fluid.layers.data("x", [4])
    hidden = fluid.layers.fc(x, 3)
    loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0))
    fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1)).minimize(loss)
    return fluid.default_main_program()


@pytest.mark.parametrize("mode", ["async", "ssp(1)"])
def test_the_global_norm_is_taken_where_the_whole_gradient_is(mode):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        result = transpile(net(), 2, mode=modes.parse(mode))
    ours = [op.type for op in result.trainer.global_block().ops]
    assert "elementwise_div" in ours and ours.index("elementwise_div") < ours.index("send")
    for server in result.servers:                      # what clips is done; weight decay is the servers'
        assert {op.type for op in server.global_block().ops} == {"scale", "sum", "sgd"}


def test_a_learning_rate_of_its_own_goes_to_the_servers_where_trainers_clip():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [4])
        loss = fluid.layers.mean(fluid.layers.fc(x, 3, param_attr=fluid.ParamAttr(learning_rate=0.5)))
        fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)).minimize(loss)
        result = transpile(fluid.default_main_program(), 2, mode=modes.parse("async"))
    assert sorted(op.type for server in result.servers for op in server.global_block().ops) == ["scale", "sgd", "sgd"]


@pytest.mark.parametrize("mode", ["sync", "sync(degraded)", "sync(backups=1)"])
def test_servers_that_make_the_same_updates_agree_on_the_global_norm(mode):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        result = transpile(net(), 2, mode=modes.parse(mode))
    assert "sum_of_squares" not in [op.type for op in result.trainer.global_block().ops]
    for server in result.servers:
        assert "exchange_squares" in [op.type for op in server.global_block().ops]


def test_geo_keeps_the_optimizers_with_the_trainers():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        result = transpile(net(), 2, mode=modes.parse("geo(5)"))
    ours = [op.type for op in result.trainer.global_block().ops]
    assert ours.count("sgd") == 4 and ours[-1] == "exchange_deltas"
    assert "sgd" not in [op.type for op in result.idle.global_block().ops]
    for server in result.servers:
        assert {op.type for op in server.global_block().ops} == {"elementwise_add"}


@pytest.mark.parametrize("text, message", [
    ("asynch", "possible are sync"), ("sync(few)", "or degraded"), ("ssp", "ssp needs a number"),
    ("geo(0)", "a whole number from 1 to 1073741824"), ("async(compensation=nan)", "a number from 0 to 1000000")])
def test_a_wrong_mode_is_explained(text, message):
    with pytest.raises(TriremeError, match=message):
        fluid.distributed.set_mode(text)


def test_the_earlier_name_of_degraded_sync_means_the_same():
    assert modes.parse("sync(fewer)") == modes.parse(" sync( degraded )") and modes.parse("sync(fewer)").text == "sync(degraded)"


@pytest.mark.parametrize("word", [None, 3, b"sync"])
def test_a_mode_and_a_compression_are_texts(word):
    with pytest.raises(TypeError, match=f"set_mode takes a text such as 'ssp.3.', got {word!r}"):
        fluid.distributed.set_mode(word)
    with pytest.raises(TypeError, match=f"set_compression takes a text such as 'int8', got {word!r}"):
        fluid.distributed.set_compression(word)


@needs_mpi
def test_a_mode_chosen_after_the_first_step_is_refused(tmp_path):
    said = launch(1, 1, tmp_path, script=SCRIPT.with_name("too_late.py"))
    whats = ("set_mode('ssp(3)')", "set_compression('int8')", "set_row_cache(rows=10, staleness=2)", f"checkpoint('{tmp_path}')",
             "all_mean('mean_0.tmp_0')")
    assert all(f"{what} comes after the first step" in said for what in whats) and "then True" in said, said
