"""Runs of the model on a pool of threads, and requests that are put together for one run.

A request waits while all threads are busy, and at most ``wait`` seconds for others to come. Requests are put together along axis 0 where
their feeds have the same shape behind it. If such a run fails, each of its requests runs alone, so a wrong one spoils no other.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from ..native.errors import InvalidArgumentError
from .model import Model, Value
from .numbers import Numbers

_Result = tuple[list[Value], int]


class _Item:
    """A request that waits for its run, or is in one."""

    def __init__(self, feed: Mapping[str, Any], can_join: bool, future: asyncio.Future[_Result]) -> None:
        self.feed, self.future, self.since = feed, future, time.monotonic()
        self.shape: tuple[Any, ...] | None = None      # what must be the same for a run together; None: it runs alone
        self.rows = 1
        if can_join:
            rows = {len(array) for array in feed.values()}
            if len(rows) == 1 and (count := rows.pop()) > 0:
                self.rows, self.shape = count, tuple(array.shape[1:] for array in feed.values())


class Batcher:
    """Runs a model for requests. Its methods are called in the event loop's thread."""

    def __init__(self, model: Model, threads: int, most: int, wait: float, numbers: Numbers) -> None:
        self._model, self._threads, self._most, self._wait, self._numbers = model, threads, most, wait, numbers
        self._pool = ThreadPoolExecutor(threads, "trireme-run")
        self._waiting: deque[_Item] = deque()
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        if most > 1:
            check_rows(model)

    async def run(self, feed: Mapping[str, Any]) -> _Result:
        """Return the results and the version of the parameters that made them."""
        item = _Item(feed, self._most > 1, asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        self._start()
        return await item.future

    def hurry(self) -> None:
        """Let no request wait for others any more."""
        self._wait = 0.0
        self._start()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        """Begin runs while a thread is free and requests are due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._running < self._threads and self._waiting:
            batch = self._next()
            if not batch:
                continue
            left = batch[0].since + self._wait - time.monotonic()
            if batch[0].shape is not None and left > 0 and sum(item.rows for item in batch) < self._most:
                self._waiting.extendleft(reversed(batch))
                self._timer = asyncio.get_running_loop().call_later(left, self._start)
                return
            self._running += 1
            run = asyncio.get_running_loop().run_in_executor(self._pool, self._run, batch)
            run.add_done_callback(partial(self._end, batch))

    def _next(self) -> list[_Item]:
        """Take the oldest request, and those that can run with it."""
        first = self._waiting.popleft()
        if first.future.done():                        # its client has gone
            return []
        batch, rows, others = [first], first.rows, []
        while first.shape is not None and self._waiting and rows < self._most:
            item = self._waiting.popleft()
            if item.shape == first.shape and rows + item.rows <= self._most:
                batch.append(item)
                rows += item.rows
            else:
                others.append(item)
        self._waiting.extendleft(reversed(others))
        return batch

    def _run(self, batch: Sequence[_Item]) -> list[_Result | Exception]:
        """In a thread of the pool: return what came of each request."""
        found = _run_together(self._model, batch) if len(batch) > 1 else None
        if found is None:
            self._numbers.ran(len(batch))
            return [_run_alone(self._model, item) for item in batch]
        self._numbers.ran(1, sum(item.rows for item in batch))
        return list(found)

    def _end(self, batch: Sequence[_Item], done: asyncio.Future[list[_Result | Exception]]) -> None:
        self._running -= 1
        error = RuntimeError("the server ends") if done.cancelled() else done.exception()
        results: Sequence[Any] = [error] * len(batch) if error is not None else done.result()
        for item, result in zip(batch, results):
            if item.future.done():
                continue
            if isinstance(result, BaseException):
                item.future.set_exception(result)
            else:
                item.future.set_result(result)
        self._start()


def check_rows(model: Model) -> None:
    """InvalidArgumentError: feeds or results of the model are not rows, of which any number can stand in one array."""
    for spec in (*model.feeds, *model.fetches):
        if spec.lod_level:
            raise InvalidArgumentError(f"trireme serve: {spec.name!r} has sequences, which are not put together: leave out --batch-size")
        if not spec.shape or spec.shape[0] >= 0:
            raise InvalidArgumentError(f"trireme serve: {spec.name!r} has the shape {list(spec.shape)}, not any number of rows: leave out "
                                       "--batch-size")


def _run_alone(model: Model, item: _Item) -> _Result | Exception:
    try:
        return model.run(item.feed)
    except Exception as error:                         # the request is answered with it
        return error


def _run_together(model: Model, batch: Sequence[_Item]) -> list[_Result] | None:
    """Return the results of one run, divided; None: it failed, or did not give a row for each row."""
    total = sum(item.rows for item in batch)
    try:
        values, version = model.run({name: np.concatenate([item.feed[name] for item in batch]) for name in batch[0].feed})
    except Exception:                                  # each request alone has its own error
        return None
    if any(value.array.ndim == 0 or len(value.array) != total for value in values):
        return None
    results, at = [], 0
    for item in batch:
        results.append(([Value(value.array[at:at + item.rows]) for value in values], version))
        at += item.rows
    return results
