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


def answer_for_package(module: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``, which knows all public names of its package: Fluid's scripts know layers by modules that are cut
    otherwise, such as ``layers.nn.relu``."""
    package = module.rpartition(".")[0]

    def getattr_(name: str) -> Any:
        if not name.startswith("_") and name in sys.modules[package].__all__:
            return getattr(sys.modules[package], name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getattr_
