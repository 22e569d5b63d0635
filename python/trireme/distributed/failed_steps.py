"""A step that fails in the middle: the end of the job, if a part of its gradients has left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .._core import ffi, lib
from ..job.session import session
from ..native.errors import PeerError

if TYPE_CHECKING:
    from ..program import Program


def after_failure(error: BaseException, program: Program | None = None) -> None:
    """Called when a run of ``program`` (None: a loop) in a job has failed with ``error``, which the script may catch.

    Before its first gradient has been sent, a step can be made again, with another batch, too. After that the servers have a part of the
    step. No rule could complete it, and all others would wait for the rest. So the job ends here, and the error is shown now.
    """
    job = session.job
    if job is None or job.ptr is None or not job.has_work or job.failure is not None:
        return
    if lib.tr_job_step_retract(job.ptr):
        _count_anew(program)
        return
    if isinstance(error, PeerError) and error.status == "EPEER":   # the job has failed already
        return
    import traceback  # here: a trainer starts without it

    traceback.print_exception(error)
    sys.stderr.flush()
    name = ffi.string(lib.tr_job_rank_name(job.ptr, lib.tr_job_rank(job.ptr))).decode()
    said = str(error).partition("\n")[0]
    what = f"{type(error).__name__}{': ' + said if said else ''}"
    job.failure = (f"{name} failed in the middle of step {lib.tr_job_step(job.ptr) + 1}, of which it had sent gradients: {what}. A script "
                   "can catch an error of the forward part and take another batch, but not one of the backward part")
    lib.tr_job_abort(job.ptr, job.failure.encode())


def _count_anew(program: Program | None) -> None:
    training = session.training
    if training is not None:
        training.manager.after_failure(program is not None and program in (training.program, training.result.idle))
