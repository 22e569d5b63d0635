"""Leased tasks in several loops: each call of ``train_from_dataset`` is a pass over its files, as in one process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from job_support import MPIS, SCRIPT, alone, launch, launch_under_mpi, needs_mpi

pytestmark = pytest.mark.mpi

LISTS = SCRIPT.with_name("lists.py")


def lines_of(text: str) -> dict[str, int]:
    """The lines that all trainers have read in each call."""
    found: dict[str, int] = {}
    for call, lines in re.findall(r"call (\w+): (\d+) lines", text):
        found[call] = found.get(call, 0) + int(lines)
    return found


@needs_mpi
@pytest.mark.parametrize("mode", ["async", "ssp(1)", "geo(3)", "sync"])
def test_each_call_is_a_pass(tmp_path: Path, mode: str) -> None:
    job = launch(2, 2, tmp_path, script=LISTS, options=("--mode", mode))
    assert lines_of(job) == lines_of(alone(tmp_path, script=LISTS)), job


@pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
@pytest.mark.parametrize("replacements", [True, False])
def test_a_death_between_two_lists_costs_no_task(tmp_path: Path, replacements: bool) -> None:
    """Lines of an earlier call are not read again; those of the call in which a trainer died are, by the other or by its replacement."""
    job = launch_under_mpi(2, 2, tmp_path, "--kill", script=LISTS, options=("--mode", "async"), replacements=replacements)
    found, wanted = lines_of(job), lines_of(alone(tmp_path, script=LISTS))
    assert found["day2"] >= wanted["day2"] and found["again"] == wanted["again"], job
