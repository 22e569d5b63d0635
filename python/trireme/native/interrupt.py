"""Ctrl-C during a run: the core learns of it at once, and Python raises KeyboardInterrupt when the run has returned.

Python's own handler only notes the signal while a call of the core runs. So ``look`` puts the core's handler in front of it
(``tr_interrupt_on``): the run ends at the next boundary between two operators. It does so only where Ctrl-C means
KeyboardInterrupt; a script that has set a handler of its own has its runs ended by nobody.
"""

from __future__ import annotations

import os
import sys
# signal and threading take a millisecond to load
from _signal import SIGINT, default_int_handler, getsignal  # type: ignore[import-not-found]
from _thread import get_native_id, start_new_thread
from time import monotonic, sleep
from typing import Any

from .._core import lib

_AGAIN = 0.01                           # seconds after which an interrupt that was lost is sent again
_PAUSE = 0.1                            # seconds from one look to the next: it asks the system, which a short run would notice
_hook: Any = None                       # what was put into sys.unraisablehook
due = 0.0                               # when the next look is: a caller that is in a hurry compares it with monotonic()


def _is_main_thread() -> bool:
    return get_native_id() == os.getpid()


def look() -> None:
    """Before a run: see that Ctrl-C reaches the core, even if another handler was set meanwhile."""
    global due
    if not _is_main_thread():
        return
    due = monotonic() + _PAUSE
    if getsignal(SIGINT) is default_int_handler:
        lib.tr_interrupt_on(SIGINT)
        _hear_lost_ones()


def _hear_lost_ones() -> None:
    """Send an interrupt again that has come within a `__del__` or a callback of the collector, where Python prints exceptions and goes on.

    Within the hook itself it would be lost again. So a thread sends it, a moment later.
    """
    global _hook
    if sys.unraisablehook is _hook:
        return
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if lost.exc_type is KeyboardInterrupt and _is_main_thread():
            start_new_thread(_send_again, ())
        else:
            before(lost)

    _hook = sys.unraisablehook = hook


def _send_again() -> None:
    sleep(_AGAIN)
    os.kill(os.getpid(), SIGINT)
