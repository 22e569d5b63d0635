"""The core's manager of this process's checkpoints (trainer/checkpoints/checkpoint_manager.h), with the script's part: its settings, the
position of its reader, and the lines for its user.

checkpoint_manager.py has the manager of a job's trainer, train/local_checkpoints.py that of a single process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._core import ffi, lib
from ..checkpoint.folder import command, say, warn
from ..checkpoint.kinds import TABLE
from ..checkpoint.state import digest_of
from ..job.checkpoint_settings import ROWS, Settings
from ..job.job import Job
from ..native.errors import check
from ..native.handles import Handle, Native
from ..native.names import name_chars, path_chars, take_text, text_of
from ..native.scope import Scope
from ..program import Program

if TYPE_CHECKING:
    from ..checkpoint.opened import Checkpoint

STOPPED: int = lib.TR_STOPPED          # the exit code that asks for another start


class CoreManager(Handle):
    """A manager for these settings. It counts steps, and keeps no checkpoints where ``settings.folder`` is None."""

    def __init__(self, settings: Settings, job: Job | None) -> None:
        self.settings = settings
        self._keep: list[Any] = []
        options = ffi.new("tr_checkpoint_options *", {
            "folder": ffi.NULL if settings.folder is None else self._chars(path_chars(settings.folder)),
            "every_steps": settings.every_steps or 0, "every_seconds": settings.every_seconds or 0.0, "keep": settings.keep,
            "full_every": settings.full_every, "rows": ROWS.index(settings.rows), "resume": settings.resume, "entry": settings.entry,
            "command": ffi.NULL if settings.folder is None else self._chars(command().encode("utf-8", "backslashreplace"))})
        self._native = Native(lib.tr_checkpoint_manager_new(options, job.ptr if job is not None else ffi.NULL),
                              lib.tr_checkpoint_manager_free, owner="CoreManager")
        self.ptr = self._native.ptr
        self._handle = ffi.new_handle(self)
        self._error: BaseException | None = None       # of a function that the core has called
        self._position: Any = None                     # what it has returned last
        self.program: Program | None = None

    def _chars(self, data: bytes) -> Any:
        self._keep.append(ffi.new("char[]", data))
        return self._keep[-1]

    @property
    def is_on(self) -> bool:
        """Return whether checkpoints are kept."""
        return self.settings.folder is not None

    # -- where the training begins --------------------------------------------------------------------------------------

    @cached_property
    def beginning(self) -> Beginning:
        """The place where this trainer begins."""
        return Beginning(self)

    def begin(self, program: Program, scope: Scope, kinds: Mapping[str, tuple[int, str | None]], tables: Iterable[str], *,
              mode: str | None = None, exchange_count: str | None = None, on_servers: Callable[[str], bool] = lambda name: False,
              pulled: Callable[[str], bool] = lambda name: False) -> None:
        """Begin the training of ``program``, whose checkpoints hold these variables: see ``tr_checkpoint_variable``."""
        self.program = program
        listed = [(self._chars(name_chars(name)), self._chars(name_chars(param)) if param
                   else ffi.NULL, kind, on_servers(name), pulled(name))
                  for name, (kind, param) in [*kinds.items(), *((name, (TABLE, None)) for name in sorted(tables))]]
        variables = ffi.new("tr_checkpoint_variable[]", listed)
        contents = ffi.new("tr_checkpoint_contents *", {
            "program": program.desc._native.ptr, "scope": scope._native.ptr, "count": len(variables), "variables": variables,
            "mode": self._chars(name_chars(mode)) if mode else ffi.NULL,
            "exchange_count": self._chars(name_chars(exchange_count)) if exchange_count else ffi.NULL,
            "position": lib.tr_py_checkpoint_position if self.settings.position is not None else ffi.NULL,
            "digest": lib.tr_py_checkpoint_digest,
            "say": lib.tr_py_checkpoint_say, "payload": self._handle})
        self._keep += [variables, program.desc, scope]
        self.check(lib.tr_checkpoint_manager_begin(self.ptr, contents))
        if self.is_on:
            from .stop_signals import listen

            listen()

    # -- steps ----------------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Steps that have ended, those of earlier starts included."""
        return int(lib.tr_checkpoint_manager_steps(self.ptr))

    def take_whole(self, folder: str, keep: int, position: bytes | None = None, step: int = -1, runs: int = -1) -> None:
        """Make a checkpoint, and wait for it. ``step`` is in its name, -1: the steps that have ended; ``runs``: of the program, -1: as many
        as were counted."""
        path, data = ffi.new("char[]", path_chars(folder)), ffi.NULL if position is None else ffi.from_buffer(position)
        request = ffi.new("tr_checkpoint_request *", {"folder": path, "keep": keep, "step": step, "runs": runs, "position": data,
                                                      "position_size": len(position or b"")})
        self.check(lib.tr_checkpoint_manager_take_whole(self.ptr, request))

    def at_end(self) -> None:
        """The training is over: make the last checkpoint, if that is this trainer's."""
        while (status := lib.tr_checkpoint_manager_end(self.ptr, lib.TR_CHECKPOINT_LOOK_MILLISECONDS / 1000)) == lib.TR_ETIMEOUT:
            pass                                       # a signal is noted meanwhile
        self.check(status)

    def stop(self) -> None:
        """End the process: a signal asked for that, and the last checkpoint is written."""
        self._stop(take_text(ffi.new("char **", lib.tr_checkpoint_manager_stop_text(self.ptr))))
        sys.exit(STOPPED)

    def _stop(self, text: str) -> None:
        say(text)

    def check(self, status: int) -> None:
        """Raise the error of a call in which the core may have called the script."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        check(status)


class Beginning:
    """The place where a trainer begins: its steps and runs until then, and the checkpoint that the training goes on from, if there is
    one."""

    def __init__(self, manager: CoreManager) -> None:
        found = ffi.new("tr_checkpoint_beginning *")
        check(lib.tr_checkpoint_manager_find(found, manager.ptr))
        self.steps: int = found.steps
        self.runs: int = found.runs
        self.checkpoint: Checkpoint | None = None
        if found.checkpoint != ffi.NULL:
            from ..checkpoint.opened import Checkpoint  # most trainings go on from none

            self.checkpoint = Checkpoint(str(manager.settings.folder), found.checkpoint, manager._native)
            self.checkpoint.refused = text_of(found.refused).splitlines() if found.refused != ffi.NULL else []


# -- what the core calls ------------------------------------------------------------------------------------------------


def _called(payload: Any, fill: Callable[[CoreManager], None]) -> int:
    """Let ``fill`` do what the core has called for. C code is around this, so ``CoreManager.check`` raises its error."""
    manager: CoreManager = ffi.from_handle(payload)
    try:
        fill(manager)
    except BaseException as error:
        manager._error = error
        return int(lib.TR_EINTERNAL)
    return 0


@ffi.def_extern(name="tr_py_checkpoint_position", error=lib.TR_EINTERNAL)    # type: ignore[untyped-decorator]
def _position(out: Any, size: Any, payload: Any) -> int:
    def fill(manager: CoreManager) -> None:
        position = manager.settings.position() if manager.settings.position is not None else None
        if position is not None:
            manager._position = out[0] = ffi.from_buffer(position)
            size[0] = len(position)

    return _called(payload, fill)


@ffi.def_extern(name="tr_py_checkpoint_digest", error=lib.TR_EINTERNAL)    # type: ignore[untyped-decorator]
def _digest(out: Any, payload: Any) -> int:
    def fill(manager: CoreManager) -> None:
        assert manager.program is not None             # the core asks once the training has begun
        out[0] = manager._chars(digest_of(manager.program).encode())

    return _called(payload, fill)


@ffi.def_extern(name="tr_py_checkpoint_say")    # type: ignore[untyped-decorator]
def _say(text: Any, is_warning: bool, payload: Any) -> None:
    (warn if is_warning else say)(text_of(text))
