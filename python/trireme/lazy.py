"""Packages whose names are loaded when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def load_later(package: str, names: Mapping[str, Sequence[str]], home: str | None = None) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``. ``names``: its modules -> what of them has its name in the package;
    "" -> modules that have theirs themselves. ``home`` is the package in which the modules lie; None: the package itself."""
    module_of = {name: module or name for module, found in names.items() for name in found}

    def getattr_(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{home or package}.{module_of[name]}")
        value = module if name in names.get("", ()) else getattr(module, name)
        sys.modules[package].__dict__[name] = value
        return value

    return getattr_, lambda: sorted({*sys.modules[package].__dict__, *module_of})


__all__ = ["load_later"]
