"""The checkpoint policy in C, as trainers and single processes use it; and the signals that ask for the end.

``trainer/checkpoint_policy.h`` decides when a checkpoint is due, when it is tried again and what a failure means. This module gives
the policy its inputs, the clock and the signals, and prints its messages on stderr.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from .._core import ffi, lib
from ..checkpoint import steps as steps_in
from ..checkpoint import warn
from ..job.checkpoint_settings import Settings
from ..native.errors import FileError, TriremeError
from ..native.handles import Handle, Native
from ..native.names import path_chars, take_text, text_of
from .checkpoints import claim_folder

STOPPED: int = lib.TR_STOPPED          # the exit code that asks for another start
BEGIN, REPORT, STOP = lib.TR_CHECKPOINT_BEGIN, lib.TR_CHECKPOINT_REPORT, lib.TR_CHECKPOINT_STOP
PATIENCE = float(lib.TR_CHECKPOINT_PATIENCE)
LOOK = lib.TR_CHECKPOINT_LOOK_MILLISECONDS / 1000
asked: list[int] = []                  # signals
_noted: set[int] = set()               # the signals that this process puts into it


def listen() -> None:
    """Note the signals by which schedulers ask for an end. The trainer that makes checkpoints acts on them."""
    if threading.current_thread() is not threading.main_thread():
        return

    def note(number: int, _frame: object) -> None:
        asked.append(number)
        lib.tr_notice_tell(lib.TR_NOTICE_ASKED, ffi.NULL)                       # a replacement of this trainer learns of the signal

    for number in (signal.SIGTERM, signal.SIGUSR1):
        if signal.getsignal(number) in (signal.SIG_DFL, None):
            signal.signal(number, note)
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


def name_of(number: int) -> str:
    """Return the name of the signal that asked for the end. The launcher passes every signal on as SIGUSR1, and notes the name of the
    original.
    """
    if number == signal.SIGUSR1:
        name = ffi.new("char[32]")
        return text_of(lib.tr_notice_asked_by(name, len(name), b"SIGUSR1"))
    return signal.Signals(number).name


class Schedule(Handle):
    """The policy of one process. ``start`` has the fields of a ``tr_checkpoint_start`` that ``settings`` lacks."""

    def __init__(self, settings: Settings, **start: Any) -> None:
        self.folder = str(settings.folder)
        native = ffi.new("tr_checkpoint_start *", {"every_steps": settings.every_steps or 0, "every_seconds": settings.every_seconds or 0.0, **start})
        self._native = Native(lib.tr_checkpoint_policy_new(native, time.monotonic_ns()), lib.tr_checkpoint_policy_free,
                              owner="Schedule")
        self._ptr = self._native.ptr
        self.error: Exception | None = None            # why the last checkpoint was not written
        listen()

    def becomes_initiator(self, is_initiator: bool, steps: int) -> None:
        """Note whether this trainer makes the checkpoints now. When it begins to, learn which checkpoints others have made."""
        if lib.tr_checkpoint_policy_becomes_initiator(self._ptr, is_initiator):
            claim_folder(self.folder, lib.TR_ENTRY_JOIN)
            lib.tr_checkpoint_policy_take_over(self._ptr, steps, newest_in(self.folder), lib.tr_checkpoint_age(path_chars(self.folder)),
                                               time.monotonic_ns())

    def look(self, steps: int, is_possible: bool = True, is_under_way: bool = False) -> int:
        """Between two steps: return the action that is due, ``BEGIN``, ``REPORT`` or ``STOP``; 0: none."""
        return int(lib.tr_checkpoint_policy_look(self._ptr, self._view(steps, is_possible, is_under_way)))

    def steps_to_look(self, steps: int, is_under_way: bool = False) -> int:
        """Return how many steps a loop may make before the next look; 0: any number."""
        return int(lib.tr_checkpoint_policy_steps_to_look(self._ptr, self._view(steps, True, is_under_way)))

    @staticmethod
    def _view(steps: int, is_possible: bool, is_under_way: bool) -> Any:
        return ffi.new("tr_checkpoint_view *", {"steps": steps, "now": time.monotonic_ns(), "is_possible": is_possible,
                                                "is_under_way": is_under_way, "is_asked": bool(asked)})

    def finish(self, steps: int, has_more: bool = False) -> int:
        """The training ends: return the next action for its last checkpoint, ``BEGIN`` or ``REPORT``; 0: nothing is left to do."""
        return int(lib.tr_checkpoint_policy_finish(self._ptr, steps, has_more))

    def begun(self, steps: int) -> None:
        lib.tr_checkpoint_policy_begun(self._ptr, steps, time.monotonic_ns())

    def ended(self, error: Exception | None, is_given_up: bool = False) -> None:
        """Note that the checkpoint was written, or failed with ``error``. Of several failures in a row only the first is reported."""
        if lib.tr_checkpoint_policy_ended(self._ptr, _status_of(error), is_given_up):
            warn(f"a checkpoint was not written: {error}")
        self.error = error

    @property
    def is_pending(self) -> bool:
        """Return whether a checkpoint was begun whose outcome is not known yet."""
        return bool(lib.tr_checkpoint_policy_is_pending(self._ptr))

    def label(self, steps: int) -> int:
        """Return the step in the name of a checkpoint that is made now."""
        return int(lib.tr_checkpoint_policy_label(self._ptr, steps))

    def stop_text(self, steps: int) -> str:
        """Return the message for an end by a signal."""
        text = lib.tr_checkpoint_policy_stop_text(self._ptr, path_chars(self.folder), name_of(asked[0]).encode(), steps)
        return take_text(ffi.new("char **", text))

    def check_last(self) -> None:
        """Raise FileError if the last checkpoint of a training was not written."""
        if lib.tr_checkpoint_policy_status(self._ptr) != 0:
            raise FileError(f"the last checkpoint was not written: {self.error}")


def newest_in(folder: str) -> int:
    """Return the newest step in a folder; -1: there is none."""
    return max(steps_in(folder), default=-1)


def _status_of(error: Exception | None) -> int:
    if error is None:
        return 0
    return int(lib.TR_EPEER if isinstance(error, TriremeError) and error.status == "EPEER" else lib.TR_EIO)
