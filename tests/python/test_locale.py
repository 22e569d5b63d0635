"""Numbers are read and written with a point, whatever setlocale says: a plotting library may call it in the middle of a training."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import locale, sys
import numpy as np
import trireme as fluid

layers = fluid.layers
if sys.argv[1] == "before":
    locale.setlocale(locale.LC_ALL, "")
image, label = layers.data("image", [1, 6, 6]), layers.data("label", [1], dtype="int64")
shown = layers.Print(layers.conv2d(image, 2, 3), message="seen", first_n=1)
score = layers.fc(layers.batch_norm(layers.label_smooth(shown, epsilon=.125)), 2, act="softmax")
loss = layers.mean(layers.cross_entropy(score, label))
rate = layers.exponential_decay(.05, 10, .5)
fluid.optimizer.Momentum(rate, .9, regularization=fluid.regularizer.L2Decay(.001)).minimize(loss)
test = fluid.default_main_program().clone(for_test=True)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
random = np.random.default_rng(0)
fluid.profiler.start_profiler("All") if sys.argv[1] == "later" else None
for step in range(6):
    if step == 2:
        locale.setlocale(locale.LC_ALL, "")
    feed = {"image": random.normal(size=(8, 1, 6, 6)).astype("float32"), "label": random.integers(0, 2, (8, 1))}
    cost, = exe.run(feed=feed, fetch_list=[loss])
fluid.profiler.stop_profiler("total", "profile") if sys.argv[1] == "later" else None
open("lines.csv", "w").write("0.5,1.25000000000000000000001\\n")
for batch in fluid.Dataset("lines.csv", "csv", slots=[fluid.Slot("a", "float32", [-1, 2])]):
    assert batch["a"].tolist() == [[0.5, 1.25]]
program = fluid.default_main_program()
assert "0.9" in str(program) and "0,9" not in str(program)
if fluid.distributed.trainer_count() == 1:
    fluid.io.save_inference_model("model", ["image"], [score], exe, main_program=test)
    fluid.io.load_inference_model("model", exe)
print(locale.localeconv()["decimal_point"], np.ravel(cost)[0].tobytes().hex(), flush=True)
"""


@pytest.fixture(scope="module")
def comma(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return variables of the environment under which a comma stands in numbers."""
    folder = tmp_path_factory.mktemp("locales")
    tool = shutil.which("localedef")
    made = tool and subprocess.run([tool, "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")], capture_output=True, check=False)
    env = {**os.environ, "LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}
    ask = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.localeconv()['decimal_point'])"
    said = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=False)
    if not made or said.stdout != ",\n":
        pytest.skip("a German locale cannot be made here: localedef and its sources (package locales) are needed")
    return env


def run(folder: Path, env: dict[str, str], *words: str) -> str:
    (folder / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0," not in done.stdout.replace("0, ", ""), done.stdout
    return done.stdout.splitlines()[-1].split("] ")[-1]


def test_a_comma_changes_nothing_in_one_process(tmp_path: Path, comma: dict[str, str]) -> None:
    plain = run(tmp_path, {**os.environ, "LC_ALL": "C"}, "script.py", "never")
    for when in ("before", "later"):
        assert run(tmp_path, comma, "script.py", when) == plain.replace(".", ",", 1)
    events = json.loads((tmp_path / "profile").read_text())["traceEvents"]
    assert any(event["dur"] > 0 for event in events)


def test_a_comma_changes_nothing_in_a_job(tmp_path: Path, comma: dict[str, str]) -> None:
    launch = ["-m", "trireme", "launch", "--servers", "2", "--trainers", "1", "--log", "logs", "script.py", "before"]
    run(tmp_path, comma, *launch)
    lines = [json.loads(line) for path in (tmp_path / "logs").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert any(isinstance(value, float) for line in lines for value in line.values())
