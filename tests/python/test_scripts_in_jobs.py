"""Random scripts in jobs have the numbers of one process (compare_scripts.py)."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from compare_scripts import build_transport, compare_all
from script_maker import make_script

SEEDS = int(os.environ.get("TRIREME_SCRIPTS", "1000"))     # 0.2 s of a processor each; `make soak` takes thousands

# What the scripts are about: each must be there often enough, so that no change of the maker loses it.
FEATURES = ["table", "is_sparse", "dense", "sequences", "a second lookup", "batch_norm", "layer_norm", "dropout", "IfElse", "While", "shared parameter",
            "frozen", "fed persistable", "decay of one parameter", "decay", "rate of one parameter", "clip", "EMA", "ModelAverage",
            "a parameter assigned in the program", "save", "inference in a new scope", "a rate set between steps", "a parameter set between steps",
            "load between steps", "startup again", "a pass of a dataset", "a collective", "set before the first step", "save before the first step",
            "rows by key", "rows by key between steps", "one trainer has more batches", "sliced", "whole",
            "DynamicRNN", "data_norm", "CompiledProgram", "PyReader", "a mistake that the script catches"]


def test_a_seed_means_one_script() -> None:
    assert [make_script(seed).text for seed in range(20)] == [make_script(seed).text for seed in range(20)]
    assert len({make_script(seed).text for seed in range(200)}) == 200


def test_each_feature_is_in_many_scripts() -> None:
    features: Counter[str] = Counter()
    for seed in range(1, 2001):
        script = make_script(seed)
        features.update({*script.features, "sliced" if script.is_sliced else "whole"})
    rare = {feature: features[feature] for feature in FEATURES if features[feature] < 20}
    assert not rare, features


@pytest.mark.timeout(1200)                         # four minutes of a processor; on a busy machine several times that
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_random_scripts_in_jobs_have_the_numbers_of_one_process(tmp_path: Path) -> None:
    faults, _ = compare_all(list(range(1, SEEDS + 1)), build_transport(tmp_path), False, os.cpu_count() or 1)
    assert not faults, f"{len(faults)} of {SEEDS}; the first:\n{faults[0]}"
