"""Steps that a trainer makes while it waits for another one's post: in a collective, or for a save.

In modes with a common step (``sync``, ``average``) or a bound (``ssp``) others need this trainer's steps. While it waits, it makes these
steps without a gradient, as with an empty slice of the batch. Server 0 says which are needed. All trainers leave a collective after the
same step: that of the trainer that came to it last. So a script that runs again comes to the same steps, and no timing changes a bit.

Positions are counted in steps of the job: in ``average(k)`` one is ``k`` steps of the script.
"""

from __future__ import annotations

from typing import Any

from .._core import lib
from ..job.session import session
from ..native.errors import InvalidArgumentError, check, user_line
from .geo import COUNT


def position() -> int:
    """Return the number of the job's steps that the script has made, also in a replay."""
    training = session.training
    return training.steps_made() // training.result.mode.period if training is not None else 0


def _keeps_step(training: Any) -> bool:
    """Return whether other trainers wait for this trainer's steps."""
    mode = training.result.mode
    return mode.lead >= 0 or (mode.is_lockstep and not mode.gathers_per_trainer)


def come_to(step: int) -> None:
    """Make steps without a gradient up to ``step``, which others have made while this trainer waited. Then take the new parameters."""
    training = session.training
    if training is None:
        return
    if _keeps_step(training):
        while position() < step:
            _make(training)
    training.refresh(step - position())


def make_step(call: str) -> None:
    """Make one step, for which others wait while this trainer waits in ``call``. A trainer that has not joined does so."""
    training = session.training
    if training is not None:
        _make(training)
        return
    steps = session.steps_of_process()
    if steps is not None:
        steps.join_without_step()
    if session.training is None:
        raise InvalidArgumentError(f"{call}: other trainers wait in their first step for this trainer, which has no training program to "
                                   "agree to: run the startup program before this call in all trainers, and minimize in the default main "
                                   f"program\n  your line: {user_line()}")


def _make(training: Any) -> None:
    period, replay = training.result.mode.period, training.replay
    if replay is not None:
        missing = min(period - replay.made % period, replay.steps - replay.made)
        replay.made += missing
        if missing:
            if replay.is_over:
                training.load_own()
            return
        training.end_replay()
    scope = training.scope
    count = int(scope.find_var(COUNT).get_tensor().numpy()[0]) if training.result.flush is not None else 0
    if count:
        training.flush()                               # the steps since the last exchange are this one's part
    else:
        check(lib.tr_job_step_idle(training.job.ptr))
    training.manager.make_idle(period - count)
    training.is_behind = True
