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
from collections.abc import Callable, Collection, Iterator

from ..native.errors import FormatError, NotFoundError, TriremeError
from .folders import download, download_folder, list_files
from .names import is_uri, join, place
from .saves import Saves, download_saved, find_models, has_saved, publish
from .writing import info_of


_copies: dict[str, Callable[[str], str]] = {}      # of each local folder that is open now: where the store has a file of this name


def original(path: str) -> str | None:
    """Return the URI of a file in an open copy of a store's folder; None: it is a file of this machine."""
    for local, uri_of in list(_copies.items()):
        if path.startswith(local + os.sep):
            return uri_of(path[len(local) + 1:])
    return None


@contextlib.contextmanager
def _copy_of(folder: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="trireme-store-") as local, shown_as(local, folder):
        yield local


@contextlib.contextmanager
def _stands_for(local: str, uri_of: Callable[[str], str]) -> Iterator[None]:
    _copies[local] = uri_of
    try:
        yield
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
        files = download_saved(one.uri, local, wants)
        if not any(map(wants, files)):
            raise NotFoundError(f"there is no file in {one.uri}")
        with _stands_for(local, lambda name: join(one.uri, *filter(None, [files.get(name)]), name)):
            yield local


@contextlib.contextmanager
def readable_file(name: str) -> Iterator[str]:
    """Yield the local path of a file, which may be a URI."""
    one = place(name) if is_uri(name) else None
    if one is None or not one.scheme:
        yield name if one is None else one.path
        return
    with tempfile.TemporaryDirectory(prefix="trireme-store-") as local:
        path = os.path.join(local, "file")
        with shown_as(path, one.uri):
            download(one.uri, path)
            yield path


@contextlib.contextmanager
def writable(folder: str | os.PathLike[str], replaced: Collection[str] = ()) -> Iterator[str]:
    """Yield a local folder whose files go to ``folder``, which may be a URI, if the block ends well: as a save, all of them or none.

    ``replaced`` are files that models of earlier saves may have. The models' programs are in the local folder, too, so that their checksums
    can be renewed.
    """
    folder = os.fspath(folder)
    one = place(folder)
    if not one.scheme:
        yield one.path
        return
    with _copy_of(one.uri) as local:
        save = Saves(one.uri).new()
        if models := find_models(one.uri, replaced) if replaced else []:
            download_saved(one.uri, local, lambda name: name in models)
        with _stands_for(local, lambda name: join(one.uri, save, name)):
            yield local
        publish(local, one.uri, save)


class Mirror:
    """A local copy of a folder with a model, or with exports, that can be renewed."""

    def __init__(self, folder: str) -> None:
        self._folder, self._process = folder, os.getpid()
        self._lock = threading.Lock()                      # a thread may follow while another one asks for the newest export
        self._has_model = False
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
                    self._has_model = False
                    if pause is None:
                        raise
                    time.sleep(pause)

    def _renew(self) -> None:
        """Copy what is new: the folders that an export names, and then its file ``current``; of a saved model, every file."""
        if info_of(join(self._folder, "current")) is None:
            if not self._has_model:
                download_saved(self._folder, self.path)
            self._has_model = True
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
        return info_of(join(folder, "current")) is not None or has_saved(folder, model_file)
    return any(os.path.exists(os.path.join(folder, name)) for name in ("current", model_file))


def has_files(folder: str) -> bool:
    """Is there such a folder?"""
    return bool(list_files(folder)) if is_uri(folder) else os.path.isdir(folder)
