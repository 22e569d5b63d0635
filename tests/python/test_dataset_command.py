"""`trireme dataset`: one archive of several data sets, from which machines without a network read."""

import io
import os
import zipfile

import pytest

import trireme as fluid
from trireme.dataset import common
from trireme.launch import cli


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A machine without data; its cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRIREME_DATA_HOME", raising=False)
    return tmp_path


def put(path, files):
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("named", ["the archive", "its folder"])
def test_a_file_of_an_archive_is_read(here, monkeypatch, named):
    path = put(here / "class" / "trireme-data.zip", {"greetings/en.txt": b"hello", "greetings/fr.txt": b"bonjour"})
    monkeypatch.setenv("TRIREME_DATA_HOME", str(path if named == "the archive" else path.parent))
    assert common.read("greetings", "en.txt", "file:///nowhere", common.sha256_of(b"hello")) == b"hello"
    assert common.find("greetings", "de.txt") is None
    put(path, {"greetings/en.txt": b"hello again"})                        # a new archive counts, not what the cache has of the old one
    assert common.read("greetings", "en.txt", "file:///nowhere", common.sha256_of(b"hello again")) == b"hello again"


def test_a_damaged_archive_is_named(here, monkeypatch):
    (here / "data.zip").write_bytes(b"PK no archive")
    monkeypatch.setenv("TRIREME_DATA_HOME", str(here / "data.zip"))
    with pytest.raises(common.DataSetError, match=r"data\.zip is damaged, or no archive"):
        common.find("mnist", "train-images-idx3-ubyte")


def test_without_a_network_the_message_says_how_to_bring_data(here, monkeypatch, capsys):
    monkeypatch.setattr(fluid.dataset.tinyshakespeare, "URL", "file:///nowhere/input.txt")
    assert cli.main(["dataset", "fetch", "tinyshakespeare", "--into", str(here / "class")]) == 2
    assert "trireme dataset fetch SET --into DIR" in capsys.readouterr().err
    assert not os.listdir(here / "class")


def test_archives_get_more_data_sets(here, monkeypatch, capsys):
    """From files that are here, compared with their checksums."""
    data = {name: name.encode() for name in ("one.csv", "two.csv")}
    housing, census = fluid.dataset.uci_housing, fluid.dataset.adult
    monkeypatch.setattr(census, "FILES", {name: common.sha256_of(content) for name, content in data.items()})
    monkeypatch.setattr(housing, "SHA256", common.sha256_of(b"rooms"))
    monkeypatch.setenv("TRIREME_DATA_HOME", str(here))
    for name, content in {**{f"adult/{name}": content for name, content in data.items()}, "housing/housing.data": b"rooms"}.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(content)
    assert [cli.main(["dataset", "fetch", name, "--into", str(here / "class")]) for name in ("adult", "uci_housing")] == [0, 0]
    whole = (here / "class" / "trireme-data.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        assert archive.namelist() == ["adult/one.csv.gz", "adult/two.csv.gz", "housing/housing.data.gz"]
    assert cli.main(["dataset", "fetch", "adult", "--into", str(here / "class")]) == 0
    assert (here / "class" / "trireme-data.zip").read_bytes() == whole     # the same data, the same bytes
    monkeypatch.setenv("TRIREME_DATA_HOME", str(here / "class"))
    assert cli.main(["dataset", "list"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith(("adult ", "imdb ")))
    assert shown == {"adult": str(here / "cache" / "trireme" / "data" / "adult"), "imdb": "not here"}
