"""The ends of epochs in a job: numbers of all trainers, common decisions, and a record for jobs that go on.

With callbacks, or with validation, trainers meet in collectives at the end of each epoch. A trainer may end an epoch early, because it asks
for the end of the training or has heard of such a request. It comes to the same meeting as the others. So each trainer makes the same
number of collectives, whatever ends its epoch.

A script that runs again within a launch gets the results of these collectives from the board. A job that goes on from a checkpoint has an
empty board. So the first trainer writes the numbers of each epoch beside the checkpoints. In a resumed job all trainers take the numbers of
earlier epochs from there: the parameters have changed since, so a new validation would give other numbers.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..job import job as jobs
from .checkpoint_manager import beginning_of
from .checkpoints import settings_now
from .collectives import meet
from .reached import is_replaying, steps_made


def of_first(call: str, value: Any) -> Any:
    """Return the first trainer's value. A collective."""
    return next(iter(meet(call, value).values()))


@dataclass
class Means:
    """Means of batches by name, and the weight of these batches. Weight 0: no batch had samples."""

    values: dict[str, float]
    weight: float

    @staticmethod
    def of(names: Sequence[str], batches: Sequence[Sequence[Any]], sizes: Sequence[int]) -> Means:
        """Return the means weighted by samples. If no batch has samples, all count alike: a job's loss is that of all trainers anyway."""
        counts = np.array(sizes, np.float64)
        found = {}
        for i, name in enumerate(names):
            means = np.array([np.mean(batch[i]) for batch in batches], np.float64)
            found[name] = float(np.average(means[counts > 0], weights=counts[counts > 0]) if counts.any() else means.mean())
        return Means(found, float(counts.sum()))

    @staticmethod
    def of_all(parts: Sequence[Means]) -> dict[str, float]:
        """Return the means over all batches of several trainers."""
        used = [part for part in parts if part.weight > 0] or list(parts)
        if len(used) == 1:
            return dict(used[0].values)
        weights = [part.weight for part in used] if used[0].weight > 0 else None
        return {name: float(np.average([part.values[name] for part in used], weights=weights)) for name in used[0].values}


def merged(call: str, means: Mapping[str, Means | None], latest: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the means of all trainers for each kind, and the first trainer's under ``"latest"``. A collective. A trainer with None
    does not count.
    """
    mine = {kind: None if one is None else [one.weight, one.values] for kind, one in means.items()}
    found = list(meet(call, {**mine, "latest": dict(latest)}).values())
    result = {"latest": found[0]["latest"]}
    for kind in means:
        parts = [Means(one[kind][1], one[kind][0]) for one in found if one.get(kind) is not None]
        result[kind] = Means.of_all(parts) if parts else {}
    return result


def any_of(call: str, value: bool) -> bool:
    """Return whether any of the trainers says yes. A collective."""
    return any(meet(call, bool(value)).values())


class Record:
    """The numbers of each epoch of a training, kept beside the checkpoints. ``number`` counts the trainings of the script."""

    def __init__(self, number: int, folder: str | None, first: int) -> None:
        """``first``: the steps that were made before this launch, or this process, began."""
        self._number = number
        self._known: dict[int, dict[str, float]] = {}  # by epochs
        self._path = os.path.join(folder, "epochs.json") if folder else None
        if self._path is None:
            return
        valid = {key: entry for key, entry in self._read().items() if entry[0] <= first}
        if number == 1 and jobs.leads():
            self._write(valid)
        mine = {key.partition(".")[2]: logs for key, (_, logs) in valid.items() if key.startswith(f"{number}.")}
        self._known = {int(epoch): logs for epoch, logs in of_first(f"the beginning of training {number}", mine).items()}

    @staticmethod
    def of_job(number: int) -> Record:
        """Return the record of a training of this trainer; without checkpoints it keeps nothing."""
        job = jobs.current()
        if job is None:
            return Record(number, None, 0)
        return Record(number, settings_now().folder, beginning_of(job).steps)

    def find(self, epoch: int) -> dict[str, float] | None:
        """Return the numbers of an epoch that ended before the checkpoint; None: it did not."""
        return self._known.get(epoch)

    def keep(self, epoch: int, steps: int, logs: Mapping[str, float]) -> None:
        """Keep the numbers of an epoch that ended after so many steps."""
        if self._path is not None and epoch not in self._known and jobs.leads():
            self._write({**self._read(), f"{self._number}.{epoch}": [steps, dict(logs)]})

    def _read(self) -> dict[str, tuple[int, dict[str, float]]]:
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            with open(str(self._path), encoding="utf-8") as file:
                return {str(key): (int(steps), {str(name): float(value) for name, value in logs.items()})
                        for key, (steps, logs) in json.load(file).items()}
        return {}

    def _write(self, entries: Mapping[str, Any]) -> None:
        beside = f"{self._path}-{os.getpid()}~"
        with contextlib.suppress(OSError):             # the training goes on, as after a checkpoint that cannot be written
            with open(beside, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(beside, str(self._path))


def was_made_in_launch() -> bool:
    """Return whether this trainer replays a step of this launch. Then the board still has the values that trainers exchanged in that
    step.
    """
    job = jobs.current()
    return job is not None and is_replaying() and steps_made() > beginning_of(job).steps
