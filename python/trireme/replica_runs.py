"""Runs of a program that was cut into replicas: what was prepared is kept, as an Executor does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import ffi, lib
from .errors import check
from .executor import Executor, Prepared
from .framework import Program
from .graphviz import draw_block_graphviz
from .replica_feeds import Feed, as_asked, cut, joined
from .replicas import SUFFIX, WEIGHT, Parts
from .tensor import LoDTensor, Scope

if TYPE_CHECKING:
    from .compiler import BuildStrategy, ExecutionStrategy

_MAX_KEPT = 32
_precision_of = lib.tr_executor_matmul_precision


class _Fetch:
    """Where each fetched value comes from: the replicas or what is done once."""

    def __init__(self, parts: Parts, names: Sequence[str]) -> None:
        block = parts.program.global_block()
        self.names = tuple(names)
        self.is_once = [name in parts.known_once or (block.has_var(name) and block.var(name).persistable) for name in names]
        self.once = [name for name, is_once in zip(names, self.is_once) if is_once]
        self.each = [name for name, is_once in zip(names, self.is_once) if not is_once]


class Replicas:
    """Replicas of one program in one scope. ``run`` is called with the turns of scope, program and executor held."""

    def __init__(self, executor: Executor, program: Program, scope: Scope, places: int, build: BuildStrategy, execution: ExecutionStrategy) -> None:
        from .compiler import BuildStrategy

        strategy, kinds = build.gradient_scale_strategy, BuildStrategy.GradientScaleStrategy
        self.parts = Parts(program, strategy == kinds.CoeffNumDevice, strategy == kinds.Customized, build.sync_batch_norm)
        self.revision = program.desc.revision
        self.executor, self.scope, self._places = executor, scope, places
        self._period, self._runs = execution.num_iteration_per_drop_scope, 0
        self._scope = Scope(scope)                     # where replicas meet
        self._scopes = [Scope(self._scope) for _ in range(places)]
        self._handed = [f"{name}{SUFFIX}{i}" for name in (*self.parts.handed, *self.parts.states) for i in range(places)]
        for name in (*self._handed, *self.parts._shared):
            if scope.find_var(name) is None:
                self._scope.var(name)
        self._before = self.parts.before()
        self._programs = [self.parts.replica(i) for i in range(places)]
        self._executors = [Executor(executor.place) for _ in range(places)]
        self._updates: dict[int, Program] = {}
        self._kept: dict[Any, Prepared] = {}
        self._fetches: dict[tuple[str, ...], _Fetch] = {}
        self._reads: dict[Any, list[str]] = {}
        if build.debug_graphviz_path:
            draw_block_graphviz(self._update_of(places).global_block(), path=build.debug_graphviz_path)

    # -- what was prepared ------------------------------------------------------------------------------------

    def _prepared(self, key: Any, executor: Executor, program: Program, scope: Scope, feed: Sequence[str], fetch: Sequence[str]) -> Prepared:
        whole = (key, tuple(feed), tuple(fetch))
        found = self._kept.get(whole)
        if found is None or found.erased != scope._erased:
            found = Prepared(executor._native, program, scope, list(feed), list(fetch))
            self._kept.pop(whole, None)
            while len(self._kept) >= _MAX_KEPT * (self._places + 2):
                del self._kept[next(iter(self._kept))]
            self._kept[whole] = found
        return found

    def _fetch(self, names: tuple[str, ...]) -> _Fetch:
        found = self._fetches.get(names)
        if found is None:
            if len(self._fetches) >= _MAX_KEPT:
                self._fetches.clear()
            found = self._fetches[names] = _Fetch(self.parts, names)
        return found

    def _feeds_of(self, key: Any, program: Program, feed: Feed) -> list[str]:
        """Return those of the fed variables that a part reads. The parts of a revision do not change."""
        whole = (key, *feed)
        found = self._reads.get(whole)
        if found is None:
            if len(self._reads) >= _MAX_KEPT * (self._places + 2):
                self._reads.clear()
            found = self._reads[whole] = self.parts.feeds_of(program, feed)
        return found

    def _run_once(self, key: Any, program: Program | None, feed: Feed, fetch: Sequence[str]) -> list[Any]:
        """Run a part that is run once; return LoDTensors."""
        if program is None:
            return []
        names = self._feeds_of(key, program, feed)
        return self._prepared(key, self.executor, program, self._scope, names, fetch).run(feed, False, fetch)

    def _update_of(self, count: int) -> Program:
        if count not in self._updates:
            self._updates[count] = self.parts.update(count)
        return self._updates[count]

    # -- a run ------------------------------------------------------------------------------------------------

    def run(self, feed: Feed, slices: list[tuple[Feed, int]] | None, names: Sequence[str], return_numpy: bool) -> list[Any]:
        """Run a batch. ``slices``: what the script has given each place itself, with the number of samples."""
        if self._period and self._runs and self._runs % self._period == 0:
            self.drop()
        self._runs += 1
        fetch = self._fetch(tuple(names))
        looked_up = dict(zip(self.parts.lookups, self._run_once("before", self._before, feed, self.parts.lookups)))
        slices = self._with_lookups(feed, slices, looked_up)
        each = self._run_each(slices, fetch.each)
        once = self._run_once(len(slices), self._update_of(len(slices)), feed, fetch.once)
        from_each, from_once = iter(zip(*each)) if fetch.each else iter(()), iter(once)
        values = [next(from_once) if is_once else joined(next(from_each)) for is_once in fetch.is_once]
        return [as_asked(value, name, return_numpy) for value, name in zip(values, names)]

    def _with_lookups(self, feed: Feed, slices: list[tuple[Feed, int]] | None, looked_up: Feed) -> list[tuple[Feed, int]]:
        block = self.parts.program.global_block()
        if slices is None:
            return cut(block, {**feed, **looked_up}, self._places)
        if not looked_up:
            return slices
        parts = cut(block, looked_up, len(slices))
        return [({**given, **more}, samples) for (given, samples), (more, _) in zip(slices, parts)]

    def _run_each(self, slices: list[tuple[Feed, int]], fetch: Sequence[str]) -> list[list[Any]]:
        total = sum(samples for _, samples in slices)
        precision = _precision_of(self.executor._native.ptr)
        prepared, keep = [], []
        for i, (feed, samples) in enumerate(slices):
            one, key = self._executors[i], ("replica", i)
            if one.check_nan != self.executor.check_nan:
                one.check_nan = self.executor.check_nan
            if _precision_of(one._native.ptr) != precision:
                one.matmul_precision = self.executor.matmul_precision
            fed = {name: feed[name] for name in self._feeds_of(key, self._programs[i], feed)}
            fed[WEIGHT] = np.array([samples / total])
            prepared.append(self._prepared(key, one, self._programs[i], self._scopes[i], list(fed), fetch))
            keep.append(prepared[i].begin(fed))
        count = len(prepared)
        try:
            check(lib.tr_plans_run(count, [one.plan for one in prepared], [one.natives for one in prepared], [one.fetches for one in prepared]))
        except BaseException:
            for one in prepared:
                one.drop()
            raise
        del keep
        return [one.collect(False, fetch) for one in prepared]

    def drop(self) -> None:
        """Let go of the memory in which replicas hand over: the next run allocates it again."""
        empty = LoDTensor()
        for name in self._handed:
            self._scope.var(name).get_tensor()._share(empty)


__all__ = ["Replicas"]
