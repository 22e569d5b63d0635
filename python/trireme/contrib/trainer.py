"""Fluid's trainer of functions: one makes the network, one the optimizer, one hears of each step.

``fluid.Trainer`` does the same for a network that is there already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import distributed
from ..checkpoint.folder import say, steps
from ..checkpoint.state import say_where
from ..distributed.checkpoints import claim_folder
from ..feeding.data_feeder import DataFeeder
from ..job.checkpoint_settings import entry_of
from ..native import unique_name
from ..native.checks import path_text
from ..native.errors import check_whole
from ..native.scope import Scope
from ..optimize.optimizer import Optimizer
from ..program import Program, Variable, program_guard
from ..run.compiler import CompiledProgram
from ..run.scopes import scope_guard
from ..saving import io
from ..saving.checkpoints import load_checkpoint, save_checkpoint
from ..train.executor import Executor
from .mixed_precision import OptimizerWithMixedPrecision


class BeginEpochEvent:
    """An epoch begins: ``epoch``."""

    def __init__(self, epoch_id: int) -> None:
        self.epoch = epoch_id


class EndEpochEvent:
    """An epoch has ended: ``epoch``."""

    def __init__(self, epoch_id: int) -> None:
        self.epoch = epoch_id


class BeginStepEvent:
    """A batch begins: ``epoch``, ``step``. With ``fetch_metrics = False`` the metrics of this step are not fetched."""

    def __init__(self, epoch_id: int, step_id: int) -> None:
        self.epoch, self.step = epoch_id, step_id
        self.fetch_metrics = True


class EndStepEvent:
    """A batch has ended: ``epoch``, ``step``, and ``metrics``, what the function of the network returned."""

    def __init__(self, epoch_id: int, step_id: int, metrics: list[Any]) -> None:
        self.epoch, self.step, self.metrics = epoch_id, step_id, metrics


class CheckpointConfig:
    """Where checkpoints are kept, how many, and every how many steps and epochs one is written.

    A trainer that finds checkpoints there goes on from the newest, and a line says so. Checkpoints of another script are refused.
    In a job ``step_interval`` alone says when.
    """

    def __init__(self, checkpoint_dir: str | None = None, max_num_checkpoints: int = 3, epoch_interval: int = 1,
                 step_interval: int = 10) -> None:
        for name, value in (("max_num_checkpoints", max_num_checkpoints), ("epoch_interval", epoch_interval),
                            ("step_interval", step_interval)):
            check_whole(f"CheckpointConfig: {name}", value, 1)
        self.checkpoint_dir = path_text(checkpoint_dir or os.path.join(os.getcwd(), "checkpoints"))
        self.max_num_checkpoints, self.epoch_interval, self.step_interval = map(int, (max_num_checkpoints, epoch_interval, step_interval))


class Trainer:
    """Trains what ``train_func`` describes: it returns the loss, or a list of the loss and other variables to watch.

    ``optimizer_func`` returns the optimizer, ``param_path`` is a folder with first values of the parameters. A reader yields batches, lists
    of samples whose fields are in the order of ``feed_order``: names, or a dict of names to places. In a job each trainer takes its slice
    of each batch. Each trainer has programs and a scope of its own; with ``parallel`` it trains by replicas on
    ``fluid.cpu_places()`` (``CompiledProgram``), and ``metrics`` have the values of each.

    >>> def network():
    ...     x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    ...     return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    >>> trainer = fluid.contrib.trainer.Trainer(network, lambda: fluid.optimizer.SGD(0.1), place=fluid.CPUPlace())
    >>> batch = [(np.array([a]), np.array([2 * a])) for a in (0.0, 1.0)]
    >>> trainer.train(300, lambda event: None, lambda: [batch], feed_order=["x", "y"])
    >>> trainer.test(lambda: [batch], feed_order=["x", "y"])[0] < 0.001
    True
    """

    def __init__(self, train_func: Callable[[], Any], optimizer_func: Callable[[], Optimizer | OptimizerWithMixedPrecision],
                 param_path: str | None = None,
                 place: Any = None, parallel: bool = False, checkpoint_config: CheckpointConfig | None = None) -> None:
        if checkpoint_config is not None and not isinstance(checkpoint_config, CheckpointConfig):
            raise TypeError(f"Trainer: checkpoint_config must be a CheckpointConfig, got {checkpoint_config!r}")
        self.parallel, self.checkpoint_cfg = parallel, checkpoint_config
        self.scope, self.startup_program, self.train_program = Scope(), Program(), Program()
        self._stopped = False
        self._done = (0, 0, 0)                         # epochs, steps of the next one, and steps of all that have been made
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            outputs = train_func()
            self.train_func_outputs: list[Variable] = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            self.test_program = self.train_program.clone(for_test=True)
            optimizer = optimizer_func()
            if not isinstance(optimizer, (Optimizer, OptimizerWithMixedPrecision)):
                raise TypeError(f"Trainer: optimizer_func must return an Optimizer, got {optimizer!r}")
            optimizer.minimize(self.train_func_outputs[0])
        self._trained: Any = self.train_program
        if parallel:
            self._trained = CompiledProgram(self.train_program).with_data_parallel(self.train_func_outputs[0].name)
        if checkpoint_config is not None and distributed.is_distributed():
            distributed.checkpoint(checkpoint_config.checkpoint_dir, every_steps=checkpoint_config.step_interval,
                                   keep=checkpoint_config.max_num_checkpoints, resume=True)
        self.place = place
        self.exe = Executor(place)
        with scope_guard(self.scope):
            self.exe.run(self.startup_program)
            if param_path:
                io.load_persistables(self.exe, param_path, self.startup_program)
            self._go_on()

    # -- checkpoints of one process ----------------------------------------------------------------

    @property
    def _keeps_alone(self) -> CheckpointConfig | None:
        return None if distributed.is_distributed() else self.checkpoint_cfg

    def _go_on(self) -> None:
        config = self._keeps_alone
        if config is None:
            return
        claim_folder(config.checkpoint_dir, entry_of(resume=True))
        if not steps(config.checkpoint_dir):
            return
        found = load_checkpoint(self.exe, config.checkpoint_dir, self.train_program)
        say_where(found, self.train_program)
        epoch, step = (int(word) for word in (found.trainer()[2] or b"0 0").split())
        self._done = epoch, step, found.step

    def _keep(self, epoch: int, step: int, total: int) -> None:
        """Write a checkpoint from which ``step`` of ``epoch`` is the next, ``total`` being made."""
        config = self._keeps_alone
        if config is not None:
            save_checkpoint(self.exe, config.checkpoint_dir, self.train_program, step=total, keep=config.max_num_checkpoints,
                            position=f"{epoch} {step}".encode())

    # -- training ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the training after this step."""
        self._stopped = True

    def train(self, num_epochs: int, event_handler: Callable[[Any], None], reader: Callable[[], Iterable[Any]] | None = None,
              feed_order: Any = None) -> None:
        """Go over the reader's batches ``num_epochs`` times, those of checkpoints included."""
        if reader is None:
            raise ValueError("Trainer.train: reader is missing: a function that returns an iterable of batches")
        feeder = self._feeder(self.train_program, feed_order)
        fetches = [var.name for var in self.train_func_outputs]
        first, skipped, total = self._done
        self._stopped = False
        if first >= num_epochs > 0 and self._keeps_alone is not None:
            say(f"all {num_epochs} epochs are in the checkpoint of step {total}: nothing is left to train")
        with scope_guard(self.scope):
            for epoch in range(first, num_epochs):
                event_handler(BeginEpochEvent(epoch))
                step = 0
                for step, data in enumerate(distributed.shard(reader)()):
                    if step < skipped:
                        continue
                    self._step(event_handler, epoch, step, feeder.feed(data), fetches)
                    total += 1
                    config = self._keeps_alone
                    if config is not None and total % config.step_interval == 0:
                        self._keep(epoch, step + 1, total)
                    if self._stopped:
                        self._done = epoch, step + 1, total
                        return
                skipped = 0
                event_handler(EndEpochEvent(epoch))
                self._done = epoch + 1, 0, total
                if self._keeps_alone is not None and (epoch + 1) % self._keeps_alone.epoch_interval == 0:
                    self._keep(epoch + 1, 0, total)

    def _step(self, event_handler: Callable[[Any], None], epoch: int, step: int, feed: dict[str, Any], fetches: list[str]) -> None:
        begin = BeginStepEvent(epoch, step)
        event_handler(begin)
        metrics = self.exe.run(self._trained, feed=feed, fetch_list=fetches if begin.fetch_metrics else [])
        event_handler(EndStepEvent(epoch, step, metrics))

    def test(self, reader: Callable[[], Iterable[Any]], feed_order: Any = None) -> list[float]:
        """Return the means of what ``train_func`` returned over the reader's batches, weighted by their sizes."""
        feeder = self._feeder(self.test_program, feed_order)
        names = [var.name for var in self.train_func_outputs]
        totals, count = np.zeros(len(names)), 0
        with scope_guard(self.scope):
            for data in reader():
                values = self.exe.run(self.test_program, feed=feeder.feed(data), fetch_list=names)
                totals += [float(np.mean(value)) * len(data) for value in values]
                count += len(data)
        if count == 0:
            raise ValueError("Trainer.test: the reader gave no samples")
        return [float(total) for total in totals / count]

    def _feeder(self, program: Program, feed_order: Any) -> DataFeeder:
        return DataFeeder(build_feed_var_list(program, feed_order), self.exe.place, program)

    # -- files -------------------------------------------------------------------------------------

    def save_params(self, param_path: str) -> None:
        """Write all that persists."""
        with scope_guard(self.scope):
            io.save_persistables(self.exe, param_path, self.train_program)

    def save_inference_model(self, param_path: str, feeded_var_names: Sequence[str], target_var_indexes: Sequence[int]) -> None:
        """Write what computes ``train_func``'s results of these numbers."""
        with scope_guard(self.scope):
            io.save_inference_model(param_path, feeded_var_names, [self.train_func_outputs[i] for i in target_var_indexes], self.exe,
                                    self.test_program)


def build_feed_var_list(program: Program, feed_order: Any) -> list[Variable]:
    """Return the variables of ``feed_order``: names in order, a dict of names to places, or None for all data variables as they were
    made."""
    block = program.global_block()
    if feed_order is None:
        return [var for var in block.vars.values() if var.is_data]
    if isinstance(feed_order, dict):
        if sorted(feed_order.values()) != list(range(len(feed_order))):
            raise ValueError(f"feed_order: the places must be 0 .. {len(feed_order) - 1}, got {feed_order!r}")
        feed_order = sorted(feed_order, key=feed_order.__getitem__)
    if not isinstance(feed_order, (list, tuple)):
        raise TypeError(f"feed_order must be a list of names, or a dict of names to places, got {feed_order!r}")
    return [block.var(name) for name in feed_order]


__all__ = ["Trainer", "BeginEpochEvent", "EndEpochEvent", "BeginStepEvent", "EndStepEvent", "CheckpointConfig", "build_feed_var_list"]
