"""Names, paths and texts on their way to the core and back. Its strings end at the first zero byte, so a name that has one is refused here.

All else that a name must be is the core's to say (tr_name_check), and said in docs/formats.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .._core import ffi, lib
from .checks import plain
from .errors import InvalidArgumentError

_UNPACKED = (b".zst", b".bz2")         # the core opens them as it opens files of stores


def name_chars(text: str) -> bytes:
    """Return a name as the core takes it. A text with a zero byte raises InvalidArgumentError, no text TypeError."""
    if not isinstance(text, str):
        raise TypeError(f"a name must be a string, got {text!r}")
    return _whole(text.encode("utf-8", "surrogateescape"))


def path_chars(path: str | bytes | os.PathLike[str]) -> bytes:
    """Return the path of a file or folder as the core takes it; one with a zero byte raises InvalidArgumentError.

    If another process opens such files for the core, the core is told how to start it.
    """
    chars = _whole(os.fsencode(plain(path)))
    if b"://" in chars or chars.endswith(_UNPACKED):
        from .store_process import prepare

        prepare()
    return chars


def _whole(data: bytes) -> bytes:
    if b"\0" in data:
        raise InvalidArgumentError(f"{data.decode('utf-8', 'replace')!r} is no possible name or path: it has a zero byte")
    return data


def text_of(chars: Any) -> str:
    """Return a text of the core."""
    return str(ffi.string(chars).decode("utf-8", "surrogateescape"))


def name_array(names: Iterable[str]) -> tuple[int, Any, list[Any]]:
    """Return (count, char *[], what keeps it alive)."""
    chars = [ffi.new("char[]", name_chars(name)) for name in names]
    return len(chars), ffi.new("char *[]", chars), chars


def take_bytes(out: Any, size: Any) -> bytes:
    """Return the bytes that the core allocated, and free them."""
    data = bytes(ffi.buffer(out[0], size[0])) if size[0] else b""
    lib.tr_free(out[0])
    return data


def take_text(out: Any) -> str:
    """Return the text that the core allocated, and free it."""
    text = text_of(out[0])
    lib.tr_free(out[0])
    return text
