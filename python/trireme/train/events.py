"""What a training tells those who listen: event handlers, in the way of the V2 API, and callbacks (callbacks/)."""

from __future__ import annotations

from typing import Any


class Event:
    """What a handler is called with.

    Handlers ask for its class, then read its facts as attributes:

    >>> event = fluid.trainer.EndIteration(pass_id=0, batch_id=7, cost=0.25)
    >>> if isinstance(event, fluid.trainer.EndIteration) and event.batch_id % 7 == 0:
    ...     print(event)
    EndIteration(pass_id=0, batch_id=7, cost=0.25)
    """

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class BeginTraining(Event):
    """A training begins: ``training``, a ``callbacks.Training``. Callbacks alone hear of it.

    >>> class Say(fluid.callbacks.Callback):
    ...     def __call__(self, event):
    ...         if isinstance(event, fluid.trainer.BeginTraining):
    ...             print("epochs:", event.training.epochs)
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],)]], epochs=1, callbacks=[Say()])
    epochs: 1
    """


class EndTraining(Event):
    """A training has ended: ``logs`` of its last epoch. Callbacks alone hear of it.

    >>> class Say(fluid.callbacks.Callback):
    ...     def __call__(self, event):
    ...         if isinstance(event, fluid.trainer.EndTraining):
    ...             print("known at the end:", sorted(event.logs))
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],)]], epochs=1, callbacks=[Say()])
    known at the end: ['loss']
    """


class BeginPass(Event):
    """A pass over the data begins: ``pass_id``.

    >>> def handler(event):
    ...     if isinstance(event, fluid.trainer.BeginPass):
    ...         print("pass", event.pass_id)
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],)]], epochs=2, event_handler=handler)
    pass 0
    pass 1
    """

    pass_id: int


class EndPass(Event):
    """A pass has ended: ``pass_id``, the mean ``cost`` of its batches, the means of the ``metrics``, and ``logs``: all numbers of the epoch
    by name (``loss``, the metrics, ``val_loss`` ...). In a training with callbacks or validation they are those of the whole job.

    >>> def handler(event):
    ...     if isinstance(event, fluid.trainer.EndPass):
    ...         print("pass", event.pass_id, "cost is finite:", bool(np.isfinite(event.cost)))
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],)]], epochs=1, event_handler=handler)
    pass 0 cost is finite: True
    """


class BeginIteration(Event):
    """A batch begins: ``pass_id``, ``batch_id``. In ``train_from_dataset`` nobody hears of it.

    >>> def handler(event):
    ...     if isinstance(event, fluid.trainer.BeginIteration):
    ...         print("pass", event.pass_id, "batch", event.batch_id)
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],)], [([3.0, 4.0],)]], epochs=1, event_handler=handler)
    pass 0 batch 0
    pass 0 batch 1
    """


class EndIteration(Event):
    """A batch has ended: ``pass_id``, ``batch_id``, its ``cost``, its ``metrics`` by name, its number of ``samples``; in
    ``train_from_dataset`` each batch that is printed, with the samples since the one before.

    >>> def handler(event):
    ...     if isinstance(event, fluid.trainer.EndIteration):
    ...         print("batch", event.batch_id, "of", event.samples, "samples")
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],), ([3.0, 4.0],)]], epochs=1, event_handler=handler)
    batch 0 of 2 samples
    """

    pass_id: int
    batch_id: int


class TestResult(Event):
    """What a test gave: the mean ``cost``, the means of the ``metrics``, the number of ``samples``.

    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> result = trainer.test(lambda: [[([1.0, 2.0],), ([3.0, 4.0],)]])
    >>> isinstance(result, fluid.trainer.TestResult), result.samples
    (True, 2)
    """


class StopTraining(Exception):
    """Raised by a handler or a callback to end the training after this batch.

    In a job it ends the training of all trainers. In modes ``sync``, ``sync(degraded)`` and ``ssp(s)`` all end after the same step: two
    steps (``ssp(s)``: ``s + 3``) after the one in which it was raised, if there is so much data. In the other modes the others end where
    they hear of it. Raised at the end of an epoch of a training with callbacks, it ends all trainers there. The handler that has raised it
    is called no more.

    >>> def handler(event):
    ...     if isinstance(event, fluid.trainer.EndIteration):
    ...         print("batch", event.batch_id)
    ...         raise fluid.trainer.StopTraining
    >>> trainer = fluid.Trainer(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)), fluid.optimizer.SGD(0.1))
    >>> _ = trainer.train(lambda: [[([1.0, 2.0],)]] * 100, epochs=1, event_handler=handler)
    batch 0
    """
