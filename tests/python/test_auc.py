"""Wide and deep on census data, and DeepFM, reach the same AUC in every mode of consistency as in one process.

Short runs are part of the ordinary tests: 2 servers, 4 trainers, training that ends early, so modes may be SHORT apart. The long ones
(`make soak`) train until the curves are flat, and there no mode may be LONG away from one process, above or below. Mode sync is the
training of one process but for rounding: there losses and AUC are the SAME.

Where a curve still rises, who is 200 steps after another is worse by LONG, and where steps are long, one iterate is better than the next by
as much. So what the long runs are compared by is checked, too: that the curve of one process is flat, and that the samples are enough.
"""

import importlib.util
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from job_support import Launched, environment, needs_mpi

import trireme as fluid

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEEPFM, WIDE = EXAMPLES / "deepfm" / "train.py", EXAMPLES / "wide_and_deep.py"
SHORT, LONG, SAME = 0.005, 0.002, 1e-6
APART = ["async", "async(compensation=0.04)", "ssp(4)", "geo(4)", "sync(backups=1)"]
EVERY = [*APART, "sync"]
SMALL = ["--keys", 520, "--width", 4, "--hidden", 16, "--held-out", 10000, "--batch", 1024]
HELD_OUT = 500_000
FLAT = ["--keys", 260, "--width", 4, "--hidden", 16, "--held-out", HELD_OUT, "--batch", 1024, "--steps", 4800, "--every", 400]
SHORT_STEPS = 0.0005
LIMIT = 110
needs_census = pytest.mark.skipif(fluid.dataset.common.find("adult", "adult-train.csv") is None,
                                  reason="the data set adult is not here: set TRIREME_DATA_HOME")


def alone(script, *args, seconds=LIMIT):
    done = subprocess.run([sys.executable, script, *map(str, args)], check=False, env=environment(), capture_output=True, text=True,
                          timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_job(mode, script, *args, seconds=LIMIT):
    code, text = Launched(2, 4, *args, script=script, options=("--mode", mode)).end(seconds)
    assert code == 0, text
    return text


def lines(text):
    """The lines of JSON that DeepFM prints."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def reached(text):
    """The AUC and the cost that wide and deep prints."""
    return np.array(re.search(r"AUC ([0-9.]+), cost ([0-9.]+)", text).groups(), float)


def rate_of(mode, rate):
    """Where each of the 4 trainers' gradients is an update of its own, Adam makes 4 steps in the place of one: each a quarter as long."""
    return rate / 4 if mode.startswith(("async", "ssp")) else rate


# -- the data of DeepFM ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("deepfm", DEEPFM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_clicks_are_the_same_whenever_they_are_made(script):
    clicks = script.Clicks(2600, 1.2)
    later, _ = clicks.batch(script.TRAIN, 7, 50)
    again = list(script.Clicks(2600, 1.2).train(8, 50)())[7]
    for name, value in later.items():
        np.testing.assert_array_equal(again[name], value)
    held_out, _ = clicks.batch(script.TEST, 7, 50)
    assert (held_out["keys"] != later["keys"]).any()


def test_keys_are_as_frequent_as_zipfs_law_says(script):
    keys = script.Clicks(2600, 1.5).batch(script.TRAIN, 0, 20000)[0]["keys"][:, :, 0]
    assert (keys // 100 == np.arange(26)).all()                              # each field has keys of its own
    counts = np.bincount(keys.ravel() % 100, minlength=100) / keys.size
    expected = np.arange(1, 101) ** -1.5
    np.testing.assert_allclose(counts, expected / expected.sum(), atol=0.003)


def test_labels_are_drawn_by_the_hidden_model(script):
    feed, chance = script.Clicks(2600, 1.2).batch(script.TRAIN, 0, 40000)
    rare, likely = chance < 0.1, chance > 0.5
    for some in (rare, likely):
        assert feed["label"][some].mean() == pytest.approx(chance[some].mean(), abs=0.01)
    assert script.best_auc([(feed, chance)]) > 0.8


# -- short -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deepfm_alone():
    return lines(alone(DEEPFM, *SMALL, "--steps", 200))


def test_deepfm_learns(deepfm_alone):
    assert [line["step"] for line in deepfm_alone] == [100, 200]
    assert deepfm_alone[-1]["auc"] > 0.83 and deepfm_alone[1]["cost"] < deepfm_alone[0]["cost"]


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("tables", [[], ["--tables"]], ids=["dense", "tables"])
def test_deepfm_in_a_synchronous_job_is_one_process_but_for_rounding(tables, deepfm_alone):
    line = lines(in_job("sync", DEEPFM, *SMALL, "--steps", 100, *tables))[-1]
    assert line["cost"] == pytest.approx(deepfm_alone[0]["cost"], abs=SAME)
    assert line["auc"] == pytest.approx(deepfm_alone[0]["auc"], abs=SAME)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", APART)
@pytest.mark.turns(2)
def test_deepfm_is_as_good_where_trainers_are_apart(mode, deepfm_alone):
    line = lines(in_job(mode, DEEPFM, *SMALL, "--steps", 200, "--tables"))[-1]
    assert line["auc"] == pytest.approx(deepfm_alone[-1]["auc"], abs=SHORT)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["async", "ssp(4)"])
def test_deepfm_is_as_good_with_rows_that_are_kept(mode, deepfm_alone):
    line = lines(in_job(mode, DEEPFM, *SMALL, "--steps", 200, "--tables", "--row-cache", 520, 4))[-1]
    assert line["auc"] == pytest.approx(deepfm_alone[-1]["auc"], abs=SHORT)


def wide(run, epochs, *args, **how):
    return reached(run(WIDE, "--epochs", epochs, "--at-least", 0, *args, **how))


@needs_census
@needs_mpi
@pytest.mark.mpi
def test_wide_and_deep_in_a_synchronous_job_is_one_process_but_for_rounding():
    one, job = wide(alone, 1), wide(partial(in_job, "sync"), 1)
    assert job == pytest.approx(one, abs=SAME)


@pytest.fixture(scope="module")
def wide_alone():
    return wide(alone, 2)


@needs_census
@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", APART)
@pytest.mark.turns(2, at=1)
def test_wide_and_deep_is_as_good_where_trainers_are_apart(mode, wide_alone):
    auc, cost = wide(partial(in_job, mode), 2, "--rate", rate_of(mode, 0.002))
    assert auc == pytest.approx(wide_alone[0], abs=SHORT)
    assert cost == pytest.approx(wide_alone[1], abs=0.02)


# -- long ------------------------------------------------------------------------------------------------------------


def standard_error(auc, clicked, others):
    """Of an AUC of so many samples of each kind (Hanley and McNeil, 1982)."""
    two_clicked, two_others = auc / (2 - auc), 2 * auc ** 2 / (1 + auc)
    spread = auc * (1 - auc) + (clicked - 1) * (two_clicked - auc ** 2) + (others - 1) * (two_others - auc ** 2)
    return (spread / (clicked * others)) ** 0.5


@pytest.fixture(scope="module")
def flat_alone():
    """The AUC of one process. Two of samples of their own would be LONG apart in one of 20 cases at most; all are of the same samples, and
    nearer."""
    text = alone(DEEPFM, *FLAT, seconds=600)
    *_, before, last = (line["auc"] for line in lines(text))
    clicked = HELD_OUT * float(re.search(r"([0-9.]+)% of the samples are clicked", text)[1]) / 100
    assert 2 * 2 ** 0.5 * standard_error(last, clicked, HELD_OUT - clicked) < LONG
    assert last == pytest.approx(before, abs=LONG / 2)
    return last


@pytest.mark.soak
@needs_mpi
@pytest.mark.parametrize("mode", EVERY)
def test_deepfm_in_the_long_run(mode, flat_alone):
    assert lines(in_job(mode, DEEPFM, *FLAT, seconds=900))[-1]["auc"] == pytest.approx(flat_alone, abs=LONG)


@pytest.fixture(scope="module")
def wide_flat_alone():
    before, last = (wide(alone, passes, "--rate", SHORT_STEPS, seconds=600)[0] for passes in (10, 12))
    assert last == pytest.approx(before, abs=LONG / 2)
    return last


@pytest.mark.soak
@needs_census
@needs_mpi
@pytest.mark.parametrize("mode", EVERY)
def test_wide_and_deep_in_the_long_run(mode, wide_flat_alone):
    """In Adam's steps of 0.002 the AUC of one process goes up and down by 0.0006 within a pass of small batches, in these by 0.0003."""
    auc, _ = wide(partial(in_job, mode), 12, "--rate", rate_of(mode, SHORT_STEPS), seconds=900)
    assert auc == pytest.approx(wide_flat_alone, abs=LONG)
