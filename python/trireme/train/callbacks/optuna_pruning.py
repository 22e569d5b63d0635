"""Trials of Optuna that end early where others are better."""

from __future__ import annotations

from typing import Any

from ...distributed import is_distributed
from ...native.errors import InvalidArgumentError
from ...native.optional import expect, load
from .base import Callback, Logs, Monitor


class OptunaPruning(Callback):
    """Tells Optuna a number of each epoch, and ends the training when Optuna prunes the trial.

    ``trial``: the trial of Optuna; or the number of a trial of ``study``, which another process has asked for. ``monitor``: name of the
    number (str, default ``"val_loss"``). ``study``: of Optuna (default None: ``trial`` is a trial). With a study the callback also tells
    the trial's result at the end: that it was pruned, or the number of the last epoch. It needs the library ``optuna``:
    ``pip install '.[optuna]'``.

    In a job the first trainer asks Optuna, and all trainers do the same after the same epoch; ``trial`` and ``study`` may be None on the
    others. A trainer that dies, and a job that goes on, change no decision. Afterwards ``pruned`` says on all trainers whether the trial
    was pruned, and ``raise_if_pruned()`` raises ``optuna.TrialPruned`` then, as a function for ``study.optimize`` is to do.
    NotFoundError: an epoch has no such number.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> def objective(trial):
    ...     with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
    ...         x = fluid.layers.data("x", [1])
    ...         loss = fluid.layers.mean(fluid.layers.fc(x, 1, bias_attr=False, param_attr=fluid.initializer.Constant(1.0)))
    ...         trainer = fluid.Trainer(loss, fluid.optimizer.SGD(trial.suggest_float("rate", 0.1, 0.1)))
    ...         prunes = fluid.callbacks.OptunaPruning(trial, "loss")
    ...         history = trainer.train(lambda: [[([1.0],)]], epochs=4, callbacks=[prunes])
    ...         prunes.raise_if_pruned()
    ...         return history.last["loss"]
    >>> study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(lower=0.85))
    >>> study.optimize(objective, n_trials=1)
    >>> study.trials[0].state.name, len(study.trials[0].intermediate_values)
    ('PRUNED', 3)
    """

    def __init__(self, trial: Any, monitor: str = "val_loss", *, study: Any = None) -> None:
        expect("optuna", "OptunaPruning")
        if isinstance(trial, int) and study is None and not is_distributed():
            raise InvalidArgumentError(f"OptunaPruning: trial {trial} of which study? Give study=optuna.load_study(...)")
        self._monitor = Monitor("OptunaPruning", monitor, "auto")
        self.trial, self.study = trial, study
        self.pruned = False

    def on_train_begin(self, logs: Logs) -> None:
        self.pruned = False

    def _opened(self) -> Any:
        """Return the trial; the first trainer alone asks for it."""
        if isinstance(self.trial, int) and self.study is not None:
            trials = self.study.get_trials(deepcopy=False)
            if not 0 <= self.trial < len(trials):
                raise InvalidArgumentError(f"OptunaPruning: study {self.study.study_name!r} has {len(trials)} trials, none is {self.trial}")
            self.trial = load("optuna", "OptunaPruning").trial.Trial(self.study, trials[self.trial]._trial_id)
        if not hasattr(self.trial, "should_prune"):
            raise InvalidArgumentError(f"OptunaPruning: the first trainer needs a trial, or its number and study; it has {self.trial!r}")
        return self.trial

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        from ...distributed.epochs import of_first

        value = self._monitor.value(logs)
        mine = {"prune": self._ask(epoch, value) if self.training.is_writer else False}
        self.pruned = bool(of_first(f"OptunaPruning of epoch {epoch + 1}", mine)["prune"])
        if self.pruned:
            self.training.stop()

    def _ask(self, epoch: int, value: float) -> bool:
        """Tell Optuna this epoch's number once, and ask whether the trial ends."""
        trial = self._opened()
        known = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values if hasattr(trial, "study") else {}
        if epoch not in known:
            trial.report(value, epoch)
        return bool(trial.should_prune())

    def on_train_end(self, logs: Logs) -> None:
        if self.study is not None and self.training.is_writer:
            optuna, number = load("optuna", "OptunaPruning"), self._opened().number
            if self.pruned:
                self.study.tell(number, state=optuna.trial.TrialState.PRUNED, skip_if_finished=True)
            else:
                self.study.tell(number, self._monitor.value(logs), skip_if_finished=True)

    def raise_if_pruned(self) -> None:
        """Raise ``optuna.TrialPruned`` if the trial was pruned."""
        if self.pruned:
            raise load("optuna", "OptunaPruning").TrialPruned(f"pruned after epoch {self.training.history.epoch[-1] + 1}")
