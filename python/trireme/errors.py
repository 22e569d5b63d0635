"""What the native core reports, as exceptions; it is not loaded before it has something to report.

Every exception shows the core's own text, which names the operator, the slot and the values, and then the
line of the user's program that led there: the first one outside this package.
"""

from __future__ import annotations

import numbers
import os
import sys
from types import FrameType
from typing import Any

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class TriremeError(Exception):
    """Base of all errors of Trireme. ``status`` is the code's name, such as ``"ESHAPE"``."""

    status = "EINTERNAL"

    def __str__(self) -> str:            # KeyError would quote the text
        return str(self.args[0]) if self.args else self.status


class EnforceNotMet(TriremeError, RuntimeError):
    """What the native core refused or could not do; the classes below say which kind of thing it was."""


class InvalidArgumentError(EnforceNotMet, ValueError):
    status = "EINVAL"


class ShapeError(EnforceNotMet, ValueError):
    status = "ESHAPE"


class DTypeError(EnforceNotMet, TypeError):
    status = "EDTYPE"


class RangeError(EnforceNotMet, ValueError):
    status = "ERANGE"


class NotFoundError(EnforceNotMet, KeyError):
    status = "ENOTFOUND"


class ExistsError(EnforceNotMet, ValueError):
    status = "EEXIST"


class FileError(EnforceNotMet, OSError):
    status = "EIO"


class FormatError(EnforceNotMet, ValueError):
    status = "EFORMAT"


class OutOfMemoryError(EnforceNotMet, MemoryError):
    status = "ENOMEM"


class NotFiniteError(EnforceNotMet, ArithmeticError):
    status = "ENAN"


class UnsupportedError(EnforceNotMet, NotImplementedError):
    status = "EUNSUPPORTED"


class TimedOutError(EnforceNotMet, TimeoutError):
    status = "ETIMEOUT"


class PeerError(EnforceNotMet, ConnectionError):
    status = "EPEER"


class RunInterruptedError(EnforceNotMet, InterruptedError):
    """A run was ended by ``tr_interrupt``. Ctrl-C in the main thread raises KeyboardInterrupt instead."""

    status = "EINTR"


class MissingLibraryError(TriremeError, ImportError):
    """An optional library is not installed; the text says what to install."""

    status = "EUNSUPPORTED"


class EOFException(TriremeError):
    """A reader's pass is over: ``reset()`` it, and ``start()`` the next one."""

    status = "EOF"


class LengthsError(ShapeError, AssertionError):
    """Lengths of sequences do not fit the data; Fluid asserts that."""


def check_whole(what: str, value: Any, least: int = 0, most: int = (1 << 31) - 1) -> None:
    """Raise what says so, unless this is a whole number from ``least`` to ``most``; ``what`` it is: "checkpoint: keep".

    ``value`` is what is looked at.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= value <= most:
        raise InvalidArgumentError(f"{what}={value!r}; a whole number from {least} to {most} is possible")


_CLASSES = {cls.status: cls for cls in EnforceNotMet.__subclasses__()}


def package_file(path: str) -> bool:
    """Return whether a source file is one of this package."""
    return path.startswith(_PACKAGE)


def user_frame() -> FrameType | None:
    """Return the innermost frame outside this package, or None: the line of a command, ``python -m trireme``, is nobody's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen ")):
        frame = frame.f_back
    return frame


def user_line() -> str:
    """Return ``"file:line"`` of the user's line that is being run, or ``""``."""
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


def error_of(status: int) -> BaseException:
    """Return the exception for a failure that the core has just reported.

    ``status`` is the core's code of the failure. Ctrl-C in a function that a program has called is a KeyboardInterrupt.
    """
    from . import calls
    from ._core import ffi, lib

    cause = calls.take_cause()
    if cause is not None and not isinstance(cause, Exception):
        return cause

    name = ffi.string(lib.tr_status_name(status)).decode()
    text = ffi.string(lib.tr_error()).decode("utf-8", "replace")
    source = _user_source()
    error = _CLASSES.get(name, EnforceNotMet)(f"{text}\n  your line: {source}" if source else text)
    error.status = name
    error.__cause__ = cause
    return error


def check(status: int) -> None:
    """Raise the exception that belongs to ``status``, unless it says success."""
    if status:
        raise error_of(status)
