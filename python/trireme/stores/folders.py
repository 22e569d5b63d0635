"""Folders of stores: lists, patterns, and whole folders that are copied."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..native.errors import InvalidArgumentError
from ..native.optional import load
from .names import PATTERN, Place, fits, is_uri, join, place
from .reading import stream
from .systems import info_at, system_of
from .tries import tried
from .writing import upload

_AT_A_TIME = 4                        # files
T = TypeVar("T")


def list_files(folder: str) -> list[tuple[str, int]]:
    """Return the files in a folder and below it: each name after the folder's, and its size, sorted."""
    return sorted((name, int(info.size)) for name, info in list_infos(folder))


def list_infos(folder: str) -> list[tuple[str, Any]]:
    """Return the files in a folder and below it: each name after the folder's, and the library's ``FileInfo``."""
    one = place(folder)
    start = one.path.rstrip("/") + "/"
    return [(info.path[len(start):], info) for info in _infos(one) if info.is_file]


def _infos(one: Place) -> list[Any]:
    found: list[Any] = tried(f"{one.uri} cannot be listed", lambda: _listed(one))
    return found


def _listed(one: Place) -> Any:
    """For HDFS the library would take a folder that cannot be read for an empty one, so there it must be found."""
    fs = load("pyarrow.fs", one.uri)
    try:
        return system_of(one).get_file_info(fs.FileSelector(one.path or "/", allow_not_found=one.scheme != "hdfs", recursive=True))
    except FileNotFoundError:
        if info_at(one).type != fs.FileType.NotFound:
            raise OSError("a folder was removed meanwhile") from None
        return []


def glob(pattern: str) -> list[str]:
    """Return the URIs that fit a pattern, sorted; ``*`` does not go beyond a slash."""
    one = place(pattern)
    if not one.scheme:
        import glob as of_files

        return sorted(of_files.glob(one.path))
    first = PATTERN.search(one.path)
    if first is None:
        return [pattern]
    folder = one._replace(path=one.path[:first.start()].rpartition("/")[0])
    if not folder.path and one.scheme != "hdfs":
        raise InvalidArgumentError(f"{pattern!r}: a pattern may not stand for buckets")
    return sorted(one._replace(path=info.path).uri for info in _infos(folder) if info.is_file and fits(info.path, one.path))


def for_each(call: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """Return what ``call`` returns for each item; some calls run at a time."""
    with concurrent.futures.ThreadPoolExecutor(_AT_A_TIME, "trireme-copy") as pool:
        return [done.result() for done in [pool.submit(call, item) for item in items]]


def download(name: str, path: str) -> None:
    """Copy a file of a store to a local file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        for content in stream(name):
            out.write(content)


def download_folder(folder: str, path: str, wants: Callable[[str], bool] = lambda name: True) -> list[str]:
    """Copy the files of a folder of a store whose names ``wants`` wants into a local folder; return their names."""
    names = [name for name, _ in list_files(folder) if wants(name)]
    download_files(folder, path, names)
    return names


def download_files(folder: str, path: str, names: Iterable[str]) -> None:
    """Copy these files of a folder of a store into a local folder."""
    names = list(names)
    for name in names:
        if os.path.isabs(name) or ".." in name.split("/"):
            raise InvalidArgumentError(f"{folder}: the name {name!r} leads out of the folder")
    for_each(lambda name: download(join(folder, name), os.path.join(path, name)), names)


def upload_folder(path: str, folder: str, last: Iterable[str] = ()) -> list[str]:
    """Copy the files of a local folder to a store: those of ``last`` when all others are there, in their order. Return their names."""
    names = sorted(os.path.relpath(os.path.join(at, name), path) for at, _, files in os.walk(path) for name in files)
    ending = [name for name in last if name in names]
    for_each(lambda name: upload(os.path.join(path, name), join(folder, name)), [name for name in names if name not in ending])
    for name in ending:
        upload(os.path.join(path, name), join(folder, name))
    return names


__all__ = ["download", "download_folder", "glob", "is_uri", "list_files", "upload_folder"]
