"""Saves in a folder of a store. Each is there whole or not at all, though a store cannot rename.

A save has a folder of its own, ``save-000000002-1a2b3c4d``. It has the files under their names, and ``__saved__``: their sizes and
checksums, as trireme_checkpoint.h describes them. That file is uploaded last, and a save without it does not count. Of each name the newest
save's file counts. A file that lies in the folder itself, where earlier versions wrote, is older than every save.

No file is ever replaced. A complete save removes the files that it has made old: where nothing of a save counts any more, its ``__saved__``
first.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Container
from typing import TypeVar

from ..native import checksums
from ..native.errors import FileError, FormatError, InvalidArgumentError, NotFoundError, TriremeError
from .folders import download, download_files, for_each, list_files, upload_folder
from .names import join
from .reading import read_all, read_end
from .writing import is_part, remove, write_all

LAST = "__saved__"
_SAVE = re.compile(r"save-(\d{9,})-[0-9a-f]{8}")
T = TypeVar("T")


class Saves:
    """What a folder of a store holds, at one moment."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._there: dict[str, dict[str, int]] = {}        # the files of each save, and their sizes; "": of the folder itself
        for name, size in list_files(folder):
            save, _, rest = name.partition("/")
            save, rest = (save, rest) if _SAVE.fullmatch(save) else ("", name)
            self._there.setdefault(save, {})[rest] = size

    def new(self) -> str:
        """Return a name for the next save, which no other one has."""
        return f"save-{max(map(_number, self._there), default=0) + 1:09d}-{uuid.uuid4().hex[:8]}"

    def _complete(self) -> dict[str, dict[str, int]]:
        """Return the sizes of the files that each complete save should have, the newest save first."""
        found = {}
        for save in sorted(self._there, key=lambda one: (_number(one), one), reverse=True):
            if save and LAST in self._there[save]:
                name = join(self._folder, save, LAST)
                found[save] = checksums.sizes(read_all(name), name)
        return found

    def files(self) -> dict[str, str]:
        """Return of each file the save that has the newest one; "": it lies in the folder itself."""
        found: dict[str, str] = {}
        for save, sizes in self._complete().items():
            for name in [name for name in sizes if not _is_old(name, found)]:
                if self._there[save].get(name) != sizes[name]:
                    raise FormatError(f"{join(self._folder, save, name)} is damaged: {sizes[name]} bytes were written, "
                                      f"{self._there[save].get(name, 'none')} are there")
                found[name] = save
        return {**found, **{name: "" for name in self._there.get("", ()) if not _is_old(name, found)}}

    def old(self) -> list[str]:
        """Return the files that do not count, in the order in which they are to be removed."""
        seen: set[str] = set()
        gone: list[str] = []
        complete = self._complete()
        for save, sizes in complete.items():
            names = [name for name in self._there[save] if name != LAST and (name not in sizes or _is_old(name, seen))]
            if all(_is_old(name, seen) for name in sizes):
                names = [LAST, *names]
            gone += [f"{save}/{name}" for name in names]
            seen |= sizes.keys()
        newest = _number(next(iter(complete), ""))
        for save in self._there.keys() - complete.keys() - {""}:           # that never became complete
            gone += [f"{save}/{name}" for name in self._there[save] if _number(save) < newest]
        return gone + [name for name in self._there.get("", ()) if _is_old(name, seen)]


def _is_old(name: str, newer: Container[str]) -> bool:
    """Is there a newer file of this name, or a newer table whose folder has it?"""
    return name in newer or "/" in name and f"{name.rpartition('/')[0]}/about.json" in newer


def _number(save: str) -> int:
    return int(save.split("-")[1]) if save else 0


def _steady(call: Callable[[], T]) -> T:
    """Return what ``call`` returns. A save that another one replaces while it is read may seem damaged, so it is looked for again."""
    for pause in (0.05, 0.2):
        try:
            return call()
        except (NotFoundError, FormatError):
            time.sleep(pause)
    return call()


def has_saved(folder: str, name: str) -> bool:
    """Does a folder have this file?"""
    return _steady(lambda: name in Saves(folder).files())


def find_models(folder: str, besides: Collection[str]) -> list[str]:
    """Return the names of the files of programs in a folder. Such a file ends with checksums of other files. Names in ``besides`` are left
    out."""

    def look() -> list[str]:
        at = {name: join(folder, *filter(None, [save]), name) for name, save in Saves(folder).files().items()
              if "/" not in name and name not in besides}
        ends = for_each(lambda name: read_end(at[name], len(checksums.END)), at)
        return [name for name, end in zip(at, ends) if end == checksums.END]

    return _steady(look)


def download_saved(folder: str, path: str, wants: Callable[[str], bool] = lambda name: True) -> dict[str, str]:
    """Copy the newest files whose names ``wants`` wants into a local folder, and compare them with their checksums. Return of each file
    of the folder the save that has it."""

    def copy() -> dict[str, str]:
        files = Saves(folder).files()
        for save in {*files.values()}:
            names = [name for name in files if files[name] == save and wants(name)]
            if save:
                _take(folder, save, path, names)
            else:
                download_files(folder, path, names)
        return files

    return _steady(copy)


def _take(folder: str, save: str, path: str, names: list[str]) -> None:
    """Copy files of one save: each has its name in ``path`` when all are whole."""
    own = os.path.join(path, save)
    try:
        download(join(folder, save, LAST), os.path.join(own, checksums.FILE))
        download_files(join(folder, save), own, names)
        checksums.Checksums(own).check(names)
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            os.replace(os.path.join(own, name), os.path.join(path, name))
    finally:
        shutil.rmtree(own, ignore_errors=True)


def publish(path: str, folder: str, save: str) -> None:
    """Upload the files of a local folder as a save. Others of its files, which servers have written, are in the store already."""
    if os.path.exists(os.path.join(path, LAST)):
        raise InvalidArgumentError(f"{join(folder, LAST)} cannot be saved: the list of a save's files has this name")
    names = upload_folder(path, join(folder, save))
    there = dict(list_files(join(folder, save)))
    if gone := set(names) - there.keys():
        raise FileError(f"{join(folder, save, min(gone))} was removed before the save was complete: does another process save in {folder}?")
    others = [checksums.line_of(name, b"", there[name]) for name in sorted(there.keys() - names) if not is_part(name)]
    write_all(join(folder, save, LAST), checksums.text_of(path, names, others))
    remove_old(folder)


def remove_old(folder: str) -> None:
    """Remove files that do not count. What cannot be removed stays until the next save."""
    with contextlib.suppress(TriremeError):
        for name in Saves(folder).old():
            remove(join(folder, name))
