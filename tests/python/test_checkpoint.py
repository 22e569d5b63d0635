"""Checkpoints of one process: written, read, exported, looked at from the command line."""

import json
import os
import shutil

import numpy as np
import pytest
from json_support import checked

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.launch import cli
from trireme import core, layers
from trireme.errors import NotFoundError


def model(width=3):
    """Dropout, a schedule, moving averages: everything that has a state of its own."""
    x, y = layers.data("x", [4]), layers.data("y", [1])
    hidden = layers.batch_norm(layers.dropout(layers.fc(x, width, act="relu"), 0.5))
    loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1), y))
    fluid.optimizer.Adam(layers.exponential_decay(0.1, 3, 0.5)).minimize(loss)
    return loss


def train(exe, loss, first, steps):
    losses = []
    for step in range(first, first + steps):
        rng = np.random.default_rng(step)
        feed = {"x": rng.standard_normal((5, 4)).astype("float32"), "y": np.ones((5, 1), "float32")}
        losses.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
    return losses


def kept():
    return {var.name: fluid.fetch_var(var.name).copy() for var in
            checkpoints.state_variables(fluid.default_main_program())}


def flip(folder, name, at):
    path = next(folder.glob(name))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    return path


def test_a_training_that_goes_on_ends_like_one_that_did_not_stop(exe, tmp_path):
    loss = model()
    exe.run(fluid.default_startup_program())
    train(exe, loss, 0, 4)
    assert fluid.io.save_checkpoint(exe, str(tmp_path)) == str(tmp_path / "step-000000004")
    losses, values = train(exe, loss, 4, 5), kept()
    with fluid.scope_guard(fluid.Scope()):
        again = fluid.Executor()
        loaded = fluid.io.load_checkpoint(again, str(tmp_path))
        assert (loaded.step, loaded.mode, loaded.refused) == (4, "local", [])
        assert train(again, loss, loaded.step, 5) == losses
        for name, value in kept().items():
            np.testing.assert_array_equal(value, values[name], err_msg=name)


def test_arrays_say_what_they_are(exe, tmp_path):
    loss = model()
    exe.run(fluid.default_startup_program())
    train(exe, loss, 0, 1)
    fluid.io.save_checkpoint(exe, str(tmp_path), step=9, position=b"file 3, line 5")
    one = checkpoints.newest(tmp_path)
    assert one.trainer() == (9, 1, b"file 3, line 5") and one.trainer(1) == (0, 0, None)
    assert one.arrays.keys() == kept().keys()
    kinds = {name: array.kind for name, array in one.arrays.items()}
    assert kinds["fc_0.w_0"] == kinds["batch_norm_0.b_0"] == "parameter"
    assert kinds["fc_0.w_0_moment1_0"] == kinds["fc_0.w_0_beta1_pow_acc_0"] == "optimizer"
    assert kinds["@LR_DECAY_COUNTER@"] == "schedule"
    assert kinds["batch_norm_0.w_1"] == "statistic"
    assert one.arrays["fc_0.w_0_moment1_0"].param == "fc_0.w_0" and one.arrays["fc_0.w_0"].param is None
    assert repr(one.arrays["fc_0.w_0"]) == "fc_0.w_0: float32[4, 3], parameter"
    np.testing.assert_array_equal(one["fc_0.w_0"], fluid.fetch_var("fc_0.w_0"))
    assert "fc_0.w_0" in one and "fc_9.w_0" not in one
    assert one.digest == checkpoints.digest_of(fluid.default_main_program())


def test_inference_takes_the_parameters_alone(exe, tmp_path):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        loss = model()
        exe.run(fluid.default_startup_program())
        train(exe, loss, 0, 1)
        fluid.io.save_checkpoint(exe, str(tmp_path))
        weight = fluid.fetch_var("fc_0.w_0").copy()
    with fluid.unique_name.guard():
        out = layers.fc(layers.data("x", [4]), 3, bias_attr=False)
    scope = fluid.Scope()
    fluid.io.load_checkpoint(scope, str(tmp_path))
    got, = exe.run(feed={"x": np.eye(4, dtype="float32")}, fetch_list=[out], scope=scope)
    np.testing.assert_array_equal(got, weight)
    assert scope.find_var("fc_0.w_0_moment1_0") is None


def test_the_newest_ones_stay(exe, tmp_path):
    model()
    exe.run(fluid.default_startup_program())
    for step in range(5):
        fluid.io.save_checkpoint(exe, str(tmp_path), step=step, keep=2)
    assert checkpoints.steps(tmp_path) == [4, 3]
    assert checkpoints.find(tmp_path, 3).step == checkpoints.find(tmp_path / "step-000000003").step == 3


def test_a_damaged_one_is_named_and_the_one_before_it_taken(exe, tmp_path):
    model()
    exe.run(fluid.default_startup_program())
    for step in (1, 2):
        fluid.io.save_checkpoint(exe, str(tmp_path), step=step)
    path = flip(tmp_path / "step-000000002", "part-*", 7)
    loaded = fluid.io.load_checkpoint(exe, str(tmp_path))
    assert loaded.step == 1 and len(loaded.refused) == 1
    assert f"'{path}': chunk 0 (bytes 0 to " in loaded.refused[0] and "expected the checksum" in loaded.refused[0]
    with pytest.raises(core.TriremeError, match="chunk 0"):
        fluid.io.load_checkpoint(exe, str(tmp_path), step=2)
    shutil.rmtree(tmp_path / "step-000000001")
    with pytest.raises(NotFoundError, match="chunk 0"):
        fluid.io.load_checkpoint(exe, str(tmp_path))


def test_another_program_is_refused_and_changes_nothing(exe, tmp_path):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        model()
        exe.run(fluid.default_startup_program())
        fluid.io.save_checkpoint(exe, str(tmp_path))
    with fluid.unique_name.guard():
        model(width=5)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(fluid.default_startup_program())
        before = kept()
        with pytest.raises(ValueError, match=r"has the shape \[3\], the program wants \[5\]"):
            fluid.io.load_checkpoint(exe, str(tmp_path))
        assert all(np.array_equal(value, before[name]) for name, value in kept().items())
    other = fluid.Program()
    other.global_block().create_var(name="new", shape=[2], dtype="float32", persistable=True)
    with pytest.raises(core.TriremeError, match="has no 'new', which the program keeps"):
        fluid.io.load_checkpoint(exe, str(tmp_path), other)


@pytest.mark.parametrize("call, message", [
    (lambda exe, path: fluid.io.save_checkpoint(fluid.Scope(), path), "expected an Executor"),
    (lambda exe, path: fluid.io.load_checkpoint(3, path), "expected an Executor or a Scope"),
    (lambda exe, path: fluid.io.save_checkpoint(exe, path, step=-1), "step=-1"),
    (lambda exe, path: fluid.io.save_checkpoint(exe, path, "main"), "main_program must be a Program"),
    (lambda exe, path: fluid.io.save_checkpoint(exe, path), "has no value: run the startup program"),
    (lambda exe, path: fluid.io.load_checkpoint(exe, path), "there is no checkpoint in"),
])
def test_mistakes_are_explained(exe, tmp_path, call, message):
    model()
    with fluid.scope_guard(fluid.Scope()), pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        call(exe, str(tmp_path))
    assert not list(tmp_path.iterdir())


# -- for others ----------------------------------------------------------------------------------------------------


def parse_safetensors(path):
    """By the format's description: u64 size of a header in JSON, the header, the data."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    types = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    meta = header.pop("__metadata__")
    arrays, ends = {}, []
    for name, one in header.items():
        begin, end = one["data_offsets"]
        ends.append((begin, end))
        arrays[name] = np.frombuffer(data[8 + size + begin:8 + size + end], types[one["dtype"]]).reshape(one["shape"])
    assert (8 + size) % 8 == 0
    ends.sort()                                        # without gaps, to the end of the file
    assert [a for a, _ in ends] == [0, *(b for _, b in ends[:-1])] and ends[-1][1] == len(data) - 8 - size
    return meta, arrays


def test_export(exe, tmp_path, capsys):
    loss = model()
    exe.run(fluid.default_startup_program())
    train(exe, loss, 0, 2)
    folder, values = str(tmp_path / "c"), None
    fluid.io.save_checkpoint(exe, folder)
    values = kept()
    assert cli.main(["checkpoint", "export", folder, "--out", str(tmp_path / "all.npz")]) == 0
    assert f"{len(values)} arrays of step 2" in capsys.readouterr().out
    with np.load(tmp_path / "all.npz") as got:
        assert set(got) == set(values)
        for name in got:
            np.testing.assert_array_equal(got[name], values[name])
    out = tmp_path / "parameters.safetensors"
    assert cli.main(["checkpoint", "export", folder, "--parameters", "--step", "2", "--out", str(out)]) == 0
    meta, got = parse_safetensors(out)
    assert meta["step"] == "2"
    assert set(got) == {param.name for param in fluid.default_main_program().all_parameters() if param.trainable}
    for name, array in got.items():
        np.testing.assert_array_equal(array, values[name])
    assert cli.main(["checkpoint", "export", folder, "--out", str(tmp_path / "nowhere" / "x.npz")]) == 2
    assert f"cannot write '{tmp_path}/nowhere/x.npz': No such file or directory" in capsys.readouterr().err
    assert cli.main(["checkpoint", "export", folder, "--out", str(tmp_path / "x.txt")]) == 2
    assert "must end with .npz or .safetensors" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["all.npz", "c", "parameters.safetensors"]


def test_list_and_verify(exe, tmp_path, capsys):
    model()
    exe.run(fluid.default_startup_program())
    assert cli.main(["checkpoint", "list", str(tmp_path)]) == 1
    assert cli.main(["checkpoint", "verify", str(tmp_path)]) == 1
    capsys.readouterr()
    assert cli.main(["checkpoint", "list", str(tmp_path), "--json"]) == 1
    assert checked("checkpoint-list", capsys.readouterr().out)["checkpoints"] == []
    for step in (5, 6):
        fluid.io.save_checkpoint(exe, str(tmp_path), step=step)
    capsys.readouterr()
    assert cli.main(["checkpoint", "verify", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("valid") == 2
    flip(tmp_path / "step-000000006", "part-*", 3)
    flip(tmp_path / "step-000000005", "manifest", 30)
    assert cli.main(["checkpoint", "list", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    run = fluid.checkpoint.Checkpoint(str(tmp_path / "step-000000006")).run
    assert cli.main(["checkpoint", "list", str(tmp_path), "--json"]) == 0
    good, bad = checked("checkpoint-list", capsys.readouterr().out)["checkpoints"]
    assert (good["step"], good["mode"], good["run"]["number"], bad["step"]) == (6, "local", f"{run:016x}", 5)
    assert "manifest" in bad["damaged"]
    assert lines[0].endswith("  run") and f"  {run >> 40:06x}, began 20" in lines[1]
    assert lines[1].split()[0] == "6" and "local" in lines[1] and "5  damaged: " in lines[2]
    assert cli.main(["checkpoint", "verify", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "step-000000006: damaged: " in text and "chunk 0" in text and "manifest" in text
    assert cli.main(["checkpoint", "verify", str(tmp_path / "step-000000006")]) == 1
