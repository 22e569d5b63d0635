"""Folders of stores as folders of this machine: a copy is read, or is written and then uploaded.

Models are small beside data and checkpoints, and the core maps their files. So they are copied as a whole.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator

from ..native.errors import FormatError, NotFoundError, TriremeError
from .folders import download, download_folder, list_files, upload_folder
from .names import is_uri, join, place
from .writing import info_of


_copies: dict[str, str] = {}          # local folders that are open now, and the folders of stores that they stand for


def original(path: str) -> str | None:
    """Return the URI of a file in an open copy of a store's folder; None: it is a file of this machine."""
    for local, folder in list(_copies.items()):
        if path.startswith(local + os.sep):
            return join(folder, path[len(local) + 1:])
    return None


@contextlib.contextmanager
def _copy_of(folder: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="trireme-store-") as local, shown_as(local, folder):
        _copies[local] = folder
        try:
            yield local
        finally:
            del _copies[local]


@contextlib.contextmanager
def shown_as(local: str, folder: str) -> Iterator[None]:
    """Let errors name the folder in the store, and not its copy."""
    try:
        yield
    except TriremeError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (error.args[0].replace(local, folder.rstrip("/")), *error.args[1:])
        raise


@contextlib.contextmanager
def readable(folder: str | os.PathLike[str], wants: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
    """Yield a local folder with the files of ``folder``, which may be a URI; of a store those whose names ``wants`` wants."""
    folder = os.fspath(folder)
    one = place(folder)
    if not one.scheme:
        yield one.path
        return
    with _copy_of(one.uri) as local:
        if not download_folder(folder, local, wants):
            raise NotFoundError(f"there is no file in {one.uri}")
        yield local


@contextlib.contextmanager
def writable(folder: str | os.PathLike[str], last: str = "__model__") -> Iterator[str]:
    """Yield a local folder whose files go to ``folder``, which may be a URI, if the block ends well.

    ``last`` is the file that makes the others valid, with their checksums. It is uploaded last. The one that is there already is in the
    local folder, so that its checksums can be renewed.
    """
    folder = os.fspath(folder)
    one = place(folder)
    if not one.scheme:
        yield one.path
        return
    with _copy_of(one.uri) as local:
        if info_of(join(folder, last)) is not None:
            download(join(folder, last), os.path.join(local, last))
        yield local
        upload_folder(local, folder, [last])


class Mirror:
    """A local copy of a folder with a model, or with exports, that can be renewed."""

    def __init__(self, folder: str) -> None:
        self._folder, self._process = folder, os.getpid()
        self._lock = threading.Lock()                      # a thread may follow while another one asks for the newest export
        self.path = tempfile.mkdtemp(prefix="trireme-store-")
        weakref.finalize(self, _remove_own, self.path, self._process)

    def read(self, load: Callable[[], None]) -> None:
        """Renew the copy, and ``load`` it. A file that another process replaces while it is copied may come from both files. So a copy that
        is damaged is made anew."""
        if self._process != os.getpid():                   # a forked one, in which no thread frees the lock
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock, shown_as(self.path, self._folder):
            for pause in (0.05, 0.2, None):
                try:
                    self._renew()
                    return load()
                except FormatError:
                    if pause is None:
                        raise
                    time.sleep(pause)

    def _renew(self) -> None:
        """Copy what is new: the folders that an export names, and then its file ``current``; of a saved model, every file."""
        if info_of(join(self._folder, "current")) is None:
            if not os.listdir(self.path):
                download_folder(self._folder, self.path)
            return
        fresh = os.path.join(self.path, ".current")
        download(join(self._folder, "current"), fresh)
        with open(fresh, encoding="utf-8", errors="replace") as file:
            parts = [words[1] for words in map(str.split, file) if len(words) == 3 and words[0] in ("full", "delta")]
        for part in parts:
            self._take(os.path.basename(part))
        os.replace(fresh, os.path.join(self.path, "current"))
        for name in os.listdir(self.path):
            if name not in (*parts, "current"):
                shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)

    def _take(self, part: str) -> None:
        path = os.path.join(self.path, part)
        if not os.path.isdir(path):
            shutil.rmtree(path + ".part", ignore_errors=True)
            os.makedirs(path + ".part")
            download_folder(join(self._folder, part), path + ".part")
            os.replace(path + ".part", path)


def _remove_own(path: str, process: int) -> None:
    if process == os.getpid():
        shutil.rmtree(path, ignore_errors=True)


def is_model(folder: str, model_file: str) -> bool:
    """Does a folder have a saved model or exports?"""
    if is_uri(folder):
        return any(info_of(join(folder, name)) is not None for name in ("current", model_file))
    return any(os.path.exists(os.path.join(folder, name)) for name in ("current", model_file))


def has_files(folder: str) -> bool:
    """Is there such a folder?"""
    return bool(list_files(folder)) if is_uri(folder) else os.path.isdir(folder)
