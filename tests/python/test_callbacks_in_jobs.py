"""Callbacks in a job: numbers of all trainers, one decision, one file; also when a trainer dies, or the job goes on from a checkpoint."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from job_support import MPIS, SCRIPT, alone, launch, launch_under_mpi, needs_mpi

pytestmark = pytest.mark.mpi

CALLBACKS = SCRIPT.with_name("callbacks.py")
HAS_FIVE = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")


def found(folder: Path, trainers: int) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{index}.json").read_text()) for index in range(trainers)]


def of_one_process(folder: Path, *args: object) -> dict[str, Any]:
    folder.mkdir()
    alone(folder, *args, script=CALLBACKS)
    return found(folder, 1)[0]


def expect_same_files(folder: Path, history: dict[str, list[float]], epochs: int) -> None:
    """What was written is of the whole job, once."""
    rows = list(csv.DictReader(open(folder / "history.csv")))
    assert [int(row["epoch"]) for row in rows] == list(range(epochs))
    assert [float(row["val_loss"]) for row in rows] == history["val_loss"]
    best = json.loads((folder / "models" / "best" / "about.json").read_text())
    assert best["logs"]["val_loss"] == min(history["val_loss"])
    assert {"best", f"epoch-{epochs:04}", f"epoch-{epochs - 1:04}"} == set(os.listdir(folder / "models"))


def expect_like(job: dict[str, list[float]], one: dict[str, list[float]]) -> None:
    """The job's numbers are those of one process over the same data; rounding differs."""
    assert set(job) == set(one)
    for name in set(one) - {"area", "trainers"}:
        assert job[name] == pytest.approx(one[name], rel=1e-4, abs=1e-6), name


@needs_mpi
def test_numbers_of_epochs_are_those_of_one_process(tmp_path: Path) -> None:
    one = of_one_process(tmp_path / "one")
    launch(2, 2, tmp_path, script=CALLBACKS)
    first, second = found(tmp_path, 2)
    assert first["history"] == second["history"] and first["w"] == second["w"]
    expect_like(first["history"], one["history"])
    assert first["history"]["area"] == [1, 2, 3, 4, 5, 6] and first["history"]["trainers"] == [2] * 6
    assert first["history"]["lr"] == pytest.approx([0.1 * 0.8 ** ((5 * epoch + 4) / 5) for epoch in range(6)], rel=1e-5)
    expect_same_files(tmp_path, first["history"], 6)


@needs_mpi
@pytest.mark.parametrize("mode", ["sync", "async", "geo(2)", "ssp(1)", "sync(backups=1)"])
def test_all_trainers_stop_early_behind_the_same_epoch(tmp_path: Path, mode: str) -> None:
    launch(2, 2, tmp_path, "--epochs", 60, "--patience", 2, script=CALLBACKS, options=("--mode", mode))
    first, second = found(tmp_path, 2)
    assert first["history"] == second["history"]
    assert 0 <= first["stopped"] == second["stopped"] == first["epoch"][-1] < 59
    assert first["steps"] == second["steps"] == 5 * len(first["epoch"])
    expect_same_files(tmp_path, first["history"], len(first["epoch"]))


@needs_mpi
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.turns(2)
def test_one_trainer_that_asks_for_the_end_in_an_epoch_ends_it_for_all(tmp_path: Path, mode: str, who: int) -> None:
    """The epoch that was cut short is in the history, and callbacks have seen it."""
    launch(2, 2, tmp_path, "--epochs", 60, "--stop", who, script=CALLBACKS, options=("--mode", mode))
    first, second = found(tmp_path, 2)
    assert first["history"] == second["history"] and first["epoch"] == second["epoch"] == [0, 1]
    if mode == "sync":
        assert first["steps"] == second["steps"] == 9
    expect_same_files(tmp_path, first["history"], 2)


@HAS_FIVE
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.turns(2)
def test_a_trainer_that_dies_at_an_epochs_end_changes_no_number(tmp_path: Path, mode: str, who: int) -> None:
    """What it had validated before comes from the board."""
    plain = tmp_path / "plain"
    plain.mkdir()
    launch(2, 2, plain, script=CALLBACKS, options=("--mode", mode))
    launch_under_mpi(2, 2, tmp_path, "--kill", who, script=CALLBACKS, options=("--mode", mode), replacements=True)
    assert (tmp_path / "died").exists()
    first, second = found(tmp_path, 2)
    assert first["history"] == second["history"]
    expect_same_files(tmp_path, first["history"], 6)
    if mode == "sync":
        assert first["history"] == found(plain, 2)[0]["history"] and first["w"] == found(plain, 2)[0]["w"]


@needs_mpi
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_job_that_goes_on_from_a_checkpoint_has_the_numbers_of_before(tmp_path: Path, mode: str) -> None:
    kept = ("--mode", mode, "--checkpoint", tmp_path / "kept")
    launch(2, 2, tmp_path, "--epochs", 3, script=CALLBACKS, options=kept)
    before = found(tmp_path, 2)[0]
    launch(1, 2, tmp_path, "--epochs", 6, script=CALLBACKS, options=(*kept, "--resume"))
    first, second = found(tmp_path, 2)
    assert first["history"] == second["history"]
    for name, values in before["history"].items():
        assert first["history"][name][:3] == values, name
    assert first["validated"] == 3                     # the others' numbers are from before
    if mode == "sync":
        expect_like(first["history"], of_one_process(tmp_path / "one")["history"])
    expect_same_files(tmp_path, first["history"], 6)


@needs_mpi
def test_a_new_job_in_the_same_folder_forgets_the_numbers_of_the_old_one(tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "kept")
    launch(1, 2, tmp_path, "--epochs", 2, script=CALLBACKS, options=kept)
    launch(1, 2, tmp_path, "--epochs", 2, "--rate", 0.01, script=CALLBACKS, options=(*kept, "--anew"))
    first = found(tmp_path, 2)[0]
    assert first["history"]["lr"][0] == pytest.approx(0.01 * 0.8 ** 0.8, rel=1e-5) and first["validated"] == 2
