"""Libraries that are no part of an installation: loaded when they are first used, and named in the error where they are not there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from .errors import MissingLibraryError

# What brings a module: an extra of pyproject.toml. Before the first release no package index has Trireme, so the extra comes from a clone.
_ARROW, _ONNX = "pip install '.[arrow]'", "pip install '.[onnx]'"
_TOOLS, _IMAGES, _SERVE = "pip install '.[tools]'", "pip install '.[images]'", "pip install '.[serve]'"
_MLFLOW, _OPTUNA, _WANDB = "pip install '.[mlflow]'", "pip install '.[optuna]'", "pip install '.[wandb]'"
_INSTALL = {"pyarrow": _ARROW, "onnx": _ONNX, "onnxruntime": _ONNX, "prometheus_client": _TOOLS, "rich": _TOOLS, "tensorboardX": _TOOLS,
            "PIL": _IMAGES, "scipy": _IMAGES, "tornado": _SERVE, "grpc": _SERVE, "google": _SERVE, "mlflow": _MLFLOW, "optuna": _OPTUNA,
            "wandb": _WANDB}


def expect(module: str, who: str) -> None:
    """Raise MissingLibraryError where a module is not installed, without the time that loading it takes."""
    if module not in sys.modules and importlib.util.find_spec(module) is None:
        load(module, who)


def load(module: str, who: str) -> Any:
    """Return a module. MissingLibraryError says what to install; ``who`` needs it."""
    name = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingLibraryError(f"{who} needs the library {name}, which is not installed: {_INSTALL[name]} in a clone of Trireme") \
            from None
