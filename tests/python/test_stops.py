"""The end of a training before its data ends: one trainer's handler stops all; a script that just ends is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from job_support import MPIS, SCRIPT, launch, launch_under_mpi, needs_mpi

pytestmark = pytest.mark.mpi

STOPS = SCRIPT.with_name("stops.py")
HAS_FIVE = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")
TOGETHER = {"sync": 2, "sync(degraded)": 2, "ssp(1)": 4}  # steps from the one that stops to the end


def ends(text: str) -> dict[int, tuple[int, int]]:
    """Return the steps that each trainer has made, and what its handler has seen of them; all have trained again."""
    found = re.findall(r"^trainer (\d+): (\d+) steps, (\d+) events, 3 steps after it$", text, re.M)
    return {int(index): (int(steps), int(events)) for index, steps, events in found}


def said(text: str) -> list[tuple[int, int]]:
    """Return which trainers are said to have stopped the training, and after which steps."""
    return [(int(index), int(step)) for index, step in re.findall(r"trainer (\d+) has stopped the training after step (\d+);", text)]


@needs_mpi
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("mode", TOGETHER)
@pytest.mark.turns(2)
def test_a_handler_that_stops_ends_all_trainers_behind_one_step(tmp_path: Path, mode: str, who: int) -> None:
    text = launch(2, 2, "--out", tmp_path / "out", "--stop", who, script=STOPS, options=("--mode", mode))
    last = 4 + TOGETHER[mode]
    assert ends(text) == {who: (last, 4), 1 - who: (last, last)}, text
    assert said(text) == [(who, 4)], text


@needs_mpi
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("mode", ["async", "geo(2)", "sync(backups=1)"])
@pytest.mark.turns(2)
def test_in_asynchronous_modes_each_trainer_ends_where_it_hears_of_the_stop(tmp_path: Path, mode: str, who: int) -> None:
    text = launch(2, 2, "--out", tmp_path / "out", "--stop", who, "--seconds", 0.01, script=STOPS, options=("--mode", mode))
    found = ends(text)
    assert found[who] == (4, 4), text
    assert found[1 - who][0] == found[1 - who][1] < 1000, text
    assert said(text) == [(who, 4)], text


@needs_mpi
def test_trainers_that_all_stop_say_so_once(tmp_path: Path) -> None:
    text = launch(1, 2, "--out", tmp_path / "out", "--stop", 0, 1, script=STOPS)
    assert ends(text) == {0: (6, 4), 1: (6, 4)}, text
    assert len(said(text)) <= 1, text


@needs_mpi
def test_data_that_end_before_the_stop_end_the_training(tmp_path: Path) -> None:
    """And the stop is not taken for one of the next training."""
    text = launch(1, 2, "--out", tmp_path / "out", "--stop", 1, "--steps", 5, script=STOPS)
    assert ends(text) == {0: (5, 5), 1: (5, 4)}, text


@HAS_FIVE
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kill", [0, 1])
@pytest.mark.parametrize("dies", [2, 4, 5])
@pytest.mark.turns(2)
def test_a_stop_outlives_trainers(tmp_path: Path, mode: str, kill: int, dies: int) -> None:
    """Trainer 1 stops the training, and one dies before that, or after it; its replacement comes to the same end."""
    text = launch_under_mpi(2, 2, "--out", tmp_path / "out", "--stop", 1, "--kill", kill, "--dies", dies, "--seconds", 0.01, script=STOPS,
                  options=("--mode", mode, "--standbys", 1), replacements=True)
    found = ends(text)
    assert (tmp_path / "out.died").exists() or (mode, dies) == ("async", 5), text   # it may have heard of the stop by then
    assert set(found) == {0, 1}, text
    assert found[1][0] == (6 if mode == "sync" else 4) and (found[0] == (6, 6) if mode == "sync" else found[0][0] < 1000), text
    assert {index for index, _ in said(text)} <= {1} and len(said(text)) == 1, text


@needs_mpi
@pytest.mark.parametrize("mode", ["sync", "ssp(1)"])
@pytest.mark.parametrize("again", [1, 3])
@pytest.mark.turns(2)
def test_a_job_that_goes_on_from_a_checkpoint_ends_its_trainings_where_they_ended(tmp_path: Path, again: int, mode: str) -> None:
    """Trainer 0 lags behind in its replay, and would come too late with the stop; trainer 1 must not go on to a step that nobody shares."""
    def run(*options: object, **more: object) -> str:
        return launch(1, 2, "--out", tmp_path / "out", "--stop", 0, "--again", again, *more.get("args", ()), script=STOPS,
                      options=("--mode", mode, "--checkpoint", tmp_path / "kept", *options))

    first = run()
    second = run("--resume", args=("--late", 0))
    last = 4 + TOGETHER[mode]
    assert f"trainer 1: {last} steps, {last} events, {again} steps" in first, first
    for who in (0, 1):
        assert re.search(rf"^trainer {who}: {last} steps, \d+ events, {again} steps after it$", second, re.M), second
    assert said(second) == [(0, 4)], second


@needs_mpi
def test_a_handler_that_stops_no_more_lets_a_resumed_job_go_on(tmp_path: Path) -> None:
    kept = ("--checkpoint", tmp_path / "kept")
    launch(1, 2, "--out", tmp_path / "out", "--stop", 0, "--again", 1, "--steps", 20, script=STOPS, options=kept)
    text = launch(1, 2, "--out", tmp_path / "out", "--again", 3, "--steps", 20, "--late", 0, script=STOPS, options=(*kept, "--resume"))
    assert {steps for steps, _ in ends(text).values()} == {20} and not said(text), text


@needs_mpi
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.turns(2)
def test_a_trainer_that_leaves_in_the_middle_is_said_once(tmp_path: Path, mode: str, who: int) -> None:
    text = launch_under_mpi(1, 2, "--out", tmp_path / "out", "--leave", who, "--steps", 400, "--seconds", 0.01, script=STOPS,
                            options=("--mode", mode, "--progress", 30))
    assert text.count(f"trainer {who} left after step 4; the others go on") == 1, text
    assert text.count("left after step") == 1, text


@needs_mpi
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_trainers_that_end_together_are_not_said_to_leave(tmp_path: Path, mode: str) -> None:
    steps = 40 if mode == "sync" else 6                # on a busy machine one trainer may be through before the other one begins
    text = launch(1, 2, "--out", tmp_path / "out", "--steps", steps, script=STOPS, options=("--mode", mode, "--progress", 30))
    assert "left after" not in text, text
