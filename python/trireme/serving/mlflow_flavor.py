"""Models for serving as models of MLflow, under its names: ``save_model``, ``log_model``, ``load_model``.

A model of ``save_inference_model``, or a folder of exports, becomes a model of the flavor ``python_function`` (pyfunc). MLflow keeps the
files as they are, and its predictions are those of ``Predictor.run``, bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..native.checks import path_text
from ..native.errors import InvalidArgumentError, NotFoundError
from ..native.optional import load
from ..native.suggest import did_you_mean
from .predictor import Predictor

_LOADER = "trireme.mlflow"             # its _load_pyfunc is what MLflow calls


def _options(model: str | os.PathLike[str], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for MLflow. Its own defaults would run the model to find out what it imports. No requirements are named, because
    no index has Trireme: a name there would be somebody else's."""
    folder = path_text(model)
    with Predictor(folder) as predictor:               # a model that cannot be served is refused here
        signature = _signature(predictor)
    return {"loader_module": _LOADER, "data_path": os.path.abspath(folder), "signature": signature, "pip_requirements": [],
            **options}


def _signature(predictor: Predictor) -> Any:
    """Return what the model takes and gives, in MLflow's words; None: it takes sequences, which MLflow has no word for."""
    models, types = load("mlflow.models", "trireme.mlflow"), load("mlflow.types", "trireme.mlflow")
    feeds, fetches = predictor.ends()
    if any(end.lod_level or end.dtype is None for end in feeds):
        return None
    has_outputs = all(end.dtype is not None and not end.lod_level for end in fetches)
    shown = [types.Schema([types.TensorSpec(np.dtype(end.dtype), tuple(end.shape), end.name) for end in ends])
             for ends in ([feeds, fetches] if has_outputs else [feeds])]
    return models.ModelSignature(*shown)


def save_model(model: str | os.PathLike[str], path: str | os.PathLike[str], **options: Any) -> None:
    """Write a model of MLflow to the folder ``path``, which does not exist.

    ``model``: a folder of ``save_inference_model``, or one of exports (a path). ``options``: of ``mlflow.pyfunc.save_model``, such as
    ``metadata``, or ``pip_requirements`` with a wheel of Trireme, where MLflow is to install it for the model (default: nothing). It needs
    the libraries ``mlflow-skinny`` and ``pandas``, or ``mlflow``: ``pip install '.[mlflow]'``.

    >>> import os, tempfile
    >>> y = fluid.layers.fc(fluid.layers.data("x", [2]), 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    >>> exe, folder = fluid.Executor(), tempfile.mkdtemp()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.io.save_inference_model(folder, ["x"], [y], exe)
    >>> fluid.mlflow.save_model(folder, folder + "-of-mlflow")
    >>> "MLmodel" in os.listdir(folder + "-of-mlflow")
    True

    Raises:
        NotFoundError, FileError: There is no model in the folder.
    """
    load("mlflow.pyfunc", "trireme.mlflow").save_model(path=path_text(path), **_options(model, options))


def log_model(model: str | os.PathLike[str], name: str, **options: Any) -> Any:
    """Log a model to MLflow, under a name in the active run; return MLflow's ``ModelInfo``.

    ``model``: as for ``save_model``. ``name``: the model's name (str). ``options``: of ``mlflow.pyfunc.log_model``, such as
    ``registered_model_name``. In a job one trainer calls it.

    >>> import os, tempfile
    >>> y = fluid.layers.fc(fluid.layers.data("x", [2]), 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    >>> exe, folder = fluid.Executor(), tempfile.mkdtemp()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.io.save_inference_model(folder, ["x"], [y], exe)
    >>> import mlflow
    >>> mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    >>> with mlflow.start_run():
    ...     fluid.mlflow.log_model(folder, name="sum").name
    'sum'

    Raises:
        NotFoundError, FileError: There is no model in the folder.
    """
    return load("mlflow.pyfunc", "trireme.mlflow").log_model(name=name, **_options(model, options))


def load_model(model_uri: str) -> Model:
    """Return a model that was logged or saved, as this flavor has it. ``mlflow.pyfunc.load_model`` returns it as MLflow's own
    ``PyFuncModel``.

    ``model_uri``: of MLflow, such as ``"models:/clicks/3"``, or the path of a folder (str).

    >>> import os, tempfile
    >>> y = fluid.layers.fc(fluid.layers.data("x", [2]), 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False)
    >>> exe, folder = fluid.Executor(), tempfile.mkdtemp()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> _ = fluid.io.save_inference_model(folder, ["x"], [y], exe)
    >>> fluid.mlflow.save_model(folder, folder + "-of-mlflow")
    >>> model = fluid.mlflow.load_model(folder + "-of-mlflow")
    >>> [values.tolist() for values in model.predict({"x": np.array([[1, 2]], "float32")}).values()]
    [[[3.0]]]
    """
    return Model(os.path.join(load("mlflow.artifacts", "trireme.mlflow").download_artifacts(artifact_uri=model_uri), "data"))


def _load_pyfunc(data_path: str) -> Model:
    """MLflow calls this with the model's data."""
    return Model(data_path)


class Model:
    """A loaded model. ``predictor`` is its ``Predictor``.

    ``data_path``: the folder with the data of an MLflow model, or the model's own folder (a path).

    >>> import tempfile
    >>> x = fluid.layers.data("x", [2])
    >>> y = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(1.0), bias_attr=False, name="sum")
    >>> exe = fluid.Executor()
    >>> _ = exe.run(fluid.default_startup_program())
    >>> folder = tempfile.mkdtemp()
    >>> _ = fluid.io.save_inference_model(folder, ["x"], [y], exe)
    >>> [values.tolist() for values in fluid.mlflow.Model(folder).predict(np.array([[1, 2]], "float32")).values()]
    [[[3.0]]]
    """

    def __init__(self, data_path: str | os.PathLike[str]) -> None:
        folder = path_text(data_path)
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir()) if os.path.basename(folder) == "data" else []
        self.predictor = Predictor(inner[0] if len(inner) == 1 else folder)

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the model computes: arrays by the names of the model's fetches.

        ``model_input``: arrays by the names of the feeds (a dict), one array for a model with one feed, or a pandas ``DataFrame`` with a
        column for each feed; a cell has a number, or an array or list of the feed's row. ``params``: not used; MLflow hands it over.
        """
        feeds = self.predictor.feeds
        if isinstance(model_input, np.ndarray) and len(feeds) == 1:
            model_input = {feeds[0]: model_input}
        elif hasattr(model_input, "columns"):
            model_input = {name: self._column(model_input, name) for name in feeds}
        if not isinstance(model_input, Mapping):
            raise InvalidArgumentError(f"trireme.mlflow: predict takes arrays by the names of the feeds ({', '.join(feeds)}) or a "
                                       f"DataFrame, got {type(model_input).__name__}")
        return dict(zip(self.predictor.fetches, self.predictor.run(model_input)))

    def _column(self, frame: Any, name: str) -> np.ndarray:
        if name not in frame.columns:
            raise NotFoundError(f"trireme.mlflow: the DataFrame has no column {name!r}{did_you_mean(name, list(frame.columns))}; the model "
                                f"is fed {', '.join(self.predictor.feeds)}")
        dtype, shape = self.predictor.shape_of(name)
        cells = frame[name].tolist()
        rows = np.stack([np.asarray(cell) for cell in cells]) if cells else np.empty((0,))
        return rows.astype(dtype, casting="same_kind").reshape(len(cells), *(max(dim, -1) for dim in shape[1:]))


__all__ = ["save_model", "log_model", "load_model", "Model"]
