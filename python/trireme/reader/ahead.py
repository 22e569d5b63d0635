"""A thread that reads ahead of its consumer."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Full, Queue
from typing import Any

import numpy as np

from ..native.errors import InvalidArgumentError
from ..native.tensor import FedArray, LoDTensor

_PATIENCE = 2.0                        # seconds that a thread is given to end: it may be inside the script's generator
_LOOK = 0.1                            # seconds from one look at whether to stop to the next


def owned(item: Any) -> Any:
    """Return a sample or a batch whose arrays nobody else changes: what is held while its reader goes on.

    A reader may fill the same array again for its next item. So arrays and tensors are copied, also in dicts, lists and tuples. What
    `DataFeeder` has made is nobody else's.
    """
    if isinstance(item, np.ndarray):
        return item if isinstance(item, FedArray) else item.copy()
    if isinstance(item, LoDTensor):
        return copy.deepcopy(item)
    if isinstance(item, dict):
        return {name: owned(value) for name, value in item.items()}
    kind = type(item)
    if kind is tuple or (kind is list and item and isinstance(item[0], (np.ndarray, LoDTensor, list, tuple, dict))):
        return kind([owned(value) for value in item])
    return list(item) if kind is list else item


class _End:
    """The last item of a queue: the error that ended the reader, or None."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def put(queue: Queue[Any], item: Any, stop: threading.Event) -> bool:
    """Put an item unless the consumer has stopped; return whether it was put."""
    while not stop.is_set():
        try:
            queue.put(item, timeout=_LOOK)
            return True
        except Full:
            continue
    return False


def _work(reader: Callable[[], Iterable[Any]], queue: Queue[Any], stop: threading.Event) -> None:
    """The thread of an `Ahead`, which it does not keep alive."""
    try:
        for item in reader():
            if not put(queue, owned(item), stop):
                return
        put(queue, _End(None), stop)
    except BaseException as error:                     # it is the script's: whoever takes the next item gets it
        put(queue, _End(error), stop)


class Ahead:
    """An iterator over what ``reader()`` gives. A thread reads, and keeps up to ``capacity`` items. An error of the reader comes out of
    the iteration, with the traceback that it had, however often the next item is asked for."""

    def __init__(self, reader: Callable[[], Iterable[Any]], capacity: int) -> None:
        self._queue: Queue[Any] = Queue(capacity)
        self._stop = threading.Event()
        self._end: _End | None = None
        self._thread = threading.Thread(target=_work, args=(reader, self._queue, self._stop), name="trireme-reader", daemon=True)
        weakref.finalize(self, self._stop.set)         # Ctrl-C may come before the caller has this object
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while self._end is None:
            try:
                item = self._queue.get(timeout=_LOOK)
            except Empty:
                if not self._thread.is_alive() and self._queue.empty():
                    raise InvalidArgumentError("the reader's thread is gone: it does not live on in a forked process. Begin the pass in "
                                               "the process that reads") from None
                continue
            if not isinstance(item, _End):
                return item
            self._end = item
        if self._end.error is not None:
            raise self._end.error
        raise StopIteration

    def ready(self) -> int:
        """Return how many items wait to be taken."""
        return self._queue.qsize()

    def close(self) -> None:
        """End the thread. One that is inside the script's generator ends with its next item."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)


__all__ = ["Ahead", "owned", "put"]
