"""The library's file systems, one for each store and process. Credentials and addresses are the library's own business."""

from __future__ import annotations

import datetime
import os
import threading
from typing import Any
from urllib.parse import urlsplit

from ..native.errors import InvalidArgumentError
from ..native.optional import load
from .names import Place
from .tries import timeout

_lock = threading.Lock()
_made: dict[tuple[Any, ...], Any] = {}
_environment: dict[str, str] = {}     # the file systems were made with it: addresses and credentials are there


def system_of(one: Place, tries: int = 1) -> Any:
    """Return the ``pyarrow.fs.FileSystem`` of a place. Its requests have so many tries."""
    global _environment
    key, now = (os.getpid(), one.scheme, one.host, tries), dict(os.environ)
    with _lock:
        if now != _environment:
            _made.clear()
            _environment = now
        if key not in _made:
            _made[key] = _make(one, tries)
        return _made[key]


def info_at(one: Place) -> Any:
    """Return the library's ``FileInfo`` of a place.

    For HDFS the library takes every failure for a file that is not there, also where the store cannot be reached. The root is always
    there: if it is not seen, an OSError says so.
    """
    system, missing = system_of(one), load("pyarrow.fs", one.uri).FileType.NotFound
    info = system.get_file_info(one.path)
    if one.scheme == "hdfs" and info.type == missing and system.get_file_info("/").type == missing:
        raise OSError(f"hdfs://{one.host} does not answer")
    return info


def _make(one: Place, tries: int) -> Any:
    fs = load("pyarrow.fs", f"{one.scheme or 'file'}://")
    if one.scheme == "s3":
        return _s3(fs, one, tries)
    if one.scheme == "gs":
        return _gs(fs, tries)
    if one.scheme == "hdfs":
        host, _, port = one.host.partition(":")
        return fs.HadoopFileSystem(host or "default", int(port or 0))
    return fs.LocalFileSystem()


def _gs(fs: Any, tries: int) -> Any:
    """An emulator's address stands in a variable that the library reads. Emulators know no accounts, so no credentials are looked for."""
    return fs.GcsFileSystem(anonymous="CLOUD_STORAGE_EMULATOR_ENDPOINT" in os.environ,
                            retry_time_limit=datetime.timedelta(seconds=timeout() * tries))


def _s3(fs: Any, one: Place, tries: int) -> Any:
    options: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        parts = urlsplit(endpoint)
        if not parts.hostname or parts.username or parts.password:
            raise InvalidArgumentError("AWS_ENDPOINT_URL is expected to be like http://host:port, without a user or a password")
        options = {"scheme": parts.scheme, "endpoint_override": f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname}
    if not endpoint and not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
        options["region"] = fs.resolve_s3_region(one.path.partition("/")[0])
    fs.ensure_s3_initialized()
    return fs.S3FileSystem(connect_timeout=min(timeout(), 10.0), request_timeout=timeout(), allow_delayed_open=True,
                           retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=tries), **options)
