"""Every test builds its programs anew and runs them in a scope of its own."""

import gc
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from job_support import end_jobs

import trireme as fluid


# Files that take long and have few tests of jobs.
LONG = {"test_site", "test_sequence_examples", "test_types", "test_mixed_precision", "test_docs", "test_book_examples",
        "test_example_char_lm", "test_scripts_in_jobs", "test_simulated_jobs", "test_stores", "test_stores_in_jobs", "test_stores_on_hosts",
        "test_tutorials", "test_every_operator", "test_zeros", "test_serving", "test_lifetimes", "test_growth", "test_checkpoint_folders"}


def has_its_turn(item, count, at=0):
    """Of the cases of a test with several parameters an ordinary run takes each ``count``-th, from ``at`` on. So it takes every value of a
    parameter if another one has ``count`` values or more. A test that differs by the version of MPI alone takes one of them, not
    always the same. `make soak` takes the other cases."""
    number, turn = next(iter(item.callspec.indices.values())), 0       # of this case among all of the test
    for values in reversed([mark.args[1] for mark in item.iter_markers("parametrize")]):
        number, place = divmod(number, len(values))
        turn += place
    return turn % count == at


def pytest_collection_modifyitems(config, items):
    """A test that starts real jobs gets a second chance: it shares the processors with whatever else this machine does, and its ranks
    with the machine's clock. The report lists it (-rR); who fails twice has failed. The soak looks for what is rare: there once is
    enough. Files that take long come first, then those with many jobs, so that workers that take a file at a time end together."""
    for item in items:
        if (turns := item.get_closest_marker("turns")) and not has_its_turn(item, *turns.args, **turns.kwargs):
            item.add_marker(pytest.mark.soak)
    jobs = Counter(item.path for item in items if item.get_closest_marker("mpi"))
    items.sort(key=lambda item: (item.path.stem not in LONG, -jobs[item.path]))
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if item.get_closest_marker("mpi") and not item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish(session):
    """The tests themselves stay until the end. The garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


def pytest_collect_file(file_path, parent):
    """A test that a later one of the same name hides would be lost without a word."""
    if file_path.suffix == ".py":
        names = Counter(re.findall(r"^def (test_\w+)", Path(file_path).read_text(), re.M))
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise pytest.UsageError(f"{file_path} has two tests of one name: {', '.join(twice)}")


@pytest.fixture(autouse=True)
def jobs_end():
    yield
    end_jobs()


@pytest.fixture(autouse=True)
def fresh():
    """New default programs, names that count from 0, an empty global scope."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), \
            fluid.scope_guard(fluid.Scope()):
        yield


@pytest.fixture
def exe():
    return fluid.Executor(fluid.CPUPlace())


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def run(exe):
    """Run the startup program, then the main program, and return the fetches."""
    def run(feed=None, fetch_list=()):
        exe.run(fluid.default_startup_program())
        return exe.run(feed=feed or {}, fetch_list=list(fetch_list))

    return run


@pytest.fixture
def line():
    """Return ``file:line`` of the call, plus ``offset`` lines: what an error must show."""
    import sys

    def line(offset=0):
        frame = sys._getframe(1)
        return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno + offset}"

    return line
