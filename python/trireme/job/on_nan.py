"""How a job handles a gradient or a loss of a trainer that is NaN or infinite.

| word |  |
|---|---|
| ``stop`` | the job ends, with a line that names the trainer, the gradient and the step: the default |
| ``skip`` | this trainer's step is left out, on all servers; such steps are counted |
| ``ignore`` | gradients are not checked |
"""

from __future__ import annotations

from .._core import ffi, lib
from ..native.errors import InvalidArgumentError
from .job import say_in_time
from .mode import check_word
from .session import session


def parse(word: str) -> str:
    """Return the word. Raise InvalidArgumentError for a wrong word; it lists what is possible.

    >>> from trireme.job.on_nan import parse
    >>> parse("skip")
    'skip'
    """
    if not isinstance(word, str) or "\0" in word:
        raise InvalidArgumentError(f"on_nan {word!r}; a text such as 'skip' is possible")
    check_word(lib.tr_on_nan_parse(ffi.new("tr_on_nan *"), word.encode("utf-8", "surrogateescape")), word, ("stop", "skip", "ignore"))
    return word


def set_on_nan(word: str) -> None:
    """Choose how this script's job handles a gradient or a loss that is NaN or infinite. Call it before the first step.

    ``word`` is ``"stop"`` (the default), which ends the job; ``"skip"``, which leaves this trainer's step out on all servers; or
    ``"ignore"``, which does not check. Another word raises InvalidArgumentError. ``trireme launch --on-nan`` takes precedence. The call has
    no effect in one process, where ``Executor(check_nan=True)`` checks.

    >>> fluid.distributed.set_on_nan("skip")
    >>> fluid.distributed.set_on_nan("stop")
    """
    if not isinstance(word, str):
        raise TypeError(f"set_on_nan takes a text such as 'skip', got {word!r}")
    parse(word)
    if word != session.on_nan:
        say_in_time(f"set_on_nan({word!r})")
    session.on_nan = word


def current() -> str:
    """Return the script's choice. The job itself looks for the launcher's choice."""
    return session.on_nan
