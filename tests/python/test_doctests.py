"""The examples of the documentation run and print what they say."""

import copy
import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import trireme as fluid
from trireme.job.session import session
from trireme.native.errors import MissingLibraryError


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """What an example writes, and the checkpoints that it asks for, end with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "checkpoints", copy.copy(session.checkpoints))


def modules():
    for info in pkgutil.walk_packages(fluid.__path__, "trireme."):
        if info.name.rpartition(".")[2] not in ("_core", "trireme_mpi", "trireme_loopback", "__main__"):
            yield importlib.import_module(info.name)
    yield fluid


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in modules():
        for test in finder.find(module, module.__name__):
            if test.examples:
                yield pytest.param(test, id=test.name)


class Runner(doctest.DocTestRunner):
    """Skips the test where an example lacks the files of a data set, which it would fetch, or an optional library."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if isinstance(exc_info[1], (fluid.dataset.common.DataSetError, MissingLibraryError, ModuleNotFoundError)):
            pytest.skip(str(exc_info[1]))
        super().report_unexpected_exception(out, test, example, exc_info)


@pytest.mark.parametrize("example", list(examples()))
def test_example_prints_what_it_says(example):
    example.globs.update(fluid=fluid, np=np)
    runner = Runner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    report = []
    runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


def test_there_are_examples():
    assert len(list(examples())) > 600
