"""How exact matrix products are.

Tensors are float32 either way. In ``"bfloat16"`` the factors of each product, also within convolutions and recurrent layers, are rounded
to 8 significant bits, and sums are float32. Processors with AMX or AVX512_BF16 multiply so several times faster.
"""

from __future__ import annotations

from typing import Any

from .._core import ffi, lib
from .checks import plain
from .errors import InvalidArgumentError, check


def precision_chars(what: str, precision: Any) -> Any:
    """Return the name as the core takes it; ``what`` is who was given it."""
    if not isinstance(precision, str):
        raise TypeError(f"{what} takes 'float32' or 'bfloat16', got {precision!r}")
    if "\0" in precision:
        raise InvalidArgumentError(f"{what}: {precision!r}; float32 and bfloat16 are possible")
    return ffi.new("char[]", precision.encode("utf-8", "surrogateescape"))


def parse(what: str, precision: Any) -> int:
    """Return the tr_precision of this name, which ``what`` was given. Raises InvalidArgumentError, which says what is possible."""
    out = ffi.new("tr_precision *")
    check(lib.tr_precision_parse(out, precision_chars(what, precision)))
    return int(out[0])


def precision_name(precision: int) -> str:
    """Return the name of a tr_precision."""
    return str(ffi.string(lib.tr_precision_name(precision)).decode())


def set_matmul_precision(precision: str | None) -> None:
    """Choose how this process multiplies float32 matrices: ``"float32"``, the default, or ``"bfloat16"``.

    It holds for runs that begin later, of executors that have no precision of their own (``Executor(matmul_precision=...)``). None goes
    back to what ``TRIREME_MATMUL_PRECISION`` says, which ``trireme launch --matmul-precision`` sets. In a job all trainers must
    choose the same, before the first step. Raises InvalidArgumentError for another name.

    >>> fluid.set_matmul_precision("bfloat16")
    >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
    >>> feed = {"x": np.array([[1.001]], "float32"), "y": np.array([[3]], "float32")}
    >>> fluid.Executor().run(feed=feed, fetch_list=[fluid.layers.matmul(x, y)])
    [array([[3.]], dtype=float32)]
    >>> fluid.set_matmul_precision(None)
    """
    check(lib.tr_set_matmul_precision(ffi.NULL if precision is None else precision_chars("set_matmul_precision", precision)))


def get_matmul_precision() -> str:
    """Return ``"float32"`` or ``"bfloat16"``: how this process multiplies matrices. Raises InvalidArgumentError when
    TRIREME_MATMUL_PRECISION is neither.

    >>> fluid.get_matmul_precision()
    'float32'
    """
    check(lib.tr_matmul_precision_check())
    return precision_name(lib.tr_matmul_precision())


def set_winograd(allow: bool) -> None:
    """Say whether convolutions of float32 may go by Winograd's way (True, the default), which is two to four times as fast and rounds more.

    It concerns convolutions with filters of 2x2 to 5x5 and a stride of 1 or 2, forward and backward, and 7x7 with few channels. An element
    then lies within about ``4 * 2**-24 * max|x| * sum|w|`` of the exact value (twice that with a stride of 2), without it within about a
    quarter of that. It holds for runs that begin later. ``TRIREME_WINOGRAD=0`` is False for a process whose script does not say.

    ``allow`` is that choice.

    >>> fluid.set_winograd(False)
    >>> fluid.get_winograd()
    False
    >>> fluid.set_winograd(True)
    """
    allow = plain(allow)
    if not isinstance(allow, bool):
        raise TypeError(f"set_winograd takes True or False, got {allow!r}")
    lib.tr_set_winograd(allow)


def get_winograd() -> bool:
    """Return whether convolutions may go by Winograd's way.

    >>> fluid.get_winograd()
    True
    """
    return bool(lib.tr_winograd())


def bfloat16_way() -> str:
    """Return what multiplies bfloat16 on this processor: ``"amx_bf16"``, ``"avx512_bf16"``, or ``"float32"`` where it has no such
    instructions: results mean the same, and are slower than float32's.

    >>> fluid.precision.bfloat16_way() in ("amx_bf16", "avx512_bf16", "float32")
    True
    """
    return str(ffi.string(lib.tr_bfloat16_way()).decode())


__all__ = ["set_matmul_precision", "get_matmul_precision", "set_winograd", "get_winograd", "bfloat16_way"]
