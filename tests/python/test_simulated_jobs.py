"""Whole jobs in virtual time (simulated_jobs.py): a seed means one job, and ranks that are killed at any moment cost no bit."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from job_support import SCRIPT, environment, results
from simulated_jobs import Ended, simulate

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
ARGS = ("--steps", 12, "--optimizer", "adam", "--clip", 0.2)                   # servers exchange sums in every step
SEEDS = int(os.environ.get("TRIREME_SIMULATED_JOBS", "30"))


def run(servers: int, trainers: int, *args: object, seed: int, **how: object) -> Ended:
    return simulate(servers, trainers, *ARGS, *args, script=SCRIPT, env=environment(), seed=seed, **how)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The parameters of a job that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole") / "params.npz"
    assert run(2, 2, "--out", out, seed=0).code == 0
    return results(out)


def test_a_seed_means_one_job_and_another_seed_another_one() -> None:
    kills = [[(1, 20.0)], [(3, 15.0)]]
    first, again, other = (run(2, 2, seed=seed, kills=kills) for seed in (5, 5, 6))
    assert first.code == 0 and first.starts == 3, first
    assert (again.digests, again.nanoseconds) == (first.digests, first.nanoseconds) and other.digests != first.digests


def test_silence_takes_time_of_the_job_and_none_of_the_machine() -> None:
    """Trainers sleep for two minutes in each of twelve steps."""
    slept = run(1, 1, "--pause", 120, seed=1)
    assert slept.code == 0 and slept.nanoseconds > 12 * 120e9, slept


@pytest.mark.parametrize("standbys", [0, 1])
def test_ranks_that_are_killed_at_any_moment_cost_no_bit(standbys: int, whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    starts = 0
    for seed in range(SEEDS):
        chance = random.Random(f"{seed} {standbys}")
        kills = [[(chance.randrange(4 + standbys), chance.uniform(1, 120)) for _ in range(chance.choice((1, 1, 2)))] for _ in range(2)]
        out = tmp_path / f"{seed}.npz"
        ended = run(2, 2, "--out", out, seed=seed, kills=kills, standbys=standbys, options=("--standbys-for", "servers"))
        assert ended.code == 0, f"seed {seed}, kills {kills}:\n{ended.text}"
        for name, value in results(out).items():
            assert name == "losses" or np.array_equal(value, whole[name]), f"seed {seed}, kills {kills}: {name} differs\n{ended.text}"
        starts += ended.starts
    assert starts > SEEDS, "no kill came before a job's end"
