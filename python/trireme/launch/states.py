"""The state that a job has left: its checkpoints, and the memory of its servers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..native import suggest
from ..native.errors import InvalidArgumentError, NotFoundError, TriremeError
from .claims import is_stored
from .programs import is_saved_job
from .watch import Ranks


@dataclass(frozen=True)
class Checkpoints:
    """The launcher's options for checkpoints: whether the job keeps them, and whether it goes on from one."""

    folder: str | None = None
    steps: int | None = None
    seconds: float | None = None
    keep: int | None = None
    full_every: int | None = None
    rows: str | None = None
    resume: bool = False               # from a folder that holds a checkpoint
    resume_or_begin: bool = False      # from one of the same script and arguments, if the folder holds any
    anew: bool = False                 # begin, and move another run's checkpoints away

    def check(self) -> None:
        if self.folder is None and (self.resume or self.resume_or_begin or self.anew
                                    or any(value is not None for value in (self.steps, self.seconds, self.keep, self.full_every,
                                                                      self.rows))):
            raise InvalidArgumentError("trireme launch: --resume, --resume=auto, --anew and --checkpoint-... need --checkpoint DIR")
        if self.resume and not self.found():
            folder = str(self.folder)
            why = "holds no checkpoint" if is_stored(folder) or os.path.isdir(folder) else "does not exist"
            raise NotFoundError(f"trireme launch: --resume: the folder {str(self.folder)!r} {why}{near(str(self.folder))}; "
                                "with --resume=auto, or without it, a job starts from the beginning")

    def check_run(self, script: Sequence[str]) -> None:
        """Refuse a folder with checkpoints of another run, before any rank starts. The trainers of a saved job look at its command by
        themselves."""
        if self.folder is None:
            return
        from .._core import lib
        from ..checkpoint.folder import check_claim, command_of

        is_same = self.resume_or_begin and not is_saved_job(script[0])
        entry = (lib.TR_ENTRY_RESUME_COMMAND if is_same else lib.TR_ENTRY_RESUME if self.resume or self.resume_or_begin
                 else lib.TR_ENTRY_ANEW if self.anew else lib.TR_ENTRY_BEGIN)
        check_claim(self.folder, entry, command_of(script))

    def found(self) -> list[int]:
        if self.folder is None:
            return []
        from ..checkpoint.folder import steps

        return steps(self.folder)

    def host_groups(self, trainers: int) -> str | None:
        """Return the sizes of the trainers' host groups in the run that the job goes on with. None: it begins, or the run had another
        number of trainers."""
        if self.folder is None or not (self.resume or self.resume_or_begin):
            return None
        from ..checkpoint.folder import groups_of_newest

        return groups_of_newest(self.folder, trainers)

    def forget(self, state: str) -> None:
        """Remove the note of where a launch began. Ranks leave it for the next start of the job, and there will be none."""
        beginning = f".began-{Path(state).name}."
        if self.folder is None:
            return
        if is_stored(self.folder):
            forget_stored(self.folder, beginning)
            return
        for path in Path(self.folder).glob(f"{beginning}*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def environment(self) -> dict[str, str]:
        if self.folder is None:
            return {}
        from ..stores.names import absolute

        folder = absolute(self.folder)
        numbers = {"STEPS": self.steps, "SECONDS": self.seconds, "KEEP": self.keep, "FULL_EVERY": self.full_every, "ROWS": self.rows}
        # A resumed training must shuffle in the same order.
        resume = "auto" if self.resume_or_begin else str(int(self.resume))
        return {"TRIREME_CHECKPOINT": folder, "TRIREME_RESUME": resume, "TRIREME_ANEW": str(int(self.anew)), "TRIREME_SHUFFLE": folder,
                **{f"TRIREME_CHECKPOINT_{name}": str(value) for name, value in numbers.items() if value is not None}}


def forget_stored(folder: str, beginning: str) -> None:
    """Remove the files in a folder of a store whose names begin so, and the note of which job writes there."""
    from ..stores.folders import list_files
    from ..stores.writing import remove

    with contextlib.suppress(TriremeError):
        for name in [name for name, _ in list_files(folder) if name.startswith(beginning) or name == ".claim"]:
            remove(f"{folder}/{name}")


def near(folder: str) -> str:
    """Return a question, "did you mean ...?", with a folder of checkpoints beside this one that has a similar name; "" if there is
    none.
    """
    from ..checkpoint.folder import steps

    if is_stored(folder):
        return ""
    path = Path(os.path.abspath(folder))
    beside = [one.name for one in path.parent.iterdir() if one.is_dir() and steps(str(one))] if path.parent.is_dir() else []
    found = suggest.near(path.name, beside, 1)
    return f"; did you mean {os.path.join(os.path.dirname(folder), found[0])!r}?" if found else ""


@dataclass
class States:
    """The servers' state in the memory of the hosts, and whether it can be used."""

    servers: set[str] = field(default_factory=set)     # hosts, besides this one, that have had a server
    has_replicas: bool = False         # all servers had one
    outdated: set[str] = field(default_factory=set)    # hosts where a server's replica died, so the state there is old; "" is this host
    lost: set[str] = field(default_factory=set)        # hosts that have had a server and were lost at the last call of usable
    number: int = 0

    def note(self, ranks: Ranks, has_replicas: bool) -> None:
        """Note the ranks of a job that is over or will be started again."""
        self.servers |= ranks.server_hosts()
        self.has_replicas, self.outdated = has_replicas, ranks.outdated_replicas(self.outdated)

    def usable(self, lost: set[str]) -> int:
        """Return a number. It rises when servers must not use any state. The state of a server on a lost host is gone, unless its
        replica has it. And if one server finds no state, no other server may use its own.
        """
        gone = lost & self.servers
        if gone - self.lost and (not self.has_replicas or self.outdated - lost):
            self.number += 1
        self.lost = gone
        return self.number
