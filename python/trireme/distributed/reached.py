"""The progress of this trainer, also before its first step and in a replay."""

from __future__ import annotations

from ..job import job as jobs
from ..job.mode import Mode
from ..job.mode import current as current_mode
from ..job.session import session
from .checkpoint_manager import beginning_of


def is_replaying() -> bool:
    """Return whether the next run is a replayed step: it was made before, so it is not computed.

    >>> fluid.distributed.is_replaying()
    False
    """
    if session.training is not None:
        return session.training.is_replaying()
    job = jobs.current()
    return job is not None and bool(job.resumed or (beginning_of(job).steps and not session.skips_itself))


def steps_made() -> int:
    """Return the number of steps that this trainer has made; in a replay, the number of replayed steps."""
    return session.training.steps_made() if session.training is not None else 0


def mode_now() -> Mode:
    """Return the mode of the training, or the one that it will have."""
    return session.training.result.mode if session.training is not None else current_mode()


def checkpoints_now() -> tuple[str | None, int]:
    """Return the folder of checkpoints, if the job keeps any, and the number of steps that were made before this process began."""
    return (session.training.manager.folder, session.training.manager.first) if session.training is not None else (None, 0)
