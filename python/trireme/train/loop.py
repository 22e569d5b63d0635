"""Loops of the core over datasets: what ``Executor.train_from_dataset`` and ``infer_from_dataset`` do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._core import ffi, lib
from ..feeding.feeds import Dataset
from ..job.session import session
from ..native.checks import plain
from ..native.errors import DTypeError, InvalidArgumentError, NotFoundError, ShapeError, check, check_whole, user_line
from ..native.interrupt import look
from ..native.names import name_chars
from ..native.suggest import did_you_mean
from ..native.scope import Scope
from ..program import Program, Variable, default_main_program
from ..run.loop_part import LoopPart
from ..run.runner import Runner
from ..run.scopes import global_scope
from .local_checkpoints import in_one_process
from .progress import LoopLines

_SECONDS = 0.2                         # from one look at what the script wants to the next


def _listed(what: str, values: Any) -> list[Any]:
    if isinstance(values, (str, Variable)) or not isinstance(values, Iterable):
        raise TypeError(f"{what} must be a list, got {values!r}")
    return list(values)


def _check(what: str, program: Any, dataset: Any, scope: Any, fetch_list: Any, fetch_info: Any, thread: Any, print_period: Any, epochs: Any,
           steps: Any) -> tuple[list[Any], list[str] | None]:
    """Return what is fetched, and how it is called; ``what`` is the function that was given all this."""
    for name, value, kind in (("program", program, Program), ("dataset", dataset, Dataset), ("scope", scope, Scope)):
        if not isinstance(value, kind):
            raise TypeError(f"{what}: {name} must be a {kind.__name__}, got {value!r}")
    fetches = _listed(f"{what}: fetch_list", () if fetch_list is None else fetch_list)
    labels = None if fetch_info is None else _listed(f"{what}: fetch_info", fetch_info)
    for var in fetches:
        if not isinstance(var, (Variable, str)):
            raise TypeError(f"{what}: fetch_list holds Variables or names, got {var!r}")
    if labels is not None and len(labels) != len(fetches):
        raise InvalidArgumentError(f"{what}: {len(labels)} texts in fetch_info for {len(fetches)} variables in fetch_list")
    check_whole(f"{what}: thread", thread, 0, 256)
    check_whole(f"{what}: print_period", print_period)
    check_whole(f"{what}: epochs", epochs, 1)
    check_whole(f"{what}: steps", steps, 0, (1 << 63) - 1)
    return fetches, labels


def _check_slots(program: Program, dataset: Dataset) -> None:
    """The program's variables are what the slots say."""
    block = program.global_block()
    for slot in dataset.slots:
        if slot is None:
            continue
        if not block.has_var(slot.name):
            raise NotFoundError(f"slot {slot.name!r} of the data is no variable of the program"
                                f"{did_you_mean(slot.name, block.vars)}\n  your line: {user_line()}")
        var = block.var(slot.name)
        if var.dtype is not None and var.dtype != slot.dtype:
            raise DTypeError(f"slot {slot.name!r} of the data is {slot.dtype}, the program declares {var.dtype}: give the slot "
                             f"the variable, or that dtype\n  your line: {user_line()}")
        want = var.desc.shape()
        if len(want) != len(slot.shape) or any(a >= 0 and b >= 0 and a != b for a, b in zip(want, slot.shape)):
            raise ShapeError(f"slot {slot.name!r} of the data has the shape {slot.shape}, the program wants {want}\n"
                             f"  your line: {user_line()}")


def _options(fetches: Sequence[str], labels: Sequence[str], **given: Any) -> tuple[Any, list[Any]]:
    """Return the tr_loop_options, and what must live as long."""
    options, keep = ffi.new("tr_loop_options *"), []
    for field, texts in (("fetches", fetches), ("labels", labels)):
        chars = [ffi.new("char[]", name_chars(text)) for text in texts]
        array = ffi.new("char *[]", chars)
        setattr(options, field, array)
        keep += [chars, array]
    options.fetch_count = len(fetches)
    for name, value in given.items():
        setattr(options, name, value)
    return options, keep


@dataclass
class Asked:
    """What a call of ``train_from_dataset`` or ``infer_from_dataset`` asks for."""

    executor: Runner
    program: Program
    scope: Scope
    fetches: list[Any]
    labels: Sequence[str] | None
    thread: int
    print_period: int
    debug: bool = False
    trains: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(var if isinstance(var, str) else var.name for var in self.fetches)


def ask(what: str, executor: Runner, program: Program | None, dataset: Any, scope: Scope | None, thread: int, debug: bool,
        fetch_list: Sequence[Any] | None, fetch_info: Sequence[str] | None, print_period: int, epochs: int = 1, steps: int = 0,
        trains: bool = True) -> tuple[Asked, int, int]:
    """Return what a call of the function ``what`` asks for, with its ``epochs`` and ``steps``, once all is checked."""
    program = default_main_program() if program is None else program
    scope = global_scope() if scope is None else scope
    fetches, labels = _check(what, program, dataset, scope, fetch_list, fetch_info, thread, print_period, epochs, steps)
    thread, print_period, epochs, steps = plain((thread, print_period, epochs, steps))
    return Asked(executor, program, scope, fetches, labels, thread, print_period, debug, trains), epochs, steps


def run_loop(asked: Asked, dataset: Dataset, epochs: int, steps: int) -> None:
    """Run one loop of the core, and print its lines."""
    run_once(asked, dataset, epochs, steps, LoopLines(epochs, steps))


def run_once(asked: Asked, dataset: Dataset, epochs: int, steps: int, lines: LoopLines, means: list[float] | None = None,
             heard: Callable[[Any], bool] | None = None) -> tuple[int, float]:
    """Run one loop of the core. Return its steps, and with ``means``, which is filled, their weight. ``heard`` is told each report that is
    due; it returns whether the loop is to end."""
    with asked.scope._lock, asked.program._lock, asked.executor._lock:
        return _run_once(asked, dataset, epochs, steps, lines, means, heard)


def _run_once(asked: Asked, dataset: Dataset, epochs: int, steps: int, lines: LoopLines, means: list[float] | None,
              heard: Callable[[Any], bool] | None) -> tuple[int, float]:
    executor, scope = asked.executor, asked.scope
    _check_slots(asked.program, dataset)
    part = _part(executor, asked.program, scope, asked.names, asked.trains)
    for name in part.fetches:
        if not part.program.global_block().has_var(name):
            raise NotFoundError(f"fetch {name!r} is no variable of the program"
                                f"{did_you_mean(name, part.program.global_block().vars)}\n  your line: {user_line()}")
    native, native_scope = part.program.desc._native, scope._native
    if part.runs is None:
        part.runs = lib.tr_executor_runs(executor._native.ptr, native.ptr, native_scope.ptr)
    may_lease = part.may_lease and dataset._may_lease()
    part.skip = 0 if may_lease else part.skip          # nobody knows which tasks those steps were of
    options, keep = _options(part.fetches, list(asked.labels or asked.names), loss=part.loss, report_every=asked.print_period,
                             epochs=epochs, steps=steps, threads=asked.thread, has_weight=part.weight is not None,
                             weight=part.weight or 0.0, skip=part.skip, runs=part.runs,
                             manager=ffi.NULL if part.manager is None else part.manager.ptr, has_leases=may_lease,
                             lease=dataset._given["lease"], job=session.native_job,
                             idle=ffi.NULL if part.idle is None else part.idle.desc._native.ptr,
                             flush=ffi.NULL if part.flush is None else part.flush.desc._native.ptr,
                             has_means=means is not None, check_finite=executor.check_nan, has_precision=True,
                             precision=lib.tr_executor_matmul_precision(executor._native.ptr))
    before, start = dataset._counts(), time.perf_counter()
    out = ffi.new("tr_loop **")
    with dataset._looped() as lines_of:
        check(lib.tr_loop_new(out, native.ptr, native_scope.ptr, lines_of, options))
        try:
            report = _run(out[0], part, lines, heard)
            weight = _take_means(out[0], means, len(part.fetches))
        finally:
            lib.tr_loop_free(out[0])
            del keep
    if part.manager is None and session.native_job:    # a loop in a job, and no training
        lib.tr_job_other_run_ended(session.native_job)
    part.end(report.step, may_lease)
    check(lib.tr_executor_set_runs(executor._native.ptr, native.ptr, native_scope.ptr,
                                   part.runs + max(0, report.step - part.skip)))
    if asked.debug:
        waited = (dataset._counts().wait_nanoseconds - before.wait_nanoseconds) / 1e9
        seconds = time.perf_counter() - start
        print(f"{report.step} steps, {report.samples} samples in {seconds:.3f} s, {waited:.3f} s of it waiting for data",
              flush=True)
    return report.step, weight


def _take_means(loop: Any, means: list[float] | None, count: int) -> float:
    if means is None:
        return 0.0
    values, samples = ffi.new("double[]", count + 1), ffi.new("double *")
    lib.tr_loop_means(loop, values, samples)
    means[:] = ffi.unpack(values, count) if count else []
    return float(samples[0])


def _part(executor: Runner, program: Program, scope: Scope, names: tuple[str, ...], trains: bool) -> LoopPart:
    if executor._steps is not None:
        made: LoopPart = executor._steps.before_loop(executor, program, scope, names)
        return made
    part = LoopPart(program, None, names, None, False)
    if trains and (manager := in_one_process(executor, program, scope)) is not None:
        part.manager, part.skip = manager, manager.left
    return part


def _run(loop: Any, part: LoopPart, lines: LoopLines, heard: Callable[[Any], bool] | None) -> Any:
    report, is_over = ffi.new("tr_loop_report *"), False
    check_run = check if part.manager is None else part.manager.check
    if not part.skip:
        lines.look(0, 0, 0)                            # so that the first line has a rate
    while not report.is_at_end and not (is_over and report.is_paused):
        look()
        if is_over:
            lib.tr_loop_pause_at(loop, max(report.step, 1))
        try:
            check_run(lib.tr_loop_run(loop, _SECONDS, report))
        except BaseException as error:
            part.fail(error)
            raise
        if report.is_due:
            lines.show(ffi.string(report.line).decode("utf-8", "replace"), report.epoch, report.step, report.samples)
            is_over = heard is not None and heard(report) or is_over
        else:
            lines.look(report.epoch, report.step, report.samples)
        if report.is_stopped:
            part.manager.stop()
    return report
