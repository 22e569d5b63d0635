"""Which steps the schedules of a job see, through a restart too, how stale gradients are said to be, and what is done about it."""

import json
import re
import sys

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, needs_mpi

from trireme import checkpoint
from trireme.layers import learning_rate_scheduler as schedules

RATES = SCRIPT.with_name("rates.py")
sys.path.insert(0, str(RATES.parent))
import rates as script  # noqa: E402 - the job's script says which schedules there are

pytestmark = [needs_mpi, pytest.mark.mpi]
STEPS, TRAINERS, SERVERS = 20, 2, 2


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process has learned after each of its updates, the first being none, and the rates that it fetches."""
    path = tmp_path_factory.mktemp("alone") / "r.npz"
    alone("--steps", 2 * TRAINERS * STEPS, "--out", path, script=RATES)
    with np.load(path) as data:
        return np.vstack([np.zeros_like(data["seen"][:1]), data["seen"]]), data["fetched"]


def run(folder, mode, *args, options=()):
    (folder / "meet").mkdir(exist_ok=True)
    for left in (folder / "meet").iterdir():
        left.unlink()
    launch(SERVERS, TRAINERS, "--steps", STEPS, "--meet", folder / "meet", *args, script=RATES,
           options=("--mode", mode, "--checkpoint", folder / "c", "--checkpoint-steps", 1000, "--log", folder / "logs", *options))


def kept(folder):
    """What the newest checkpoint of a job has learned, in the script's order."""
    found = checkpoint.newest(folder)
    learned = [(found[f"{name}.weight"].item(), found.table_rows(f"{name}.table")["values"].item()) for name in script.SCHEDULES]
    return np.ravel(learned).astype("float32")


def staleness(folder):
    """The histogram of each server, and what it dropped."""
    lines = [(folder / f"server-{server}.jsonl").read_text().splitlines()[-1] for server in range(SERVERS)]
    return [(np.array(line["staleness"]), line["dropped"]) for line in map(json.loads, lines)]


def least(bin):
    return 1 << bin >> 1


def test_no_schedule_is_forgotten():
    assert not [name for name in schedules.__all__ if not re.search(rf"layers\.{name}\(", RATES.read_text())]


@pytest.mark.parametrize("mode, updates", [("sync", STEPS), ("sync(degraded)", STEPS), ("async", TRAINERS * STEPS),
                                           ("ssp(1)", TRAINERS * STEPS), ("geo(4)", STEPS)])
def test_schedules_count_updates_and_go_on_from_a_checkpoint(mode, updates, one_process, tmp_path):
    """In geo each trainer counts its own steps, and all together have gone as far as one."""
    want, rates = one_process
    for part in (1, 2):                                # the second job goes on from the first one's last checkpoint
        run(tmp_path, mode, "--steps", part * STEPS, "--out", tmp_path / "r.npz", options=["--resume"] * (part - 1))
        rounding = 1e-5 if mode.startswith("geo") else 0
        np.testing.assert_allclose(kept(tmp_path / "c"), want[part * updates], rtol=rounding, err_msg=str(part))
        with np.load(tmp_path / "r.npz") as data:       # a trainer that fetches a rate counts its own steps after the checkpoint
            np.testing.assert_array_equal(data["fetched"][-1], rates[(part - 1) * updates + STEPS - 1])
        check_staleness(mode, staleness(tmp_path / "logs"))


def check_staleness(mode, servers):
    for bins, dropped in servers:
        assert dropped == 0
        if mode.startswith("geo"):
            assert bins.sum() >= TRAINERS * STEPS // 4  # changes of four steps count as one
            continue
        assert bins.sum() == TRAINERS * STEPS          # each gradient once
        most = least(np.flatnonzero(bins)[-1])
        bound = {"sync": 0, "sync(degraded)": 0, "ssp(1)": (TRAINERS - 1) * (2 * 1 + 1)}.get(mode, TRAINERS * STEPS)
        assert most <= bound, (mode, bins)


def test_with_backups_a_schedule_counts_updates_and_late_gradients_are_dropped(one_process, tmp_path):
    run(tmp_path, "sync(backups=1)")
    learned = kept(tmp_path / "c")
    made = [count for count in range(STEPS, TRAINERS * STEPS + 1) if np.array_equal(learned, one_process[0][count])]
    assert len(made) == 1, learned
    for bins, dropped in staleness(tmp_path / "logs"):
        assert not bins[1:].any() and bins[0] + dropped == TRAINERS * STEPS and bins[0] >= made[0]


@pytest.mark.parametrize("mode, ahead", [("async", STEPS), ("async(compensation=0.5)", STEPS), ("ssp(4)", 5)])
def test_staleness_counts_the_updates_of_others_meanwhile(mode, ahead, one_process, tmp_path):
    """Trainer 1 makes its second step with the parameters of its first, after so many of trainer 0. Of their first steps one is late."""
    run(tmp_path, mode, "--ahead", ahead)
    for bins, _ in staleness(tmp_path / "logs"):
        assert bins.sum() == TRAINERS * STEPS
        if mode == "ssp(4)":                           # 4 or 5, and of s = 4 at most 2 s + 1
            assert bins[3] >= 1 and not bins[5:].any()
        else:                                          # 19 or 20
            assert bins[5] == 1 and bins[1] in (1, 2) and bins.sum() == bins[[0, 1, 5]].sum()
    learned, plain = kept(tmp_path / "c"), one_process[0]
    if "compensation" not in mode:
        np.testing.assert_array_equal(learned, plain[TRAINERS * STEPS])
    else:
        np.testing.assert_array_equal(learned[1::2], plain[TRAINERS * STEPS][1::2])            # rows of tables are not corrected
        rates = -np.diff(plain[:, ::2], axis=0)
        possible = [compensated(rates, 0.5, *known) for known in ((1, 2), (2, 2), (2, 1))]
        assert np.isclose(learned[::2], possible, rtol=1e-5).any(axis=0).all(), (learned[::2], possible)


def compensated(rates, factor, known0, known1):
    """The parameters after all steps: g + factor g g (w - w0) with g = 1.

    Both trainers make their first step with w0 = 0, the second one with what they know then: the first update, or the second, too.
    """
    was = [np.zeros(rates.shape[1])]
    pulled = {1: 0, 2: known0, STEPS + 1: known1}
    for update, rate in enumerate(rates[:TRAINERS * STEPS]):
        late = was[pulled.get(update, update)]
        was.append(was[-1] - rate * (1 + factor * (was[-1] - late)))
    return was[-1]
