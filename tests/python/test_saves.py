"""Saving is one step for the whole job: trainer 0 writes, and nobody goes on before the files are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from job_support import MPIS, SCRIPT, ended, launch, launch_under_mpi, needs_mpi

pytestmark = pytest.mark.mpi

SAVES = SCRIPT.with_name("saves.py")
HAS_FIVE = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")


def expect_same(text: str, trainers: int, *, first: int = 0, has_values: bool = True) -> None:
    """In each turn all trainers have found the same files, with the same values."""
    for turn in range(2):
        lines = re.findall(rf"^trainer (\d+) turn {turn}: (.*)$", text, re.M)
        assert {int(index) for index, _ in lines} == set(range(first, trainers)), text
        found = {rest for _, rest in lines if "files" in rest}
        assert len(found) == 1 and not found.pop().endswith(" 0"), text
        assert len({rest for _, rest in lines if "files" not in rest}) == has_values, text


@needs_mpi
@pytest.mark.parametrize("case", ["all", "alone"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.turns(2)
def test_all_find_complete_files(tmp_path: Path, case: str, mode: str) -> None:
    expect_same(launch(2, 3, "--out", tmp_path / "out", "--case", case, script=SAVES, options=("--mode", mode)), 3)


@needs_mpi
def test_tables_are_complete_too(tmp_path: Path) -> None:
    expect_same(launch(2, 2, "--out", tmp_path / "out", "--table", script=SAVES, options=("--mode", "async")), 2, has_values=False)


@needs_mpi
def test_a_save_that_trainer_0_cannot_write_fails_on_all(tmp_path: Path) -> None:
    code, text = ended(1, 2, "--out", tmp_path / "out", "--case", "fails", script=SAVES)
    assert code != 0
    assert "NotADirectoryError" in text


@HAS_FIVE
@pytest.mark.parametrize("replacements", [True, False])
@pytest.mark.parametrize("kill", ["in", "behind"])
@pytest.mark.turns(2)
def test_the_replacement_of_trainer_0_writes_the_checkpoint_that_was_not_complete(tmp_path: Path, kill: str, replacements: bool) -> None:
    text = launch_under_mpi(2, 2, "--out", tmp_path / "out", "--kill", kill, script=SAVES, replacements=replacements)
    assert (tmp_path / "out.died").exists(), text
    expect_same(text, 2)


@HAS_FIVE
def test_the_next_trainer_writes_after_the_loss_of_trainer_0(tmp_path: Path) -> None:
    text = launch_under_mpi(2, 3, "--out", tmp_path / "out", "--kill", "in", script=SAVES, options=("--mode", "async", "--standbys", 0))
    assert "the others go on" in text
    expect_same(text, 3, first=1)
