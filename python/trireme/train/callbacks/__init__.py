"""Callbacks: what is to happen while ``Trainer.train`` or ``Executor.train_from_dataset`` trains.

    trainer.train(reader, epochs=20, validation=held_out, callbacks=[
        fluid.callbacks.EarlyStopping("val_loss", patience=3),
        fluid.callbacks.ModelCheckpoint("models", last=2),
        fluid.callbacks.CSVLogger("history.csv"),
    ])

Names and meanings are those of Keras. In a job every trainer makes the same callbacks: numbers of an epoch are those of the whole job, all
trainers decide alike, and what is written is written once. docs/callbacks.md describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...native.lazy import load_later

if TYPE_CHECKING:
    from .base import Callback, History, Training
    from .early_stopping import EarlyStopping
    from .export_model import ExportModel
    from .loggers import CSVLogger, LearningRateLogger
    from .mlflow_run import MLflow
    from .model_checkpoint import ModelCheckpoint
    from .optuna_pruning import OptunaPruning
    from .plateau import ReduceLROnPlateau
    from .tensorboard import TensorBoard
    from .validation import Validation
    from .wandb_run import Wandb

if not TYPE_CHECKING:                                  # a checker that saw it would take any name
    __getattr__, __dir__ = load_later(__name__, {
        "base": ("Callback", "History", "Training"),
        "early_stopping": ("EarlyStopping",),
        "export_model": ("ExportModel",),
        "loggers": ("CSVLogger", "LearningRateLogger"),
        "mlflow_run": ("MLflow",),
        "model_checkpoint": ("ModelCheckpoint",),
        "optuna_pruning": ("OptunaPruning",),
        "plateau": ("ReduceLROnPlateau",),
        "tensorboard": ("TensorBoard",),
        "validation": ("Validation",),
        "wandb_run": ("Wandb",),
    })

__all__ = ["Callback", "History", "Training", "EarlyStopping", "ExportModel", "ModelCheckpoint", "LearningRateLogger", "CSVLogger",
           "TensorBoard", "Validation", "ReduceLROnPlateau", "MLflow", "Wandb", "OptunaPruning"]
