"""Child processes: how they ended is known also where this process ignores SIGCHLD, or collects all its children."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys
import trireme as fluid

def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, {"default": signal.SIG_DFL, "ignore": signal.SIG_IGN, "reap": reap}[sys.argv[1]])

def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])

def lines(command):
    slots = [fluid.Slot("a", "float32", [-1, 1])]
    return sum(len(batch["a"]) for batch in fluid.Dataset("s.csv", "csv", batch_size=10, pipe_command=command, slots=slots))

def dies():
    yield 1
    os.kill(os.getpid(), 9)

for command in ("cat", "cat; exit 3", "kill -9 $$", "yes 1 | head -7"):
    attempt(lambda: lines(command))
for command in ("seq 2", "sh -c 'seq 2; exit 3'", "sh -c 'kill -9 $$'"):
    attempt(lambda: list(fluid.reader.PipeReader(command).get_line()))
attempt(lambda: sorted(fluid.reader.multiprocess_reader([lambda: iter("ab"), lambda: iter("c")])()))
attempt(lambda: list(fluid.reader.multiprocess_reader([dies])()))
del fluid.reader.PipeReader("sleep 600")._running
fluid.reader.PipeReader("sleep 600")
print("end")
"""

WANT = """20
FileError data: 'cat; exit 3' on 's.csv' ended with exit code 3
FileError data: 'kill -9 $$' on 's.csv' ended with signal 9
7
['1', '2']
RuntimeError PipeReader: data: 'exec sh -c 'seq 2; exit 3'' ended with exit code 3
RuntimeError PipeReader: data: 'exec sh -c 'kill -9 $$'' ended with signal 9
['a', 'b', 'c']
RuntimeError multiprocess_reader: a process ended{} before its reader was done
end
"""


@pytest.mark.parametrize("how", ["default", "ignore", "reap"])
def test_the_end_of_a_command_is_known_whatever_a_process_does_about_its_children(tmp_path: Path, how: str) -> None:
    (tmp_path / "s.csv").write_text("1,2\n" * 20)
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout in (WANT.format(""), WANT.format(" with exit code -9")), done.stderr
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("command", ["echo $$ > pid; exec sleep 600", "sh -c 'echo $$ > pid; exec sleep 600' | cat",
                                     "sleep 600 & echo $! > pid; wait"])
def test_a_command_ends_with_the_process_that_reads_it(tmp_path: Path, command: str) -> None:
    (tmp_path / "s.csv").write_text("1\n")
    script = f"""
import os, threading, time
import trireme as fluid
def look():
    while not os.path.exists("pid") or not open("pid").read().endswith("\\n"):
        time.sleep(.01)
    os.kill(os.getpid(), 9)
threading.Thread(target=look).start()
list(fluid.Dataset("s.csv", "csv", pipe_command={command!r}, slots=[fluid.Slot("a", "float32", [-1, 1])]))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, timeout=100, check=False)
    assert done.returncode == -9
    status = Path(f"/proc/{int((tmp_path / 'pid').read_text())}/status")
    for _ in range(1000):
        if not status.exists() or "\nState:\tZ" in status.read_text():
            return
        subprocess.run(["sleep", "0.01"], check=True)
    raise AssertionError("the command lives")


def test_trireme_knows_how_its_ranks_ended_if_its_parent_ignored_sigchld(tmp_path: Path) -> None:
    script = ("import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
              "subprocess.run([sys.executable, '-m', 'trireme', 'launch', '--servers', '1', '--trainers', '1', 'fails.py'])\n")
    (tmp_path / "fails.py").write_text("import sys\nsys.exit(7)\n")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert "exit code 7" in done.stderr, done.stderr


def test_a_command_gets_the_environment_of_its_own_pass(tmp_path: Path) -> None:
    """Not that of the first feed of the process: a script may learn later where its data lies, or by which key."""
    (tmp_path / "s.csv").write_text("1\n")
    done = subprocess.run([sys.executable, "-c", """
import os
import trireme as fluid
data = fluid.Dataset("s.csv", "csv", pipe_command="echo ${NUMBER:-5}", slots=[fluid.Slot("a", "float32", [-1, 1])])
for number in (None, "6", "7"):
    if number:
        os.environ.update(NUMBER=number)
    print(*(float(batch["a"][0, 0]) for batch in data))
"""], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["5.0", "6.0", "7.0"], done.stdout + done.stderr
