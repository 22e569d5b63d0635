"""Parameters that come back from the servers in bfloat16, in real jobs."""

import os
import signal
import time

import numpy as np
import pytest
from job_support import SCRIPT, Launched, ended, alone, environment, launch, needs_mpi
from test_compression import DIGITS, params, result, run

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.job.compression import parse_parameters
from trireme.errors import InvalidArgumentError
from trireme.launch.mpi import Layout
from trireme.launch.supervisor import Launch

pytestmark = pytest.mark.mpi
TABLES = SCRIPT.with_name("tables.py")
ROUNDS = ("--compress-parameters", "bf16")
STEPS = ("--steps", 40)


def rounded(x):
    return fluid.core.floats_of_bfloat16(fluid.core.bfloat16_bits(np.asarray(x, "float32"))).reshape(np.shape(x))


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job of 2 + 2 with the option: its folder, and what it says."""
    folder = tmp_path_factory.mktemp("rounded")
    got = run(*STEPS, "--out", folder / "job.npz", options=(*ROUNDS, "--checkpoint", folder / "checkpoints"))
    return folder, got


@needs_mpi
def test_a_job_learns_as_one_process_that_rounds_its_parameters(job, tmp_path):
    exact, rounds = (result(alone(*STEPS, *args, "--out", tmp_path / f"{i}.npz", script=DIGITS)) and params(tmp_path / f"{i}.npz")
                     for i, args in enumerate([(), ("--rounds",)]))
    got = params(job[0] / "job.npz")
    effect = np.abs(exact["losses"] - rounds["losses"]).max()
    assert effect > 1e-4 and np.abs(got["losses"] - rounds["losses"]).max() < 0.3 * effect
    for name in set(got) - {"losses"}:
        np.testing.assert_array_equal(rounded(got[name]), got[name], err_msg=name)
        np.testing.assert_allclose(got[name], rounds[name], atol=2e-3, err_msg=name)


@needs_mpi
def test_half_the_bytes_come_and_as_many_go(job):
    exact, got = run(*STEPS), job[1]
    assert 0.49 * exact["received"] < got["received"] < 0.53 * exact["received"]
    assert abs(got["bytes"] - exact["bytes"]) < 0.02 * exact["bytes"]


@needs_mpi
def test_servers_and_checkpoints_keep_float32(job):
    kept, got = checkpoints.find(str(job[0] / "checkpoints")), params(job[0] / "job.npz")
    for name in set(got) - {"losses"}:
        assert kept[name].dtype == np.float32
        assert name.endswith(".b_0") or np.mean(rounded(kept[name]) != kept[name]) > 0.9
        np.testing.assert_array_equal(rounded(kept[name]), got[name], err_msg=name)


@needs_mpi
@pytest.mark.parametrize("mode", ["geo(4)", pytest.param("async(compensation=0.04)", marks=pytest.mark.soak)])
def test_rounded_parameters_learn_in_every_mode_and_beside_compressed_gradients(mode):
    got = run(options=("--mode", mode, *ROUNDS, "--compress", "bf16"))
    assert got["loss"] < 0.3 and got["accuracy"] > 0.85


@needs_mpi
@pytest.mark.soak
def test_a_replaced_server_costs_no_bit(tmp_path):
    args = ("--steps", 80, "--pause", 0.01, "--parameters", "bf16")
    run(*args, "--out", tmp_path / "whole.npz")
    job = Launched(2, 2, *args, "--out", tmp_path / "killed.npz", "--mark", tmp_path / "begun", script=DIGITS)
    ranks = job.ranks()
    job.await_training(tmp_path / "begun")
    time.sleep(0.1)
    os.kill(ranks.known[1].pid, signal.SIGKILL)
    code, text = job.end()
    assert code == 0 and "the others go on" in text, text
    whole, killed = params(tmp_path / "whole.npz"), params(tmp_path / "killed.npz")
    for name, value in whole.items():
        np.testing.assert_array_equal(killed[name], value, err_msg=name)


@needs_mpi
def test_rows_of_sparse_tables_come_rounded(tmp_path):
    for name, options in (("exact", ()), ("got", ROUNDS)):
        launch(2, 1, "--optimizer", "adam", "--steps", 6, "--out", tmp_path / f"{name}.npz", options=options, script=TABLES)
    exact, got = params(tmp_path / "exact.npz"), params(tmp_path / "got.npz")
    for name in ("words", "user", "fc"):
        assert np.any(rounded(exact[name]) != exact[name])
        np.testing.assert_array_equal(rounded(got[name]), got[name], err_msg=name)
        np.testing.assert_allclose(got[name], exact[name], atol=5e-3, err_msg=name)


@needs_mpi
def test_trainers_must_agree():
    code, text = ended(1, 2, "--parameters", "bf16", "--other", "none", *STEPS, script=DIGITS)
    assert code != 0 and 'compression of parameters: "bf16" here, "none" there' in text, text


@needs_mpi
def test_the_environment_is_asked():
    code, text = ended(1, 1, *STEPS, script=DIGITS, env=environment(TRIREME_COMPRESS_PARAMETERS="int8"))
    assert code != 0 and "compression of parameters 'int8'; possible are none, bf16" in text, text


def test_a_word_that_does_not_exist_is_refused_before_anything_starts():
    with pytest.raises(InvalidArgumentError, match="compression of parameters 'fp16'; possible are none, bf16"):
        Launch(Layout(1, 1), [str(DIGITS)], compress_parameters="fp16")


def test_the_launcher_tells_all_ranks(monkeypatch):
    monkeypatch.delenv("TRIREME_COMPRESS_PARAMETERS", raising=False)
    told = Launch(Layout(1, 1), [str(DIGITS)], compress_parameters=" bf16").environment(".")
    assert told["TRIREME_COMPRESS_PARAMETERS"] == "bf16"
    assert "TRIREME_COMPRESS_PARAMETERS" not in Launch(Layout(1, 1), [str(DIGITS)]).environment(".")


def test_words():
    assert parse_parameters(" bf16 ") == "bf16"
    with pytest.raises(InvalidArgumentError, match="possible are none, bf16"):
        fluid.distributed.set_compression(parameters="topk(0.1)")
    with pytest.raises(InvalidArgumentError, match="'none' and 'bf16' are possible"):
        parse_parameters("bf16\0")
    with pytest.raises(TypeError, match="takes a text such as 'int8', got 16"):
        fluid.distributed.set_compression(parameters=16)
