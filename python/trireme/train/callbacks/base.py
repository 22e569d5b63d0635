"""What every callback is, what it knows of the training, and the history that a training returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...job.job import leads
from ...native.errors import InvalidArgumentError, NotFoundError
from ...native.suggest import did_you_mean
from ...native.scope import Scope
from ...program import Program, Variable
from ...run.runner import Runner
from ..events import BeginIteration, BeginPass, BeginTraining, EndIteration, EndPass, EndTraining, Event

if TYPE_CHECKING:
    from ...feeding.feeds import Dataset

Logs = dict[str, float]


class Training:
    """The training under way, as its callbacks see it.

    ``program``, ``scope`` and ``executor`` are those of the training, ``epochs`` is how many were asked for, ``history`` what they gave so
    far. ``step`` counts the steps of all epochs, up to the one that callbacks heard of last. ``number`` counts the trainings of the script,
    from 1. ``dataset`` is that of ``train_from_dataset``, None in other trainings.

    ``stop()`` ends the training.

    >>> class AtMost(fluid.callbacks.Callback):
    ...     def on_epoch_end(self, epoch, logs):
    ...         if epoch == 1:
    ...             self.training.stop()
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> trainer.train(lambda: [[([1.0, 2.0],)]], epochs=9, callbacks=[AtMost()]).epoch
    [0, 1]
    """

    def __init__(self, program: Program, scope: Scope, executor: Runner, epochs: int, stop: Callable[[], None]) -> None:
        self.program, self.scope, self.executor, self.epochs = program, scope, executor, epochs
        self.history = History()
        self.step = 0
        self.number = 1
        self.dataset: Dataset | None = None
        self.is_replayed = False                       # this end of an epoch was reached before, and a job goes on
        self.is_recorded = False                       # and its numbers come from beside the checkpoint
        self._stop = stop

    @property
    def is_writer(self) -> bool:
        """Whether this process prints and writes for the whole job: the first trainer that makes steps, or the only process."""
        return leads()

    def stop(self) -> None:
        """End the training: after this step, or, at the end of an epoch, here. In a job it ends on all trainers."""
        self._stop()


class Callback:
    """Base of callbacks: override what you need.

    ``logs`` holds the numbers of a step or an epoch by name: ``loss``, metrics, at an epoch's end also ``val_loss`` and its kind. At the
    end of an epoch a callback may add numbers to it: callbacks after it in the list and the history have them, too. ``self.training`` is
    the ``Training``. Raise ``StopTraining``, or call ``self.training.stop()``, to end the training.

    >>> class Say(fluid.callbacks.Callback):
    ...     def on_epoch_end(self, epoch, logs):
    ...         print(epoch, sorted(logs))
    >>> x = fluid.layers.data("x", [2])
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(x, 1)), fluid.optimizer.SGD(0.1))
    >>> history = trainer.train(lambda: [[([1.0, 2.0],)]], epochs=2, callbacks=[Say()])
    0 ['loss']
    1 ['loss']
    >>> len(history.history["loss"])
    2
    """

    training: Training

    def fetches(self, program: Program) -> Mapping[str, Variable | str]:
        """Return variables that each step is to fetch beside the loss and the metrics, by the names that they get in ``logs``. An epoch's
        number is that of its last step."""
        return {}

    def on_train_begin(self, logs: Logs) -> None:
        """A training begins."""

    def on_train_end(self, logs: Logs) -> None:
        """It has ended, with these numbers of its last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """An epoch begins; epochs count from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """It has ended. In a job the numbers are those of all trainers, and each callback of each trainer is called."""

    def on_train_batch_begin(self, batch: int, logs: Logs) -> None:
        """A step begins; batches count from 0 in each epoch. ``train_from_dataset`` does not call it."""

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """A step has ended. ``train_from_dataset`` calls it for steps that it prints."""

    def __call__(self, event: Event) -> None:
        """Hear an event: a callback is an event handler."""
        facts: Any = event
        if isinstance(event, EndIteration):
            self.on_train_batch_end(facts.batch_id, facts.logs)
        elif isinstance(event, BeginIteration):
            self.on_train_batch_begin(facts.batch_id, {})
        elif isinstance(event, BeginPass):
            self.on_epoch_begin(facts.pass_id, {})
        elif isinstance(event, EndPass):
            self.on_epoch_end(facts.pass_id, facts.logs)
        elif isinstance(event, BeginTraining):
            self.training = facts.training
            self.on_train_begin({})
        elif isinstance(event, EndTraining):
            self.on_train_end(facts.logs)


class History:
    """What a training gave: ``epoch``, the numbers of its epochs, and ``history``, the values of each name, one for each epoch.

    ``last`` has the numbers of the last epoch.

    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> history = trainer.train(lambda: [[([1.0, 2.0],)]], epochs=3)
    >>> history.epoch, len(history.history["loss"]), history.last["loss"] == history.history["loss"][-1]
    ([0, 1, 2], 3, True)
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def add(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Add an epoch's numbers; where an epoch has no value under a name, there is NaN."""
        self.epoch.append(epoch)
        for name in {**self.history, **logs}:
            values = self.history.setdefault(name, [math.nan] * (len(self.epoch) - 1))
            values.append(float(logs.get(name, math.nan)))

    @property
    def last(self) -> Logs:
        """The numbers of the last epoch."""
        return {name: values[-1] for name, values in self.history.items()}

    def __repr__(self) -> str:
        return f"History({len(self.epoch)} epochs: {', '.join(f'{name} {value:.4g}' for name, value in self.last.items())})"


class Monitor:
    """A number of each epoch that is to become better: ``monitor`` is its name, ``mode`` "min", "max" or "auto".

    "auto" is "max" for names of accuracies, areas under curves, precision, recall, F1 and rates of hits, else "min".
    """

    _RISE = ("acc", "auc", "precision", "recall", "f1", "hit", "ndcg", "map", "r2")

    def __init__(self, owner: str, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if not isinstance(monitor, str) or not monitor:
            raise InvalidArgumentError(f"{owner}: monitor must be the name of a number, such as 'val_loss'; got {monitor!r}")
        if mode not in ("auto", "min", "max"):
            raise InvalidArgumentError(f"{owner}: mode={mode!r}; 'auto', 'min' and 'max' are "
                                       f"possible{did_you_mean(mode, ('auto', 'min', 'max'))}")
        self.owner, self.monitor = owner, monitor
        parts = monitor.lower().replace("-", "_").split("_")
        rises = mode == "max" or (mode == "auto" and any(part.startswith(self._RISE) for part in parts))
        self._sign = 1.0 if rises else -1.0
        self._min_delta = min_delta
        self.best: float | None = None
        self.best_epoch = -1

    def value(self, logs: Mapping[str, float]) -> float:
        """Return this epoch's number; NotFoundError names those that there are."""
        if self.monitor not in logs:
            hint = "; `validation=` gives val_loss and its kind" if self.monitor.startswith("val_") and "val_loss" not in logs else ""
            raise NotFoundError(f"{self.owner}: an epoch of this training has no {self.monitor!r}{did_you_mean(self.monitor, logs) or '.'} "
                                f"It has {', '.join(logs)}{hint}")
        return float(logs[self.monitor])

    def is_better(self, value: float) -> bool:
        """Whether the number is better than the best so far, by more than ``min_delta``. NaN never is."""
        return not math.isnan(value) and (self.best is None or self._sign * (value - self.best) > self._min_delta)

    def look(self, epoch: int, logs: Mapping[str, float]) -> bool:
        """Note this epoch's number; return whether it is the best so far."""
        value = self.value(logs)
        if not self.is_better(value):
            return False
        self.best, self.best_epoch = value, epoch
        return True
