"""No trainer waits for ever for another one: unequal data, saves and collectives at the end of an epoch, errors in the middle of a step."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from job_support import MPIS, SCRIPT, ended, alone, launch, launch_under_mpi, needs_mpi, own_of

pytestmark = pytest.mark.mpi

APART, MISTAKES = SCRIPT.with_name("apart.py"), SCRIPT.with_name("mistakes.py")
HAS_FIVE = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")


def of_one_process(folder: Path, batches: str) -> dict[str, np.ndarray]:
    alone("--out", folder / "one", "--batches", batches, script=APART)
    with np.load(folder / "one.0.npz") as arrays:
        return {name: arrays[name] for name in arrays}


@needs_mpi
@pytest.mark.parametrize(("batches", "end"), [("6,2", "save"), ("2,6", "both"), ("0,5", "mean"), ("5,0", "save")])
def test_steps_beside_a_waiting_trainer_are_those_of_one_process(tmp_path: Path, batches: str, end: str) -> None:
    launch(2, 2, "--out", tmp_path / "out", "--batches", batches, "--end", end, script=APART)
    found, wanted = own_of(tmp_path / "out", 2), of_one_process(tmp_path, batches)
    for (trainer, name), value in found.items():
        if end != "save" or trainer == 0:              # a save tells the others of the step after which trainer 0 has saved
            np.testing.assert_allclose(value, wanted[name], rtol=2e-5, atol=1e-6, err_msg=f"trainer {trainer}, {name}")


@needs_mpi
@pytest.mark.parametrize(("mode", "batches"), [("average(3)", "7,2"), ("average(3)", "0,7"), ("ssp(1)", "2,7"), ("ssp(1)", "7,0"),
                                               ("sync(degraded)", "7,2"), ("sync(backups=1)", "2,7"), ("async", "0,7"), ("geo(3)", "7,2")])
def test_unequal_trainers_come_to_an_end_in_every_mode(tmp_path: Path, mode: str, batches: str) -> None:
    launch(1, 2, "--out", tmp_path / "out", "--batches", batches, "--end", "both", script=APART, options=("--mode", mode))
    found = own_of(tmp_path / "out", 2)
    assert all(np.isfinite(value).all() for value in found.values())
    if mode == "sync(degraded)":
        for name, value in of_one_process(tmp_path, batches).items():
            np.testing.assert_allclose(found[0, name], value, rtol=2e-5, atol=1e-6, err_msg=name)


@HAS_FIVE
@pytest.mark.parametrize(("kill", "at"), [(0, "1-4"), (1, "1-1"), (1, "0-end"), (0, "0-end")])
def test_a_death_while_a_trainer_waits_changes_no_bit(tmp_path: Path, kill: int, at: str) -> None:
    launch(2, 2, "--out", tmp_path / "still", "--end", "both", script=APART)
    launch_under_mpi(2, 2, "--out", tmp_path / "out", "--end", "both", "--kill", kill, "--at", at, script=APART, replacements=at != "1-1")
    assert (tmp_path / "out.died").exists()
    found, wanted = own_of(tmp_path / "out", 2), own_of(tmp_path / "still", 2)
    ends = [name for name in wanted if name[1].startswith("2.")]
    assert all(found[name].tobytes() == wanted[name].tobytes() for name in ends), (found, wanted)


@needs_mpi
def test_an_error_of_the_forward_part_may_be_caught() -> None:
    text = launch(1, 2, "forward", script=MISTAKES)
    assert "trainer 1 catches" in text and "trainer 0 ends" in text and "trainer 1 ends" in text


@needs_mpi
def test_an_error_behind_the_first_gradient_ends_the_job_though_the_script_catches_it() -> None:
    code, text = ended(1, 2, "backward", script=MISTAKES)
    assert code == 1 and text.count("ValueError: a bad batch\n\nThe above exception") == 1, text
    assert re.search(r"^trireme: rank 2 \(trainer 1.*failed in the middle of step 3, of which it had sent gradients: .*a bad batch", text,
                     re.M), text
    # there no gradient leaves before the step's end
    assert "trainer 1 ends" in launch(1, 2, "backward", script=MISTAKES, options=("--on-nan", "skip"))


@needs_mpi
def test_trainers_that_wait_for_each_other_in_different_calls_are_named(tmp_path: Path) -> None:
    code, text = ended(1, 2, "ring", tmp_path / "model", script=MISTAKES)
    assert code == 1
    assert re.search(r"trainer 0 waits in barrier\(\) at .*mistakes.py:\d+.* for trainer 1, trainer 1 waits in save_vars\(.*for trainer 0: "
                     r"none", text), text
