"""Serving: what a predictor gives is what the training's program gives, also while a job exports to it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme.native import errors
from trireme.observe import plot, traces
from trireme.serving import Exporter, Predictor, export_model, predict

from click_support import CLICK, click_files
from job_support import Launched, alone, environment, needs_mpi


class Model:
    """Rows of a table, summed, and a dense layer."""

    def __init__(self) -> None:
        self.ids = fluid.layers.data("ids", [3, 1], dtype="int64")
        self.y = fluid.layers.data("y", [1])
        rows = fluid.layers.embedding(self.ids, [1 << 40, 8], is_distributed=True,
                                      param_attr=fluid.ParamAttr("table", initializer=fluid.initializer.Uniform(-0.1, 0.1)))
        self.click = fluid.layers.fc(fluid.layers.reduce_sum(rows, dim=1), 1, act="sigmoid")
        self.loss = fluid.layers.mean(fluid.layers.square_error_cost(self.click, self.y))
        self.test = fluid.default_main_program().clone(for_test=True)
        fluid.optimizer.Adagrad(0.1).minimize(self.loss)
        self.exe = fluid.Executor()
        self.exe.run(fluid.default_startup_program())
        self.random = np.random.RandomState(0)

    def step(self) -> None:
        ids = self.random.randint(-20, 30, (16, 3, 1))
        self.exe.run(feed={"ids": ids, "y": self.random.rand(16, 1).astype("float32")}, fetch_list=[self.loss])

    def predict(self, ids: np.ndarray) -> np.ndarray:
        return self.exe.run(self.test, feed={"ids": ids, "y": np.zeros((len(ids), 1), "float32")}, fetch_list=[self.click])[0]


@pytest.mark.parametrize("most_bytes", [128 << 20, 400])           # of rows in a file: one file, or many
def test_each_export_gives_what_the_training_gives(most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trireme.serving.exporter._MOST_BYTES", most_bytes)
    model = Model()
    exporter = Exporter(tmp_path / "exports", ["ids"], [model.click], model.exe, full_every=4, keep_seconds=0)
    ids = np.arange(-30, 60).reshape(30, 3, 1)         # of which some have no row
    model.step()
    assert exporter.export().is_full
    with Predictor(tmp_path / "exports") as predictor:
        for number in range(2, 12):
            model.step()
            done = exporter.export()
            assert done.is_full == (number % 4 == 1) and done.rows["table"] <= (50 if done.is_full else 48)
            assert predictor.refresh() and predictor.version == number and not predictor.refresh()
            assert np.array_equal(predictor.run({"ids": ids})[0], model.predict(ids))
    names = sorted(path.name for path in (tmp_path / "exports").iterdir())
    assert names == ["current", "delta-000000010", "delta-000000011", "full-000000009"]
    again = Exporter(tmp_path / "exports", ["ids"], [model.click], model.exe).export()
    assert again.is_full and again.version == 12       # another process goes on with a whole one
    assert (len(list((tmp_path / "exports" / "full-000000009").glob("table*.rows"))) > 5) == (most_bytes == 400)


def test_an_export_that_fails_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: str, *rest: object) -> None:
        raise errors.FileError(f"cannot write {folder!r}: No space left on device")

    model = Model()
    exporter = Exporter(tmp_path, ["ids"], [model.click], model.exe)
    model.step()
    exporter.export()
    for full in (False, True):
        model.step()
        with monkeypatch.context() as patch:
            patch.setattr("trireme.native.checksums.write", fail)
            with pytest.raises(errors.FileError):
                exporter.export(full)
        assert not exporter.export().is_full
        ids = np.arange(-30, 60).reshape(30, 3, 1)
        assert np.array_equal(Predictor(str(tmp_path)).run({"ids": ids})[0], model.predict(ids))


def test_a_delta_has_the_rows_that_changed_alone(tmp_path: Path) -> None:
    model = Model()
    exporter = Exporter(tmp_path, ["ids"], [model.click], model.exe)
    for _ in range(5):
        model.step()
    assert exporter.export().rows["table"] > 40
    model.exe.run(feed={"ids": np.array([[[1], [2], [2]]]), "y": np.zeros((1, 1), "float32")}, fetch_list=[model.loss])
    assert exporter.export().rows == {"table": 2}
    assert exporter.export().rows == {"table": 0}


def damages(data: bytes, every: int) -> Iterator[bytes]:
    """Give a file's bytes with one of them changed, for each or every n-th byte; and cut, and longer."""
    random = np.random.RandomState(0)
    for at in range(0, len(data), every):
        changed = bytearray(data)
        changed[at] ^= 1 << random.randint(8)
        yield bytes(changed)
    yield from (data[:len(data) // 2], data[:-1], b"", data + b"x", data[:-8])


def check_damage(folder: Path, answer: Callable[[], list[np.ndarray]], every: dict[str, int]) -> None:
    """Change each file of a folder: then there is an error of ours that names a file, or the same answer."""
    want = answer()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        for changed in damages(data, every.get(path.suffix, 1)):
            path.write_bytes(changed)
            try:
                got = answer()
            except errors.TriremeError as error:
                assert str(folder) in str(error) or "model" in str(error), error
                continue
            assert all(np.array_equal(a, b) for a, b in zip(got, want)), f"another answer with a damaged {path.name}"
        path.write_bytes(data)
    assert all(np.array_equal(a, b) for a, b in zip(answer(), want))


def test_a_damaged_export_is_refused_or_gives_the_same_answers(tmp_path: Path) -> None:
    model = Model()
    exporter = Exporter(tmp_path / "exports", ["ids"], [model.click], model.exe)
    for _ in range(2):
        model.step()
        exporter.export()
    ids = np.arange(-30, 60).reshape(30, 3, 1)

    def answer() -> list[np.ndarray]:
        with Predictor(tmp_path / "exports") as predictor:
            return predictor.run({"ids": ids})

    check_damage(tmp_path / "exports", answer, {".rows": 17, "": 3})


@pytest.mark.parametrize("names", [{}, {"model_filename": "net", "params_filename": "all"}])
def test_a_damaged_saved_model_is_refused_or_gives_the_same_answers(tmp_path: Path, names: dict[str, str]) -> None:
    x = fluid.layers.data("x", [3])
    y = fluid.layers.fc(fluid.layers.fc(x, 4, act="tanh"), 2)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], [y], exe, **names)
    feed = {"x": np.ones((2, 3), "float32")}

    def served() -> list[np.ndarray]:
        with Predictor(tmp_path / "model", **names) as predictor:
            return predictor.run(feed)

    def loaded() -> list[np.ndarray]:
        with fluid.scope_guard(fluid.Scope()):
            program, feeds, targets = fluid.io.load_inference_model(str(tmp_path / "model"), exe, **names)
            return exe.run(program, feed=dict(zip(feeds, feed.values())), fetch_list=targets)

    check_damage(tmp_path / "model", served, {"": 3})
    check_damage(tmp_path / "model", loaded, {"": 7})


def test_parameters_that_are_saved_again_belong_to_the_model(tmp_path: Path) -> None:
    x = fluid.layers.data("x", [3])
    y = fluid.layers.fc(x, 2, param_attr="w", bias_attr=False)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe)
    fluid.global_scope().find_var("w").get_tensor().set(np.full((3, 2), 2, "float32"))
    fluid.io.save_params(exe, str(tmp_path))
    assert Predictor(tmp_path).run({"x": np.ones((1, 3), "float32")})[0].tolist() == [[6, 6]]
    fluid.io.save_program(fluid.default_main_program(), str(tmp_path / "w"))
    with pytest.raises(errors.FormatError, match="w' is damaged: it has [0-9]+ bytes, [0-9]+ were written"):
        Predictor(tmp_path)


def test_an_export_of_an_older_version_is_served_with_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model()
    model.step()
    done = export_model(tmp_path / "exports", ["ids"], [model.click], model.exe)
    Path(done.folder, "__checksums__").unlink()
    (tmp_path / "exports" / "current").write_text("trireme-export 1\nversion 1\nstep 0\nfull full-000000001\n")
    ids = np.arange(-30, 60).reshape(30, 3, 1)
    assert np.array_equal(Predictor(tmp_path / "exports").run({"ids": ids})[0], model.predict(ids))
    assert "without checksums: damage to its files would go unnoticed" in capsys.readouterr().err


def test_a_model_is_served_on_while_its_files_are_cut_or_written_over(tmp_path: Path) -> None:
    """As ``cp`` and ``rsync --inplace`` do: the model that was loaded gives what it gave."""
    model = Model()
    model.step()
    done = export_model(tmp_path / "exports", ["ids"], [model.click], model.exe)
    ids = np.arange(-30, 60).reshape(30, 3, 1)
    predictor = Predictor(tmp_path / "exports")
    want = predictor.run({"ids": ids})[0]
    for path in [*Path(done.folder).iterdir(), tmp_path / "exports" / "current"]:
        size = path.stat().st_size
        for data in (b"", b"x" * size):
            with open(path, "r+b") as file:
                file.truncate(len(data))
                file.write(data)
            assert np.array_equal(predictor.run({"ids": ids})[0], want)
    with pytest.raises(errors.TriremeError, match="current"):
        predictor.refresh()
    assert np.array_equal(predictor.run({"ids": ids})[0], want)


LARGE = """
import faulthandler, os, sys
import numpy as np, trireme as fluid
faulthandler.enable()
ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [1 << 24, 256], is_distributed=True, param_attr=fluid.ParamAttr("table", initializer=fluid.initializer.Uniform(-0.1, 0.1)))
loss = fluid.layers.mean(rows)
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
exe.run(feed={"ids": np.arange(70000).reshape(-1, 1)}, fetch_list=[loss])
done = fluid.serving.export_model("exports", ["ids"], [rows], exe)
path = os.path.join(done.folder, "table.rows")
how, is_leased = sys.argv[1], sys.argv[2] == "leased"
writer = None if is_leased else open(path, "r+b")      # a file that is open for writing cannot be leased
predictor = fluid.serving.Predictor("exports")
faulthandler.enable()
some = np.arange(0, 70000, 1000).reshape(-1, 1)
before = predictor.run({"ids": some})[0]
size = os.path.getsize(path)
assert size > 64 << 20, "it is too small to be mapped"
if how == "cut":
    os.truncate(path, 4096)
else:
    with open(path, "r+b") as file:
        file.write(b"x" * size)
for _ in range(3):
    try:
        print(np.array_equal(predictor.run({"ids": np.arange(70000).reshape(-1, 1)})[0][::1000], before), flush=True)
    except fluid.errors.FileError as error:
        print(str(error).splitlines()[0], flush=True)
"""


@pytest.mark.parametrize("how", ["cut", "over"])
def test_a_mapped_file_that_is_written_over_is_served_as_it_was(tmp_path: Path, how: str) -> None:
    done = subprocess.run([sys.executable, "-c", LARGE, how, "leased"], check=False, cwd=tmp_path, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0 and done.stdout.splitlines() == ["True"] * 3, done
    assert "table.rows' is being written over while it is served: the model goes on with a copy of its 7" in done.stderr, done
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("how", ["cut", "over"])
def test_a_mapped_file_that_cannot_be_leased_and_is_changed_is_an_error_of_the_run(tmp_path: Path, how: str) -> None:
    done = subprocess.run([sys.executable, "-c", LARGE, how, "not"], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 3 and done.stderr == "", done
    assert all("table.rows' was changed in its place while it is served" in line for line in lines)


def test_many_threads_run_one_model(tmp_path: Path) -> None:
    model = Model()
    model.step()
    export_model(tmp_path, ["ids"], [model.click], model.exe)
    ids = np.arange(30).reshape(10, 3, 1)
    expected, failed = model.predict(ids), []
    with Predictor(tmp_path) as predictor:
        def run() -> None:
            for _ in range(50):
                if not np.array_equal(predictor.run({"ids": ids})[0], expected):
                    failed.append("a result differs")
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed


def dense_model(folder: Path, **how: str) -> None:
    x = fluid.layers.data("x", [2])
    y = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(2.0), bias_attr=False)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder), ["x"], [y], exe, **how)


def test_a_saved_model_is_served_from_one_file_or_many(tmp_path: Path) -> None:
    dense_model(tmp_path / "many")
    assert Predictor(tmp_path / "many").run({"x": np.ones((1, 2), "float32")})[0].tolist() == [[4.0]]
    dense_model(tmp_path / "one", model_filename="net", params_filename="weights")
    with pytest.raises(errors.FileError, match="__model__"):
        Predictor(tmp_path / "one")
    assert Predictor(tmp_path / "one", "net", "weights").run({"x": np.ones((1, 2), "float32")})[0].tolist() == [[4.0]]


def test_mistakes_are_named(tmp_path: Path) -> None:
    dense_model(tmp_path / "model")
    predictor = Predictor(tmp_path / "model")
    with pytest.raises(errors.NotFoundError, match=r"feed 'X' is no variable of the model, which is fed x; did you mean 'x'\?"):
        predictor.run({"X": np.ones((1, 2), "float32")})
    with pytest.raises(errors.NotFoundError, match="the feed lacks 'x'"):
        predictor.run({})
    with pytest.raises(errors.DTypeError, match=r"give x\.astype\('float32'\)"):
        predictor.run({"x": np.ones((1, 2))})
    with pytest.raises(errors.ShapeError, match=r"shape \[1, 3\], the model wants \[\?, 2\]"):
        predictor.run({"x": np.ones((1, 3), "float32")})
    predictor.close()
    with pytest.raises(errors.InvalidArgumentError, match="closed"):
        predictor.run({"x": np.ones((1, 2), "float32")})
    with pytest.raises(errors.NotFoundError, match="there is no folder"):
        Predictor(tmp_path / "none")
    model = Model()
    fluid.io.save_inference_model(str(tmp_path / "tables"), ["ids"], [model.click], model.exe)
    with pytest.raises(errors.UnsupportedError, match="was not exported for serving"):
        Predictor(tmp_path / "tables")


@pytest.mark.parametrize(("form", "lines"), [
    ("json", ['{"x": [1, 2]}', "[3, 4]"]), ("csv", ["1,2", "3,4"]), ("multislot", ["2 1 2", "2 3 4"])])
def test_lines_are_predicted(tmp_path: Path, form: str, lines: list[str], capsys: pytest.CaptureFixture[str],
                             monkeypatch: pytest.MonkeyPatch) -> None:
    from trireme.launch.cli import main

    dense_model(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n\n"))
    assert main(["predict", str(tmp_path), "--format", form]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [6.0, 14.0]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n" + {"json": '{"y": 1}', "csv": "1,2,3", "multislot": "3 1 2"}[form]))
    assert main(["predict", str(tmp_path), "--format", form]) == 2
    assert "standard input, line 2: " in capsys.readouterr().err


def test_batches_of_different_sizes_are_told_by_the_feeds(tmp_path: Path) -> None:
    ids, x = fluid.layers.data("ids", [1], dtype="int64", lod_level=1), fluid.layers.data("x", [2])
    both = fluid.layers.concat([fluid.layers.sequence_pool(fluid.layers.cast(ids, "float32"), "sum"), x], axis=1)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["ids", "x"], [both], exe)
    feed = {"ids": fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]]), "x": np.ones((3, 2), "float32")}
    for run in (Predictor(tmp_path / "model").run, lambda feed: exe.run(feed=feed, fetch_list=[both])):
        with pytest.raises(errors.ShapeError, match="the feeds have batches of different sizes: 'ids' has 2, 'x' has 3"):
            run(feed)


def test_lines_that_are_wrong_are_named_and_numbers_keep_their_digits(tmp_path: Path) -> None:
    number = fluid.layers.data("number", [1], dtype="int64")
    small = fluid.layers.scale(fluid.layers.cast(number, "float32"), 1e-12)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["number"], [small], exe)
    with Predictor(str(tmp_path / "model")) as predictor:
        def parsed(line: str) -> list[np.ndarray]:
            return predict._parse(predictor._feeds, "json", ",", 1, line)

        assert [float(line) for line in predict.predict(predictor, [parsed("3")])] == pytest.approx([3e-12])
        for line, text in (("3.5", "'number' is of the type int64, got 3.5"),
                           ('{"numbr": 3}', "which is fed number; did you mean 'number'"),
                           ("u7", """'u7' is no JSON .*expected {"number": ...}"""),
                           ("9223372036854775808", "'number' is of the type int64")):
            with pytest.raises(errors.FormatError, match=text):
                parsed(line)


def piped(folder: Path, text: bytes | None = b"", *options: str, **how: object) -> subprocess.CompletedProcess[bytes]:
    given = {"input": text} if text is not None else {}
    return subprocess.run([sys.executable, "-m", "trireme", "predict", str(folder), *options], check=False, timeout=120,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given, **how})


def test_answers_are_strict_json_whatever_the_model_writes_and_gives(tmp_path: Path) -> None:
    x = fluid.layers.data("x", [1])
    shown = fluid.layers.Print(x, message="\x1b[2J\x9b evil\u009b\x07")
    exe = fluid.Executor()
    fluid.io.save_inference_model(str(tmp_path / "m"), ["x"], [fluid.layers.log(shown)], exe)
    done = piped(tmp_path / "m", b"[1]\n[0]\n[-1]\n")
    refuse = lambda name: pytest.fail(f"{name} is no JSON")
    assert [json.loads(line, parse_constant=refuse) for line in done.stdout.splitlines()] == [0.0, None, None]
    assert done.returncode == 0 and b"evil" in done.stderr and not set(done.stderr) & {0x1b, 0x07} and rb"\x1b[2J" in done.stderr


@pytest.mark.parametrize("line, why", [
    (b"[" * 200000, b"nested too deeply"), (b'{"x": ' * 100000, b"nested too deeply"), (b"[[1], [2, 3]]", b"line 1: "),
    (b"[NaN]", b"NaN is no number"), (b"[-Infinity]", b"-Infinity is no number"), (b"[1e39, 0]", b"1e+39 is no finite number of that"),
    (b'{"x": [1, 2], "x": [3, 4]}', b"line 1: the line has the name 'x' twice"), (b"[[[1], [2, 3]]]", b"'x': its lists differ in length"),
    (b"[1e999, 0]", b"inf is no finite number"), (b"\xff\xfe", b"is no JSON"), (b"[" + b"9" * 6000 + b", 0]", b"line 1: "),
    (b"[]", b"'x' has 0 values; a line is one sample, of 2"), (b"[[1, 2], [3, 4]]", b"'x' has 4 values"),
])
def test_lines_that_are_no_json_are_refused_by_number(tmp_path: Path, line: bytes, why: bytes) -> None:
    dense_model(tmp_path)
    done = piped(tmp_path, line + b"\n")
    assert done.returncode == 2 and why in done.stderr and b"Traceback" not in done.stderr and done.stdout == b"", done
    assert len(done.stderr) < 1000


def test_other_formats_refuse_what_no_number_is(tmp_path: Path) -> None:
    dense_model(tmp_path)
    for form, line in (("csv", b"nan,1"), ("csv", b"1e39,1"), ("multislot", b"2 inf 1")):
        done = piped(tmp_path, line, "--format", form)
        assert done.returncode == 2 and b"standard input, line 1: 'x' is of the type float32" in done.stderr


class Blocks:
    """A stream of which a read gives one block."""

    def __init__(self, blocks: list[bytes]) -> None:
        self.blocks, self.reads = blocks[::-1], 0

    def read(self, fd: int, size: int) -> bytes:
        return self.blocks.pop() if self.blocks else b""


def test_a_long_line_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks are joined at its end, not one by one: the bytes that are copied grow with the line."""
    stream = Blocks([b"1\n2\n3", b"x" * 65536, *[b"y" * 65536] * 3000, b"\n\nlast"])
    lines = predict._Lines(io.StringIO())
    lines._fd = 0
    monkeypatch.setattr(predict.os, "read", stream.read)
    assert [len(line) for line in lines] == [1, 1, 1 + 3001 * 65536, 0, 4]
    monkeypatch.setattr(predict, "_MOST_LINE", 1 << 20)
    lines, stream.blocks = predict._Lines(io.StringIO()), [b"z" * 65536] * 17
    lines._fd = 0
    with pytest.raises(errors.FormatError, match="standard input, line 1: it is longer than 1048576 bytes"):
        next(iter(lines))


def test_an_output_that_is_full_or_closed_is_said_in_one_line(tmp_path: Path) -> None:
    dense_model(tmp_path)
    with open("/dev/full", "wb") as full:
        done = piped(tmp_path, b"[1, 2]\n", stdout=full)
        assert done.returncode == 2 and done.stderr == b"trireme: cannot write standard output: No space left on device\n"
    reading, writing = os.pipe()
    os.close(reading)
    done = piped(tmp_path, b"[1, 2]\n" * 5, stdout=writing)
    os.close(writing)
    assert done.returncode == 128 + 13 and done.stderr == b""
    for redirect, text in ((">&-", b"one of them is closed"), ("<&-", b"one of them is closed")):
        done = subprocess.run(["bash", "-c", f"{sys.executable} -m trireme predict {tmp_path} {redirect}"], check=False,
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode in (0, 2) and b"Traceback" not in done.stderr and (done.returncode == 0
                                                                                  or text in done.stderr), (redirect, done)


def test_sequences_are_predicted(tmp_path) -> None:
    ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
    total = fluid.layers.sequence_pool(fluid.layers.cast(ids, "float32"), "sum")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path / "model"), ["ids"], [total], exe)
    with Predictor(str(tmp_path / "model")) as predictor:
        rows = [predict._parse(predictor._feeds, "multislot", ",", 1, line) for line in ("3 1 2 3", "1 7")]
        assert list(predict.predict(predictor, rows)) == ["6.0", "7.0"]


FOLLOW = """
import sys, time
import numpy as np
import trireme as fluid
folder, data, out = sys.argv[1:]
while True:
    try:
        predictor = fluid.serving.Predictor(folder)
        break
    except fluid.TriremeError:
        time.sleep(0.02)
predictor.follow(0.05)
feed = {"user": np.array([[1]]), "ad": np.array([[2]]), "site": np.array([[3]]), "price": np.ones((1, 1), "float32")}
seen = 0
for line in sys.stdin:                                 # each line asks for what is served now
    click, = predictor.run(feed)
    print(predictor.version, click.item(), flush=True)
with np.load(data) as arrays:
    predictor.refresh()
    np.save(out, predictor.run({name: arrays[name] for name in ("user", "ad", "site", "price")})[0])
"""


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@needs_mpi
@pytest.mark.mpi
def test_the_click_model_of_a_first_hour(tmp_path: Path) -> None:
    """A job of two servers and two trainers stops early by its own area under the curve, goes on from a checkpoint, and is served by a
    process that follows."""
    data, held_out = click_files(tmp_path)
    alone(data, "--held-out", held_out, "--export", tmp_path / "alone", "--history", tmp_path / "alone.csv", script=CLICK)
    words = (data, "--held-out", held_out, "--export", tmp_path / "exports", "--history", tmp_path / "job.csv", "--out",
             tmp_path / "out.npz")
    kept = ("--checkpoint", tmp_path / "kept", "--checkpoint-steps", 10)
    code, text = Launched(2, 2, *words, "--epochs", 2, script=CLICK, options=kept).end()
    assert code == 0 and text.count("step 5: loss=") == 2, text       # once for the job, in each of two epochs

    follower = subprocess.Popen([sys.executable, "-c", FOLLOW, str(tmp_path / "exports"), str(tmp_path / "out.npz"),
                                 str(tmp_path / "served.npy")],
                                env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        seen_from_outside = environment(TRIREME_PROFILE=str(tmp_path / "profile"), TRIREME_LOG_SECONDS="0.3")
        job = Launched(2, 2, *words, "--pause", 0.05, script=CLICK, options=(*kept, "--resume", "--log", tmp_path / "logs"),
                       env=seen_from_outside)
        seen: dict[int, float] = {}

        def follows() -> bool:
            follower.stdin.write("now\n")
            follower.stdin.flush()
            version, click = follower.stdout.readline().split()
            seen[int(version)] = float(click)
            return len(seen) >= 3
        job.wait_for(follows, "three exports that were served")
        code, text = job.end()
        assert code == 0 and "EarlyStopping: the training has ended after epoch" in text, text
        assert len(set(seen.values())) >= 2, seen
        follower.communicate(timeout=60)
    finally:
        follower.kill()
    assert "<h2>The loss" in plot.report(str(tmp_path / "logs"))
    ranks = [path.stem for path in sorted((tmp_path / "profile").iterdir())]
    assert ranks == ["server-0", "server-1", "trainer-0", "trainer-1"]
    merged = traces.merge([str(path) for path in sorted((tmp_path / "profile").iterdir())])["traceEvents"]
    assert {event["pid"] for event in merged if event.get("name") == "lookup_sparse_table"} == {2, 3}
    with np.load(tmp_path / "out.npz") as out:
        assert np.allclose(np.load(tmp_path / "served.npy"), out["click"], rtol=1e-6)
    expected, got = table(tmp_path / "alone.csv"), table(tmp_path / "job.csv")
    assert len(expected) == len(got) < 20
    for a, b in zip(expected, got):
        assert float(a["loss"]) == pytest.approx(float(b["loss"]), abs=1e-3)
        assert float(a["val_auc"]) == pytest.approx(float(b["val_auc"]), abs=2e-3)
    assert float(got[-1]["val_auc"]) > 0.75


def test_a_predictor_waits_for_the_first_export(tmp_path: Path) -> None:
    dense_model(tmp_path / "other")
    late = threading.Timer(0.5, lambda: (tmp_path / "other").rename(tmp_path / "m"))
    late.start()
    assert Predictor(tmp_path / "m", wait=60).feeds == ["x"]
    late.join()
    (tmp_path / "none").mkdir()
    for wait, after in ((0, ""), (0.1, " after 0.1 s")):
        with pytest.raises(errors.FileError, match=r"none': there is neither an export \(a file 'current'\) nor a saved one "
                                                   rf"\('__model__'\){after}\. .*wait=600"):
            Predictor(tmp_path / "none", wait=wait)
    with pytest.raises(errors.NotFoundError, match="there is no folder '.*nowhere'. Where a training is about to export to it, "
                                                   ".*wait=600[^$]*test_serving.py"):
        Predictor(tmp_path / "nowhere")
    with pytest.raises(errors.InvalidArgumentError, match="Predictor: wait=-1; seconds from 0 on are possible"):
        Predictor(tmp_path / "none", wait=-1)
