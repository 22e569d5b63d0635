"""The begin of a rank, as soon as the package is loaded in it."""

from __future__ import annotations

from ..job import job
from ..job.session import Steps, session


def begin() -> None:
    """Reserve the rank for this process, watch how it ends, and be ready to make steps."""
    if job.is_launched():
        session.become_rank(_load_steps)
        job.prepare()


def _load_steps() -> Steps:
    from .steps import JobSteps  # a standby that waits needs none of it

    return JobSteps()
