"""Numbers that a script computes itself at the end of epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...native.errors import InvalidArgumentError, check_whole
from .base import Callback, Logs


class Validation(Callback):
    """Calls a function at the end of epochs, and adds the numbers that it returns to those of the epoch.

    ``function``: without arguments, returns a dict of names and numbers. ``every``: it is called after every so many epochs, and behind
    the last one that was asked for (int, default 1). It stands before callbacks that are to have its numbers. The ``validation`` of
    ``train`` needs no such function: this is for what is no mean over batches, such as an area under a curve.

    In a job all trainers call their function at the same time, so it may use ``distributed.all_reduce``, ``merge_metric`` and the like; the
    numbers of the first trainer are taken by all. A job that goes on from a checkpoint takes the numbers of epochs after it from there, and
    does not call the function. InvalidArgumentError: the function returns something else than numbers.

    >>> x = fluid.layers.data("x", [1])
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(x, 1)), fluid.optimizer.SGD(0.1))
    >>> history = trainer.train(lambda: [[([1.0],)]], callbacks=[fluid.callbacks.Validation(lambda: {"area": 0.75})])
    >>> history.history["area"]
    [0.75]
    """

    def __init__(self, function: Callable[[], Mapping[str, Any]], every: int = 1) -> None:
        if not callable(function):
            raise TypeError(f"Validation takes a function that returns numbers by name, got {function!r}")
        every = check_whole("Validation: every", every, 1)
        self.function, self.every = function, every
        self._names: set[str] = set()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        from ...distributed.epochs import of_first

        if (epoch + 1) % self.every and epoch + 1 != self.training.epochs:
            return
        if not self.training.is_recorded:              # else it was called in the job that this one goes on from
            logs.update(of_first(f"Validation of epoch {epoch + 1}", self._checked(self.function())))

    def _checked(self, found: Any) -> Logs:
        if isinstance(found, Mapping):
            try:
                return {str(name): float(value) for name, value in found.items()}
            except (TypeError, ValueError):
                pass
        raise InvalidArgumentError(f"Validation: the function must return a dict of names and numbers, got {found!r}")
