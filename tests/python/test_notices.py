"""The notices of ranks for the launcher are the same in C, in Python and in docs/launcher.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

from trireme._core import ffi, lib
from trireme.launch.notices import ASKED_BY, Notice

ROOT = Path(__file__).resolve().parents[2]


def test_c_python_and_the_page_list_the_same_notices():
    in_c = [ffi.string(lib.tr_notice_file(number)).decode() for number in range(lib.TR_NOTICE_COUNT)]
    page = re.findall(r"^\| (\w+) \|", (ROOT / "docs" / "launcher.md").read_text().partition("<!-- notices")[2], re.M)
    assert in_c == [notice.value for notice in Notice] == [name for name in page if name != "notice"]
    assert lib.tr_notice_file(lib.TR_NOTICE_COUNT) == ffi.NULL


TELL = """
from trireme._core import ffi, lib
print(lib.tr_notice_tell(lib.TR_NOTICE_LEFT, b"7 5 1"), ffi.string(lib.tr_notice_asked_by(ffi.new("char[32]"), 32, b"SIGUSR1")).decode())
"""


def tell(**variables):
    done = subprocess.run([sys.executable, "-c", TELL], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60,
                          check=True)
    return done.stdout.split()


def test_a_notice_is_a_file_of_its_name_and_rank_with_the_whole_text(tmp_path):
    (tmp_path / ASKED_BY).write_text("SIGTERM")
    assert tell(TRIREME_JOB_FOLDER=str(tmp_path), OMPI_COMM_WORLD_RANK="3") == ["True", "SIGTERM"]
    assert Notice.LEFT.path(tmp_path, 3).read_text() == "7 5 1"
    assert {path.name for path in tmp_path.iterdir()} == {ASKED_BY, "left.3"}


def test_without_a_launcher_nothing_is_written(tmp_path):
    assert tell(OMPI_COMM_WORLD_RANK="3") == ["False", "SIGUSR1"]
    assert tell(TRIREME_JOB_FOLDER=str(tmp_path / "gone"), OMPI_COMM_WORLD_RANK="3") == ["False", "SIGUSR1"]
