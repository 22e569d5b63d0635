"""A training loop: ``Trainer(loss, optimizer).train(reader, epochs, event_handler)``.

The handler is called with events, in the way of the V2 API:

    def handler(event):
        if isinstance(event, trireme.trainer.EndIteration) and event.batch_id % 100 == 0:
            print(event.pass_id, event.batch_id, event.cost)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import distributed
from ..distributed.epochs import Means
from ..feeding.data_feeder import DataFeeder
from ..native.errors import check_whole
from ..native.scope import Scope
from ..optimize.mixed_precision import OptimizerWithMixedPrecision
from ..optimize.optimizer import Optimizer
from ..program import Program, Variable, default_startup_program
from ..run.scopes import global_scope, scope_guard
from ..saving import io
from .callbacks.base import History
from .training_session import TrainingSession, Listener
from .events import BeginIteration, BeginPass, BeginTraining, EndIteration, EndPass, EndTraining, Event, StopTraining, TestResult
from .executor import Executor


class Trainer:
    """Trains the program of ``loss``.

    ``metrics`` are variables to watch beside the loss, by name. A reader yields batches: lists of samples whose
    fields stand in the order of ``feed_order`` (default: that in which the data variables were made).

    ``optimizer`` is the optimizer whose ``minimize`` is called with the loss, or what ``fluid.contrib.mixed_precision.decorate`` has made
    of it.

    >>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1])
    >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> trainer = fluid.Trainer(loss, fluid.optimizer.SGD(0.1))
    >>> batch = [(np.array([a, b]), np.array([a - b])) for a in (0, 1) for b in (0, 1)]
    >>> history = trainer.train(lambda: [batch] * 200, epochs=1)
    >>> bool(trainer.test(lambda: [batch]).cost < 0.001)
    True
    """

    def __init__(self, loss: Variable, optimizer: Optimizer | OptimizerWithMixedPrecision, *, metrics: dict[str, Variable] | None = None,
                 feed_order: Sequence[str] | None = None, place: Any = None, scope: Scope | None = None,
                 startup_program: Program | None = None) -> None:
        if not isinstance(loss, Variable):
            raise TypeError(f"Trainer: loss must be a Variable, got {loss!r}")
        if not isinstance(optimizer, (Optimizer, OptimizerWithMixedPrecision)):
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

    def _run(self, program: Program, feed: dict[str, Any], fetches: Sequence[str]) -> list[Any]:
        values = self.executor.run(program, feed=feed, fetch_list=fetches, scope=self.scope)
        return [float(value.reshape(-1)[0]) if value.size == 1 else value for value in values]

    def train(self, reader: Callable[[], Iterable[Any]], epochs: int = 1, event_handler: Callable[[Event], None] | None = None, *,
              callbacks: Sequence[Listener] | None = None, validation: Callable[[], Iterable[Any]] | None = None) -> History:
        """Go over the reader's batches ``epochs`` times. In a job every trainer takes its slice of each batch.

        ``event_handler`` hears each event. ``callbacks`` is a list of ``fluid.callbacks``, or of functions of an event. ``validation`` is a
        reader, which is gone over at the end of each epoch: ``val_loss`` and its kind are the means over its batches. In a job each trainer
        takes its slice of them, too. With callbacks or validation trainers meet at the end of each epoch; its numbers are then those of the
        whole job, else the loss alone is.

        Return the history: ``history.history["loss"]`` has a number for each epoch, as have metrics and ``val_loss``. An epoch that a
        handler ends in its middle is in it where there are callbacks or validation. ValueError: the reader gave no batch.
        """
        epochs = check_whole("Trainer.train: epochs", epochs)
        session = TrainingSession("Trainer.train", self.program, self.scope, self.executor, epochs, event_handler, callbacks,
                                  validation is not None)
        more = session.fetches()
        validate = None if validation is None else lambda: self._means_of(distributed.shard(validation))[0]
        session.begin()
        for _ in range(epochs):
            session.begin_epoch()
            if session.is_over and not session.meets:
                break
            self._train_epoch(session, reader, more, validate)
            if session.is_over:
                break
        session.end()
        return session.history

    def _train_epoch(self, session: TrainingSession, reader: Callable[[], Iterable[Any]], more: dict[str, str],
                     validate: Callable[[], Means] | None) -> None:
        names, fetches = ["loss", *self.metrics], [*self._fetches, *more.values()]
        batches, sizes, latest = [], [], {}
        fed = ((len(batch), self.feeder.feed(batch)) for batch in distributed.shard(reader)())
        for number, (size, feed) in enumerate(distributed.prefetched(fed, lambda item: item[1], self.program, self.scope)):
            session.hear(BeginIteration(pass_id=session.epoch, batch_id=number))
            if session.is_over:
                break
            values = self._run(self.program, feed, fetches)
            latest = dict(zip(more, values[len(names):]))
            batches.append(values[:len(names)])
            sizes.append(size)
            metrics = dict(zip(self.metrics, values[1:]))
            session.hear(EndIteration(pass_id=session.epoch, batch_id=number, cost=values[0], metrics=metrics, samples=size,
                                     logs={**dict(zip(names, values)), **latest}))
            if session.is_due():
                break
        if not batches and not session.is_over:
            raise ValueError("the reader gave no batch")
        session.end_epoch(Means.of(names, batches, sizes) if batches else Means({}, 0.0), latest, validate)

    def _means_of(self, reader: Callable[[], Iterable[Any]]) -> tuple[Means, int]:
        """Return the means over a reader's batches, and the number of samples."""
        batches, sizes = [], []
        for batch in reader():
            batches.append(self._run(self.test_program, self.feeder.feed(batch), self._fetches))
            sizes.append(len(batch))
        if not batches:
            raise ValueError("the reader gave no batch")
        return Means.of(["loss", *self.metrics], batches, sizes), sum(sizes)

    def test(self, reader: Callable[[], Iterable[Any]]) -> TestResult:
        """Return the means over the reader's batches, weighted by their sizes. In a job they are of this trainer's own reader."""
        means, samples = self._means_of(reader)
        metrics = dict(means.values)
        return TestResult(cost=metrics.pop("loss"), metrics=metrics, samples=samples)

    def save_params(self, dirname: str) -> None:
        """Write all that persists; ``load_params`` goes on from there."""
        self._scoped(io.save_persistables, dirname)

    def load_params(self, dirname: str) -> None:
        """Load the parameters that ``save_params`` has written."""
        self._scoped(io.load_persistables, dirname)

    def save_job(self, path: str, dataset: Any, **how: Any) -> None:
        """Write a file that ``trireme-trainer`` trains this program with, from its start: see ``io.save_job``.
        ``dataset`` is the Dataset to train on.
        """
        how.setdefault("fetch_list", self._fetches)
        how.setdefault("fetch_info", ["cost", *self.metrics])
        from .saved_job import save_job

        save_job(path, dataset, self.program, self.startup_program, **how)

    def _scoped(self, function: Callable[..., None], dirname: str) -> None:
        with scope_guard(self.scope):
            function(self.executor, dirname, self.program)

    def save_inference_model(self, dirname: str, feeds: Sequence[str], targets: Sequence[Variable]) -> None:
        """Write what computes ``targets`` from ``feeds``, with its parameters."""
        with scope_guard(self.scope):
            io.save_inference_model(dirname, feeds, targets, self.executor, self.program)


__all__ = ["Trainer", "Event", "BeginTraining", "EndTraining", "BeginPass", "EndPass", "BeginIteration", "EndIteration", "TestResult",
           "StopTraining"]
