"""A replayed step hands out what the step has fetched: a script that goes on computes the metrics of one that was not stopped."""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from job_support import MPIS, SCRIPT, Launched, launch, launch_under_mpi, needs_mpi, own_of

import trireme as fluid
from trireme.distributed import fetched
from trireme.distributed.fetched import Fetched, hand_out

METRICS = SCRIPT.with_name("metrics.py")


class OneOf:
    """A job of which Fetched asks who it is."""

    def __init__(self, index=0, trainers=2):
        self.index, self.trainers = index, trainers


def kept(folder, first=0, index=0, shared=(), trainers=2):
    return Fetched.of(str(folder), OneOf(index, trainers), first, shared)


def found(file, step, name):
    value, lod = file.find(step, name)
    assert lod == []
    return value


def loss(value):
    return np.array([value], "float32")


# -- the file -------------------------------------------------------------------------------------------------------


def test_fetched_values_are_found_by_step_and_name(tmp_path):
    file = kept(tmp_path)
    file.keep(1, ("loss",), [loss(0.5)])
    file.keep(3, ("acc", "loss"), [np.array([[1, 2], [3, 4]]), loss(0.25)])
    file.keep(4, ("loss",), [loss(np.nan)])
    file = kept(tmp_path, first=4)
    assert found(file, 1, "loss") == 0.5
    assert file.find(2, "loss") is None
    np.testing.assert_array_equal(found(file, 3, "acc"), [[1, 2], [3, 4]])
    assert found(file, 3, "acc").dtype == np.int64 and found(file, 3, "loss") == 0.25 and file.find(3, "x") is None
    assert np.isnan(found(file, 4, "loss")) and file.find(5, "loss") is None


def test_a_step_that_fetches_one_number_takes_twelve_bytes(tmp_path):
    file = kept(tmp_path)
    file.keep(1, ("loss",), [loss(1)])
    begun = Path(file.path).stat().st_size
    for step in range(2, 102):
        file.keep(step, ("loss",), [loss(step)])
    assert Path(file.path).stat().st_size - begun == 1200


def test_steps_that_do_not_count_are_forgotten(tmp_path):
    file = kept(tmp_path)
    for step in range(1, 11):
        file.keep(step, ("loss",), [loss(step)])
    file = kept(tmp_path, first=6)
    assert found(file, 6, "loss") == 6 and file.find(7, "loss") is None
    file.keep(7, ("loss",), [loss(70)])
    file = kept(tmp_path, first=10)
    assert found(file, 6, "loss") == 6 and found(file, 7, "loss") == 70 and file.find(8, "loss") is None
    assert kept(tmp_path, first=0).find(1, "loss") is None                   # a training that begins anew


def test_a_training_that_begins_anew_removes_what_one_with_more_trainers_left(tmp_path):
    kept(tmp_path, index=3, trainers=4).keep(1, ("loss",), [loss(1)])
    kept(tmp_path, index=0, trainers=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_that_is_not_whole_is_none(cut, tmp_path):
    file = kept(tmp_path)
    for step in (1, 2):
        file.keep(step, ("loss",), [loss(step)])
    with open(file.path, "r+b") as out:
        out.truncate(Path(file.path).stat().st_size - cut)
    file = kept(tmp_path, first=2)
    assert found(file, 1, "loss") == 1 and file.find(2, "loss") is None
    file.keep(3, ("loss",), [loss(3)])
    assert found(kept(tmp_path, first=3), 3, "loss") == 3


def test_damaged_files_give_nothing_that_was_not_kept(tmp_path):
    file = kept(tmp_path)
    for step in range(1, 30):
        file.keep(step, ("loss",), [loss(step)])
    whole = Path(file.path).read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        Path(file.path).write_bytes(damaged)
        read = kept(tmp_path, first=29)
        got = [read.find(step, "loss") for step in range(1, 30)]
        assert all(one is None or one[0] in range(1, 30) for one in got)


def test_shared_numbers_are_taken_from_another_trainer(tmp_path):
    kept(tmp_path, index=1).keep(1, ("loss", "acc"), [loss(0.5), loss(1)])
    file = kept(tmp_path, first=1, shared=["loss"])
    assert found(file, 1, "loss") == 0.5 and file.find(1, "acc") is None


def test_large_values_and_files_have_a_bound(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(fetched, "_ALL_BYTES", 200)
    file = kept(tmp_path)
    for step in range(1, 20):
        file.keep(step, ("loss", "big"), [loss(step), np.zeros(1025, "float32")])
    assert Path(file.path).stat().st_size <= 200 and capfd.readouterr().err.count("what further steps fetch is not kept") == 1
    file = kept(tmp_path, first=19)
    assert found(file, 1, "loss") == 1 and file.find(1, "big") is None and file.find(19, "loss") is None


def test_a_value_is_handed_out_as_a_run_gives_it():
    assert float(hand_out((loss(2), []), loss(0))) == 2
    tensor = hand_out((np.arange(6).reshape(3, 2), [[0, 1, 3]]), fluid.LoDTensor())
    assert tensor.lod() == [[0, 1, 3]] and tensor.shape() == [3, 2]


def test_a_process_that_wakes_writes_to_another_file(tmp_path):
    slept = kept(tmp_path)
    slept.keep(1, ("loss",), [loss(1)])
    replacement = kept(tmp_path, first=1)
    replacement.keep(2, ("loss",), [loss(2)])
    slept.keep(2, ("loss",), [loss(-1)])
    replacement.keep(3, ("loss",), [loss(3)])
    file = kept(tmp_path, first=3)
    assert [found(file, step, "loss") for step in (1, 2, 3)] == [1, 2, 3]


def test_a_disk_that_is_full_is_said_and_costs_nothing_else(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    file = kept(tmp_path / "file")
    file.keep(1, ("loss",), [loss(1)])
    file.keep(2, ("loss",), [loss(1)])
    assert capfd.readouterr().err.count("Not a directory") == 1


# -- jobs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "r"
    launch(2, 2, "--out", out, script=METRICS)
    return own_of(out, 2)


def assert_same(out, undisturbed, text, replayed):
    """All that the script has seen is what one saw to which nothing happened."""
    got = own_of(out, 2)
    assert got[0, "replayed"] in replayed, text
    for (index, name), value in undisturbed.items():
        if name != "replayed":
            np.testing.assert_array_equal(got[index, name], value, err_msg=f"{name} of trainer {index}\n{text}")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("kill", [0, 1, 7, 20, 39])
def test_a_job_that_starts_again_has_the_metrics_of_one_that_was_not_stopped(kill, undisturbed, tmp_path):
    text = launch(2, 2, "--out", tmp_path / "r", "--kill", kill, script=METRICS)
    assert "starting the job again" in text
    assert_same(tmp_path / "r", undisturbed, text, [kill])


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("step", [1, 12, 14, 39], ids=["first", "numbers", "tensors", "late"])
def test_a_death_before_the_record_of_a_step_costs_nothing_that_was_computed_before_its_end(step, undisturbed, tmp_path):
    text = launch_under_mpi(2, 2, "--out", tmp_path / "r", "--unrecorded", step, "--pause", 0.05, script=METRICS)
    assert f"after step {step} of trainer 0" in text and "nothing is kept" not in text, text
    assert_same(tmp_path / "r", undisturbed, text, [step])


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("victim", [0, 2, 3])
def test_a_rank_that_is_killed_at_any_moment_costs_no_metric(victim, tmp_path):
    args, mark = ("--steps", 100, "--out"), tmp_path / "begun"
    launch(2, 2, *args, tmp_path / "whole", script=METRICS)
    job = Launched(2, 2, *args, tmp_path / "r", "--mark", mark, "--pause", 0.002, script=METRICS, options=("--standbys", 0))
    ranks = job.ranks()
    job.await_training(mark)
    time.sleep(random.uniform(0.0, 0.15))
    os.kill(ranks.known[victim].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0, text
    assert_same(tmp_path / "r", own_of(tmp_path / "whole", 2), text, range(200))


@pytest.mark.mpi
@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
def test_a_replacement_has_the_metrics_of_the_trainer_that_died(undisturbed, tmp_path):
    text = launch_under_mpi(2, 2, "--out", tmp_path / "r", "--kill", 27, script=METRICS, replacements=True, version="5")
    assert "takes the place of trainer 1" in text and "trainer 1: 27 replayed" in text
    assert_same(tmp_path / "r", undisturbed, text, [0])


@needs_mpi
@pytest.mark.mpi
def test_a_job_that_goes_on_from_a_checkpoint_has_the_metrics_of_one_that_was_not_stopped(undisturbed, tmp_path):
    options = ("--checkpoint", tmp_path / "c", "--checkpoint-steps", 10)
    code, text = Launched(2, 2, "--out", tmp_path / "r", "--ask", 23, script=METRICS, options=options).end()
    assert code == 75, text
    text = launch(1, 2, "--out", tmp_path / "r", "--kill", 33, script=METRICS, options=(*options, "--resume"))
    assert "starting the job again" in text
    assert_same(tmp_path / "r", undisturbed, text, [33])


@needs_mpi
@pytest.mark.mpi
def test_a_replay_tells_of_unknown_values(tmp_path):
    text = launch(1, 2, "--out", tmp_path / "r", "--kill", 12, "--big", script=METRICS)
    assert text.count("nothing is kept of what step") == 2 and "fetched as 'fc_0.tmp_2'" in text, text
