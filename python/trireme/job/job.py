"""The place of this process in a job: its start, its role, its end.

A process that mpirun started is a trainer of a job, unless TRIREME_LOCAL=1 lets it train by itself. The job starts when a script first
needs it; before that MPI costs nothing. At the end of the process the other ranks learn how it ended: by a goodbye, or by the script's
error.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

from .._core import ffi, lib
from ..native.errors import InvalidArgumentError, PeerError, TriremeError, check
from ..native.locks import new_lock
from ..native.handles import Uncopied
from ..native.interrupt import look
from .session import session
from .surroundings import has_launcher, rank_words

_TRAINER, _STANDBY = 0, 2                # TR_ROLE_TRAINER, TR_ROLE_STANDBY
_RANK_IS = "TRIREME_JOB_PID"           # children of a trainer inherit mpirun's variables, but they are no ranks
_STANDBY_MODULE = "trireme.launch.standby"


def is_launched() -> bool:
    """Return whether this process is one of several ranks of a job."""
    return (lib.tr_job_is_launched() and os.environ.get("TRIREME_LOCAL", "0") in ("", "0")
            and os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("SLURM_NTASKS")) != "1"
            and os.environ.get(_RANK_IS, str(os.getpid())) == str(os.getpid()))


class Job(Uncopied):
    """A started job, as a trainer sees it."""

    def __init__(self, replacement: Any = None) -> None:
        """Join as a trainer. With ``replacement``, this standby of that job has become a trainer."""
        self.is_replacement = replacement is not None
        out = ffi.new("tr_job **", replacement or ffi.NULL)
        if replacement is None:
            check(lib.tr_dist_init())
            check(lib.tr_job_start(out, _TRAINER, ffi.NULL))
        self.ptr = out[0]
        self.index: int = lib.tr_job_index(self.ptr)
        self.trainers: int = lib.tr_job_trainers(self.ptr)
        self.servers: int = lib.tr_job_servers(self.ptr)
        self.pid = os.getpid()
        self._resumed: tuple[bool, int] | None = None
        self.failure: str | None = None                # why this process ends the job
        self.exit_code: Any = 0                        # the last argument of sys.exit
        self.stop_code = 0                             # exit code of all ranks; this process has asked for it
        self.has_work = False                          # the first step has begun, so the servers have their setup

    def _found(self) -> tuple[bool, int]:
        if self._resumed is None:
            resumes, steps = ffi.new("bool *"), ffi.new("int64_t *")
            check(lib.tr_job_resumed(self.ptr, resumes, steps))
            self._resumed = bool(resumes[0]), steps[0]
        return self._resumed

    @property
    def resumes(self) -> bool:
        """Whether the servers hold the state of an earlier start of the job. This trainer may have no step in it."""
        return self._found()[0]

    @property
    def resumed(self) -> int:
        """Steps of this trainer that an earlier start of the job has left with its servers."""
        return self._found()[1]

    @property
    def has_servers_state(self) -> bool:
        """Return whether the servers hold the state that this trainer goes on from: the job was started again, or this trainer
        replaces a dead one.
        """
        return self.is_replacement or self.resumes

    def stop(self, why: str, code: int) -> None:
        """End this process and with it the job, on all ranks with this exit code."""
        name = ffi.string(lib.tr_job_rank_name(self.ptr, lib.tr_job_rank(self.ptr))).decode()
        self.failure, self.stop_code = f"{name} {why}", code

    def free(self) -> bool:
        """Leave the job. Return whether all went well."""
        ptr, self.ptr = self.ptr, None
        if self.failure is not None:
            if self.stop_code:
                lib.tr_job_stop(ptr, self.failure.encode(), self.stop_code)
            else:
                lib.tr_job_abort(ptr, self.failure.encode())
        return bool(lib.tr_job_free(ptr) == 0)


starting = new_lock()                                 # one thread begins; a process joins once


def current() -> Job | None:
    """Return the job, and start it if needed. None: this process trains by itself."""
    if session.job is None and is_launched():
        with starting:
            if session.job is None:
                _start()
    return session.job if session.job is not None and session.job.pid == os.getpid() and session.job.ptr is not None else None


def say_in_time(what: str) -> None:
    """Refuse a setting that comes after the first step: it would have no effect on the job, and nobody would notice."""
    if session.job is not None and session.job.has_work:
        raise InvalidArgumentError(f"{what} comes after the first step, when the job's servers have their work: say it before")


def _start() -> None:
    look()                                             # the others may take long to come
    try:
        session.job = Job()
    except TriremeError as error:
        if not has_launcher():
            error.args = ((f"{error}\n  No mpirun is among the parents of this process. If it belongs to no job, variables of one are left "
                           f"over in its environment ({rank_words()}): TRIREME_LOCAL=1 trains without a job"), *error.args[1:])
        raise


def wait_as_standby() -> bool:
    """Join as a standby, and take the place of a server that has died. Return True when this process should run the script in a dead
    trainer's place. Otherwise this call ends the process together with the job.
    """
    out = ffi.new("tr_job **")
    try:
        check(lib.tr_dist_init())
        check(lib.tr_job_start(out, _STANDBY, ffi.new("tr_job_options *", {"can_replace": True})))
        check(lib.tr_job_serve(out[0]))
    except TriremeError as error:
        if out[0] == ffi.NULL and error.status != "EPEER":
            sys.stderr.write(f"trireme: a standby did not join: {error}\n")
    else:
        if lib.tr_job_role(out[0]) == _TRAINER:
            session.job = Job(out[0])
            _seed()
            return True
        if lib.tr_job_free(out[0]) == 0:
            os._exit(0)
        out[0] = ffi.NULL
    if out[0] != ffi.NULL:
        lib.tr_job_free(out[0])
    _flush()
    os._exit(lib.tr_job_exit_code())               # one rank has printed why the job ends


def leads() -> bool:
    """Return whether this process prints and writes for the job: the first trainer that makes steps, or the only process."""
    job = current()
    if job is None:
        return True
    return bool(lib.tr_job_makes_checkpoints(job.ptr)) if job.has_work else job.index == 0


def prepare() -> None:
    """In a rank of a job: reserve the rank for this process, watch how the process ends, and let readers shuffle alike in all
    trainers.

    Each trainer takes its slice of the same batches. A script that seeds its random numbers itself overrides this.
    """
    os.environ[_RANK_IS] = str(os.getpid())
    _watch_end()
    lib.tr_job_prepare()
    if not (sys.argv[:1] == ["-m"] and _STANDBY_MODULE in sys.orig_argv):
        _seed()                                        # a standby does this when it runs the script: it waits without NumPy


def _seed() -> None:
    import random

    import numpy as np

    name = os.environ.get("TRIREME_SHUFFLE") or os.environ.get("PMIX_NAMESPACE") or os.environ.get("OMPI_MCA_ess_base_jobid") or "trireme"
    random.seed(name)
    np.random.seed(sum(name.encode()) + 256 * len(name))


def is_distributed() -> bool:
    """Return whether this process is a trainer of a job.

    Outside of a job:

    >>> fluid.distributed.is_distributed()
    False
    """
    return is_launched()


def trainer_index() -> int:
    """Return this trainer's number, from 0.

    It is 0 in one process. Trainer 0 of a job is often the one that prints:

    >>> if fluid.distributed.trainer_index() == 0:
    ...     print("starting")
    starting
    """
    job = current()
    return job.index if job is not None else 0


def trainer_count() -> int:
    """Return the number of trainers, dead ones included; 1 in one process.

    A batch of 256 samples for each trainer:

    >>> 256 * fluid.distributed.trainer_count()
    256
    """
    job = current()
    return job.trainers if job is not None else 1


def server_count() -> int:
    """Return the number of parameter servers; 0 in one process.

    In one process:

    >>> fluid.distributed.server_count()
    0
    """
    job = current()
    return job.servers if job is not None else 0


# -- the end ----------------------------------------------------------------------------------------------------


def _watch_end() -> None:
    """Learn how the script ends: by an exception, by sys.exit, or at its last line."""
    shown = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, PeerError) and error.status == "EPEER" and is_launched():
            session.end_unjoined = None
            return                                     # one rank of the job has printed it
        said = str(error).partition("\n")[0]
        how = kind.__name__ + (f": {said}" if said else "")
        if session.job is None:
            is_late = isinstance(error, TriremeError) and error.status == "ETIMEOUT" and is_launched()
            session.end_unjoined = None if is_late else (1, how)      # the launcher sees which rank is late
            if is_late:                                # the script made no mistake, and the job may be started again
                sys.stderr.write(f"trireme: {error}\n")
                return
        elif session.job.ptr is not None and session.job.pid == os.getpid():
            _stop_daemons(1.0)
            name = lib.tr_job_rank_name(session.job.ptr, lib.tr_job_rank(session.job.ptr))
            session.job.failure = f"{ffi.string(name).decode()} ended by {how}"
        shown(kind, error, trace)
        if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
            _end()                                     # the interpreter would wait for these threads before it calls this

    def exit(code: Any = None) -> NoReturn:                # it takes the place of sys.exit
        is_main = threading.current_thread() is threading.main_thread()
        raise (_Exit if is_main else SystemExit)(code)     # the module threading is silent about SystemExit itself alone

    sys.excepthook, sys.exit = excepthook, exit
    atexit.register(_end)


class _Exit(SystemExit):
    """What `sys.exit` raises on the main thread. A script may catch it. It ends the process where the interpreter itself asks for its code,
    with no frame of Python below.
    """

    @property
    def code(self) -> Any:                             # type: ignore[override]
        code = self.args[0] if self.args else None
        try:
            sys._getframe(1)
        except ValueError:
            _note_exit(code)
        return code


def _note_exit(code: Any) -> None:
    if session.job is not None:
        session.job.exit_code = code
    elif code not in (None, 0):
        number = _exit_code(code)
        session.end_unjoined = number, f"exit code {number}"


def _end() -> None:
    job = session.job
    if job is None and session.end_unjoined is not None and os.environ.get(_RANK_IS) == str(os.getpid()):
        _tell_failure(f"{session.end_unjoined[0]}\n{session.end_unjoined[1]}\n")
    if job is None or job.ptr is None or job.pid != os.getpid():
        return
    _stop_daemons(1.0 if job.failure or job.exit_code else 10.0)
    code = _exit_code(job.exit_code)
    name = ffi.string(lib.tr_job_rank_name(job.ptr, lib.tr_job_rank(job.ptr))).decode()
    if job.failure is None and job.exit_code not in (None, 0):
        job.failure = f"{name} ended with exit code {code}"
    if job.failure is None:
        _let_last_steps_count(job)
    _flush()
    if job.failure is not None:
        _tell_failure(f"{code}\n{job.failure}\n")
    has_failed_here = job.failure is not None
    if not job.free():
        os._exit(code if has_failed_here else lib.tr_job_exit_code())      # MPI is not finalized
    # A script may raise SystemExit itself (`exit(3)` does), or replace our excepthook. Then only the exit code shows how it ended.
    lib.tr_job_watch_exit(name.encode())


def _exit_code(last: Any) -> int:
    """Return the exit code of a failing process: the argument of sys.exit, if that is a valid exit code."""
    return last & 255 or 1 if isinstance(last, int) else 1


def _stop_daemons(seconds: float) -> None:
    """Before the failure is noted, which a step of another thread would report as another rank's."""
    if session.steps is not None:
        session.steps.stop_daemons(seconds)


def _let_last_steps_count(job: Job) -> None:
    try:
        if made := session.steps_of_process():
            made.before_goodbye()
    except TriremeError as error:
        if not (isinstance(error, PeerError) and error.status == "EPEER"):
            job.failure = f"the end of the last steps failed: {error}"


def _tell_failure(text: str) -> None:
    """Tell the launcher the exit code and the reason."""
    lib.tr_notice_tell(lib.TR_NOTICE_FAILED, text.encode(errors="backslashreplace"))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):     # the pipe is closed, or has no reader
            stream.flush()
