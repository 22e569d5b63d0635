"""Ctrl-C during a run: the core learns of it at once, and Python raises KeyboardInterrupt when the run has returned.

Python's own handler only notes the signal while a call of the core runs. So ``look`` puts the core's handler in front of it
(``tr_interrupt_on``): the run ends at the next boundary between two operators. It does so only where Ctrl-C means
KeyboardInterrupt; a script that has set a handler of its own has its runs ended by nobody.
"""

from __future__ import annotations

import signal
import threading
from time import monotonic

from ._core import lib

_PAUSE = 0.1                            # seconds from one look to the next: it asks the system, which a short run would notice
due = 0.0                               # when the next look is: a caller that is in a hurry compares it with monotonic()


def look() -> None:
    """Before a run: see that Ctrl-C reaches the core, even if another handler was set meanwhile."""
    global due
    if threading.current_thread() is not threading.main_thread():
        return
    due = monotonic() + _PAUSE
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        lib.tr_interrupt_on(signal.SIGINT)


__all__ = ["look"]
