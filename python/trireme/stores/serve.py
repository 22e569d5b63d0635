"""The process that reads and writes files of stores for the core: ``python -m trireme.stores.serve``.

The core starts one process for each process that needs it (``storage/stores/object_store.h``). It has the library,
its threads and its connections, so a rank can be a program in C, and may fork. Requests come over the socket that is the standard input.
Each is one message, and brings two descriptors: a socket for the answer, and a pipe for the bytes.

    size NAME                   answer: the file's size, and when it was written, in microseconds since 1970
    read NAME BEGIN END SOON    the bytes go into the pipe; up to SOON they are fetched ahead
    write NAME                  the bytes come out of the pipe; the core then says "done COUNT", and the file gets its name
    list FOLDER                 answer: a line for each file, with its size and its name
    remove NAME
    new_save FOLDER             answer: the folder of a new save in FOLDER, whose file __saved__ is to be written last
    remove_old FOLDER           the save is complete: remove what it has made old
    environment                 the variables stand in the second descriptor's file; they count for later requests; there is no answer

An answer is "ok" and a line's end, or "failed", the status's name, and a text.
"""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

from ..native.errors import FileError, NotFoundError, TriremeError
from . import folders
from .names import join
from .reading import packing, stream
from .saves import Saves, remove_old
from .tries import reason
from .writing import Writing, info_of, remove

_MOST = 1 << 16                       # bytes of a request


def _size(answer: socket.socket, pipe: int, name: str) -> str:
    info = info_of(name)
    if info is None:
        raise NotFoundError(f"'{name}' cannot be opened: there is no such file")
    return f"{info.size} {int(info.mtime.timestamp() * 1e6) if info.mtime else 0}"


def _read(answer: socket.socket, pipe: int, name: str, begin: str, end: str, soon: str) -> str:
    kind = packing(name)
    for content in stream(name, int(begin), int(end), int(soon), kind if kind != "gzip" else None):    # the core itself unpacks gzip
        view = memoryview(content)
        while view:
            view = view[os.write(pipe, view):]
    return ""


def _write(answer: socket.socket, pipe: int, name: str) -> str:
    writing = Writing(name)
    try:
        while content := os.read(pipe, 1 << 20):
            writing.write(content)
        if answer.recv(64).decode() != f"done {writing.size}":
            raise FileError(f"{name}: the writer gave up after {writing.size} bytes")
        writing.close()
    except BaseException:
        writing.abandon()
        raise
    return ""


def _list(answer: socket.socket, pipe: int, folder: str) -> str:
    return "".join(f"{size} {name}\n" for name, size in folders.list_files(folder))


def _remove(answer: socket.socket, pipe: int, name: str) -> str:
    remove(name)
    return ""


def _new_save(answer: socket.socket, pipe: int, folder: str) -> str:
    return join(folder, Saves(folder).new())


def _remove_old(answer: socket.socket, pipe: int, folder: str) -> str:
    remove_old(folder)
    return ""


_VERBS: dict[str, Callable[..., str]] = {"size": _size, "read": _read, "write": _write, "list": _list, "remove": _remove,
                                         "new_save": _new_save, "remove_old": _remove_old}


def _answer(request: list[str], descriptors: list[int]) -> None:
    answer, pipe = socket.socket(fileno=descriptors[0]), descriptors[1]
    try:
        said = "ok\n" + _VERBS[request[0]](answer, pipe, *request[1:])
    except BrokenPipeError:                                # the core wants no more
        said = "ok\n"
    except TriremeError as error:
        said = f"failed {error.status}\n{error}"
    except Exception as error:
        said = f"failed EIO\n{request[1]}: {reason(error)}"
    os.close(pipe)                                         # first: its end lets the core ask for the answer
    with contextlib.suppress(OSError):
        answer.sendall(said.encode("utf-8", "replace"))
    answer.close()


def _take_environment(descriptors: list[int]) -> None:
    os.close(descriptors[0])
    with open(descriptors[1], "rb") as file:
        file.seek(0)
        given = dict(line.partition(b"=")[::2] for line in file.read().split(b"\0") if line)
    for name in os.environb.keys() - given.keys():
        del os.environb[name]
    for name, value in given.items():
        if os.environb.get(name) != value:
            os.environb[name] = value


def main() -> None:
    """Serve until the core's process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)           # the terminal's; the core ends this process
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    control = socket.socket(fileno=os.dup(0))
    while True:
        message, attached, _, _ = control.recvmsg(_MOST, socket.CMSG_SPACE(2 * array.array("i").itemsize))
        if not message:
            break
        descriptors = array.array("i")
        for _, _, content in attached:
            descriptors.frombytes(content)
        request = message.decode().split("\0")
        if request[0] == "environment":
            _take_environment(list(descriptors))
            continue
        threading.Thread(target=_answer, args=(request, list(descriptors)), daemon=True).start()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
