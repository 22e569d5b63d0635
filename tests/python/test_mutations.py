"""Files from outside, damaged at random: what reads them says what is wrong by the errors that it documents, or goes on without it.

The same damage in every run. `make fuzz` has more of it: TRIREME_FUZZ_ROUNDS, and TRIREME_FUZZ_SEED, which a failure names.
"""

import contextlib
import io
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_explain import Job

import trireme as fluid
from trireme.launch import cli
from trireme import layers
from trireme.errors import InvalidArgumentError, NotFoundError, TriremeError
from trireme.launch import explain, hosts, logs
from trireme.launch.console import Console
from trireme.launch.mpi import Layout
from trireme.launch.progress import Progress
from trireme.launch.watch import Ranks

SEED = int(os.environ.get("TRIREME_FUZZ_SEED", "1"))
ROUNDS = int(os.environ.get("TRIREME_FUZZ_ROUNDS", "300"))
WRONG = (None, True, -1, 10 ** 30, 10 ** 400, float("nan"), float("inf"), 1e300, 1e-300, 0, "", "x", "\0", [], [None], [[1]], {}, {"a": []})


def rounds(count=ROUNDS):
    """Random numbers for each round; a failure says which round it was."""
    for number in range(count):
        seed = f"{SEED}.{number}"
        try:
            yield random.Random(seed)
        except GeneratorExit:
            print(f"TRIREME_FUZZ_SEED={SEED}, round {number}")
            raise


def bytes_changed(rng, data):
    """Some bytes are others, twice there, or missing."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 100)))
        how = rng.randrange(4)
        data[at:end] = (b"" if how == 0 else bytes(data[at:end]) * 2 if how == 1 else rng.randbytes(end - at) if how == 2
                        else rng.choice((b"\0", b"[" * 5000, b"\xff", b"-", b"9" * 30, b'"', b"\n")))
    return bytes(data)


def value_changed(rng, value):
    """One value in it is another one, or gone."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: value_changed(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], value_changed(rng, value[at]), *value[at + 1:]]
    return rng.choice(WRONG)


def line_changed(rng, data):
    lines = data.split(b"\n")
    at = rng.randrange(max(1, len(lines) - 1))
    lines[at] = json.dumps(value_changed(rng, json.loads(lines[at]))).encode()
    return b"\n".join(lines)


def damage_one(rng, folder, *ways):
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    path.write_bytes(rng.choice(ways)(rng, path.read_bytes()))


def test_logs_are_explained_as_far_as_they_go(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    job = Job(whole)
    job.server(0, tables=[{"event": "table", "table": "w", "rows": 7, "bytes": 70, "hot_keys": [[3, 40], [4, 20]]}])
    job.write("standby", 0, {"event": "died", "role": "server", "index": 1, "how": "was killed"}, {"event": "took_place", "server": 1},
              {"event": "steps", "updates": 900})
    refused = 0
    for rng in rounds():
        folder = tmp_path / "logs"
        shutil.copytree(whole, folder)
        for _ in range(rng.randint(1, 3)):
            with contextlib.suppress(ValueError, RecursionError):      # a line that was damaged before
                damage_one(rng, folder, bytes_changed, line_changed, line_changed)
        try:
            assert "advice: " in explain.report(logs.read(folder))
        except NotFoundError:
            refused += 1
        shutil.rmtree(folder)
    assert refused < ROUNDS // 10


def test_a_line_about_progress_is_made_of_what_can_be_read(tmp_path):
    told = [{"rank": 0, "role": "server", "staleness": [0, 3, 4]}, {"rank": 1, "role": "trainer", "step": 7, "loss": 0.25},
            {"rank": 2, "role": "trainer", "step": 8}]
    for rng in rounds():
        ranks = Ranks(os.getpid(), tmp_path, 1, 2)
        for rank, one in enumerate(told):
            (tmp_path / f"progress.{rank}").write_text(json.dumps(one))
        damage_one(rng, tmp_path, bytes_changed, lambda rng, data: json.dumps(value_changed(rng, json.loads(data))).encode())
        progress = Progress(Console(), 1.0)
        for rank in range(3):
            ranks.note_remote(rank, 1, "h")
            (tmp_path / f"joined.{rank}").touch()
        assert isinstance(progress.text(ranks, 1.0), str)
        for path in tmp_path.iterdir():
            path.unlink()


def test_host_files_are_read_or_refused(tmp_path):
    whole = b"# the cluster\nh1 slots=2\nuser@h2:3   # fast\n\n10.0.0.7 slots = 4 max_slots=8\n"
    for rng in rounds():
        (tmp_path / "hosts").write_bytes(bytes_changed(rng, whole))
        layout = Layout(2, 3, hostfile=str(tmp_path / "hosts"), standbys=1)
        with contextlib.suppress(NotFoundError, InvalidArgumentError):
            assert sum(count for _, count in layout.all_places()[1]) == layout.trainers
            assert len(layout.places_on_each(1)) == len(layout.slots())


def test_words_of_agents_are_told_from_greetings_of_hosts():
    whole = b'["file", "joined.1", "text\\n"]'
    assert hosts.words_of(whole) == ["file", "joined.1", "text\n"]
    assert hosts.words_of(b"[INFO] welcome to h2") is None
    for rng in rounds():
        words = hosts.words_of(rng.choice((bytes_changed(rng, whole), line_changed(rng, whole + b"\n").strip())))
        assert words is None or hosts.WORDS[words[0]](*words[1:])


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def manifest_mended(rng, data):
    """Damaged after its header, and with the size and checksum of what it is now."""
    body = bytes_changed(rng, data[24:])
    return data[:12] + crc32c(body).to_bytes(4, "little") + len(body).to_bytes(8, "little") + body


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        loss = layers.mean(layers.fc(layers.data("x", [2]), 1))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        exe.run(feed={"x": np.ones([1, 2], "float32")}, fetch_list=[loss])
        return Path(fluid.io.save_checkpoint(exe, str(tmp_path_factory.mktemp("whole"))))


def test_checkpoints_are_listed_verified_and_exported_or_refused(checkpoint, tmp_path):
    for rng in rounds(ROUNDS // 3):
        folder = tmp_path / checkpoint.name
        shutil.copytree(checkpoint, folder)
        if rng.random() < 0.5:
            (folder / "manifest").write_bytes(manifest_mended(rng, (folder / "manifest").read_bytes()))
        else:
            damage_one(rng, folder, bytes_changed)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        for command in (["list", str(tmp_path)], ["verify", str(tmp_path)],
                        ["export", str(tmp_path), "--out", str(tmp_path / "a.npz")],
                        ["export", str(tmp_path), "--out", str(tmp_path / "a.safetensors")]):
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                assert cli.main(["checkpoint", *command]) in (0, 1, 2)
        with contextlib.suppress(TriremeError):
            fluid.io.load_checkpoint(fluid.Executor(), str(tmp_path))
        for path in tmp_path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
