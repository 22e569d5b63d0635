"""Names of files in stores: which texts are URIs, and what of a URI may be shown."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from ..native.errors import InvalidArgumentError

SCHEMES = ("s3", "gs", "gcs", "hdfs", "file")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
PATTERN = re.compile(r"[*?\[]")


class Place(NamedTuple):
    """A file or a folder: the file system that has it, and its path there."""

    scheme: str                       # "": this machine's
    host: str                         # of hdfs: "host:port"; else ""
    path: str                         # of object stores: bucket/key

    @property
    def uri(self) -> str:
        """The URI of this place, or the path of a local file."""
        return f"{self.scheme}://{self.host}{self.path}" if self.scheme else self.path


def is_uri(name: object) -> bool:
    """Does this text name a file in a store?

    >>> is_uri("s3://bucket/part-0"), is_uri("data/part-0")
    (True, False)
    """
    return isinstance(name, str) and _URI.match(name) is not None


def place(name: str | os.PathLike[str]) -> Place:
    """Return what a URI or a path names. An InvalidArgumentError says what is wrong with a URI, without a password that stands in it.

    >>> place("s3://bucket/a/b")
    Place(scheme='s3', host='', path='bucket/a/b')
    >>> place("hdfs://name:8020/a")
    Place(scheme='hdfs', host='name:8020', path='/a')
    """
    name = os.fspath(name)
    found = _URI.match(name)
    if found is None:
        return Place("", "", name)
    scheme, rest = found[1].lower(), name[found.end():]
    host, slash, path = rest.partition("/")
    if "@" in host:
        raise InvalidArgumentError(f"{scheme}://...@{host.rpartition('@')[2]}{slash}{path}: a URI may not hold a user or a password; "
                                   "the store's library finds credentials in the environment and in its own files")
    if scheme not in SCHEMES:
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise InvalidArgumentError(f"{name!r}: there is no store {scheme}://; {known} are possible")
    if scheme == "file":
        if host:
            raise InvalidArgumentError(f"{name!r}: file:// takes three slashes and the path of this machine: file:///{rest}")
        return Place("", "", slash + path)
    if "?" in path and "=" in path.rpartition("?")[2]:
        raise InvalidArgumentError(f"{scheme}://{host}/{path.partition('?')[0]}?...: options may not stand in a URI; the environment has "
                                   "them, such as AWS_ENDPOINT_URL and AWS_DEFAULT_REGION")
    if not host and scheme != "hdfs":
        raise InvalidArgumentError(f"{name!r}: the URI names no bucket; {scheme}://bucket/name is expected")
    if scheme != "hdfs" and {".", ".."} & {*path.split("/")}:
        raise InvalidArgumentError(f"{name!r}: '.' and '..' have no meaning in this store")
    scheme = "gs" if scheme == "gcs" else scheme
    return Place(scheme, host, slash + path) if scheme == "hdfs" else Place(scheme, "", (host + slash + path).rstrip("/"))


def absolute(folder: str) -> str:
    """Return a folder's name that means the same in every process: an absolute path, or a URI without a slash at its end."""
    one = place(folder)
    return one.uri if one.scheme else os.path.abspath(one.path)


def join(folder: str, *parts: str) -> str:
    """Return the name of a file in a folder, which may be a URI."""
    return "/".join([folder.rstrip("/"), *parts]) if is_uri(folder) else os.path.join(folder, *parts)


def fits(path: str, pattern: str) -> bool:
    """Does a path fit a pattern, part by part?

    >>> fits("b/day-1/part-0", "b/*/part-?"), fits("b/x/day-1/part-0", "b/*/part-?")
    (True, False)
    """
    return path.count("/") == pattern.count("/") and PurePosixPath("/" + path).match("/" + pattern)
