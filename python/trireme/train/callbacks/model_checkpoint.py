"""Models of a training's epochs, on disk."""

from __future__ import annotations

import json
import os
import re
import shutil

from ...native.checks import path_text
from ...native.errors import InvalidArgumentError, check_whole
from ...native.files import new_folder
from ...run.scopes import scope_guard
from .base import Callback, Logs, Monitor

_EPOCH = re.compile(r"epoch-(\d{4,})")


class ModelCheckpoint(Callback):
    """Writes the model at the end of epochs: the best one to ``DIR/best``, the newest ones to ``DIR/epoch-0001`` and so on.

    ``dirname``: the folder (a path, made if it is not there). ``monitor``: the number that says which epoch is best (str, default
    ``"val_loss"``; an epoch without it is an error unless ``best`` is False), ``mode``: ``"min"``, ``"max"`` or ``"auto"`` (the default: by
    the name), ``min_delta``: a change is an improvement if it is larger (default 0). ``best``: keep the best epoch (default True).
    ``last``: keep so many of the newest epochs (int, default 1; 0: none). ``every``: write every so many epochs (int, default 1; the best
    one is looked for in each). ``params_only``: write the parameters alone, without what the optimizers remember (default False).

    Each is a folder that ``fluid.io.load_persistables`` (``load_params``) reads; its ``about.json`` has the epoch and its numbers. It
    appears complete or not at all. In a job trainer 0 writes, and all trainers go on when the files are complete: each can read them then.
    A job that goes on from a checkpoint of the launcher does not write again what was written. ``best`` and ``best_epoch`` are the best
    number and its epoch.

    >>> keeps = fluid.callbacks.ModelCheckpoint("models", monitor="loss", last=2)
    >>> x = fluid.layers.data("x", [1])
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(x, 1)), fluid.optimizer.SGD(0.1))
    >>> history = trainer.train(lambda: [[([1.0],)]], epochs=3, callbacks=[keeps])
    >>> import os
    >>> sorted(os.listdir("models")), keeps.best_epoch
    (['best', 'epoch-0002', 'epoch-0003'], 2)
    >>> trainer.load_params("models/best")
    """

    def __init__(self, dirname: str | os.PathLike[str], monitor: str = "val_loss", mode: str = "auto", *, min_delta: float = 0.0,
                 best: bool = True, last: int = 1, every: int = 1, params_only: bool = False) -> None:
        self.dirname = path_text(dirname)
        if not isinstance(self.dirname, str) or not self.dirname:
            raise InvalidArgumentError(f"ModelCheckpoint: {dirname!r} is no folder")
        last = check_whole("ModelCheckpoint: last", last)
        every = check_whole("ModelCheckpoint: every", every, 1)
        if not best and not last:
            raise InvalidArgumentError("ModelCheckpoint: best=False and last=0 keep nothing")
        self._monitor = Monitor("ModelCheckpoint", monitor, mode, min_delta)
        self.keeps_best, self.last, self.every, self.params_only = bool(best), last, every, bool(params_only)

    @property
    def best(self) -> float | None:
        """The best number so far; None before the first."""
        return self._monitor.best

    @property
    def best_epoch(self) -> int:
        return self._monitor.best_epoch

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.keeps_best and self._monitor.look(epoch, logs):
            self._save(os.path.join(self.dirname, "best"), epoch, logs)
        if self.last and (epoch + 1) % self.every == 0:
            self._save(os.path.join(self.dirname, f"epoch-{epoch + 1:04}"), epoch, logs, is_last=True)

    def _save(self, path: str, epoch: int, logs: Logs, is_last: bool = False) -> None:
        from ...distributed import is_distributed
        from ...distributed.saves import once

        def write() -> None:
            self._write(path, epoch, logs)
            if is_last:
                self._remove_old(epoch)

        if not self.training.is_replayed or is_distributed():          # in a job `once` knows what was written
            once("ModelCheckpoint", path, write)

    def _write(self, path: str, epoch: int, logs: Logs) -> None:
        from ...saving import io

        save = io.save_params if self.params_only else io.save_persistables
        os.makedirs(self.dirname, exist_ok=True)
        with new_folder(path) as (part, about), scope_guard(self.training.scope):
            about.write(json.dumps({"epoch": epoch + 1, "logs": logs}).encode())
            save(self.training.executor, part, self.training.program)

    def _remove_old(self, epoch: int) -> None:
        """Remove epochs before the newest ``last``. Later ones are of a training before this one, and stay."""
        found = sorted(int(name[1]) for name in map(_EPOCH.fullmatch, os.listdir(self.dirname)) if name)
        for number in [one for one in found if one <= epoch + 1][:-self.last]:
            shutil.rmtree(os.path.join(self.dirname, f"epoch-{number:04}"), ignore_errors=True)
