"""Collectives: calls that all trainers make, each with a value of its own.

They are for values that a script computes beside the training: metrics, decisions, the end of a phase. Gradients do not use them. A
value takes at most 256 KiB. In one process each call returns what it would return with one trainer.

The n-th call of a trainer belongs to the n-th call of all others, so all trainers make the same calls in the same order, between two
steps. A trainer that has left (its script has ended) takes no part. The others wait for a dead trainer while a standby takes its
place. The standby runs the script again, and each call that was complete returns at once what it returned before.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..job.job import current
from ..job.session import session
from ..native.checks import plain
from ..native.errors import InvalidArgumentError, NotFoundError, RangeError, user_line
from . import board
from .values import decode, encode

_SUMS: dict[str, Callable[[Any, Any], Any]] = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum,
                                               "prod": np.multiply}


def meet(call: str, value: Any) -> dict[int, Any]:
    """Return the values of all trainers that take part, by their indices, in order. All trainers make the same ``call``."""
    job = current()
    data = encode(value, call)
    if job is None:
        return {0: decode(data)}
    session.collectives += 1
    found = board.post(job, number=session.collectives, call=call, data=data, until=board.ALL)
    if found is None:
        raise RangeError(f"{call}: this is collective {session.collectives} of a script that runs again, and the servers keep its result "
                         "no longer: they keep the newest 8 MiB. Make such calls once in an epoch instead of in each step\n  your line: "
                         f"{user_line()}")
    return {index: decode(part) for index, part in found.items()}


def has_posted_next(call: str) -> bool:
    """Return whether this trainer, before it ran its script again, has come to its next collective, which is this ``call``."""
    job = current()
    if job is None:
        return False
    found = board.post(job, number=session.collectives + 1, call=call)
    return found is None or job.index in found


def barrier() -> None:
    """Wait until all trainers have called this.

    >>> fluid.distributed.barrier()
    """
    job = current()
    if job is not None:
        session.collectives += 1
        board.post(job, number=session.collectives, call="barrier()", data=b"", until=board.ALL)


def broadcast(value: Any = None, root: int = 0) -> Any:
    """Return the value of trainer ``root``; the values of the others are ignored.

    ``value`` is an array, a number, or a small object as in ``all_gather``.

    >>> fluid.distributed.broadcast({"rate": 0.1})
    {'rate': 0.1}
    """
    job = current()
    count = job.trainers if job is not None else 1
    root = plain(root)
    if not isinstance(root, numbers.Integral) or not 0 <= root < count:
        raise InvalidArgumentError(f"broadcast: root must be the index of a trainer, 0 to {count - 1}, got {root!r}")
    is_root = job is None or job.index == root
    values = meet(f"broadcast(root={root})", value if is_root else None)
    if job is not None and root not in values:
        raise NotFoundError(f"broadcast: trainer {root} has left: its script has ended without this call")
    return values[int(root)]


def all_gather(value: Any) -> list[Any]:
    """Return the values of all trainers, in the order of their indices. A trainer that has left gives no value.

    ``value`` is an array or a number; its shape may differ from trainer to trainer. Or it is ``None``, a ``str``, ``bool``, ``bytes``, or a
    ``list``, ``tuple`` or ``dict`` (with keys of ``str``) of these. Tuples become lists.

    >>> fluid.distributed.all_gather([1, "one"])
    [[1, 'one']]
    """
    return list(meet("all_gather()", value).values())


def all_reduce(value: Any, op: str = "sum") -> Any:
    """Return the element-wise ``op`` of all trainers' values: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.

    ``value`` is a number, or an array of numbers; all trainers give the same shape and type. The result has that type, except that the mean
    of integers is float64. Values are combined in the order of the trainers, so the bits do not depend on the number of servers.

    >>> fluid.distributed.all_reduce(np.array([1.0, 2.0]))
    array([1., 2.])
    >>> fluid.distributed.all_reduce(3, op="max")
    3
    """
    if op not in _SUMS:
        raise InvalidArgumentError(f"all_reduce: op must be one of {', '.join(map(repr, _SUMS))}, got {op!r}")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise InvalidArgumentError(f"all_reduce: value must be a number or an array of numbers, got {value!r}")
    shape = ", ".join(map(str, array.shape))
    values = list(meet(f"all_reduce({array.dtype}[{shape}], op={op!r})", array).values())
    result = _combined(values, op)
    return result.item() if isinstance(value, (int, float)) and not isinstance(value, np.generic) else result


def _combined(values: Sequence[np.ndarray], op: str) -> Any:
    with np.errstate(over="ignore"):
        result = reduce(_SUMS[op], values)
        if op == "mean":
            result = result / (len(values) if result.dtype.kind != "f" else result.dtype.type(len(values)))
    return np.asarray(result) if values[0].shape else result[()]
