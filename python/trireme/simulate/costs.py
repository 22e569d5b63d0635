"""What messages and bytes cost on a processor, in a file that ``trireme simulate --calibrate`` writes."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..native.errors import InvalidArgumentError, NotFoundError

SCHEMA = 1
OPTIMIZERS = ("sgd", "momentum", "adam", "adagrad")
METHODS = ("fp16", "bf16", "int8", "topk")


@dataclass
class Way:
    """A way on which messages travel: seconds of a processor. ``message`` is of a trainer, ``served`` of a server that is busy, ``byte``
    of both sides together."""

    message: float = 3e-6
    byte: float = 2e-10
    served: float = 2e-6


@dataclass
class Costs:
    """Seconds of one core. ``cpu`` is the processor's name."""

    cpu: str = ""
    cores: int = 1
    step: float = 2e-5                 # a trainer's own for a step of a job
    step_of_server: float = 2e-5       # an update's fixed part
    wake: float = 2e-5                 # until a rank that sleeps has seen a message
    rouse: float = 5e-6                # a server's work when it slept
    entry: float = 1e-7                # a small parameter within a message
    small_update: float = 1e-6         # its update
    memory: Way = field(default_factory=Way)
    tcp: Way = field(default_factory=Way)
    add: float = 2e-10                 # a byte of a second trainer's gradient
    apply: dict[str, float] = field(default_factory=lambda: dict.fromkeys(OPTIMIZERS, 3e-10))          # a byte of parameters
    row_read: float = 5e-8             # a row that a server sends
    row_apply: dict[str, float] = field(default_factory=lambda: dict.fromkeys(OPTIMIZERS, 2e-7))       # a row that is updated
    row_byte: float = 1e-9             # a byte of a row, of all that a server does with it
    row_trainer: float = 1e-7          # a row on a trainer: keys that are sorted, values that are spread
    encode: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 5e-10))            # a byte of gradient
    decode: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 3e-10))
    round_byte: float = 3e-10          # a byte of parameters to bfloat16, on a server
    widen_byte: float = 3e-10          # and back, on a trainer


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
            if one.name in ("memory", "tcp"):
                given[one.name] = Way(float(value["message"]), float(value["byte"]), float(value["served"]))
            elif isinstance(value, dict):
                given[one.name] = {str(key): float(number) for key, number in value.items()}
            else:
                given[one.name] = str(value) if one.name == "cpu" else int(value) if one.name == "cores" else float(value)
        except (KeyError, TypeError, ValueError):
            raise InvalidArgumentError(f"trireme simulate: {path}: {one.name} is {value!r}, which is no cost; "
                                       "`trireme simulate --calibrate` writes it anew") from None
    return Costs(**given)
