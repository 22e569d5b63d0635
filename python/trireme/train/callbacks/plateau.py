"""A smaller learning rate where a training learns no more."""

from __future__ import annotations

import numpy as np

from ...distributed import is_distributed
from ...distributed.reached import mode_now
from ...native.checks import finite
from ...native.errors import InvalidArgumentError, UnsupportedError, check_whole
from .base import Callback, Logs, Monitor
from .loggers import learning_rate_of


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by a factor when a number has not become better for some epochs. In a job all trainers do so after the
    same epoch, and the new rate counts from the next step on.

    ``monitor``: name of the number (str, default ``"val_loss"``), ``mode``: ``"min"``, ``"max"`` or ``"auto"`` (the default: by the name).
    ``factor``: a number above 0 and below 1 (default 0.1). ``patience``: so many epochs in a row may pass without an improvement (int,
    default 10). ``min_delta``: a change is an improvement if it is larger (a number of at least 0, default 1e-4). ``cooldown``: after a
    reduction so many epochs are not counted (int, default 0). ``min_lr``: the rate does not fall below it (default 0). ``verbose``: 1
    prints a line for each reduction.

    The optimizer was given a number as its rate. InvalidArgumentError: it was given a schedule, which computes the rate in each step.
    UnsupportedError: in the job's mode servers take no values of scripts (``sync(backups=b)``, ``async(compensation=x)``). NotFoundError:
    an epoch has no such number. Afterwards ``rate`` is the rate of the last step.

    >>> x = fluid.layers.data("x", [1])
    >>> trainer = fluid.Trainer(fluid.layers.mean(x * 2.0 + fluid.layers.fc(x, 1) * 0.0), fluid.optimizer.SGD(0.1))
    >>> history = trainer.train(lambda: [[([1.0],)]], epochs=5, callbacks=[
    ...     fluid.callbacks.LearningRateLogger(), fluid.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=2)])
    >>> [round(value, 3) for value in history.history["lr"]]
    [0.1, 0.1, 0.1, 0.05, 0.05]
    """

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0, mode: str = "auto",
                 min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0) -> None:
        self.factor = finite("ReduceLROnPlateau: factor", factor, above=0, below=1)
        self._made = monitor, mode, finite("ReduceLROnPlateau: min_delta", min_delta, at_least=0)
        self._monitor = Monitor("ReduceLROnPlateau", *self._made)
        self.patience = check_whole("ReduceLROnPlateau: patience", patience)
        self.cooldown = check_whole("ReduceLROnPlateau: cooldown", cooldown)
        self.min_lr, self.verbose = finite("ReduceLROnPlateau: min_lr", min_lr, at_least=0), verbose
        self.rate = self._set = 0.0
        self._name = ""
        self._waited = self._cooling = 0

    def on_train_begin(self, logs: Logs) -> None:
        var = learning_rate_of(self.training.program)
        if var is None:
            raise InvalidArgumentError("ReduceLROnPlateau: this program has no optimizer, and so no learning rate")
        if not var.persistable:
            raise InvalidArgumentError(f"ReduceLROnPlateau: a schedule computes the learning rate {var.name!r} in each step; give the "
                                       "optimizer a number")
        mode = mode_now()
        if is_distributed() and (mode.backups or mode.compensation):
            raise UnsupportedError(f"ReduceLROnPlateau: in mode {mode.text} the servers take no values that a script sets")
        self._monitor = Monitor("ReduceLROnPlateau", *self._made)
        self._name, self._waited, self._cooling = var.name, 0, 0
        # A job that goes on hears of earlier epochs again, and decides again as before. So it counts from the first rate, whatever rate the
        # checkpoint has.
        self.rate = self._set = float(self._value().reshape(-1)[0])

    def _value(self) -> np.ndarray:
        found = self.training.scope.find_var(self._name)
        assert found is not None
        return np.array(found.get_tensor())

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self._cooling:
            self._cooling, self._waited = self._cooling - 1, 0
        if self._monitor.look(epoch, logs):
            self._waited = 0
        elif not self._cooling:
            self._waited += 1
            if self._waited >= self.patience:
                self._reduce(epoch)
        self._send()

    def _reduce(self, epoch: int) -> None:
        self._waited, self._cooling = 0, self.cooldown
        rate = max(self.rate * self.factor, self.min_lr)
        if rate >= self.rate:
            return
        self.rate = rate
        if self.verbose and self.training.is_writer and not self.training.is_replayed:
            print(f"ReduceLROnPlateau: the learning rate is {rate:.6g} after epoch {epoch + 1}; the best {self._monitor.monitor} was "
                  f"{self._monitor.best if self._monitor.best is not None else float('nan'):.6g}, of epoch {self._monitor.best_epoch + 1}",
                  flush=True)

    def _send(self) -> None:
        """Set the rate. Where trainers do not step together, the servers take the first trainer's. A trainer that becomes the first one
        later sets the rate then."""
        mode = mode_now()
        sets = not is_distributed() or mode.is_lockstep or mode.trains_copies or self.training.is_writer
        if self.rate == self._set or not sets:
            return
        found = self.training.scope.find_var(self._name)
        assert found is not None
        found.get_tensor().set(np.full_like(self._value(), self.rate), self.training.executor.place)
        self._set = self.rate
