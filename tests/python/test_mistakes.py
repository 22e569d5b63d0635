"""Fifty mistakes that people make, each with what its message must say: where, what was expected and got, and what to do."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trireme as fluid
from trireme.launch.cli import main

layers = fluid.layers


class Net:
    """x [?, 4], label [?, 1], and a regression over them, trained by SGD; its parameters have values."""

    def __init__(self) -> None:
        self.x, self.y = layers.data("x", [4]), layers.data("y", [1])
        self.guess = layers.fc(self.x, 1)
        self.loss = layers.mean(layers.square_error_cost(self.guess, self.y))
        fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.exe = fluid.Executor()
        self.exe.run(fluid.default_startup_program())

    def run(self, x: Any = None, y: Any = None, fetch: Any = None, scope: Any = None, **feed: Any) -> Any:
        x, y = np.ones((2, 4), "float32") if x is None else x, np.ones((2, 1), "float32") if y is None else y
        return self.exe.run(feed={"x": x, "y": y, **feed}, fetch_list=[self.loss] if fetch is None else fetch, scope=scope)

    def dataset(self, lines: str, **how: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lines.csv"
            path.write_text(lines)
            data = fluid.Dataset(str(path), **{"format": "csv", "batch_size": 2, "slots": [self.x, self.y], **how})
            return self.exe.train_from_dataset(dataset=data, fetch_list=[self.loss])


def data(name: str = "x", shape: Any = (4,), dtype: str = "float32", **how: Any) -> Any:
    return layers.data(name, list(shape), dtype=dtype, **how)


# What is done, and what the message has.
PROGRAMS: list[tuple[str, Callable[[], Any], str]] = [
    ("matmul_shapes", lambda: layers.matmul(data("a", (3, 4)), data("b", (5, 6))), r"matmul: .*4.*5"),
    ("add_shapes", lambda: data("a", (4,)) + data("b", (5,)), r"elementwise_add: .*4.*5"),
    ("add_types", lambda: layers.elementwise_add(data("a"), data("b", dtype="int64")),
     r"elementwise_add: .*float32.*int64|elementwise_add: .*int64"),
    ("fc_of_a_size_below_1", lambda: layers.fc(data(), 0), r"size.*0"),
    ("fc_of_ids", lambda: layers.fc(data(dtype="int64"), 3), r"int64"),
    ("unknown_activation", lambda: layers.fc(data(), 3, act="reluu"), r"reluu.*did you mean 'relu'"),
    ("unknown_layer", lambda: layers.sofmax(data()), r"sofmax"),
    ("unknown_type", lambda: data(dtype="float23"), r"float23"),
    ("shape_as_text", lambda: layers.data("x", "12"), r"shape"),
    ("embedding_of_floats", lambda: layers.embedding(layers.scale(data("ids", (1,)), 1.0), [10, 4]), r"lookup_table: .*int64.*float32"),
    ("embedding_last_dimension", lambda: layers.embedding(data("ids", (3,), "int64"), [10, 4]), r"last dimension of Ids must be 1"),
    ("conv_channels", lambda: layers.conv2d(data("i", (8, 8)), 3, 3), r"conv2d"),
    ("conv_larger_than_image", lambda: layers.conv2d(data("i", (1, 2, 2)), 3, 5), r"conv2d: .*5.*2|conv2d: "),
    ("reshape_count", lambda: layers.reshape(data("a", (2, 3), append_batch_size=False), [4, 2]), r"reshape2?: .*6.*8|reshape2?: "),
    ("concat_shapes", lambda: layers.concat([data("a", (2,)), data("b", (3, 1))], axis=1), r"concat: "),
    ("softmax_label_type", lambda: layers.cross_entropy(layers.softmax(data()), layers.scale(data("l", (1,)), 1.0)),
     r"cross_entropy: .*int64"),
    ("dropout_probability", lambda: layers.dropout(data(), 1.5), r"dropout_prob.*1\.5"),
    ("reduce_dim", lambda: layers.reduce_sum(data(), dim=5), r"reduce_sum: .*5"),
    ("a_number_for_a_variable", lambda: layers.fc(3.5, 2), r"3\.5"),
    ("an_array_for_a_variable", lambda: layers.mean(np.ones(3)), r"Variable"),
    ("no_parameter_to_train", lambda: fluid.optimizer.SGD(0.1).minimize(layers.mean(data())), r"no .*parameter|nothing to train"),
    ("loss_of_many_elements", lambda: fluid.optimizer.SGD(0.1).minimize(layers.fc(data(), 3)), r"one element|\[1\]|scalar"),
    ("negative_rate", lambda: fluid.optimizer.Adam(-0.1), r"learning_rate must be a finite number of at least 0, got -0\.1"),
    ("rate_not_finite", lambda: fluid.optimizer.SGD(float("nan")), r"learning_rate must be a finite number of at least 0, got nan"),
    ("rate_as_text", lambda: fluid.optimizer.SGD("0.1"), r"learning_rate must be a number or a Variable, got '0\.1'"),
    ("momentum_above_1", lambda: fluid.optimizer.Adam(0.1, beta1=1.5), r"beta1 must be in .*1\.5"),
    ("unknown_mode", lambda: fluid.distributed.set_mode("asynch"), r"mode 'asynch'.*did you mean 'async'"),
    ("mode_without_number", lambda: fluid.distributed.set_mode("ssp"), r"ssp needs a number, like ssp\(4\)"),
    ("unknown_compression", lambda: fluid.distributed.set_compression("fp61"), r"fp61.*did you mean 'fp16'"),
    ("no_format_of_data", lambda: fluid.Dataset("x", "csf"),
     r"format='csf'; 'multislot', 'csv', 'libsvm', 'parquet', 'arrow' are possible"),
    ("no_file_of_data", lambda: fluid.Dataset("none-*.csv"), r"no file fits 'none-\*\.csv'"),
    ("slot_without_type", lambda: fluid.Slot("z"), r"the program has no such variable; give dtype and shape"),
    ("no_model", lambda: fluid.io.load_inference_model("none", fluid.Executor()), r"there is no folder 'none'"),
    ("monitor", lambda: fluid.callbacks.EarlyStopping("val_loss", mode="minimum"), r"mode='minimum'.*did you mean 'min'"),
    ("reader_of_dicts", lambda: fluid.Trainer(layers.mean(layers.fc(data(), 1)),
                                              fluid.optimizer.SGD(0.1)).train(lambda: [{"x": np.ones((2, 4), "float32")}], 1),
     r"a batch is a list of samples, each a tuple of x; got a dict of x: Executor\.run takes a dict of arrays as it is"),
    ("callback_class", lambda: fluid.Trainer(layers.mean(layers.fc(data(), 1)), fluid.optimizer.SGD(0.1)).train(
        list, callbacks=[fluid.callbacks.EarlyStopping]), r"holds the class EarlyStopping; make one of it"),
]

RUNS: list[tuple[str, Callable[[Net], Any], str]] = [
    ("misspelled_feed", lambda net: net.run(X=np.ones((2, 4), "float32")), r"feed 'X' is no variable of the program.*did you mean 'x'"),
    ("misspelled_fetch", lambda net: net.run(fetch=[net.loss.name + "0"]),
     r"fetch 'mean_0\.tmp_00': the program computes no such variable .*; did you mean 'mean_0\.tmp_0'\?"),
    ("unknown_fetch", lambda net: net.run(fetch=["perplexity"]),
     r"fetch 'perplexity': the program computes no such variable and the scope has none$"),
    ("feed_missing", lambda net: net.exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[net.loss]), r"'y'.*feed|feed.*'y'"),
    ("float64_feed", lambda net: net.run(x=np.ones((2, 4))),
     r"feed 'x' is float64, the program wants float32: give x\.astype\('float32'\)"),
    ("int_feed", lambda net: net.run(y=np.ones((2, 1), "int32")),
     r"feed 'y' is int32, the program wants float32: give y\.astype\('float32'\)"),
    ("fraction_for_an_integer", lambda net: fluid.DataFeeder([data("l", (1,), "int64")]).feed([(1,), (1.5,)]),
     r"feed 'l' is int64, which cannot hold .*1\.5"),
    ("list_with_a_fraction", lambda net: net.run(ids=[[0.5]], fetch=[data("ids", (1,), "int64")]),
     r"feed 'ids' is int64, which cannot hold .*0\.5"),
    ("sequence_with_a_fraction", lambda net: fluid.create_lod_tensor([[1, 2.5], [3]], [[2, 1]]), r"cannot hold .*2\.5"),
    ("feed_rank", lambda net: net.run(x=np.ones(4, "float32")), r"feed 'x' has the shape \[4\], the program wants \[\?, 4\]"),
    ("feed_width", lambda net: net.run(x=np.ones((2, 5), "float32")), r"5.*4|4.*5"),
    ("batches_differ", lambda net: net.run(y=np.ones((3, 1), "float32")),
     r"the feeds have batches of different sizes: 'x' has 2, 'y' has 3"),
    ("batches_of_tensors_differ", lambda net: net.run(y=fluid.create_lod_tensor(np.ones((3, 1), "float32"), [])),
     r"the feeds have batches of different sizes: 'x' has 2, 'y' has 3"),
    ("feed_is_no_dict", lambda net: net.exe.run(feed=[1]), r"feed must be a dict of names to arrays"),
    ("startup_was_not_run", lambda net: net.run(scope=fluid.Scope()), r"run the startup program"),
    ("file_is_not_there", lambda net: net.exe.train_from_dataset(dataset=fluid.Dataset("none.csv", "csv", slots=[net.x, net.y])),
     r"none\.csv"),
    ("csv_line", lambda net: net.dataset("1,2,3,4,5\n1,2,x,4,5\n"), r"lines\.csv, line 2, column 5: slot 'x': .*got 'x'"),
    ("csv_fields", lambda net: net.dataset("1,2,3\n"), r"lines\.csv, line 1"),
    ("callbacks_without_numbers", lambda net: net.exe.train_from_dataset(dataset=fluid.Dataset("x.csv", "csv", slots=[net.x, net.y]),
                                                                         callbacks=[]),
     r"give fetch_list=\[loss\]"),
    ("labels_for_fetches", lambda net: net.exe.train_from_dataset(dataset=fluid.Dataset("x.csv", "csv", slots=[net.x, net.y]),
                                                                  fetch_list=[net.loss],
                                                                  fetch_info=["a", "b"]), r"2 texts in fetch_info for 1 variables"),
]

COMMANDS = [
    ("launch --servres 2 train.py", r"unrecognized arguments|did you mean --servers"),
    ("lanch train.py", r"invalid choice: 'lanch'.*did you mean 'launch'"),
    ("launch --servers two train.py", r"'two'; a whole number from 1 on is possible"),
    ("launch --standbys-for server train.py", r"invalid choice: 'server'.*did you mean 'servers'"),
    ("top none", r"cannot read the logs in 'none'"),
    ("metrics none", r"trireme metrics: there is no folder 'none'"),
    ("predict none", r"there is no folder 'none'"),
]


def says(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(Exception) as caught:           # the text counts
        call()
    message = re.sub(r"\n *your line: .*", "", str(caught.value))      # it shows the test's line, which has the text
    assert re.search(text, message, re.S), f"{type(caught.value).__name__}: {message}"
    assert "  in tr_" not in message and not re.search(r"\.c:\d+\)", message), f"frames of the core: {message}"


def test_there_are_fifty() -> None:
    assert len(PROGRAMS) + len(RUNS) + len(COMMANDS) >= 50


@pytest.mark.parametrize(("call", "text"), [pytest.param(call, text, id=name) for name, call, text in PROGRAMS])
def test_a_mistake_in_a_program(call: Callable[[], Any], text: str) -> None:
    says(call, text)


@pytest.mark.parametrize(("call", "text"), [pytest.param(call, text, id=name) for name, call, text in RUNS])
def test_a_mistake_in_a_run(call: Callable[[Net], Any], text: str) -> None:
    net = Net()
    says(lambda: call(net), text)


@pytest.mark.parametrize(("line", "text"), COMMANDS)
def test_a_mistake_on_the_command_line(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(line.split())
    except SystemExit as exit:
        code = exit.code
    err = capsys.readouterr().err
    assert code == 2 and re.search(text, err), err


def test_training_that_turns_to_nan_says_so_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    x = data("x", (1,))
    trainer = fluid.Trainer(layers.mean(layers.log(layers.fc(x, 1, bias_attr=False, param_attr=fluid.initializer.Constant(1.0)))),
                            fluid.optimizer.SGD(0.0))
    trainer.train(lambda: [[([1.0],)], [([-1.0],)], [([-1.0],)]], 1, fluid.Progress(epochs=1, every=1e9))
    out = capsys.readouterr().out
    assert out.count("loss nan: Executor(check_nan=True)") == 1 and "step 2" in out
    exe = fluid.Executor(check_nan=True)
    with pytest.raises(fluid.core.NotFiniteError, match="while running operator 'log'"):
        exe.run(feed={"x": np.array([[-1.0]], "float32")}, fetch_list=[trainer.loss], scope=trainer.scope)
