"""Numbers of a training for other programs: its learning rate, and lines of a table."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping

import numpy as np

from ...native.checks import path_text
from ...native.errors import InvalidArgumentError
from ...program import Program, Variable
from .base import Callback, Logs


class LearningRateLogger(Callback):
    """Adds the learning rate to the numbers of each epoch: that of its last step. It stands before callbacks that are to have it.

    ``name``: under which it is in ``logs`` and in the history (str, default ``"lr"``). In a job of a mode other than ``sync`` a trainer's
    rate is that of its own count of steps, and the history has the first trainer's. InvalidArgumentError: the program has no optimizer.

    >>> x = fluid.layers.data("x", [1])
    >>> rate = fluid.layers.exponential_decay(0.1, decay_steps=1, decay_rate=0.5)
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(x, 1)), fluid.optimizer.SGD(rate))
    >>> history = trainer.train(lambda: [[([1.0],)]], epochs=3, callbacks=[fluid.callbacks.LearningRateLogger()])
    >>> [round(value, 4) for value in history.history["lr"]]
    [0.1, 0.05, 0.025]
    """

    def __init__(self, name: str = "lr") -> None:
        self.name = name
        self._var: Variable | None = None

    def fetches(self, program: Program) -> Mapping[str, Variable | str]:
        self._var = learning_rate_of(program)
        if self._var is None:
            raise InvalidArgumentError("LearningRateLogger: this program has no optimizer, and so no learning rate")
        return {} if self._var.persistable else {self.name: self._var}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self._var is not None and self._var.persistable and not self.training.is_recorded:      # a number that a script has set
            found = self.training.scope.find_var(self._var.name)
            assert found is not None
            logs[self.name] = float(np.array(found.get_tensor()).reshape(-1)[0])


def learning_rate_of(program: Program) -> Variable | None:
    """Return the variable of the rate that the program's first optimizer was given; None: it has no optimizer."""
    name = program.__dict__.get("_learning_rate")
    block = program.global_block()
    if name is None:                                   # a program from a file: the rate that most operators read
        names = [op.input("LearningRate")[0] for op in block.ops if "LearningRate" in op.input_names]
        name = max(names, key=names.count, default=None)
    return block.var(name) if name is not None else None


class CSVLogger(Callback):
    """Writes a line for each epoch to a table: the epoch, counted from 0, and its numbers in the order of their names.

    ``filename``: the file (a path). ``separator``: between fields (one character, default ``","``). ``append``: go on with the file that is
    there (default False: it is written anew). The first epoch decides which columns there are; a number that an epoch lacks is left empty.
    Each line is on its way to the disk when its epoch ends. In a job one trainer writes, for all.

    >>> x = fluid.layers.data("x", [1])
    >>> trainer = fluid.Trainer(fluid.layers.mean(x * 2.0 + fluid.layers.fc(x, 1) * 0.0), fluid.optimizer.SGD(0.0))
    >>> history = trainer.train(lambda: [[([1.0],)]], epochs=2, callbacks=[fluid.callbacks.CSVLogger("history.csv")])
    >>> print(open("history.csv").read(), end="")
    epoch,loss
    0,2.0
    1,2.0
    """

    def __init__(self, filename: str | os.PathLike[str], separator: str = ",", append: bool = False) -> None:
        if not isinstance(separator, str) or len(separator) != 1:
            raise InvalidArgumentError(f"CSVLogger: separator must be one character, got {separator!r}")
        self.filename, self.separator, self.append = path_text(filename), separator, bool(append)
        self._names: list[str] = []

    def on_train_begin(self, logs: Logs) -> None:
        self._names = []

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if not self._names:
            self._names = sorted(logs)
            is_new = not self.append and epoch == 0
            if self.training.is_writer and (is_new or not os.path.exists(self.filename) or not os.path.getsize(self.filename)):
                self._write("w", ["epoch", *self._names])
        if self.training.is_writer:
            self._write("a", [epoch, *(logs.get(name, "") for name in self._names)])

    def _write(self, mode: str, row: list[object]) -> None:
        os.makedirs(os.path.dirname(self.filename) or ".", exist_ok=True)
        with open(self.filename, mode, newline="", encoding="utf-8") as out:
            csv.writer(out, delimiter=self.separator, lineterminator="\n").writerow(row)
