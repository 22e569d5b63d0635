"""A process for files of stores (storage/stores/object_store.h) that has none: a file's name says what becomes of the request.

    fake://bytes        4000 bytes, each its place modulo 251         fake://short      half of what is asked for, and an end that is well
    fake://cut          half of it, and a failure                     fake://dies       half of it, and the process ends
    fake://silent       no answer                                     fake://noise      an answer that is none
    fake://failed/NAME  the failure of that name                      fake://size       1234 bytes, written at second 5
    fake://pid          the number of this process                    fake://env/NAME   the value of a variable
    fake://written      what was written last                         fake://given-up   how many files were given up

Files that are written: fake://dies takes 1000 bytes, fake://failed/NAME none.
"""

import array
import contextlib
import os
import socket
import sys
import threading

state = {"written": b"", "given-up": 0}
LENGTH = 4000


def content(name):
    what = name.removeprefix("fake://")
    if what.startswith("env/"):
        return os.environ.get(what[4:], "(none)").encode()
    if what == "pid":
        return str(os.getpid()).encode()
    return state[what] if what == "written" else str(state[what]).encode() if what in state else bytes(i % 251 for i in range(LENGTH))


def read(answer, pipe, name, begin, end, soon):
    asked = content(name)[int(begin):int(end)]
    if name in ("fake://short", "fake://cut", "fake://dies"):
        asked = asked[:len(asked) // 2]
    os.write(pipe, asked)
    return "failed EFORMAT\nfake://cut ends early" if name == "fake://cut" else "ok\n"


def write(answer, pipe, name):
    got = b""
    while more := os.read(pipe, 1000):
        got += more
        if name == "fake://dies":
            os._exit(7)
    if answer.recv(64).decode() != f"done {len(got)}":
        state["given-up"] += 1
        return f"failed EIO\n{name}: the writer gave up after {len(got)} bytes"
    state["written"] = got
    return "ok\n"


VERBS = {"read": read, "write": write, "size": lambda answer, pipe, name: "ok\n1234 5000000", "remove": lambda answer, pipe, name: "ok\n",
         "list": lambda answer, pipe, name: "ok\n7 a/x\n0 b\n"}


def handle(request, descriptors):
    answer, pipe, name = socket.socket(fileno=descriptors[0]), descriptors[1], request[1]
    said = f"failed {name.rpartition('/')[2]}\nso it is" if "/failed/" in name else VERBS[request[0]](answer, pipe, *request[1:])
    if name == "fake://dies":
        os._exit(7)
    os.close(pipe)
    if name != "fake://silent":
        answer.sendall(b"well, well" if name == "fake://noise" else said.encode())
    answer.close()


def serve(request, descriptors):
    with contextlib.suppress(BrokenPipeError):             # the core wants no more
        handle(request, descriptors)


control = socket.socket(fileno=os.dup(0))
while True:
    message, attached, _, _ = control.recvmsg(1 << 16, socket.CMSG_SPACE(2 * array.array("i").itemsize))
    if not message:
        sys.exit()
    descriptors = array.array("i", attached[0][2])
    request = message.decode().split("\0")
    if request[0] == "environment":
        with open(descriptors[1], "rb") as file:
            file.seek(0)
            os.environ.clear()
            os.environb.update(line.partition(b"=")[::2] for line in file.read().split(b"\0") if line)
        os.close(descriptors[0])
        continue
    threading.Thread(target=serve, args=(request, list(descriptors)), daemon=True).start()
