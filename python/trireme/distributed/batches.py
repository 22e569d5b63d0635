"""Batches: their weight in a job, and the announcement of the next one."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..job.session import session
from ..native.errors import InvalidArgumentError
from ..native.scope import Scope
from ..program import Program, default_main_program
from ..reader.ahead import owned
from ..run.scopes import global_scope
from .announced import Announcer


def set_batch_weight(weight: float | None) -> None:
    """Give the gradients of the next steps the weight of ``weight`` samples.

    ``weight`` is 0 or more. None, the default, takes the number of samples of the batch. If the loss is a mean over something else, such as
    tokens, pass the number of tokens. The call has no effect in one process.

    A loss that is a mean over the tokens of a batch is weighted by their number:

    >>> lengths = np.array([3, 5])
    >>> fluid.distributed.set_batch_weight(lengths.sum())
    >>> fluid.distributed.set_batch_weight(None)
    """
    if weight is not None and not isinstance(weight, (numbers.Real, np.ndarray)):
        raise TypeError(f"set_batch_weight takes a number of samples, or None, got {weight!r}")
    if weight is not None and not 0 <= weight < float("inf"):
        raise InvalidArgumentError(f"set_batch_weight: {weight!r}; a number of samples, or None, is possible")
    session.batch_weight = weight


def prefetch(feed: dict[str, Any], program: Program | None = None, scope: Scope | None = None) -> None:
    """Announce the feed of the run after the next one, so that its rows of sparse tables come in time.

    ``feed`` is the dict of arrays that ``Executor.run`` will get. The rows are asked for when the next step's gradients are sent, and come
    with its update; the keys are sorted while the servers work. Keys that were not announced are asked for when their step begins. Rows
    that lie on disk (``embedding(spill=)``) are read from now on, on servers and in one process. The call has no effect without a sparse
    table. ``program`` is what will run, in ``scope``: the default main program and the global scope if they are None. A job has one
    training, and looks at neither.

    ``prefetched`` does this for a loop over feeds.

    >>> feeds = [{"ids": np.array([[7]])}, {"ids": np.array([[9]])}]
    >>> fluid.distributed.prefetch(feeds[1])
    """
    if not isinstance(feed, dict):
        raise TypeError(f"prefetch takes a feed, a dict by names, got {feed!r}")
    if session.training is not None:
        session.training.prefetch(feed)
        return
    announcer = _announcer_of(program or default_main_program(), scope or global_scope())
    if all(name in feed for name in announcer.names):
        announcer.announce(feed)


def _announcer_of(program: Program, scope: Scope) -> Announcer:
    """Return the announcer of the program in the scope. The program keeps it."""
    announcer: Announcer | None = program._announcer
    if announcer is None or announcer.revision != program.desc.revision or announcer.scope is not scope:
        announcer = program._announcer = Announcer(program, scope)
    return announcer


def prefetched(feeds: Iterable[Any], feed_of: Callable[[Any], dict[str, Any]] = lambda item: item, program: Program | None = None,
               scope: Scope | None = None) -> Iterator[Any]:
    """Return the feeds one by one, and call ``prefetch`` for the next feed before each. ``feed_of`` gives an item's feed; ``program`` and
    ``scope`` are those of ``prefetch``.

    An item is held while ``feeds`` makes the next one, so its arrays are copied: ``feeds`` may fill the same arrays again.

    >>> for feed in fluid.distributed.prefetched([{"x": 1}, {"x": 2}]):
    ...     print(feed)
    {'x': 1}
    {'x': 2}
    """
    if not isinstance(feeds, Iterable):
        raise TypeError(f"prefetched takes feeds one after the other, got {feeds!r}")
    items = map(owned, feeds)
    for held in items:
        for item in items:
            prefetch(feed_of(item), program, scope)
            yield held
            held = item
        yield held
