"""Which run of an experiment tracker a training belongs to: one run for all starts of a job, and for all jobs that go on from each
other."""

from __future__ import annotations

import os

from ...distributed import server_count, trainer_count
from ...distributed.checkpoints import settings_now
from ...distributed.reached import is_replaying, mode_now
from ...job.job import current
from ...native.threads import __version__
from .base import Callback, Logs, Training


def name_of_run(training: Training) -> str:
    """Return 16 hexadecimal digits, with the number of the training behind them where it is not the script's first one.

    A training that goes on from a checkpoint has the digits of the run that owns the folder (docs/checkpoints.md). Others have those that
    the launcher has drawn for all starts of the job, or new ones.
    """
    settings, was_started = settings_now(), os.environ.get("TRIREME_ATTEMPT", "0") not in ("", "0")
    goes_on = settings.folder is not None and (settings.resume or was_started)         # else another run's checkpoints may lie there
    digits = (_run_in(str(settings.folder)) if goes_on else "") or os.environ.get("TRIREME_RUN") or os.urandom(8).hex()
    return digits if training.number == 1 else f"{digits}-{training.number}"


def _run_in(folder: str) -> str:
    """Return the run of the newest checkpoint that can be opened; "": there is none."""
    from ...checkpoint.folder import steps
    from ...checkpoint.opened import Checkpoint, path_of

    for step in steps(folder):
        try:
            run = Checkpoint(path_of(folder, step)).run
        except (OSError, RuntimeError):                # damaged
            continue
        return f"{run:016x}" if run else ""
    return ""


def facts() -> dict[str, str]:
    """Return what a tracker is to know of this process's job."""
    found = {"trireme.version": __version__, "trireme.trainers": str(trainer_count()), "trireme.servers": str(server_count())}
    return found if current() is None else {**found, "trireme.mode": mode_now().text}


class Tracker(Callback):
    """Sends the numbers of epochs, and of every so many steps, to one run of a tracker. The first trainer of a job does so. Another trainer
    that becomes the first one goes on with the same run.

    Subclasses have ``_open``, ``_send`` and ``_close``.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self._steps = 0
        self._is_open = False

    def on_train_begin(self, logs: Logs) -> None:
        self._steps = 0
        if self.training.is_writer:
            self._opened()

    def _opened(self) -> None:
        if not self._is_open:
            self._open(name_of_run(self.training))
            self._is_open = True

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        self._steps += 1
        if self.every and self._steps % self.every == 0 and self.training.is_writer and not self._has_step(self.training.step):
            self._opened()
            self._send({f"batch/{name}": value for name, value in numbers_in(logs).items()}, self.training.step, False)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.training.is_writer and not self._has_epoch(epoch):
            self._opened()
            self._send(numbers_in(logs), epoch + 1, True)

    def on_train_end(self, logs: Logs) -> None:
        if self._is_open:
            self._close()
            self._is_open = False

    def _has_step(self, step: int) -> bool:
        """Return whether the run has the numbers of this step already."""
        return is_replaying()

    def _has_epoch(self, epoch: int) -> bool:
        """Return whether the run has the numbers of this epoch already."""
        return self.training.is_recorded

    def _open(self, name: str) -> None:
        """Find or make the run of this name."""
        raise NotImplementedError

    def _send(self, numbers: dict[str, float], at: int, is_epoch: bool) -> None:
        """Send the numbers of an epoch, or of a step; both count from 1."""
        raise NotImplementedError

    def _close(self) -> None:
        """The training has ended well."""
        raise NotImplementedError


def numbers_in(logs: Logs) -> dict[str, float]:
    """Return the numbers: a step may fetch arrays, too."""
    return {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}
