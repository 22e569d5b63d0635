"""``trireme doctor``: what it says of installations and of the ways between ranks."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from job_support import MPIS, bad_transport, each_mpi, environment, needs_mpi
from json_support import checked

from trireme.launch import cli
from trireme.errors import UnsupportedError
from trireme.launch import doctor, mpi, probe

ROOT = Path(__file__).resolve().parents[2]


def diagnose(*options, **env):
    return subprocess.run([sys.executable, "-m", "trireme", "doctor", *map(str, options)], env=environment(**env),
                          capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)


# -- the installation ---------------------------------------------------------------------------------------------


def lines(checks):
    return {check.what: check for check in checks}


@needs_mpi
def test_this_installation_is_sound():
    checks = lines(doctor.installation())
    assert {"Python", "processor", "threads", "OpenBLAS", "bfloat16 products", "mpirun", "its library", "server program",
            "/dev/shm"} <= set(checks)
    for what in ("Python", "OpenBLAS", "mpirun", "its library", "server program", "environment"):
        assert not checks[what].advice, checks[what]
    assert checks["OpenBLAS"].got[0].isalpha()


def test_a_line_that_is_wrong_is_followed_by_advice():
    text = doctor.table([doctor.Check("a", "more", "less", "do this"), doctor.Check("bcd", "x", "y")])
    assert text.splitlines() == ["           expected  got", "WRONG a    more      less", "        -> do this", "ok    bcd  x         y"]


def test_small_shared_memory(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(64 << 20, 0, 64 << 20))
    check = doctor.check_shared_memory()
    assert check.got == "0.1 GiB free" and "--shm-size" in check.advice
    assert "make room in" in doctor.check_temporary().advice


def test_small_pages_are_said_and_not_wrong(monkeypatch):
    monkeypatch.setattr(doctor.threads, "table_page_bytes", lambda: 4096)
    check = doctor.check_pages()
    assert check.got.startswith("4 KiB") and not check.advice
    monkeypatch.undo()
    assert doctor.check_pages().got.split(":")[0] in ("4 KiB", "2 MiB")


def test_more_threads_than_cores(monkeypatch):
    monkeypatch.setattr(doctor.threads, "num_threads", lambda: 4096)
    check = doctor.check_threads()
    assert check.got == "4096" and "TRIREME_NUM_THREADS=" in check.advice


def test_threads_that_are_no_number():
    done = diagnose("--mpirun", "/no/mpirun", TRIREME_NUM_THREADS="1e3")
    assert done.returncode == 1 and ("-> TRIREME_NUM_THREADS='1e3' in the environment; a whole number from 1 to 256 is "
                                     "possible") in done.stdout


def test_an_openblas_that_does_not_fit(monkeypatch):
    def refuse():
        raise UnsupportedError("OpenBLAS chose the core 'Prescott'\n  in load")

    monkeypatch.setattr(doctor.threads, "blas_core", refuse)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert doctor.check_blas().got == "OpenBLAS chose the core 'Prescott'" and "scipy-openblas32" in doctor.check_blas().advice
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    assert doctor.check_blas().advice == "unset OPENBLAS_CORETYPE, which is 'Prescott'"


def test_no_mpirun():
    done = diagnose("--mpirun", "/no/mpirun")
    assert done.returncode == 1 and "-> there is no program '/no/mpirun'" in done.stdout
    assert "nothing was measured" in done.stdout


@needs_mpi
def test_a_mixture_of_libraries(tmp_path):
    (tmp_path / mpi.LIBMPI).touch()
    done = diagnose(LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1 and re.search(r"^WRONG its library .* two$", done.stdout, re.M), done.stdout
    assert f"-> LD_LIBRARY_PATH leads to {tmp_path}/libmpi.so.40" in done.stdout and "nothing was measured" in done.stdout


def test_ranks_without_a_way(capsys):
    assert cli.main(["doctor", "--ranks", "1"]) == 2
    assert "1 ranks have no way between them" in capsys.readouterr().err


# -- what numbers say ----------------------------------------------------------------------------------------------


def report(*ways, hosts=("a", "b", "c"), versions=("1", "1", "1")):
    return probe.Report(list(hosts), list(versions), [probe.Way(*way) for way in ways])


def test_output_is_understood():
    found = probe.read("noise\nprobe rank 0 host a version 1\nprobe rank 1 host b version 2\n"
                       "probe pair 0 1 latency_us 5.25 small_mbs 100.5 large_mbs 200.0\n")
    assert found == probe.Report(["a", "b"], ["1", "2"], [probe.Way((0, 1), 5.25, 100.5, 200.0)])
    assert found.findings() == ["rank 1 (host b) has Trireme 2, rank 0 (host a) has 1: install the same on all hosts"]
    assert list(found.matrices())[:4] == ["latency of 8 bytes, us", " " * 9 + "      0 a      1 b",
                                          "      0 a        -      5.2", "      1 b      5.2        -"]


def test_json_has_the_same_findings():
    found = report(((0, 1), 9, 900, 1000), ((0, 2), 9, 10, 1000), ((1, 2), 9, 900, 1000))
    checks = [doctor.Check("a", "more", "less", "do this"), doctor.Check("bcd", "x", "y")]
    told = checked("doctor", json.dumps(doctor.as_json(checks, found, found.findings(), False)))
    assert [one["is_well"] for one in told["checks"]] == [False, True] and told["ways"][1]["small_mb_s"] == 10
    assert len(told["findings"]) == 1 and not told["is_well"]


def test_json_says_why_nothing_was_measured():
    done = diagnose("--json", "--mpirun", "/nowhere/mpirun")
    told = checked("doctor", done.stdout)
    assert done.returncode == 1 and not told["is_well"] and told["ways"] == []
    assert next(one["advice"] for one in told["checks"] if one["what"] == "mpirun")


def test_ways_alike_are_well():
    assert report(((0, 1), 9, 900, 1000), ((0, 2), 20, 400, 1000), ((1, 2), 10, 800, 900)).findings() == []
    assert report(((0, 1), 1, 900, 1000), ((0, 2), 20, 900, 1000), ((1, 2), 10, 900, 1000)).findings() == [], "below the floor"


def test_a_slow_way_is_named_with_its_factor():
    found, = report(((0, 1), 9, 900, 1000), ((0, 2), 9, 900, 1000), ((1, 2), 9, 900, 200)).findings()
    assert found == ("rank 1 (host b) and rank 2 (host c): speed of messages of 16 MiB 200.0 MB/s, 5.0 times worse than the best, "
                     "1000.0 between rank 0 (host a) and rank 1 (host b)")


def test_a_slow_host_is_named():
    found = report(((0, 1), 9, 900, 1000), ((0, 2), 900, 900, 100), ((1, 2), 800, 900, 50)).findings()
    assert [text[:6] for text in found] == ["host c", "host c"] and "latency of 8 bytes 900.0 us, 100.0 times" in found[0]
    assert "50.0 MB/s, 20.0 times" in found[1]


def test_ways_within_a_host_are_not_compared_with_those_between_hosts():
    assert report(((0, 1), 1, 9000, 9000), ((0, 2), 90, 900, 1000), ((1, 2), 90, 900, 1000), hosts=("a", "a", "c")).findings() == []


# -- measuring -----------------------------------------------------------------------------------------------------


@each_mpi
@pytest.mark.mpi
def test_three_ranks_of_one_host(version):
    done = diagnose("--ranks", 3, "--mpirun", MPIS[version].mpirun, "--slack", 1e6)
    assert "3 ways between 3 ranks, all bytes right" in done.stdout, done.stdout + done.stderr
    assert done.returncode == int("WRONG" in done.stdout)
    for title in ("latency of 8 bytes, us", "speed of messages of 256 KiB, MB/s", "speed of messages of 16 MiB, MB/s"):
        rows = done.stdout.split(f"{title}\n")[1].splitlines()[1:4]
        cells = [row.split()[2:] for row in rows]
        assert [cells[i][i] for i in range(3)] == ["-"] * 3
        assert all(cells[i][j] == cells[j][i] and float(cells[i][j]) > 0 for i in range(3) for j in range(i)), done.stdout


@needs_mpi
@pytest.mark.mpi
def test_damaged_bytes_are_found(tmp_path):
    done = diagnose("--ranks", 2, TRIREME_TRANSPORT=bad_transport(tmp_path, "DAMAGE"))
    host = os.uname().nodename
    assert f"trireme: bytes were damaged between rank 0 (host {host}) and rank 1 (host {host})" in done.stderr, done.stderr
    assert done.returncode == 1 and "WRONG trireme doctor: 0 of 1 ways between ranks could be measured" in done.stdout


@needs_mpi
@pytest.mark.mpi
def test_a_rank_that_dies_is_named(tmp_path):
    done = diagnose("--ranks", 3, TRIREME_TRANSPORT=bad_transport(tmp_path, "DIE"))
    assert done.returncode == 1 and "rank 1 " in done.stderr and "of 3 ways between ranks" in done.stdout, done.stderr
