"""Random scripts in jobs have the numbers of one process (compare_scripts.py)."""

from __future__ import annotations

import heapq
import os
import shutil
import warnings
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from compare_scripts import build_transport, compare_all
from forked_jobs import Built, run_alone, run_job
from script_maker import make_script

SCRIPTS = 2000                                         # 0.2 s of a processor each; `make soak` takes thousands

# What the scripts are about: each must be there often enough, so that no change of the maker loses it.
FEATURES = ["table", "is_sparse", "dense", "sequences", "a second lookup", "batch_norm", "layer_norm", "dropout", "IfElse", "While",
            "shared parameter",
            "frozen", "fed persistable", "decay of one parameter", "decay", "rate of one parameter", "clip", "EMA", "ModelAverage",
            "a parameter assigned in the program", "save", "inference in a new scope", "a rate set between steps",
            "a parameter set between steps",
            "load between steps", "startup again", "a pass of a dataset", "a collective", "set before the first step",
            "save before the first step",
            "rows by key", "rows by key between steps", "one trainer has more batches", "sliced", "whole",
            "DynamicRNN", "data_norm", "CompiledProgram", "PyReader", "a mistake that the script catches",
            "a dataset: batches", "a dataset: in memory", "a dataset: shuffled", "a dataset: two data sets",
            "a dataset: two data sets at once",
            "a dataset: tested", "a dataset: tasks", "leased tasks of two trainers", "a started reader of batches",
            "a started reader of samples",
            "a started reader of lists of samples", "a reader is reset", "ParallelExecutor", "with_data_parallel",
            "an exception in the backward part",
            "a step without rows", "an exception in the backward part, skipped", "an exception in the backward part of SGD",
            *(f"an optimizer's state: {how}" for how in ("read", "test", "program", "file", "step", "half"))]


def test_a_seed_means_one_script() -> None:
    assert [make_script(seed).text for seed in range(20)] == [make_script(seed).text for seed in range(20)]
    assert len({make_script(seed).text for seed in range(200)}) == 200


def test_each_feature_is_in_many_scripts() -> None:
    features: Counter[str] = Counter()
    for seed in range(1, 2001):
        script = make_script(seed)
        features.update({*script.features, "sliced" if script.is_sliced else "whole"})
    rare = {feature: features[feature] for feature in FEATURES if features[feature] < 10}
    assert not rare, features


def covering(seeds: range) -> list[int]:
    """Return few of the seeds whose scripts have, together, every pair of features that some script of the seeds has."""
    pairs = {seed: set(combinations(sorted(set(make_script(seed).features)), 2)) for seed in seeds}
    missing, chosen = set().union(*pairs.values()), []
    most = [(-len(found), seed) for seed, found in pairs.items()]      # of a seed: at most so many are missing that it has
    heapq.heapify(most)
    while missing:
        seed = heapq.heappop(most)[1]
        count = len(pairs[seed] & missing)
        if count < -most[0][0]:
            heapq.heappush(most, (-count, seed))
            continue
        chosen.append(seed)
        missing -= pairs[seed]
    return sorted(chosen)


def asked_seeds() -> list[int]:
    """Return the first TRIREME_SCRIPTS seeds; without that variable a few of 2000 that have all pairs of features."""
    count = int(os.environ.get("TRIREME_SCRIPTS", "0"))
    return list(range(1, count + 1)) if count else covering(range(1, SCRIPTS + 1))


@pytest.mark.timeout(2400)                         # minutes of a processor; on a busy machine several times that
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_random_scripts_in_jobs_have_the_numbers_of_one_process(tmp_path: Path) -> None:
    """A script that fails has a second try, as the tests of jobs have (conftest.py). Two faults of one script are a fault, and faults of
    many scripts are, too."""
    transport, workers, seeds = build_transport(tmp_path), os.cpu_count() or 1, asked_seeds()
    first, _ = compare_all(seeds, transport, False, workers)
    for seed, fault in first.items():
        warnings.warn(f"a second try of seed {seed}: {fault.partition(chr(10))[0]}", stacklevel=1)
    assert len(first) <= 2 + len(seeds) // 200, f"{len(first)} of {len(seeds)}; the first:\n{next(iter(first.values()))}"
    faults, _ = compare_all([*first], transport, False, workers)
    assert not faults, f"{len(faults)} of {len(seeds)}; the first:\n{next(iter(faults.values()))}"


FAILS = """
x, y = L.data("x", [4]), L.data("y", [1])
raises = [False]
def forward(value):
    if raises[0]:
        raise ValueError("a bad batch")
    return np.array(value)
out = fluid.default_main_program().current_block().create_var(name="out", dtype="float32", shape=[-1, 4])
loss = L.mean(L.square_error_cost(L.fc(L.py_func(forward, x, out, backward_func=lambda value, out, gradient: np.array(gradient)), 1), y))
fluid.optimizer.SGD(0.05).minimize(loss)
"""
GOES_ON = """
exe, me = fluid.Executor(), D.trainer_index()
exe.run(fluid.default_startup_program())
def step():
    note("loss", exe.run(feed={"x": np.ones((4, 4), "float32"), "y": np.ones((4, 1), "float32")}, fetch_list=[loss])[0])
step()
raises[0] = me == 1
try:
    step()
except Exception:
    raises[0] = False
    step()
D.barrier()
step()
D.barrier()
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_step_that_one_trainer_makes_again_after_an_exception_counts_once(tmp_path: Path) -> None:
    transport, built = build_transport(tmp_path), Built(FAILS, GOES_ON)
    alone = run_alone(built, str(tmp_path))
    for one in run_job(transport, built, str(tmp_path), 1, 2)[:2]:
        assert not one.error and np.allclose([value for _, value in one.notes], [value for _, value in alone.notes]), one


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_data_set_without_a_line_is_refused_in_a_job_as_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    build = 'x = L.data("x", [1])\nfluid.optimizer.SGD(0.1).minimize(L.mean(L.fc(x, 1)))'
    run = f"""
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
exe.train_from_dataset(dataset=fluid.Dataset({str(tmp_path / 'empty.txt')!r}, slots=[x]))
"""
    built = Built(build, run)
    for one in [run_alone(built, str(tmp_path)), *run_job(build_transport(tmp_path), built, str(tmp_path), 1, 2)[:2]]:
        assert "the data gave no batch" in one.error, one


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_collective_after_one_that_a_failure_has_ended_says_why_the_job_failed(tmp_path: Path) -> None:
    built = Built(FAILS, """
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
exe.run(feed={"x": np.ones((4, 4), "float32"), "y": np.ones((4, 1), "float32")}, fetch_list=[loss])
if D.trainer_index() == 1:
    raise ValueError("a mistake")
for attempt in range(2):
    try:
        D.barrier()
    except Exception as error:
        note(type(error).__name__, str(error))
""")
    first = run_job(build_transport(tmp_path), built, str(tmp_path), 1, 2)[0]
    assert [name for name, _ in first.notes] == ["PeerError"] * 2 and "a mistake" in first.notes[1][1], first
