"""``train_from_dataset`` with callbacks: a loop of the core for each epoch, and between two loops what all trainers agree on
(training_session.py)."""

from __future__ import annotations

import math
import re
from typing import Any

from .._core import ffi
from ..distributed.epochs import Means, Record
from ..feeding.feeds import Dataset
from ..native.errors import InvalidArgumentError
from .training_session import TrainingSession
from .events import EndIteration
from .local_checkpoints import in_one_process
from .loop import Asked, run_once
from .progress import LoopLines


def run_session(asked: Asked, dataset: Dataset, epochs: int, steps: int, callbacks: Any, validation: Any) -> Any:
    """Train ``epochs`` times over the data; return the history."""
    if steps:
        raise InvalidArgumentError("train_from_dataset: steps ends a training without callbacks; with them EarlyStopping or a callback "
                                   "ends it")
    if validation is not None and not isinstance(validation, Dataset):
        raise TypeError(f"train_from_dataset: validation must be a Dataset, got {validation!r}")
    if not asked.fetches:
        raise InvalidArgumentError("train_from_dataset: callbacks and validation need numbers of each step: give fetch_list=[loss], "
                                   "fetch_info=[\"loss\"]")
    return _DatasetSession(asked, dataset, epochs, callbacks, validation).run()


class _DatasetSession:
    def __init__(self, asked: Asked, dataset: Dataset, epochs: int, callbacks: Any, validation: Any) -> None:
        self._dataset, self._epochs = dataset, epochs
        self._names = list(asked.labels or asked.names)
        manager = _manager_of(asked)
        how: dict[str, Any] = {} if manager is None else {
            "record": lambda number: Record(number, manager.settings.folder, manager.first),
            "steps_made": lambda: manager.steps}
        self.session = TrainingSession("train_from_dataset", asked.program, asked.scope, asked.executor, epochs, None, callbacks,
                             validation is not None, **how)
        self.session.training.dataset = dataset
        self._more = self.session.fetches()
        self._train = Asked(asked.executor, asked.program, asked.scope, [*asked.names, *self._more.values()], [*self._names, *self._more],
                             asked.thread, asked.print_period, asked.debug)
        self._validation = validation
        self._test: Asked | None = None
        if validation is not None:
            self._test = Asked(asked.executor, asked.program.clone(for_test=True), asked.scope, list(asked.names), self._names, 0, 0,
                               trains=False)
        self._batch = 0

    def run(self) -> Any:
        lines = LoopLines(1, 0)
        self.session.begin()
        for _ in range(self._epochs):
            self.session.begin_epoch()
            self._train_epoch(lines)
            if self.session.is_over:
                break
        self.session.end()
        return self.session.history

    def _train_epoch(self, lines: LoopLines) -> None:
        values: list[float] = []
        self._batch = 0
        done, weight = run_once(self._train, self._dataset, 1, 0, _EpochLines(lines, self.session.epoch, self._epochs), values, self._hear)
        lines.known = lines.known or done
        self.session.count(done)
        count = len(self._names)
        latest = dict(zip(self._more, values[count:]))
        means = Means({name: value for name, value in zip(self._names, values) if not math.isnan(value) or weight}, weight)
        self.session.end_epoch(means, latest, self._validate if self._test is not None else None)

    def _validate(self) -> Means:
        values: list[float] = []
        assert self._test is not None
        _, weight = run_once(self._test, self._validation, 1, 0, LoopLines(1, 0), values)
        return Means(dict(zip(self._names, values)), weight)

    def _hear(self, report: Any) -> bool:
        """A step was printed: callbacks hear of it."""
        found = dict(re.findall(r"(\S+?)=(\S+)", ffi.string(report.line).decode("utf-8", "replace")))
        logs = {name: float(found[name]) for name in [*self._names, *self._more] if name in found and not found[name].startswith("[")}
        samples, self._batch = report.samples - self._batch, report.samples
        self.session.hear(EndIteration(pass_id=self.session.epoch, batch_id=report.step - 1, cost=next(iter(logs.values()), math.nan),
                                      metrics=dict(list(logs.items())[1:]), samples=samples, logs=logs))
        return bool(self.session.is_over)


def _manager_of(asked: Asked) -> Any:
    """Return what keeps checkpoints in one process, if anybody asked for any."""
    return in_one_process(asked.executor, asked.program, asked.scope)


class _EpochLines(LoopLines):
    """The lines of one epoch of several, each of which is a loop of its own."""

    def __init__(self, all_epochs: LoopLines, epoch: int, epochs: int) -> None:
        super().__init__(epochs, 0, all_epochs.known)
        self._epoch = epoch
        self.offset = epoch * self.known

    def show(self, line: str, epoch: int, step: int, samples: int) -> None:
        super().show(line, self._epoch, step, samples)

    def look(self, epoch: int, step: int, samples: int) -> None:
        super().look(0, step, samples)
