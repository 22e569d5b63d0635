"""Runs of a program that was cut into replicas: what was prepared is kept, as an Executor does."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..native.errors import check
from ..native.tensor import LoDTensor, samples_of_batch
from ..native.scope import Scope
from ..program import Program
from ..program.drawing import draw_block_graphviz
from .prepared import Prepared
from .replica_feeds import Cutter, Feed, as_asked, joined
from .replicas import SUFFIX, WEIGHT, Parts
from .runner import Runner
from .strategies import BuildStrategy, ExecutionStrategy

_MAX_KEPT = 32
_precision_of = lib.tr_executor_matmul_precision
_plans_run = lib.tr_plans_run


class _Step:
    """The plans of a step of so many replicas, for feeds and fetches of these names. ``fed`` is what each replica is fed, ``feed`` the
    whole batch.

    Each fetched value comes from the replicas, or from what is done once.
    """

    def __init__(self, replicas: Replicas, count: int, fed: Feed, feed: Feed, names: Sequence[str]) -> None:
        parts = replicas.parts
        block = parts.program.global_block()
        self.names = tuple(names)
        self.is_once = [name in parts.known_once or (block.has_var(name) and block.var(name).persistable) for name in names]
        self.from_once = [name for name, is_once in zip(names, self.is_once) if is_once]
        self.from_each = [name for name, is_once in zip(names, self.is_once) if not is_once]
        self.each = [replicas._prepared(replicas._executors[i], replicas._programs[i], replicas._scopes[i], (*fed, WEIGHT), self.from_each)
                     for i in range(count)]
        self.once = replicas._prepared(replicas.executor, replicas._update_of(count), replicas._scope, feed, self.from_once)
        self._plans = ffi.new("tr_plan *[]", [ffi.cast("tr_plan *", one.plan) for one in self.each])
        self._feeds = ffi.new("tr_feed *[]", [ffi.cast("tr_feed *", one.feeds) for one in self.each])
        self._tensors = ffi.new("tr_tensor **[]", [ffi.cast("tr_tensor **", one.tensors) for one in self.each])

    def run(self, slices: list[tuple[Feed, int]], feed: Feed, return_numpy: bool) -> list[Any]:
        self._run_each(slices)
        each = [one.results(False) for one in self.each]
        once = self.once.run(feed, False)
        if not self.from_each:
            return [as_asked(value, name, return_numpy) for value, name in zip(once, self.names)]
        from_each, from_once = iter(zip(*each)), iter(once)
        values = [next(from_once) if is_once else joined(next(from_each)) for is_once in self.is_once]
        return [as_asked(value, name, return_numpy) for value, name in zip(values, self.names)]

    def _run_each(self, slices: list[tuple[Feed, int]]) -> None:
        total = sum([samples for _, samples in slices])
        try:
            for one, (fed, samples) in zip(self.each, slices):
                one.begin({**fed, WEIGHT: np.array([samples / total])})
            check(_plans_run(len(self.each), self._plans, self._feeds, self._tensors))
        finally:
            for one in self.each:
                one.end()


class Replicas:
    """Replicas of one program in one scope. ``run`` is called with the locks of scope, program and executor held.

    They go with their scope, so they keep neither it nor the executor.
    """

    def __init__(self, executor: Runner, program: Program, scope: Scope, places: int, build: BuildStrategy,
                 execution: ExecutionStrategy) -> None:
        strategy, kinds = build.gradient_scale_strategy, BuildStrategy.GradientScaleStrategy
        self.parts = Parts(program, strategy == kinds.CoeffNumDevice, strategy == kinds.Customized, build.sync_batch_norm)
        self.revision = program.desc.revision
        self.native = executor._native
        self._executor, self._around, self._places = weakref.ref(executor), weakref.ref(scope), places
        self._period, self._runs = execution.num_iteration_per_drop_scope, 0
        self._scope = Scope(scope)                     # where replicas meet
        self._scopes = [Scope(self._scope) for _ in range(places)]
        self._handed = [f"{name}{SUFFIX}{i}" for name in (*self.parts.handed, *self.parts.states) for i in range(places)]
        for name in (*self._handed, *self.parts._shared):
            if scope.find_var(name) is None:
                self._scope.var(name)
        self._before, self._nothing = self.parts.before(), self.parts.nothing()
        self._programs = [self.parts.replica(i) for i in range(places)]
        self._executors = [Runner(executor.place) for _ in range(places)]
        self._updates: dict[int, Program] = {}
        self._kept: dict[Any, Any] = {}                # a _Step, or what runs before the replicas, by the names of feeds and fetches
        self._cutter = Cutter(self.parts.program.global_block())
        self._how: tuple[bool, int] | None = None      # whether the replicas' executors check for NaN, and their precision
        if build.debug_graphviz_path:
            draw_block_graphviz(self._update_of(places).global_block(), path=build.debug_graphviz_path)

    @property
    def executor(self) -> Any:
        return self._executor()

    @property
    def scope(self) -> Any:
        return self._around()

    # -- what was prepared ------------------------------------------------------------------------------------

    def _prepared(self, executor: Runner, program: Program, scope: Scope, feed: Iterable[str], fetch: Sequence[str]) -> Prepared:
        """Return a run of one part. It is fed what it reads of what the script feeds."""
        return Prepared(executor._native, program, scope, self.parts.feeds_of(program, feed), fetch)

    def _found(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what was prepared under this key, or prepare it."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            found = self._kept[key] = make()
        return found

    def _update_of(self, count: int) -> Program:
        if count not in self._updates:
            self._updates[count] = self.parts.update(count)
        return self._updates[count]

    # -- a run ------------------------------------------------------------------------------------------------

    def run(self, feed: Feed, given: Sequence[Feed] | None, names: Sequence[str], return_numpy: bool) -> list[Any]:
        """Run a batch. ``given``: what the script has given each place itself."""
        if self._period and self._runs and self._runs % self._period == 0:
            self.drop()
        self._runs += 1
        rest = self._keep(feed, given or ())
        feed = rest(feed)
        looked_up = self._look_up(feed) if self._before is not None else {}
        if given is None:
            slices = self._cutter.cut({**feed, **looked_up}, self._places)
        else:
            slices = [(fed, samples_of_batch(fed, ())) for fed in map(rest, given)]
        if given is not None and looked_up:
            parts = self._cutter.cut(looked_up, len(slices))
            slices = [({**given, **more}, samples) for (given, samples), (more, _) in zip(slices, parts)]
        self._follow_executor()
        count, fed = len(slices), slices[0][0]
        step = self._found((count, *fed, None, *feed, None, *names), lambda: _Step(self, count, fed, feed, names))
        results: list[Any] = step.run(slices, feed, return_numpy)
        return results

    def _keep(self, feed: Feed, given: Sequence[Feed]) -> Callable[[Feed], Feed]:
        """Put what is fed of variables that persist into the scope, as every run does: replicas share one value. Return what leaves it
        out."""
        kept = {name: fed[name] for fed in (feed, *given) for name in fed if name in self.parts.persistable}
        if not kept:
            return lambda fed: fed
        for name in kept:
            self.scope.var(name)
        self._found((-1, *kept), lambda: Prepared(self.executor._native, self._nothing, self._scope, list(kept), ())).run(kept, False)
        return lambda fed: {name: value for name, value in fed.items() if name not in kept}

    def _look_up(self, feed: Feed) -> Feed:
        """Run what comes before the replicas; return the rows of sparse tables."""
        names, program = self.parts.lookups, self._before
        assert program is not None                     # there are rows to look up
        before = self._found((0, *feed), lambda: self._prepared(self.executor, program, self._scope, feed, names))
        return dict(zip(names, before.run(feed, False)))

    def _follow_executor(self) -> None:
        """Let the replicas' executors run as the script's does."""
        how = (self.executor._check_nan, _precision_of(self.executor._native.ptr))
        if how != self._how:
            self._how = how
            for one in self._executors:
                one.check_nan, one.matmul_precision = self.executor.check_nan, self.executor.matmul_precision

    def drop(self) -> None:
        """Let go of the memory in which replicas hand over: the next run allocates it again."""
        empty = LoDTensor()
        for name in self._handed:
            self._scope.var(name).get_tensor()._share(empty)
