"""Jobs of scripts whose ranks take turns, in virtual time and under a seed (jobs/turns.h): such a job costs some tenths of a second, not
three.

A process that has imported everything (`Zygote`) waits for jobs and forks their ranks. Each rank runs the script as Python does, with its
own arguments, environment and end. Only mpirun and MPI are not there. A job is a function of its seed, and it can kill ranks at moments of
its time: then it is started again as by ``trireme launch``.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 60.0                                           # seconds, for a job


@dataclass
class Ended:
    """How a job has ended."""

    code: int                                          # 0: all went well
    text: str                                          # what its ranks have printed
    digests: list[int]                                 # of the turns of each start of the job
    nanoseconds: int                                   # of virtual time, in the last start

    @property
    def starts(self) -> int:
        return len(self.digests)


# == the tests' side ==================================================================================


class Zygote:
    """The process that forks jobs. It starts with the first one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, **request: Any) -> Ended:
        if self._process is None or self._process.poll() is not None:
            env = {key: value for key, value in os.environ.items() if not key.startswith("TRIREME_")}
            self._folder = tempfile.TemporaryDirectory()           # of the compiled transport
            self._process = subprocess.Popen([sys.executable, __file__, self._folder.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             text=True, env=env)
            atexit.register(self._process.kill)
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


_zygote = Zygote()


def simulate(servers: int, trainers: int, *args: object, script: Path, options: Iterable[object] = (), env: dict[str, str] | None = None,
             standbys: int = 0, seed: int = 0, kills: Iterable[Iterable[tuple[int, float]]] = ()) -> Ended:
    """Run a job. ``options`` are those of ``trireme launch``; ``kills`` has a list for each start of the job, of ranks (servers first, then
    trainers, standbys) and the milliseconds of the job's time until each is killed."""
    words = ["launch", "--servers", servers, "--trainers", trainers, "--standbys", standbys, *options, script, *args]
    return _zygote.run(words=[str(word) for word in words], env={**(os.environ if env is None else env)}, folder=os.getcwd(), seed=seed,
                       kills=[[list(kill) for kill in one] for one in kills])


# == the zygote's side ================================================================================


class BecomeRank(BaseException):
    """Carries what a forked process should run up to the end of this file, so that it ends as a script does."""

    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__()
        self.run = run


def _run_script(script: str, args: list[str]) -> None:
    from trireme.distributed import rank

    rank.begin()
    turns = ctypes.CDLL(os.environ["TRIREME_TRANSPORT"])
    time.sleep = lambda seconds: turns.turns_sleep(ctypes.c_int64(int(seconds * 1e9)))
    sys.argv[:] = [script, *args]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


def _serve(role: int) -> None:
    import forked_jobs
    from trireme._core import lib

    is_well = forked_jobs.serve(role)
    code = 0 if is_well else lib.tr_job_exit_code()
    if code or lib.tr_job_must_exit():
        os._exit(code)


class _Job:
    """A job of a request, in a process of its own."""

    def __init__(self, transport: str, request: dict[str, Any]) -> None:
        from trireme.launch import cli
        from trireme.launch.states import Checkpoints

        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["folder"])
        self.options = cli.command_parser().parse_args(request["words"])
        o = self.options
        self.transport, self.seed, self.kills = transport, request["seed"], request["kills"]
        self.checkpoints = Checkpoints(o.checkpoint, o.checkpoint_steps, o.checkpoint_seconds, o.checkpoint_keep,
                                       o.checkpoint_full_every, o.checkpoint_rows, o.resume, o.resume_or_begin, o.anew)
        self.text = b""

    def run(self) -> Ended:
        before, digests = self.checkpoints.found(), []
        size = self.options.servers + self.options.trainers + self.options.standbys
        state = f"trireme-state-{os.getpid()}-simulated"
        for attempt in range(self.options.restarts + 1):
            with tempfile.TemporaryDirectory() as folder:
                codes, nanoseconds, digest = self._start(attempt, f"{state}.0", self.checkpoints.found() != before, folder)
                lost = self._lost(Path(folder))
            digests.append(digest)
            failed = [codes.get(rank, 124) for rank in range(size) if rank not in lost or codes.get(rank, 124) > 0]
            if not any(failed) or not any(code < 0 for code in codes.values()):
                break
            if attempt < self.options.restarts:
                self.text += f"trireme launch: starting the job again ({attempt + 1} of {self.options.restarts})\n".encode()
        for path in Path("/dev/shm").glob(f"{state}*"):
            path.unlink()
        return Ended(next((code if code > 0 else 128 - code for code in failed if code), 0), self.text.decode(errors="replace"),
                     digests, nanoseconds)

    def _lost(self, folder: Path) -> set[int]:
        """Return the ranks without which the others have gone on, by the notices of the ranks. Empty if no trainer is left."""
        lost, replacements = ({int(path.suffix[1:]) for path in folder.glob(f"{what}.*")} for what in ("lost", "replacement"))
        trainers = {rank + self.options.servers for rank in range(self.options.trainers)} | replacements
        return set() if trainers <= lost else lost

    def _start(self, attempt: int, state: str, has_saved: bool, folder: str) -> tuple[dict[int, int], int, int]:
        import forked_jobs
        from trireme.launch.supervisor import settings

        o = self.options
        ranks = forked_jobs.Ranks(self.transport, o.servers + o.trainers + o.standbys, self.seed + attempt,
                                  self.kills[attempt] if attempt < len(self.kills) else ())
        here, there = os.pipe()
        env = {"TRIREME_JOB": "1", "TRIREME_RUN": f"{os.getpid():016x}", **self.checkpoints.environment(),
               "TRIREME_TRANSPORT": self.transport, "TRIREME_STATE": state, "TRIREME_JOB_FOLDER": folder,
               "TRIREME_ATTEMPT": str(attempt), "TRIREME_PROGRESS": "0", "TRIREME_TERMINAL": "0",
               **({"TRIREME_RESUME": "1"} if has_saved else {}), **({"TRIREME_LOG": o.log} if o.log else {}), **settings(o)}
        pids = []
        for rank in range(ranks.size):
            pid = os.fork()
            if not pid:
                os.close(here)
                self._become(rank, ranks, env, there)
            pids.append(pid)
        os.close(there)
        codes, parts = ranks.wait(pids, [here], LIMIT)
        self.text += parts[here]
        if len(codes) < len(pids):
            self.text += f"simulated: ranks {sorted(set(range(len(pids))) - codes.keys())} did not end\n".encode()
        _, nanoseconds, digest = ranks.end()
        return codes, nanoseconds, digest

    def _become(self, rank: int, ranks: Any, env: dict[str, str], out: int) -> None:
        """In a forked process: run what this rank is."""
        import forked_jobs
        from trireme._core import lib
        from trireme.launch.programs import is_saved_job, trainer_program

        o = self.options
        null = os.open(os.devnull, os.O_RDONLY)
        for here, there in ((null, 0), (out, 1), (out, 2)):
            os.dup2(here, there)
        os.close(out)
        sys.stdout.reconfigure(write_through=True)      # type: ignore[union-attr]
        os.environ.update(env)
        forked_jobs.become_rank(rank, ranks.size, ranks.file)
        if rank < o.servers:
            raise BecomeRank(lambda: _serve(lib.TR_ROLE_SERVER))
        if rank >= o.servers + o.trainers and o.standbys_for == "servers":
            raise BecomeRank(lambda: _serve(lib.TR_ROLE_STANDBY))
        if is_saved_job(o.script):
            program = trainer_program()
            os.execv(program, [program, *["--standby"] * (rank >= o.servers + o.trainers), o.script, *o.args])
        if rank >= o.servers + o.trainers:
            raise BecomeRank(lambda: _stand_by(o.script, o.args))
        raise BecomeRank(lambda: _run_script(o.script, o.args))


def _stand_by(script: str, args: list[str]) -> None:
    from trireme.distributed import rank

    rank.begin()
    sys.argv[:] = ["standby", script, *args]
    runpy.run_module("trireme.launch.standby", run_name="__main__")


def _answer_requests() -> None:
    import forked_jobs
    from compare_scripts import build_transport
    from script_maker import make_script

    transport = build_transport(Path(sys.argv[1]))
    forked_jobs.warm_up(transport, ((one.build, one.run) for one in map(make_script, range(10**6, 10**6 + 4))))
    import trireme.launch.cli  # noqa: F401
    for line in sys.stdin:
        here = os.fork()
        if not here:
            ended = _Job(transport, json.loads(line)).run()
            print(json.dumps(ended.__dict__), flush=True)
            os._exit(0)
        os.waitpid(here, 0)


if __name__ == "__main__":
    one: BecomeRank | None = None
    try:
        _answer_requests()
    except BecomeRank as rank:
        one = rank
    if one:
        one.run()
