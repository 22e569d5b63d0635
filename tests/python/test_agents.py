"""The agent of a host, which watches its ranks: without a job, beside processes that stand for ranks."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from host_support import SLACK
from job_support import LIMIT

from trireme.launch import hosts, pipes
from trireme.launch import agent as agents

pytestmark = pytest.mark.mpi


def test_an_agent_may_take_longer_to_start_than_to_say_that_it_lives(monkeypatch, tmp_path):
    monkeypatch.setattr(hosts, "_SILENCE", 0.1)
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nsleep 1; echo \'["ready", 4]\'; sleep 60\n')
    ssh.chmod(0o755)
    host = hosts.Host("far", [str(ssh)], "trireme-test")
    try:
        assert heard(host, "ready") == [4]
        time.sleep(0.2)
        host.read()
        assert host.lost == "nothing came from it for 0.1 s"
    finally:
        host.process.kill()
        host.close(0)


@pytest.fixture
def agent(tmp_path):
    """An agent beside us: an ssh that goes nowhere. Its folder, and what talks to it."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    folder = tmp_path / "trireme-hosts-1-test"
    host = hosts.Host("far", [str(ssh)], f"trireme-test-{os.getpid()}")
    host.begin([3], str(folder))
    yield folder, host
    host.process.kill()
    host.close(0)


def heard(host, kind, backlog={}):    # noqa: B006 - of all calls together
    """Wait for a word of this kind; return what came with it. What comes before it is passed over."""
    deadline = time.monotonic() + LIMIT
    words = backlog.setdefault(host, [])
    while time.monotonic() < deadline and (host.lost is None or words):
        words += host.read()
        while words:
            word, *rest = words.pop(0)
            if word == kind:
                return rest
        time.sleep(0.01)
    pytest.fail(f"no {kind!r} came; the agent: {host.lost}")


def sleeper(folder, rank):
    return subprocess.Popen(["sleep", "60"], env={"TRIREME_JOB_FOLDER": str(folder), "OMPI_COMM_WORLD_RANK": str(rank),
                                                  "PATH": "/usr/bin:/bin"})


def test_an_agent_tells_of_ranks_and_passes_on_what_they_say(agent):
    folder, host = agent
    assert heard(host, "ready")[0] >= 1
    heard(host, "begun")
    assert folder.is_dir()
    rank = sleeper(folder, 3)
    assert heard(host, "rank") == [3, rank.pid]
    (folder / "told.3").write_text("rank 3 is tired")
    assert heard(host, "file") == ["told.3", "rank 3 is tired"]
    for figures in ('{"step": 1}', '{"step": 2}'):         # written anew all the time, beside the place and then moved there
        (folder / "progress-3~").write_text(figures)
        (folder / "progress-3~").rename(folder / "progress.3")
        assert heard(host, "file") == ["progress.3", figures]
    host.tell("kill")
    assert heard(host, "gone") in ([3, signal.SIGKILL], [3, -1]) and rank.wait(LIMIT) == -signal.SIGKILL


def test_an_agent_passes_on_what_ranks_print_as_far_as_there_is_room(agent):
    folder, host = agent
    heard(host, "begun")
    rank = subprocess.Popen([*pipes.WRAPPER, "sh", "-c", f"printf 'h\\303\\251\\n' >&2; head -c {agents.ROOM} /dev/zero; echo end"],
                            env={"TRIREME_JOB_FOLDER": str(folder), "OMPI_COMM_WORLD_RANK": "3", "PATH": "/usr/bin:/bin"})
    words = []
    end = time.monotonic() + LIMIT
    while sum(len(text) for _, _, text in words) < agents.ROOM and time.monotonic() < end:
        words += [rest for kind, *rest in host.read() if kind == "printed"]
        time.sleep(0.01)
    assert rank.wait(LIMIT) == 0                              # a pipe has room for the rest
    assert [3, 2, "h\u00c3\u00a9\n"] in words and sum(len(text) for _, _, text in words) == agents.ROOM
    host.take(100)
    host.give_room()
    host.tell("kill")
    rest = heard(host, "printed")[2]
    assert rest.endswith("end\n") and heard(host, "drained") == []


def test_an_agent_leaves_nothing_when_the_launcher_is_gone(agent):
    folder, host = agent
    heard(host, "begun")
    kept = Path(f"/dev/shm/trireme-test-{os.getpid()}.server0")
    kept.touch()
    rank, other = sleeper(folder, 0), sleeper(folder.with_name("another-job"), 0)
    heard(host, "rank")
    host.process.stdin.close()
    assert rank.wait(LIMIT) == -signal.SIGKILL and host.process.wait(LIMIT) == 0 and not folder.exists()
    assert other.poll() is None and not kept.exists()
    other.kill()
    other.wait()


def test_an_agent_does_not_wait_for_ever_for_a_silent_launcher(agent):
    folder, host = agent
    heard(host, "begun")
    begin = time.monotonic()
    assert host.process.wait(agents.SILENCE + SLACK) == 0 and not folder.exists()
    assert time.monotonic() - begin > agents.SILENCE - 1
