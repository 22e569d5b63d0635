"""``trireme explain``: made-up logs for each piece of advice, damaged ones, and jobs whose culprit is known."""

import json
import os
import re
import signal
import time

import pytest
from job_support import LIMIT, SCRIPT, Launched, environment, launch_under_mpi, needs_mpi
from json_support import checked

from trireme.launch import cli
from trireme.errors import NotFoundError
from trireme.launch import advice, explain, logs
from trireme.launch.figures import TRAFFIC_CLASSES, figures_of, stands_out

PACED, ROWS = SCRIPT.with_name("paced.py"), SCRIPT.with_name("rows.py")
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

    def trainer(self, index, compute=5.0, script=0.5, wait=1.0, encode=0.0, bytes=1 << 20, messages=20, steps=STEPS, traffic=None,
                moving=0.3, median=None, began=None, rows=(0, 0, 0), ends=True, **totals):
        """``traffic``: bytes and messages of a step by what they carry; ``rows``: wanted, asked for ahead, found here."""
        step = compute + script + wait + encode
        traffic = {"parameters": (bytes, messages)} if traffic is None else traffic
        bytes, messages = (sum(pair[i] for pair in traffic.values()) for i in (0, 1))
        own = {"rows_wanted": rows[0] * steps, "rows_ahead": rows[1] * steps, "rows_cached": rows[2] * steps}
        self.write("trainer", index, {"event": "began", "mode": self.mode, "step": 0, "compress": "int8" if encode else "none", "tables": 0,
                                      "compressible_bytes": traffic.get("gradients", (0, 0))[0], **(began or {})}, {
            "event": "summary" if ends else "steps", **({"end": "well"} if ends else {}), "steps": steps, "step_ms": step * steps,
            "compute_ms": compute * steps, "script_ms": script * steps, "encode_ms": encode * steps, "wait_ms": wait * steps,
            "compute_median_ms": compute, "script_median_ms": script if median is None else median, "script_max_ms": script * 10,
            "wait_by_server_ms": [wait * steps / self.servers] * self.servers, "sent_bytes": bytes * steps / 2,
            "received_bytes": bytes * steps / 2, "sent_messages": messages * steps / 2, "received_messages": messages * steps / 2,
            "wire_ms": moving * steps, "bytes_by_class": {name: pair[0] * steps for name, pair in traffic.items()},
            "messages_by_class": {name: pair[1] * steps for name, pair in traffic.items()}, **own, **totals})

    def server(self, index, apply=0.2, kept=(0, 0, 0), late=(0, 0, 0), held=(0, 0, 0), bytes=1 << 20, staleness=(300,), tables=()):
        times = {f"{name}_by_trainer_ms": [one * STEPS for one in values] for name, values in
                 (("kept", kept), ("late", late), ("held", held))}
        self.write("server", index, *tables, {
            "event": "summary", "end": "well", "server": index, "updates": STEPS, "apply_ms": apply * STEPS, "apply_median_ms": apply,
            "steps_by_trainer": [STEPS] * self.trainers, **times, "staleness": [*staleness, *[0] * (16 - len(staleness))], "dropped": 0,
            "sent_bytes": bytes * STEPS, "received_bytes": bytes * STEPS})

    def advice(self):
        return advice.advice_of(figures_of(logs.read(self.folder)))


MB, KB = 1 << 20, 1 << 10


def every_trainer(**figures):
    """Return what makes all trainers of a job alike."""
    def make(job):
        for index in range(job.trainers):
            job.trainer(index, **figures)
    return make


def slow_in_its_script(job):
    job.trainer(1, script=9.0)
    for index in (0, 2):
        job.trainer(index, wait=9.5)
    job.server(0, kept=(8.5, 0, 8.5), late=(0, 8.5, 0))


def slow_and_held_for(job):
    slow_in_its_script(job)
    job.server(0, held=(8.5, 0, 8.5))


def slow_and_not_waited_for(job):
    job.trainer(1, script=9.0)


def slow_in_computing(job):
    job.trainer(2, compute=9.9)
    for index in (0, 1):
        job.trainer(index, wait=6.0)
    job.server(1, kept=(4.9, 4.9, 0), late=(0, 0, 4.9))


def slow_in_a_few_steps(job):
    job.trainer(1, script=9.0, median=0.4)
    for index in (0, 2):
        job.trainer(index, wait=9.5)
    job.server(0, kept=(8.5, 0, 8.5), late=(0, 8.5, 0))


def one_that_validates(job):
    """It trains as fast as the others, and goes over test data now and then; the others wait meanwhile."""
    slow_in_a_few_steps(job)


def one_that_validates_in_each_step(job):
    """Its tests are runs of a program of their own, which the log tells from other work of the script."""
    slow_in_its_script(job)
    job.trainer(1, script=9.0, other_runs_ms=8.0 * STEPS)


def steps_of_many_lengths(job):
    """Each waits for the others in turn: it computes 19 % of its steps."""
    every_trainer(compute=2.0, script=0.1, wait=8.4)(job)
    job.server(0, kept=(7.5, 7.5, 7.5), late=(3, 3, 3))


def a_trainer_that_sleeps(job):
    """It made 7 steps; the others wait for it since then."""
    for index in (0, 2):
        job.trainer(index, steps=7, ends=False, doing="wait", quiet_ms=600e3, t_s=700.0)
    job.trainer(1, steps=7, ends=False, doing="script", quiet_ms=600e3, t_s=700.0)


def a_trainer_that_sleeps_from_the_start(job):
    job.write("trainer", 1, {"event": "began", "mode": job.mode}, {"event": "steps", "steps": 0, "doing": "script", "quiet_ms": 98e3,
                                                                   "t_s": 100.0})
    for index in (0, 2):
        job.trainer(index, ends=False, doing="compute", quiet_ms=3.0, t_s=100.0)


def a_log_that_stops(job):
    for index in (0, 2):
        job.trainer(index, ends=False, doing="compute", quiet_ms=3.0, t_s=90.0)
    job.trainer(1, ends=False, doing="compute", quiet_ms=3.0, t_s=10.0)


def nobody_waits_for_whom_is_known(job):
    every_trainer(ends=False, doing="wait", quiet_ms=60e3, t_s=100.0)(job)


def no_data_for_one(job):
    job.trainer(2, steps=0)


def servers_busy(job):
    every_trainer(wait=9.0)(job)
    for index in range(2):
        job.server(index, apply=8.0 + index / 10)


def one_server_busy(job):
    servers_busy(job)
    job.server(0, apply=1.0)


def bytes_on_one_server(job):
    every_trainer(wait=12.0, traffic={"parameters": (50 * MB, 20)})(job)
    job.server(1, bytes=100 * MB)


def a_far_host(job):
    for index in range(3):
        job.trainer(index, wait=9.0 if index != 2 else 4.0)
    for index in range(2):
        job.server(index, kept=(5, 5, 0), late=(0.1, 0, 5))


def a_queue(job):
    every_trainer(wait=6.0)(job)
    job.server(1, kept=(5, 5, 5))


def old_gradients(job):
    for index in range(2):
        job.server(index, staleness=(0, 0, 0, 0, 10, 290))


def a_long_start(job):
    for index in range(3):
        job.trainer(index, began={"t_s": 301.0}, t_s=310.0)


# 3,000 rows an update, and 4 ms of waiting for them
DISK = {"rows": 900, "looked_up": 4000 * STEPS, "found_in_memory": 3000 * STEPS, "reads": 1500 * STEPS, "reads_ahead": 300 * STEPS,
        "wait_ms": 4.0 * STEPS, "written_bytes": 10**6}


def servers_that_read(job):
    for index in range(3):
        job.trainer(index, wait=5.0)
    table = {"event": "table", "table": "clicks", "rows": 1000, "bytes": 1000, "hot_keys": []}
    job.server(0, tables=[{**table, "disk": DISK}])
    job.server(1, tables=[{**table, "disk": {**DISK, "wait_ms": 1.0 * STEPS}}])


PULLED = every_trainer(wait=12.0, traffic={"gradients": (MB, 10), "parameters": (25 * MB, 10)})
DENSE = every_trainer(wait=12.0, traffic={"gradients": (25 * MB, 10), "parameters": (25 * MB, 10)})
SPARSE = every_trainer(wait=12.0, traffic={"gradients": (MB // 4, 2), "parameters": (MB // 4, 2), "rows": (20 * MB, 8), "keys": (5 * MB, 8),
                                         "row_gradients": (25 * MB, 8)}, rows=(10000, 100, 0))
TABLES = every_trainer(wait=4.0, moving=3.4, began={"tables": 52}, traffic={
    "gradients": (300 * KB, 2), "rows": (700 * KB, 208), "keys": (200 * KB, 208), "row_gradients": (900 * KB, 208), "others": (4 * KB, 61)})
COMPUTING = r"compute-bound \(77% of a step\): all is well; twice as many trainers, .* save at most 38% of a step$"

# Of each rule: a mode, a job, and the advice, of which each follows from a number and has a bound.
ADVICE = [
    ("standing_still", "sync", a_trainer_that_sleeps,
     (r"trainer 1 makes no step since \d\d:\d\d:\d\d, 600 s before the end of the logs, after 7 steps: it is in its script, between two steps; .* host, h1; "
      r"trainers 0, 2 wait \(at most 100% of the job\)")),
    ("standing_still", "async", a_trainer_that_sleeps_from_the_start,
     r"trainer 1 makes no step since .*, 98 s .* after 0 steps: .* \(at most 33% of the job\)"),
    ("standing_still", "sync", a_log_that_stops,
     r"trainer 1 makes no step since .*, 80 s before the end of the logs, after 100 steps: it is inside a step"),
    ("standing_still", "sync", nobody_waits_for_whom_is_known,
     r"trainer 0 makes no step since .*: it waits for servers.*; so it is with trainers 1, 2"),
    ("without_steps", "async", no_data_for_one,
     r"trainer 2 ended without a step: is there data for it\? \(3 trainers share .* \(at most 33% of the job\)"),
    ("slow_trainer", "sync", slow_in_its_script,
     (r"trainer 1 works 14 ms in a step, 2\.5x as long as the median of the others: 8\.5 ms more, in its script, before it hands over a step's data; "
      r"others wait up to 8\.5 ms a step for it; look at its host, h1, .*--mode 'sync\(backups=1\)' \(at most 57% of a step\)$")),
    ("slow_trainer", "sync", slow_in_computing,
     r"trainer 2 works .* 4\.9 ms more, in computing; .* its host, h2,.* \(at most 43% of a step\)"),
    ("slow_trainer", "sync", slow_in_a_few_steps, r"trainer 1 .* in its script, in a few steps \(median 0\.4 ms, longest 90 ms\)"),
    ("slow_trainer", "sync", one_that_validates,
     (r"trainer 1 .*; it does there what others do not, such as validation or saving: less often, .* or shared by all "
      r"trainers \(at most 57% of a step\)$")),
    ("slow_trainer", "sync", one_that_validates_in_each_step,
     (r"trainer 1 .*; it does there what others do not, such as validation or saving: less often, .* or shared by all "
      r"trainers \(at most 57% of a step\)$")),
    ("slow_trainer", "sync(backups=1)", slow_in_computing, r"trainer 2 .* host, h2, and its data \(at most"),
    ("slow_trainer", "ssp(2)", slow_and_held_for,
     r"trainer 1 .* 8\.5 ms more, .*; others wait up to 8\.5 ms a step for it; .* and its data \(at most 57%"),
    ("slow_trainer", "async", slow_and_not_waited_for,
     r"trainer 1 .* 8\.5 ms more, .*; the others do not wait, .* \(at most 23% more steps of all\)"),
    ("uneven_steps", "sync", steps_of_many_lengths,
     (r"trainers wait 7\.5 ms a step for one another, of which the slowest one's excess explains 0 ms: "
      r".* \(at most 71% of a step\)")),
    ("servers_apply", "sync", servers_busy,
     (r"trainers wait 8\.1 ms a step \(56%\) for servers that apply; server 1 takes 8\.1 ms an update: use more "
      r"servers than 2 \(at most 56% of a step\)")),
    ("servers_apply", "sync", one_server_busy,
     r"trainers wait .* server 1 takes 8\.1 ms an update, 8\.1x as long as the others: .* h1, is busy \(at most 49%"),
    ("servers_apply", "async", a_queue, r"trainers wait 5\.2 ms a step \(45%\) for servers that apply; server 0"),
    ("compressible", "sync", DENSE,
     (r"waiting for the wire takes 11\.8 ms a step \(67%\); a trainer moves 52\.4 MB in 20 messages, of which 26\.2 MB are dense "
      r"gradients: --compress fp16 makes these half as long \(at most 17% of a step\), int8 a quarter \(at most 25% of a step\)")),
    ("roundable", "sync", PULLED,
     (r"waiting for the wire takes 11\.8 ms a step \(67%\); a trainer moves 27\.3 MB in 20 messages, of which 26\.2 MB are parameters, to trainers: "
      r"--compress-parameters bf16 makes these half as long \(at most 32% of a step\)")),
    ("roundable", "async", every_trainer(wait=12.0, traffic={"rows": (20 * MB, 8), "keys": (5 * MB, 8)}),
     (r".* of which 21 MB rows of sparse tables, to trainers: "
      r"--compress-parameters bf16 .* \(at most 27% of a step\)")),
    ("exchanging_less_often", "sync", DENSE,
     r"waiting .* of which 52\.4 MB are dense gradients and parameters: --mode 'geo\(10\)', .* \(at most 61% of a step\)"),
    ("exchanging_less_often", "geo(4)", DENSE, r".*: --mode with a greater k than now, or larger batches"),
    ("rows_travel", "ssp(2)", SPARSE,
     (r"waiting .* of which 26\.2 MB are rows of sparse tables and their keys, and 26\.2 MB gradients of rows, which --compress does not "
      r"touch; 10000 rows are wanted in a step, 1% of them asked for ahead, 0% found here: distributed\.set_row_cache keeps .* \(at most 39% of a step\)")),
    ("rows_travel", "sync", SPARSE, r"waiting .* 0% found here: distributed\.prefetched asks for them ahead \(at most 39% of a step\)"),
    ("rows_on_disk", "sync", servers_that_read,
     (r"a server waits 4 ms an update for rows of table 'clicks' that lie on its disk, 3000 of all servers, 20% of them read ahead: "
      r"a greater --table-memory, .*; train_from_dataset and distributed\.prefetched announce .* \(at most 38% of a step\)")),
    ("many_tables", "sync", TABLES,
     (r"52 tables make 624 of the 687 messages of a step, and a trainer is 3\.4 ms a step at moving messages: let fields share one table .*"
      r"saves 612 messages \(at most 36% of a step\)")),
    ("few_bytes", "sync", every_trainer(compute=0.1, wait=3.0, traffic={"parameters": (2000, 20)}),
     (r"waiting for the wire takes 2\.8 ms a step \(78%\); a trainer moves 2 kB in 20 messages, which is few bytes for so many messages: "
      r"larger batches")),
    ("one_servers_bytes", "sync", bytes_on_one_server,
     r"server 1 moves 21 GB, (over 100x|100\.0x) as much as the others, and 50% of the waiting ended with its answer"),
    ("far_host", "sync", a_far_host,
     r"gradients of trainer 2 come 5 ms after the first, though it works 5\.5 ms, the others 5\.5 ms: .* host, h2: trireme doctor"),
    ("compressing", "sync", every_trainer(encode=4.0),
     r"compressing gradients by int8 takes 4 ms a step \(38%\): fp16 is cheaper, .* \(at most 38% of a step\)"),
    ("slow_scripts", "sync", every_trainer(script=20.0),
     (r"scripts take 20 ms a step \(77%\) before they hand over its data: a thread that reads ahead "
      r"\(reader\.buffered\) hides at most 23%, .* \(at most 77% of a step\)")),
    ("interruptions", "sync", every_trainer(script=6.0, median=0.5),
     (r"the script of trainer 0 takes 6 ms of a mean step, but 0\.5 ms of the median one and 60 ms of "
      r"the longest: .* \(at most 46% of a step\)")),
    ("before_steps", "sync", a_long_start,
     r"300 s pass from a trainer's start to its first step, 1 s in steps: .* \(at most 100% of the job\)"),
    ("stale", "async", old_gradients, r"half of all gradients are 16 updates old or older, with 3 trainers: --mode 'ssp\(2\)'"),
    (None, "sync", every_trainer(), COMPUTING),
    (None, "sync", old_gradients, COMPUTING),
    (None, "sync", every_trainer(compute=0.5, script=0.1, wait=0.9, traffic={}),
     (r"computing is 33% of a step, and no measure known here brings 15%; the largest "
      r"parts: waiting for the wire 47%, computing 33%, ")),
]


@pytest.mark.parametrize(("rule", "mode", "happens", "says"), ADVICE, ids=[f"{number}: {rule} in {mode}" for number,
                                                                           (rule, mode, *_) in enumerate(ADVICE)])
def test_advice_follows_from_the_figures(tmp_path, rule, mode, happens, says):
    job = Job(tmp_path, mode)
    happens(job)
    figures, lines = figures_of(logs.read(tmp_path)), job.advice()
    if rule is None:
        assert len(lines) == 1 and re.match(says, lines[0]), lines
        return
    own = getattr(advice, rule)(figures)
    assert str(own) in lines and re.match(says, str(own)), f"{own}\n\n{lines}"
    assert own.bound <= 1 and re.search(r"\d", own.text)


def test_each_rule_is_tested():
    assert {rule.__name__ for rule in advice.RULES} == {rule for rule, *_ in ADVICE if rule}


@pytest.mark.parametrize(("happens", "rules"), [
    (SPARSE, {"compressible", "exchanging_less_often", "few_bytes"}), (TABLES, {"compressible", "exchanging_less_often", "few_bytes"}),
    (a_trainer_that_sleeps, {"slow_trainer", "uneven_steps"}), (every_trainer(wait=12.0, traffic={"small_gradients": (25 * MB, 10)}),
                                                                {"compressible"}),
    (every_trainer(wait=12.0, began={"compressible_bytes": 0}, traffic={"gradients": (25 * MB, 10), "parameters": (25 * MB, 10)}),
     {"compressible", "roundable"}),
    (every_trainer(wait=12.0, began={"compress_parameters": "bf16"}, traffic={"gradients": (MB, 10), "parameters": (25 * MB, 10)}),
     {"roundable"})],
    ids=["rows", "tables", "standing still", "small gradients", "float64", "rounded already"])
def test_advice_is_not_given_where_it_would_bring_nothing(tmp_path, happens, rules):
    job = Job(tmp_path)
    happens(job)
    figures = figures_of(logs.read(tmp_path))
    for name in rules:
        found = getattr(advice, name)(figures)
        assert found is None or found.bound < advice.ENOUGH, found


def test_a_trainer_that_stands_still_is_marked(tmp_path):
    a_trainer_that_sleeps_from_the_start(Job(tmp_path, "async"))
    text = explain.report(logs.read(tmp_path))
    assert re.search(r"^ +1 +0 .*h1: no step for 98 s$", text, re.M), text
    assert text.splitlines()[-1].startswith("advice: trainer 1 makes no step since")


def test_a_running_jobs_logs_are_written_at_different_times(tmp_path):
    """A line each ten seconds: one that is nine seconds old says nothing."""
    job = Job(tmp_path)
    for index, last in enumerate((100.0, 91.0, 99.0)):
        job.trainer(index, ends=False, doing="compute", quiet_ms=3.0, t_s=last)
    assert figures_in(tmp_path).stalled == [] and job.advice()[0].startswith("compute-bound")


def test_moved_bytes_are_shown_by_their_kind(tmp_path):
    TABLES(Job(tmp_path))
    text = explain.report(logs.read(tmp_path))
    assert "a trainer moves 2.15 MB in 687 messages, and is 3.4 ms at it, 4.95 us each" in text
    assert ("of these: dense gradients 307 kB in 2, gradients of rows 922 kB in 208, rows 717 kB in 208, keys 205 kB in 208, others 4.1 kB "
            "in 61") in text


def figures_in(folder):
    return figures_of(logs.read(folder))


def test_explain_tells_the_messages_of_each_table(tmp_path):
    """Also where time goes elsewhere, and advice would bring nothing."""
    every_trainer(compute=500.0, began={"tables": 52}, traffic={"rows": (7000, 468), "keys": (2000, 468), "row_gradients": (9000, 468),
                                                                "others": (40, 62)})(Job(tmp_path))
    text = explain.report(logs.read(tmp_path))
    assert ("  52 sparse tables make 1404 messages a step, 27 each: fields that share one "
            "table") in text and "so 2 tables in place of 52 make 54" in text


def test_the_trainer_that_stands_out_is_named():
    assert stands_out([1.0, 2.0, 6.0, 3.0]) == (2, 3.0)
    assert stands_out([4.0]) == (0, 1.0)
    assert stands_out([0.0, 0.0]) == (0, 1.0)


def test_the_parts_of_a_step_add_up(tmp_path):
    job = Job(tmp_path)
    slow_in_its_script(job)
    figures = figures_of(logs.read(tmp_path))
    parts = sum(figures.share(part) for part in ("compute", "script", "encode", "others", "apply", "wire"))
    assert parts == pytest.approx(1.0)
    assert figures.trainers[0].others == pytest.approx(8.5)
    assert figures.trainers[0].late == 0 and figures.trainers[1].late == pytest.approx(8.5)
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
    assert cli.main(["explain", str(tmp_path), "--json"]) == 0
    told = checked("explain", capsys.readouterr().out)
    assert told["staleness"] == [{"from": 0, "to": 0, "gradients": 300}, {"from": 1, "to": 1, "gradients": 100}]
    assert told["tables"] == [{"name": "clicks", "rows": 20, "bytes": 2000, "updates": STEPS, "disk": None, "hot_keys": [
        {"key": 5, "updates": 95}, {"key": 17, "updates": 90}, {"key": 4, "updates": 1}]}]
    assert sum(part["ms"] for part in told["parts"].values()) == pytest.approx(told["step_ms"]) == 6.5
    assert [one["traffic"]["parameters"]["messages"] for one in told["trainers"]] == [20, 20]


def test_the_report_shows_what_lies_on_disk(tmp_path, capsys):
    job = Job(tmp_path)
    servers_that_read(job)
    assert cli.main(["explain", str(tmp_path)]) == 0
    assert ("  1800 rows lie on disk; 75.0% of the keys found their row in memory; 3000 reads an update, 20% ahead; 4 ms an update waiting "
            "for them") in capsys.readouterr().out
    assert cli.main(["explain", str(tmp_path), "--json"]) == 0
    disk, = [table["disk"] for table in checked("explain", capsys.readouterr().out)["tables"]]
    assert disk == {**{name: 2 * count for name, count in DISK.items()}, "wait_ms": DISK["wait_ms"]}


def test_json_has_the_advice_that_the_page_has(tmp_path, capsys):
    job = Job(tmp_path)
    slow_in_computing(job)
    assert cli.main(["explain", str(tmp_path), "--json"]) == 0
    told = checked("explain", capsys.readouterr().out)
    assert [f"{one['text']} (at most {one['at_most']:.0%} {one['of']})" for one in told["advice"]] == job.advice()
    empty = tmp_path / "empty"
    empty.mkdir()
    Job(empty, trainers=1).trainer(0, steps=0)
    assert cli.main(["explain", str(empty), "--json"]) == 0
    told = checked("explain", capsys.readouterr().out)
    assert told["step_ms"] is None and told["advice"][0]["at_most"] is None
    assert cli.main(["explain", str(tmp_path / "none"), "--json"]) == 2 and capsys.readouterr().out == ""


# -- damage ------------------------------------------------------------------------------------------------------------


def remarks(folder):
    return "\n".join(logs.read(folder).remarks)


def test_a_log_that_ends_in_the_middle_of_a_line(tmp_path):
    job = Job(tmp_path)
    path = tmp_path / "trainer-1.jsonl"
    totals = json.loads(path.read_text().splitlines()[-1])
    with open(path, "a") as out:
        out.write(json.dumps({**totals, "event": "steps", "quiet_ms": 3.0}) + '\n{"t_s":3.0,"event":"ste')
    assert "trainer-1.jsonl ends in the middle of a line" in remarks(tmp_path)
    assert re.search(r"trainer-1\.jsonl ends at \d\d:\d\d:\d\d without a summary: its process was killed, or still runs", remarks(tmp_path))
    assert job.advice()[0].startswith("compute-bound")


def test_damaged_lines_are_named_and_the_rest_is_read(tmp_path):
    job = Job(tmp_path)
    path = tmp_path / "server-0.jsonl"
    path.write_bytes(b"\xff\xfe nonsense\n[1]\n" + path.read_bytes() + b"\0\0\0")
    assert "server-0.jsonl: line 1, 2 cannot be read" in remarks(tmp_path)
    assert job.advice()[0].startswith("compute-bound")


def test_figures_of_a_wrong_type_are_none(tmp_path):
    job = Job(tmp_path)
    job.write("server", 0, {"event": "summary", "updates": "many", "kept_by_trainer_ms": 7, "staleness": [None, 1], "apply_ms": None})
    assert job.advice()[0].startswith("compute-bound") and explain.report(logs.read(tmp_path))


@pytest.mark.parametrize("mode", ["sync", "async", "geo(4)"])
def test_steps_without_times_are_explained(mode, tmp_path):
    job = Job(tmp_path, mode)
    for index in range(3):
        job.write("trainer", index, {"event": "steps", "steps": 7})
        assert "advice: " in explain.report(logs.read(tmp_path))


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
    with pytest.raises(NotFoundError, match="cannot read the logs in '/no/where': No such file"):
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


def test_a_standby_stands_in_the_place_that_it_took(tmp_path):
    job = Job(tmp_path)
    died = {"event": "died", "rank": 1, "role": "server", "index": 1, "how": "died"}
    job.write("server", 1, {"event": "steps", "server": 1, "updates": 10})
    job.write("standby", 0, died, {"event": "took_place", "server": 1}, {
        "event": "summary", "server": 1, "updates": 90, "apply_ms": 9.0, "steps_by_trainer": [90, 90, 90]})
    read = logs.read(tmp_path)
    assert read.servers[1].name == "standby-0.jsonl" and read.servers[1].number("updates") == 90
    assert "server 1 died; the others went on" in read.remarks and "took the place of server 1" in "\n".join(read.remarks)


# -- jobs ----------------------------------------------------------------------------------------------------------------


def explained(folder):
    return explain.report(logs.read(folder))


def advised(folder, rule):
    """Return a rule's advice on a job, which must be among those that are printed."""
    figures, text = figures_in(folder), explained(folder)
    found = getattr(advice, rule)(figures)
    assert found is not None and f"advice: {found}" in text.splitlines(), text
    return found


@needs_mpi
@pytest.mark.mpi
def test_a_slow_trainer_is_found(tmp_path):
    launch_under_mpi(1, 2, "--steps", 40, "--slow", 0.05, script=PACED, options=("--log", tmp_path))
    found = advised(tmp_path, "slow_trainer")
    assert re.match(r"trainer 1 works \d.* more, in its script, before it hands over a step's data", found.text) and found.bound > 0.5
    figures = figures_in(tmp_path)
    assert figures.trainers[0].others > 40 and figures.trainers[1].others < 10, explained(tmp_path)


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("step", [0, 5])
@pytest.mark.turns(2)
def test_a_trainer_that_sleeps_for_ever_is_named(mode, step, tmp_path):
    launched = Launched(1, 3, "--steps", 100000, "--stop", step, "--sleep", 0.01, script=PACED,
                        options=("--log", tmp_path, "--mode", mode, "--standbys", 0, "--timeout", 15),
                        env=environment(TRIREME_LOG_SECONDS="0.5"))
    code, text = launched.end()
    assert code == 124, text
    found = advised(tmp_path, "standing_still")
    does = "it is in its script, between two steps" if step else "it has not begun to train"
    assert re.match(rf"trainer 1 makes no step since .*, \d+ s before the end of the logs, after {step} steps: {does}", found.text), found
    others_wait = mode == "sync" or not step           # in every mode all trainers begin together
    assert found.bound == 1 if others_wait else 0.3 < found.bound < 0.4
    assert ("trainers 0, 2 wait" in found.text) == others_wait
    assert "all is well" not in explained(tmp_path)


@needs_mpi
@pytest.mark.mpi
def test_slow_readers_of_data_are_seen(tmp_path):
    launch_under_mpi(1, 2, "--steps", 40, "--sleep", 0.05, script=PACED, options=("--log", tmp_path))
    assert advised(tmp_path, "slow_scripts").bound > 0.5


@needs_mpi
@pytest.mark.mpi
def test_servers_that_apply_are_seen(tmp_path):
    launch_under_mpi(1, 2, "--steps", 30, "--width", 1500, "--batch", 1, "--ftrl", script=PACED, options=("--log", tmp_path, "--standbys", 0))
    assert "use more servers than 1" in advised(tmp_path, "servers_apply").text


@needs_mpi
@pytest.mark.mpi
def test_rows_are_told_from_what_is_compressed(tmp_path):
    launch_under_mpi(1, 2, "--keys", 20000, "--width", 64, script=ROWS, options=("--log", tmp_path, "--standbys", 0))
    figures = figures_in(tmp_path)
    assert advice.compressible(figures) is None and "--compress fp16" not in explained(tmp_path)
    assert sum(figures.traffic(kind)[0] for kind in ("rows", "row_gradients")) > 0.9 * figures.mean("bytes")


@needs_mpi
@pytest.mark.mpi
def test_many_small_tables_share_messages_and_get_no_advice(tmp_path):
    messages = {}
    for tables in (52, 1):
        launch_under_mpi(4, 2, "--tables", tables, script=ROWS, options=("--log", tmp_path / str(tables), "--standbys", 0))
        messages[tables] = figures_in(tmp_path / str(tables)).mean("messages")
        assert advice.many_tables(figures_in(tmp_path / str(tables))) is None
    assert messages[52] < messages[1] + 50, messages                  # and 600 more if each table had its own
    assert figures_in(tmp_path / "52").traffic("bundles")[1] > 0


@needs_mpi
@pytest.mark.mpi
def test_bytes_that_compression_would_save_are_those_that_it_saves(tmp_path):
    figures = {}
    for compress, back in (("none", "none"), ("fp16", "bf16")):
        launch_under_mpi(1, 2, "--steps", 30, "--width", 1500, "--batch", 1, script=PACED,
               options=("--log", tmp_path / compress, "--standbys", 0, "--compress", compress, "--compress-parameters", back))
        figures[compress] = figures_in(tmp_path / compress)
    plain, smaller = figures["none"], figures["fp16"]
    touched = plain.traffic("gradients")[0]
    assert touched == pytest.approx(plain.compressible, rel=0.01)      # headers
    assert smaller.traffic("compressed")[0] == pytest.approx(touched / 2, rel=0.01) and smaller.traffic("gradients")[0] == 0
    assert smaller.traffic("parameters")[0] == pytest.approx(plain.traffic("parameters")[0] / 2, rel=0.02)
    assert advice.compressible(smaller) is None and advice.roundable(smaller) is None and smaller.compress_parameters == "bf16"


@needs_mpi
@pytest.mark.mpi
def test_a_job_that_computes_is_left_alone(tmp_path):
    launch_under_mpi(1, 1, "--steps", 12, "--width", 256, "--layers", 30, "--batch", 256, script=PACED, options=("--log", tmp_path))
    text = explained(tmp_path)
    assert re.search(r"^advice: compute-bound \(\d+% of a step\): all is well", text, re.M), text


@needs_mpi
@pytest.mark.mpi
def test_a_trainer_that_was_killed_leaves_a_log(tmp_path):
    job = Launched(1, 2, "--steps", 60, "--sleep", 0.05, script=PACED, options=("--log", tmp_path, "--mode", "async", "--standbys", 0))
    ranks = job.ranks()
    deadline = time.monotonic() + LIMIT
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


@needs_mpi
@pytest.mark.mpi
def test_every_field_of_the_logs_is_described(tmp_path):
    launch_under_mpi(2, 2, "--tables", 2, script=ROWS, options=("--log", tmp_path / "logs", "--standbys", 1, "--checkpoint", tmp_path / "kept"))
    lines = [(path.name, json.loads(line)) for path in sorted((tmp_path / "logs").iterdir()) for line in path.read_text().splitlines()]
    assert {name for name, _ in lines} == {"launcher.jsonl", "server-0.jsonl", "server-1.jsonl", "standby-0.jsonl", "trainer-0.jsonl",
                                           "trainer-1.jsonl"}
    told = set(re.findall(r"`([^`]+)`", (SCRIPT.parents[3] / "docs" / "logs.md").read_text()))
    fields = {re.sub(r"_(median|max)_ms$", "_ms", field) for _, line in lines for field in line}
    traffic = {kind for _, line in lines for kind in line.get("bytes_by_class", ())}
    assert (fields | traffic | {line["event"] for _, line in lines}) - told == set()
    assert traffic == set(TRAFFIC_CLASSES)
