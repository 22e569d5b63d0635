"""Every optimizer, schedule, weight decay and clip, on dense, sparse and table parameters: a job learns what one process does."""

import inspect
import sys

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi, results

import trireme as fluid
from trireme.layers import learning_rate_scheduler as schedules

WAYS = SCRIPT.with_name("optimizers.py")
sys.path.insert(0, str(WAYS.parent))
import optimizers as ways  # noqa: E402 - the job's script says what there is

each_kind = pytest.mark.parametrize("kind", ways.KINDS)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    for kind in ways.KINDS:
        alone("--kind", kind, "--out", folder / f"{kind}.npz", script=WAYS)
    return {kind: results(folder / f"{kind}.npz") for kind in ways.KINDS}


def test_no_optimizer_is_forgotten():
    classes = {one for name in fluid.optimizer.__all__ if inspect.isclass(one := getattr(fluid.optimizer, name))
               and issubclass(one, fluid.optimizer.Optimizer)}
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        tried = {type(way.optimizer()) for way in ways.OPTIMIZERS.values()}
    assert tried == classes - {fluid.optimizer.Optimizer}


def test_no_schedule_weight_decay_or_clip_is_forgotten():
    source = inspect.getsource(ways)
    decays = [name for name in fluid.regularizer.__all__ if name.endswith("Decay")]
    clips = [name for name in fluid.clip.__all__ if name.startswith("GradientClip")]
    assert decays and clips
    for name in (*schedules.__all__, *decays, *clips):
        assert f"{name}(" in source, name


@needs_mpi
@pytest.mark.mpi
@each_kind
def test_two_servers_and_two_trainers_follow_one_process(kind, one_process, tmp_path):
    launch(2, 2, "--kind", kind, "--out", tmp_path / "r.npz", script=WAYS)
    got = results(tmp_path / "r.npz")
    assert got.keys() == one_process[kind].keys()
    for name, array in one_process[kind].items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5 * np.abs(array).max(), err_msg=name)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["sync", "sync(degraded)", "sync(backups=1)", "async", "async(compensation=0.04)", "ssp(2)", "geo(3)",
                                  "average(3)"])
@each_kind
@pytest.mark.turns(2)
def test_a_trainer_alone_is_one_process_in_any_mode(kind, mode, one_process, tmp_path):
    """To the last bit; in geo and average but for the rounding of differences."""
    launch(2, 1, "--kind", kind, "--out", tmp_path / "r.npz", script=WAYS, options=("--mode", mode))
    rounding, got = 2e-5 if mode.startswith(("geo", "average")) else 0, results(tmp_path / "r.npz")
    for name, array in one_process[kind].items():
        np.testing.assert_allclose(got[name], array, rtol=rounding, atol=rounding * np.abs(array).max(), err_msg=name)
