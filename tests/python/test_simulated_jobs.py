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
# Servers exchange sums in every step; rows of a table and sparse gradients; parameters of several chunks, which two threads update.
NETS = {"clip": ("--optimizer", "adam", "--clip", 0.2), "table": ("--optimizer", "momentum", "--clip", 0.2, "--table"),
        "disk": ("--optimizer", "momentum", "--clip", 0.2, "--table"),
        "sparse": ("--optimizer", "adam", "--sparse"), "large": ("--optimizer", "adam", "--width", 20000)}
SEEDS = int(os.environ.get("TRIREME_SIMULATED_JOBS", "12"))


def run(servers: int, trainers: int, *args: object, seed: int, disk: Path | None = None, **how: object) -> Ended:
    """``disk``: the folder where servers have most rows of their tables."""
    on_disk = {"TRIREME_TABLE_MEMORY": "1000", "TRIREME_TABLE_SPILL": str(disk)} if disk else {}
    return simulate(servers, trainers, "--steps", 12, *args, script=SCRIPT, env=environment(TRIREME_SERVER_THREADS="2", **on_disk),
                    seed=seed, **how)


def test_a_seed_means_one_job_and_another_seed_another_one() -> None:
    kills = [[(1, 20.0)], [(3, 15.0)]]
    first, again, other = (run(2, 2, *NETS["clip"], seed=seed, kills=kills) for seed in (5, 5, 6))
    assert first.code == 0 and first.starts == 3, first
    assert (again.digests, again.nanoseconds) == (first.digests, first.nanoseconds) and other.digests != first.digests


def test_silence_takes_time_of_the_job_and_none_of_the_machine() -> None:
    """Trainers sleep for two minutes in each of twelve steps."""
    slept = run(1, 1, "--pause", 120, seed=1)
    assert slept.code == 0 and slept.nanoseconds > 12 * 120e9, slept


@pytest.mark.parametrize("standbys_for", ["nobody", "servers", "all"])
def test_ranks_that_are_killed_at_any_moment_cost_no_bit(standbys_for: str, tmp_path: Path) -> None:
    starts, whole = 0, {}
    options = () if standbys_for == "nobody" else ("--standbys-for", standbys_for)
    for seed in range(SEEDS):
        chance = random.Random(f"{seed} {standbys_for}")
        shape, net = chance.choice([(1, 1), (2, 2), (1, 3), (3, 2)]), chance.choice(list(NETS))
        standbys = chance.choice((1, 2)) if options else 0
        if (shape, net) not in whole:                  # a job that nobody disturbs
            assert run(*shape, *NETS[net], "--out", tmp_path / "whole.npz", seed=0).code == 0
            whole[shape, net] = results(tmp_path / "whole.npz")
        size = sum(shape) + standbys
        kills = [[(chance.randrange(size), chance.uniform(1, 150)) for _ in range(chance.choice((1, 1, 2)))] for _ in range(2)]
        out = tmp_path / f"{seed}.npz"
        ended = run(*shape, *NETS[net], "--out", out, seed=seed, kills=kills, standbys=standbys, options=options,
                    disk=tmp_path if net == "disk" else None)
        said = f"seed {seed}, {shape}, {net}, kills {kills}:\n{ended.text}"
        assert ended.code == 0, said
        for name, value in results(out).items():
            assert name == "losses" or np.array_equal(value, whole[shape, net][name]), f"{name} differs; {said}"
        starts += ended.starts
    assert starts > SEEDS, "no kill came before a job's end"


def _left(folder: Path, step: int, damaged: int, seed: int) -> None:
    """Let the folder have the checkpoints of two steps, and the newer one a damaged byte in one of its parts."""
    for path in folder.glob("step-*"):
        if int(path.name[5:]) not in (step, damaged):
            shutil.rmtree(path)
    parts = sorted((folder / f"step-{damaged:09d}").glob("part-*"))
    data = np.memmap(parts[seed % len(parts)], np.uint8, "r+")
    data[seed * 7919 % len(data)] ^= 64
    data.flush()


def test_ranks_that_are_killed_while_a_job_goes_on_from_a_checkpoint_cost_no_bit(tmp_path: Path) -> None:
    """The newest checkpoint is damaged, and other numbers of servers than wrote it go on from the one before."""
    starts, whole, folders = 0, {}, {}
    for seed in range(SEEDS // 3):
        chance = random.Random(f"goes on {seed}")
        trainers, net = chance.choice((1, 2)), chance.choice(list(NETS))
        case = trainers, net
        if case not in whole:
            folders[case] = tmp_path / f"{trainers}-{net}"
            keeps = ("--checkpoint", folders[case], "--checkpoint-steps", 4)
            assert run(2, trainers, *NETS[net], "--out", tmp_path / "whole.npz", seed=0, options=keeps).code == 0
            whole[case] = results(tmp_path / "whole.npz")
        folder = Path(shutil.copytree(folders[case], tmp_path / f"folder-{seed}"))
        _left(folder, 4, 8, seed)
        servers, standbys = chance.choice((1, 3)), chance.choice((0, 1))
        kills = [[(chance.randrange(servers + trainers + standbys), chance.uniform(1, 40))] for _ in range(2)]
        out = tmp_path / f"{seed}.npz"
        ended = run(servers, trainers, *NETS[net], "--out", out, seed=seed, kills=kills, standbys=standbys,
                    disk=tmp_path if net == "disk" else None, options=("--checkpoint", folder, "--checkpoint-steps", 100, "--resume"))
        said = f"seed {seed}, {servers} servers, {case}, kills {kills}:\n{ended.text}"
        assert ended.code == 0 and "going on from step 4" in ended.text and "chunk" in ended.text, said
        for name, value in results(out).items():
            assert name == "losses" or np.array_equal(value, whole[case][name]), f"{name} differs; {said}"
        starts += ended.starts
    assert starts > SEEDS // 3, "no kill came before a job's end"


def test_a_job_that_ends_well_has_its_last_checkpoint_whoever_dies_near_its_end(tmp_path: Path) -> None:
    """A trainer may die when all its steps are made and the last checkpoint is not; standbys are no trainers."""
    again = 0
    for seed in range(SEEDS // 2):
        chance = random.Random(f"{seed} end")
        servers, trainers, standbys = chance.choice((1, 2)), chance.choice((1, 2)), chance.choice((0, 1, 2))
        folder = tmp_path / str(seed)
        kills: list[list[tuple[int, float]]] = []
        options = ("--checkpoint", folder, "--checkpoint-steps", 5, *(("--standbys-for", "all") if standbys else ()))
        for _ in range(2):                             # a job that nobody disturbs, then one whose trainer is killed
            shutil.rmtree(folder, ignore_errors=True)
            ended = run(servers, trainers, *NETS["table"], seed=seed, kills=kills, standbys=standbys, options=options)
            found = max(path.name for path in folder.glob("step-*"))
            assert ended.code == 0 and found == "step-000000012", f"seed {seed}, kills {kills}, {found}:\n{ended.text}"
            kills = [[(servers + chance.randrange(trainers), chance.uniform(0.7, 1) * ended.nanoseconds / 1e6)]]
        again += ended.starts > 1
    assert again, "no kill came before a job's end"
