"""Running programs.

A run costs a few microseconds beyond its operators: what was worked out for a (program, feeds, fetches, scope)
is kept on the program. Feeds lend NumPy's memory to the core for the time of the run, fetches are arrays over
the core's memory; nothing is copied unless an array is not contiguous.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

import numpy as np

from . import calls, interrupt
from ._core import ffi, lib
from .names import name_array, take_text
from .dtypes import FROM_NUMPY, NUMPY_DTYPES, VarType, array_of, bfloat16_bits
from .errors import DTypeError, NotFoundError, ShapeError, UnsupportedError, check, user_line
from .framework import Program, Variable, default_main_program
from .names import name_chars
from .native import Handle, Native, Uncopied
from .prepared_run import PreparedRun, SmallResult, is_small
from .precision import precision_chars, precision_name
from .suggest import did_you_mean
from .tensor import CPUPlace, LoDTensor, Scope, SelectedRows, view_of_owned, with_batch_sizes
from .turns import new_turn

_global_scope = Scope()

_from_buffer = ffi.from_buffer
_plan_run = lib.tr_plan_run
_plan_retain, _plan_release = lib.tr_plan_retain, lib.tr_plan_release
_revision = lib.tr_program_revision
_new_tensor = lib.tr_tensor_new
_MAX_KEPT = 128                      # prepared runs of a program by one executor in one scope


def _job_hooks() -> tuple[Any, Any, Any]:
    """Return the hooks of a process of a job. They replace a training program by its trainer's part, see and may replace what it fetched, and see
    a run that has failed.
    """
    if not lib.tr_job_is_launched():
        return None, None, None
    from .distributed import failed_steps, job, training
    if not job.is_launched():
        return None, None, None
    return training.before_run, training.after_run, failed_steps.after_failure


def global_scope() -> Scope:
    """Return the scope that programs run in unless another is given.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.global_scope().find_var("line.w_0").get_tensor().shape()
    [2, 1]
    """
    return _global_scope


@contextlib.contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Make ``scope`` the global one inside the block.

    >>> scope = fluid.Scope()
    >>> with fluid.scope_guard(scope):
    ...     fluid.global_scope() is scope
    True
    """
    global _global_scope
    if not isinstance(scope, Scope):
        raise TypeError(f"scope_guard takes a Scope, got {scope!r}")
    old, _global_scope = _global_scope, scope
    try:
        yield
    finally:
        _global_scope = old


class _Feed:
    """One fed variable of a prepared run: what it must be, and the place where the core reads it."""

    __slots__ = ("name", "code", "dtype", "dims", "native", "_dims", "_shape", "_keep", "_changed")

    def __init__(self, name: str, var: Variable, native: Any, changed: list[bool]) -> None:
        self._changed = changed                        # shared by the feeds of a run: whether one has another shape than before
        self.name = name
        self.code = int(var.dtype) if var.dtype is not None else -1
        self.dtype = NUMPY_DTYPES.get(self.code)
        self.dims = var.desc.shape()
        self._dims = ffi.new("int64_t[9]")
        self._keep = ffi.new("char[]", name_chars(name))
        self.native = native
        native.name = self._keep
        native.dims = self._dims
        self._shape: Any = None

    def set(self, value: Any) -> Any:
        """Point the core at the array; return what must stay alive during the run."""
        native = self.native
        if type(value) is np.ndarray and value.dtype is self.dtype and value.shape == self._shape:
            try:
                native.data = buffer = _from_buffer(value)
                return buffer
            except ValueError:                         # it is not contiguous
                pass
        if type(value) is not np.ndarray:
            if isinstance(value, LoDTensor):
                return self._set_tensor(value)
            if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
                value = np.from_dlpack(value)          # of another library, without a copy
            value = np.asarray(value) if isinstance(value, np.ndarray) else array_of(value, self.dtype, self.name)
        if value.dtype != self.dtype:
            value = self._converted(value)
        if value.shape != self._shape:
            self._set_shape(value.shape)
        if not value.flags.c_contiguous:
            value = np.ascontiguousarray(value)
        native.lod_levels = 0
        buffer = _from_buffer(value)
        native.data = buffer
        return buffer

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        native = self.native
        dims = self.dims
        if dims and len(dims) != len(shape):           # other numbers than those declared are the operators' to refuse
            want = ["?" if dim < 0 else dim for dim in dims]
            raise ShapeError(f"feed {self.name!r} has the shape {list(shape)}, the program wants "
                             f"[{', '.join(map(str, want))}]; a feed has as many dimensions as its variable: declare {len(shape)}, "
                             f"such as layers.data({self.name!r}, {[None] * len(shape)}, append_batch_size=False)\n  your line: {user_line()}")
        if len(shape) > 9:
            raise ShapeError(f"feed {self.name!r} has {len(shape)} dimensions, at most 9 are possible")
        native.rank = len(shape)
        self._dims[0:len(shape)] = shape
        native.dtype = self.code
        self._shape = shape
        self._changed[0] = True

    def _converted(self, value: np.ndarray) -> np.ndarray:
        """Return an array of another type as one of the program's type: only bfloat16 is made of others, since NumPy does not have it."""
        if value.dtype.name == "bfloat16" or (self.code == VarType.BF16 and value.dtype.kind == "f"):
            value = bfloat16_bits(value)
        if self.dtype is None:
            if value.dtype not in FROM_NUMPY:
                raise DTypeError(f"feed {self.name!r} is {value.dtype}, which no tensor can hold")
            self.dtype, self.code = value.dtype, FROM_NUMPY[value.dtype]
        if value.dtype == self.dtype:
            return value
        raise DTypeError(f"feed {self.name!r} is {value.dtype}, the program wants {self.dtype}: "
                         f"give {self.name}.astype({str(self.dtype)!r})\n  your line: {user_line()}")

    def _set_tensor(self, tensor: LoDTensor) -> Any:
        keep = self.set(tensor._read(f"feed {self.name!r}"))
        lod = tensor.lod()
        counts = ffi.new("int64_t[]", [len(level) for level in lod])
        levels = [ffi.new("int64_t[]", level) for level in lod]
        pointers = ffi.new("int64_t *[]", levels)
        self._shape = None                             # the next feed is looked at anew
        self.native.lod_counts, self.native.lod_offsets = counts, pointers
        self.native.lod_levels = len(lod)
        return keep, counts, levels, pointers


class Prepared(Uncopied):
    """A plan of the core with the memory for its feeds and fetches. The plan goes with its program, scope and executor, none of which this keeps."""

    __slots__ = ("plan", "executor", "revision", "erased", "feeds", "natives", "fetches", "count", "_small", "_changed", "_retained")

    def __init__(self, executor: Native, program: Program, scope: Scope, feed: Sequence[str],
                 fetch: Sequence[str]) -> None:
        block = program.global_block()
        for name in feed:
            if not isinstance(name, str):
                raise TypeError(f"feed maps names to arrays, got the key {name!r}")
            if not block.has_var(name):
                raise NotFoundError(f"feed {name!r} is no variable of the program{did_you_mean(name, block.vars)}\n"
                                    f"  your line: {user_line()}")
        out = ffi.new("tr_plan **")
        feed_count, feed_names, _keep = name_array(feed)
        fetch_count, fetch_names, _keep_too = name_array(fetch)
        native = program.desc._native
        check(lib.tr_executor_prepare(out, executor.ptr, native.ptr, scope._native.ptr, feed_count, feed_names,
                                      fetch_count, fetch_names))
        self.plan = out[0]
        _plan_retain(self.plan)
        self._retained = ffi.gc(self.plan, _plan_release)
        self.natives = ffi.new("tr_feed[]", feed_count)
        self._changed = [True]
        self._small: list[SmallResult] | None = None   # one for each result, where all are small: their tensors stay
        self.feeds = [(name, _Feed(name, block.var(name), self.natives[i], self._changed)) for i, name in enumerate(feed)]
        self.fetches = ffi.new("tr_tensor *[]", fetch_count)
        self.count = fetch_count
        self.executor = executor                       # not retained: to be compared
        self.revision = _revision(native.ptr)
        self.erased = scope._erased

    def begin(self, feed: dict[str, Any], return_numpy: bool) -> list[Any]:
        """Point the core at what is fed, and make room for what is fetched; return what must stay alive during the run."""
        keep = [one.set(feed[name]) for name, one in self.feeds]
        if self._small is None or not return_numpy or self._changed[0]:
            self._renew()
        return keep

    def _renew(self) -> None:
        self._small = None
        for i in range(self.count):
            self.fetches[i] = _new_tensor()

    def drop(self) -> None:
        """Free what a run that failed was to fetch. Tensors that stay from run to run are none of it."""
        for i in range(self.count if self._small is None else 0):
            lib.tr_tensor_free(self.fetches[i])

    def run(self, feed: dict[str, Any], return_numpy: bool, names: Sequence[str]) -> list[Any]:
        keep = []
        for name, one in self.feeds:                   # a loop costs less than a comprehension, which is a call
            keep.append(one.set(feed[name]))
        if self._small is not None and return_numpy and not self._changed[0]:
            status = _plan_run(self.plan, self.natives, self.fetches)
            if status:
                check(status)
            return self._small_values() or self.collect(True, names)
        self._renew()
        try:
            check(_plan_run(self.plan, self.natives, self.fetches))
        except BaseException as error:                 # KeyboardInterrupt as well, which Python raises when the call returns
            self.drop()
            if isinstance(error, ShapeError):
                raise with_batch_sizes(error, feed) from None
            raise
        del keep
        return return_numpy and self.small_results() or self.collect(return_numpy, names)

    def small_results(self) -> list[Any]:
        """Return copies of what a run has fetched where all of it is small: its tensors stay for the next run. Else return an empty list: the
        results are to be collected."""
        if self._small is None:
            if not all([is_small(self.fetches[i]) for i in range(self.count)]):
                return []
            self._changed[0] = False
            self._small = [SmallResult(self.fetches[i]) for i in range(self.count)]
        return self._small_values()

    def _small_values(self) -> list[Any]:
        small = self._small or ()
        results: list[Any] = []
        for one in small:
            value = one.value()
            if value is None:                          # its shape depends on values: the tensors are handed out
                for other in small:
                    other.tensor = None
                self._small = None
                return []
            results.append(value)
        return results

    def collect(self, return_numpy: bool, names: Sequence[str]) -> list[Any]:
        """Return what a run has fetched."""
        fetches = self.fetches
        results: list[Any] = []
        for i in range(self.count):
            tensor = fetches[i]
            if lib.tr_tensor_has_rows(tensor):
                results.append(SelectedRows._adopt(tensor))
            elif not return_numpy:
                results.append(LoDTensor._adopt(tensor))
            elif lib.tr_tensor_lod_levels(tensor):
                for j in range(i, self.count):
                    lib.tr_tensor_free(fetches[j])
                raise ValueError(f"{names[i]!r} has sequence offsets, which a NumPy array would lose: "
                                 "fetch it with return_numpy=False")
            else:
                results.append(view_of_owned(tensor))
        return results


def _tidy(kept: dict[Any, Prepared]) -> None:
    """Drop the prepared runs whose executor or scope is gone, and the oldest where one executor has many in one scope."""
    counts: dict[Any, int] = {}
    for key in reversed(list(kept)):
        executor, scope = key[:2]
        counts[key[:2]] = count = counts.get(key[:2], 0) + 1
        if count > _MAX_KEPT // 2 or executor.is_freed or scope.is_freed:
            del kept[key]


class Executor(Handle):
    """Runs programs.

    >>> x = fluid.layers.data("x", [2])
    >>> y = fluid.layers.scale(x, scale=3.0)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> exe.run(fluid.default_main_program(), feed={"x": np.ones((1, 2), "float32")}, fetch_list=[y])
    [array([[3., 3.]], dtype=float32)]

    ``check_nan`` lets every run look at what each operator writes, and fail with ``NotFiniteError`` at the first value that is NaN or infinite, by the
    operator's name and the line that made it; ``train_from_dataset`` and ``Trainer`` do so, too. It costs a pass over all values. None, the
    default, takes what ``TRIREME_CHECK_NAN`` says (``1``: yes), else False; ``trireme launch --check-nan`` sets that.

    ``matmul_precision`` is ``"float32"`` or ``"bfloat16"``: how matrix products of float32 tensors are computed. None, the default, takes what
    ``fluid.set_matmul_precision`` says at the time of each run. ``train_from_dataset`` and ``Trainer`` have it, too.
    """

    _instead = "Make another one: fluid.Executor()"

    def __init__(self, place: Any = None, *, check_nan: bool | None = None, matmul_precision: str | None = None) -> None:
        if place is not None and not isinstance(place, CPUPlace):
            raise TypeError(f"Executor: the place must be CPUPlace(), got {place!r}")
        self.place = place or CPUPlace()
        self._check_nan = os.environ.get("TRIREME_CHECK_NAN", "0") not in ("", "0") if check_nan is None else check_nan
        self._precision = matmul_precision
        self._begin()
        self._turn = new_turn(self)
        self._before_run, self._after_run, self._after_failure = _job_hooks()

    def _begin(self) -> None:
        self._native = Native(lib.tr_executor_new(), lib.tr_executor_free, owner="Executor")
        self.check_nan = self._check_nan
        self.matmul_precision = self._precision

    @property
    def check_nan(self) -> bool:
        """Whether every operator's results are checked for NaN and infinity; a run then fails at the first."""
        return self._check_nan

    @check_nan.setter
    def check_nan(self, check_nan: bool) -> None:
        self._check_nan = bool(check_nan)
        lib.tr_executor_check_finite(self._native.ptr, self._check_nan)

    @property
    def matmul_precision(self) -> str:
        """``"float32"`` or ``"bfloat16"``, how runs multiply matrices. Set it to one of them, or to None for that of the process."""
        return precision_name(lib.tr_executor_matmul_precision(self._native.ptr))

    @matmul_precision.setter
    def matmul_precision(self, precision: str | None) -> None:
        chars = ffi.NULL if precision is None else precision_chars("Executor: matmul_precision", precision)
        check(lib.tr_executor_set_matmul_precision(self._native.ptr, chars))
        self._precision = precision

    def run(self, program: Program | None = None, feed: dict[str, Any] | None = None,
            fetch_list: Sequence[Any] | None = None, feed_var_name: str = "feed", fetch_var_name: str = "fetch",
            scope: Scope | None = None, return_numpy: bool = True, use_program_cache: bool = False) -> list[Any]:
        """Run ``program`` once and return the values of ``fetch_list``: variables or their names. A ``CompiledProgram`` runs, too.
        ``feed_var_name``, ``fetch_var_name`` and ``use_program_cache`` change nothing.

        ``feed`` maps names to arrays; a LoDTensor brings sequence offsets. ``return_numpy=False`` returns
        LoDTensors. Variables that persist live in ``scope``. Threads that share a scope, a program or an executor take turns.

        Ctrl-C ends a run at the next boundary between two operators, also inside a loop: KeyboardInterrupt is raised, variables
        keep the values that the operators before the boundary gave them, and the next run works.
        """
        if calls.running:
            calls.check()
        if program is None:
            program = default_main_program()
        if scope is None:
            scope = _global_scope
        if feed is None:
            feed = {}
        elif feed.__class__ is list and len(feed) == 1 and not getattr(program, "_is_compiled", False):      # one place
            feed = feed[0]
        try:
            if program._is_compiled:
                return program._run(self, feed, fetch_list, scope, return_numpy)
            # In this order, so that no two threads wait for each other: a job runs programs of its own inside a run.
            with scope._turn, program._turn, self._turn:
                return self._run(program, feed, fetch_list, scope, return_numpy)
        except (AttributeError, TypeError):
            if not getattr(program, "_is_compiled", False):
                self._explain(program, feed, fetch_list, scope)
            raise

    def prepare(self, program: Program | None = None, feed: Sequence[Any] = (), fetch_list: Sequence[Any] = (),
                scope: Scope | None = None) -> PreparedRun:
        """Return a handle whose ``run(feed)`` does what ``run`` here does with these feeds and fetches, at less cost.

        ``feed`` are the variables that will be fed, or their names. ``fetch_list`` and ``scope`` are those of ``run``. Names are looked up
        here, and mistakes in them are found here. It pays where a step takes microseconds. In a job a step costs what it costs by ``run``.

        >>> x = fluid.layers.data("x", [2])
        >>> step = fluid.Executor().prepare(feed=[x], fetch_list=[fluid.layers.scale(x, scale=3.0)])
        >>> step.run({"x": np.ones((1, 2), "float32")})
        [array([[3., 3.]], dtype=float32)]
        """
        program = default_main_program() if program is None else program
        scope = _global_scope if scope is None else scope
        self._explain(program, {}, list(fetch_list), scope, "prepare")
        if isinstance(feed, (str, Variable)):
            raise TypeError(f"Executor.prepare: feed must be a list of variables or names, got {feed!r}")
        feeds = [var.name if isinstance(var, Variable) else var for var in feed]
        names = tuple(var if isinstance(var, str) else var.name for var in fetch_list)
        with scope._turn, program._turn, self._turn:
            return PreparedRun(self, program, scope, feeds, names)

    def _run(self, program: Program, feed: dict[str, Any], fetch_list: Sequence[Any] | None, scope: Scope,
             return_numpy: bool) -> list[Any]:
        if monotonic() >= interrupt.due:
            interrupt.look()
        names = tuple([var if isinstance(var, str) else var._name for var in fetch_list]) if fetch_list else ()
        if program._readers:
            from .py_reader import feed_from_readers
            feed = feed_from_readers(program, feed)
        if self._before_run is None:
            return self._run_plain(program, feed, names, scope, return_numpy)
        program, feed, names = self._before_run(self, program, scope, feed, names)
        try:
            results = self._run_plain(program, feed, names, scope, return_numpy)
        except BaseException as error:
            self._after_failure(error, program)
            raise
        if names:
            self._after_run(program, names, results)
        return results

    def _run_plain(self, program: Program, feed: dict[str, Any], names: Sequence[str], scope: Scope, return_numpy: bool) -> list[Any]:
        key = (self._native, scope._native, *feed, None, *names)
        prepared = program._prepared.get(key)
        if (prepared is None or prepared.revision != _revision(program.desc._native.ptr)
                or prepared.erased != scope._erased):
            prepared = self._prepare(program, scope, feed, names, key)
        return prepared.run(feed, return_numpy, names)

    def _prepare(self, program: Program, scope: Scope, feed: dict[str, Any], names: Sequence[str],
                 key: Any) -> Prepared:
        try:
            prepared = Prepared(self._native, program, scope, list(feed), names)
        except NotFoundError as error:
            if program._is_servers:
                raise UnsupportedError("this is a server's program (get_pserver_program): the gradients that it reads come from trainers. Servers are "
                                       "started by 'trireme launch --servers 2 --trainers 2 SCRIPT', which needs no branch for them in the "
                                       f"script\n  {error}") from None
            raise
        kept = program._prepared
        kept.pop(key, None)
        if len(kept) >= program._most_prepared:
            _tidy(kept)
            program._most_prepared = max(_MAX_KEPT, 2 * len(kept))
        kept[key] = prepared
        return prepared

    @staticmethod
    def _explain(program: Any, feed: Any, fetch_list: Any, scope: Any, call: str = "run") -> None:
        """Raise for arguments that are not what they should be."""
        if not isinstance(program, Program):
            raise TypeError(f"Executor.{call}: program must be a Program, got {program!r}")
        if not isinstance(scope, Scope):
            raise TypeError(f"Executor.{call}: scope must be a Scope, got {scope!r}")
        if not isinstance(feed, dict):
            raise TypeError(f"Executor.{call}: feed must be a dict of names to arrays, got {feed!r}")
        if not isinstance(fetch_list, (list, tuple, type(None))):
            raise TypeError(f"Executor.{call}: fetch_list must be a list, got {fetch_list!r}")
        for var in fetch_list or ():
            if not isinstance(var, (Variable, str)):
                raise TypeError(f"Executor.{call}: fetch_list holds Variables or names, got {var!r}")

    def plan(self, program: Program | None = None, feed: Sequence[str] = (), fetch_list: Sequence[Any] = (),
             scope: Scope | None = None) -> str:
        """Return the plan for such a run as text: its steps, what was fused, what shares memory.
        ``feed`` is the names of what is fed, ``fetch_list`` variables or names.
        """
        program = program or default_main_program()
        names = [var if isinstance(var, str) else var.name for var in fetch_list]
        prepared = Prepared(self._native, program, scope or _global_scope, list(feed), names)
        out = ffi.new("char **")
        check(lib.tr_plan_to_string(out, prepared.plan))
        return take_text(out)

    def train_from_dataset(self, program: Program | None = None, dataset: Any = None, scope: Scope | None = None,
                           thread: int = 0, debug: bool = False, fetch_list: Sequence[Any] | None = None,
                           fetch_info: Sequence[str] | None = None, print_period: int = 100, *, epochs: int = 1,
                           steps: int = 0, callbacks: Sequence[Any] | None = None, validation: Any = None) -> Any:
        """Run ``program`` for each batch of ``dataset``, in the core: without any Python per batch.

        Every ``print_period`` steps a line shows the values of ``fetch_list``, called as ``fetch_info`` says, the rate, and the time that is left
        where that is known. One process of a job prints, for all. ``epochs`` are passes over the data, ``steps`` ends them after so many.
        ``callbacks`` is a list of ``fluid.callbacks``; ``validation`` a Dataset, which is gone over at the end of each epoch (docs/callbacks.md).
        With either the history is returned; its numbers are those of the whole job, and steps that are printed are the batches that callbacks hear
        of. With ``thread`` above 1 so many threads take batches
        and update the same parameters without waiting for each other (Hogwild): faster for small steps, and no longer
        repeatable; in a job there is one. ``debug`` prints where the time went. Threads of the script that share the scope, the
        program or the executor take turns, as in ``run``: theirs comes when the loop is over.

        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.csv")
        >>> _ = open(path, "w").write("x,y\\n1,2\\n2,4\\n3,6\\n")
        >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
        >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> exe = fluid.Executor(fluid.CPUPlace())
        >>> _ = exe.run(fluid.default_startup_program())
        >>> data = fluid.Dataset(path, "csv", batch_size=3, header=True, slots=[x, y])
        >>> exe.train_from_dataset(dataset=data, epochs=300, fetch_list=[loss], fetch_info=["loss"], print_period=300)
        step 300: loss=...
        """
        from .loop import run_loop
        return run_loop(self, program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period, epochs, steps,
                        callbacks=callbacks, validation=validation)

    def infer_from_dataset(self, program: Program | None = None, dataset: Any = None, scope: Scope | None = None,
                           thread: int = 0, debug: bool = False, fetch_list: Sequence[Any] | None = None,
                           fetch_info: Sequence[str] | None = None, print_period: int = 100) -> None:
        """As ``train_from_dataset``, once over the data and without the operators that only training needs.
        ``dataset``, ``thread``, ``debug``, ``fetch_list``, ``fetch_info`` and ``print_period`` are those of ``train_from_dataset``.
        """
        from .loop import run_loop
        program = (program or default_main_program()).clone(for_test=True)
        run_loop(self, program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period, 1, 0,
                 trains=False)

    def close(self) -> None:
        """Free what the executor keeps between runs. A run after it prepares itself anew, and draws random numbers as a first run does."""
        with self._its_turn():
            if self._is_open:
                before = self._native
                self._begin()
                before.release()


def as_numpy(tensor: Any) -> Any:
    """Return the array of a LoDTensor, or a list of them.

    ``tensor`` is a LoDTensor, or a list of such and of lists.

    >>> tensor = fluid.create_lod_tensor(np.array([[1], [2]]), [[1, 1]])
    >>> fluid.executor.as_numpy([tensor])[0].tolist()
    [[1], [2]]
    """
    if isinstance(tensor, (list, tuple)):
        return [as_numpy(one) for one in tensor]
    return np.asarray(tensor)


def fetch_var(name: str | Variable, scope: Scope | None = None, return_numpy: bool = True) -> Any:
    """Return the value that a variable has in a scope.

    With ``return_numpy`` (True) it is an array, otherwise a LoDTensor.

    ``name`` is a variable's name, or the Variable. NotFoundError: it has no value there.

    >>> _ = fluid.layers.fc(fluid.layers.data("x", [2]), 1, name="line")
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> fluid.executor.fetch_var("line.b_0")
    array([0.], dtype=float32)
    """
    name = name.name if isinstance(name, Variable) else name
    var = (scope or _global_scope).find_var(name)
    if var is None or var.kind() is None:
        raise NotFoundError(f"the scope has no variable {name!r} with a value")
    tensor = var.get_selected_rows() if var.kind() == VarType.SELECTED_ROWS else var.get_tensor()
    return np.array(tensor) if return_numpy else tensor


__all__ = ["Executor", "global_scope", "scope_guard", "as_numpy", "fetch_var"]
