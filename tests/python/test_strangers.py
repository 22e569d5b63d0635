"""Models, checkpoints and tables of somebody else: they are data, whatever they hold. Nothing runs, and nothing outside is touched."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_mutations import ROUNDS, bytes_changed, damage_one, rounds, value_changed

import trireme as fluid
from trireme import checkpoint, layers
from trireme.launch import cli
from trireme.checkpoint.arrays_file import export
from trireme.core import op_proto, op_types
from trireme.errors import FileError, FormatError, InvalidArgumentError, TriremeError, UnsupportedError

IMPOSSIBLE = {"": "at least one letter", "a\0b": "zero byte", "a\nb": "control character", "a\x1b[2J": "control character",
              "a\udc80": "no valid UTF-8", "x" * 1025: "longer than 1024 bytes"}
LEADS_OUT = ("../secret", "/tmp/secret", "a/../../secret", "a//b", "./a", "a/", "..")


def saved_model(exe, folder, name="w"):
    """A model y = x * w, with one parameter."""
    x = layers.data("x", [3])
    y = layers.elementwise_mul(x, layers.create_parameter([3], "float32", name=name))
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(folder), ["x"], [y], exe)
    return folder


def model_with(folder, change):
    """The model again, with its program changed by `change(block)`."""
    program = fluid.io.load_program(str(folder / "__model__"))
    change(program.global_block())
    (folder / "__model__").write_bytes(program.serialize_to_string())


@pytest.mark.parametrize("name, text", IMPOSSIBLE.items(), ids=ascii)
def test_impossible_names_are_refused_where_they_enter(exe, name, text):
    block = fluid.default_main_program().global_block()
    x = layers.data("x", [1])
    for enter in (lambda: block.create_var(name=name, shape=[1]), lambda: fluid.global_scope().var(name),
                  lambda: block.desc.rename_var("x", name),
                  lambda: block.append_op(type="relu", inputs={"X": x}, outputs={"Out": [name]})):
        with pytest.raises(InvalidArgumentError, match=text):
            enter()
    assert len(block.ops) == 0 and list(block.vars) == ["x"]


@pytest.mark.parametrize("name", ["a/b", "größe", "fc_0.w_0@GRAD", "a b", "x" * 1024])
def test_possible_names_are_kept(name):
    block = fluid.default_main_program().global_block()
    block.create_var(name=name, shape=[1], dtype="float32")
    again = fluid.Program.parse_from_string(fluid.default_main_program().serialize_to_string())
    assert again.global_block().has_var(name) and fluid.global_scope().var(name).name == name


@pytest.mark.parametrize("old, new", [(b"secret", b"sec\0et"), (b"secret", b"sec\net"), (b"secret", b"sec\xffet")])
def test_impossible_names_in_the_bytes_of_a_program_are_refused(old, new):
    fluid.default_main_program().global_block().create_var(name="secret", shape=[1], dtype="float32")
    data = fluid.default_main_program().serialize_to_string()
    assert old in data
    with pytest.raises(FormatError, match="zero byte|control character|no valid UTF-8"):
        fluid.Program.parse_from_string(data.replace(old, new))


@pytest.mark.parametrize("name", LEADS_OUT)
def test_no_name_leads_out_of_the_folder(exe, tmp_path, name):
    (tmp_path / "secret").write_bytes(b"mine")
    layers.create_parameter([1], "float32", name=name)
    exe.run(fluid.default_startup_program())
    inside = tmp_path / "model" / "deep"
    for go in (fluid.io.save_persistables, fluid.io.load_persistables):
        with pytest.raises(InvalidArgumentError, match="is no name of a file in"):
            go(exe, str(inside))
    assert (tmp_path / "secret").read_bytes() == b"mine" and not Path("/tmp/secret").exists()


def test_a_slash_in_a_name_is_a_folder(exe, tmp_path):
    layers.create_parameter([2], "float32", name="encoder/layer_0/w", default_initializer=fluid.initializer.Constant(3.0))
    exe.run(fluid.default_startup_program())
    fluid.io.save_persistables(exe, str(tmp_path))
    assert (tmp_path / "encoder" / "layer_0" / "w").is_file()
    with fluid.scope_guard(fluid.Scope()):
        fluid.io.load_persistables(exe, str(tmp_path))
        assert fluid.fetch_var("encoder/layer_0/w").tolist() == [3.0, 3.0]


@pytest.mark.parametrize("link", ["w", "__model__", "folder"])
def test_no_symbolic_link_leads_out_of_the_folder(exe, tmp_path, link):
    model = saved_model(exe, tmp_path / "model", "sub/w" if link == "folder" else "w")
    if link == "folder":
        shutil.move(model / "sub", tmp_path / "outside")
        (model / "sub").symlink_to(tmp_path / "outside")
    else:
        shutil.move(model / link, tmp_path / "outside")
        (model / link).symlink_to("../outside")
    with fluid.scope_guard(fluid.Scope()), pytest.raises(InvalidArgumentError, match="symbolic link on the way leads out"):
        fluid.io.load_inference_model(str(model), exe)


def test_links_that_stay_in_the_folder_are_followed_and_the_folder_may_be_one(exe, tmp_path):
    model = saved_model(exe, tmp_path / "model")
    shutil.move(model / "w", model / "v")
    (model / "w").symlink_to("v")
    (tmp_path / "link").symlink_to(model)
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = fluid.io.load_inference_model(str(tmp_path / "link"), exe)
        assert exe.run(program, feed={feeds[0]: np.ones([1, 3], "float32")}, fetch_list=targets)[0].shape == (1, 3)


# -- operators that reach out -----------------------------------------------------------------------------------------

REACH = {"save", "save_combine", "load", "load_combine", "send", "recv", "send_barrier", "fetch_barrier", "recv_wait", "listen_and_serv",
         "prefetch", "pull_sparse", "push_sparse", "pushed_rows", "exchange_deltas", "exchange_squares", "keep_variables", "py_func",
         "send_sets"}


def test_records_say_which_operators_reach_out():
    assert {name for name in op_types() if op_proto(name).io} == REACH


def test_a_model_that_writes_a_file_is_refused_unless_it_may(exe, tmp_path):
    model, target = saved_model(exe, tmp_path / "model"), tmp_path / "written"
    model_with(model, lambda block: block.append_op(type="save", inputs={"X": ["w"]}, attrs={"file_path": str(target)}))
    for load in (lambda: fluid.io.load_inference_model(str(model), exe), lambda: fluid.io.load_program(str(model / "__model__"))):
        with pytest.raises(UnsupportedError, match=r"operator \d+ \(save\) reads or writes files.*allow_io=True"):
            load()
    program, feeds, targets = fluid.io.load_inference_model(str(model), exe, allow_io=True)
    assert not target.exists()
    exe.run(program, feed={feeds[0]: np.ones([1, 3], "float32")}, fetch_list=targets)
    assert target.exists()


def test_an_operator_in_a_block_of_a_model_is_found_too(exe, tmp_path):
    model = saved_model(exe, tmp_path / "model")

    def change(block):
        inner = block.program._create_block()
        inner.append_op(type="load", outputs={"Out": ["w"]}, attrs={"file_path": "/etc/passwd"})
        block.program._rollback()

    model_with(model, change)
    with pytest.raises(UnsupportedError, match=r"block 1, operator 0 \(load\)"):
        fluid.io.load_inference_model(str(model), exe)


def test_a_variable_called_as_the_programs_file_is_refused(exe, tmp_path):
    with pytest.raises(InvalidArgumentError, match="a variable is called '__model__'"):
        saved_model(exe, tmp_path, "__model__")
    assert not (tmp_path / "__model__").exists()


# -- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_models_are_loaded_or_refused(exe, tmp_path):
    whole = saved_model(exe, tmp_path / "whole")
    for rng in rounds():
        folder = tmp_path / "model"
        shutil.copytree(whole, folder)
        damage_one(rng, folder, bytes_changed)
        with fluid.scope_guard(fluid.Scope()):
            try:
                fluid.io.load_inference_model(str(folder), exe)
            except TriremeError:
                pass
        shutil.rmtree(folder)


@pytest.fixture
def table(exe, tmp_path):
    """A saved sparse table with some rows; its folder."""
    ids = layers.data("ids", [1], dtype="int64", lod_level=1)
    loss = layers.mean(layers.sequence_pool(layers.embedding(ids, [1 << 40, 4], is_distributed=True,
                                                             param_attr=fluid.ParamAttr(name="t")), "sum"))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    exe.run(feed={"ids": fluid.create_lod_tensor([[1, 2, 3, 4]], [[4]])}, fetch_list=[loss])
    fluid.io.save_persistables(exe, str(tmp_path / "whole"))
    return tmp_path / "whole" / "t"


def json_changed(rng, data):
    return json.dumps(value_changed(rng, json.loads(data))).encode() if data[:1] == b"{" else bytes_changed(rng, data)


def test_damaged_tables_are_loaded_or_refused(exe, table, tmp_path):
    for rng in rounds(ROUNDS // 2):
        folder = tmp_path / "model"
        shutil.copytree(table.parent, folder)
        damage_one(rng, folder / "t", bytes_changed, json_changed)
        with fluid.scope_guard(fluid.Scope()):
            try:
                fluid.io.load_persistables(exe, str(folder))
            except TriremeError:
                pass
        shutil.rmtree(folder)


@pytest.mark.parametrize("name, content, text", [
    ("about.json", b"", "about.json' is damaged: JSONDecodeError"), ("about.json", b"{}", "about.json' is damaged: KeyError"),
    ("about.json", b"\xff", "about.json' is damaged: UnicodeDecodeError"), ("rows-0192.npy", b"", "rows-0192.npy' is damaged: ValueError")])
def test_a_damaged_table_is_named(exe, table, name, content, text):
    (table / name).write_bytes(content)
    with fluid.scope_guard(fluid.Scope()), pytest.raises(FormatError, match=text):
        fluid.io.load_persistables(exe, str(table.parent))


# -- what is no regular file ------------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["__model__", "w"])
def test_a_fifo_in_a_model_is_refused_by_name(exe, tmp_path, name):
    model = saved_model(exe, tmp_path / "model")
    (model / name).unlink()
    os.mkfifo(model / name)
    with pytest.raises(FileError, match=f"{name}' is no regular file, but a FIFO"):
        fluid.io.load_inference_model(str(model), exe)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["about.json", "rows-0000.npy"])
def test_a_fifo_in_a_table_is_refused_by_name(exe, table, name):
    (table / name).unlink()
    os.mkfifo(table / name)
    with fluid.scope_guard(fluid.Scope()), pytest.raises(FileError, match=f"{name}' is no regular file, but a FIFO"):
        fluid.io.load_persistables(exe, str(table.parent))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["FIFO", "folder", "link"])
@pytest.mark.parametrize("what", ["manifest", "part"])
def test_a_checkpoint_with_something_else_in_it_is_refused_by_name(exe, tmp_path, capsys, kind, what):
    layers.fc(layers.data("x", [2]), 1)
    exe.run(fluid.default_startup_program())
    folder = Path(fluid.io.save_checkpoint(exe, str(tmp_path / "c"), step=1))
    path = folder / "manifest" if what == "manifest" else next(folder.glob("part-*"))
    path.rename(tmp_path / "outside")
    {"FIFO": lambda: os.mkfifo(path), "folder": path.mkdir, "link": lambda: path.symlink_to(tmp_path / "outside")}[kind]()
    text = "leads out of the folder" if kind == "link" else f"{path.name}' is no regular file, but a {kind}"
    with pytest.raises(TriremeError, match=text):
        fluid.io.load_checkpoint(exe, str(tmp_path / "c"))
    assert cli.main(["checkpoint", "list", str(tmp_path / "c")]) == 0 and text in capsys.readouterr().out
    assert cli.main(["checkpoint", "verify", str(tmp_path / "c")]) == 1 and text in capsys.readouterr().out


# -- what a killed process has left -----------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from trireme.native import files
with files.{how}(sys.argv[1]) as made:
    (made[1] if isinstance(made, tuple) else made).write(b"half")
    print("written", flush=True)
    sys.stdin.read()
"""


def writer(how, path):
    """A process in the middle of writing: it is gone when it is killed, or ends well when its input ends."""
    process = subprocess.Popen([sys.executable, "-c", KILLED.format(how=how), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"written\n"
    return process


@pytest.mark.parametrize("how", ["new_file", "new_folder"])
def test_partial_files_of_a_killed_writer_are_removed_by_the_next_one(tmp_path, how):
    path = tmp_path / "t"
    killed = writer(how, path)
    killed.kill()
    killed.communicate()
    (tmp_path / "t.77.part").mkdir()                   # a table, of a version that named the process
    (tmp_path / "t.mine.part").write_text("")
    assert len(list(tmp_path.iterdir())) == 3
    alive = writer(how, path)
    assert len(list(tmp_path.iterdir())) == 2
    other = writer(how, path)                          # two at once leave each other in peace
    assert len(list(tmp_path.iterdir())) == 3
    for process in (alive, other):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["t", "t.mine.part"]


def test_a_table_is_saved_over_what_a_killed_process_left(exe, table):
    left = table.with_name("t.0123456789abcdef.part")
    left.mkdir()
    (left / "about.json").write_text("{")
    fluid.io.save_persistables(exe, str(table.parent))
    assert not left.exists() and sorted(os.listdir(table))[0] == "about.json" and len(os.listdir(table)) == 17


@pytest.mark.parametrize("how", ["table", "program", "export"])
def test_a_full_disk_leaves_no_part_and_the_old_file(exe, table, tmp_path, how):
    """By a limit of the size of files; what was there stays."""
    fluid.io.save_checkpoint(exe, str(tmp_path / "c"), step=1)
    kept = checkpoint.find(tmp_path / "c")
    write = {"table": lambda: fluid.io.save_persistables(exe, str(table.parent)),
             "export": lambda: export(kept, str(tmp_path / "a.npz")),
             "program": lambda: fluid.io.save_program(fluid.default_main_program(), str(tmp_path / "p"))}[how]
    write()

    def files():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    before, handler, limit = files(), signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limit[1]))
    try:
        with pytest.raises(FileError, match="cannot write.*File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert files() == before
