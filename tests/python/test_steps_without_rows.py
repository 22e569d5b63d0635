"""A step in which no trainer has rows is in a job what it is in one process."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from compare_scripts import build_transport
from forked_jobs import Built, run_alone, run_job

import trireme as fluid
from trireme.errors import TriremeError

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")

BUILD = """
x, y = L.data("x", [3]), L.data("y", [1])
first = L.create_parameter([1], "float32", "first")
cost = L.square_error_cost(L.fc(L.fc(L.elementwise_add(x, first), 2, param_attr="w"), 1), y)
loss = L.{of}(cost)
sums = D.all_mean(L.reduce_sum(cost))
fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.5))
fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.1)).minimize(loss)
"""
RUN = """
exe = fluid.Executor(check_nan=True)
exe.run(fluid.default_startup_program())
for number, rows in enumerate([4, 0, 0, 4]):
    r = np.random.default_rng(number)
    feed = {"x": r.normal(size=(rows, 3)).astype("float32"), "y": r.normal(size=(rows, 1)).astype("float32")}
    for name, found in zip(["loss", "sums"], exe.run(feed=feed, fetch_list=[loss, sums])):
        note(name, found)
    for name in "w", "w_velocity_0":
        note(name, np.array(fluid.global_scope().find_var(name).get_tensor()))
"""


@pytest.mark.parametrize("of", ["mean", "reduce_sum"])
def test_losses_parameters_and_states_are_those_of_one_process(of: str, tmp_path: Path) -> None:
    transport, built = build_transport(tmp_path), Built(BUILD.format(of=of), RUN)
    alone = run_alone(built, str(tmp_path))
    assert not alone.error, alone.error
    losses = [value for name, value in alone.notes if name == "loss"]
    assert (np.isnan(losses[1]) if of == "mean" else losses[1] == 0) and np.isfinite(losses[3])
    for servers, trainers, mode in [(1, 1, "sync"), (2, 2, "sync"), (2, 2, "sync(degraded)"), (2, 1, "async"), (2, 1, "ssp(1)"),
                                    (1, 1, "sync(backups=1)")]:
        for one in run_job(transport, built, str(tmp_path), servers, trainers, mode)[:trainers]:
            assert not one.error, (mode, one.error)
            for (name, found), (known, right) in zip(one.notes, alone.notes, strict=True):
                assert name == known
                np.testing.assert_array_equal(found, right, err_msg=f"{name} in {mode}")


def test_a_copy_is_not_the_operator_that_makes_a_nan() -> None:
    x = fluid.layers.data("x", [1])
    copied = fluid.layers.assign(x)
    worse = fluid.layers.scale(copied, 2.0)
    exe = fluid.Executor(check_nan=True)
    exe.run(feed={"x": np.float32([[np.nan]])}, fetch_list=[copied])
    with pytest.raises(TriremeError, match="'scale'"):
        exe.run(feed={"x": np.float32([[np.nan]])}, fetch_list=[worse])
