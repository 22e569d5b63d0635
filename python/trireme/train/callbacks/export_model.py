"""A model for serving that follows the training."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from ...native.checks import path_text, plain
from ...native.errors import InvalidArgumentError
from ...program import Variable
from ...saving import slot_file
from .base import Callback, Logs


class ExportModel(Callback):
    """Exports the model for serving while the training goes on, so that a process that serves it follows within seconds.

    ``folder``: of exports (a path), which ``fluid.serving.Predictor(folder)`` serves. ``feeds``: names to feed (list of str). ``targets``:
    Variables to fetch. ``every_seconds``: how often, at most (float, default 10); it is looked at after each step that callbacks hear of,
    and there is an export at the end. ``full_every``: every so many exports one is whole (int, default 16); the others have the rows of
    sparse tables that changed. ``slots``: what a row of raw values has (a Dataset, or a list of slots and variables); by default the
    Dataset of ``train_from_dataset``, if it has all feeds. In a job trainer 0 writes.

    >>> import tempfile
    >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    >>> guess = fluid.layers.fc(x, 1)
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.square_error_cost(guess, y)), fluid.optimizer.SGD(0.1))
    >>> folder = tempfile.mkdtemp()
    >>> history = trainer.train(lambda: [[([1.0], [2.0])]], epochs=2, callbacks=[fluid.callbacks.ExportModel(folder, ["x"], [guess])])
    >>> fluid.serving.Predictor(folder).version
    2
    """

    def __init__(self, folder: str | os.PathLike[str], feeds: Sequence[str], targets: Sequence[Variable], *, every_seconds: float = 10.0,
                 full_every: int = 16, slots: slot_file.Given = None) -> None:
        every_seconds = plain(every_seconds)
        if not isinstance(every_seconds, (int, float)) or not 0 <= every_seconds < 1e9:
            raise InvalidArgumentError(f"ExportModel: every_seconds={every_seconds!r}; seconds from 0 on are possible")
        self.folder, self.every_seconds = path_text(folder), every_seconds
        self._ends = list(feeds), list(targets)
        self._full_every, self._slots = full_every, slots
        self._exporter: Any = None
        self._due = 0.0

    def on_train_begin(self, logs: Logs) -> None:
        from ...serving import Exporter

        training, slots = self.training, self._slots
        if slots is None:
            slots = slot_file.fitting(training.dataset, self._ends[0], training.program.global_block())
        self._exporter = Exporter(self.folder, *self._ends, training.executor, training.program, scope=training.scope,
                                  full_every=self._full_every, slots=slots)
        self._due = 0.0

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        if time.monotonic() >= self._due:
            self._exporter.export()
            self._due = time.monotonic() + self.every_seconds

    def on_train_end(self, logs: Logs) -> None:
        self._exporter.export()
