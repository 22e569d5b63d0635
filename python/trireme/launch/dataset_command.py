"""``trireme dataset``: which data sets are here, and one archive of several for machines without a network."""

from __future__ import annotations

import argparse
import gzip
import importlib
import os
import zipfile
from collections.abc import Callable
from typing import Any

from ..native.errors import TriremeError

#: The modules whose files are checked and unpacked when they are read, with what each file is fetched from and its content's SHA-256.
READ: dict[str, Callable[[Any], dict[str, tuple[str, str]]]] = {
    "adult": lambda of: {name: (of.URL + name, digest) for name, digest in of.FILES.items()},
    "mnist": lambda of: {name: (f"{of.URL}{name}.gz", digest) for name, digest in of.FILES.items()},
    "movielens_small": lambda of: {name: (of.URL, digest) for name, digest in of.SHA256.items()},
    "sentence_polarity": lambda of: {name: (of.URL, digest) for name, digest in of.FILES.items()},
    "tinyshakespeare": lambda of: {"input.txt": (of.URL, of.SHA256)},
    "uci_housing": lambda of: {"housing.data": (of.URL, of.SHA256)},
}
#: Those whose files are archives of their makers, with what each is fetched from and its MD5.
ARCHIVES: dict[str, Callable[[Any], dict[str, tuple[str, str]]]] = {
    "flowers": lambda of: {name: (of.URL + name, digest) for name, digest in of.FILES.items()},
    "imdb": lambda of: {"aclImdb_v1.tar.gz": (of.URL, of.MD5)},
    "imikolov": lambda of: {"simple-examples.tgz": (of.URL, of.MD5)},
    "wmt14": lambda of: {"wmt14.tgz": (of.URL, of.MD5)},
}
FOLDERS = {"uci_housing": "housing"}                   # where a set's folder has another name


def add_dataset(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("dataset", help="list data sets, or put some into one archive",
                                 description="The data sets of trireme.dataset, for machines with and without a network.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    shown = actions.add_parser("list", help="one line for each data set: where its files are")
    shown.set_defaults(run=run_list, parser=shown)
    fetch = actions.add_parser("fetch", help="put data sets into one archive, which TRIREME_DATA_HOME may name",
                               description="Put the files of data sets into DIR/trireme-data.zip: those that are here, and else what their "
                                           "makers publish. Each file's checksum is compared.")
    fetch.add_argument("names", metavar="SET", nargs="+", choices=[*sorted({*READ, *ARCHIVES})], help="names of `trireme dataset list`")
    fetch.add_argument("--into", metavar="DIR", required=True, help="folder of the archive; an archive that is there gets more files")
    fetch.set_defaults(run=run_fetch, parser=fetch)


def run_list(options: argparse.Namespace) -> int:
    """Print each data set with the places of its files."""
    from ..dataset import common

    for name in sorted({*READ, *ARCHIVES}):
        found = [common.find(FOLDERS.get(name, name), file) for file in files_of(name)]
        print(f"{name:18} {os.path.dirname(found[0]) if found[0] and all(found) else 'not here'}")
    print(f"{'digits':18} comes with scikit-learn")
    return 0


def run_fetch(options: argparse.Namespace) -> int:
    """Write the archive anew, with what it had. It is there whole or not at all."""
    from ..dataset import common
    from ..native.files import new_file

    os.makedirs(options.into, exist_ok=True)
    path = os.path.join(options.into, common.ARCHIVE)
    contents = _kept(path)
    for name in dict.fromkeys(options.names):
        added = _contents(name)
        contents.update(added)
        print(f"{name}: {len(added)} file{'s' * (len(added) > 1)}, {sum(map(len, added.values())) / 1e6:.1f} MB", flush=True)
    with new_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for member, data in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(member), data)
    print(f"{path}: {os.path.getsize(path) / 1e6:.1f} MB; use it by TRIREME_DATA_HOME={os.path.abspath(options.into)}")
    return 0


def _kept(path: str) -> dict[str, bytes]:
    """Return what an archive holds already."""
    if not os.path.exists(path):
        return {}
    try:
        with zipfile.ZipFile(path) as archive:
            return {member: archive.read(member) for member in archive.namelist()}
    except zipfile.BadZipFile as error:
        raise TriremeError(f"{path} is no archive of data sets ({error}); remove it, or choose another folder") from error


def files_of(name: str) -> dict[str, tuple[str, str]]:
    """Return the files of a data set: {name: (where it is fetched from, checksum)}."""
    return (READ.get(name) or ARCHIVES[name])(importlib.import_module(f"trireme.dataset.{name}"))


def _contents(name: str) -> dict[str, bytes]:
    """Return the files of a data set as the archive has them."""
    from ..dataset import common

    folder, found = FOLDERS.get(name, name), {}
    for file, (url, digest) in files_of(name).items():
        if name in READ:
            found[f"{folder}/{file}.gz"] = gzip.compress(common.read(folder, file, url, digest), mtime=0)
        else:
            with open(common.archive(folder, file, url, digest), "rb") as whole:
                found[f"{folder}/{file}"] = whole.read()
    return found
