"""The announcement of the rows that a program's next step will look up."""

from __future__ import annotations

from typing import Any

from .._core import ffi, lib
from ..native.errors import check
from ..native.names import take_bytes
from ..native.scope import Scope
from ..program import Program
from ..run.runner import Runner


class Announcer:
    """Announces keys of sparse tables: to the servers, or to tables of this process with rows on disk."""

    def __init__(self, program: Program, scope: Scope) -> None:
        self.revision, self.scope = program.desc.revision, scope
        self._program = _ahead_of(program)
        ops = self._program.global_block().ops if self._program is not None else []
        self.names = sorted({name for op in ops for name in op.input("X" if op.type == "prefetch" else "Ids")})
        self._runner = Runner() if ops else None

    def announce(self, feed: dict[str, Any]) -> None:
        """``feed`` has all ``names``."""
        if self._runner is not None:
            self._runner.run(self._program, {name: feed[name] for name in self.names}, scope=self.scope)


def _ahead_of(program: Program) -> Program | None:
    """Return the program that announces the next step's keys. None: no table's keys are fed."""
    ahead, data, size = ffi.new("tr_program **"), ffi.new("void **"), ffi.new("size_t *")
    check(lib.tr_step_ahead(ahead, program.desc._native.ptr, 0, ffi.NULL))
    if ahead[0] == ffi.NULL:
        return None
    status = lib.tr_program_serialize(data, size, ahead[0])
    lib.tr_program_free(ahead[0])
    check(status)
    return Program.parse_from_string(take_bytes(data, size))
