"""The session: what this process is in its job, and what its script has chosen for it.

There is one, ``session``. A setting that a script makes before the first step lies here; the functions that scripts call
(``distributed.set_mode``, ``set_compression``, ``checkpoint``) check a value and keep it here. What came of them when the job began is in
``session.training``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._core import ffi
from .checkpoint_settings import Settings

if TYPE_CHECKING:
    from ..distributed.checkpoint_manager import CheckpointManager
    from ..distributed.training import Training
    from ..train.local_checkpoints import LocalCheckpointManager
    from .job import Job


class Steps:
    """How a trainer of a job makes its steps. Executors, loops and the end of the process ask it: ``distributed/steps.py``."""

    training: Training | None = None

    def before_run(self, executor: Any, program: Any, scope: Any, feed: dict[str, Any],
                   names: tuple[str, ...]) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
        raise NotImplementedError

    def after_run(self, program: Any, names: tuple[str, ...], results: list[Any]) -> None:
        raise NotImplementedError

    def after_failure(self, error: BaseException, program: Any = None) -> None:
        raise NotImplementedError

    def before_loop(self, executor: Any, program: Any, scope: Any, names: tuple[str, ...]) -> Any:
        raise NotImplementedError

    def set_rows(self, scope: Any, name: str, call: str, fill: Callable[[Any], None], *, clear: bool) -> None:
        raise NotImplementedError

    def join_without_step(self) -> None:
        raise NotImplementedError

    def stop_daemons(self, seconds: float) -> None:
        raise NotImplementedError

    def before_goodbye(self) -> None:
        raise NotImplementedError


class Session:
    """The part of this process in its job. A process alone has no job, and the settings have no effect."""

    def __init__(self) -> None:
        self.job: Job | None = None                        # which this process has joined
        # reports the end of a process that has not joined; None: another process caused the end
        self.end_unjoined: tuple[int, str] | None = (1, "")
        self.steps: Steps | None = None
        self._load_steps: Callable[[], Steps] | None = None
        self._pid = 0

        self.mode = "sync"                                 # what the script has chosen; the launcher's choices are in the environment
        self.row_cache = 0, 0                              # rows, and steps that one stays
        self.compression = self.compression_of_parameters = "none"
        self.on_nan = "stop"
        self.min_block_bytes, self.slice_params = 32768, True    # how parameters are cut for servers
        self.batch_weight: float | None = None
        self.checkpoints = Settings()
        self.skips_itself = False                          # the script itself skips the batches of earlier steps

        self.manager: CheckpointManager | None = None            # of this trainer's checkpoints, once somebody has asked where it begins
        self.trainings = 0                                 # loops with epochs that the script has begun
        self.collectives = 0                               # that this trainer has made
        self.saves: dict[str, int] = {}                    # to each path, by this trainer
        self.is_saving = False
        self.local_manager: LocalCheckpointManager | None = None   # of checkpoints, in one process

    def become_rank(self, load_steps: Callable[[], Steps]) -> None:
        """Note that this process is a rank of a job. ``load_steps`` returns how it makes steps, once somebody asks."""
        self._load_steps, self._pid = load_steps, os.getpid()

    def steps_of_process(self) -> Steps | None:
        """Return how this process makes steps in its job. None: it trains by itself, as a copy (``os.fork``) of a rank does."""
        if self._load_steps is None or self._pid != os.getpid():
            return None
        if self.steps is None:
            self.steps = self._load_steps()
        return self.steps

    @property
    def native_job(self) -> Any:
        """The job as the core knows it. NULL: this process takes part in none now."""
        job = self.job
        return job.ptr if job is not None and job.ptr is not None and job.pid == os.getpid() else ffi.NULL

    @property
    def training(self) -> Training | None:
        """The training, from its first step on."""
        return self.steps.training if self.steps is not None else None


session = Session()
