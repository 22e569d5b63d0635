"""How gradients travel to the servers, and how parameters come back, in one word each.

| method | bytes a value |  |
|---|---|---|
| ``none`` | 4 | as they are: the default |
| ``fp16``, ``bf16`` | 2 | rounded |
| ``int8`` | 1 | whole numbers times the scale of their 256 neighbours |
| ``nonzero`` | 6 s | the share ``s`` of the values that are not zero: for gradients that are thinned out already |
| ``topk(s)`` | 6 s | the share ``s`` of the values that are largest in magnitude; the rest waits |

A method's residual, which it leaves out, is added to the next step's gradient.

Parameters come back as they are (``none``, the default), or rounded to nearest even in half the bytes (``bf16``). Servers and checkpoints
keep float32.
"""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from .._core import ffi, lib
from .job import say_in_time
from .mode import Mode, check_word, without_blanks
from .session import session

if TYPE_CHECKING:
    from ..program import Program


def parse(text: str) -> str:
    """Return a method's text without blanks. Raise InvalidArgumentError or RangeError for a wrong text; they list what is possible.

    >>> from trireme.job.compression import parse
    >>> parse("topk( 0.01 )")
    'topk(0.01)'
    """
    text = without_blanks("compression", text, "a text such as 'int8' is possible")
    check_word(lib.tr_compress_parse(ffi.new("tr_compress *"), text.encode()), text, ("none", "fp16", "bf16", "int8", "nonzero", "topk"))
    return text


def parse_parameters(text: str) -> str:
    """Return the word for parameters without blanks. Raise InvalidArgumentError for a wrong text; it lists what is possible.

    >>> from trireme.job.compression import parse_parameters
    >>> parse_parameters("bf16")
    'bf16'
    """
    text = without_blanks("compression of parameters", text, "'none' and 'bf16' are possible")
    check_word(lib.tr_compress_parse_parameters(ffi.new("bool *"), text.encode()), text, ("none", "bf16"))
    return text


def set_compression(method: str | None = None, *, parameters: str | None = None) -> None:
    """Choose how this script's job sends gradients, and how parameters come back. Call it before the first step. None changes nothing.

    ``method`` is ``"none"`` (the default), ``"fp16"``, ``"bf16"``, ``"int8"``, ``"nonzero"`` or ``"topk(SHARE)"`` with a share from above 0
    to 1. ``parameters`` is ``"none"`` (the default) or ``"bf16"``: float32 parameters and rows of sparse tables come back in half the
    bytes, rounded to nearest even; servers keep float32. Another text raises InvalidArgumentError.

    ``trireme launch --compress`` and ``--compress-parameters`` take precedence. In one process nothing is sent.

    >>> fluid.distributed.set_compression("topk(0.01)", parameters="bf16")
    >>> fluid.distributed.set_compression("none", parameters="none")
    """
    given: list[Any] = [value for value in (method, parameters) if value is not None]
    for value in given or [None]:
        if not isinstance(value, str):
            raise TypeError(f"set_compression takes a text such as 'int8', got {value!r}")
    text = session.compression if method is None else parse(method)
    back = session.compression_of_parameters if parameters is None else parse_parameters(parameters)
    if (text, back) != (session.compression, session.compression_of_parameters):
        say_in_time(f"set_compression({text!r})" if back == session.compression_of_parameters else f"set_compression(parameters={back!r})")
    session.compression, session.compression_of_parameters = text, back


def chosen_for(program: Program, mode: Mode) -> str:
    """Return the script's choice. Without one it is ``nonzero`` for a program that sends only its largest gradients
    (DGCMomentumOptimizer). The job itself looks for the launcher's choice.
    """
    return "nonzero" if session.compression == "none" and not mode.trains_copies and sends_largest(program) else session.compression


def parameters() -> str:
    """Return the script's choice for parameters. The job itself looks for the launcher's choice."""
    return session.compression_of_parameters


def sends_largest(program: Program) -> bool:
    """Return whether a program accumulates gradients and sends only the largest values: DGCMomentumOptimizer."""
    return any(op.type == "dgc" for op in program.global_block().read_ops())


def accumulators(program: Program) -> list[str]:
    """Return the names of the variables in which each trainer of a job accumulates what it has not sent yet."""
    return sorted(name for op in program.global_block().read_ops() if op.type == "dgc" for slot in ("U_out", "V_out")
                  for name in op.output(slot))
