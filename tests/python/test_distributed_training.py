"""Jobs of real ranks train what one process trains."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from job_support import (
    MPIS, SCRIPT, SEQUENCES, SMALL, Launched, alone, each_mpi, ended, environment, job_lines, launch, launch_under_mpi, needs_mpi, results,
)

import trireme as fluid
from trireme.launch.mpi import Layout, command_line
from trireme.launch.programs import server_program

pytestmark = [needs_mpi, pytest.mark.mpi]


def assert_equal(got, want):
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def assert_follows(got, want):
    """Equal but for the order of sums: losses to 1e-6, parameters to 1e-6 of what their values are."""
    assert got.keys() == want.keys()
    np.testing.assert_allclose(got["losses"], want["losses"], rtol=1e-6, err_msg="losses")
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-6, atol=1e-6 * np.abs(array).max(), err_msg=name)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The results of one process, for each optimizer."""
    folder, known = tmp_path_factory.mktemp("alone"), {}

    def run(optimizer):
        if optimizer not in known:
            alone("--optimizer", optimizer, "--out", folder / f"{optimizer}.npz")
            known[optimizer] = results(folder / f"{optimizer}.npz")
        return known[optimizer]

    return run


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.turns(2)
def test_parameters_are_bitwise_those_of_one_process(optimizer, servers, one_process, tmp_path):
    launch(servers, 1, "--optimizer", optimizer, "--out", tmp_path / "r.npz")
    assert_equal(results(tmp_path / "r.npz"), one_process(optimizer))


def test_the_number_of_servers_changes_no_bit_for_several_trainers(tmp_path):
    """Each sum is taken in the trainers' order, wherever it is taken."""
    for servers in (1, 2, 3):
        launch(servers, 3, "--optimizer", "adam", "--out", tmp_path / f"{servers}.npz")
    for servers in (2, 3):
        assert_equal(results(tmp_path / f"{servers}.npz"), results(tmp_path / "1.npz"))


@pytest.mark.parametrize("trainers", [2, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.turns(2)
def test_trainers_follow_one_process_on_the_whole_batch(optimizer, trainers, one_process, tmp_path):
    """Regularized, under a schedule; the last batches are uneven, and empty for some."""
    launch(2, trainers, "--optimizer", optimizer, "--out", tmp_path / "r.npz")
    assert_follows(results(tmp_path / "r.npz"), one_process(optimizer))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("width", [9, 4000])
@pytest.mark.turns(2)
def test_clipped_by_the_global_norm_of_all_servers(optimizer, width, tmp_path):
    """The norm is the same number in every server, and in one process; a wide layer is cut over the servers."""
    args = ("--optimizer", optimizer, "--clip", 0.2, "--width", width, "--steps", 10)
    alone(*args, "--out", tmp_path / "one.npz")
    one = results(tmp_path / "one.npz")
    alone(*args, "--clip", 1e9, "--out", tmp_path / "free.npz")
    assert np.abs(results(tmp_path / "free.npz")["losses"] - one["losses"]).max() > 1e-4      # it was clipped
    for servers in (1, 2, 3):
        launch(servers, 1, *args, "--out", tmp_path / "r.npz")
        assert_equal(results(tmp_path / "r.npz"), one)


def test_several_trainers_clip_by_the_norm_of_their_mean(tmp_path):
    args = ("--optimizer", "adam", "--clip", 0.2)
    alone(*args, "--out", tmp_path / "one.npz")
    for servers in (1, 3):
        launch(servers, 2, *args, "--out", tmp_path / f"{servers}.npz")
    assert_equal(results(tmp_path / "3.npz"), results(tmp_path / "1.npz"))
    assert_follows(results(tmp_path / "3.npz"), results(tmp_path / "one.npz"))


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_server_that_is_missing_in_the_exchange_is_named(blow, tmp_path):
    job = Launched(3, 1, "--clip", 0.2, "--steps", 4000, "--pause", 0.002, "--mark", tmp_path / "begun",
                   options=("--standbys", 0, "--restarts", 0))
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    signal.pidfd_send_signal(ranks.known[1].fd, blow)
    code, text = job.end()
    assert code != 0
    how = "died" if blow == signal.SIGKILL else "was silent for 3.0 s"
    assert re.search(rf"rank 1 \(server 1, .*\) {how}", "\n".join(job_lines(text))), text


def test_a_large_parameter_is_cut_and_comes_back_whole(tmp_path):
    args = ("--optimizer", "adam", "--steps", 6, "--width", 4000)
    alone(*args, "--out", tmp_path / "one.npz")
    one = results(tmp_path / "one.npz")
    for servers in (2, 3):
        launch(servers, 1, *args, "--out", tmp_path / "r.npz")
        assert_equal(results(tmp_path / "r.npz"), one)


def test_sparse_gradients_train_the_same(tmp_path):
    alone("--sparse", "--out", tmp_path / "one.npz")
    launch(2, 2, "--sparse", "--out", tmp_path / "r.npz")
    assert_follows(results(tmp_path / "r.npz"), results(tmp_path / "one.npz"))


@pytest.mark.parametrize("options", [(), ("--groups",), ("--sparse", "--optimizer", "adam")])
def test_an_lstm_over_ragged_sequences_follows_one_process(options, tmp_path):
    """Sequences, or groups of them, are dealt out unevenly; the last batches leave a trainer without any."""
    alone(*options, "--out", tmp_path / "one.npz", script=SEQUENCES)
    launch(2, 2, *options, "--out", tmp_path / "two.npz", script=SEQUENCES)
    one, two = results(tmp_path / "one.npz"), results(tmp_path / "two.npz")
    assert len(one["losses"]) >= 30 and one["losses"][-3:].mean() < 0.5 * one["losses"][0]
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=1e-6)
    assert two.keys() == one.keys()
    for name, array in one.items():                    # Adam divides by the smallest of gradients
        np.testing.assert_allclose(two[name], array, rtol=0, atol=2e-5 * np.abs(array).max(), err_msg=name)


def test_the_weight_of_a_batch_can_be_told(one_process, tmp_path):
    launch(1, 2, "--weight", "samples", "--out", tmp_path / "r.npz")
    assert_follows(results(tmp_path / "r.npz"), one_process("sgd"))
    # Slices of 1 and 2 samples that weigh the same are another training.
    launch(1, 2, "--weight", "one", "--batch", 3, "--out", tmp_path / "w.npz", "--steps", 6)
    launch(1, 2, "--weight", "samples", "--batch", 3, "--out", tmp_path / "s.npz", "--steps", 6)
    w, s = results(tmp_path / "w.npz"), results(tmp_path / "s.npz")
    assert np.abs(w["fc_1.b_0"] - s["fc_1.b_0"]).max() > 1e-5


@pytest.mark.parametrize("servers", [1, 3])
def test_hundreds_of_small_parameters_travel_in_few_messages(servers):
    """Parameters of 80 and 1600 bytes: many to a message, and little beside their values."""
    text = launch(servers, 1, "--layers", 200, "--width", 20, script=SMALL)
    step = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    assert step["parameters"] == 401 and step["values"] == 200 * 4 * (20 * 20 + 20) + 4
    for way in ("sent", "received"):
        messages, size = step[f"messages_{way}"], step[f"bytes_{way}"]
        assert servers <= messages <= 20 * servers                 # 3 to 5 for each server on an idle machine
        assert step["values"] < size <= 1.02 * step["values"] + 64 * messages


@pytest.mark.parametrize("ahead", [[], ["--ahead"]], ids=["asked at the beginning", "asked ahead"])
def test_the_rows_of_many_tables_travel_in_few_messages(ahead):
    """Questions, answers and gradients of all tables share messages with each other, and with the small parameters."""
    servers = 2
    text = launch(servers, 1, "--tables", 30, *ahead, script=SMALL.with_name("many_tables.py"))
    step = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    assert servers <= step["sent"] <= 5 * servers
    assert servers <= step["received"] <= 8 * servers
    assert step["losses"][-1] < step["losses"][0]


def test_every_reader_waits_for_a_parameter_on_its_way():
    """The server sleeps while a step's run returns; then the parameters are looked at in every way."""
    text = launch_under_mpi(1, 1, script=SMALL.with_name("late.py"), env=environment(TRIREME_TIMEOUT="30"))
    assert "all was new" in text


def test_all_trainers_save_and_one_writes(tmp_path):
    launch(1, 3, "--save", tmp_path / "model", "--out", tmp_path / "r.npz")
    for name, array in results(tmp_path / "r.npz").items():
        if name != "losses":
            fluid.default_main_program().global_block().create_var(name=name, shape=array.shape, dtype="float32",
                                                                   persistable=True)
            fluid.io.load_vars(fluid.Executor(), str(tmp_path / "model"), vars=[name])
            np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), array)


@each_mpi
def test_every_mpi_gives_the_same_bits(version, one_process, tmp_path):
    launch_under_mpi(2, 1, "--optimizer", "adam", "--out", tmp_path / "r.npz", version=version)
    assert_equal(results(tmp_path / "r.npz"), one_process("adam"))


@each_mpi
@pytest.mark.turns(2, at=1)
def test_more_ranks_than_cores(version, one_process, tmp_path):
    text = launch_under_mpi(3, 6, "--out", tmp_path / "r.npz", version=version)
    assert_follows(results(tmp_path / "r.npz"), one_process("sgd"))
    assert len([line for line in text.splitlines() if line.startswith("trainer ")]) == 6


def test_every_trainer_prints_the_loss_of_all(one_process):
    text = launch(1, 3)
    shown = {line.partition(": ")[2] for line in text.splitlines() if line.startswith("trainer ")}
    losses = one_process("sgd")["losses"]
    assert len(shown) <= 2 and all(float(line.split(" -> ")[0]) == pytest.approx(losses[0], abs=2e-6) for line in shown)


@each_mpi
def test_a_plain_mpirun_line_is_enough(version, one_process, tmp_path):
    mpi = MPIS[version]
    line = command_line(mpi, Layout(2, 2), [server_program()],
                        [sys.executable, str(SCRIPT), "--out", str(tmp_path / "r.npz")])
    env = environment(**({"LD_LIBRARY_PATH": mpi.libdir} if mpi.major < 5 else {}))
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_follows(results(tmp_path / "r.npz"), one_process("sgd"))


def test_fluids_transpiler_in_a_job(one_process, tmp_path):
    launch(2, 2, "--transpile", "ps0:6174,ps1:6174", "--out", tmp_path / "r.npz")
    assert_follows(results(tmp_path / "r.npz"), one_process("sgd"))
    code, text = ended(1, 2, "--transpile", "ps0:6174,ps1:6174")
    assert code == 1 and "the program was transpiled for 2 servers, the job has 1" in text


def test_a_process_under_mpirun_can_train_by_itself():
    mpirun = next(iter(MPIS.values())).mpirun
    done = subprocess.run([mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "2", sys.executable, SCRIPT],
                          env=environment(TRIREME_LOCAL="1"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.count("trainer 0 of 1") == 2, done.stdout + done.stderr


def test_one_process_needs_no_job():
    assert not fluid.distributed.is_distributed()
    assert (fluid.distributed.trainer_index(), fluid.distributed.trainer_count(), fluid.distributed.server_count()) == (0, 1, 0)


def test_slices_are_the_batch_in_order():
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 7, 12):
        for count in (1, 2, 3, 5):
            batch = {"x": rng.normal(size=(size, 2)), "y": list(range(size))}
            parts = [fluid.distributed.slice_of(batch, i, count) for i in range(count)]
            np.testing.assert_array_equal(np.concatenate([part["x"] for part in parts]), batch["x"])
            assert sum((part["y"] for part in parts), []) == batch["y"]
            assert max(len(p["y"]) for p in parts) - min(len(p["y"]) for p in parts) <= 1


@pytest.mark.parametrize("index, count", [(3, 3), (5, 3), (-1, 3), (0, 0)])
def test_a_slice_that_is_none_is_refused(index, count):
    with pytest.raises(ValueError, match=f"slice_of: part {index} of {count}; parts 0 to count - 1"):
        fluid.distributed.slice_of([1, 2], index, count)


@pytest.mark.parametrize("mistake, message", [
    (lambda: fluid.distributed.shard([1, 2]), "shard takes a reader"),
    (lambda: fluid.distributed.all_mean("loss"), "all_mean takes variables"),
    (lambda: fluid.distributed.set_batch_weight(-1), "set_batch_weight: -1"),
    (lambda: fluid.distributed.set_batch_weight("7"), "set_batch_weight takes a number of samples, or None, got '7'"),
    (lambda: fluid.distributed.prefetch([3]), r"prefetch takes a feed, a dict by names, got \[3\]"),
    (lambda: fluid.distributed.checkpoint(""), "checkpoint: '' is no folder"),
    (lambda: fluid.distributed.checkpoint(None), "checkpoint: None is no folder"),
    (lambda: fluid.distributed.checkpoint("c", every_steps=1.5), "checkpoint: every_steps=1.5; a whole number from 1"),
    (lambda: fluid.distributed.checkpoint("c", every_seconds="x"), "checkpoint: every_seconds='x'; a number above 0 is possible"),
    (lambda: fluid.distributed.checkpoint("c", keep=None), "checkpoint: keep=None; a whole number from 1"),
    (lambda: fluid.distributed.checkpoint("c", every_steps=10**30),
     "checkpoint: every_steps=10{30}; a whole number from 1 to 9223372036854775807 is possible"),
    (lambda: list(fluid.distributed.prefetched(3)), "prefetched takes feeds one after the other, got 3"),
    (lambda: fluid.distributed.slice_of(3, 0, 1), "slice_of takes a list, an array, or a dict or tuple of arrays, got 3"),
    (lambda: fluid.distributed.table_report("clicks"), "table_report takes a Program, got 'clicks'"),
    (lambda: fluid.distributed.set_mode("sync\0"), r"mode 'sync\\x00'"),
])
def test_mistakes_are_explained(mistake, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mistake()
