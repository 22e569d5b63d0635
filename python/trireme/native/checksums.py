"""Checksums of the files of a model: written when it is saved, compared when it is loaded.

A folder of an export has the file ``__checksums__``. A saved model has them at the end of its program's file, in a field that Fluid skips,
so that its folder holds the same files as Fluid's (storage/trireme_checkpoint.h describes both). A model without checksums is loaded as it
is.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from .._core import ffi, lib
from .errors import FileError, FormatError, check
from .files import new_file, open_regular, path_inside
from .handles import Handle, Native
from .names import name_chars, path_chars, take_text

FILE = "__checksums__"
_HEAD = "trireme-checksums 1\n"
END = b"TRSM"                         # of a program's file with checksums


def checksum_of(data: bytes) -> str:
    """Return the CRC-32C of some bytes.

    >>> checksum_of(b"123456789")
    'e3069283'
    """
    return f"{lib.tr_checksums_of(data, len(data)):08x}"


def _lines(folder: str, names: Iterable[str]) -> list[str]:
    return [take_text(_line(folder, name)) for name in names]


def _line(folder: str, name: str) -> object:
    out = ffi.new("char **")
    check(lib.tr_checksums_line(out, path_chars(folder), name_chars(name)))
    return out


def ended(lines: Iterable[str]) -> bytes:
    """Return a text with the line that has the checksum of the lines before it."""
    text = "".join(lines).encode("utf-8", "surrogateescape")
    return text + f"end {checksum_of(text)}\n".encode()


def line_of(name: str, head: bytes, size: int) -> str:
    """Return the line of a file of ``size`` bytes that has further checksums of its own behind ``head``."""
    return f"{checksum_of(head)} {len(head)} {size} {name}\n"


def text_of(folder: str, names: Iterable[str], others: Iterable[str] = ()) -> bytes:
    """Return the text with the checksums of a folder's files ``names``, and with these lines of others."""
    return ended([_HEAD, *_lines(folder, sorted(names)), *others])


def sizes(text: bytes, name: str) -> dict[str, int]:
    """Return the files that a text of checksums names, and how many bytes each has. ``name`` is the text's own, for the message."""
    lines = [f"{line}\n" for line in text.decode("utf-8", "surrogateescape").split("\n")]
    try:
        if lines[0] != _HEAD or ended(lines[:-2]) != text:
            raise ValueError("its last line has another checksum")
        return {file: int(size) for _, _, size, file in (line[:-1].split(" ", 3) for line in lines[1:-2])}
    except ValueError as error:
        raise FormatError(f"{name} is damaged: {error}") from None


def write(folder: str, names: Iterable[str], others: Iterable[str] = ()) -> str:
    """Write the checksums of a folder's files ``names``, and these lines of others, to its file of checksums; return its own checksum."""
    text = text_of(folder, names, others)
    with new_file(os.path.join(folder, FILE)) as file:
        file.write(text)
    return checksum_of(text)


def _varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + _varint(value >> 7) if value > 127 else bytes([value])


def write_model(folder: str, model_file: str, program: bytes, names: Iterable[str]) -> None:
    """Write a program's file, with its checksum and those of the folder's files ``names``."""
    own = f"{checksum_of(program)} {len(program)} 0 {model_file}\n"
    text = ended([_HEAD, own, *_lines(folder, sorted(names))])
    head = _varint(lib.TR_CHECKSUMS_FIELD << 3 | 2) + _varint(len(text) + 8)
    with new_file(path_inside(folder, model_file)) as file:
        file.write(program + head + text + struct.pack("<I", len(head) + len(text) + 8) + END)


def _parts_of(path: str) -> tuple[bytes, list[str]] | None:
    """Return the program and the names of files that a program's file has checksums of; None: it has none."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - 8))
            length, end = struct.unpack("<I4s", file.read(8)) if size > 8 else (0, b"")
            if end != END or not 16 < length <= size:
                return None
            file.seek(0)
            data = file.read(size)
    except FileError:
        return None
    lines = data[size - length:size - 8].decode("utf-8", "surrogateescape").split("\n")[2:-2]
    return data[:size - length], [line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3]


def renew(folder: str, names: Iterable[str]) -> None:
    """Files of a folder were written anew: let the checksums in a program's file there be those of the new ones."""
    written = set(names)
    for model_file in os.listdir(str(folder)):         # of a text of NumPy the names would be bytes
        found = _parts_of(os.path.join(folder, model_file))
        if found is not None and written & set(found[1]):
            write_model(folder, model_file, found[0], [name for name in found[1] if os.path.exists(os.path.join(folder, name))])


class Checksums(Handle):
    """The checksums of a folder, to compare its files with. ``model_file`` is the name of its program's file."""

    _instead = "Read them again: Checksums(folder)"

    def __init__(self, folder: str, model_file: str = "__model__") -> None:
        out = ffi.new("tr_checksums **")
        check(lib.tr_checksums_read(out, path_chars(folder), name_chars(model_file)))
        self._native = Native(out[0], lib.tr_checksums_free, owner="Checksums")

    def check(self, names: Iterable[str]) -> None:
        """Raise FormatError for the first file that is not the one that was written. A file without a checksum is as it is."""
        with self._native as sums:
            for name in names:
                check(lib.tr_checksums_check(sums, name_chars(name)))
