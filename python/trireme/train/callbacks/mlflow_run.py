"""A training as a run of MLflow."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from ...native.errors import InvalidArgumentError, check_whole
from ...native.optional import expect, load
from .tracked_run import Tracker, facts

_TAG = "trireme.run"
_MOST, _PATIENCE = 200, 5.0            # points, and seconds, that steps' numbers wait for others at most
_KEPT = 20000                          # points that wait for a server that does not answer


class MLflow(Tracker):
    """Logs a training to a run of MLflow: the numbers of each epoch (``loss``, ``val_loss`` ..., the epochs count from 1), and on request
    those of steps (``batch/loss`` ...).

    ``experiment``: its name (str, default ``MLFLOW_EXPERIMENT_NAME`` of the environment, else MLflow's ``"Default"``). ``run_name``:
    shown for the run (str, default: MLflow makes one up). ``params``, ``tags``: dicts of what the run is to tell besides. ``every``: log
    every so many steps that callbacks hear of (int, default 0: epochs alone). ``tracking_uri``: the server or the database (str, default:
    MLflow's, ``MLFLOW_TRACKING_URI``). ``run_id``: log to this run (str, default ``MLFLOW_RUN_ID``, else a run of this training's own).
    It needs the library ``mlflow-skinny`` or ``mlflow``: ``pip install '.[mlflow]'``.

    A training has one run. A job that is started again after a death, and a job that goes on from a checkpoint, find it by its tag
    ``trireme.run``, and log no point twice. In a job one trainer logs, with the numbers of the whole job at the ends of epochs. The run
    is finished when the training ends; the run of a training that was killed stays ``RUNNING``, as MLflow says it. If the server does not
    answer at the beginning, the training ends with its error. Later the numbers wait for it, and a line says so.

    >>> import tempfile
    >>> store = f"sqlite:///{tempfile.mkdtemp()}/mlflow.db"
    >>> fluid.callbacks.MLflow(experiment="digits", tracking_uri=store, params={"rate": 0.1}).every
    0
    """

    def __init__(self, experiment: str | None = None, run_name: str | None = None, params: Mapping[str, Any] | None = None,
                 tags: Mapping[str, Any] | None = None, every: int = 0, tracking_uri: str | None = None,
                 run_id: str | None = None) -> None:
        super().__init__(check_whole("MLflow: every", every))
        for name, value in (("params", params), ("tags", tags)):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidArgumentError(f"MLflow: {name} must be a dict, got {value!r}")
        self.experiment, self.run_name, self.tracking_uri, self.run_id = experiment, run_name, tracking_uri, run_id
        self.params, self.tags = dict(params or {}), dict(tags or {})
        expect("mlflow", "MLflow")
        self._client: Any = None
        self._points: list[Any] = []
        self._sent = 0.0
        self._known = {True: 0, False: 0}              # the newest epoch, and the newest step, that the run has
        self._has_said = False

    def _open(self, name: str) -> None:
        mlflow = load("mlflow", "MLflow")
        self._client = mlflow.MlflowClient(self.tracking_uri)
        run_id = self.run_id or os.environ.get("MLFLOW_RUN_ID")
        experiment = None if run_id else self._experiment(self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "Default")
        found = [self._client.get_run(run_id)] if run_id else self._client.search_runs(
            [experiment], f"tags.`{_TAG}` = '{name}'", max_results=1)
        if found:
            self.run_id = found[0].info.run_id
            self._client.update_run(self.run_id, status="RUNNING")
            self._known = {is_epoch: self._newest(found[0], is_epoch) for is_epoch in (True, False)}
        else:
            tags = {_TAG: name, **facts(), **self.tags}
            self.run_id = self._client.create_run(experiment, tags={key: str(value) for key, value in tags.items()},
                                                  run_name=self.run_name).info.run_id
            self._client.log_batch(self.run_id, params=[mlflow.entities.Param(key, str(value)) for key, value in self.params.items()])
        self._points, self._sent, self._has_said = [], time.monotonic(), False

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found is not None else self._client.create_experiment(name))

    def _newest(self, run: Any, is_epoch: bool) -> int:
        """Return the newest epoch or step that the run has numbers of."""
        names = [name for name in run.data.metrics if name.startswith("batch/") != is_epoch]
        return max([point.step for name in names for point in self._client.get_metric_history(run.info.run_id, name)], default=0)

    def _has_step(self, step: int) -> bool:
        self._opened()
        return step <= self._known[False]

    def _has_epoch(self, epoch: int) -> bool:
        self._opened()
        return epoch + 1 <= self._known[True]

    def _send(self, numbers: dict[str, float], at: int, is_epoch: bool) -> None:
        metric = load("mlflow.entities", "MLflow").Metric
        now = int(time.time() * 1e3)
        self._points += [metric(re.sub(r"[^\w. /-]", "_", name), value, now, at) for name, value in numbers.items()]
        self._known[is_epoch] = at
        if is_epoch or len(self._points) >= _MOST or time.monotonic() - self._sent >= _PATIENCE:
            self._flush()

    def _flush(self, is_last: bool = False) -> None:
        self._sent = time.monotonic()
        try:
            while self._points:
                self._client.log_batch(self.run_id, metrics=self._points[:_MOST])
                del self._points[:_MOST]
            if is_last:
                self._client.set_terminated(self.run_id)
        except Exception as error:                     # of the network: the training goes on
            del self._points[:-_KEPT]
            self._say(f"its last {len(self._points)} numbers are lost" if is_last else "they are sent later", error)

    def _say(self, what: str, error: Exception) -> None:
        if not self._has_said or "lost" in what:
            self._has_said = True
            print(f"trireme warning: MLflow takes no numbers of run {self.run_id} now; {what}: {str(error).splitlines()[0]}",
                  file=sys.stderr, flush=True)

    def _close(self) -> None:
        self._flush(is_last=True)
        self._client = None
