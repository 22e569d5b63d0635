"""Names and paths on their way to the core: its strings end at the first zero byte, so a text that has one is refused here.

All else that a name must be is the core's to say (tr_name_check), and said in docs/formats.md.
"""

from __future__ import annotations

import os

from .errors import InvalidArgumentError


def name_chars(text: str) -> bytes:
    """Return a name as the core takes it. A text with a zero byte raises InvalidArgumentError, no text TypeError."""
    if not isinstance(text, str):
        raise TypeError(f"a name must be a string, got {text!r}")
    return _whole(text.encode("utf-8", "surrogateescape"))


def path_chars(path: str | bytes | os.PathLike[str]) -> bytes:
    """Return the path of a file or folder as the core takes it; one with a zero byte raises InvalidArgumentError."""
    return _whole(os.fsencode(path))


def _whole(data: bytes) -> bytes:
    if b"\0" in data:
        raise InvalidArgumentError(f"{data.decode('utf-8', 'replace')!r} is no possible name or path: it has a zero byte")
    return data


__all__ = ["name_chars", "path_chars"]
