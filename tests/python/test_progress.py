"""The line that says how a job goes, and the console that it shares with the ranks."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import urllib.request

import pytest
from job_support import LIMIT, SCRIPT, Launched, environment, needs_mpi

from trireme.launch import cli, live
from trireme.errors import InvalidArgumentError
from trireme.launch.console import Console
from trireme.launch.progress import Progress, median_bin, staleness_range
from trireme.launch.runlog import RunLog
from trireme.launch.watch import Rank, Ranks


@pytest.fixture
def ranks(tmp_path):
    """Two servers, two trainers, a standby; all have joined."""
    ranks = Ranks(1, tmp_path, 2, 2, 1, looks=1)
    for rank in range(5):
        ranks.known[rank] = Rank(rank, 100 + rank, None)
        (tmp_path / f"joined.{rank}").touch()
    return ranks


def tell(ranks, rank, **figures):
    (ranks.folder / f"progress.{rank}").write_text(json.dumps({"rank": rank, **figures}))


def test_the_progress_line_is_empty_before_the_first_step(ranks):
    progress = Progress(Console(), 1)
    assert progress.text(ranks, 0) == ""
    tell(ranks, 2, role="trainer", step=0)
    assert progress.text(ranks, 1) == ""


def test_the_line_has_all_that_is_known(ranks):
    progress = Progress(Console(), 1)
    tell(ranks, 2, role="trainer", step=10, loss=0.5)
    tell(ranks, 3, role="trainer", step=9, loss=0.7)
    assert progress.text(ranks, 100.0) == "step 10  loss 0.5  2 trainers  2 servers  1 standby"
    tell(ranks, 2, role="trainer", step=30, loss=0.25)
    tell(ranks, 0, role="server", server=0, staleness=[3, 5, 0, 1])
    tell(ranks, 1, role="server", server=1, staleness=[3, 5, 0, 0])
    progress.restarts = 1
    assert progress.text(ranks, 104.0) == ("step 30  5 steps/s  loss 0.25  2 trainers  2 servers  1 standby  staleness 1 (max 7)  "
                                           "1 restart")


def test_without_the_option_nothing_is_said(ranks, capsys):
    tell(ranks, 2, role="trainer", step=5)
    quiet, loud = Progress(Console(), 0), Progress(Console(), 1e-6)
    quiet.look(ranks)
    assert capsys.readouterr().err == ""
    loud.look(ranks)
    assert capsys.readouterr().err.startswith("trireme launch: step 5  ")


def test_missing_trainers_are_counted(ranks):
    progress = Progress(Console(), 1)
    tell(ranks, 2, role="trainer", step=5)
    (ranks.folder / "lost.3").touch()
    ranks.note_gone(0)                                     # a server, whose place the standby has taken
    tell(ranks, 4, role="server", server=0, staleness=[1])
    assert progress.text(ranks, 0) == "step 5  1 of 2 trainers  2 servers"


def test_damaged_figures_are_passed_over(ranks):
    (ranks.folder / "progress.2").write_text('{"rank": 2, "ro')
    (ranks.folder / "progress.0").write_text("[]")
    tell(ranks, 3, role="trainer", step=5)
    assert Progress(Console(), 1).text(ranks, 0).startswith("step 5  2 trainers")


def test_a_trainer_that_makes_no_step_is_named(ranks):
    progress = Progress(Console(), 1)
    progress.begin(0)
    begin = progress._pace.begun
    tell(ranks, 2, role="trainer", step=6)                 # waits for the other one in its next step
    tell(ranks, 3, role="trainer", step=5)
    progress._note(ranks, begin)
    assert progress.laggards(ranks, begin + 9) == []
    assert progress.text(ranks, begin + 12).endswith("  rank 3 (trainer 1) has been at step 5 for 12 s")
    (ranks.folder / "done.3").touch()
    assert progress.laggards(ranks, begin + 12) == ["rank 2 (trainer 0) has been at step 6 for 12 s"]


def test_a_trainer_that_is_far_behind_is_named(ranks):
    progress = Progress(Console(), 1)
    progress.begin(0)
    begin = progress._pace.begun
    for second in range(3):
        tell(ranks, 2, role="trainer", step=100 * (second + 1))
        tell(ranks, 3, role="trainer", step=second + 1)
        progress._note(ranks, begin + second)
    assert progress.laggards(ranks, begin + 2) == ["rank 3 (trainer 1) has been at step 3 for 0 s"]


def test_a_trainer_without_a_first_step_is_named(ranks):
    progress = Progress(Console(), 1)
    progress.begin(0)
    tell(ranks, 2, role="trainer", step=1)
    progress._note(ranks, progress._pace.begun)
    assert progress.laggards(ranks, progress._pace.begun + 30) == ["rank 3 (trainer 1) has made no step for 30 s"]


def test_a_trainer_that_stays_for_the_last_checkpoint_holds_nobody_up(ranks):
    progress = Progress(Console(), 1)
    progress.begin(0)
    (ranks.folder / "left.3").write_text("5 5 1")
    tell(ranks, 2, role="trainer", step=6)
    progress._note(ranks, progress._pace.begun)
    assert progress.laggards(ranks, progress._pace.begun + 30) == ["rank 2 (trainer 0) has been at step 6 for 30 s"]


class Leaving:
    """The launcher's looks at trainers, one of which leaves."""

    def __init__(self, ranks):
        self.ranks, self.progress = ranks, Progress(Console(), 1)
        self.progress.begin(0)
        self.begin = self.progress._pace.begun

    def leaves(self, rank, text):
        (self.ranks.folder / f"left.{rank}").write_text(text)

    def look(self, seconds, **steps):
        for name, step in steps.items():
            tell(self.ranks, int(name[1:]), role="trainer", step=step)
        self.progress._note(self.ranks, self.begin + seconds)
        return self.progress._early_exits.news(self.ranks, self.begin + seconds)


def test_a_trainer_that_has_left_is_said_when_others_have_made_ten_steps_more(ranks):
    job = Leaving(ranks)
    job.leaves(3, "120 20 1")                              # of a job that has gone on from step 100
    assert job.look(0, r2=20, r3=20) == []
    assert job.look(1, r2=30) == []
    assert job.look(2, r2=31) == ["trainer 1 left after step 120; the others go on"]
    assert job.look(3, r2=90) == []


def test_a_trainer_that_has_left_is_said_after_five_seconds_of_few_steps(ranks):
    job = Leaving(ranks)
    job.leaves(2, "20 20 1")
    assert job.look(0, r3=20) == [] == job.look(4, r3=23)
    assert job.look(5.1, r3=24) == ["trainer 0 left after step 20; the others go on"]


def test_a_script_that_takes_longer_behind_its_last_step_is_an_ordinary_end(ranks):
    job = Leaving(ranks)
    job.leaves(3, "20 20 1")
    assert job.look(0, r2=20) == [] == job.look(60, r2=20)


def test_in_asynchronous_modes_progress_counts_from_the_first_trainer_that_leaves(ranks):
    job = Leaving(ranks)
    assert job.look(0, r2=100, r3=20) == []
    job.leaves(3, "20 20 0")
    assert job.look(1, r2=150) == []                       # this figure may be of before
    assert job.look(3, r2=170) == []
    assert job.look(4, r2=181) == ["trainer 1 left after step 20; the others go on"]


def test_without_figures_the_others_last_steps_tell(ranks):
    job = Leaving(ranks)
    job.leaves(3, "20 20 1")
    assert job.look(0) == []
    job.leaves(2, "40 40 1")
    assert job.look(1) == ["trainer 1 left after step 20; the others go on"]


def test_bins_of_staleness():
    assert [staleness_range(bin) for bin in range(5)] == [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15)]
    assert median_bin([0, 0, 0]) == 0 and median_bin([1, 5, 1]) == 1 and median_bin([0, 0, 9]) == 2


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="logs cannot be written to '.*/file/log': Not a directory"):
        RunLog(str(tmp_path / "file" / "log"), Console()).begin()


def test_old_logs_go_and_nothing_else(tmp_path):
    for name in ("trainer-7.jsonl", "launcher.jsonl", "mine.jsonl", "trainer-7.txt"):
        (tmp_path / name).write_text("old\n")
    RunLog(str(tmp_path), Console()).begin(servers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["launcher.jsonl", "mine.jsonl", "trainer-7.txt"]
    assert json.loads((tmp_path / "launcher.jsonl").read_text())["servers"] == 1


# -- the same for Prometheus -------------------------------------------------------------------------------------------


def test_a_rank_that_tells_nothing_grows_old_and_one_without_a_step_quiet(ranks, monkeypatch):
    job = live.Live("train.py")
    progress = Progress(Console(), 0, job)
    progress.begin(0)
    clock = [100.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    for second in range(8):
        if second < 4:
            tell(ranks, 2, role="trainer", step=10 * second, doing="wait", wait_ms=500 * second)
        tell(ranks, 0, role="server", server=0, updates=10 * second, idle_ms=0)
        tell(ranks, 3, role="trainer", step=min(second, 1), doing="script", loss=float("inf"), memory_bytes=1 << 20)
        for rank in (0, 2, 3):                         # each write of the file counts, also where it says the same
            os.utime(ranks.folder / f"progress.{rank}", (0, second if rank != 2 else min(second, 3)))
        clock[0] = 100.0 + second
        progress._note(ranks, clock[0])
    server, stopped, hangs = job.now.ranks
    assert [(one.role, one.index, one.age, one.quiet) for one in job.now.ranks] == [
        ("server", 0, 0.0, None), ("trainer", 0, 4.0, 4.0), ("trainer", 1, 0.0, 6.0)]
    assert server.rate == 10 and stopped.step == 30 and hangs.memory == 1 << 20 and 0 < stopped.wait < 0.5
    (ranks.folder / "left.2").write_text("30 30 1")
    progress._note(ranks, clock[0])
    assert job.now.ranks[1].quiet is None              # it makes no more steps


def test_deaths_and_restarts_are_counted_over_all_starts(ranks):
    job = live.Live("train.py")
    progress = Progress(Console(), 0, job)
    for start in range(2):
        progress.begin(start)
        tell(ranks, 4, role="server", server=1, updates=5)             # the standby has become a server
        (ranks.folder / "lost.1").write_text("killed")
        progress._note(ranks, 0.0)
    assert job.now.restarts == 1 and job.now.deaths == {"server": 2, "trainer": 0, "standby": 0, "replica": 0}
    assert job.now.wanted == {"server": 2, "trainer": 2, "standby": 1, "replica": 0}
    assert job.now.living == {"server": 2, "trainer": 2, "standby": 0, "replica": 0}


# -- jobs -----------------------------------------------------------------------------------------------------------


@needs_mpi
@pytest.mark.mpi
def test_a_job_says_how_far_it_is_and_leaves_logs(tmp_path):
    script = SCRIPT.with_name("paced.py")
    job = Launched(1, 2, "--steps", 60, "--sleep", 0.04, script=script, replacements=True,
                   options=("--progress", 0.5, "--log", tmp_path / "logs", "--metrics-port", 0))
    where = re.search(r"http://127\.0\.0\.1:\d+/metrics", job.process.stdout.readline())[0]
    numbers = [""]

    def has_steps():
        with contextlib.suppress(OSError):             # the job has ended
            numbers.append(urllib.request.urlopen(where, timeout=LIMIT).read().decode())
        return all(re.search(rf'^trireme_steps_total{{.*"{rank}",role="{role}"}} [1-9]', numbers[-1], re.M)
                   for rank, role in ((0, "server"), (0, "trainer"), (1, "trainer")))

    job.wait_for(has_steps, "numbers of steps")
    assert 'trireme_ranks{role="standby"} 1.0' in numbers[-1] and "trireme_restarts_total 0.0" in numbers[-1]
    assert re.search(r'^trireme_resident_memory_bytes{.*role="server"} [1-9]', numbers[-1], re.M)
    code, text = job.end()
    assert code == 0, text
    lines = re.findall(r"^trireme launch: (step .*)$", text, re.M)
    whole = r"step \d+  [\d.]+ steps/s  loss [\d.]+  2 trainers  1 server  1 standby"
    assert any(re.fullmatch(whole, line) for line in lines), text                  # one at the end may have a trainer less
    logs = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in (tmp_path / "logs").iterdir()}
    assert sorted(logs) == ["launcher", "server-0", "standby-0", "trainer-0", "trainer-1"]
    assert [line["event"] for line in logs["launcher"]] == ["start", "end"]
    for name in ("trainer-0", "trainer-1"):
        joined, began, *steps, summary = logs[name]
        assert (joined["event"], began["event"], began["mode"], summary["event"], summary["end"]) == (
            "joined", "began", "sync", "summary", "well")
        assert {line["event"] for line in steps} == {"steps"} and summary["steps"] == 60
        assert summary["step_ms"] == pytest.approx(summary["compute_ms"] + summary["script_ms"] + summary["wait_ms"], rel=0.01)
        assert summary["script_median_ms"] > 35 and summary["wait_by_server_ms"][0] > 0
    end = logs["server-0"][-1]
    assert end["updates"] == 60 and end["steps_by_trainer"] == [60, 60] and end["staleness"][0] == 120


@needs_mpi
@pytest.mark.mpi
def test_a_log_that_cannot_be_written_is_refused(capsys):
    assert cli.main(["launch", "--log", "/proc/logs", str(SCRIPT)]) == 2
    assert "logs cannot be written to '/proc/logs'" in capsys.readouterr().err


def run_in_terminal(words, seconds):
    """Return what a terminal gets to see."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment())
    os.close(theirs)
    seen, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and select.select([ours], [], [], end - time.monotonic())[0]:
        try:
            seen += os.read(ours, 1 << 16)
        except OSError:
            break
    os.close(ours)
    assert process.wait(LIMIT) == 0, seen
    return seen.decode()


@needs_mpi
@pytest.mark.mpi
def test_a_job_outlives_its_terminal_under_nohup(tmp_path):
    """More than a pipe holds is printed when nobody looks any more."""
    ours, theirs = pty.openpty()
    code = ("import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
            "os.execv(sys.executable, [sys.executable, '-m', 'trireme', *sys.argv[1:]])")
    words = ["launch", "--trainers", "1", str(SCRIPT.with_name("paced.py")), "--steps", "60", "--sleep", "0.02", "--say", "1",
             "--mark", str(tmp_path / "end"), "--wide", "4000"]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                               env=environment(), start_new_session=True)
    os.close(theirs)
    while b"at step" not in os.read(ours, 1 << 16):
        continue
    os.close(ours)
    assert process.wait(LIMIT) == 0 and (tmp_path / "end").exists()


@needs_mpi
@pytest.mark.mpi
def test_on_a_terminal_the_line_is_rewritten_below_what_ranks_print():
    seen = run_in_terminal([sys.executable, "-m", "trireme", "launch", "--trainers", "1", str(SCRIPT.with_name("paced.py")), "--steps",
                            "70", "--sleep", "0.04", "--say", "20"], LIMIT)
    rows = [re.split("\r\x1b\\[K|\r", row)[-1] for row in seen.replace("\r\n", "\n").split("\n")]
    assert [row for row in rows[1:] if row] == [f"at step {step}" for step in (0, 20, 40, 60)], rows     # the line is gone at the end
    assert len(re.findall(r"\x1b\[Kstep \d+", seen)) >= 2
