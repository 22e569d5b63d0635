"""The end of a training that learns no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...distributed import is_distributed
from ...native.checks import finite
from ...native.errors import InvalidArgumentError, UnsupportedError, check_whole
from ...parameters.sparse_table import table_names
from .base import Callback, Logs, Monitor


class EarlyStopping(Callback):
    """Ends a training when a number has not become better for some epochs. In a job all trainers end after the same epoch.

    ``monitor``: name of the number (str, default ``"val_loss"``), ``mode``: ``"min"``, ``"max"`` or ``"auto"`` (the default: by the name).
    ``min_delta``: a change is an improvement if it is larger (a number of at least 0, default 0). ``patience``: so many epochs in a row may
    pass without one (int, default 0). ``baseline``: a number that must be beaten, too (default None). ``start_from_epoch``: epochs before
    this one are not looked at (default 0). ``restore_best_weights``: after the training the parameters are those of the best epoch (default
    False; one process only: in a job ``ModelCheckpoint`` keeps them). ``verbose``: 1 prints a line when it stops.

    Afterwards ``stopped_epoch`` is the epoch after which it has stopped, -1 if it has not; ``best`` and ``best_epoch`` are the best number
    and its epoch. NotFoundError: an epoch has no such number.

    >>> stops = fluid.callbacks.EarlyStopping("loss", patience=1)
    >>> x = fluid.layers.data("x", [1])
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(x, 1)), fluid.optimizer.SGD(0.0))
    >>> history = trainer.train(lambda: [[([1.0],)]], epochs=10, callbacks=[stops])
    >>> stops.stopped_epoch, len(history.epoch)
    (1, 2)
    """

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0.0, patience: int = 0, verbose: int = 0, mode: str = "auto",
                 baseline: float | None = None, restore_best_weights: bool = False, start_from_epoch: int = 0) -> None:
        delta = finite("EarlyStopping: min_delta", min_delta, at_least=0)
        patience = check_whole("EarlyStopping: patience", patience)
        start_from_epoch = check_whole("EarlyStopping: start_from_epoch", start_from_epoch)
        self._made = monitor, mode, delta
        self._monitor = Monitor("EarlyStopping", *self._made)
        self.patience, self.verbose, self.start_from_epoch = patience, verbose, start_from_epoch
        self.baseline = None if baseline is None else finite("EarlyStopping: baseline", baseline)
        self.restore_best_weights = bool(restore_best_weights)
        self.stopped_epoch = -1
        self._waited = 0
        self._weights: dict[str, Any] = {}

    @property
    def best(self) -> float | None:
        """The best number so far; None before the first."""
        return self._monitor.best

    @property
    def best_epoch(self) -> int:
        return self._monitor.best_epoch

    def on_train_begin(self, logs: Logs) -> None:
        if self.restore_best_weights and is_distributed():
            raise UnsupportedError("EarlyStopping: restore_best_weights in a job: the parameters are the servers'. ModelCheckpoint(DIR) "
                                   "keeps those of the best epoch in DIR/best")
        self._monitor = Monitor("EarlyStopping", *self._made)
        self._waited, self.stopped_epoch, self._weights = 0, -1, {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if epoch < self.start_from_epoch:
            return
        value = self._monitor.value(logs)
        if self._monitor.look(epoch, logs):
            if self.restore_best_weights:
                self._keep_weights()
            beats = self.baseline is None or self._is_beyond_baseline(value)
            self._waited = 0 if beats else self._waited + 1
        else:
            self._waited += 1
        if self._waited >= max(self.patience, 1):
            self.stopped_epoch = epoch
            self.training.stop()

    def _is_beyond_baseline(self, value: float) -> bool:
        reference = Monitor("EarlyStopping", *self._made)
        reference.best = self.baseline
        return reference.is_better(value)

    def on_train_end(self, logs: Logs) -> None:
        if self.stopped_epoch >= 0 and self.verbose and self.training.is_writer:
            print(f"EarlyStopping: the training has ended after epoch {self.stopped_epoch + 1}; the best {self._monitor.monitor} was "
                  f"{'none' if self.best is None else format(self.best, '.6g')}, of epoch {self.best_epoch + 1}", flush=True)
        for name, value in self._weights.items():
            self.training.scope.var(name).get_tensor().set(value)

    def _keep_weights(self) -> None:
        if table_names(self.training.program):
            raise InvalidArgumentError("EarlyStopping: restore_best_weights copies dense parameters, and this program has sparse tables: "
                                       "ModelCheckpoint(DIR) keeps those of the best epoch in DIR/best")
        for param in self.training.program.all_parameters():
            found = self.training.scope.find_var(param.name)
            if found is not None and found.kind() is not None:
                self._weights[param.name] = np.array(found.get_tensor())
