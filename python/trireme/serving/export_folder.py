"""The folder that an Exporter writes to: one of this machine, or one of a store."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence

from .._core import lib
from ..native import checksums
from ..native.errors import TriremeError
from ..native.files import new_file
from ..stores.folders import list_infos, upload_folder
from ..stores.names import join, place
from ..stores.reading import Reading
from ..stores.writing import remove, write_all

_PART = re.compile(r"(?:full|delta)-(\d{9,})")


def folder_of(name: str) -> LocalFolder:
    """Return the folder of a path or a URI."""
    one = place(name)
    return StoredFolder(one.uri) if one.scheme else LocalFolder(one.path)


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stage(self) -> str:
        """Return the local folder into which the next part is written."""
        os.makedirs(self.name, exist_ok=True)
        return self.name

    def uri_of(self, part: str) -> str | None:
        """Return where servers write their files of a part; None: into the local folder."""
        return None

    def lines_of(self, part: str, names: Sequence[str]) -> list[str]:
        """Return the lines of checksums of files with rows that lie elsewhere."""
        return []

    def publish(self, part: str) -> None:
        """The part is written."""

    def name_current(self, lines: bytes) -> None:
        """Write the file that names the newest parts."""
        with new_file(os.path.join(self.name, "current")) as file:
            file.write(lines)

    def found(self) -> dict[int, str]:
        """Return the folders of exports, by their numbers."""
        names = os.listdir(self.name) if os.path.isdir(self.name) else ()
        return _numbered(names)

    def remove_old(self, kept: Sequence[str], seconds: float) -> None:
        """Remove parts that are older and not among these."""
        for name in self.found().values():
            path = os.path.join(self.name, name)
            if name not in kept and _age(path) > seconds:
                shutil.rmtree(path, ignore_errors=True)


class StoredFolder(LocalFolder):
    """A folder of a store. A part is written here, and uploaded with its checksums last; then the file ``current`` names it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._home = tempfile.TemporaryDirectory(prefix="trireme-export-")

    def stage(self) -> str:
        return self._home.name

    def uri_of(self, part: str) -> str | None:
        return join(self.name, part)

    def lines_of(self, part: str, names: Sequence[str]) -> list[str]:
        return [_line_of(join(self.name, part, name), name) for name in names]

    def publish(self, part: str) -> None:
        path = os.path.join(self._home.name, part)
        upload_folder(path, join(self.name, part), ["__checksums__"])
        shutil.rmtree(path)

    def name_current(self, lines: bytes) -> None:
        write_all(join(self.name, "current"), lines)

    def found(self) -> dict[int, str]:
        return _numbered({name.partition("/")[0] for name, _ in list_infos(self.name)})

    def remove_old(self, kept: Sequence[str], seconds: float) -> None:
        with contextlib.suppress(TriremeError):            # the export is complete; the next one tries again
            self._remove_old(kept, seconds)

    def _remove_old(self, kept: Sequence[str], seconds: float) -> None:
        infos = list_infos(self.name)
        ages: dict[str, float] = {}
        for name, info in infos:
            part = name.partition("/")[0]
            ages[part] = min(ages.get(part, seconds + 1), time.time() - info.mtime.timestamp() if info.mtime else 0.0)
        for name, _ in infos:
            part = name.partition("/")[0]
            if _PART.fullmatch(part) and part not in kept and ages[part] > seconds:
                remove(join(self.name, name))


def _line_of(uri: str, name: str) -> str:
    with contextlib.closing(Reading(uri)) as file:
        return checksums.line_of(name, file.read(0, lib.TR_ROW_FILE_HEAD), file.size)


def _numbered(names: Iterable[str]) -> dict[int, str]:
    return {int(match[1]): name for name in names if (match := _PART.fullmatch(name))}


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0
