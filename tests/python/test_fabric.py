"""Which way messages take: Open MPI's settings for it, and what is said where an installation lacks a part."""

from __future__ import annotations

import pytest
from job_support import SCRIPT, launch_under_mpi, needs_mpi

from trireme.launch import cli
from trireme.launch import doctor, fabric, mpi


def test_auto_means_what_is_there() -> None:
    assert fabric.chosen("auto", False) == "sm"
    assert fabric.chosen("auto", True, []) == "tcp" and fabric.chosen("auto", True, ["mlx5_0"]) == "free"
    assert all(fabric.words(fabric.chosen(one, True, [])) for one in fabric.TRANSPORTS)


def test_each_way_is_a_setting_of_open_mpi(monkeypatch) -> None:
    assert dict(fabric.settings("tcp"))["btl"] == "self,vader,tcp" and dict(fabric.settings("sm"))["btl"] == "self,vader"
    assert fabric.settings("free") == []
    assert fabric.settings("ucx") == [("pml", "ucx"), ("opal_common_ucx_tls", "any"), ("opal_common_ucx_devices", "any")]
    assert fabric.settings("ofi") == [("pml", "cm"), ("mtl", "ofi"), ("mtl_ofi_provider_exclude", "shm,udp")]
    monkeypatch.setenv("OMPI_MCA_opal_common_ucx_devices", "mlx5_1")
    monkeypatch.setenv("OMPI_MCA_mtl_ofi_provider_include", "psm3")
    assert fabric.settings("ucx") == [("pml", "ucx"), ("opal_common_ucx_tls", "any")]
    assert fabric.settings("ofi") == [("pml", "cm"), ("mtl", "ofi")]


@pytest.fixture
def poor(tmp_path):
    """An Open MPI with neither UCX nor libfabric."""
    for name, text in (("mpirun", "mpirun (Open MPI) 5.0.11"), ("ompi_info", "mca:pml:ob1:version:component:5.0.11")):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / mpi.LIBMPI).touch()
    return path.with_name("mpirun")


@pytest.mark.parametrize("way, library", [("ucx", "UCX"), ("ofi", "libfabric")])
def test_a_way_that_an_open_mpi_lacks_is_refused(way, library, poor, capsys) -> None:
    assert cli.main(["launch", "--mpirun", str(poor), "--transport", way, str(SCRIPT)]) == 2
    said = capsys.readouterr().err
    assert f"--transport {way}: Open MPI 5.0.11 ({poor}, " in said and (f"was built without {library}. Use --transport tcp, or name the "
                                                                        "mpirun") in said
    (check,) = doctor.check_mpi(str(poor), way)
    assert check.advice in said
    assert mpi.find(str(poor), "tcp").major == 5


def test_an_unknown_transport_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        cli.main(["launch", "--transport", "infiniband", str(SCRIPT)])
    assert ("argument --transport: invalid choice: 'infiniband' (choose from auto, tcp, ucx, "
            "ofi)") in capsys.readouterr().err.replace("'auto', 'tcp', 'ucx', 'ofi'", "auto, tcp, ucx, ofi")


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("way, words", [("ucx", "over UCX"), ("ofi", "over libfabric")])
def test_a_job_on_one_host_takes_it(way, words) -> None:
    done = launch_under_mpi(1, 2, "--steps", 5, options=("--transport", way))
    assert f", {words}" in done, done
