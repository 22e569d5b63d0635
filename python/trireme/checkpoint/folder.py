"""Which checkpoints there are in a folder: what the launcher asks, who loads neither NumPy nor what makes programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .._core import ffi, lib
from ..native.errors import check
from ..native.names import path_chars, take_text, text_of


def steps(folder: str | os.PathLike[str]) -> list[int]:
    """Return the steps of the checkpoints in a folder, the newest first, whether they are valid or not."""
    path = path_chars(folder)
    count = lib.tr_checkpoint_list(ffi.NULL, 0, path)
    if count < 0:
        check(lib.TR_EIO)                              # a store does not answer
    out = ffi.new("int64_t[]", count)
    there = lib.tr_checkpoint_list(out, count, path)
    return list(out)[:there]


def groups_of_newest(folder: str | os.PathLike[str], trainers: int) -> str | None:
    """Return the sizes of the trainers' host groups in the newest checkpoint that can be opened, such as ``4,4,2``. None: there is no
    such checkpoint, or it has another number of trainers.
    """
    out = ffi.new("tr_checkpoint **")
    for step in steps(folder):
        path = lib.tr_checkpoint_path(path_chars(folder), step)
        status = lib.tr_checkpoint_open(out, path)
        lib.tr_free(path)
        if status == lib.TR_OK:
            is_job = text_of(lib.tr_checkpoint_mode(out[0])) != "local"
            groups = text_of(lib.tr_checkpoint_groups(out[0])) or (str(trainers) if is_job else "1")     # jobs had one group before
            lib.tr_checkpoint_free(out[0])
            sizes = groups.split(",")
            return groups if all(map(str.isdecimal, sizes)) and sum(map(int, sizes)) == trainers else None
    return None


def command() -> str:
    """Return the script of this process and its arguments, by which a folder's run is known."""
    return "" if not sys.argv or sys.argv[0] in ("", "-c") else command_of(sys.argv)


def command_of(words: Sequence[str]) -> str:
    """Return a script and its arguments as one text."""
    import shlex  # here: a trainer without checkpoints needs no command

    script, *arguments = words
    return shlex.join([os.path.basename(script), *arguments])


def claim(folder: str | os.PathLike[str], entry: int) -> str | None:
    """Reserve a folder for the checkpoints of this process and its run: see tr_checkpoint_claim. Return a line for the user."""
    said = ffi.new("char **")
    check(lib.tr_checkpoint_claim(said, path_chars(folder), entry, command().encode("utf-8", "backslashreplace")))
    return take_text(said) if said[0] else None


def check_claim(folder: str | os.PathLike[str], entry: int, text: str) -> None:
    """Raise if a rank with this command could not claim the folder because of the checkpoints that it holds."""
    check(lib.tr_checkpoint_check(path_chars(folder), entry, text.encode("utf-8", "backslashreplace")))


def say(text: str) -> None:
    """Tell the user on standard error."""
    sys.stderr.write(f"trireme: {text}\n")


def warn(text: str) -> None:
    """Tell the user of what costs correct results, work that was done, or most of the speed. ``text`` says what to do about it."""
    sys.stderr.write(f"trireme warning: {text}\n")
