"""Servers read their own parts of the checkpoint that a job goes on from."""

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from trireme.launch.programs import server_program

from job_support import environment, launch, launch_command, launch_under_mpi
from simulated_jobs import simulate

pytestmark = pytest.mark.mpi

SCRIPT = """
import sys

import numpy as np
import trireme as fluid

WIDTH, ROWS = 128, 20000
ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [1 << 24, WIDTH], is_distributed=True, param_attr=fluid.ParamAttr(name="table"))
x = fluid.layers.data("x", [8])
loss = fluid.layers.mean(rows) + fluid.layers.mean(fluid.layers.fc(x, 1000, param_attr=fluid.ParamAttr(name="w")))
fluid.optimizer.Adagrad(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
rng = np.random.default_rng(5)


def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024


before = peak()
for step in range(int(sys.argv[1])):
    feed = {"ids": rng.permutation(ROWS).reshape(-1, 1), "x": np.ones((4, 8), np.float32)}
    if step == 2:
        feed["ids"] = feed["ids"][:16]
    exe.run(feed=feed, fetch_list=[loss])
if fluid.distributed.trainer_index() == 0:
    print("trainer 0 grew by MB:", peak() - before, flush=True)
"""


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A script, and a checkpoint of its second step, by four servers: a table of 20 MB with its states."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "script.py").write_text(SCRIPT)
    launch_under_mpi(4, 1, 2, script=folder / "script.py", options=("--checkpoint", folder / "c", "--checkpoint-steps", 2))
    return folder


@pytest.fixture
def written(first_run, tmp_path):
    return Path(shutil.copytree(first_run, tmp_path / "written"))


def resume(folder, servers, **variables):
    options = ("--checkpoint", "/proc/self/cwd/c", "--resume", "--checkpoint-steps", 100, "--restarts", 0)
    command = launch_command(servers, 1, 3, script=folder / "script.py", options=options)
    done = subprocess.run(command, cwd=folder, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, check=False)
    return done.returncode, done.stdout


def server_of_rank_1_elsewhere(folder):
    """Return a server program that sees another folder under the same name, as a host without the shared disk does, if it is rank 1."""
    program = folder / "server"
    program.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 1 ] || cd {folder}\nexec {server_program()} "$@"\n')
    program.chmod(0o755)
    return program


def test_a_host_that_does_not_see_the_folder_is_named_and_nothing_is_changed(written, tmp_path):
    before = sorted((path, path.stat().st_mtime_ns) for path in (written / "c").rglob("*"))
    program = server_of_rank_1_elsewhere(tmp_path)
    code, text = resume(written, 2, TRIREME_PSERVER=str(program))
    assert code == 1
    assert "server 1" in text and "there is no checkpoint '/proc/self/cwd/c/step-000000002'" in text
    assert "the folder of checkpoints must be one that all hosts see" in text
    assert sorted((path, path.stat().st_mtime_ns) for path in (written / "c").rglob("*")) == before


def test_trainer_0_needs_no_memory_for_a_table_that_servers_read(written):
    code, text = resume(written, 3)
    assert code == 0 and "going on from step 2" in text, text
    grown = int(text.split("trainer 0 grew by MB:")[1].split()[0])
    assert grown < 12, text  # of 20 MB, and the job itself takes some


def test_a_damaged_part_of_one_server_is_found_by_that_server(written):
    part = max((written / "c" / "step-000000002").glob("part-00003-*"))
    data = np.memmap(part, np.uint8, "r+")
    data[len(data) // 2] ^= 8
    data.flush()
    code, text = resume(written, 2)
    assert code == 1
    assert "there is no checkpoint in" in text and f"{part.name}': chunk" in text


OTHER = """
import sys

import numpy as np
import trireme as fluid

width, dtype, shape = int(sys.argv[2]), sys.argv[3], [int(size) for size in sys.argv[4:]]
ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [100, width], is_distributed=True, param_attr=fluid.ParamAttr(name="table"))
w = fluid.layers.create_parameter(shape, dtype, name="w")
loss = fluid.layers.cast(fluid.layers.mean(rows), dtype) + fluid.layers.reduce_mean(w)
fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for _ in range(int(sys.argv[1])):
    exe.run(feed={"ids": np.arange(4).reshape(-1, 1)}, fetch_list=[loss])
"""


def test_a_checkpoint_whose_parameters_have_another_shape_or_type_is_refused(tmp_path):
    (tmp_path / "script.py").write_text(OTHER)
    folder = tmp_path / "c"
    launch(2, 1, 2, 4, "float32", 60, 10, script=tmp_path / "script.py", options=("--checkpoint", folder, "--checkpoint-steps", 2))
    for program, words in (
            ((4, "float32", 40, 10), "w in '{}' has the shape [60, 10], the program wants [40, 10]"),  # so many bytes are there
            ((4, "float32", 60, 5, 2), "w in '{}' has the shape [60, 10], the program wants [60, 5, 2]"),
            ((4, "float64", 60, 10), "w in '{}' is float32, the program wants float64"),
            ((2, "float32", 60, 10), "'table' in '{}' has rows of 4 float32 with 1 states, the program wants 2 float32 with 1")):
        ended = simulate(1, 1, 3, *program, script=tmp_path / "script.py", env=environment(),
                         options=("--checkpoint", folder, "--resume", "--restarts", 0))
        assert ended.code == 1, (program, ended.text)
        assert words.format(folder / "step-000000002") in ended.text and "your line" in ended.text


MOVES = """
import os
import sys

import numpy as np
import trireme as fluid

fluid.distributed.checkpoint("c", every_steps=2, resume=True)
x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.fc(x, 40, param_attr=fluid.ParamAttr(name="w")))
fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
os.chdir("elsewhere")
for _ in range(int(sys.argv[1])):
    exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
"""


def test_a_folder_that_a_script_names_stays_where_it_was_when_the_script_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(MOVES)
    (tmp_path / "elsewhere").mkdir()
    launch(2, 1, 2, script=tmp_path / "script.py")
    assert f"going on from step 2, {tmp_path}/c/step-000000002" in launch(2, 1, 4, script=tmp_path / "script.py")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert (tmp_path / "c" / "step-000000004" / "manifest").exists()


# -- damage and deaths: jobs in the simulator ---------------------------------------------------------

TRAINS = """
import sys

import numpy as np
import trireme as fluid

fluid.default_startup_program().random_seed = 7
ids = fluid.layers.data("ids", [1], dtype="int64")
rows = fluid.layers.embedding(ids, [1000, 4], is_distributed=True, entry_count=2, param_attr=fluid.ParamAttr(name="table"))
hidden = fluid.layers.batch_norm(fluid.layers.fc(fluid.layers.reshape(rows, [-1, 4]), 30, act="tanh"))
loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1) - 1.0))
fluid.optimizer.Adam(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for step in range(int(sys.argv[1])):
    rng = np.random.default_rng([step, fluid.distributed.trainer_index()])
    exe.run(feed={"ids": rng.integers(0, 40, (8, 1))}, fetch_list=[loss])
fluid.io.save_persistables(exe, sys.argv[2])
"""


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A script, what it has saved after 8 steps, and the checkpoints of its steps 2, 4 and 6 by three servers."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "script.py").write_text(TRAINS)
    launch(2, 2, 8, folder / "end", script=folder / "script.py")
    launch(3, 2, 6, folder / "unused", script=folder / "script.py", options=("--checkpoint", folder / "c", "--checkpoint-steps", 2))
    assert len(list((folder / "c").glob("step-*"))) == 3
    return folder


def go_on(trained, tmp_path, servers, *options, **how):
    return simulate(servers, 2, 8, tmp_path / "end", script=trained / "script.py", env=environment(), **how,
                    options=("--checkpoint", tmp_path / "c", "--resume", *options))


def damage(folder, rng):
    """Damage a checkpoint somehow; return how."""
    path = rng.choice(sorted(folder.iterdir()))
    data = bytearray(path.read_bytes())
    how = rng.choice(["byte", "byte", "byte", "cut", "longer", "missing"])
    if how == "byte":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[rng.randrange(len(data)):]
    elif how == "longer":
        data += b"x" * rng.randrange(1, 5000)
    path.write_bytes(data)
    if how == "missing" and path.name != "manifest":               # without a manifest it is no checkpoint
        path.unlink()
    return how, path


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_the_newest_whole_checkpoint_is_taken_whatever_is_damaged_in_later_ones(damaged, trained, tmp_path):
    for seed in range(2):
        rng = random.Random(10 * damaged + seed)
        shutil.copytree(trained / "c", tmp_path / "c")
        how = [damage(tmp_path / "c" / f"step-{step:09}", rng) for step in (6, 4, 2)[:damaged] for _ in range(2)]
        ended = go_on(trained, tmp_path, seed + 1, "--restarts", 0, seed=seed)
        if damaged == 3:
            assert ended.code == 1 and "there is no checkpoint in" in ended.text, (how, ended.text)
        else:
            assert ended.code == 0 and f"going on from step {6 - 2 * damaged}," in ended.text, (how, ended.text)
            assert contents(tmp_path / "end") == contents(trained / "end"), how
        shutil.rmtree(tmp_path / "c")
        shutil.rmtree(tmp_path / "end", ignore_errors=True)


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_rank_may_die_at_any_moment_of_going_on(standbys, trained, tmp_path):
    for seed in range(3):
        rng = random.Random(10 * standbys + seed)
        shutil.copytree(trained / "c", tmp_path / "c")
        shutil.rmtree(tmp_path / "c" / "step-000000006")           # so there are some steps to make
        kills = [[(rng.randrange(4), rng.uniform(0, 60))], [(rng.randrange(4), rng.uniform(0, 60))]]
        ended = go_on(trained, tmp_path, 2, "--restarts", 3, *("--standbys-for", "all") * (standbys > 0), standbys=standbys, seed=seed,
                      kills=kills)
        assert ended.code == 0, (kills, ended.text)
        assert contents(tmp_path / "end") == contents(trained / "end"), (kills, ended.text)
        shutil.rmtree(tmp_path / "c")
        shutil.rmtree(tmp_path / "end")
