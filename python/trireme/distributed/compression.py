"""How gradients travel to the servers, in one word.

| method | bytes a value |  |
|---|---|---|
| ``none`` | 4 | as they are: the default |
| ``fp16``, ``bf16`` | 2 | rounded |
| ``int8`` | 1 | whole numbers times the scale of their 256 neighbours |
| ``topk(s)`` | 6 s | the share ``s`` of the values that is largest in magnitude; the rest waits |

What a method leaves out is added to the next step's gradient.
"""

from __future__ import annotations

from .._core import ffi, lib
from ..errors import InvalidArgumentError
from .job import say_in_time
from .mode import check_word


def parse(text: str) -> str:
    """Return a method's text without blanks; raise InvalidArgumentError or RangeError, which say what is possible.

    >>> from trireme.distributed.compression import parse
    >>> parse("topk( 0.01 )")
    'topk(0.01)'
    """
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgumentError(f"compression {text!r}; a text such as 'int8' is possible")
    text = "".join(text.split())
    check_word(lib.tr_compress_parse(ffi.new("tr_compress *"), text.encode()), text, ("none", "fp16", "bf16", "int8", "topk"))
    return text


_method = "none"


def set_compression(method: str) -> None:
    """Choose how this script's job sends gradients, before its first step.

    ``trireme launch --compress`` goes before it. In one process nothing is sent.

    ``method`` is ``"none"``, ``"fp16"``, ``"bf16"``, ``"int8"`` or ``"topk(SHARE)"`` with a share from above 0 to 1. Another text is an
    InvalidArgumentError.

    >>> fluid.distributed.set_compression("topk(0.01)")
    >>> fluid.distributed.set_compression("none")
    """
    global _method
    if not isinstance(method, str):
        raise TypeError(f"set_compression takes a text such as 'int8', got {method!r}")
    text = parse(method)
    if text != _method:
        say_in_time(f"set_compression({method!r})")
    _method = text


def current() -> str:
    """Return the script's choice. The job itself looks for the launcher's."""
    return _method


__all__ = ["parse", "set_compression", "current"]
