"""A job from its start to its end. The supervisor runs mpirun, watches the ranks, returns a correct exit code, and leaves nothing
behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from ..job.surroundings import check_folder, forget_rank, has_launcher, rank_words
from ..native.errors import InvalidArgumentError
from ..native.sizes import parse_bytes
from ..native.store_process import command as store_command
from . import agent as agents
from . import ends, fabric, limits
from . import mpi as mpis
from .claims import claimed
from .console import Console
from .hosts import Hosts, hosts_of
from .live import Live
from .mpi import Layout, Mpi
from .pipes import WRAPPER
from .programs import is_saved_job, loopback_library, server_program, standby_command, trainer_command
from .progress import STILL, Progress
from .runlog import RunLog
from .states import Checkpoints, States
from .watch import Failure, Ranks

_NO_READER, _UNREAD = 128 + signal.SIGPIPE, "nobody reads any more what it prints"
_STOPPED = os.EX_TEMPFAIL              # the exit code that asks for another start
_TO_END = 0.7                          # seconds in which living ranks may report and end by themselves
_TO_EXPLAIN = 6.0                      # seconds in which another host must report, or is known to be lost
_TO_SAVE = 600.0                       # for a last checkpoint
_TO_LISTEN = 10.0                      # for a job that starts to come so far that it can be asked for a checkpoint
_TO_STOP = 2.0                         # for mpirun, told to stop
_TO_HURRY = 0.2                        # for the same when a signal has asked for the job's end: somebody waits for it
_TO_EXIT = 10.0                        # for processes that have left the job well: their exit codes are not known before
_PR_SET_PDEATHSIG = 1
_TURN, _CALM = 0.02, 0.1               # seconds between two looks: while ranks start or end, and while all run; a death ends either
_PREFIX, _PREFIX_HOSTS, _STATE = "trireme-job-", "trireme-hosts-", "trireme-state-"
# Variables that ranks of other hosts get begin like this. Those of OpenBLAS choose its products, whose last bits differ.
_EXPORTED = ("TRIREME_", "OPENBLAS_", "PYTHON", "AWS_", "GOOGLE_", "CLOUD_STORAGE_", "HADOOP_", "CLASSPATH", "JAVA_HOME",
             "ARROW_LIBHDFS_DIR", "KRB5")


# Serves the job's numbers while the context lasts, which says where.
Serving = Callable[[Live], contextlib.AbstractContextManager[str]]


@dataclass
class _StopRequest:
    """Handles a signal that asks for the job's end. The end comes after a checkpoint, if the job keeps checkpoints and the signal
    leaves time for one.
    """

    caught: list[int]                  # signals, as they come
    keeps: bool
    since: float = 0.0                 # when the first was seen
    asked: float = 0.0                 # when trainers were asked for a checkpoint
    replacements: int = 0                     # standbys that had become trainers by then

    def look(self, mpirun: subprocess.Popen[bytes], ranks: Ranks, hosts: Hosts, now: float) -> Failure | None:
        """Act on the signals. Return the failure with which the job should end now, if there is one."""
        if not self.caught and ranks.is_asked():       # a trainer got the signal: tell the other trainers and its replacement
            self.caught.append(signal.SIGUSR1)
        if not self.caught:
            return None
        self.since = self.since or now
        number = self.caught[0]
        name = ends.name_of(number)
        can_ask = ranks.all_listen()                   # a script may have chosen to keep checkpoints itself
        if len(self.caught) > 1 or number not in (signal.SIGTERM, signal.SIGUSR1) or not (self.keeps or can_ask):
            return Failure(128 + number, f"stopped by {name}", is_asked=True)
        if can_ask and (not self.asked or len(ranks.replacements()) > self.replacements):      # a new replacement does not know of it yet
            if not self.asked:
                hosts.note_asked(name)
            self.asked, self.replacements = self.asked or now, len(ranks.replacements())
            mpirun.send_signal(signal.SIGUSR1)         # mpirun passes it on: a trainer writes a checkpoint and stops
        if not self.asked and now - self.since > _TO_LISTEN:
            return Failure(_STOPPED, f"stopped by {name} before it trained")
        if self.asked and now - self.asked > _TO_SAVE:
            return Failure(128 + number, f"stopped by {name}; there was no checkpoint within {_TO_SAVE:g} s")
        return None


def _mode(text: str | None) -> str | None:
    """Check the mode. The compiled library is loaded only if there is a mode to check."""
    if not text:
        return None
    from ..job import mode

    return mode.parse(text).text


def _compression(text: str | None) -> str | None:
    if not text:
        return None
    from ..job import compression

    return compression.parse(text)


def _compression_of_parameters(text: str | None) -> str | None:
    if not text:
        return None
    from ..job import compression

    return compression.parse_parameters(text)


def _on_nan(word: str | None) -> str | None:
    if not word:
        return None
    from ..job import on_nan

    return on_nan.parse(word)


def _precision(name: str | None) -> str | None:
    if not name:
        return None
    from ..native.precision import parse

    parse("trireme launch: --matmul-precision", name)
    return name


def settings(of: Any) -> dict[str, str]:
    """Return what the ranks are told of a job's options, which ``of`` has as attributes: a Launch, or a parsed command line."""
    names = ("mode", "compress", "compress_parameters", "on_nan", "matmul_precision")
    return {**{f"TRIREME_{name.upper()}": getattr(of, name) for name in names if getattr(of, name)},
            **({"TRIREME_CHECK_NAN": "1"} if of.check_nan else {})}


def _rows_on_disk(memory: str | None, folder: str | None) -> dict[str, str]:
    """Return what servers are told of the memory of their tables, and of the folder for all other rows."""
    if not memory and not folder:
        return {}
    if not (memory and folder):
        raise InvalidArgumentError("trireme launch: --table-memory says how much of its tables a server keeps in memory, --table-spill the "
                                   "folder for the other rows; give both or none")
    try:
        size = parse_bytes("--table-memory", memory)
    except ValueError as error:
        raise InvalidArgumentError(f"trireme launch: {error}") from None
    return {"TRIREME_TABLE_MEMORY": str(size), "TRIREME_TABLE_SPILL": os.path.abspath(folder)}


class Launch:
    """One job: its programs and options."""

    def __init__(self, layout: Layout, script: Sequence[str], *, mpirun: str | None = None,
                 timeout: float | None = None, tag_output: bool = False, mode: str | None = None, compress: str | None = None,
                 compress_parameters: str | None = None, restarts: int = 3, checkpoints: Checkpoints | None = None, log: str | None = None,
                 progress: float = 0.0, standbys_for: str = "all", on_nan: str | None = None, check_nan: bool = False,
                 matmul_precision: str | None = None, server_threads: int = 0, table_memory: str | None = None,
                 table_spill: str | None = None, serving: Serving | None = None) -> None:
        check_folder()
        left: list[str] = []
        if words := rank_words():
            if has_launcher():
                raise InvalidArgumentError(f"trireme launch: this process is itself a rank of a job ({words}); start jobs from outside")
            left = forget_rank(os.environ)
        if os.environ.get("TRIREME_LOCAL", "0") not in ("", "0"):
            raise InvalidArgumentError(f"trireme launch: TRIREME_LOCAL={os.environ['TRIREME_LOCAL']} in the environment: each trainer "
                                       "would train by itself, and join no job")
        if layout.trainers < 1 or layout.servers < 0 or layout.standbys < 0:
            raise InvalidArgumentError(f"trireme launch: {layout.servers} servers, {layout.trainers} trainers and "
                                       f"{layout.standbys} standbys")
        if layout.replicas not in (0, 1):
            raise InvalidArgumentError(f"trireme launch: --replicas {layout.replicas}; 0 and 1 are possible")
        if layout.replicas and not layout.all_replicas:
            raise InvalidArgumentError("trireme launch: --replicas 1: a replica is to be on another host than its server, and "
                                       "there is one host, whose memory outlives its processes without one")
        if not layout.is_remote:                       # each other host checks its own limits
            limits.check(layout.servers + layout.trainers + layout.standbys)
        if restarts < 0:
            raise InvalidArgumentError(f"trireme launch: {restarts} restarts")
        self.layout = layout if layout.servers else replace(layout, standbys=0)
        self.timeout, self.restarts = timeout, restarts
        self._states = States()
        self._run_number = os.urandom(8).hex()     # of a run that this launch begins, over all its starts
        self._host_groups: str | None = None       # the order in which gradients are added: the same in all starts of a run
        self.mode, self.compress = _mode(mode), _compression(compress)
        self.compress_parameters = _compression_of_parameters(compress_parameters)
        self.on_nan, self.check_nan = _on_nan(on_nan), check_nan
        self.matmul_precision = _precision(matmul_precision)
        self.server_threads = server_threads
        self._tables = _rows_on_disk(table_memory, table_spill)
        self.checkpoints = checkpoints or Checkpoints()
        self.checkpoints.check()
        self.console = Console(is_live=progress > 0 and Console.is_terminal(), tags=tag_output)
        self.log = RunLog(log, self.console)
        self.serving, self.live = serving, Live(os.path.basename(script[0])) if serving else None
        self.progress = Progress(self.console, progress, self.live)
        self.mpi: Mpi = mpis.find(mpirun, layout.way)
        mpis.check_mixture(self.mpi, os.environ.get("LD_LIBRARY_PATH", ""))
        if left:
            self.console.say(f"variables of another job are left over in the environment, and ignored: {words}")
        self.server = [server_program()]
        self.script, self.trainer = script, trainer_command(script)
        self._needs = [os.path.abspath(path) for path in (script[0], self.server[0], self.trainer[0])]
        if standbys_for not in ("all", "servers"):
            raise InvalidArgumentError(f"trireme launch: --standbys-for {standbys_for}; all and servers are possible")
        # Under 4.1 a death may leave living ranks waiting inside MPI, so the job is started again.
        self.standby = standby_command(script) if standbys_for == "all" and self.mpi.major >= 5 else []
        if mode and is_saved_job(script[0]):
            raise InvalidArgumentError(f"trireme launch: --mode {mode}: {script[0]} was saved with its mode, since its programs depend on "
                                       "it: give save_job another one")
        self.output: IO[bytes] | None = None           # the file for the ranks' output, if it is not the launcher's own

    # -- what is started ---------------------------------------------------------------------------------------

    def environment(self, folder: str, hosts: Hosts | None = None) -> dict[str, str]:
        env = dict(os.environ)
        env.setdefault("HOME", "/tmp")                 # MPI's daemons need a home folder
        env.pop("TRIREME_JOB_PID", None)               # set where this process is a rank's child, or where srun started it
        env["TRIREME_JOB"] = "1"
        env["TRIREME_JOB_FOLDER"] = folder
        env.setdefault("TRIREME_STORE_COMMAND", store_command())
        if self._host_groups is None:
            self._host_groups = self.checkpoints.host_groups(self.layout.trainers) or self.layout.host_groups()
        env.setdefault("TRIREME_HOST_GROUPS", self._host_groups)
        env["TRIREME_RUN"] = self._run_number
        env.update(settings(self))
        env.update(self._tables)
        env.update(self.checkpoints.environment())
        env.update(self.log.environment())
        env["TRIREME_PROGRESS"] = str(int(self.progress.every > 0 or self.timeout is not None or self.live is not None))
        # mpirun gives every rank a terminal. Only the launcher knows whether a user looks at one.
        env["TRIREME_TERMINAL"] = str(int(os.isatty(1)))
        cores, count = (hosts.cores(), hosts.count) if hosts else (len(os.sched_getaffinity(0)), 1)
        each = -(-self.layout.trainers // count)       # trainers of one host; results do not depend on the number of threads
        env["TRIREME_NUM_THREADS"] = env.get("TRIREME_NUM_THREADS") or str(max(1, cores // each))
        if threads := self.server_threads or (not env.get("TRIREME_SERVER_THREADS") and self._server_threads(cores)):
            env["TRIREME_SERVER_THREADS"] = str(threads)
        # After each product, and at its import, NumPy's library would keep all cores busy for a tenth of a second. Other ranks need these
        # cores.
        env.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
        if not self.layout.is_remote and (library := loopback_library()):
            env["TRIREME_PRELOAD"] = env.get("LD_PRELOAD", "")         # ranks get the original value back
            env["LD_PRELOAD"] = " ".join(filter(None, [library, env["TRIREME_PRELOAD"]]))
        env["PYTHONUNBUFFERED"] = env.get("PYTHONUNBUFFERED", "1")
        if self.mpi.major < 5:                         # the mpirun of version 5 does so itself
            old = env.get("LD_LIBRARY_PATH")
            env["LD_LIBRARY_PATH"] = f"{self.mpi.libdir}:{old}" if old else self.mpi.libdir
        return env

    def _server_threads(self, cores: int) -> int:
        """Hosts of servers alone give them all their cores. 0: as many as trainers have; while a server computes, these often wait."""
        servers: Counter[str | None] = Counter()
        places, trainers = self.layout.all_places()[:2]
        for host, count in places:
            servers[host] += count
        is_shared = any(host in servers for host, _ in trainers)
        return 0 if is_shared or not servers else max(1, cores // max(servers.values()))

    def command(self, env: dict[str, str], scratch: str | None, shared: str | None) -> list[str]:
        exported = [name for name in env if name.startswith(_EXPORTED) or name == "LD_LIBRARY_PATH" and self.mpi.major < 5]
        return mpis.command_line(self.mpi, self.layout, self.server, self.trainer, exported, scratch, shared, self.standby,
                                 WRAPPER if scratch else ())

    def describe(self) -> str:
        counts = {"server": self.layout.servers, "trainer": self.layout.trainers, "standby": self.layout.all_standbys}
        ranks = ", ".join(f"{count} {role}" + "s" * (count > 1) for role, count in counts.items() if count)
        replicas = ", a replica of each server" if self.layout.all_replicas else ""
        return f"{ranks}{replicas}, {self.mpi}, {fabric.words(self.layout.way)}"

    # -- its life ---------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run the job, and start it again when a process has died. Return the exit code."""
        with claimed(checkpoint=self.checkpoints.folder or os.environ.get("TRIREME_CHECKPOINT") or None, log=self.log.folder):
            self.checkpoints.check_run(self.script)
            with self.serving(self.live) if self.serving and self.live else contextlib.nullcontext() as where:
                if where:
                    self.console.say(where)
                return self._run()

    def _run(self) -> int:
        with _signals() as caught, self.console.opened(self.output.fileno() if self.output else 1):
            return self._run_watched(caught)

    def _run_watched(self, caught: list[int]) -> int:
        self.log.begin(command=[*self.server, ":", *self.trainer], servers=self.layout.servers, trainers=self.layout.trainers)
        self.console.say(self.describe())
        _remove_stale()
        state = f"{_STATE}{os.getpid()}-{int(time.time())}"
        try:
            with hosts_of(self.layout, state, self.console, caught, self._needs) as hosts:
                failure, told = self._attempts(state, hosts, caught)
                failure = self._undelivered(failure, hosts)
        finally:
            _remove_state(state)
            self.checkpoints.forget(state)
        self.log.note("end", exit_code=failure.code if failure else 0, **({"why": failure.text} if failure else {}))
        if failure is None:
            return 0
        what = "was stopped" if failure.code == _STOPPED else "failed"
        self.console.say(f"the job {what}, exit code {failure.code}" + ("" if told else f": {failure.text}"))
        return failure.code

    def _undelivered(self, failure: Failure | None, hosts: Hosts) -> Failure | None:
        """Report output of ranks that was lost. A successful job then counts as failed, because its user has not seen all of its
        output.
        """
        if not self.console.has_reader():
            return failure or Failure(_NO_READER, _UNREAD)
        lost = self.console.lost()
        if hosts.missed():
            lost.append(f"what ranks on {', '.join(hosts.missed())} printed last has not come")
        for text in lost if failure else ():
            self.console.say(text)
        return Failure(os.EX_IOERR, "; ".join(lost)) if lost and failure is None else failure

    def _attempts(self, state: str, hosts: Hosts, caught: list[int]) -> tuple[Failure | None, list[str]]:
        """Start the job as often as needed. Return the reason of the final failure, or None, and the ranks' messages about it."""
        before = self.checkpoints.found()
        for attempt in range(self.restarts + 1):
            failure, told = self._attempt(attempt, state, hosts, self.checkpoints.found() != before, caught)
            for text in told if failure else ():
                self.console.tell(f"trireme: {text}")
            if failure is None or not failure.is_death or attempt == self.restarts:
                break
            self.log.note("restart", number=attempt + 1, why=[*told, failure.text])
            self.console.say(("" if told else f"{failure.text}; ") + f"starting the job again ({attempt + 1} of {self.restarts})")
        return failure, told

    def _attempt(self, attempt: int, state: str, hosts: Hosts, has_saved: bool, caught: list[int]) -> tuple[Failure | None, list[str]]:
        """Start the job once. If servers have lost their state, the job begins at a checkpoint of an earlier attempt. Return the
        reason of a failure, or None, and the ranks' messages about it.
        """
        with self._folders() as (folder, scratch, shared):
            self.layout = hosts.begin(self.layout, folder, shared)
            for text in hosts.news():
                self.console.say(text)
            env = self.environment(folder, hosts)
            env["TRIREME_STATE"], env["TRIREME_ATTEMPT"] = f"{state}.{self._states.usable(hosts.lost())}", str(attempt)
            if has_saved:
                env["TRIREME_RESUME"] = "1"
            self.progress.begin(attempt)
            mpirun = self.console.start(self.command(env, scratch, shared), env=env, stdin=subprocess.DEVNULL,
                                        start_new_session=True, preexec_fn=_end_with_us)
            ranks = Ranks(mpirun.pid, Path(folder), self.layout.servers, self.layout.trainers,
                          self.layout.all_standbys, attempt > 0, self.layout.all_replicas)
            failure = self._watch(mpirun, ranks, hosts, caught)
            hosts.kill()
            self._stop(mpirun, ranks, _TO_HURRY if caught else _TO_STOP)
            hosts.drain(ranks, _TO_SAVE, lambda: bool(caught))
            self.console.finish(lambda: bool(caught))
            if failure and failure.unknown and not any(map(self.console.has_complained, failure.unknown)):
                failure = replace(failure, is_death=True)      # a program that ends by a mistake prints a message
            self._states.note(ranks, self.layout.all_replicas > 0)
            ranks.close()
            return failure, [] if failure and failure.is_asked else ranks.told()

    @contextlib.contextmanager
    def _folders(self) -> Iterator[tuple[str, str | None, str | None]]:
        """Return the folder for the ranks' files, and the folders where MPI keeps its files. They are the same on all hosts."""
        name = f"{_PREFIX_HOSTS if self.layout.is_remote else _PREFIX}{os.getpid()}-"
        places = [tempfile.gettempdir()] + ["/dev/shm"] * os.access("/dev/shm", os.W_OK)
        folders = [tempfile.mkdtemp(prefix=name, dir=place) for place in places]
        try:
            yield folders[0], folders[0], (folders + [None])[1]
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _watch(self, mpirun: subprocess.Popen[bytes], ranks: Ranks, hosts: Hosts, caught: list[int]) -> Failure | None:
        """Wait for the end. Return why the job failed, or None."""
        begin = time.monotonic()
        failure, failed_at, done_at, ended_at = None, 0.0, 0.0, 0.0
        request = _StopRequest(caught, self.checkpoints.folder is not None)
        while True:
            ranks.look(_CALM if ranks.are_all_running() else _TURN, hosts.descriptors())
            hosts.look(ranks)
            self.progress.look(ranks)
            now = time.monotonic()
            if stopped := request.look(mpirun, ranks, hosts, now):
                return stopped
            if not self.console.has_reader():
                return Failure(_NO_READER, _UNREAD)
            has_ended = mpirun.poll() is not None
            ended_at = ended_at or (now if has_ended else 0.0)
            for text in hosts.news() + ranks.news():
                self.console.say(text)
            found = ranks.failure()                    # a dead rank is no failure when the others go on without it
            failure, failed_at = found, failed_at if failure and found else now
            is_clear = not hosts or ranks.is_explained()
            if failure is not None and (has_ended and not hosts or now - failed_at > (_TO_END if is_clear else _TO_EXPLAIN)):
                return failure
            if self.timeout is not None and now - begin > self.timeout:
                still = self.progress.laggards(ranks, now, min(STILL, self.timeout / 2))
                return Failure(124, "; ".join([f"it did not end within {self.timeout:g} s", *still]))
            if ranks.done() == ranks.size:
                done_at = done_at or now
                if has_ended or now - done_at > (_TO_STOP if ranks.are_all_gone() else _TO_EXIT):
                    return Failure(1, "all trainers have died", is_death=True) if ranks.all_lost() else None
            elif has_ended and (not hosts or now - ended_at > _TO_EXPLAIN):
                return self._unexplained(mpirun, ranks)

    def _unexplained(self, mpirun: subprocess.Popen[bytes], ranks: Ranks) -> Failure:
        """mpirun has ended before all ranks had left the job, and no death of a rank was seen: find the failure."""
        code = mpirun.returncode
        ranks.look(0.0)
        failure = ranks.failure()
        if failure is not None:
            return failure
        if code < 0:
            return Failure(128 - code, f"mpirun was killed by {ends.name_of(-code)}", ranks.has_death())
        left = f"{ranks.done()} of {ranks.size} ranks had left the job"
        return Failure(code or 1, f"mpirun ended with exit code {code} when {left}", ranks.has_begun() and ranks.has_death())

    @staticmethod
    def _stop(mpirun: subprocess.Popen[bytes], ranks: Ranks, seconds: float) -> None:
        """End the rest of the job. mpirun has so many seconds to end by itself."""
        if mpirun.poll() is None:
            mpirun.send_signal(signal.SIGTERM)
        ranks.kill(_TO_STOP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            mpirun.wait(seconds)
        if mpirun.poll() is None:
            mpirun.kill()
            mpirun.wait()


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Catch the signals that ask for an end, and note them. After the job a signal that was noted stays without effect when it comes
    again. The launcher is ending then, and must return the job's exit code.
    """
    caught: list[int] = []
    old: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue                                   # under nohup the job should outlive its terminal
        old[number] = signal.signal(number, lambda got, _frame: caught.append(got))
    try:
        yield caught
    finally:
        for one, handler in old.items():
            signal.signal(one, signal.SIG_IGN if one in caught else handler)


_libc = ctypes.CDLL(None)


def _end_with_us() -> None:
    """In mpirun's process: let it end when the launcher ends in any way. Ranks end with mpirun."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove_stale() -> None:
    """Remove the files of launchers that were killed."""
    for place in (tempfile.gettempdir(), "/dev/shm"):
        agents.remove_stale(Path(place))
    for place, prefix in ((tempfile.gettempdir(), _PREFIX), ("/dev/shm", _PREFIX), ("/dev/shm", _STATE)):
        for path in Path(place).glob(f"{prefix}*"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(path.name.removeprefix(prefix).split("-")[0])
                if path.lstat().st_uid != os.geteuid() or agents.is_running(pid):
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    agents.remove_segment(path)


def _remove_state(name: str) -> None:
    """Remove the servers' state from memory, and rows of their tables on disk."""
    for path in Path("/dev/shm").glob(f"{name}*"):
        agents.remove_segment(path)
