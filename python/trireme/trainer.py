"""A training loop: ``Trainer(loss, optimizer).train(reader, epochs, event_handler)``.

The handler is called with events, in the way of the V2 API:

    def handler(event):
        if isinstance(event, trireme.trainer.EndIteration) and event.batch_id % 100 == 0:
            print(event.pass_id, event.batch_id, event.cost)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from . import distributed, io
from .data_feeder import DataFeeder
from .executor import Executor, global_scope, scope_guard
from .framework import Program, Variable, default_startup_program
from .optimizer import Optimizer
from .tensor import Scope


class Event:
    """What a handler is called with."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class BeginPass(Event):
    """A pass over the data begins: ``pass_id``."""


class EndPass(Event):
    """A pass has ended: ``pass_id``, the mean ``cost`` of its batches, the means of the ``metrics``."""


class BeginIteration(Event):
    """A batch begins: ``pass_id``, ``batch_id``."""


class EndIteration(Event):
    """A batch has ended: ``pass_id``, ``batch_id``, its ``cost``, its ``metrics`` by name, its number of ``samples``."""


class TestResult(Event):
    """What a test gave: the mean ``cost``, the means of the ``metrics``, the number of ``samples``."""


class StopTraining(Exception):
    """Raised by a handler to end the training after this batch.

    In a job it ends the training of all trainers. In modes ``sync``, ``sync(fewer)`` and ``ssp(s)`` all end behind the same step: two steps
    (``ssp(s)``: ``s + 3``) behind the one in which it was raised, if there is so much data. In the other modes the others end where they hear of
    it. The handler that has raised it is called no more.
    """


class Trainer:
    """Trains the program of ``loss``.

    ``metrics`` are variables to watch beside the loss, by name. A reader yields batches: lists of samples whose
    fields stand in the order of ``feed_order`` (default: that in which the data variables were made).

    >>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> trainer = fluid.Trainer(loss, fluid.optimizer.SGD(0.1))
    >>> batch = [(np.array([a, b]), np.array([a - b])) for a in (0, 1) for b in (0, 1)]
    >>> trainer.train(lambda: [batch] * 200, epochs=1)
    >>> bool(trainer.test(lambda: [batch]).cost < 0.001)
    True
    """

    def __init__(self, loss: Variable, optimizer: Optimizer, *, metrics: dict[str, Variable] | None = None,
                 feed_order: Sequence[str] | None = None, place: Any = None, scope: Scope | None = None,
                 startup_program: Program | None = None) -> None:
        if not isinstance(loss, Variable):
            raise TypeError(f"Trainer: loss must be a Variable, got {loss!r}")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"Trainer: optimizer must be an Optimizer, got {optimizer!r}")
        self.loss = loss
        self.program: Program = loss.block.program
        self.startup_program = startup_program or default_startup_program()
        self.metrics = dict(metrics or {})
        self.test_program = self.program.clone(for_test=True)
        optimizer.minimize(loss, self.startup_program)
        self.scope = scope or global_scope()
        self.executor = Executor(place)
        block = self.program.global_block()
        names = feed_order or [name for name, var in block._vars.items() if var.is_data]
        self.feeder = DataFeeder([block.var(name) for name in names], self.executor.place, self.program)
        self._fetches = [self.loss.name, *(var.name for var in self.metrics.values())]
        self.executor.run(self.startup_program, scope=self.scope)

    def _run(self, program: Program, feed: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        values = self.executor.run(program, feed=feed, fetch_list=self._fetches, scope=self.scope)
        results = [float(value.reshape(-1)[0]) if value.size == 1 else value for value in values]
        return results[0], dict(zip(self.metrics, results[1:]))

    def train(self, reader: Callable[[], Iterable[Any]], epochs: int = 1,
              event_handler: Callable[[Event], None] | None = None) -> None:
        """Go over the reader's batches ``epochs`` times. In a job every trainer takes its slice of each batch."""
        stop = distributed.stops.Stop()

        def handle(event: Event) -> None:
            if event_handler is None or stop.is_asked:
                return
            try:
                event_handler(event)
            except StopTraining:
                if stop.ask():
                    raise

        try:
            for pass_id in range(epochs):
                handle(BeginPass(pass_id=pass_id))
                costs, metrics, sizes = [], [], []
                fed = ((len(batch), self.feeder.feed(batch)) for batch in distributed.shard(reader)())
                for batch_id, (size, feed) in enumerate(distributed.prefetched(fed, lambda item: item[1])):
                    handle(BeginIteration(pass_id=pass_id, batch_id=batch_id))
                    cost, values = self._run(self.program, feed)
                    costs.append(cost)
                    metrics.append(values)
                    sizes.append(size)
                    handle(EndIteration(pass_id=pass_id, batch_id=batch_id, cost=cost, metrics=values, samples=size))
                    if stop.is_due():
                        return
                if not costs:
                    raise ValueError("the reader gave no batch")
                handle(EndPass(pass_id=pass_id, cost=_mean(costs, sizes), metrics=self._means(metrics, sizes)))
        except StopTraining:
            pass

    def test(self, reader: Callable[[], Iterable[Any]]) -> TestResult:
        """Return the means over the reader's batches, weighted by their sizes."""
        costs, metrics, sizes = [], [], []
        for batch in reader():
            cost, values = self._run(self.test_program, self.feeder.feed(batch))
            costs.append(cost)
            metrics.append(values)
            sizes.append(len(batch))
        if not costs:
            raise ValueError("the reader gave no batch")
        return TestResult(cost=_mean(costs, sizes), metrics=self._means(metrics, sizes), samples=sum(sizes))

    def _means(self, metrics: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
        return {name: _mean([values[name] for values in metrics], sizes) for name in self.metrics}

    def save_params(self, dirname: str) -> None:
        """Write all that persists; ``load_params`` goes on from there."""
        self._scoped(io.save_persistables, dirname)

    def load_params(self, dirname: str) -> None:
        self._scoped(io.load_persistables, dirname)

    def save_job(self, path: str, dataset: Any, **how: Any) -> None:
        """Write a file that ``trireme-trainer`` trains this program with, from its start: see ``io.save_job``."""
        how.setdefault("fetch_list", self._fetches)
        how.setdefault("fetch_info", ["cost", *self.metrics])
        io.save_job(path, dataset, self.program, self.startup_program, **how)

    def _scoped(self, function: Callable[..., None], dirname: str) -> None:
        with scope_guard(self.scope):
            function(self.executor, dirname, self.program)

    def save_inference_model(self, dirname: str, feeds: Sequence[str], targets: Sequence[Variable]) -> None:
        """Write what computes ``targets`` from ``feeds``, with its parameters."""
        with scope_guard(self.scope):
            io.save_inference_model(dirname, feeds, targets, self.executor, self.program)


def _mean(values: Sequence[Any], sizes: Sequence[int]) -> float:
    """The mean by samples. Batches without any count for nothing, unless all are: a job's loss is then still that of all."""
    means = np.array([np.mean(value) for value in values])
    counts = np.array(sizes)
    return float(np.average(means[counts > 0], weights=counts[counts > 0]) if counts.any() else means.mean())


__all__ = ["Trainer", "Event", "BeginPass", "EndPass", "BeginIteration", "EndIteration", "TestResult", "StopTraining"]
