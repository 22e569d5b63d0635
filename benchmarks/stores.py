"""Reading from an S3 server and writing to it, beside the server's own parallel speed.

    python benchmarks/stores.py [--mib 256] [--rounds 5]

The server is moto, a process of Python on this machine. Its own speed: four threads of a small HTTP client without signatures,
checksums or retries, each with ranges of 8 MiB (reading) or parts of 8 MiB (writing). Ours: ``stores/`` in this process; and the way of
text and checkpoints, from the process beside this one through a socket. The sides take turns. A ratio is the median over the rounds; 1
is the server's own speed, and the goal is 0.8. The library sends a checksum behind each part, which this server decodes in Python: so
writing is measured without that, too (``AWS_REQUEST_CHECKSUM_CALCULATION``).
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

from store_support import BUCKET, S3

import trireme as fluid
from trireme.stores import folders, reading
from trireme.stores.systems import _made

PART, THREADS = 8 << 20, 4
CREDENTIAL = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"}


def request(port: int, verb: str, path: str, body: bytes = b"", **headers: str) -> tuple[bytes, dict[str, str]]:
    """Make one request; return the answer's content and its headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(verb, path, body, {**CREDENTIAL, **headers})
        answer = connection.getresponse()
        return answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def read_bare(port: int, size: int) -> None:
    """Read the object in ranges, some at a time."""
    def part(begin: int) -> None:
        content, _ = request(port, "GET", f"/{BUCKET}/read", Range=f"bytes={begin}-{min(begin + PART, size) - 1}")
        assert len(content) == min(PART, size - begin)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(part, range(0, size, PART)))


def write_bare(port: int, content: bytes) -> None:
    """Upload parts, some at a time."""
    path = f"/{BUCKET}/bare"
    upload = re.search(rb"<UploadId>(.*?)</UploadId>", request(port, "POST", f"{path}?uploads")[0])[1].decode()

    def part(number: int) -> str:
        sent = content[(number - 1) * PART:number * PART]
        return request(port, "PUT", f"{path}?partNumber={number}&uploadId={upload}", sent)[1]["ETag"]

    with ThreadPoolExecutor(THREADS) as pool:
        tags = list(pool.map(part, range(1, -(-len(content) // PART) + 1)))
    parts = "".join(f"<Part><PartNumber>{i}</PartNumber><ETag>{tag}</ETag></Part>" for i, tag in enumerate(tags, 1))
    request(port, "POST", f"{path}?uploadId={upload}", f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode())


def read_ours(uri: str) -> None:
    """Read the object in this process."""
    for _ in reading.stream(uri):
        pass


def read_beside(uri: str) -> None:
    """Let the process beside this one read the object for the core, which hands its bytes to a command."""
    slots = [fluid.Slot("bytes", dtype="int64", shape=[-1, 1])]
    for _ in fluid.Dataset(uri, slots=slots, pipe_command="echo 1 $(wc -c)"):
        pass


def seconds(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def report(name: str, size: int, bare: list[float], ours: list[float]) -> None:
    """Print a row."""
    ratio = statistics.median(a / b for a, b in zip(bare, ours))
    print(f"| {name} | {size / statistics.median(bare) / 1e6:.0f} | {size / statistics.median(ours) / 1e6:.0f} | {ratio:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="size of the object")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    server = S3()
    os.environ.update(server.environment())
    content = os.urandom(args.mib << 20)
    uri = server.put("read", content)
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        sides: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "read, this process": (lambda: read_bare(server.port, len(content)), lambda: read_ours(uri)),
            "read, the process beside": (lambda: read_bare(server.port, len(content)), lambda: read_beside(uri)),
            "write, without checksums": (lambda: write_bare(server.port, content), lambda: folders.upload(file.name, f"s3://{BUCKET}/ours")),
        }
        sides["write"] = sides["write, without checksums"]
        print("| way | server's own, MB/s | ours, MB/s | ours / its own |\n|---|---|---|---|")
        for name, (bare, ours) in sides.items():
            os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required" if "without" in name else "when_supported"
            _made.clear()
            bare()
            ours()
            pairs = [(seconds(bare), seconds(ours)) for _ in range(args.rounds)]
            report(name, len(content), [one for one, _ in pairs], [one for _, one in pairs])
    server.stop()


if __name__ == "__main__":
    main()
