"""Requests that are put together: which run with which, and what becomes of each when one is wrong or its client goes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from trireme.model_server.batching import Batcher
from trireme.model_server.model import Spec, Value
from trireme.model_server.numbers import Numbers
from trireme.native.errors import InvalidArgumentError

pytest.importorskip("prometheus_client")

FLOAT = np.dtype("float32")


class Doubles:
    """A model that doubles its feed. It waits before its first run until it is let go, and refuses negative numbers."""

    version, step = 1, 0

    def __init__(self, shape: tuple[int, ...] = (-1, -1), results: int = 1) -> None:
        self.feeds, self.fetches = [Spec("x", "FP32", FLOAT, shape)], [Spec("y", "FP32", FLOAT, shape)]
        self.runs: list[list[float]] = []
        self.go = threading.Event()
        self._results = results

    def run(self, feed: Mapping[str, Any]) -> tuple[list[Value], int]:
        first = not self.runs
        self.runs.append(feed["x"].reshape(-1).tolist())
        if first:
            assert self.go.wait(60)
        if (feed["x"] < 0).any():
            raise InvalidArgumentError("a negative number")
        return [Value(np.repeat(feed["x"] * 2, self._results, axis=0))], self.version


def rows(*values: float, width: int = 1) -> dict[str, np.ndarray]:
    return {"x": np.repeat(np.array(values, "float32")[:, None], width, axis=1)}


def answers(model: Doubles, feeds: list[dict[str, np.ndarray]], most: int = 4, leave: tuple[int, ...] = ()) -> list[Any]:
    """Give a batcher the feeds while its only thread is busy with one of 100; return what came of them. Clients of ``leave`` go."""

    async def ask() -> list[Any]:
        batcher = Batcher(model, 1, most, 0.0, Numbers())
        busy = asyncio.ensure_future(batcher.run(rows(100)))
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(batcher.run(feed)) for feed in feeds]
        await asyncio.sleep(0)
        for i in leave:
            waiting[i].cancel()
        await asyncio.sleep(0)
        model.go.set()
        await busy
        found = await asyncio.gather(*waiting, return_exceptions=True)
        batcher.close()
        return [one[0][0].array.reshape(-1).tolist() if isinstance(one, tuple) else one for one in found]

    return asyncio.run(ask())


def test_what_waits_runs_together_up_to_a_number_of_rows() -> None:
    model = Doubles()
    assert answers(model, [rows(1), rows(2, 3), rows(4, 5), rows(6)]) == [[2], [4, 6], [8, 10], [12]]
    assert model.runs == [[100], [1, 2, 3, 6], [4, 5]]


def test_a_request_of_more_rows_runs_alone() -> None:
    model = Doubles()
    assert answers(model, [rows(1, 2, 3, 4, 5), rows(6)]) == [[2, 4, 6, 8, 10], [12]]
    assert model.runs == [[100], [1, 2, 3, 4, 5], [6]]


def test_rows_of_another_shape_run_apart() -> None:
    model = Doubles()
    assert answers(model, [rows(1), rows(2, width=2), rows(3), rows(4, width=2)]) == [[2], [4, 4], [6], [8, 8]]
    assert model.runs == [[100], [1, 3], [2, 2, 4, 4]]


def test_a_wrong_request_spoils_no_other() -> None:
    model = Doubles()
    first, second, third = answers(model, [rows(1), rows(-2), rows(3)])
    assert (first, third) == ([2], [6]) and isinstance(second, InvalidArgumentError)
    assert model.runs == [[100], [1, -2, 3], [1], [-2], [3]]


def test_results_that_are_no_rows_come_from_runs_of_their_own() -> None:
    model = Doubles(results=2)
    assert answers(model, [rows(1), rows(2)]) == [[2, 2], [4, 4]]


def test_a_client_that_has_gone_takes_no_run() -> None:
    model = Doubles()
    first, second, third = answers(model, [rows(1), rows(2), rows(3)], most=1, leave=(1,))
    assert (first, third) == ([2], [6]) and isinstance(second, asyncio.CancelledError) and model.runs == [[100], [1], [3]]


def test_no_rows_run_alone() -> None:
    model = Doubles()
    assert answers(model, [rows(1), {"x": np.zeros((0, 1), "float32")}, rows(2)]) == [[2], [], [4]]


@pytest.mark.parametrize("shape, text", [((3, 2), r"has the shape \[3, 2\], not any number of rows"), ((), r"has the shape \[\], not any")])
def test_a_model_without_rows_is_not_batched(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Batcher(Doubles(shape), 1, 2, 0.0, Numbers())
