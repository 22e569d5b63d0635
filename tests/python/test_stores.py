"""Files of object stores: a real S3 server, requests that fail, and what a training reads from it."""

import bz2
import gc
import gzip
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from store_support import BUCKET, find_store, folder_of, hadoop, proxied, the_server

import trireme as fluid
from trireme import checkpoint as checkpoints
from trireme.stores import folders, names, reading, serve, tries, writing

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def s3():
    return the_server()


@pytest.fixture
def store(s3, monkeypatch):
    return find_store(s3, monkeypatch)


@pytest.fixture
def proxy(store, monkeypatch):
    with proxied(store, monkeypatch) as one:
        yield one


LINES = [f"{i % 7}.5,{i}\n" for i in range(20000)]


def csv(files, **more):
    slots = [fluid.Slot("x", dtype="float32", shape=[-1, 1]), fluid.Slot("i", dtype="int64", shape=[-1, 1])]
    return fluid.Dataset(files, "csv", batch_size=1000, slots=slots, **more)


def rows(dataset):
    return [int(i) for batch in dataset for i in np.ravel(batch["i"])]


# == names ====================================================================================================


@pytest.mark.parametrize("uri, text", [
    ("s3://key:secret@bucket/a", "may not hold a user or a password"),
    ("s3://bucket/a?endpoint_override=x", "options may not stand in a URI"),
    ("s4://bucket/a", "there is no store s4://"),
    ("s3:///a", "names no bucket"),
    ("s3://bucket/a/../b", "have no meaning in this store"),
    ("file://a/b", "three slashes"),
])
def test_a_uri_that_names_no_file_is_refused(uri, text):
    with pytest.raises(fluid.core.InvalidArgumentError, match=text) as raised:
        names.place(uri)
    assert "secret" not in str(raised.value)


def test_a_reason_shows_no_credentials():
    shown = tries.reason(OSError("at http://me:hidden1@host/: Secret_Access_Key=hidden2, token: hidden3"))
    assert "hidden" not in shown and "host" in shown


# == requests =================================================================================================


@pytest.fixture(params=["s3", "gs", "hdfs", "file"])
def folder(request, store, monkeypatch, tmp_path):
    """A folder of each store."""
    if request.param == "file":
        return f"file://{tmp_path}/folder"
    return folder_of(request.param, re.sub(r"[^a-z0-9]+", "-", request.node.name), monkeypatch)


def test_files_are_written_in_parts_read_in_ranges_listed_and_removed(folder):
    content = np.random.default_rng(1).bytes(25 << 20)
    writing.write_all(f"{folder}/one/a/x", content)
    writing.write_all(f"{folder}/one/y", b"")
    assert reading.read_all(f"{folder}/one/a/x") == content
    assert reading.Reading(f"{folder}/one/a/x").read(9 << 20, 100) == content[9 << 20:(9 << 20) + 100]
    assert b"".join(reading.stream(f"{folder}/one/a/x", 5, 18 << 20, 100)) == content[5:18 << 20]
    assert folders.list_files(f"{folder}/one") == [("a/x", 25 << 20), ("y", 0)]
    assert folders.glob(f"{folder}/on?/y*") == [f"{names.place(folder).uri}/one/y"]
    for _ in range(2):
        writing.remove(f"{folder}/one/y")
    writing.write_all(f"{folder}/one/a/x", b"again")
    assert folders.list_files(f"{folder}/one") == [("a/x", 5)]
    assert folders.list_files(f"{folder}/none") == []
    with pytest.raises(fluid.core.NotFoundError, match="none/x"):
        reading.Reading(f"{folder}/none/x")


def test_a_small_file_that_is_removed_while_it_is_open_is_not_there(store):
    """The store's answer is longer than what is read, and the library says just that."""
    uri = store.put("removed", b"some")
    one = reading.Reading(uri)
    writing.remove(uri)
    with pytest.raises(fluid.core.NotFoundError, match=f"{uri}, .* cannot be read: try 1 of 4: it was removed"):
        one.read(0, 4)


@pytest.mark.parametrize("kind", ["fail", "lost", "cut", "stall"])
def test_any_single_request_may_fail(proxy, kind, tmp_path):
    content = np.random.default_rng(2).bytes(11 << 20)
    (tmp_path / "x").write_bytes(content)

    def everything(number):
        folder = f"s3://{BUCKET}/{kind}-{number}-"
        folders.upload(f"{tmp_path}/x", f"{folder}/x")
        writing.write_all(f"{folder}/y", b"small")
        assert folders.list_files(folder) == [("x", len(content)), ("y", 5)]
        assert reading.read_all(f"{folder}/x") == content
        writing.remove(f"{folder}/y")
        assert folders.list_files(folder) == [("x", len(content))]

    everything("none")
    count = len(proxy.requests)
    seen = Counter()

    def fault(at, verb, path):
        number = re.search(rf"{kind}-(\d+)-", path)[1]
        seen[number] += 1
        return kind if seen[number] == int(number) + 1 else None

    proxy.fault = fault
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(everything, range(count)))
    assert count >= 9 and len(proxy.requests) >= count * (count + 1)      # each run had a request more, at least


def test_a_store_that_fails_for_good_is_reported_with_uri_try_and_reason(proxy):
    proxy.fault = lambda at, verb, path: "fail"
    with pytest.raises(fluid.core.FileError, match=rf"s3://{BUCKET}/x cannot be opened: try 4 of 4: .*500"):
        reading.Reading(f"s3://{BUCKET}/x")
    assert len(proxy.requests) == 4
    proxy.fault = lambda at, verb, path: "refuse"
    with pytest.raises(fluid.core.FileError, match=rf"s3://{BUCKET}/x cannot be written: .*ACCESS_DENIED") as raised:
        writing.write_all(f"s3://{BUCKET}/x", b"1")
    assert "secret-of-tests" not in str(raised.value) and len(proxy.requests) == 5    # what is refused is not tried again


def test_a_store_that_stays_silent_is_given_up(proxy):
    proxy.fault = lambda at, verb, path: "stall"
    with pytest.raises(fluid.core.FileError, match="try 4 of 4: .*(Timeout|too slow)"):
        reading.Reading(f"s3://{BUCKET}/x")


def test_a_folder_of_hadoop_is_not_empty_because_nothing_answers(monkeypatch):
    folder = folder_of("hdfs", "down", monkeypatch)
    monkeypatch.setattr("trireme.stores.tries._FIRST_PAUSE", 0.01)
    writing.write_all(f"{folder}/x", b"1")
    down = Path(hadoop()["ARROW_LIBHDFS_DIR"], "files.down")
    with down.open("w"):
        calls = (lambda: folders.list_files(folder), lambda: writing.info_of(f"{folder}/x"), lambda: writing.remove(f"{folder}/x"))
        for call in calls:
            with pytest.raises(fluid.core.FileError, match="hdfs://name:8020/down.*: try 4 of 4: "):
                call()
    down.unlink()
    assert folders.list_files(folder) == [("x", 1)]


@pytest.mark.parametrize("size", [100, 12 << 20])
def test_a_file_that_is_given_up_is_never_there(folder, size, tmp_path):
    """Whether the writer gives up, the file that is copied ends early, or the process ends."""
    writing.write_all(f"{folder}/other", b"1")
    content = b"x" * size
    one = writing.Writing(f"{folder}/half")
    one.write(content)
    assert folders.list_files(folder)[-1] == ("other", 1)       # of a file, another name
    one.abandon()
    del one
    with pytest.raises(ValueError, match="no more"), writing.whole(f"{folder}/half") as one:
        one.write(content)
        raise ValueError("no more")
    gc.collect()
    assert folders.list_files(folder) == [("other", 1)]
    ends = f"from trireme.stores import writing; one = writing.Writing({folder + '/half'!r}); one.write(b'x' * {size}); one.abandon()"
    subprocess.run([sys.executable, "-c", ends], check=True, timeout=60)
    assert folders.list_files(folder) == [("other", 1)]


@pytest.mark.parametrize("said", [b"", b"done 99", b"done 101"])
def test_the_process_gives_a_file_its_name_when_all_bytes_are_there(folder, said):
    for end, size in ((said, None), (b"done 100", 100)):
        ours, theirs = socket.socketpair()
        output, pipe = os.pipe()
        os.write(pipe, b"x" * 100)
        os.close(pipe)
        ours.sendall(end)
        ours.shutdown(socket.SHUT_WR)
        serve._answer(["write", f"{folder}/x"], [theirs.detach(), output])
        answer = ours.recv(1000).decode()
        ours.close()
        assert answer == "ok\n" if size else answer.startswith("failed EIO\n") and "gave up after 100 bytes" in answer
        assert folders.list_files(folder) == ([("x", size)] if size else [])


# == text =====================================================================================================


@pytest.mark.parametrize("end, pack", [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress),
                                       (".zst", lambda text: pa.compress(text, "zstd", asbytes=True))])
def test_text_of_a_store_is_read_as_files_are(store, tmp_path, end, pack):
    parts = [pack("".join(LINES[at::3]).encode()) for at in range(3)]
    for i, part in enumerate(parts):
        store.put(f"text{end}/part-{i}{end}", part)
        (tmp_path / f"part-{i}{end}").write_bytes(part)
    wanted = rows(csv(f"{tmp_path}/part-*", block_bytes=1 << 14))
    assert sorted(wanted) == list(range(20000))
    for more in ({}, {"threads": 4}, {"split": "tasks", "task_bytes": 10000}, {"pipe_command": "cat && true"} if not end else {}):
        assert rows(csv(f"s3://{BUCKET}/text{end}/part-*", block_bytes=1 << 14, **more)) == wanted


def test_a_header_is_read_for_each_task(store):
    uri = store.put("head.csv", ("i,x\n" + "".join(f"{i},1\n" for i in range(5000))).encode())
    assert rows(csv(uri, header=True, split="tasks", task_bytes=3000)) == list(range(5000))


def test_mistakes_in_text_of_a_store_name_file_and_line(store):
    lines = LINES[:3000]
    lines[2500] = "1.5,no\n"
    uri = store.put("bad.csv", "".join(lines).encode())
    for more in ({}, {"split": "tasks", "task_bytes": 4000}):
        with pytest.raises(fluid.core.FormatError, match=rf"{uri}, line 2501, column 5: slot 'i': expected an integer"):
            rows(csv(uri, **more))
    with pytest.raises(fluid.core.NotFoundError, match=f"s3://{BUCKET}/missing"):
        rows(csv(f"s3://{BUCKET}/missing"))
    with pytest.raises(fluid.core.InvalidArgumentError, match="no file fits 's3://"):
        csv(f"s3://{BUCKET}/missing-*")
    cut = store.put("cut.csv.bz2", bz2.compress("".join(LINES).encode())[:-9])
    with pytest.raises(fluid.core.FileError, match=rf"{cut} cannot be unpacked"):
        rows(csv(cut))


def test_a_pass_may_end_in_the_middle_of_a_file(store):
    uri = store.put("long.csv", "".join(LINES).encode())
    data = csv(uri, block_bytes=1 << 12)
    for _ in range(3):
        assert len(next(iter(data))["i"]) == 1000
    assert rows(data) == list(range(20000))


READS = """
import sys
import numpy as np
import trireme as fluid
slots = [fluid.Slot("x", dtype="float32", shape=[-1, 1]), fluid.Slot("i", dtype="int64", shape=[-1, 1])]
data = fluid.Dataset(sys.argv[1], "csv", batch_size=1000, slots=slots)
print(sum(int(np.sum(batch["i"])) for batch in data))
"""


def test_text_is_read_over_requests_that_fail(proxy):
    uri = f"s3://{BUCKET}/flaky.csv"
    writing.write_all(uri, "".join(LINES * 60).encode())   # more than one block
    begin = len(proxy.requests)
    proxy.fault = lambda at, verb, path: {0: "fail", 2: "cut", 3: "lost", 5: "fail"}.get(at - begin)
    done = subprocess.run([sys.executable, "-c", READS, uri], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{60 * sum(range(20000))}\n", done.stderr
    proxy.fault = lambda at, verb, path: "fail" if verb == "GET" else None
    done = subprocess.run([sys.executable, "-c", READS, uri], check=False, capture_output=True, text=True, timeout=60)
    assert f"{uri}, bytes 0 to " in done.stderr and "cannot be read: try 4 of 4" in done.stderr and done.returncode == 1


SAVES = """
import sys
import trireme as fluid
x = fluid.layers.data("x", [2])
loss = fluid.layers.mean(fluid.layers.fc(x, 1, name="line"))
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    folder = f"s3://bucket/turn-{number}-"
    fluid.io.save_checkpoint(exe, folder, step=1)
    assert fluid.io.load_checkpoint(exe, folder).step == 1, number
"""


def test_a_checkpoint_is_saved_and_loaded_whichever_request_fails(proxy):
    """Each request in turn: the process beside the script makes them."""
    seen = Counter()

    def fault(at, verb, path):
        number = re.search(r"turn-(\d+)-", path)[1]
        seen[number] += 1
        return ("fail", "lost", "cut", "stall")[int(number) % 4] if seen[number] == int(number) else None

    def save(begin, end):
        done = subprocess.run([sys.executable, "-c", SAVES, str(begin), str(end)], check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    proxy.fault = fault
    save(0, 1)
    count = seen["0"]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda begin: save(begin, min(begin + -(-count // 4), count + 1)), range(1, count + 1, -(-count // 4))))
    assert count > 12 and all(seen[str(number)] > number for number in range(1, count))
    assert {name for name, _ in folders.list_files(f"s3://{BUCKET}/turn-1-")} >= {"step-000000001/manifest"}


DIES = """
import os, signal, sys, time
import trireme as fluid
slots = [fluid.Slot("x", dtype="float32", shape=[-1, 1]), fluid.Slot("i", dtype="int64", shape=[-1, 1])]
data = fluid.Dataset(sys.argv[1], "csv", batch_size=1000, slots=slots)
lines = [sum(len(batch["i"]) for batch in data)]
def read(pid, name):
    try:
        return open(f"/proc/{pid}/{name}", "rb").read()
    except OSError:                       # another program, which has ended
        return b""
served = [int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and b"trireme.stores.serve" in read(pid, "cmdline")
          and f"MARK={os.getpid()}".encode() in read(pid, "environ")]
for pid in served:
    os.kill(pid, signal.SIGKILL)
while any(os.path.exists(f"/proc/{pid}") for pid in served):           # what it was asked before is lost
    time.sleep(0.01)
lines.append(sum(len(batch["i"]) for batch in data))
print(len(served), *lines)
"""


def test_another_process_takes_the_place_of_one_that_died(store):
    uri = store.put("dies.csv", "".join(LINES).encode())
    done = subprocess.run([sys.executable, "-c", "import os; os.environ['MARK'] = str(os.getpid())" + DIES, uri], check=False,
                          capture_output=True, text=True, timeout=60)
    assert done.stdout == "1 20000 20000\n", done.stdout + done.stderr


def test_the_process_has_the_environment_of_each_request(store, monkeypatch):
    """An address that a script sets late counts, for data and for checkpoints alike."""
    uri, folder = store.put("environment.csv", "".join(LINES).encode()), f"s3://{BUCKET}/no-checkpoints"
    assert sum(rows(csv(uri))) == sum(range(20000)) and checkpoints.steps(folder) == []
    address = f"http://127.0.0.1:{store.port}"
    monkeypatch.setenv("TRIREME_STORE_TIMEOUT", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for call in (lambda: rows(csv(uri)), lambda: checkpoints.steps(folder)):
        with pytest.raises(fluid.errors.FileError, match="cannot be"):
            call()
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    assert checkpoints.steps(folder) == [] and sum(rows(csv(uri))) == sum(range(20000))


# == tables ===================================================================================================


def table(rows_of_a_group):
    import pyarrow.ipc as ipc
    import pyarrow.parquet as parquet

    whole = pa.table({"x": pa.array([i / 2 for i in range(6000)], pa.float32()), "i": pa.array(range(6000), pa.int64())})
    sinks = [pa.BufferOutputStream() for _ in range(3)]
    parquet.write_table(whole, sinks[0], row_group_size=rows_of_a_group)
    for sink, make in zip(sinks[1:], (ipc.new_file, ipc.new_stream)):
        with make(sink, whole.schema) as writer:
            writer.write_table(whole, max_chunksize=rows_of_a_group)
    return dict(zip(("parquet", "arrow", "stream"), (sink.getvalue().to_pybytes() for sink in sinks)))


def test_tables_of_a_store_and_arrow_streams_are_read_as_files_are(store, tmp_path):
    slots = [fluid.Slot("x", dtype="float32", shape=[-1, 1]), fluid.Slot("i", dtype="int64", shape=[-1, 1])]
    for kind, content in table(1000).items():
        path = tmp_path / f"part.{kind}"
        path.write_bytes(content)
        uri = store.put(f"tables/part.{kind}", content)
        for name in (str(path), uri):
            for more in ({}, {"split": "tasks", "task_bytes": len(content) // 3}):
                format = "parquet" if kind == "parquet" else "arrow"
                data = fluid.Dataset(name, format, batch_size=500, slots=slots, **more)
                assert rows(data) == list(range(6000)), (kind, name, more)


def test_cat_prints_files_of_stores_unpacked(store, capfdbinary):
    from trireme.launch.cli import main

    uri = store.put("cat/a.gz", gzip.compress(b"one\n"))
    store.put("cat/b", b"two\n")
    assert main(["cat", uri, f"s3://{BUCKET}/cat/?"]) == 0
    assert capfdbinary.readouterr().out == b"one\ntwo\n"
