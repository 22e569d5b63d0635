"""A shell command that runs beside this process, and how it ended."""

from __future__ import annotations

import os
from typing import BinaryIO

from .._core import ffi, lib
from .errors import check


class Command:
    """A running command. ``output`` is its output, in bytes; it ends when the command has ended.

    Unlike ``subprocess`` it learns how the command ended where this process ignores SIGCHLD, or collects all its children in a handler.
    """

    def __init__(self, text: str, bufsize: int = -1) -> None:
        out, end = ffi.new("tr_command **"), ffi.new("int *")
        try:
            source = os.dup(0)
        except OSError:                                    # this process has closed its standard input
            source = os.open(os.devnull, os.O_RDONLY)
        check(lib.tr_command_start(out, end, source, text.encode()))
        self._command = out[0]
        self.output: BinaryIO = open(end[0], "rb", buffering=bufsize)

    def end(self) -> None:
        """Wait for the command's end; raise a FileError unless it ended with exit code 0."""
        command, self._command = self._command, None
        check(lib.tr_command_end(command, ffi.NULL))

    def __del__(self) -> None:
        if command := getattr(self, "_command", None):
            self.output.close()
            lib.tr_command_kill(command)
            lib.tr_command_end(command, ffi.NULL)
