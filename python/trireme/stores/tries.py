"""Requests to a store: each has a time, and a few tries. What is wrong in the end names the file, the try and the reason."""

from __future__ import annotations

import concurrent.futures
import os
import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

from ..native.errors import FileError, InvalidArgumentError, NotFoundError, TriremeError

TRIES = 4
_FIRST_PAUSE = 0.2                    # seconds; doubled after each try
_FINAL = re.compile(r"ACCESS_DENIED|AccessDenied|Forbidden|HTTP status 40[0134]|NO_SUCH|NoSuch|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|"
                    r"INVALID_SIGNATURE|PERMISSION_DENIED|Unable to load (libhdfs|libjvm)")
_SECRET = re.compile(r"(?i)((?:secret|token|password|credential|signature)[\w-]*\s*[=:]\s*)[^\s,;&]+|//[^/@\s]+@")
T = TypeVar("T")


def timeout() -> float:
    """Return how many seconds a store may be silent: TRIREME_STORE_TIMEOUT."""
    given = os.environ.get("TRIREME_STORE_TIMEOUT") or "20"
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise InvalidArgumentError(f"TRIREME_STORE_TIMEOUT is {given!r}; seconds from 1 to 3600 are possible")
    return seconds


def limit() -> float:
    """Return the seconds after which one call of the library is given up, which ends silent requests itself."""
    return 3 * timeout() + 30


def reason(error: BaseException) -> str:
    """Return an error's text on one line, without anything that looks like a credential."""
    text = " ".join(str(error).split()) or type(error).__name__
    return _SECRET.sub(lambda found: (found[1] or "//") + "...", text)[:600]


def _is_final(error: BaseException) -> bool:
    return isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, TypeError, MemoryError)) \
        or bool(_FINAL.search(str(error)))


def failure(what: str, error: BaseException, tries: int) -> TriremeError:
    """Return the exception for a request that failed: ``what`` says which, such as "s3://a/b cannot be read"."""
    if isinstance(error, TriremeError):
        return error
    if isinstance(error, concurrent.futures.TimeoutError):
        text = f"{what}: try {tries} of {TRIES}: there was no answer within {limit():.0f} s"
    else:
        text = f"{what}: try {tries} of {TRIES}: {reason(error)}"
    return NotFoundError(text) if isinstance(error, FileNotFoundError) else FileError(text)


_pools: dict[int, concurrent.futures.ThreadPoolExecutor] = {}


def pool() -> concurrent.futures.ThreadPoolExecutor:
    """Return the threads of this process that wait for stores."""
    pid = os.getpid()
    if pid not in _pools:
        _pools[pid] = concurrent.futures.ThreadPoolExecutor(32, "trireme-store")
    return _pools[pid]


def tried(what: str, call: Callable[[], T]) -> T:
    """Return what ``call`` returns, with a few tries, in this thread."""
    for number in range(1, TRIES + 1):
        try:
            return call()
        except (OSError, ValueError) as error:
            if number == TRIES or _is_final(error):
                raise failure(what, error, number) from None
        time.sleep(_FIRST_PAUSE * 2 ** (number - 1) * random.uniform(0.5, 1.0))
    raise AssertionError
