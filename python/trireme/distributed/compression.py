"""How gradients travel to the servers, and how parameters come back, in one word each.

| method | bytes a value |  |
|---|---|---|
| ``none`` | 4 | as they are: the default |
| ``fp16``, ``bf16`` | 2 | rounded |
| ``int8`` | 1 | whole numbers times the scale of their 256 neighbours |
| ``topk(s)`` | 6 s | the share ``s`` of the values that is largest in magnitude; the rest waits |

What a method leaves out is added to the next step's gradient.

Parameters come back as they are (``none``, the default), or rounded to nearest even in half the bytes (``bf16``). Servers and checkpoints keep float32.
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


def parse_parameters(text: str) -> str:
    """Return the word for parameters without blanks; raise InvalidArgumentError, which says what is possible.

    >>> from trireme.distributed.compression import parse_parameters
    >>> parse_parameters("bf16")
    'bf16'
    """
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgumentError(f"compression of parameters {text!r}; 'none' and 'bf16' are possible")
    text = "".join(text.split())
    check_word(lib.tr_compress_parse_parameters(ffi.new("bool *"), text.encode()), text, ("none", "bf16"))
    return text


_method = _parameters = "none"


def set_compression(method: str | None = None, *, parameters: str | None = None) -> None:
    """Choose how this script's job sends gradients, and how parameters come back, before its first step. What is None stays as it is.

    ``method`` is ``"none"`` (the default), ``"fp16"``, ``"bf16"``, ``"int8"`` or ``"topk(SHARE)"`` with a share from above 0 to 1. ``parameters`` is ``"none"`` (the default) or
    ``"bf16"``: float32 parameters and rows of sparse tables come back in half the bytes, rounded to nearest even, and servers keep float32.
    Another text is an InvalidArgumentError.

    ``trireme launch --compress`` and ``--compress-parameters`` go before it. In one process nothing is sent.

    >>> fluid.distributed.set_compression("topk(0.01)", parameters="bf16")
    >>> fluid.distributed.set_compression("none", parameters="none")
    """
    global _method, _parameters
    for value in (method, parameters):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"set_compression takes a text such as 'int8', got {value!r}")
    text = _method if method is None else parse(method)
    back = _parameters if parameters is None else parse_parameters(parameters)
    if (text, back) != (_method, _parameters):
        say_in_time(f"set_compression({text!r})" if back == _parameters else f"set_compression(parameters={back!r})")
    _method, _parameters = text, back


def current() -> str:
    """Return the script's choice. The job itself looks for the launcher's."""
    return _method


def parameters() -> str:
    """Return the script's choice for parameters. The job itself looks for the launcher's."""
    return _parameters


__all__ = ["parse", "parse_parameters", "set_compression", "current", "parameters"]
