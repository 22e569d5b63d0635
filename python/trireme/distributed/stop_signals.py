"""The signals by which schedulers ask a training for its end. The trainer that makes checkpoints acts on them."""

from __future__ import annotations

import os
import signal
import threading

from .._core import ffi, lib

_noted: set[int] = set()               # the signals that this process passes on to the core


def listen() -> None:
    """Note these signals from now on, unless the script has handlers of its own."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGUSR1):
        if signal.getsignal(number) in (signal.SIG_DFL, None):
            signal.signal(number, lambda number, frame: lib.tr_stop_signal_ask(number))
            _noted.add(number)
    lib.tr_notice_tell(lib.TR_NOTICE_LISTENS, ffi.NULL)


def _end_child_as_usual() -> None:
    """In a child made by fork, which makes no checkpoints: let the signals end it. ``Process.terminate`` and ``multiprocessing`` at the end
    of a script send SIGTERM and wait for the child without a bound.
    """
    for number in _noted:
        signal.signal(number, signal.SIG_DFL)
    _noted.clear()


os.register_at_fork(after_in_child=_end_child_as_usual)
