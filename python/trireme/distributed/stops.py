"""The end of a training when one trainer's handler asks for it: the request reaches all trainers of a job.

The trainer posts a notice on server 0's board. Acknowledgements tell all trainers the number of the training, and each trainer reads
the notice after its next step. No trainer waits for another one.

In modes in which trainers wait for each other's steps, all trainers end after the same step. The notice names this step. It lies so
far ahead that every trainer has heard of the notice before it. In ``sync`` this is two steps: the notice is on server 0 before its
author's next step, and without that step no trainer gets further. The author makes these steps, too. In the other modes the author
ends at once, and each other trainer ends when it hears of the notice.

Notices outlive their processes, and record where each trainer has ended. So a script that runs again ends its training at the same
step as before. But a job that goes on from a checkpoint has no earlier notices, and in a replay no trainer waits for another's steps.
So in modes where all trainers end after the same step, the author also writes the notice into the folder of checkpoints. When a replay
comes to that step, it waits for the author. The author's handler, which may be a changed one, must ask for the end again; otherwise
the training goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from .._core import lib
from ..job import job as jobs
from ..job.job import Job
from ..job.mode import Mode
from ..job.session import session
from . import board
from .reached import checkpoints_now, is_replaying, mode_now, steps_made


def _steps_ahead(mode: Mode) -> int | None:
    """Return the number of steps after which all trainers have heard of a notice; None: there is no such number."""
    if mode.lead >= 0:
        return mode.lead + 3
    return 2 if mode.is_lockstep and not mode.snapshots_all else None


class _Record:
    """The notices in the folder of checkpoints. A training's notice has the author, the author's step when it asked, and the last
    step.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "stops.json")

    def read(self) -> dict[str, tuple[int, int, int]]:
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            with open(self._path, encoding="utf-8") as file:
                return {number: (int(author), int(step), int(end)) for number, (author, step, end) in json.load(file).items()}
        return {}

    def write(self, notices: dict[str, tuple[int, int, int]]) -> None:
        beside = f"{self._path}-{os.getpid()}~"
        with contextlib.suppress(OSError):             # the training goes on, as after a checkpoint that cannot be written
            with open(beside, "w", encoding="utf-8") as file:
                json.dump(notices, file)
            os.replace(beside, self._path)


class Stop:
    """Decides whether one training of this process, which begins now, should end before its data does."""

    def __init__(self) -> None:
        session.trainings += 1
        job = jobs.current()
        self.is_asked = False                          # this trainer has asked
        self._job = job if job is not None and job.trainers > 1 else None
        self.number, self._name = session.trainings, f"the end of training {session.trainings}"
        self._has_looked = False
        self._recorded: tuple[int, int] | None = None  # the author and the last step of this training in an earlier start of the job

    def ask(self) -> bool:
        """Ask all trainers to end. Return whether this trainer should end now."""
        self.is_asked, job = True, self._job
        if job is None:
            return True
        if not self._has_looked:
            self._look_for_record(job)
        step, ahead = steps_made(), _steps_ahead(mode_now())
        was_known = bool(board.post(job, name=self._name))
        posted = self._post(job, step, step + (ahead or 0))
        if ahead is not None:
            self._record(job, step, step + ahead)
        if not was_known and list(posted) == [job.index]:
            how = "the others end it where they hear of this" if ahead is None else f"all trainers end it after step {step + ahead}"
            sys.stderr.write(f"trireme: trainer {job.index} has stopped the training after step {step}; {how}\n")
        return self.is_due()

    def is_due(self) -> bool:
        """Return whether this trainer should end after the step that it has just made."""
        job = self._job
        if job is None:
            return False
        if not self._has_looked:
            self._look_for_record(job)
        if self._recorded is not None:
            return self._ends_again(job, *self._recorded)
        if not (self.is_asked or lib.tr_job_stops(job.ptr) >= self.number):
            return False
        ends = {index: int(data.split()[1]) for index, data in (board.post(job, name=self._name) or {}).items()}
        if not ends:                                   # the request is for another training
            return False
        step = steps_made()
        if _steps_ahead(mode_now()) is not None:
            return step >= min(ends.values())
        if job.index not in ends:
            if is_replaying():                # in the replayed run this trainer had not heard of it yet
                return False
            self._post(job, step, step)
            return True
        return step >= ends[job.index]

    def _look_for_record(self, job: Job) -> None:
        """Read the notices in the folder. A notice after the step that the job goes on from is not of its past: the job's first
        training removes it.
        """
        self._has_looked = True
        folder, first = checkpoints_now()
        if folder is None or _steps_ahead(mode_now()) is None:
            return
        record = _Record(folder)
        known = record.read()
        valid = {number: notice for number, notice in known.items() if notice[1] <= first}
        if valid != known and self.number == 1 and job.index == 0 and not job.is_replacement:
            record.write(valid)
        author, _, end = valid.get(str(self.number), (job.trainers, 0, 0))
        is_mine = author == job.index                  # a replacement of another trainer finds the notice on the board
        if first and (is_mine or (author < job.trainers and not job.is_replacement)):
            self._recorded = author, end

    def _ends_again(self, job: Job, author: int, end: int) -> bool:
        if steps_made() < end:
            return False
        self._recorded, name = None, f"{self._name}, again"
        if author == job.index:
            board.post(job, name=name, data=b"1" if self.is_asked else b"0")
            return self.is_asked
        answers = board.post(job, name=name, until=board.ONE, of=author)
        return answers is not None and answers.get(author) == b"1"

    def _record(self, job: Job, step: int, end: int) -> None:
        folder, _ = checkpoints_now()
        if folder is not None:
            record, number = _Record(folder), str(self.number)
            notice, known = (job.index, step, end), record.read()
            record.write({**known, number: min(known.get(number, notice), notice, key=lambda one: one[2])})

    def _post(self, job: Job, step: int, end: int) -> dict[int, bytes]:
        return board.post(job, name=self._name, data=f"{step} {end}".encode(), stops=self.number) or {}
