"""A training session: its epochs, what its listeners hear, and what all trainers of a job agree on at the end of an epoch.

``Trainer.train`` and ``Executor.train_from_dataset`` have loops of their own; what is around their steps is here. A training *meets* when
it has callbacks or validation: at the end of an epoch all trainers put their numbers together, and end alike. Without these, trainers do
not wait for each other there, and numbers are each trainer's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..distributed import stops
from ..distributed.epochs import Means, Record, any_of, merged, was_made_in_launch
from ..distributed.reached import is_replaying, steps_made
from ..native.scope import Scope
from ..program import Program, Variable
from ..run.runner import Runner
from .callbacks.base import History, Training
from .events import BeginPass, BeginTraining, EndIteration, EndPass, EndTraining, Event, StopTraining

Listener = Callable[[Event], Any]


class TrainingSession:
    """One training. ``handler`` is the event handler of old, ``callbacks`` are callbacks and other functions that take events."""

    def __init__(self, what: str, program: Program, scope: Scope, executor: Runner, epochs: int, handler: Listener | None,
                 callbacks: Sequence[Listener] | None, validates: bool, record: Callable[[int], Record] = Record.of_job,
                 steps_made: Callable[[], int] = steps_made) -> None:
        self._callbacks = _checked(what, handler, callbacks)
        self._listeners = [*self._callbacks, *([handler] if handler is not None else [])]
        self.meets = bool(self._callbacks) or validates
        self.stop = stops.Stop()
        self._steps_made = steps_made
        self._record = record(self.stop.number) if self.meets else None
        self.training = Training(program, scope, executor, epochs, self._ask)
        self.training.number = self.stop.number
        self._silent: list[Listener] = []              # have raised StopTraining
        self._is_between = self._has_asked = False
        self.is_over = False
        self.epoch = -1
        self._before = 0                               # steps of the epochs before this one

    def fetches(self) -> dict[str, str]:
        """Return what callbacks want each step to fetch: names of variables by the names in ``logs``."""
        found: dict[str, str] = {}
        for callback in self._callbacks:
            wanted = getattr(callback, "fetches", None)
            for name, var in wanted(self.training.program).items() if wanted is not None else ():
                found[name] = var.name if isinstance(var, Variable) else var
        return found

    @property
    def history(self) -> History:
        return self.training.history

    # -- what listeners hear --------------------------------------------------------------------------------------------

    def hear(self, event: Event, listeners: Sequence[Listener] | None = None) -> None:
        """Let the listeners hear an event; one that has asked for the end hears no more."""
        if isinstance(event, EndIteration):
            self.count(event.batch_id + 1)
        for listener in self._listeners if listeners is None else listeners:
            if any(one is listener for one in self._silent):
                continue
            try:
                listener(event)
            except StopTraining:
                self._silent.append(listener)
                self._ask()

    def count(self, steps: int) -> None:
        """So many steps of this epoch are made."""
        self.training.step = self._before + steps

    def _ask(self) -> None:
        """A listener asks for the end."""
        if self._is_between and self.meets:
            self._has_asked = True
        elif not self.stop.is_asked:
            self.is_over = self.stop.ask() or self.is_over

    def is_due(self) -> bool:
        """Return whether the training ends after the step that was made last."""
        self.is_over = self.is_over or self.stop.is_due()
        return self.is_over

    def begin(self) -> None:
        self.hear(BeginTraining(training=self.training), self._callbacks)

    def begin_epoch(self) -> None:
        self.epoch += 1
        self._before = self.training.step
        self.hear(BeginPass(pass_id=self.epoch))

    def end_epoch(self, means: Means, latest: dict[str, float], validate: Callable[[], Means] | None) -> None:
        """An epoch has ended, by its data or by a stop. ``latest``: what the last step has fetched for callbacks."""
        if not self.meets:
            if not self.is_over:
                self._tell(dict(means.values))
            return
        self._is_between = True
        logs = self._numbers(means, latest, validate)
        self._tell(logs)
        assert self._record is not None                # of what meets
        self._record.keep(self.epoch, self._steps_made(), logs)
        self.is_over = any_of(f"whether the training ends after epoch {self.epoch + 1}", self._has_asked or self.stop.is_asked
                              or self.is_over)
        self._is_between = False

    def end(self) -> None:
        self.hear(EndTraining(logs=self.history.last), self._callbacks)

    # -- numbers --------------------------------------------------------------------------------------------------------

    def _numbers(self, means: Means, latest: dict[str, float], validate: Callable[[], Means] | None) -> dict[str, float]:
        """The epoch's numbers, those of the whole job."""
        assert self._record is not None
        recorded = self._record.find(self.epoch)
        self.training.is_recorded = recorded is not None
        self.training.is_replayed = recorded is not None or is_replaying()
        is_known = recorded is not None or was_made_in_launch()
        held_out = validate() if validate is not None and not is_known else None
        found = merged(f"the end of epoch {self.epoch + 1}", {"train": means, "held out": held_out}, latest)
        if recorded is not None:
            return dict(recorded)
        return {**found["train"], **{f"val_{name}": value for name, value in found["held out"].items()}, **found["latest"]}

    def _tell(self, logs: dict[str, float]) -> None:
        own = {name: value for name, value in list(logs.items())[1:] if not name.startswith("val_")}
        self.hear(EndPass(pass_id=self.epoch, cost=next(iter(logs.values()), float("nan")), metrics=own, logs=logs))
        self.history.add(self.epoch, logs)


def _checked(what: str, handler: Any, callbacks: Any) -> list[Listener]:
    if handler is not None and not callable(handler):
        raise TypeError(f"{what}: event_handler must be a function of an event, got {handler!r}")
    if callbacks is None:
        return []
    if callable(callbacks) or not isinstance(callbacks, Sequence):
        raise TypeError(f"{what}: callbacks must be a list of callbacks, got {callbacks!r}")
    for one in callbacks:
        if isinstance(one, type):
            raise TypeError(f"{what}: callbacks holds the class {one.__name__}; make one of it: {one.__name__}(...)")
        if not callable(one):
            raise TypeError(f"{what}: callbacks holds callbacks and functions of an event, got {one!r}")
    return list(callbacks)
