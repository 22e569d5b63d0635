"""One line that says how a training goes: an event handler for :class:`trireme.Trainer`.

    trainer.train(reader, epochs=3, event_handler=trireme.Progress(epochs=3, batches=450))

    epoch 2/3  step 312/450  loss 0.1432  41870 samples/s  ETA 0:07

On a terminal the line is rewritten in place; elsewhere a line is printed every few seconds. In a job the first trainer
alone prints, for all of them: its own loss, and the samples of all trainers.

With ``curve``, the loss is printed as lines of JSON, too, for ``docs/plot_curve.py``:

    {"run": "conv, 2 trainers", "step": 50, "loss": 0.6812}
"""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from ..job import job
from .events import BeginPass, EndIteration, EndPass, Event

_FIND_NAN = ("Executor(check_nan=True), TRIREME_CHECK_NAN=1 or trireme launch --check-nan ends the training at the first operator that "
             "makes NaN or infinity, and names it")


class Progress:
    """Prints progress and keeps the losses of all batches in ``losses``.

    ``batches`` is the number of batches of an epoch, for the ETA; without it the first epoch counts them. ``curve``
    prints the mean loss of each so many batches as JSON, under the name ``run``. ``test`` is called after each epoch;
    the numbers that it returns, by name, are a point of the curve, too, and the last ones are kept in ``tested``.

    A line is printed every ``every`` seconds, to ``out`` (standard output).

    ``epochs`` is how many passes the training makes.

    >>> progress = fluid.Progress(epochs=1, curve=2, run="circle")
    >>> for cost in (3.0, 2.0, 2.0, 1.0):
    ...     progress(fluid.trainer.EndIteration(pass_id=0, batch_id=0, cost=cost, metrics={}, samples=10))
    {"run": "circle", "step": 2, "loss": 2.5}
    {"run": "circle", "step": 4, "loss": 1.5}
    """

    def __init__(self, epochs: int, batches: int | None = None, *, every: float = 5.0, out: TextIO | None = None,
                 curve: int = 0, run: str = "", test: Callable[[], dict[str, float]] | None = None) -> None:
        if curve < 0:
            raise ValueError(f"Progress: curve must be a number of batches, or 0; got {curve!r}")
        self.losses: list[float] = []
        self.tested: dict[str, float] = {}
        self._epochs, self._batches = epochs, batches
        self._every, self._out = every, out or sys.stdout
        self._rewrites = _is_watched(self._out)
        self._start = self._last = time.monotonic()
        self._steps = self._samples = 0
        self._trainers = job.trainer_count()
        self._speaks = job.trainer_index() == 0
        self._curve, self._test = curve, test
        self._has_said_nan = False
        self._run = f"{run}, {self._trainers} trainers" if job.is_distributed() else run

    def __call__(self, event: Event) -> None:
        if isinstance(event, BeginPass) and event.pass_id == 0:
            self._start = time.monotonic()
        elif isinstance(event, EndIteration):
            self._count(event)
        elif isinstance(event, EndPass):
            self._batches = self._batches or self._steps
            self._end_epoch(event)
            if self._test is not None:
                self.tested = self._test()
                self.point(**self.tested)

    def _count(self, event: Any) -> None:
        self.losses.append(event.cost)
        self._steps += 1
        self._samples += event.samples * self._trainers
        if self._speaks and not self._has_said_nan and not math.isfinite(event.cost):
            self._has_said_nan = True
            self._print(f"epoch {event.pass_id + 1}/{self._epochs}  step {event.batch_id + 1}  loss {event.cost:g}: {_FIND_NAN}", "\n")
        if self._curve and self._steps % self._curve == 0:
            self.point(loss=sum(self.losses[-self._curve:]) / self._curve)
        now = time.monotonic()
        if self._speaks and now - self._last >= (0.1 if self._rewrites else self._every):
            self._last = now
            self._print(self._line(event, now), "\r" if self._rewrites else "\n")

    def point(self, **values: float) -> None:
        """Print one point of a curve: the run, the step, and these values."""
        import json  # here: `import trireme` stays light

        if self._speaks:
            facts = {"run": self._run, "step": self._steps, **{name: round(value, 6) for name, value in values.items()}}
            self._print(json.dumps(facts), "\n")

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
        numbers = {**event.metrics,
                   **{name: value for name, value in getattr(event, "logs", {}).items() if name not in ("loss", *event.metrics)}}
        metrics = "".join(f"  {name} {value:.4f}" for name, value in numbers.items())
        self._print(f"epoch {event.pass_id + 1}/{self._epochs}  mean loss {event.cost:.4f}{metrics}  "
                    f"{rate:.0f} samples/s", "\n")

    def _print(self, line: str, end: str) -> None:
        print(f"{line:<78}" if self._rewrites else line, end=end, file=self._out, flush=True)


class LoopLines:
    """What ``train_from_dataset`` prints: the fetched values, then the rate, the epoch and the time that is left. One process of a job
    prints, and the rate is that of the whole job.

    ``epochs`` and ``steps`` are those of ``train_from_dataset``.

    ``known`` is the number of steps of one epoch, 0 where it is not known.

    >>> lines = fluid.progress.LoopLines(epochs=1, steps=0)
    >>> lines.show("loss=[0.5]", epoch=0, step=0, samples=0)
    loss=[0.5]
    """

    def __init__(self, epochs: int, steps: int, known: int = 0) -> None:
        """``steps``: of the whole loop, 0: as the data has; ``known``: steps of one epoch, where that is known."""
        self._speaks, self._trainers = job.leads(), job.trainer_count()
        self.epochs, self._steps, self.known = epochs, steps, known
        self.offset = 0                                # steps of loops before this one
        self._start = time.monotonic()
        self._has_said_nan = False
        # steps and samples of the first look: what a job that goes on leaves out costs no time
        self._begin: tuple[int, int] | None = None

    def look(self, epoch: int, step: int, samples: int) -> None:
        """Note how far the loop is: passes that have ended, steps and samples. ``epoch``, ``step`` and ``samples`` are these numbers."""
        if self._begin is None:
            self._begin = step, samples
            self._start = time.monotonic()
        if epoch and not self.known:
            self.known = step // epoch

    def show(self, line: str, epoch: int, step: int, samples: int) -> None:
        """Print the line of a step, with what is known of the loop. ``epoch``, ``step`` and ``samples`` are as ``look`` takes them."""
        self.look(epoch, step, samples)
        if self._speaks:
            print("  ".join([line, *self._facts(epoch, step, samples)]), flush=True)
            self._say_nan(line)

    def _facts(self, epoch: int, step: int, samples: int) -> list[str]:
        begin_step, begin_samples = self._begin or (0, 0)
        seconds = time.monotonic() - self._start
        facts = []
        if samples > begin_samples and seconds > 0:
            facts.append(f"{(samples - begin_samples) * self._trainers / seconds:.0f} samples/s")
        if self.epochs > 1:
            facts.append(f"epoch {min(epoch + 1, self.epochs)}/{self.epochs}")
        total = self._steps or self.known * self.epochs
        if total > self.offset + step and step > begin_step:
            left = int((total - self.offset - step) * seconds / (step - begin_step))
            facts.append(f"{left // 60}:{left % 60:02d} left")
        return facts

    def _say_nan(self, line: str) -> None:
        if not self._has_said_nan and re.search(r"=[\[-]?(?:nan|inf)", line):
            self._has_said_nan = True
            print(f"trireme warning: a fetched value is not finite. {_FIND_NAN}", file=sys.stderr, flush=True)


def _is_watched(out: TextIO) -> bool:
    """Whether the output is a terminal that shows it. mpirun's ranks have one that nobody looks at."""
    return out.isatty() and os.environ.get("TRIREME_TERMINAL", "1" if "OMPI_COMM_WORLD_SIZE" not in os.environ else "0") == "1"


__all__ = ["LoopLines", "Progress"]
