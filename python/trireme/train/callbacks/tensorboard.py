"""Numbers of a training as curves in TensorBoard."""

from __future__ import annotations

import os
from typing import Any

from ...native.checks import path_text
from ...native.errors import InvalidArgumentError, check_whole
from ...native.optional import load
from .base import Callback, Logs


class TensorBoard(Callback):
    """Writes event files, which ``tensorboard --logdir DIR`` shows: ``epoch/loss``, ``epoch/val_loss`` ... for each epoch, ``batch/loss``
    ... for steps, which are counted over all epochs.

    ``log_dir``: the folder (a path). ``every``: a point for every so many steps that callbacks hear of (int, default 1; 0: for epochs
    alone). ``graph``: write the program as text, too (default True). It needs the library tensorboardX: ``pip install
    '.[tools]'``. In a job one process writes, with the numbers of the whole job at the ends of epochs. A job that goes on writes a
    further file, and TensorBoard joins them.

    >>> import glob, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> x = fluid.layers.data("x", [1])
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(x, 1)), fluid.optimizer.SGD(0.1))
    >>> history = trainer.train(lambda: [[([1.0],)]], epochs=2, callbacks=[fluid.callbacks.TensorBoard(folder)])
    >>> len(glob.glob(folder + "/events.out.tfevents.*"))
    1
    """

    def __init__(self, log_dir: str | os.PathLike[str], every: int = 1, graph: bool = True) -> None:
        every = check_whole("TensorBoard: every", every)
        self.log_dir, self.every, self.graph = path_text(log_dir), every, bool(graph)
        if not self.log_dir:
            raise InvalidArgumentError("TensorBoard: '' is no folder")
        self._library = load("tensorboardX", "TensorBoard")
        self._writer: Any = None
        self._steps = 0

    def on_train_begin(self, logs: Logs) -> None:
        self._steps = 0
        if self.training.is_writer and self.graph:
            self._of_job().add_text("program", "```\n" + str(self.training.program) + "\n```", 0)

    def _of_job(self) -> Any:
        if self._writer is None:
            self._writer = self._library.SummaryWriter(self.log_dir, write_to_disk=True)
        return self._writer

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        self._steps += 1
        if self.every and self._steps % self.every == 0 and self.training.is_writer:
            self._add("batch", logs, self.training.step)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.training.is_writer and not self.training.is_recorded:
            self._add("epoch", logs, epoch + 1)
            self._of_job().flush()

    def _add(self, group: str, logs: Logs, step: int) -> None:
        for name, value in logs.items():
            if isinstance(value, (int, float)):        # a step may fetch arrays, too
                self._of_job().add_scalar(f"{group}/{name}", value, step)

    def on_train_end(self, logs: Logs) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
