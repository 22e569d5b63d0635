"""A training as a run of Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...native.checks import path_text
from ...native.errors import InvalidArgumentError, check_whole
from ...native.optional import expect, load
from .tracked_run import Tracker, facts


class Wandb(Tracker):
    """Logs a training to a run of Weights & Biases: the numbers of each epoch (``loss``, ``val_loss`` ..., over ``epoch``, which counts
    from 1), and on request those of steps (``batch/loss`` ..., over ``step``).

    ``project``: its name (str, default ``WANDB_PROJECT`` of the environment). ``name``: shown for the run (str, default: W&B makes one
    up). ``config``: a dict of what the run is to tell besides. ``every``: log every so many steps that callbacks hear of (int, default 0:
    epochs alone). ``dir``: where W&B keeps its files (a path, default ``WANDB_DIR``, else ``./wandb``). It needs the library ``wandb``:
    ``pip install '.[wandb]'``. With ``WANDB_MODE=offline`` it writes files alone, which ``wandb sync`` sends later.

    A training has one run. A job that is started again after a death, and a job that goes on from a checkpoint, give W&B the same id.
    Offline each start writes a folder of its own, and ``wandb sync`` makes one run of them. In a job one trainer logs, with the numbers
    of the whole job at the ends of epochs.

    >>> fluid.callbacks.Wandb(project="digits", config={"rate": 0.1}, every=100).every
    100
    """

    def __init__(self, project: str | None = None, name: str | None = None, config: Mapping[str, Any] | None = None, every: int = 0,
                 dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__(check_whole("Wandb: every", every))
        if config is not None and not isinstance(config, Mapping):
            raise InvalidArgumentError(f"Wandb: config must be a dict, got {config!r}")
        self.project, self.name, self.config = project, name, dict(config or {})
        self.dir = None if dir is None else path_text(dir)
        expect("wandb", "Wandb")
        self.run: Any = None

    def _open(self, name: str) -> None:
        wandb = load("wandb", "Wandb")
        self.run = wandb.init(project=self.project, name=self.name, id=f"trireme-{name}", resume="allow", dir=self.dir,
                              config={**facts(), **self.config}, settings=wandb.Settings(console="off"))
        for names, over in (("*", "epoch"), ("batch/*", "step")):
            self.run.define_metric(over, hidden=True)
            self.run.define_metric(names, step_metric=over)

    def _send(self, numbers: dict[str, float], at: int, is_epoch: bool) -> None:
        self.run.log({**numbers, "epoch" if is_epoch else "step": at})

    def _close(self) -> None:
        self.run.finish()
        self.run = None
