"""Callbacks and the history of a training in one process: what a user of Keras expects."""

from __future__ import annotations

import csv
import json
import math
import os

import numpy as np
import pytest

import trireme as fluid
from trireme.errors import InvalidArgumentError, NotFoundError
from trireme.saving import io as saving
from trireme.trainer import EndIteration, EndPass, StopTraining

BATCHES = [[(np.array([1.0]),), (np.array([3.0]),)], [(np.array([5.0]),)]]


def falling(rate: float = 1.0) -> fluid.Trainer:
    """A trainer of loss w * mean(x), w from 1 on; SGD takes `rate` times mean(x) from w in each step."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.layers.data("x", [1])
        w = fluid.layers.create_parameter([1], "float32", name="w", default_initializer=fluid.initializer.Constant(1.0))
        loss = fluid.layers.mean(fluid.layers.elementwise_mul(x, w))
        return fluid.Trainer(loss, fluid.optimizer.SGD(rate), metrics={"twice": loss * 2.0}, scope=fluid.Scope())


class Script(fluid.callbacks.Callback):
    """Puts numbers of a list in the place of val_loss, epoch by epoch, and notes what it was called with."""

    def __init__(self, *values: float, name: str = "val_loss") -> None:
        self.values, self.name, self.calls = values, name, []

    def on_train_begin(self, logs):
        self.calls.append("begin")

    def on_epoch_begin(self, epoch, logs):
        self.calls.append(f"epoch {epoch}")

    def on_train_batch_begin(self, batch, logs):
        self.calls.append(f"batch {batch}")

    def on_train_batch_end(self, batch, logs):
        self.calls.append(sorted(logs))

    def on_epoch_end(self, epoch, logs):
        if self.values:
            logs[self.name] = self.values[epoch]
        self.calls.append(f"end {epoch}")

    def on_train_end(self, logs):
        self.calls.append(("over", logs))


def train(*callbacks: object, epochs: int = 6, trainer: fluid.Trainer | None = None, **how: object) -> fluid.callbacks.History:
    return (trainer or falling(0.0)).train(lambda: BATCHES, epochs=epochs, callbacks=list(callbacks), **how)


def test_callbacks_are_called_as_in_keras():
    script = Script()
    history = train(script, epochs=2)
    numbers = ["loss", "twice"]
    one = ["batch 0", numbers, "batch 1", numbers]
    assert script.calls == ["begin", "epoch 0", *one, "end 0", "epoch 1", *one, "end 1", ("over", history.last)]


def test_a_history_has_means_by_samples_for_each_epoch():
    history = train(epochs=3, validation=lambda: [BATCHES[0]])
    assert history.epoch == [0, 1, 2]
    assert history.history == {"loss": [3.0] * 3, "twice": [6.0] * 3, "val_loss": [2.0] * 3, "val_twice": [4.0] * 3}
    assert repr(history) == "History(3 epochs: loss 3, twice 6, val_loss 2, val_twice 4)"


def test_without_callbacks_there_is_a_history_too():
    assert falling(0.0).train(lambda: BATCHES, epochs=2).history == {"loss": [3.0] * 2, "twice": [6.0] * 2}


def test_validation_sees_the_parameters_of_the_epochs_end():
    history = falling(0.1).train(lambda: [BATCHES[1]], epochs=3, validation=lambda: [BATCHES[1]])
    assert history.history["val_loss"] == pytest.approx([2.5, 0.0, -2.5], abs=1e-6)
    assert history.history["loss"] == pytest.approx([5.0, 2.5, 0.0], abs=1e-6)


def test_numbers_that_come_late_have_nan_before():
    class Late(fluid.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            if epoch == 1:
                logs["late"] = 7

    assert repr(train(Late(), epochs=3).history["late"]) == "[nan, 7.0, nan]"


@pytest.mark.parametrize(("values", "how", "epochs", "best"), [
    ((3, 2, 2, 2, 1, 0), {"patience": 2}, 4, 1),
    ((3, 2, 2, 1, 1, 1), {"patience": 2}, 6, 3),
    ((3, 2, 2, 2, 1, 0), {"patience": 0}, 3, 1),
    ((3, 2, 2, 2, 1, 0), {"patience": 1}, 3, 1),
    ((3, 2.9, 2.8, 2.7, 1, 0), {"patience": 2, "min_delta": 0.5}, 3, 0),
    ((1, 2, 3, 3, 3, 9), {"patience": 2, "mode": "max"}, 5, 2),
    ((9, 8, 7, 6, 5, 4), {"patience": 2, "baseline": 3.0}, 2, 1),
    ((9, 9, 9, 8, 7, 7), {"patience": 1, "start_from_epoch": 2}, 6, 4),
    ((math.nan,) * 6, {"patience": 3}, 3, -1),
    ((3, math.nan, 2, math.nan, math.nan, 0), {"patience": 2}, 5, 2),
])
def test_early_stopping_stops_where_it_should(values, how, epochs, best):
    stops = fluid.callbacks.EarlyStopping(**how)
    history = train(Script(*values), stops)
    assert (len(history.epoch), stops.best_epoch) == (epochs, best)
    assert stops.stopped_epoch == (epochs - 1 if epochs < 6 else stops.stopped_epoch)


@pytest.mark.parametrize(("name", "rises"), [("val_acc", True), ("val_auc", True), ("accuracy", True), ("val_top5_precision", True),
                                             ("F1", True), ("val_loss", False), ("back_error", False), ("val_rmse", False)])
def test_the_name_says_what_is_better(name, rises):
    stops = fluid.callbacks.EarlyStopping(name, patience=1)
    assert len(train(Script(1, 2, 3, 4, 5, 6, name=name), stops).epoch) == (6 if rises else 2)


def test_a_callback_can_be_used_again():
    stops = fluid.callbacks.EarlyStopping(patience=1)
    trainer = falling(0.0)
    for _ in range(2):
        assert len(train(Script(3, 2, 2, 2, 2, 2), stops, trainer=trainer).epoch) == 3


def test_early_stopping_says_so_and_gives_the_best_weights_back(capsys):
    trainer = falling(0.1)
    stops = fluid.callbacks.EarlyStopping(patience=2, restore_best_weights=True, verbose=1)
    train(Script(3, 1, 2, 2, 2, 2), stops, trainer=trainer)
    w = 1.0 - 0.1 * 2 * (2 + 5)                        # behind two epochs: means of the batches
    assert float(trainer.scope.find_var("w").get_tensor().numpy()[0]) == pytest.approx(w)
    assert capsys.readouterr().out == "EarlyStopping: the training has ended after epoch 4; the best val_loss was 1, of epoch 2\n"


def test_the_best_and_the_newest_models_stay(tmp_path):
    trainer = falling(0.1)
    keeps = fluid.callbacks.ModelCheckpoint(tmp_path / "m", last=2)
    train(Script(3, 1, 2, 2, 0.5, 2), keeps, trainer=trainer)
    assert sorted(os.listdir(tmp_path / "m")) == ["best", "epoch-0005", "epoch-0006"] and keeps.best_epoch == 4 and keeps.best == 0.5
    about = json.loads((tmp_path / "m" / "best" / "about.json").read_text())
    assert about["epoch"] == 5 and about["logs"]["val_loss"] == 0.5
    for name, epochs in (("best", 5), ("epoch-0006", 6)):
        trainer.load_params(str(tmp_path / "m" / name))
        assert float(trainer.scope.find_var("w").get_tensor().numpy()[0]) == pytest.approx(1 - 0.7 * epochs)


def test_models_are_written_every_so_many_epochs_and_without_a_best_one(tmp_path):
    train(fluid.callbacks.ModelCheckpoint(tmp_path / "m", best=False, last=9, every=3, params_only=True), epochs=7)
    assert sorted(os.listdir(tmp_path / "m")) == ["epoch-0003", "epoch-0006"]
    assert sorted(os.listdir(tmp_path / "m" / "epoch-0003")) == ["about.json", "w"]


def test_a_model_that_is_not_complete_is_not_there(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(saving, "save_persistables", fails)
    with pytest.raises(OSError, match="the disk is full"):
        train(fluid.callbacks.ModelCheckpoint(tmp_path / "m", monitor="loss"))
    assert os.listdir(tmp_path / "m") == []


def test_a_table_of_epochs(tmp_path):
    path = tmp_path / "deep" / "h.csv"
    train(Script(3, 2), fluid.callbacks.CSVLogger(path), epochs=2)
    assert path.read_text() == "epoch,loss,twice,val_loss\n0,3.0,6.0,3\n1,3.0,6.0,2\n"
    train(Script(9, 8), fluid.callbacks.CSVLogger(path, append=True), epochs=1)
    assert [row["val_loss"] for row in csv.DictReader(open(path))] == ["3", "2", "9"]
    train(fluid.callbacks.CSVLogger(path, separator=";"), epochs=1)
    assert path.read_text() == "epoch;loss;twice\n0;3.0;6.0\n"


def test_the_rate_of_an_epochs_last_step():
    x = fluid.layers.data("x", [1])
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(learning_rate=0.5)))
    trainer = fluid.Trainer(loss, fluid.optimizer.SGD(fluid.layers.piecewise_decay([3, 5], [0.4, 0.2, 0.1])))
    assert train(fluid.callbacks.LearningRateLogger("rate"), epochs=3, trainer=trainer).history["rate"] == pytest.approx([0.4, 0.2, 0.1])


def test_a_rate_that_is_a_number_and_one_of_a_program_from_bytes():
    from trireme.train.callbacks.loggers import learning_rate_of

    trainer = falling(0.25)
    assert train(fluid.callbacks.LearningRateLogger(), epochs=1, trainer=trainer).history["lr"] == [0.25]
    again = fluid.Program.parse_from_string(trainer.program.serialize_to_string())
    assert learning_rate_of(again).name == learning_rate_of(trainer.program).name
    assert learning_rate_of(fluid.Program()) is None


def test_a_functions_numbers_are_those_of_the_epoch():
    calls = []

    def area():
        calls.append(1)
        return {"area": np.float32(0.5)}

    history = train(fluid.callbacks.Validation(area, every=4), epochs=6)
    assert repr(history.history["area"]) == "[nan, nan, nan, 0.5, nan, 0.5]" and len(calls) == 2


def test_handlers_and_functions_stop_a_training_in_its_middle():
    seen = []

    def stop(event):
        seen.append(type(event).__name__)
        if isinstance(event, EndIteration):
            raise StopTraining

    history = train(stop)
    assert seen == ["BeginTraining", "BeginPass", "BeginIteration", "EndIteration"] and history.history["loss"] == [2.0]
    assert falling(0.0).train(lambda: BATCHES, epochs=3, event_handler=stop).epoch == []


def test_a_handler_that_stops_at_the_end_of_an_epoch_has_it_in_the_history():
    def stop(event):
        if isinstance(event, EndPass) and event.pass_id == 1:
            raise StopTraining

    assert falling(0.0).train(lambda: BATCHES, epochs=5, event_handler=stop).epoch == [0, 1]
    assert train(stop).epoch == [0, 1]


def test_progress_is_a_callback(capsys):
    train(fluid.Progress(epochs=1, every=0.0), epochs=1, validation=lambda: BATCHES)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("epoch 1/1  mean loss 3.0000  twice 6.0000  val_loss 3.0000  val_twice 6.0000  ")


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: train(fluid.callbacks.EarlyStopping("val_los"), validation=lambda: BATCHES), NotFoundError,
     "EarlyStopping: an epoch of this training has no 'val_los'; did you mean 'val_loss'[?] It has loss, twice, val_loss, val_twice"),
    (lambda: train(fluid.callbacks.EarlyStopping()), NotFoundError, "It has loss, twice; `validation=` gives val_loss and its kind"),
    (lambda: train(fluid.callbacks.LearningRateLogger), TypeError,
     r"holds the class LearningRateLogger; make one of it: LearningRateLogger\(...\)"),
    (lambda: train(3), TypeError, "Trainer.train: callbacks holds callbacks and functions of an event, got 3"),
    (lambda: falling().train(lambda: BATCHES, callbacks=print), TypeError, "callbacks must be a list of callbacks"),
    (lambda: falling().train(lambda: BATCHES, event_handler=3), TypeError, "event_handler must be a function of an event, got 3"),
    (lambda: train(epochs=-1), ValueError, "Trainer.train: epochs=-1"),
    (lambda: train(validation=list), ValueError, "the reader gave no batch"),
    (lambda: fluid.callbacks.EarlyStopping(mode="maxi"), InvalidArgumentError,
     "mode='maxi'; 'auto', 'min' and 'max' are possible; did you mean 'max'"),
    (lambda: fluid.callbacks.EarlyStopping(patience=-1), InvalidArgumentError, "EarlyStopping: patience=-1"),
    (lambda: fluid.callbacks.EarlyStopping(min_delta=-0.5), ValueError, "EarlyStopping: min_delta must be"),
    (lambda: fluid.callbacks.EarlyStopping(3), InvalidArgumentError, "monitor must be the name of a number"),
    (lambda: fluid.callbacks.ModelCheckpoint(""), InvalidArgumentError, "'' is no folder"),
    (lambda: fluid.callbacks.ModelCheckpoint("m", best=False, last=0), InvalidArgumentError, "keep nothing"),
    (lambda: fluid.callbacks.CSVLogger("f", separator="--"), InvalidArgumentError, "separator must be one character"),
    (lambda: fluid.callbacks.Validation(3), TypeError, "takes a function"),
    (lambda: train(fluid.callbacks.Validation(lambda: 3)), InvalidArgumentError, "must return a dict of names and numbers, got 3"),
    (lambda: train(fluid.callbacks.Validation(lambda: {"a": "b"})), InvalidArgumentError, "must return a dict of names and numbers"),
])
def test_mistakes_are_explained(make, error, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        make()


def test_no_optional_library_is_loaded():
    import subprocess
    import sys

    code = ("import trireme; trireme.callbacks.EarlyStopping, trireme.Trainer; import sys; print({'tensorboardX', 'rich'} & "
            "set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
