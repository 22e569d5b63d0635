"""How a process ends: by sys.exit in any thread, with daemon threads, by Ctrl-C at any place."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from job_support import LIMIT, Launched, environment, needs_mpi

import trireme as fluid
from trireme.reader import ahead

TRAINS = """
import sys, threading, time
import numpy as np
import trireme as fluid
x = fluid.layers.data("x", [4])
loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 1)))
fluid.optimizer.SGD(0.01).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
feed = {"x": np.ones((8, 4), "float32")}
step = lambda: exe.run(feed=feed, fetch_list=[loss])
step()
"""
WAYS = {
    "in a thread": ("thread = threading.Thread(target=sys.exit, args=(3,)); thread.start(); thread.join(); step()", 0),
    "caught": ("try:\n    sys.exit(3)\nexcept SystemExit as error:\n    assert error.code == 3", 0),
    "changed": ("try:\n    sys.exit(3)\nexcept SystemExit as error:\n    sys.exit(error.code + 1)", 4),
    "a daemon trains": (("def train():\n    while True:\n        step()\nthreading.Thread(target=train, daemon=True).start(); "
                         "time.sleep(.1)"), 0),
    "a daemon trains and the script fails": (("def train():\n    while True:\n        step()\n"
                                              "threading.Thread(target=train, daemon=True).start(); time.sleep(.1); sys.exit(5)"), 5),
}


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("way", WAYS)
def test_a_rank_ends_as_python_does(tmp_path: Path, way: str) -> None:
    text, code = WAYS[way]
    script = tmp_path / "ends.py"
    script.write_text(TRAINS + text)
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert alone.returncode == code, alone.stderr
    got, said = Launched(1, 1, script=script).end()
    assert got == code and "Traceback" not in said, said


def test_a_reader_whose_start_is_interrupted_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come when the thread has begun, and before the caller has the reader."""
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        begun.append(thread)
        raise KeyboardInterrupt

    x = fluid.layers.data("x", [1])
    reader = fluid.io.PyReader([x], capacity=2, iterable=False)
    reader.decorate_batch_generator(lambda: iter(lambda: [np.ones((1, 1), "float32")], None))
    with monkeypatch.context() as patch:
        patch.setattr(ahead.threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.start()
    begun[0].join(LIMIT)
    assert not begun[0].is_alive()
    reader.start()                                         # and the reader can be started
    assert fluid.Executor().run(fetch_list=[x])[0].tolist() == [[1.0]]
    reader.reset()


LOST = """
import gc, os, signal, sys, time
import trireme as fluid
import numpy as np

def press():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):                                  # Python raises within here
        pass

class Pressed:
    def __del__(self):
        press()

def collected(phase, info):
    if phase == "start":
        gc.callbacks.remove(collected)
        press()

signal.signal(signal.SIGINT, signal.default_int_handler)
fluid.Executor().run(fluid.default_startup_program())
for way in ("__del__", "gc"):
    try:
        if way == "gc":
            gc.callbacks.append(collected)
            gc.collect()
        else:
            Pressed()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.01)
        print("lost")
    except KeyboardInterrupt:
        print("heard", way)
try:
    class Bad:
        def __del__(self):
            raise ValueError("as before")
    Bad()
finally:
    print("end")
"""


def test_an_interrupt_that_python_swallows_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=LIMIT, check=False, env=environment())
    assert done.stdout == "heard __del__\nheard gc\nend\n", done.stdout + done.stderr
    assert "ValueError: as before" in done.stderr and "KeyboardInterrupt" not in done.stderr
    assert done.returncode == 0
