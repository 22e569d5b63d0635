"""Collectives: what trainers get of each other, whoever dies; and that a mistake is explained."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from job_support import MPIS, SCRIPT, Launched, ended, launch, launch_under_mpi, needs_mpi

import trireme as fluid
from trireme.distributed.values import LIMIT, decode, encode
from trireme.errors import InvalidArgumentError, RangeError

pytestmark = pytest.mark.mpi

MEET = SCRIPT.with_name("meet.py")
HAS_FIVE = pytest.mark.skipif("5" not in MPIS, reason="no Open MPI 5 is installed")


def said(out: Path, trainers: int) -> list[list[object]]:
    return [json.loads(Path(f"{out}.{index}.json").read_text()) for index in range(trainers)]


def expect_rounds(found: list[list[object]], trainers: int, rounds: int, broken: int = -1) -> None:
    """All have got the same, and it is what the trainers gave. A trainer died in the turn `broken`: the step before it was not made
    again."""
    assert all(repr(one) == repr(found[0]) for one in found[1:])
    assert len(found[0]) == 1 + rounds
    assert found[0][0] == list(range(trainers))
    for turn, (total, mean, seen, root) in enumerate(found[0][1:]):
        assert total == [turn * trainers, sum(range(trainers)), sum(0.1 * (index + 1) for index in range(trainers))]
        assert mean == turn + (trainers - 1) / 2
        assert [one["who"] for one in seen] == [[index, f"trainer {index}"] for index in range(trainers)]
        assert [one["rows"] for one in seen] == [list(range(index)) for index in range(trainers)]
        assert turn == broken or all(np.isfinite(one["cost"]) for one in seen)
        assert root == [7 + turn] * 3


@pytest.mark.parametrize("value", [None, True, 3, -2.5, float("inf"), "text", b"\x00\n{", [1, [2, "three"]], {"a": {"b": 1}},
                                   np.arange(6).reshape(2, 3),
                                   np.float32(0.1), np.array(["ab", "c"]), np.zeros((0, 3), np.int64), np.array(1 + 2j)])
def test_a_value_comes_as_it_went(value: object) -> None:
    got = decode(encode(value, "all_gather()"))
    np.testing.assert_equal(got, value)
    if isinstance(value, (np.ndarray, np.generic)):
        assert got.dtype == value.dtype


def test_one_process_gets_its_own_values() -> None:
    fluid.distributed.barrier()
    assert fluid.distributed.broadcast("text") == "text"
    assert fluid.distributed.all_gather((1, 2)) == [[1, 2]]
    for op in ("sum", "mean", "max", "min", "prod"):
        assert fluid.distributed.all_reduce(3, op) == 3
    row = fluid.distributed.all_reduce(np.array([1, 2], np.float32), "mean")
    assert row.dtype == np.float32 and row.tolist() == [1, 2]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: fluid.distributed.all_reduce(1, "median"), InvalidArgumentError,
     "op must be one of 'sum', 'mean', 'max', 'min', 'prod', got 'median'"),
    (lambda: fluid.distributed.all_reduce("text"), InvalidArgumentError, "a number or an array of numbers, got 'text'"),
    (lambda: fluid.distributed.all_reduce(np.zeros(2, bool)), InvalidArgumentError, "a number or an array of numbers"),
    (lambda: fluid.distributed.all_gather({1: 2}), InvalidArgumentError, "dict (with keys of str)"),
    (lambda: fluid.distributed.all_gather(object()), InvalidArgumentError, "a value is an array, a number"),
    (lambda: fluid.distributed.broadcast(1, root=1), InvalidArgumentError, "root must be the index of a trainer, 0 to 0, got 1"),
    (lambda: fluid.distributed.all_reduce(np.zeros(1 << 18)), RangeError, f"a trainer's value may take {LIMIT}"),
])
def test_a_mistake_is_explained(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


@needs_mpi
@pytest.mark.parametrize("servers", [1, 3])
def test_all_trainers_get_the_same(tmp_path: Path, servers: int) -> None:
    launch(servers, 3, "--out", tmp_path / "out", script=MEET)
    expect_rounds(said(tmp_path / "out", 3), 3, 3)


@HAS_FIVE
@pytest.mark.parametrize(("at", "turn"), [("before-1", 1), ("behind-1", 1), ("step-6", 1), ("step-3", 0)])
@pytest.mark.parametrize("replacements", [True, False])
@pytest.mark.turns(2)
def test_a_dead_trainer_is_waited_for_and_gets_what_it_got(tmp_path: Path, at: str, turn: int, replacements: bool) -> None:
    text = launch_under_mpi(2, 2, "--out", tmp_path / "out", "--kill", 1, "--at", at, script=MEET, replacements=replacements)
    assert (tmp_path / "out.died").exists(), text
    expect_rounds(said(tmp_path / "out", 2), 2, 3, broken=turn)


@HAS_FIVE
def test_a_standby_that_serves_has_what_was_posted(tmp_path: Path) -> None:
    job = Launched(2, 2, "--out", tmp_path / "out", "--rounds", 400, "--steps", 1, script=MEET)
    ranks = job.ranks()
    os.kill(ranks.known[0].pid, signal.SIGKILL)                # server 0 has the board
    code, text = job.end()
    assert code == 0, text
    expect_rounds(said(tmp_path / "out", 2), 2, 400)


@needs_mpi
@pytest.mark.parametrize(("wrong", "theirs"), [("barrier", "barrier()"), ("shape", "all_reduce(float64[3], op='sum')")])
def test_other_calls_are_named(tmp_path: Path, wrong: str, theirs: str) -> None:
    code, text = ended(1, 2, "--out", tmp_path / "out", "--wrong", wrong, "--rounds", 6, script=MEET)
    if wrong == "shape":                                   # the first one agrees: then this trainer is one call ahead
        theirs = "all_reduce(float64[], op='mean')"
    assert code != 0
    assert "all trainers are to make the same calls in the same order" in text
    assert theirs in text and "meet.py:" in text and "trainer 0" in text and "trainer 1" in text


@needs_mpi
def test_a_trainer_that_has_left_takes_no_part(tmp_path: Path) -> None:
    launch(1, 3, "--out", tmp_path / "out", "--short", 1, script=MEET)
    one, two, three = said(tmp_path / "out", 3)
    assert one == two and three == one[:-1]
    total, mean, seen, _ = one[-1]
    assert total[1] == 1 and mean == 2.5 and len(seen) == 2


@needs_mpi
@pytest.mark.parametrize(("what", "notes"), [("same", 1), ("shard", 0), ("constant", 0)])
def test_trainers_that_feed_the_same_batches_are_told_of_it_once(what: str, notes: int) -> None:
    text = launch(2, 3, what, script=SCRIPT.with_name("same_feeds.py"))
    assert text.count("trireme warning: trainers 0, 1, 2 feed the same batches") == text.count("trireme warning") == notes
    assert text.count("reader = fluid.distributed.shard(reader)") == notes       # what to do about it
