"""Measures a job by its script, which runs alone in this process for some steps.

The script runs as ``python SCRIPT`` would. Behind each of its training steps the trainers' part of the program runs once more, without
updates: its time is a trainer's computing. One thread is timed by its own clock, so other processes of the machine do not count.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import resource
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..distributed.computing_part import ComputingPart, Mark
from ..distributed.optimize_part import is_training
from ..job.session import Steps, session
from ..native.errors import InvalidArgumentError, TriremeError, UnsupportedError
from ..native.tensor import LoDTensor
from ..native.threads import num_threads, set_num_threads
from ..run.py_functions import PyFuncRegistry
from .facts import Facts, Moment, Table, growth, spread_of

WARM, MARKED, LEAST = 3, 3, 5


class _EnoughStepsError(BaseException):
    """Ends the script. It is no Exception, so that a script that goes on after errors does not go on after this."""


class _Marks:
    """When a step passed its marks."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.passed: list[tuple[int, float]] = []

    def at(self, number: int) -> float:
        """Return when a mark was passed."""
        return next((when for one, when in self.passed if one == number), self.passed[0][1])

    def register(self, mark: Mark) -> int:
        number = len(self.marks)
        self.marks.append(mark)
        one: Any = PyFuncRegistry(lambda: self.passed.append((number, time.perf_counter())))
        return int(one.id)


class ProbeSteps(Steps):
    """Makes a script's steps, and measures them: ``job.session.Steps``."""

    def __init__(self, steps: int, seconds: float, threads: int) -> None:
        self.training = None
        self._steps, self._limit = steps, seconds
        self._clock: Callable[[], float] = time.thread_time if threads == 1 else time.perf_counter
        self._threads = threads
        self._part: ComputingPart | None = None
        self._program: Any = None
        self._since = 0.0
        self._known: frozenset[str] = frozenset()
        self._begun = self._left = 0.0
        self._run: Any = None
        self._computing: list[float] = []
        self._whole: list[float] = []
        self._scripts: list[float] = []
        self._keys: dict[str, list[np.ndarray]] = {}
        self._shares: list[list[float]] = []
        self._zeros: dict[str, list[float]] = {}
        self._marks = _Marks()

    def before_run(self, executor: Any, program: Any, scope: Any, feed: dict[str, Any], names: tuple[str, ...]) -> Any:
        if self._program is None and is_training(program):
            self._begin(program)
        if program is not self._program:
            return program, feed, names
        arrived = self._clock()
        if self._left:
            self._scripts.append(arrived - self._left)
        self._run = executor, scope, feed, names
        self._begun = self._clock()
        return program, feed, names

    def _begin(self, program: Any) -> None:
        self._program, self._since = program, time.monotonic()
        self._part = ComputingPart(program)
        self._plain, self._marked = self._part.program(), self._part.program(self._marks.register)
        written = {name for op in self._plain.global_block().read_ops() for name in op.output_arg_names}
        self._known = frozenset(written)

    def _measure(self, executor: Any, scope: Any, feed: dict[str, Any], names: tuple[str, ...]) -> None:
        assert self._part is not None
        fetched = [name for name in names if name in self._known]
        if len(self._shares) < MARKED:
            self._mark(executor, scope, feed, fetched)
        for _ in range(1 if len(self._whole) > 1 else WARM):
            begun = self._clock()
            executor._run_plain(self._plain, feed, fetched, scope, True)
            took = self._clock() - begun
        if len(self._whole) > 1:
            self._computing.append(took)

    def _mark(self, executor: Any, scope: Any, feed: dict[str, Any], fetched: Sequence[str]) -> None:
        assert self._part is not None
        ids = [name for names in self._part.tables.values() for name in names]
        gradients = [*self._part.part.grads]
        for _ in range(2):                             # the first run of a program lays out its memory
            self._marks.passed.clear()
            begun = time.perf_counter()
            results = executor._run_plain(self._marked, feed, [*fetched, *ids, *gradients], scope, False)
            ended = time.perf_counter()
        self._shares.append([(self._marks.at(number) - begun) / (ended - begun) for number in range(len(self._marks.marks))])
        found = dict(zip(ids, results[len(fetched):]))
        for name, value in zip(gradients, results[len(fetched) + len(ids):]):
            flat = np.ravel(np.asarray(value))
            self._zeros.setdefault(self._part.part.grads[name], []).append(np.count_nonzero(flat) / max(flat.size, 1))
        for table, names in self._part.tables.items():
            self._keys.setdefault(table, []).append(np.unique(np.concatenate([_values(found[name]) for name in names])))

    def after_run(self, program: Any, names: tuple[str, ...], results: list[Any]) -> None:
        if program is not self._program or self._program is None:
            return
        self._whole.append(self._clock() - self._begun)
        self._measure(*self._run)                      # behind the step, which has made the rows of new keys
        self._left = self._clock()
        if len(self._computing) >= self._steps or (len(self._computing) >= LEAST and time.monotonic() - self._since > self._limit):
            raise _EnoughStepsError

    def after_failure(self, error: BaseException, program: Any = None) -> None:
        return

    def before_loop(self, executor: Any, program: Any, scope: Any, names: tuple[str, ...]) -> Any:
        raise UnsupportedError("trireme simulate: the script trains in a loop over a data set, whose steps cannot be measured one by one: "
                               "give it a script that calls Executor.run for each step")

    def set_rows(self, scope: Any, name: str, call: str, fill: Callable[[Any], None], *, clear: bool) -> None:
        fill(scope)

    def join_without_step(self) -> None:
        return

    def stop_daemons(self, seconds: float) -> None:
        return

    def before_goodbye(self) -> None:
        return

    def _filled(self) -> dict[str, float]:
        return {name: float(np.mean(shares)) for name, shares in self._zeros.items()}

    def facts(self) -> Facts:
        """Return what was measured. Raise InvalidArgumentError where the script has made too few steps."""
        if self._part is None or len(self._computing) < LEAST:
            raise InvalidArgumentError(f"trireme simulate: the script made {len(self._whole)} training steps; at least {LEAST + 1} are "
                                       "needed to measure them")
        part, shares = self._part, [float(one) for one in np.median(np.array(self._shares), axis=0)]
        computing, kind = float(np.median(self._computing)), _optimizer(part)
        found = without_lookups(list(zip(self._marks.marks, shares)))
        moments = [Moment(share, mark.names, mark.is_send) for mark, share in found]
        looking = computing * lookups(list(zip(self._marks.marks, shares)))
        computing -= looking
        states = _states(part, kind)
        tables = [Table(name, 4 * int(part.part.var(name).desc.shape()[-1]), float(np.mean([len(one) for one in self._keys[name]])),
                        growth(self._keys[name]), states) for name in part.tables]
        return Facts(items=part.items, averaged=part.averaged, moments=moments, computing=computing,
                     script=float(np.median(self._scripts)) if self._scripts else 0.0, spread=spread_of(self._computing),
                     optimizer=kind, states=states, looking=looking, filled=self._filled(),
                     updating=max(float(np.median(self._whole[1:])) - computing - looking, 0.0), tables=tables,
                     threads=self._threads, resident=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                     steps=len(self._computing), mode=session.mode, compress=session.compression,
                     compress_parameters=session.compression_of_parameters)


def lookups(marked: Sequence[tuple[Mark, float]]) -> float:
    """Return the share of a step between the marks in front of and behind look-ups of tables. A job's trainer has no such look-ups."""
    each = [share * (1 if mark.is_send else -1) for mark, share in marked if mark.of_lookup]
    return min(max(sum(each), 0.0), 0.99)


def without_lookups(marked: Sequence[tuple[Mark, float]]) -> list[tuple[Mark, float]]:
    """Return the other marks in order, as shares of what is left of the step without look-ups.

    >>> inside = Mark(("t",), False, True), Mark(("t",), True, True)
    >>> [share for _, share in without_lookups([(inside[0], 0.0), (inside[1], 0.5), (Mark(("w",), True), 0.75)])]
    [0.5]
    """
    found, left = [], 1 - lookups(marked)
    for mark, share in sorted(marked, key=lambda one: one[1]):
        if not mark.of_lookup:
            before = sum(min(at, share) * (1 if one.is_send else -1) for one, at in marked if one.of_lookup)
            found.append((mark, min(max((share - before) / left, 0.0), 1.0)))
    return found


def _values(found: Any) -> np.ndarray:
    return np.ravel(np.array(found) if isinstance(found, LoDTensor) else np.asarray(found))


def _optimizer(part: ComputingPart) -> str:
    """Return the type of the operators that update most of the parameters."""
    updates = [op.type for op in part.part.ops if op.inputs.get("Param")]
    return max(set(updates), key=updates.count) if updates else "sgd"


def _states(part: ComputingPart, kind: str) -> int:
    """Return how many values the operators of this type keep for each value of a parameter: inputs as large as the parameter."""
    updates, shape = [op for op in part.part.ops if op.type == kind and op.inputs.get("Param")], part.part.shape
    if not updates:
        return 0
    op = max(updates, key=lambda one: math.prod(shape(one.inputs["Param"][0])))          # numbers such as the rate have one element
    others = [names[0] for slot, names in op.inputs.items() if slot not in ("Param", "Grad") and names]
    return sum(shape(name) == shape(op.inputs["Param"][0]) for name in others)


def run_script(script: str, args: Sequence[str], *, steps: int = 20, seconds: float = 20.0, threads: int = 1) -> Facts:
    """Run a script alone until it has made so many training steps, or for so many seconds of them; return what was measured."""
    if not os.path.isfile(script):
        raise InvalidArgumentError(f"trireme simulate: there is no script {script!r}")
    made = ProbeSteps(steps, seconds, threads)
    before, argv, path = num_threads(), sys.argv, list(sys.path)
    session.become_rank(lambda: made)
    set_num_threads(threads)
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(_EnoughStepsError):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            raise InvalidArgumentError(f"trireme simulate: {script} ended with exit code {error.code}, as it would by itself") from None
    except TriremeError:
        raise
    except Exception as error:
        raise InvalidArgumentError(f"trireme simulate: {script} failed: {type(error).__name__}: {error}") from error
    finally:
        session.steps = session._load_steps = None
        sys.argv, sys.path[:] = argv, path
        set_num_threads(before)
    return made.facts()


def run_script_apart(script: str, args: Sequence[str], *, steps: int = 20, seconds: float = 20.0, threads: int = 1,
                     copies: int = 1) -> Facts:
    """Do the same in a process of its own: a script's programs and settings do not stay in this one. ``copies`` of the script run at the
    same time, so that they share caches and memory as the trainers of a host do; their computing times are put together."""
    with tempfile.TemporaryDirectory() as folder:
        outs = [os.path.join(folder, f"facts-{number}") for number in range(copies)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_"))}
        running = [subprocess.Popen([sys.executable, "-c", _APART, out, str(steps), str(seconds), str(threads), script, *args],
                                    env={**kept, "TRIREME_LOCAL": "1", "TRIREME_NUM_THREADS": str(threads)}, stdout=2) for out in outs]
        codes = [one.wait() for one in running]
        if any(codes) or not all(map(os.path.exists, outs)):
            raise InvalidArgumentError(f"trireme simulate: {script} could not be measured (above stands why)")
        return _together([_unpickled(out) for out in outs])


def _unpickled(path: str) -> Facts:
    with open(path, "rb") as file:
        found: Facts = pickle.load(file)               # this process's own child has written it
    return found


def _together(found: list[Facts]) -> Facts:
    first = found[0]
    first.spread = [share for one in found for share in one.spread]
    for name in ("computing", "looking", "script", "updating"):
        setattr(first, name, statistics.mean(getattr(one, name) for one in found))
    return first


_APART = """
import pickle, sys
from trireme.errors import TriremeError
from trireme.simulate.probe import run_script
out, steps, seconds, threads, script, *args = sys.argv[1:]
try:
    facts = run_script(script, args, steps=int(steps), seconds=float(seconds), threads=int(threads))
except TriremeError as error:
    sys.exit(str(error))
with open(out, "wb") as file:
    pickle.dump(facts, file)
"""
