"""``trireme explain``: made-up logs for each piece of advice, damaged ones, and jobs whose culprit is known."""

import json
import os
import re
import signal
import time

import pytest
from job_support import SCRIPT, Launched, launch, needs_mpi

from trireme import cli
from trireme.errors import NotFoundError
from trireme.launch import advice, explain, logs
from trireme.launch.figures import figures_of, stands_out

PACED = SCRIPT.with_name("paced.py")
STEPS = 100


class Job:
    """Writes the logs of a job: milliseconds of a step."""

    def __init__(self, folder, mode="sync", trainers=3, servers=2, attempt=0):
        self.folder, self.mode, self.trainers, self.servers, self.attempt = folder, mode, trainers, servers, attempt
        for index in range(trainers):
            self.trainer(index)
        for index in range(servers):
            self.server(index)

    def write(self, role, index, *lines, mode="w"):
        joined = {"t_s": 1.0, "event": "joined", "schema": 1, "role": role, "index": index, "host": f"h{index}", "attempt": self.attempt,
                  "servers": self.servers, "trainers": self.trainers}
        with open(self.folder / f"{role}-{index}.jsonl", mode) as out:
            for line in (joined, *lines):
                out.write(json.dumps({"t_s": 2.0, **line}) + "\n")

    def trainer(self, index, compute=5.0, script=0.5, wait=1.0, encode=0.0, bytes=1 << 20, messages=20, steps=STEPS):
        step = compute + script + wait + encode
        self.write("trainer", index, {"event": "began", "mode": self.mode, "step": 0, "compress": "int8" if encode else "none"}, {
            "event": "summary", "end": "well", "steps": steps, "step_ms": step * steps, "compute_ms": compute * steps,
            "script_ms": script * steps, "encode_ms": encode * steps, "wait_ms": wait * steps, "compute_median_ms": compute, "script_median_ms": script,
            "wait_by_server_ms": [wait * steps / self.servers] * self.servers, "sent_bytes": bytes * steps // 2,
            "received_bytes": bytes * steps // 2, "sent_messages": messages * steps // 2, "received_messages": messages * steps // 2})

    def server(self, index, apply=0.2, kept=(0, 0, 0), late=(0, 0, 0), held=(0, 0, 0), bytes=1 << 20, staleness=(300,), tables=()):
        times = {f"{name}_by_trainer_ms": [one * STEPS for one in values] for name, values in
                 (("kept", kept), ("late", late), ("held", held))}
        self.write("server", index, *tables, {
            "event": "summary", "end": "well", "server": index, "updates": STEPS, "apply_ms": apply * STEPS, "apply_median_ms": apply,
            "steps_by_trainer": [STEPS] * self.trainers, **times, "staleness": [*staleness, *[0] * (16 - len(staleness))], "dropped": 0,
            "sent_bytes": bytes * STEPS, "received_bytes": bytes * STEPS})

    def advice(self):
        return advice.advice_of(figures_of(logs.read(self.folder)))


def computing(job):
    pass


def slow_in_its_script(job):
    job.trainer(1, script=9.0)
    for index in (0, 2):
        job.trainer(index, wait=9.5)
    job.server(0, kept=(8.5, 0, 8.5), late=(0, 8.5, 0))


def slow_and_not_waited_for(job):
    job.trainer(1, script=9.0)


def slow_in_computing(job):
    job.trainer(2, compute=9.9)
    for index in (0, 1):
        job.trainer(index, wait=6.0)
    job.server(1, kept=(4.9, 4.9, 0), late=(0, 0, 4.9))


def servers_busy(job):
    for index in range(3):
        job.trainer(index, wait=9.0)
    for index in range(2):
        job.server(index, apply=8.0 + index / 10)


def one_server_busy(job):
    servers_busy(job)
    job.server(0, apply=1.0)


def bytes_on_the_wire(job):
    for index in range(3):
        job.trainer(index, wait=12.0, bytes=50 << 20)


def bytes_on_one_server(job):
    bytes_on_the_wire(job)
    job.server(1, bytes=100 << 20)


def many_messages(job):
    for index in range(3):
        job.trainer(index, compute=0.1, wait=3.0, bytes=2000)


def a_far_host(job):
    for index in range(3):
        job.trainer(index, wait=9.0 if index != 2 else 4.0)
    for index in range(2):
        job.server(index, kept=(5, 5, 0), late=(0.1, 0, 5))


def compressing(job):
    for index in range(3):
        job.trainer(index, encode=4.0)


def scripts(job):
    for index in range(3):
        job.trainer(index, script=20.0)


def a_queue(job):
    for index in range(3):
        job.trainer(index, wait=6.0)
    job.server(1, kept=(5, 5, 5))


def old_gradients(job):
    for index in range(2):
        job.server(index, staleness=(0, 0, 0, 0, 10, 290))


ADVICE = [
    ("sync", computing, r"compute-bound \(77% of a step\): all is well; more trainers help"),
    ("sync", slow_in_its_script, r"trainer 1 is 2\.5x slower than the median, in its script, .* its host, h1, .*--mode 'sync\(backups=1\)'"),
    ("sync", slow_in_computing, r"trainer 2 is 1\.9x slower than the median, in computing: look at its host, h2,"),
    ("sync(backups=1)", slow_in_computing, r"trainer 2 is 1\.9x slower than the median, in computing: look at its host, h2, and its data$"),
    ("ssp(2)", slow_in_its_script, r"trainer 1 is 2\.5x slower"),
    ("async", slow_and_not_waited_for, r"trainer 1 is 2\.5x slower .* its gradients are old"),
    ("sync", servers_busy, r"server 1 takes 56% of a step to apply: use more servers"),
    ("sync", one_server_busy, r"server 1 applies 8\.1x as long as the others, and that takes 56% of a step: .* h1, is busy"),
    ("async", a_queue, r"server 0 takes 45% of a step to apply: use more servers"),
    ("sync", bytes_on_the_wire, r"wire-bound, 52\.4 MB a step and trainer: --compress fp16"),
    ("sync", bytes_on_one_server, r"wire-bound: server 1 moves over 100x|wire-bound: server 1 moves 100\.0x"),
    ("sync", many_messages, r"wire-bound by 20 messages a step, not by their 2 kB: larger batches"),
    ("sync", a_far_host, r"wire-bound, and gradients of trainer 2 come 5 ms behind the first, .* host, h2: trireme doctor"),
    ("sync", compressing, r"compressing gradients by int8 takes 38% of a step: fp16 is cheaper"),
    ("sync", scripts, r"the scripts take 77% of a step before they hand over its data: read ahead"),
    ("async", old_gradients, r"half of all gradients are 16 updates old or older, with 3 trainers: --mode 'ssp\(2\)'"),
    ("sync", old_gradients, r"compute-bound"),
]


@pytest.mark.parametrize(("mode", "happens", "says"), ADVICE, ids=[f"{happens.__name__} in {mode}" for mode, happens, _ in ADVICE])
def test_advice_follows_from_the_figures(tmp_path, mode, happens, says):
    job = Job(tmp_path, mode)
    happens(job)
    assert re.match(says, job.advice()), job.advice()


def test_each_rule_is_tested():
    assert len(advice.RULES) == 6


def test_who_stands_out():
    assert stands_out([1.0, 2.0, 6.0, 3.0]) == (2, 3.0)
    assert stands_out([4.0]) == (0, 1.0)
    assert stands_out([0.0, 0.0]) == (0, 1.0)


def test_the_parts_of_a_step_add_up(tmp_path):
    job = Job(tmp_path)
    slow_in_its_script(job)
    figures = figures_of(logs.read(tmp_path))
    parts = sum(figures.share(part) for part in ("compute", "script", "encode", "others", "apply", "wire"))
    assert parts == pytest.approx(1.0)
    assert figures.trainers[0].others == pytest.approx(8.5) and figures.trainers[0].late == 0 and figures.trainers[1].late == pytest.approx(8.5)
    assert figures.trainers[0].wire == pytest.approx(9.5 - 8.5 - 0.2)


def test_the_report_shows_staleness_and_hot_keys(tmp_path, capsys):
    job = Job(tmp_path, "async", trainers=2)
    table = {"event": "table", "table": "clicks", "rows": 10, "bytes": 1000}
    job.server(0, staleness=(150, 50), tables=[{**table, "hot_keys": [[17, 90], [4, 1]]}])
    job.server(1, staleness=(150, 50), tables=[{**table, "hot_keys": [[5, 95]]}])
    assert cli.main(["explain", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "mode async, 2 trainers, 2 servers, 100 steps in 650 ms" in text
    assert "gradients by the updates that came before them: 0: 75%, 1: 25%" in text
    assert "table clicks: 20 rows, 2 kB; keys that most updates touch: 5 (95%), 17 (90%), 4 (1%)" in text
    assert text.splitlines()[-1].startswith("advice: ")


# -- damage ------------------------------------------------------------------------------------------------------------


def remarks(folder):
    return "\n".join(logs.read(folder).remarks)


def test_a_log_that_ends_in_the_middle_of_a_line(tmp_path):
    job = Job(tmp_path)
    path = tmp_path / "trainer-1.jsonl"
    totals = json.loads(path.read_text().splitlines()[-1])
    with open(path, "a") as out:
        out.write(json.dumps({**totals, "event": "steps"}) + '\n{"t_s":3.0,"event":"ste')
    assert "trainer-1.jsonl ends in the middle of a line" in remarks(tmp_path)
    assert re.search(r"trainer-1\.jsonl ends at \d\d:\d\d:\d\d without a summary: its process was killed, or still runs", remarks(tmp_path))
    assert job.advice().startswith("compute-bound")


def test_damaged_lines_are_named_and_the_rest_is_read(tmp_path):
    job = Job(tmp_path)
    path = tmp_path / "server-0.jsonl"
    path.write_bytes(b"\xff\xfe nonsense\n[1]\n" + path.read_bytes() + b"\0\0\0")
    assert "server-0.jsonl: line 1, 2 cannot be read" in remarks(tmp_path)
    assert job.advice().startswith("compute-bound")


def test_figures_of_a_wrong_type_are_none(tmp_path):
    job = Job(tmp_path)
    job.write("server", 0, {"event": "summary", "updates": "many", "kept_by_trainer_ms": 7, "staleness": [None, 1], "apply_ms": None})
    assert job.advice().startswith("compute-bound") and explain.report(logs.read(tmp_path))


def test_every_beginning_of_a_log_can_be_explained(tmp_path):
    Job(tmp_path)
    path = tmp_path / "trainer-0.jsonl"
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert "advice: " in explain.report(logs.read(tmp_path))


def test_missing_logs_are_named(tmp_path):
    Job(tmp_path)
    (tmp_path / "trainer-2.jsonl").unlink()
    (tmp_path / "server-0.jsonl").unlink()
    assert {"there is no log of trainer 2", "there is no log of server 0"} <= set(logs.read(tmp_path).remarks)


def test_no_logs(tmp_path):
    with pytest.raises(NotFoundError, match="holds no log of a trainer; `trireme launch --log DIR`"):
        logs.read(tmp_path)
    with pytest.raises(NotFoundError, match="cannot read '/no/where': No such file"):
        logs.read("/no/where")


def test_of_a_job_that_was_started_again_the_last_start_counts(tmp_path):
    Job(tmp_path)
    job = Job(tmp_path / ".", attempt=1)
    job.write("trainer", 0, {"event": "summary", "steps": 7})
    job.attempt = 0
    job.write("trainer", 1, {"event": "steps", "steps": 9})
    read = logs.read(tmp_path)
    assert read.restarts == 1 and sorted(read.trainers) == [0, 2] and read.trainers[0].number("steps") == 7
    assert "trainer-1.jsonl has nothing of the job's last start" in read.remarks


def test_a_spare_stands_in_the_place_that_it_took(tmp_path):
    job = Job(tmp_path)
    died = {"event": "died", "rank": 1, "role": "server", "index": 1, "how": "died"}
    job.write("server", 1, {"event": "steps", "server": 1, "updates": 10})
    job.write("spare", 0, died, {"event": "took_place", "server": 1}, {
        "event": "summary", "server": 1, "updates": 90, "apply_ms": 9.0, "steps_by_trainer": [90, 90, 90]})
    read = logs.read(tmp_path)
    assert read.servers[1].name == "spare-0.jsonl" and read.servers[1].number("updates") == 90
    assert "server 1 died; the others went on" in read.remarks and "took the place of server 1" in "\n".join(read.remarks)


# -- jobs ----------------------------------------------------------------------------------------------------------------


def explained(folder):
    return explain.report(logs.read(folder))


@needs_mpi
@pytest.mark.mpi
def test_a_slow_trainer_is_found(tmp_path):
    launch(1, 2, "--steps", 40, "--slow", 0.05, script=PACED, options=("--log", tmp_path))
    text = explained(tmp_path)
    assert re.search(r"^advice: trainer 1 is (over )?[\d.]+x slower than the median, in its script", text, re.M), text
    figures = figures_of(logs.read(tmp_path))
    assert figures.trainers[0].others > 40 and figures.trainers[1].others < 10, text


@needs_mpi
@pytest.mark.mpi
def test_a_job_that_computes_is_left_alone(tmp_path):
    launch(1, 1, "--steps", 12, "--width", 256, "--layers", 30, "--batch", 256, script=PACED, options=("--log", tmp_path))
    text = explained(tmp_path)
    assert re.search(r"^advice: compute-bound \(\d+% of a step\): all is well", text, re.M), text


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_that_was_killed_leaves_a_log(tmp_path):
    job = Launched(1, 2, "--steps", 60, "--sleep", 0.05, script=PACED, options=("--log", tmp_path, "--mode", "async", "--spares", 0))
    ranks = job.ranks()
    deadline = time.monotonic() + 30
    while '"steps"' not in (tmp_path / "trainer-1.jsonl").read_text() if (tmp_path / "trainer-1.jsonl").exists() else True:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(ranks.known[2].pid, signal.SIGKILL)
    ranks.close()
    code, text = job.end()
    assert code == 0, text
    said = "\n".join(logs.read(tmp_path).remarks)
    assert "trainer-1.jsonl ends at" in said and "trainer 1 died; the others went on" in said, said
    assert "advice: " in explained(tmp_path)
