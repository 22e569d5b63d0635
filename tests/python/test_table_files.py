"""Tables that servers read from files and write into files: a job has the rows of one process, in whatever files they lie."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import cluster
import numpy as np
import pytest
from host_support import three_hosts
from job_support import LIMIT, Launched, alone, environment, launch_command, launch_under_mpi, needs_mpi
from job_support import SCRIPT as TRAIN
from store_support import BUCKET, find_store, the_server

import trireme as fluid

SCRIPT = TRAIN.with_name("table_files.py")
KEYS = np.arange(3000).reshape(-1, 1) * 7


def rows_of(folder):
    parts = json.loads((folder / "about.json").read_text())["parts"]
    rows = np.concatenate([np.load(folder / part["file"]) for part in parts])
    assert [len(np.load(folder / part["file"])) for part in parts] == [part["rows"] for part in parts]
    return rows[np.argsort(rows["key"])]


def updates_of(folder):
    return json.loads((folder / "clicks" / "about.json").read_text())["updates"]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """What one process saves, and what it has when it loads that and goes on."""
    folder = tmp_path_factory.mktemp("one")
    alone("--out", folder / "first", "--save", folder / "loaded", script=SCRIPT)
    alone("--out", folder / "on", "--load", folder / "loaded", "--save", folder / "saved", script=SCRIPT)
    return folder


@pytest.fixture(scope="module")
def three():
    with three_hosts(cluster.missing()) as found:
        yield found


def assert_served(folder, rows):
    got, = fluid.serving.Predictor(str(folder)).run({"ids": KEYS})
    np.testing.assert_array_equal(got, rows)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize(("servers", "trainers", "mode"), [(3, 2, "sync"), (2, 1, "async"), (2, 2, "geo(2)")])
def test_servers_load_save_and_export_tables(servers, trainers, mode, one, tmp_path):
    launch_under_mpi(servers, trainers, "--out", tmp_path / "r", "--load", one / "loaded", "--save", tmp_path / "saved",
                     "--export", tmp_path / "export", script=SCRIPT, options=("--mode", mode))
    got = np.load(f"{tmp_path}/r.{servers}.npz")["rows"]
    if mode != "geo(2)":
        np.testing.assert_array_equal(got, np.load(one / "on.0.npz")["rows"])
        np.testing.assert_array_equal(rows_of(tmp_path / "saved" / "clicks"), rows_of(one / "saved" / "clicks"))
        assert updates_of(tmp_path / "saved") == updates_of(one / "saved") == 2 * updates_of(one / "loaded") == 6
        assert_served(tmp_path / "export", got)       # in geo the servers do not have the steps since the last exchange
    assert len(list((tmp_path / "export" / "full-000000001").glob("clicks*.rows"))) == servers


@needs_mpi
@pytest.mark.mpi
def test_a_damaged_part_ends_the_job_with_its_name_before_a_step_is_made(one, tmp_path):
    shutil.copytree(one / "loaded", tmp_path / "loaded")
    worst = max((tmp_path / "loaded" / "clicks").glob("rows-*.npy"), key=lambda path: path.stat().st_size)
    content = bytearray(worst.read_bytes())
    content[-3] ^= 1
    worst.write_bytes(content)
    code, text = Launched(2, 1, "--out", tmp_path / "r", "--load", tmp_path / "loaded", script=SCRIPT, options=("--restarts", 0)).end()
    assert code == 1 and f"{worst.name}' is damaged: the checksum of its rows is" in text and "server" in text, text
    assert not Path(f"{tmp_path}/r.2.npz").exists()


@pytest.mark.parametrize(("changed", "text"), [
    (lambda about: about["parts"].pop(), "its parts are not those of a whole table"),
    (lambda about: about["parts"][3].update(shard=0), "its parts are not those of a whole table"),
    (lambda about: about["parts"][3].update(rows=-1), "is no number from 0"),
    (lambda about: about["parts"][3].update(file="../../about.json"), "is no name of a file in"),
    (lambda about: about["parts"][3].update(rows=7), "expected 7 rows")])
def test_wrong_lists_of_parts_are_refused(changed, text, one, tmp_path):
    folder = tmp_path / "clicks"
    shutil.copytree(one / "loaded", tmp_path, dirs_exist_ok=True)
    about = json.loads((folder / "about.json").read_text())
    changed(about)
    (folder / "about.json").write_text(json.dumps(about))
    ids = fluid.layers.data("ids", [1], dtype="int64")
    rows = fluid.layers.embedding(ids, [10**9, 4], is_distributed=True, param_attr="clicks")
    fluid.optimizer.Adagrad(0.1).minimize(fluid.layers.mean(rows))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    with pytest.raises(fluid.core.TriremeError, match=text):
        fluid.io.load_vars(exe, str(tmp_path), vars=["clicks"])


@needs_mpi
@pytest.mark.mpi
def test_parts_and_exports_lie_in_a_store(one, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    store = find_store(the_server(), monkeypatch)
    at = f"s3://{BUCKET}/{tmp_path.name}"
    env = environment(**store.environment())
    launch_under_mpi(2, 2, "--out", tmp_path / "a", "--save", f"{at}/loaded", script=SCRIPT, env=env)
    launch_under_mpi(3, 1, "--out", tmp_path / "b", "--load", f"{at}/loaded", "--save", tmp_path / "saved", "--export", f"{at}/export",
                     script=SCRIPT, env=env)
    np.testing.assert_array_equal(rows_of(tmp_path / "saved" / "clicks"), rows_of(one / "saved" / "clicks"))
    assert_served(f"{at}/export", np.load(f"{tmp_path}/b.3.npz")["rows"])


@needs_mpi
@pytest.mark.mpi
def test_where_hosts_share_no_folder_the_trainer_moves_the_rows(one, three, tmp_path):
    """/tmp is another one on each host: the servers do not see the folder of trainer 0's."""
    def run(*args):
        command = launch_command(3, 1, *args, script=SCRIPT, options=("--hostfile", three.hostfile, "--ssh", three.ssh, "--timeout", 100))
        done = subprocess.run(three.command(command), env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    run("--out", three.folder / "a", "--save", "/tmp/private", "--export", "/tmp/export")
    run("--out", three.folder / "b", "--load", "/tmp/private", "--save", three.folder / "saved")
    np.testing.assert_array_equal(rows_of(three.folder / "saved" / "clicks"), rows_of(one / "saved" / "clicks"))
    seen = [host for host in ("h1", "h2", "h3") if three.run(["ls", "/tmp/private"], host).returncode == 0]
    files = three.run(["sh", "-c", "ls /tmp/private/clicks /tmp/export/full-000000001"], seen[0]).stdout.split()
    assert len(seen) == 1 and {"rows-0000.npy", "rows-0342.npy", "clicks.rows", "clicks.0342.rows"} <= set(files)
    # DEBUG
