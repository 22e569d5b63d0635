"""Finding the files of data sets.

A file is looked for in ``$TRIREME_DATA_HOME/<set>/``, then in the archive ``$TRIREME_DATA_HOME/trireme-data.zip`` that `trireme dataset
fetch` makes, then in the user's cache (``~/.cache/trireme/data/<set>/``). When it is in none of them, it is fetched from where its makers
publish it, its checksum is compared, and it is kept in the cache. ``TRIREME_DATA_HOME`` may name the archive itself, too.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator

from ..native.errors import TriremeError
from ..native.files import new_file, open_regular


ARCHIVE = "trireme-data.zip"                           # of several data sets: <set>/<file>


class DataSetError(TriremeError, OSError):
    """A data set's file is neither here nor to be had.

    >>> try:
    ...     fluid.dataset.common.read("greetings", "en.txt", "file:///no-such-file", sha256="")
    ... except fluid.dataset.common.DataSetError as error:
    ...     print(str(error)[:16])
    en.txt is not in
    """

    status = "EIO"


def cache_home() -> str:
    """Return the folder in which fetched files are kept.

    >>> fluid.dataset.common.cache_home().endswith("/trireme/data")
    True
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "trireme", "data")


def roots() -> list[str]:
    """Return the folders in which files are looked for.

    The environment variable ``TRIREME_DATA_HOME`` adds one, which comes first.

    >>> fluid.dataset.common.roots()[-1] == fluid.dataset.common.cache_home()
    True
    """
    given = os.environ.get("TRIREME_DATA_HOME")
    return [given, cache_home()] if given else [cache_home()]


def find(folder: str, name: str) -> str | None:
    """Return the path of a file, or of the same with ``.gz``, or None.

    ``folder`` is the data set's folder, such as ``"mnist"``, in each place where data may lie; ``name`` is the file's name in it.

    >>> fluid.dataset.common.find("no-such-set", "images") is None
    True
    """
    for root in roots():
        for path in (os.path.join(root, folder, name), os.path.join(root, folder, name + ".gz")):
            if os.path.isfile(path):
                return path
        for whole in (root, os.path.join(root, ARCHIVE)):
            if os.path.isfile(whole) and (found := _unarchived(whole, folder, name)):
                return found
    return None


def _unarchived(whole: str, folder: str, name: str) -> str | None:
    """Return the path in the cache of a file that an archive of data sets holds; None where it holds none of that name."""
    try:
        with zipfile.ZipFile(whole) as files:
            for member in (f"{folder}/{name}", f"{folder}/{name}.gz"):
                if member in files.NameToInfo:
                    path = os.path.join(cache_home(), *member.split("/"))
                    if not os.path.isfile(path) or os.path.getsize(path) != files.getinfo(member).file_size:
                        _keep(folder, os.path.basename(path), files.read(member))
                    return path
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataSetError(f"{whole} is damaged, or no archive of `trireme dataset fetch`: {error}") from error
    return None


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 checksum of ``data``, in hexadecimal digits.

    >>> fluid.dataset.common.sha256_of(b"hello")[:16]
    '2cf24dba5fb0a30e'
    """
    return hashlib.sha256(data).hexdigest()


def read(folder: str, name: str, url: str, sha256: str) -> bytes:
    """Return the content of a data set's file, unpacked when it is gzipped; ``sha256`` is that of the content.

    Where ``url`` names a zip archive, the file is the one of this name in it.

    ``folder`` and ``name`` are those of `find`.

    DataSetError: the file is nowhere and cannot be fetched from ``url``, or its content has another checksum.

    >>> import os
    >>> os.environ["TRIREME_DATA_HOME"], old = os.getcwd(), os.environ.get("TRIREME_DATA_HOME", "")
    >>> os.makedirs("greetings")
    >>> with open("greetings/en.txt", "wb") as file:
    ...     _ = file.write(b"hello")
    >>> common = fluid.dataset.common
    >>> common.read("greetings", "en.txt", "https://example.org/en.txt", common.sha256_of(b"hello"))
    b'hello'
    >>> os.environ["TRIREME_DATA_HOME"] = old
    """
    path = find(folder, name)
    if path is None:
        path = _fetch(folder, name, url, sha256)
    with open_regular(path) as file:
        data = file.read()
    data = _unpack(data, path, name)
    if sha256_of(data) != sha256:
        raise DataSetError(f"{path} is not the file that is expected: its content has the SHA-256 {sha256_of(data)}, "
                           f"not {sha256}; remove it to fetch it again")
    return data


def _unpack(data: bytes, path: str, name: str) -> bytes:
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:4] == b"PK\x03\x04":
            return _member(data, name)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, LookupError, RuntimeError) as error:
        raise DataSetError(f"{path} is damaged: {error}") from error
    return data


def _member(archive: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        for member in files.namelist():
            if os.path.basename(member) == name:
                return files.read(member)
    raise LookupError(f"it holds no {name}")


def archive(folder: str, name: str, url: str, md5: str) -> str:
    """Return the path of a data set's file that is read in parts, such as a tar archive of many megabytes.

    ``folder`` and ``name`` are those of `find`; ``md5`` is the checksum of the file behind ``url``. A file that lies in one of the folders
    is taken as it is.

    DataSetError: the file is nowhere and cannot be fetched, or what was fetched has another checksum.

    >>> try:
    ...     fluid.dataset.common.archive("greetings", "en.tgz", "file:///no-such-file", md5="")
    ... except fluid.dataset.common.DataSetError as error:
    ...     print(str(error)[:16])
    en.tgz is not in
    """
    path = find(folder, name)
    if path is None:
        data = _download(folder, name, url)
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != md5:
            raise DataSetError(f"{url} gave a file with the MD5 {found}, not {md5}")
        path = _keep(folder, name, data)
    return path


@contextlib.contextmanager
def members(path: str) -> Iterator[Iterator[tuple[str, Callable[[], bytes]]]]:
    """Open a tar archive, and give the name of each file in it with a function that reads the file. ``path`` is the archive's.

    DataSetError: the archive is damaged.

    >>> import tarfile
    >>> with tarfile.open("some.tar", "w") as tar:
    ...     tar.add(fluid.dataset.common.__file__, "common.py")
    >>> with fluid.dataset.common.members("some.tar") as files:
    ...     print([(name, read()[:1]) for name, read in files])
    [('common.py', b'"')]
    """
    try:
        with tarfile.open(path) as tar:
            yield ((member.name, functools.partial(_read_member, tar, member)) for member in tar if member.isfile())
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataSetError(f"{path} is damaged: {error}") from error


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None                            # it is a file
    return file.read()


def _fetch(folder: str, name: str, url: str, sha256: str) -> str:
    """Fetch a file into the cache."""
    data = _download(folder, name, url)
    content = _unpack(data, url, name)
    if sha256_of(content) != sha256:
        raise DataSetError(f"{url} gave a file with the SHA-256 {sha256_of(content)}, not {sha256}")
    return _keep(folder, name, data)


def _download(folder: str, name: str, url: str) -> bytes:
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=60) as answer:
            data: bytes = answer.read()
            return data
    except (URLError, OSError) as error:
        looked = " and ".join(os.path.join(root, folder) for root in roots())
        raise DataSetError(f"{name} is not in {looked}, and {url} cannot be fetched: {error}. Put the file there, or "
                           f"set TRIREME_DATA_HOME to a folder that has it. Without a network: `trireme dataset fetch SET --into DIR` "
                           "makes an archive elsewhere") from error


def _keep(folder: str, name: str, data: bytes) -> str:
    """Write a file to the cache, where it appears whole or not at all; return its path."""
    path = os.path.join(cache_home(), folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with new_file(path) as file:
        file.write(data)
    return path


__all__ = ["archive", "cache_home", "members", "roots", "find", "read", "sha256_of", "DataSetError"]
