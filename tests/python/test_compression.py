"""Compressed gradients, in real jobs."""

import json
import os
import re
import signal
import time

import numpy as np
import pytest
from job_support import SCRIPT, Launched, ended, alone, environment, launch, needs_mpi

import trireme as fluid
from trireme.job.compression import parse
from trireme.errors import InvalidArgumentError, RangeError

pytestmark = pytest.mark.mpi
DIGITS = SCRIPT.with_name("digits.py")
# Of what an uncompressed gradient takes; a tenth of this net's travels as it is.
SHARES = {"fp16": 0.53, "bf16": 0.53, "int8": 0.29, "topk(0.01)": 0.06}


def result(text):
    return json.loads(re.search(r"^result (.*)$", text, re.M)[1])


def run(*args, servers=2, trainers=2, options=(), env=None):
    return result(launch(servers, trainers, *args, options=options, env=env, script=DIGITS))


def params(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files}


@pytest.fixture(scope="module")
def uncompressed():
    return run()


@needs_mpi
@pytest.mark.parametrize("method", SHARES)
@pytest.mark.turns(2)
def test_digits_are_learnt_as_well_with_less_on_the_wire(method, uncompressed):
    got = run(options=("--compress", method))
    assert got["bytes"] < SHARES[method] * uncompressed["bytes"]
    assert abs(got["loss"] - uncompressed["loss"]) < 0.01
    assert abs(got["accuracy"] - uncompressed["accuracy"]) < 0.025


@needs_mpi
@pytest.mark.parametrize("mode", ["ssp(1)", "geo(4)"])
def test_compression_learns_in_every_mode(mode):
    got = run("--method", "topk(0.1)", options=("--mode", mode))
    assert got["loss"] < 0.25 and got["accuracy"] > 0.85


@needs_mpi
def test_with_backups_and_a_clipped_norm():
    assert run("--clip", 1.0, servers=1, trainers=3, options=("--mode", "sync(backups=1)", "--compress", "int8"))["loss"] < 0.25


@needs_mpi
def test_the_norm_that_servers_clip_is_that_of_what_arrived(tmp_path):
    result(alone("--clip", 0.5, "--steps", 20, "--out", tmp_path / "one.npz", script=DIGITS))
    run("--clip", 0.5, "--steps", 20, "--out", tmp_path / "job.npz", trainers=1, options=("--compress", "fp16"))
    one, got = params(tmp_path / "one.npz"), params(tmp_path / "job.npz")
    for name in one:
        np.testing.assert_allclose(got[name], one[name], atol=2e-4, err_msg=name)


@needs_mpi
def test_runs_are_repeatable_and_a_replaced_server_costs_no_bit(tmp_path):
    args = ("--steps", 80, "--pause", 0.01, "--method", "topk(0.02)")
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
        assert np.array_equal(killed[name], value), name


@needs_mpi
def test_empty_slices_leave_the_residual_alone():
    text = launch(2, 3, "--width", 3000, options=("--compress", "int8"))
    assert "nan" not in text and text.count(" of 3: ") == 3


@needs_mpi
def test_the_word_may_come_from_the_environment(uncompressed):
    got = run("--method", "fp16", "--steps", 20, env=environment(TRIREME_COMPRESS="int8"))
    assert got["bytes"] < 0.29 * uncompressed["bytes"]


@needs_mpi
def test_trainers_must_agree():
    code, text = ended(2, 2, "--method", "int8", "--other", "topk(0.1)", script=DIGITS)
    assert code != 0 and 'compression: "int8" here, "topk(0.1)" there' in text, text


@needs_mpi
def test_a_word_that_does_not_exist_is_refused_before_anything_starts():
    code, text = Launched(1, 1, options=("--compress", "zip")).end()
    assert code == 2 and "compression 'zip'; possible are none, fp16, bf16, int8, nonzero, topk(SHARE)" in text


def test_words():
    assert parse(" topk( 0.5 )") == "topk(0.5)"
    with pytest.raises(InvalidArgumentError, match="possible are none, fp16, bf16, int8, nonzero, topk"):
        fluid.distributed.set_compression("int4")
    for share in (0, 2, -1):
        with pytest.raises(RangeError, match=f"above 0 and up to 1, got {share}"):
            fluid.distributed.set_compression(f"topk({share})")
    with pytest.raises(InvalidArgumentError, match="topk needs a number"):
        fluid.distributed.set_compression("topk")
