"""A variable of the environment that Trireme does not have."""

import os
import subprocess
import sys

import pytest

WRONG = {"TRIREME_" + "TIMOUT": "9"}                  # in two parts: no such variable is to be found here


def said(**variables):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TRIREME_", "PMIX_", "OMPI_"))}
    done = subprocess.run([sys.executable, "-c", "import trireme"], check=False, env={**plain, **variables}, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0
    return done.stderr


def test_a_misspelled_variable_is_named_once():
    assert said(**WRONG, TRIREME_LOG="logs") == (
        "trireme warning: TRIREME_" + "TIMOUT is no variable of Trireme, and changes nothing; did you mean TRIREME_TIMEOUT?\n")


@pytest.mark.parametrize("variables", [{"TRIREME_LOG": "logs"}, {**WRONG, "TRIREME_JOB": "1"}])
def test_known_variables_and_ranks_of_a_launched_job_say_nothing(variables):
    assert said(**variables) == ""
