"""Trackers of experiments, and what they decide for a job: MLflow, Weights & Biases, Optuna, and a learning rate that falls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from job_support import SCRIPT, alone, launch, launch_under_mpi, needs_mpi

import trireme as fluid
from trireme.errors import InvalidArgumentError, NotFoundError, UnsupportedError

TRACKERS = SCRIPT.with_name("trackers.py")


def found(folder: Path, trainers: int = 2) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{index}.json").read_text()) for index in range(trainers)]


def train(values: list[float], *callbacks: Any, epochs: int = 0, rate: Any = 0.1) -> Any:
    """Train on batches whose loss in each epoch is the next of the values."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [1])
        loss = fluid.layers.mean(x + fluid.layers.fc(x, 1) * 0.0)
        trainer = fluid.Trainer(loss, fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 1, 0.5) if rate is None else rate))
        rest = iter(values)
        return trainer.train(lambda: [[([next(rest)],)]], epochs=epochs or len(values),
                             callbacks=[fluid.callbacks.LearningRateLogger(), *callbacks])


# -- a learning rate that falls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "how", "rates"), [
    ([5, 4, 3, 2, 1], dict(patience=1), [16, 16, 16, 16, 16]),
    ([5, 5, 5, 5, 5, 5], dict(patience=2), [16, 16, 16, 8, 8, 4]),
    ([5, 5, 4, 4, 4, 4], dict(patience=2), [16, 16, 16, 16, 16, 8]),
    ([5, 5, 5, 5, 5, 5], dict(patience=1, cooldown=2), [16, 16, 8, 8, 4, 4]),
    ([5, 5, 5, 5, 5, 5], dict(patience=1, min_lr=6), [16, 16, 8, 6, 6, 6]),
    ([5, 4.9, 4.8, 4.7], dict(patience=1, min_delta=0.5), [16, 16, 8, 4]),
    ([1, 2, 2, 2], dict(patience=1, mode="max"), [16, 16, 16, 8]),
    ([float("nan")] * 3, dict(patience=1), [16, 8, 4]),
])
def test_the_rate_falls_as_keras_says(values: list[float], how: dict[str, Any], rates: list[float]) -> None:
    history = train(values, fluid.callbacks.ReduceLROnPlateau("loss", factor=0.5, **how), rate=16.0)
    assert history.history["lr"] == rates


def test_a_rate_that_cannot_fall_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    reduces = fluid.callbacks.ReduceLROnPlateau("loss")
    with pytest.raises(InvalidArgumentError, match="a schedule computes the learning rate"):
        train([1.0], reduces, rate=None)
    with pytest.raises(NotFoundError, match="has no 'val_loss'"):
        train([1.0], fluid.callbacks.ReduceLROnPlateau())
    with pytest.raises(ValueError, match="factor"):
        fluid.callbacks.ReduceLROnPlateau(factor=1.0)
    monkeypatch.setattr("trireme.train.callbacks.plateau.is_distributed", lambda: True)
    monkeypatch.setenv("TRIREME_MODE", "sync(backups=1)")
    with pytest.raises(UnsupportedError, match=r"in mode sync\(backups=1\) the servers take no values"):
        train([1.0], reduces)


@needs_mpi
@pytest.mark.mpi
def test_the_rate_falls_in_a_job_as_in_one_process(tmp_path: Path) -> None:
    for name in ("one", "sync", "kept", "async"):
        (tmp_path / name).mkdir()
    how = ("--epochs", 12, "--patience", 2)
    alone(tmp_path / "one", *how, script=TRACKERS)
    one = found(tmp_path / "one", 1)[0]["history"]
    assert len(set(one["lr"])) >= 3
    launch(2, 2, tmp_path / "sync", *how, script=TRACKERS)
    first, second = found(tmp_path / "sync")
    assert first == second and first["history"]["lr"] == one["lr"]
    assert first["history"]["val_loss"] == pytest.approx(one["val_loss"], rel=1e-4)
    kept = ("--checkpoint", tmp_path / "checkpoints")
    for epochs in (8, 12):                             # it goes on in the middle of a plateau
        launch(1, 2, tmp_path / "kept", "--epochs", epochs, "--patience", 2, script=TRACKERS,
               options=(*kept, *["--resume"] * (epochs == 12)))
    assert found(tmp_path / "kept")[0]["history"]["lr"] == one["lr"]
    assert found(tmp_path / "kept")[0]["w"] == first["w"]
    text = launch(2, 2, tmp_path / "async", *how, script=TRACKERS, options=("--mode", "async"))
    first, second = found(tmp_path / "async")
    assert first["history"]["val_loss"] == second["history"]["val_loss"] and "does not count" not in text
    assert first["history"]["lr"][-1] < 0.05


# -- Optuna -------------------------------------------------------------------------------------------------------------


@needs_mpi
@pytest.mark.mpi
def test_optuna_prunes_all_trainers_of_a_job_together(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="rates", storage=f"sqlite:///{tmp_path}/study.db")
    good, bad = study.ask(), study.ask()
    assert (good.number, bad.number) == (0, 1)
    for epoch in range(6):                             # it is better from epoch 2 on
        good.report(100.0 if epoch < 2 else 0.0, epoch)
    study.tell(good, 0.0)
    launch_under_mpi(2, 2, tmp_path, "--study", f"sqlite:///{tmp_path}/study.db", "--kill", 0, "--dies", 1, script=TRACKERS,
                     replacements=True)
    assert (tmp_path / "died").exists()
    first, second = found(tmp_path)
    assert first == second and first["pruned"] and first["epoch"] == [0, 1, 2]
    assert study.get_trials()[1].state.name == "PRUNED"
    reported = study.get_trials()[1].intermediate_values
    assert list(reported.values()) == first["history"]["val_loss"] and list(reported) == [0, 1, 2]


def test_the_result_of_a_trial_is_told(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    study = optuna.create_study()
    for values in ([3.0, 2.0], [9.0, 8.0]):
        prunes = fluid.callbacks.OptunaPruning(study.ask().number, "loss", study=study)
        train(values, prunes)
        prunes.raise_if_pruned()
    assert [trial.value for trial in study.trials] == [2.0, 8.0]
    with pytest.raises(InvalidArgumentError, match="has 2 trials, none is 7"):
        train([1.0], fluid.callbacks.OptunaPruning(7, "loss", study=study))
    with pytest.raises(InvalidArgumentError, match="trial 7 of which study"):
        fluid.callbacks.OptunaPruning(7)
    with pytest.raises(InvalidArgumentError, match="the first trainer needs a trial"):
        train([1.0], fluid.callbacks.OptunaPruning(None, "loss"))


# -- MLflow -------------------------------------------------------------------------------------------------------------


def test_a_training_that_goes_on_is_one_run_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    store, runs = f"sqlite:///{tmp_path}/mlflow.db", []
    client = mlflow.MlflowClient(store)
    for number, values in (("5" * 16, [3.0, 2.0]), ("5" * 16, [3.0, 2.0, 1.0, float("nan")]), ("6" * 16, [7.0])):
        monkeypatch.setenv("TRIREME_RUN", number)
        monkeypatch.setattr("trireme.job.session.session.trainings", 0)
        logs = fluid.callbacks.MLflow("one", every=1, tracking_uri=store, params={"b": 2})
        train(values, logs)
        runs.append(logs.run_id)
    assert runs[0] == runs[1] != runs[2]
    for name in ("loss", "batch/loss"):
        assert [(one.step, one.value) for one in client.get_metric_history(runs[0], name)][:3] == [(1, 3.0), (2, 2.0), (3, 1.0)]
        assert len(client.get_metric_history(runs[0], name)) == 4
    sent = fluid.callbacks.MLflow("one", tracking_uri=store, run_id=runs[2])
    train([7.0, 8.0], sent)                            # the run that was asked for, whatever its tag
    assert [one.step for one in client.get_metric_history(runs[2], "loss")] == [1, 2]


def test_a_tracker_that_does_not_answer_costs_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    logs = fluid.callbacks.MLflow("one", tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    take, calls = mlflow.MlflowClient.log_batch, []

    def refuse(client: Any, run_id: str, metrics: Any = (), **more: Any) -> None:
        calls.append(len(metrics))
        if len(calls) in (2, 3):                       # the first call has the parameters
            raise OSError("no route to host")
        take(client, run_id, metrics, **more)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", refuse)
    train([4.0, 3.0, 2.0], logs)
    assert calls == [0, 2, 4, 6]                       # what could not be sent goes with the next numbers
    assert capsys.readouterr().err.count("they are sent later: no route to host") == 1


def test_mlflow_predicts_with_the_bits_of_a_predictor(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pandas = pytest.importorskip("pandas")
    import mlflow.pyfunc

    import trireme.mlflow

    x, key = fluid.layers.data("x", [3]), fluid.layers.data("key", [1], dtype="int64")
    hidden = fluid.layers.concat([x, fluid.layers.reshape(fluid.layers.embedding(key, [10, 4]), [-1, 4])], axis=1)
    guess, exe = fluid.layers.fc(hidden, 2, act="softmax"), fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x", "key"], [guess], exe)
    feed = {"x": np.random.default_rng(0).normal(size=(5, 3)).astype("float32"), "key": np.arange(5).reshape(5, 1)}
    want = fluid.serving.Predictor(str(tmp_path / "model")).run(feed)[0]
    trireme.mlflow.save_model(tmp_path / "model", tmp_path / "saved")
    frame = pandas.DataFrame({"x": list(feed["x"]), "key": feed["key"][:, 0]})
    for model in (mlflow.pyfunc.load_model(str(tmp_path / "saved")), trireme.mlflow.load_model(str(tmp_path / "saved"))):
        for given in (feed, frame):
            (name, got), = model.predict(given).items()
            assert name == guess.name and got.tobytes() == want.tobytes()
    with pytest.raises(NotFoundError, match="no column 'key'; did you mean 'kay'"):
        trireme.mlflow.Model(tmp_path / "model").predict(frame.rename(columns={"key": "kay"}))


@needs_mpi
@pytest.mark.mpi
@pytest.mark.soak
def test_a_job_that_is_killed_started_again_and_resumed_is_one_run_of_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    store = f"sqlite:///{tmp_path}/mlflow.db"
    client = mlflow.MlflowClient(store)
    kept = ("--checkpoint", tmp_path / "checkpoints", "--standbys", 0)
    launch_under_mpi(1, 2, tmp_path, "--mlflow", store, "--kill", 0, script=TRACKERS, options=kept)
    assert (tmp_path / "died").exists()
    launch_under_mpi(2, 2, tmp_path, "--mlflow", store, "--epochs", 8, script=TRACKERS, options=(*kept, "--resume"))
    run, = client.search_runs([client.get_experiment_by_name("clicks").experiment_id])
    assert (run.info.run_name, run.info.status, run.data.params) == ("one", "FINISHED", {"rate": "0.05"})
    assert run.data.tags["team"] == "ads" and run.data.tags["trireme.trainers"] == "2"
    history = found(tmp_path)[0]["history"]
    for name in ("loss", "val_loss", "lr"):
        points = client.get_metric_history(run.info.run_id, name)
        assert [(point.step, point.value) for point in points] == [(i + 1, value) for i, value in enumerate(history[name])], name
    assert [point.step for point in client.get_metric_history(run.info.run_id, "batch/loss")] == list(range(1, 33))


# -- Weights & Biases -----------------------------------------------------------------------------------------------------


def test_a_training_that_goes_on_has_one_id_of_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRIREME_RUN", "5" * 16)
    for values in ([3.0, 2.0], [3.0, 2.0, 1.0]):
        monkeypatch.setattr("trireme.job.session.session.trainings", 0)
        train(values, fluid.callbacks.Wandb("one", config={"b": 2}, every=1, dir=tmp_path))
    folders = list((tmp_path / "wandb").glob("offline-run-*"))
    assert folders and all(folder.name.endswith(f"-trireme-{'5' * 16}") for folder in folders)
    data = b"".join(path.read_bytes() for folder in folders for path in folder.glob("*.wandb"))
    assert b"val_loss" not in data and b"batch/loss" in data and b"epoch" in data
