"""What messages and bytes cost on a processor, in a file that ``trireme simulate --calibrate`` writes."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..native.errors import InvalidArgumentError, NotFoundError

SCHEMA = 2
OPTIMIZERS = ("sgd", "momentum", "adam", "adagrad")
METHODS = ("fp16", "bf16", "int8", "topk", "nonzero")

# Seconds of one core for one of each, and what they are on the processor that the model was made on. A calibration measures them.
UNITS = {
    "step": 3e-5,                      # a trainer's own for a step of a job
    "server_step": 4e-6,               # a server's for a step of one trainer
    "update": 1e-5,                    # a server's for an update
    "wake": 5e-6,                      # a thread sleeps until a message comes, and goes on
    "cold": 2e-5,                      # more after a long sleep: others have used the caches
    "cold_step": 2e-5,                 # a trainer's more for a step that computes long
    "nap": 5e-6,                       # a thread looks for messages of other hosts, finds none, and sleeps again
    "block": 1e-6,                     # a trainer's for a parameter that it sends and receives
    "entry": 1e-7,                     # a server's for a parameter of a trainer
    "small_update": 5e-7,              # a server's for a parameter in an update
    "memory.message": 2e-6,            # one side of a message between ranks of a host
    "memory.bulk": 3e-6,               # more for a message that is not small
    "memory.byte": 1.5e-10,            # both sides together
    "tcp.message": 8e-6,
    "tcp.bulk": 8e-6,
    "tcp.byte": 5e-10,
    "bundled": 3e-7,                   # one side of a message within a bundle
    "add": 1e-10,                      # a byte of another trainer's gradient
    **{f"apply.{name}": 2e-10 for name in OPTIMIZERS},                 # a byte of parameters
    "row_read": 2e-8,                  # a row that a server sends
    "row_add": 5e-8,                   # a row that another trainer has changed, too
    **{f"row_apply.{name}": 5e-8 for name in OPTIMIZERS},              # a row that is updated
    "row_byte": 5e-10,                 # a byte of a row, of all that a server does with it
    "row_trainer": 3e-8,               # a row on a trainer: keys that are sorted, values that are spread
    "row_trainer_byte": 2e-10,
    **{f"encode.{name}": 5e-10 for name in METHODS},                   # a byte of a gradient
    **{f"decode.{name}": 3e-10 for name in METHODS},
    "round": 2e-10,                    # a byte of parameters to bfloat16, on a server
    "widen": 2e-10,                    # and back, on a trainer
}
SHARED = ("add", "apply", "row_read", "row_add", "row_apply", "row_byte", "decode", "round")     # by the threads of a server

POLLED = "polled"                      # in a tally: seconds in which a thread looks for messages, whatever they cost

Tally = dict[str, float]


@dataclass
class Costs:
    """What work costs. ``cpu`` is the processor's name."""

    cpu: str = ""
    cores: int = 1
    units: dict[str, float] = field(default_factory=lambda: dict(UNITS))
    sent: dict[str, float] = field(default_factory=lambda: {"memory": 0.0, "tcp": 0.55})     # the sender's share of the cost of a byte
    delay: float = 2e-5                # until a thread that sleeps has seen a message
    error: float = 0.0                 # of the costs beside the CPU times that they are made of: the median

    def seconds(self, tally: Tally) -> float:
        """Return the CPU time of so much of each kind of work.

        >>> Costs(units={"add": 2.0}).seconds({"add": 3.0})
        6.0
        """
        return sum(self.units.get(name, 0.0) * count for name, count in tally.items())

    def shared_part(self, tally: Tally) -> float:
        """Return the part of it that the threads of a server share."""
        return self.seconds({name: count for name, count in tally.items() if name.partition(".")[0] in SHARED})


def free() -> Costs:
    """Return costs of nothing."""
    return Costs(units=dict.fromkeys(UNITS, 0.0), delay=0.0)


def cpu_name() -> str:
    """Return the name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor")


def default_path() -> Path:
    """Return the file of this machine's costs, in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    word = "".join(letter if letter.isalnum() else "-" for letter in cpu_name().lower())
    return Path(root) / "trireme" / f"costs-{word}.json"


def save(costs: Costs, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps({"schema": SCHEMA, **asdict(costs)}, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def load(path: Path) -> Costs:
    """Return the costs in a file. Raise NotFoundError where there is none, InvalidArgumentError where it holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"trireme simulate: there is no {path}, which holds what messages and bytes cost on this machine: run "
                            "`trireme simulate --calibrate` first (about two minutes)") from None
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"trireme simulate: {path}: {error}; `trireme simulate --calibrate` writes it anew") from None
    return _checked(found, path)


def _checked(found: Any, path: Path) -> Costs:
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InvalidArgumentError(f"trireme simulate: {path} has no costs of schema {SCHEMA}; `trireme simulate --calibrate` writes "
                                   "it anew")
    given: dict[str, Any] = {}
    for one in fields(Costs):
        value: Any = found.get(one.name)
        try:
            if one.name in ("units", "sent"):
                given[one.name] = {name: float(value[name]) for name in (UNITS if one.name == "units" else ("memory", "tcp"))}
            else:
                given[one.name] = str(value) if one.name == "cpu" else int(value) if one.name == "cores" else float(value)
        except (KeyError, TypeError, ValueError):
            raise InvalidArgumentError(f"trireme simulate: {path}: {one.name} is {value!r}, which is no cost; "
                                       "`trireme simulate --calibrate` writes it anew") from None
    return Costs(**given)
