"""What the native core reports, as exceptions; it is not loaded before it has something to report.

Every exception shows the core's own text, which names the operator, the slot and the values, and then the
line of the user's program that led there: the first one outside this package.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

from .checks import plain

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COMMAND = os.path.join(_PACKAGE, "cli.py")            # the program `trireme` is a script that calls its `main`


class TriremeError(Exception):
    """Base of all errors of Trireme. ``status`` is the code's name, such as ``"ESHAPE"``.

    ``except`` with this class hears of everything that Trireme itself refuses, and of nothing else:

    >>> try:
    ...     fluid.executor.fetch_var("w")
    ... except fluid.core.TriremeError as error:
    ...     print(error.status, error)
    ENOTFOUND the scope has no variable 'w' with a value
    """

    status = "EINTERNAL"

    def __str__(self) -> str:            # KeyError would quote the text
        return str(self.args[0]) if self.args else self.status


class EnforceNotMet(TriremeError, RuntimeError):
    """What the native core refused or could not do; the classes below say which kind of thing it was.

    Each of them is also one of Python's own exceptions, so that ``except ValueError`` and its like work.

    >>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [3])
    >>> try:
    ...     fluid.layers.elementwise_add(x, y)
    ... except fluid.core.EnforceNotMet as error:
    ...     print(type(error).__name__, error.status, isinstance(error, ValueError))
    ShapeError ESHAPE True
    """


class InvalidArgumentError(EnforceNotMet, ValueError):
    """An argument has a value that is not possible; also a ValueError. The text says which values are.

    >>> try:
    ...     fluid.cpu_places(0)
    ... except fluid.core.InvalidArgumentError as error:
    ...     print(error)
    cpu_places: device_count is 0; a whole number of at least 1 is possible
    """

    status = "EINVAL"


class ShapeError(EnforceNotMet, ValueError):
    """Shapes do not fit each other; also a ValueError. The text names the operator, its slots and their shapes.

    >>> try:
    ...     fluid.layers.elementwise_add(fluid.layers.data("x", [2]), fluid.layers.data("y", [3]))
    ... except fluid.core.ShapeError as error:
    ...     print(str(error).splitlines()[0])
    elementwise_add: Y's dimension 1 must be 2, as X's dimension 1 is; X is [?, 2], Y is [?, 3], axis is -1
    """

    status = "ESHAPE"


class DTypeError(EnforceNotMet, TypeError):
    """Types of elements do not fit each other, or an operator has no kernel for a type; also a TypeError.

    >>> try:
    ...     fluid.layers.elementwise_add(fluid.layers.data("x", [2]), fluid.layers.data("y", [2], dtype="int64"))
    ... except fluid.core.DTypeError as error:
    ...     print(str(error).splitlines()[0])
    elementwise_add: it computes with float32, so input Y must be float32, got int64
    """

    status = "EDTYPE"


class RangeError(EnforceNotMet, ValueError):
    """An index or id lies outside of what it selects from; also a ValueError.

    >>> rows = fluid.layers.embedding(fluid.layers.data("ids", [1], dtype="int64"), [10, 4])
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> try:
    ...     exe.run(feed={"ids": np.array([[12]])}, fetch_list=[rows])
    ... except fluid.core.RangeError as error:
    ...     print(str(error).splitlines()[0])
    lookup_table: id 12 at position 0 of 'ids' is no row of 'embedding_0.w_0', which has 10
    """

    status = "ERANGE"


class NotFoundError(EnforceNotMet, KeyError):
    """There is no variable, operator or checkpoint of a name; also a KeyError. The text suggests names that are alike.

    >>> try:
    ...     fluid.executor.fetch_var("fc_0.w_0")
    ... except KeyError as error:
    ...     print(type(error).__name__, error)
    NotFoundError the scope has no variable 'fc_0.w_0' with a value
    """

    status = "ENOTFOUND"


class ExistsError(EnforceNotMet, ValueError):
    """Something of this name is there already; also a ValueError.

    >>> block = fluid.core.ProgramDesc().block(0)
    >>> for _ in range(2):
    ...     block.declare_var("w", fluid.core.VarDesc.VarType.LOD_TENSOR, fluid.core.VarDesc.VarType.FP32, [2])
    Traceback (most recent call last):
        ...
    trireme.errors.ExistsError: ...
    """

    status = "EEXIST"


class FileError(EnforceNotMet, OSError):
    """A file cannot be read or written; also an OSError.

    >>> try:
    ...     fluid.io.load_program("no-such-file")
    ... except OSError as error:
    ...     print(type(error).__name__, str(error).splitlines()[0])
    FileError cannot open 'no-such-file': No such file or directory
    """

    status = "EIO"


class FormatError(EnforceNotMet, ValueError):
    """A file or message is damaged, or of another kind; also a ValueError.

    >>> with open("model", "wb") as file:
    ...     _ = file.write(b"no program")
    >>> try:
    ...     fluid.io.load_program("model")
    ... except fluid.core.FormatError as error:
    ...     print(type(error).__name__, error.status)
    FormatError EFORMAT
    """

    status = "EFORMAT"


class OutOfMemoryError(EnforceNotMet, MemoryError):
    """There is not enough memory; also a MemoryError. The text says for what.

    >>> issubclass(fluid.core.OutOfMemoryError, MemoryError), fluid.core.OutOfMemoryError.status
    (True, 'ENOMEM')
    """

    status = "ENOMEM"


class NotFiniteError(EnforceNotMet, ArithmeticError):
    """A value is NaN or infinite, in a run that looks for it (``check_nan``); also an ArithmeticError. The text names the first operator.

    >>> y = fluid.layers.log(fluid.layers.data("x", [1]))
    >>> try:
    ...     fluid.Executor(check_nan=True).run(feed={"x": np.array([[-1.0]], "float32")}, fetch_list=[y])
    ... except fluid.core.NotFiniteError as error:
    ...     print(str(error).splitlines()[0])
    variable 'log_0.tmp_0' has a value that is not finite (NaN or infinity)
    """

    status = "ENAN"


class UnsupportedError(EnforceNotMet, NotImplementedError):
    """Trireme does not have what was asked for; also a NotImplementedError.

    >>> try:
    ...     fluid.CUDAPlace(0)
    ... except fluid.core.UnsupportedError as error:
    ...     print(error.status)
    EUNSUPPORTED
    """

    status = "EUNSUPPORTED"


class TimedOutError(EnforceNotMet, TimeoutError):
    """Another rank of the job did not answer in time; also a TimeoutError. The text says which rank, and how long was waited.

    >>> issubclass(fluid.core.TimedOutError, TimeoutError), fluid.core.TimedOutError.status
    (True, 'ETIMEOUT')
    """

    status = "ETIMEOUT"


class PeerError(EnforceNotMet, ConnectionError):
    """Another rank of the job has failed or is gone; also a ConnectionError. The text has what that rank said.

    >>> issubclass(fluid.core.PeerError, ConnectionError), fluid.core.PeerError.status
    (True, 'EPEER')
    """

    status = "EPEER"


class RunInterruptedError(EnforceNotMet, InterruptedError):
    """A run was ended by ``tr_interrupt``. Ctrl-C in the main thread raises KeyboardInterrupt instead.

    >>> issubclass(fluid.core.RunInterruptedError, InterruptedError), fluid.core.RunInterruptedError.status
    (True, 'EINTR')
    """

    status = "EINTR"


class MissingLibraryError(TriremeError, ImportError):
    """An optional library is not installed; the text says what to install.

    >>> from trireme.errors import MissingLibraryError
    >>> issubclass(MissingLibraryError, ImportError), issubclass(MissingLibraryError, fluid.core.TriremeError)
    (True, True)
    """

    status = "EUNSUPPORTED"


class EOFException(TriremeError):
    """A reader's pass is over: ``reset()`` it, and ``start()`` the next one.

    >>> x = fluid.layers.data("x", [1])
    >>> reader = fluid.io.PyReader([x], capacity=2)
    >>> reader.decorate_batch_generator(lambda: iter([[np.ones((1, 1), "float32")]] * 2))
    >>> exe, steps = fluid.Executor(), 0
    >>> reader.start()
    >>> try:
    ...     while exe.run(fetch_list=[x]):
    ...         steps += 1
    ... except fluid.core.EOFException:
    ...     reader.reset()
    >>> steps
    2
    """

    status = "EOF"


class LengthsError(ShapeError, AssertionError):
    """Lengths of sequences do not fit the data; Fluid asserts that.

    >>> try:
    ...     fluid.create_lod_tensor(np.zeros((4, 1), "int64"), [[2, 3]])
    ... except AssertionError as error:
    ...     print(type(error).__name__)
    LengthsError
    """


def check_whole(what: str, value: Any, least: int = 0, most: int = (1 << 31) - 1) -> int:
    """Return a whole number from ``least`` to ``most`` as an int; for all else raise what says so. ``what`` it is: "checkpoint: keep".

    ``value`` is what is looked at.

    >>> from trireme.errors import check_whole
    >>> check_whole("epochs", 3, least=1)
    3
    >>> check_whole("epochs", 0, least=1, most=100)
    Traceback (most recent call last):
        ...
    trireme.errors.InvalidArgumentError: epochs=0; a whole number from 1 to 100 is possible
    """
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InvalidArgumentError(f"{what}={value!r}; a whole number from {least} to {most} is possible")
    return number


_CLASSES = {cls.status: cls for cls in EnforceNotMet.__subclasses__()}


def package_file(path: str) -> bool:
    """Return whether a source file is one of this package.

    ``path`` is the file's path, as a frame has it.

    >>> from trireme.errors import package_file
    >>> package_file(fluid.__file__), package_file("train.py")
    (True, False)
    """
    return path.startswith(_PACKAGE)


def user_frame() -> FrameType | None:
    """Return the innermost frame outside this package, or None: the line of a command, ``trireme`` or ``python -m trireme``, is nobody's.

    >>> from trireme.errors import user_frame
    >>> user_frame().f_code.co_name
    '<module>'
    """
    inner: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen ")):
        inner, frame = frame, frame.f_back
    is_command = inner is not None and inner.f_code.co_filename == _COMMAND and inner.f_code.co_name == "main"
    return None if is_command else frame


def user_line() -> str:
    """Return ``"file:line"`` of the user's line that is being run, or ``""``.

    >>> from trireme.errors import user_line
    >>> user_line().endswith(":1")
    True
    """
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _user_source() -> str:
    """Return ``"file:line: the line itself"``."""
    import linecache

    frame = user_frame()
    if frame is None:
        return ""
    path, number = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(path, number, frame.f_globals).strip()
    return f"{path}:{number}" + (f": {source}" if source else "")


def error_of(status: int, context: str = "") -> BaseException:
    """Return the exception for a failure that the core has just reported.

    ``status`` is the core's code of the failure, and ``context`` a line that the core does not know. Ctrl-C in a function that a program
    has called is a KeyboardInterrupt.

    >>> from trireme._core import lib
    >>> from trireme.errors import error_of
    >>> status = lib.tr_name_check(b"")
    >>> type(error_of(status)).__name__
    'InvalidArgumentError'
    """
    from .._core import ffi, lib
    from . import calls

    cause = calls.take_cause()
    if cause is not None and not isinstance(cause, Exception):
        return cause

    name = ffi.string(lib.tr_status_name(status)).decode()
    text = ffi.string(lib.tr_error()).decode("utf-8", "replace")
    if context:
        text += f"\n  {context}"
    source = _user_source()
    error = _CLASSES.get(name, EnforceNotMet)(f"{text}\n  your line: {source}" if source else text)
    error.status = name
    error.__cause__ = cause
    return error


def check(status: int, context: str = "") -> None:
    """Raise the exception that belongs to ``status``, unless it says success.

    ``status`` is what a function of the core returned; 0 is success. ``context`` is a line that the core does not know.

    >>> from trireme.errors import check
    >>> check(0)
    """
    if status:
        raise error_of(status, context)


__all__ = ["TriremeError", "EnforceNotMet", "InvalidArgumentError", "ShapeError", "DTypeError", "RangeError", "NotFoundError",
           "ExistsError", "FileError", "FormatError", "OutOfMemoryError", "NotFiniteError", "UnsupportedError", "TimedOutError",
           "PeerError", "RunInterruptedError", "MissingLibraryError", "EOFException", "LengthsError", "check", "check_whole", "error_of",
           "package_file",
           "user_frame", "user_line"]

for _kind in _CLASSES.values():
    _kind.__module__ = "trireme.errors"            # as scripts know them, and tracebacks show them
