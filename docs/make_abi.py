"""Write down what a compiled program relies on of ``libtrireme.so``: tests/python/c_api.txt. `make abi` runs this.

A line is a function with the types of its arguments, a structure with its size and the places of its fields, or a constant. Lines are only
added here. A new version of the ABI begins with an empty file (docs/c-api.md, "What stays").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trireme import _core

KEPT = Path(__file__).resolve().parents[1] / "tests" / "python" / "c_api.txt"


def main() -> None:
    KEPT.write_text("\n".join(sorted({*kept(), *facts()})) + "\n")


def kept() -> list[str]:
    return KEPT.read_text().splitlines() if KEPT.exists() else []


def abi() -> str:
    """Return the version in the library's soname, as cmake/TriremeLibrary.cmake makes it."""
    major, minor, _ = _core.ffi.string(_core.lib.tr_version()).decode().split(".")
    return f"0.{minor}" if major == "0" else major


def facts() -> list[str]:
    """Return these lines for the library that is loaded, as the compiler made it. ``const`` is not part of them."""
    ffi, lib = _core.ffi, _core.lib
    found = [f"abi = {abi()}"]
    for name in dir(lib):
        value = getattr(lib, name)
        found.append(f"{name} = {value}" if isinstance(value, int) else f"{name}: {ffi.typeof(value).cname}")
    for name in [one for kind in ffi.list_types() for one in kind]:
        kind = ffi.typeof(name)
        if kind.kind in ("struct", "union") and is_known(kind):
            fields = ", ".join(f"{field} {about.type.cname} @{about.offset}" for field, about in kind.fields)
            found.append(f"{kind.kind} {name} [{ffi.sizeof(kind)}]: {fields}")
        elif kind.kind == "function":
            found.append(f"callback {name}: {kind.cname}")
    return sorted(set(found))


def is_known(kind: Any) -> bool:
    """Is it more than a name? cffi lets its fields be asked for only then."""
    try:
        return _core.ffi.sizeof(kind) > 0
    except (TypeError, ValueError, _core.ffi.error):
        return False


if __name__ == "__main__":
    main()
