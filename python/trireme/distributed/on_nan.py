"""What a job does where a trainer's gradient or loss is NaN or infinite, in one word.

| word |  |
|---|---|
| ``stop`` | the job ends, with a line that says which trainer's which gradient in which step: the default |
| ``skip`` | nothing of this trainer's step counts, on any server; such steps are counted |
| ``ignore`` | gradients are not looked at |
"""

from __future__ import annotations

from .._core import ffi, lib
from ..errors import InvalidArgumentError
from .job import say_in_time
from .mode import check_word


def parse(word: str) -> str:
    """Return the word; raise InvalidArgumentError, which says what is possible.

    >>> from trireme.distributed.on_nan import parse
    >>> parse("skip")
    'skip'
    """
    if not isinstance(word, str) or "\0" in word:
        raise InvalidArgumentError(f"on_nan {word!r}; a text such as 'skip' is possible")
    check_word(lib.tr_on_nan_parse(ffi.new("tr_on_nan *"), word.encode("utf-8", "surrogateescape")), word, ("stop", "skip", "ignore"))
    return word


_word = "stop"


def set_on_nan(word: str) -> None:
    """Choose what this script's job does where a gradient or the loss is NaN or infinite, before its first step.

    ``"stop"``, the default, ends the job; ``"skip"`` leaves this trainer's step out, on all servers; ``"ignore"`` does not look.
    ``trireme launch --on-nan`` goes before it. Without effect in one process, where ``Executor(check_nan=True)`` looks.

    ``word`` is one of these three. Another is an InvalidArgumentError.

    >>> fluid.distributed.set_on_nan("skip")
    >>> fluid.distributed.set_on_nan("stop")
    """
    global _word
    if not isinstance(word, str):
        raise TypeError(f"set_on_nan takes a text such as 'skip', got {word!r}")
    parse(word)
    if word != _word:
        say_in_time(f"set_on_nan({word!r})")
    _word = word


def current() -> str:
    """Return the script's choice. The job itself looks for the launcher's."""
    return _word


__all__ = ["parse", "set_on_nan", "current"]
