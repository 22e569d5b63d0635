"""Functions of Python that the operator ``py_func`` calls: their numbers, and how a call goes.

The core calls ``_call`` on the thread that runs the plan. Inputs are copies, so a function may keep them. What the function returns
is checked against what the program declares, and copied. An exception ends the run: its text goes into the run's error, and it is the
error's cause.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import ffi, lib
from ..native import calls
from ..native.dtypes import FROM_NUMPY, VarType, bfloat16_bits
from ..native.errors import InvalidArgumentError, NotFoundError, check, package_file
from ..native.locks import new_lock
from ..native.tensor import LoDTensor, _offsets

_MOST_TEXT = 4000                      # of a traceback, which the core's text has room for


class PyFuncRegistry:
    """A function with its number, ``id``. It stays until the process ends, as programs know it by the number alone.

    >>> from trireme.run.py_functions import PyFuncRegistry
    >>> one = PyFuncRegistry(lambda x: np.array(x) + 1)
    >>> PyFuncRegistry.registered_func(one.id) is one
    True
    """

    _all: list[PyFuncRegistry] = []
    _lock = new_lock()

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise TypeError(f"py_func: func must be a function, got {func!r}")
        self._func = func
        self._takes_nothing = _takes_nothing(func)
        with PyFuncRegistry._lock:
            self._id = len(PyFuncRegistry._all)
            PyFuncRegistry._all.append(self)
        lib.tr_set_call_fn(lib.tr_call_python)

    @classmethod
    def registered_func(cls, id: int) -> PyFuncRegistry:
        """Return the function of this number. Raises NotFoundError where there is none."""
        if not 0 <= id < len(cls._all):
            raise NotFoundError(f"py_func: this process has no function {id}; it has {len(cls._all)}. A program knows its functions by "
                                "number, so it runs in the process that has made it")
        return cls._all[id]

    @classmethod
    def registered_func_num(cls) -> int:
        """Return how many there are."""
        return len(cls._all)

    @property
    def id(self) -> int:
        return self._id

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """Call it; return what it returns as a tuple."""
        result = self._func() if self._takes_nothing else self._func(*args)
        return tuple(result) if isinstance(result, (list, tuple)) else (result,)

    def __repr__(self) -> str:
        code = getattr(self._func, "__code__", None)
        name = getattr(self._func, "__qualname__", None) or repr(self._func)
        return f"{name!r} ({code.co_filename}:{code.co_firstlineno})" if code is not None else repr(name)


def _takes_nothing(func: Callable[..., Any]) -> bool:
    try:
        return not inspect.signature(func).parameters
    except (TypeError, ValueError):                    # of C: it says nothing of its parameters
        return False


def _input(tensor: Any) -> LoDTensor:
    copy = lib.tr_tensor_new()
    own: LoDTensor = LoDTensor._adopt(copy)
    check(lib.tr_tensor_copy(copy, tensor))
    return own


class _Refused(Exception):
    """The core has refused a result, and its text says why."""


def _fill(call: Any, index: int, value: Any) -> None:
    """Give the core one result."""
    is_tensor = isinstance(value, LoDTensor)
    array = value.numpy() if is_tensor else np.asarray(value)
    if lib.tr_call_output_dtype(call, index) == VarType.BF16 and array.dtype.kind == "f":
        array = bfloat16_bits(array)
    code = FROM_NUMPY.get(array.dtype)
    if code is None:
        raise TypeError(f"output {index} is an array of {array.dtype}, which no tensor can hold")
    array = np.ascontiguousarray(array.reshape(array.shape or (1,)))
    out = ffi.new("tr_tensor **")
    if lib.tr_call_output(out, call, index, code, array.ndim, list(array.shape)):
        raise _Refused
    if array.nbytes:
        ffi.memmove(lib.tr_tensor_data(out[0]), ffi.from_buffer(array), array.nbytes)
    counts, pointers, levels = _offsets(value.lod() if is_tensor else [])
    check(lib.tr_tensor_set_lod(out[0], len(levels), counts, pointers))


def _run(function: PyFuncRegistry, call: Any) -> None:
    results = function(*[_input(lib.tr_call_input(call, i)) for i in range(lib.tr_call_input_count(call))])
    count = lib.tr_call_output_count(call)
    if count == 0:
        return
    if len(results) != count:
        raise InvalidArgumentError(f"it must return {count} arrays, one for each output, and has returned {len(results)}")
    for i, value in enumerate(results):
        if lib.tr_call_wants(call, i) and value is not None:
            _fill(call, i, value)


def _described(function: Any, error: BaseException) -> str:
    """Return what happened, with the traceback from the function on."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not package_file(frame.filename)]
    lines = "".join(traceback.format_list(frames)).rstrip()
    text = f"py_func: the function {function!r} has raised {type(error).__name__}: {error}"
    if lines:
        text += "\n  Traceback (most recent call last):\n" + lines[-_MOST_TEXT:]
    return text


@ffi.def_extern(name="tr_call_python", error=lib.TR_EINTERNAL)    # type: ignore[untyped-decorator]
def _call(call: Any) -> int:
    """What the core calls; the result is a tr_status."""
    function: Any = None
    calls.begin()
    try:
        function = PyFuncRegistry.registered_func(lib.tr_call_number(call))
        _run(function, call)
    except _Refused:
        return int(lib.tr_call_refused(call, f"the function is {function!r}".encode("utf-8", "replace")))
    except BaseException as error:                     # KeyboardInterrupt and SystemExit, too: C code is around this
        calls.cause = error
        return int(lib.tr_call_fail(_described(function, error).encode("utf-8", "replace")))
    finally:
        calls.end()
    return 0
