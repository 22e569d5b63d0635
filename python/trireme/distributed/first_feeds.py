"""Find trainers that train on the same batches.

A script that forgets ``distributed.shard`` works, but each batch then counts once for each trainer. So each trainer posts a digest of
its first two feeds. The last trainer to post sees the digests of all trainers, and reports equal ones. No trainer waits. If a
trainer's first two feeds are equal, it is left out: measurements feed constants.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

from ..job.job import Job
from ..native.tensor import LoDTensor
from . import board

_MOST = 1 << 20                                        # bytes of one variable that are looked at


def _digest(feed: dict[str, Any]) -> bytes:
    """Return a digest of this feed; it is empty if the feed has no samples, or is not made of arrays."""
    found, size = hashlib.blake2b(digest_size=16), 0
    for name in sorted(feed):
        value = feed[name].numpy() if isinstance(feed[name], LoDTensor) else feed[name]
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return b""
        size += value.size
        found.update(f"{name} {value.dtype.str} {value.shape}".encode())
        found.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8)[:_MOST].data)
    return found.digest() if size else b""


class FirstFeeds:
    """The first two feeds of a trainer."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._seen: list[bytes] = []

    def look(self, feed: dict[str, Any]) -> bool:
        """Add a step's feed. Return whether another feed is needed."""
        self._seen.append(_digest(feed))
        if len(self._seen) < 2 and self._seen[0]:
            return True
        if all(self._seen) and self._seen[0] != self._seen[1]:
            self._compare()
        return False

    def _compare(self) -> None:
        posted: dict[int, bytes] = board.post(self.job, name="the first feeds", data=b"".join(self._seen)) or {}
        if len(posted) < self.job.trainers:
            return                                     # another trainer is the last to post
        alike: dict[bytes, list[str]] = {}
        for index, digest in posted.items():
            alike.setdefault(digest, []).append(str(index))
        for trainers in alike.values():
            if len(trainers) > 1:
                sys.stderr.write(f"trireme warning: trainers {', '.join(trainers)} feed the same batches: each batch counts once for each "
                                 "of them. Let each trainer take its slice: reader = fluid.distributed.shard(reader)\n")
