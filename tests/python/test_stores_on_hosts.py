"""A user's story: hosts that share no files but the program's. Data and checkpoints lie in a store, a host is lost, and the training goes
on without it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import cluster
import numpy as np
import pytest
from host_support import SHARED, OnHosts
from job_support import SCRIPT, environment, launch_command, needs_mpi
from store_support import BUCKET, S3

pytestmark = [pytest.mark.mpi, needs_mpi]
VISITS = SCRIPT.with_name("visits.py")
DATA = f"s3://{BUCKET}/visits/part-*"


class Shop:
    """Four hosts. The last one has the S3 server, and no rank; the others are h1, h2 and h3."""

    def __init__(self, hosts: cluster.Cluster) -> None:
        self.hosts, self.seconds = hosts, 60.0          # for a job or a command
        self.s3 = S3("10.99.0.4", lambda line: hosts.command(line, "h4"))

    def environment(self, **extra: str) -> dict[str, str]:
        """This server puts a large file together for a minute, silently."""
        return environment(**self.s3.environment(), TRIREME_STORE_TIMEOUT="300", **extra)

    def run(self, *words: object) -> str:
        """Run a command of Python on h1."""
        done = subprocess.run(self.hosts.command([sys.executable, *words]), env=self.environment(), capture_output=True, text=True,
                              timeout=self.seconds, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def checkpoint(self, *words: str) -> str:
        return self.run("-m", "trireme", "checkpoint", *words)

    def upload(self, folder: Path, uri: str) -> None:
        self.run("-c", "import sys; from trireme.stores.folders import upload_folder; upload_folder(*sys.argv[1:])", folder, uri)


class StoredJob(OnHosts):
    """A job of some of the hosts under ``trireme launch`` on h1."""

    def __init__(self, shop: Shop, names: str, servers: int, *args: object, restarts: int = 0,
                 options: tuple[object, ...] = ()) -> None:
        super().__init__(shop.hosts)
        command = launch_command(servers, 3, DATA, *args, script=VISITS, options=(
            "--hosts", names, "--ssh", shop.hosts.ssh, "--standbys", 0, "--restarts", restarts, "--mode", "sync", *options))
        with self.output.open("w") as output:
            self.process = subprocess.Popen(shop.hosts.command(command), env=shop.environment(TRIREME_CHECKPOINT_REPORT="1"),
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def is_running(self) -> bool:
        return self.process.poll() is None

    def end(self, seconds: float) -> tuple[int, str]:
        text = self.await_end(seconds)
        return self.process.returncode, text


@pytest.fixture
def shop():
    if missing := cluster.missing():
        pytest.skip(missing)
    with cluster.Cluster(4, SHARED) as hosts:
        yield Shop(hosts)


def write_visits(folder: Path, files: int, lines: int, ids: int) -> None:
    """Lines of ids, most of which occur once."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    for number in range(files):
        rows = rng.integers(1, 1 << 40, (lines, ids))
        rows[:, 0] = rng.integers(1, 100, lines)
        (folder / f"part-{number}").write_text("".join(f"{' '.join(map(str, row))},{row[0] % 2}\n" for row in rows.tolist()))


def newest(listing: str) -> str:
    return f"step-{int(re.search(r'^ *([0-9]+)  ', listing, re.M)[1]):09}"


# Lines of each of five files, ids of a line, arguments of the script, steps between two checkpoints, seconds for a job or a command.
SMALL = pytest.param(200, 20, (), 6, 60, id="2 MB")
LARGE = pytest.param(16000, 50, ("--width", 64, "--batch", 400, "--task-bytes", 1 << 20, "--epochs", 1), 12, 1800, id="2 GB",
                     marks=pytest.mark.soak)


def undisturbed(shop: Shop, lines: int, ids: int, *args: object) -> str:
    """Upload the data, train on them, and return the folder of the last checkpoint."""
    write_visits(shop.hosts.folder / "visits", 5, lines, ids)
    shop.upload(shop.hosts.folder / "visits", f"s3://{BUCKET}/visits")
    code, text = StoredJob(shop, "h1,h2,h3", 3, *args, options=("--checkpoint", f"s3://{BUCKET}/whole")).end(shop.seconds)
    assert code == 0, text
    return f"s3://{BUCKET}/whole/{newest(shop.checkpoint('list', f's3://{BUCKET}/whole'))}"


def loses_a_host(shop: Shop, *args: object, keep: tuple[object, ...], restarts: int = 0) -> StoredJob:
    """Start a job whose third host is powered off when there is a checkpoint of changes."""
    job = StoredJob(shop, "h1,h2,h3", 3, *args, "--halt", options=keep, restarts=restarts)
    job.wait_for(lambda: "two checkpoints are there" in job.text(), "two checkpoints", shop.seconds)
    shop.hosts.power_off("h3")
    return job


def assert_ends_like(shop: Shop, folder: str, whole: str) -> None:
    last = newest(shop.checkpoint("list", folder))
    shop.checkpoint("verify", f"{folder}/{last}")
    shop.checkpoint("diff", whole, f"{folder}/{last}")


@pytest.mark.parametrize("lines, ids, args, every, seconds", [SMALL, LARGE])
def test_a_training_in_a_store_goes_on_without_a_host_that_was_lost(lines, ids, args, every, seconds, shop):
    """With another number of servers, from a checkpoint of changes; it ends with the bits of one that lost nothing."""
    shop.seconds, folder = seconds, f"s3://{BUCKET}/run"
    whole = undisturbed(shop, lines, ids, *args)
    keep = ("--checkpoint", folder, "--checkpoint-steps", every, "--checkpoint-full-every", 4)
    job = loses_a_host(shop, *args, keep=keep)
    code, text = job.end(60)
    assert code == 1 and "host h3" in text, text
    job.assert_nothing_left(("h1", "h2"))
    listing = shop.checkpoint("list", folder)
    assert re.search(r" since \d+ ", listing), listing
    at = newest(listing)
    code, text = StoredJob(shop, "h1,h2", 2, *args, options=(*keep, "--resume")).end(seconds)
    assert code == 0 and f"going on from step {int(at[5:])}, {folder}/{at}" in text, text
    assert_ends_like(shop, folder, whole)


@pytest.mark.soak
def test_a_job_goes_on_from_a_store_when_a_host_is_lost(shop):
    """The launcher starts it again."""
    folder = f"s3://{BUCKET}/run"
    whole = undisturbed(shop, 200, 20)
    job = loses_a_host(shop, keep=("--checkpoint", folder, "--checkpoint-steps", 6, "--checkpoint-full-every", 4), restarts=1)
    code, text = job.end(120)
    assert code == 0 and "starting the job again (1 of 1)" in text and re.search(rf"going on from step \d+, {folder}/step-", text), text
    assert_ends_like(shop, folder, whole)
