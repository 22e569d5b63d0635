"""Models in object stores: saved whole or not at all, loaded, exported and followed."""

import os
import subprocess
import sys

import numpy as np
import pytest
from store_support import BUCKET, find_store, proxied, the_server

import trireme as fluid
from trireme.stores import copies, folders, saves, writing

pytest.importorskip("pyarrow")


@pytest.fixture
def store(monkeypatch):
    return find_store(the_server(), monkeypatch)


def made():
    """A trained program: what it is fed, its guess, and its executor."""
    x = fluid.layers.data("x", [2])
    guess = fluid.layers.fc(x, 1, name="line")
    loss = fluid.layers.mean(guess)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return x, guess, loss, exe


FED = {"x": np.array([[1, 2], [3, 4]], "float32")}


def test_models_are_saved_to_a_store_and_loaded_from_it(store):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/model"
    fluid.io.save_inference_model(uri, ["x"], [guess], exe, slots=[x])
    assert sorted(files_of(uri)) == ["__model__", "__model__.slots", "__saved__", "line.b_0", "line.w_0"]
    fluid.io.save_persistables(exe, f"s3://{BUCKET}/state")
    wanted, = exe.run(fluid.default_main_program().clone(for_test=True), feed=FED, fetch_list=[guess])
    exe.run(feed=FED, fetch_list=[loss])
    fluid.io.load_persistables(exe, f"s3://{BUCKET}/state")
    again, = exe.run(fluid.default_main_program().clone(for_test=True), feed=FED, fetch_list=[guess])
    assert np.array_equal(wanted, again)
    program, feeds, targets = fluid.io.load_inference_model(uri, exe)
    assert np.array_equal(exe.run(program, feed={feeds[0]: FED["x"]}, fetch_list=targets)[0], wanted)
    with fluid.serving.Predictor(uri) as predictor:
        assert np.array_equal(predictor.run(FED)[0], wanted)
        assert np.array_equal(predictor.run_rows([{"x": row} for row in FED["x"]])[0], wanted)
    fluid.io.save_program(program, f"s3://{BUCKET}/net")
    assert str(fluid.io.load_program(f"s3://{BUCKET}/net")) == str(program)
    with pytest.raises(fluid.core.NotFoundError, match=f"s3://{BUCKET}/none"):
        fluid.io.load_program(f"s3://{BUCKET}/none")
    weights = next(name for name, _ in folders.list_files(uri) if name.endswith("/line.w_0"))
    store.put(f"model/{weights}", store.get(f"model/{weights}")[:-1] + b"\1")
    with pytest.raises(fluid.core.TriremeError, match=rf"{uri}.*line.w_0"):
        fluid.serving.Predictor(uri)
    with pytest.raises(ValueError, match=f"there is no folder 's3://{BUCKET}/none'"):
        fluid.io.load_inference_model(f"s3://{BUCKET}/none", exe)
    with pytest.raises(fluid.core.NotFoundError, match=f"s3://{BUCKET}/none"):
        fluid.serving.Predictor(f"s3://{BUCKET}/none")


def files_of(uri):
    """The names of files in a folder, without those of its saves."""
    return [name.rpartition("/")[2] for name, _ in folders.list_files(uri)]


def loaded(exe, uri):
    """The weights that a folder has."""
    fluid.io.load_persistables(exe, uri)
    return np.array(fluid.global_scope().find_var("line.w_0").get_tensor()).tolist()


@pytest.mark.parametrize("kind", ["model", "export"])
def test_a_save_that_fails_at_any_request_leaves_the_one_before(store, monkeypatch, kind):
    """From each request on in turn, the store refuses what it is asked."""
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/fails-{kind}"
    test = fluid.default_main_program().clone(for_test=True)
    exporter = fluid.serving.Exporter(uri, ["x"], [guess], exe, keep_seconds=0)
    save = exporter.export if kind == "export" else lambda: fluid.io.save_inference_model(uri, ["x"], [guess], exe)

    def expect(wanted):
        with fluid.serving.Predictor(uri) as predictor:
            assert predictor.run(FED)[0].tolist() == wanted

    def guessed():
        return exe.run(test, feed=FED, fetch_list=[guess])[0].tolist()

    with proxied(store, monkeypatch) as proxy:
        save()
        before, fails, is_saved = guessed(), 0, False
        while not is_saved:
            exe.run(feed=FED, fetch_list=[loss])
            first, fails = len(proxy.requests) + fails, fails + 1
            proxy.fault = lambda at, verb, path, first=first: "refuse" if at >= first else None
            try:
                save()
                is_saved = True                            # what is old now is still there
            except fluid.core.FileError:
                pass
            proxy.fault = lambda at, verb, path: None
            expect(guessed() if is_saved else before)
    assert fails > 5
    save()
    names = files_of(uri)
    assert kind == "export" or len(names) == len(set(names)), names            # nothing is left of the saves before


def test_files_of_several_saves_lie_in_one_folder(store, tmp_path):
    """Of each name the newest counts, also where files lie in the folder itself, as earlier versions wrote them."""
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/several"
    fluid.io.save_persistables(exe, str(tmp_path))
    folders.upload_folder(str(tmp_path), uri)
    first = loaded(exe, uri)
    exe.run(feed=FED, fetch_list=[loss])
    fluid.io.save_vars(exe, uri, vars=["line.w_0"])
    second = loaded(exe, uri)
    assert second != first and sorted(files_of(uri)) == ["__saved__", "learning_rate_0", "line.b_0", "line.w_0"]
    exe.run(feed=FED, fetch_list=[loss])
    fluid.io.save_vars(exe, uri, vars=["line.b_0"])
    assert loaded(exe, uri) == second and files_of(uri).count("__saved__") == 2
    exe.run(feed=FED, fetch_list=[loss])
    fluid.io.save_persistables(exe, uri)
    assert loaded(exe, uri) != second and sorted(files_of(uri)) == ["__saved__", "learning_rate_0", "line.b_0", "line.w_0"]


def test_a_file_of_a_save_that_is_not_there_is_named(store):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/lacks"
    fluid.io.save_persistables(exe, uri)
    weights = next(name for name, _ in folders.list_files(uri) if name.endswith("/line.w_0"))
    writing.remove(f"{uri}/{weights}")
    with pytest.raises(fluid.core.FormatError, match=f"{uri}/{weights} is damaged: .* none are there"):
        fluid.io.load_persistables(exe, uri)


def test_parameters_are_saved_beside_a_model_whose_program_has_another_name(store):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/net"
    fluid.io.save_inference_model(uri, ["x"], [guess], exe, model_filename="net.bin")
    exe.run(feed=FED, fetch_list=[loss])
    fluid.io.save_params(exe, uri)
    wanted, = exe.run(fluid.default_main_program().clone(for_test=True), feed=FED, fetch_list=[guess])
    program, feeds, targets = fluid.io.load_inference_model(uri, exe, model_filename="net.bin")
    assert np.array_equal(exe.run(program, feed={feeds[0]: FED["x"]}, fetch_list=targets)[0], wanted)


def test_a_save_whose_files_another_writer_removes_fails(store, monkeypatch):
    """The other one begins later and ends first: for it the files belong to a save that never became complete."""
    x, guess, loss, exe = made()
    uri, upload, turns = f"s3://{BUCKET}/writers", saves.upload_folder, []

    def late(path, folder):
        names = upload(path, folder)
        if not turns:
            turns.append(exe.run(feed=FED, fetch_list=[loss]))
            fluid.io.save_params(exe, uri)
        return names

    monkeypatch.setattr(saves, "upload_folder", late)
    with pytest.raises(fluid.core.FileError, match=rf"{uri}/save-\S*1-\S*/learning_rate_0 was removed before the save was complete"):
        fluid.io.save_persistables(exe, uri)
    fluid.io.load_params(exe, uri)


def test_the_name_of_a_saves_list_is_refused(store):
    fluid.layers.create_parameter([1], "float32", name="__saved__")
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    with pytest.raises(fluid.core.InvalidArgumentError, match=f"s3://{BUCKET}/names/__saved__ cannot be saved"):
        fluid.io.save_params(exe, f"s3://{BUCKET}/names")


def test_a_save_that_is_replaced_while_it_is_read_is_read_again(store, monkeypatch):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/again"
    fluid.io.save_persistables(exe, uri)
    first, take, turns = loaded(exe, uri), saves._take, []

    def replaced(*args):
        if not turns:
            turns.append(exe.run(feed=FED, fetch_list=[loss]))
            fluid.io.save_persistables(exe, uri)
        return take(*args)

    monkeypatch.setattr(saves, "_take", replaced)
    assert loaded(exe, uri) != first and turns


def test_a_predictor_follows_exports_to_a_store(store):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/serving"
    exporter = fluid.serving.Exporter(uri, ["x"], [guess], exe, full_every=2, keep_seconds=0)
    test = fluid.default_main_program().clone(for_test=True)
    exporter.export()
    with fluid.serving.Predictor(uri) as predictor:
        for version in range(2, 5):
            exe.run(feed=FED, fetch_list=[loss])
            assert exporter.export().folder.startswith(uri)
            assert predictor.refresh() and not predictor.refresh() and predictor.version == version
            assert np.array_equal(predictor.run(FED)[0], exe.run(test, feed=FED, fetch_list=[guess])[0])
    parts = {name.partition("/")[0] for name, _ in folders.list_files(uri)}
    assert parts == {"current", "full-000000003", "delta-000000004"}
    assert fluid.serving.Exporter(uri, ["x"], [guess], exe).export().version == 5


def test_an_export_that_is_replaced_while_it_is_copied_is_copied_again(store, monkeypatch):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/replaced"
    exporter = fluid.serving.Exporter(uri, ["x"], [guess], exe)
    exporter.export()
    with fluid.serving.Predictor(uri) as predictor:
        exporter.export()
        copied, real = [], copies.download

        def cut(name, path):
            real(name, path)
            copied.append(name)
            if len(copied) == 1:
                os.truncate(path, os.path.getsize(path) - 3)
        monkeypatch.setattr(copies, "download", cut)
        assert predictor.refresh() and predictor.version == 2 and len(copied) == 2
        store.put("replaced/current", b"no export")
        with pytest.raises(fluid.core.FormatError, match=f"{uri}/current"):
            predictor.refresh()


ENDS = """
import os, sys
import trireme as fluid
predictor = fluid.serving.Predictor(sys.argv[1])
if os.fork() == 0:
    sys.exit()                                             # as any program ends
os.wait()
print(os.path.exists(predictor._mirror.path), predictor._mirror.path)
"""


def test_a_copy_is_removed_by_the_process_that_made_it(store):
    x, guess, loss, exe = made()
    uri = f"s3://{BUCKET}/forked"
    fluid.serving.export_model(uri, ["x"], [guess], exe)
    done = subprocess.run([sys.executable, "-c", ENDS, uri], check=True, capture_output=True, text=True, timeout=60)
    was_there, path = done.stdout.split()
    assert was_there == "True" and not os.path.exists(path)
