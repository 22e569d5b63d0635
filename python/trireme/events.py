"""What a training tells those who listen: event handlers, in the way of the V2 API, and callbacks (callbacks/)."""

from __future__ import annotations

from typing import Any


class Event:
    """What a handler is called with."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class BeginTraining(Event):
    """A training begins: ``training``, a ``callbacks.Training``. Callbacks alone hear of it."""


class EndTraining(Event):
    """A training has ended: ``logs`` of its last epoch. Callbacks alone hear of it."""


class BeginPass(Event):
    """A pass over the data begins: ``pass_id``."""


class EndPass(Event):
    """A pass has ended: ``pass_id``, the mean ``cost`` of its batches, the means of the ``metrics``, and ``logs``: all numbers of the epoch by
    name (``loss``, the metrics, ``val_loss`` ...). In a training with callbacks or validation they are those of the whole job."""


class BeginIteration(Event):
    """A batch begins: ``pass_id``, ``batch_id``. In ``train_from_dataset`` nobody hears of it."""


class EndIteration(Event):
    """A batch has ended: ``pass_id``, ``batch_id``, its ``cost``, its ``metrics`` by name, its number of ``samples``; in ``train_from_dataset``
    each batch that is printed, with the samples since the one before."""


class TestResult(Event):
    """What a test gave: the mean ``cost``, the means of the ``metrics``, the number of ``samples``."""


class StopTraining(Exception):
    """Raised by a handler or a callback to end the training after this batch.

    In a job it ends the training of all trainers. In modes ``sync``, ``sync(fewer)`` and ``ssp(s)`` all end behind the same step: two steps
    (``ssp(s)``: ``s + 3``) behind the one in which it was raised, if there is so much data. In the other modes the others end where they hear of
    it. Raised at the end of an epoch of a training with callbacks, it ends all trainers there. The handler that has raised it is called no more.
    """


__all__ = ["Event", "BeginTraining", "EndTraining", "BeginPass", "EndPass", "BeginIteration", "EndIteration", "TestResult", "StopTraining"]
