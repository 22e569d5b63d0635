"""One line that says how a training goes: an event handler for :class:`trireme.Trainer`.

    trainer.train(reader, epochs=3, event_handler=trireme.Progress(epochs=3, batches=450))

    epoch 2/3  step 312/450  loss 0.1432  41870 samples/s  ETA 0:07

On a terminal the line is rewritten in place; elsewhere a line is printed every few seconds. In a job the first trainer
alone prints, for all of them: its own loss, and the samples of all trainers.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, TextIO

from .trainer import BeginPass, EndIteration, EndPass, Event


class Progress:
    """Prints progress and keeps the losses of all batches in ``losses``.

    ``batches`` is the number of batches of an epoch, for the ETA; without it the first epoch counts them.
    """

    def __init__(self, epochs: int, batches: int | None = None, *, every: float = 5.0,
                 out: TextIO | None = None) -> None:
        self.losses: list[float] = []
        self._epochs, self._batches = epochs, batches
        self._every, self._out = every, out or sys.stdout
        self._rewrites = _is_watched(self._out)
        self._start = self._last = time.monotonic()
        self._steps = self._samples = 0
        from . import distributed

        self._trainers = distributed.trainer_count()
        self._speaks = distributed.trainer_index() == 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, BeginPass) and event.pass_id == 0:
            self._start = time.monotonic()
        elif isinstance(event, EndIteration):
            self._count(event)
        elif isinstance(event, EndPass):
            self._batches = self._batches or self._steps
            self._end_epoch(event)

    def _count(self, event: Any) -> None:
        self.losses.append(event.cost)
        self._steps += 1
        self._samples += event.samples * self._trainers
        now = time.monotonic()
        if self._speaks and now - self._last >= (0.1 if self._rewrites else self._every):
            self._last = now
            self._print(self._line(event, now), "\r" if self._rewrites else "\n")

    def _line(self, event: Any, now: float) -> str:
        rate = self._samples / max(now - self._start, 1e-9)
        parts = [f"epoch {event.pass_id + 1}/{self._epochs}",
                 f"step {event.batch_id + 1}" + (f"/{self._batches}" if self._batches else ""),
                 f"loss {event.cost:.4f}", f"{rate:.0f} samples/s"]
        if self._batches:
            left = (self._epochs * self._batches - self._steps) * (now - self._start) / self._steps
            parts.append(f"ETA {int(left) // 60}:{int(left) % 60:02d}")
        return "  ".join(parts)

    def _end_epoch(self, event: Any) -> None:
        if not self._speaks:
            return
        rate = self._samples / max(time.monotonic() - self._start, 1e-9)
        metrics = "".join(f"  {name} {value:.4f}" for name, value in event.metrics.items())
        self._print(f"epoch {event.pass_id + 1}/{self._epochs}  mean loss {event.cost:.4f}{metrics}  "
                    f"{rate:.0f} samples/s", "\n")

    def _print(self, line: str, end: str) -> None:
        print(f"{line:<78}" if self._rewrites else line, end=end, file=self._out, flush=True)


def _is_watched(out: TextIO) -> bool:
    """Whether the output is a terminal that shows it. mpirun's ranks have one that nobody looks at."""
    return out.isatty() and os.environ.get("TRIREME_TERMINAL", "1" if "OMPI_COMM_WORLD_SIZE" not in os.environ else "0") == "1"


__all__ = ["Progress"]
