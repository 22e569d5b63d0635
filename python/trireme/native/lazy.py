"""Packages whose names are loaded when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def load_later(package: str, names: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``. ``names``: modules, relative to the package -> what of them has its name in the
    package, too: a value of the module, or a module in it. "" is the package itself."""
    module_of = {name: module for module, found in names.items() for name in found}

    def getattr_(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = module_of[name]
        home = importlib.import_module(module if module.startswith(".") else f".{module}", package) if module else None
        value = getattr(home, name, None)
        if value is None:
            value = importlib.import_module(f"{home.__name__ if home else package}.{name}")
        sys.modules[package].__dict__[name] = value
        return value

    return getattr_, lambda: sorted({*sys.modules[package].__dict__, *module_of})
