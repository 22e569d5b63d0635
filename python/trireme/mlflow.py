"""A model for serving as a model of MLflow: ``trireme.mlflow.log_model``. MLflow's own files name this module."""

from .serving.mlflow_flavor import *  # noqa: F403
from .serving.mlflow_flavor import __all__ as __all__
from .serving.mlflow_flavor import _load_pyfunc as _load_pyfunc
