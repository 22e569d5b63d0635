"""Which part a process has in its job: Fluid's role makers.

In Fluid a role maker reads it from variables of the environment, or a script says it. Here the job itself knows its ranks, and every rank
that runs a script is a trainer. So all role makers answer the same. Where the script or the environment says otherwise they refuse: the
script would read a wrong part of its data.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....distributed.collectives import all_reduce, barrier
from ....job.job import is_distributed, server_count, trainer_count, trainer_index
from ....native.errors import InvalidArgumentError, UnsupportedError, check_whole, user_line


class Role:
    """The parts of a process, for ``UserDefinedRoleMaker``.

    >>> fluid.incubate.fleet.base.role_maker.Role.WORKER
    1
    """

    WORKER = 1
    SERVER = 2


def _refuse(what: str) -> None:
    where = f"this is trainer {trainer_index()} of a job of {trainer_count()}" if is_distributed() else "this process is in no job"
    raise InvalidArgumentError(f"{what}: {where}. `trireme launch --servers S --trainers T SCRIPT` starts one; its servers run no script. "
                               "Take numbers from fleet.worker_index() and fleet.worker_num() of a PaddleCloudRoleMaker\n"
                               f"  your line: {user_line()}")


class RoleMakerBase:
    """The part of this process in its job. All role makers answer as the job does; a process alone is the only worker.

    >>> role = fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker()
    >>> role.is_worker(), role.is_server(), role.worker_index(), role.worker_num(), role.server_num()
    (True, False, 0, 1, 0)
    """

    _server_endpoints: Sequence[str] = ()              # as a script has named them

    def generate_role(self) -> None:
        """Refuse what is not true of this process. ``fleet.init`` calls this."""

    def is_worker(self) -> bool:
        """Return True: this process runs a script, so it is a trainer."""
        return True

    def is_server(self) -> bool:
        """Return False: the servers of a job are ``trireme-pserver``, and run no script."""
        return False

    def is_first_worker(self) -> bool:
        """Return whether this is trainer 0."""
        return trainer_index() == 0

    def worker_index(self) -> int:
        """Return this trainer's number, from 0."""
        return trainer_index()

    def worker_num(self) -> int:
        """Return the number of trainers; 1 in one process."""
        return trainer_count()

    def server_index(self) -> int:
        """Return -1: no server runs a script."""
        return -1

    def server_num(self) -> int:
        """Return the number of servers; 0 in one process."""
        return server_count()

    def get_trainer_endpoints(self) -> list[str]:
        """Return a name for each trainer. MPI finds them, so these are no addresses."""
        return [f"trainer-{i}" for i in range(self.worker_num())]

    def get_pserver_endpoints(self) -> list[str]:
        """Return a name for each server, or those that the script has given. MPI finds the servers."""
        return list(self._server_endpoints) or [f"server-{i}" for i in range(self.server_num())]

    def barrier_worker(self) -> None:
        """Wait until all trainers have called this."""
        barrier()

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Put the sum of all trainers' ``input``, an array or a list of numbers, into ``output``, which has as many."""
        output[:] = all_reduce(np.asarray(input))

    def to_string(self) -> str:
        """Return what this process is, as a text."""
        return (f"{type(self).__name__}: worker {self.worker_index()} of {self.worker_num()}; servers: "
                f"{', '.join(self.get_pserver_endpoints()) or 'none'}")


class PaddleCloudRoleMaker(RoleMakerBase):
    """The role of a process as its launcher says it.

    Fluid reads ``PADDLE_TRAINERS_NUM`` and the like. In a job of Trireme these change nothing. In one process a server's role and more
    than one trainer are refused: start the script by ``trireme launch``. ``is_collective`` must be False.

    >>> fluid.incubate.fleet.base.role_maker.PaddleCloudRoleMaker().to_string()
    'PaddleCloudRoleMaker: worker 0 of 1; servers: none'
    """

    def __init__(self, is_collective: bool = False) -> None:
        if is_collective:
            raise UnsupportedError(f"{type(self).__name__}(is_collective=True): gradients are summed up by servers here. Leave it out: "
                                   f"mode sync has the same numbers\n  your line: {user_line()}")

    def generate_role(self) -> None:
        """Refuse variables of the environment that ask for a job where there is none."""
        role, trainers = os.environ.get("PADDLE_TRAINING_ROLE", ""), os.environ.get("PADDLE_TRAINERS_NUM", "")
        if is_distributed():
            return
        if role.upper() == "PSERVER":
            _refuse(f"{type(self).__name__}: PADDLE_TRAINING_ROLE={role}")
        if trainers.strip() not in ("", "0", "1"):
            _refuse(f"{type(self).__name__}: PADDLE_TRAINERS_NUM={trainers}")


class GeneralRoleMaker(PaddleCloudRoleMaker):
    """The same. What Fluid's takes of files by which its processes find each other is accepted and changes nothing.

    >>> fluid.incubate.fleet.base.role_maker.GeneralRoleMaker(path="/tmp/gloo").worker_num()
    1
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()


class MPISymetricRoleMaker(RoleMakerBase):
    """The role of a rank that ``mpirun`` has started. In Fluid every second rank is a server; here ``mpirun`` or ``trireme launch`` says
    which ranks are.

    >>> fluid.incubate.fleet.base.role_maker.MPISymetricRoleMaker().is_first_worker()
    True
    """


class UserDefinedRoleMaker(RoleMakerBase):
    """The role that the script says, which must be that of this process.

    ``current_id`` and ``worker_num`` (0: any number) must be those of the job, and ``role`` must be ``Role.WORKER``. ``server_endpoints``
    is a list of names, one for each server of the job.

    >>> role_maker = fluid.incubate.fleet.base.role_maker
    >>> role = role_maker.UserDefinedRoleMaker(current_id=0, role=role_maker.Role.WORKER, worker_num=1, server_endpoints=["a:6174"])
    >>> role.get_pserver_endpoints()
    ['a:6174']
    """

    def __init__(self, current_id: int = 0, role: int = Role.WORKER, worker_num: int = 0,
                 server_endpoints: Sequence[str] | None = None) -> None:
        name = type(self).__name__
        self._current_id = check_whole(f"{name}: current_id", current_id)
        self._worker_num = check_whole(f"{name}: worker_num", worker_num)
        if role not in (Role.WORKER, Role.SERVER):
            raise InvalidArgumentError(f"{name}: role={role!r}; Role.WORKER is possible")
        if server_endpoints is not None and not isinstance(server_endpoints, (list, tuple)):
            raise InvalidArgumentError(f"{name}: server_endpoints={server_endpoints!r}; a list of names is possible")
        self._role, self._server_endpoints = role, list(server_endpoints or ())

    def generate_role(self) -> None:
        """Refuse a role, a number or a count of servers that this process or its job does not have."""
        name = type(self).__name__
        if self._role == Role.SERVER:
            _refuse(f"{name}: role=Role.SERVER")
        if self._current_id != trainer_index() or self._worker_num not in (0, trainer_count()):
            _refuse(f"{name}(current_id={self._current_id}, worker_num={self._worker_num})")
        if is_distributed() and len(self._server_endpoints) not in (0, server_count()):
            _refuse(f"{name}: server_endpoints has {len(self._server_endpoints)} names, the job has {server_count()} servers")


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """Refused where it is made: gradients are summed up by servers here.

    >>> try:
    ...     fluid.incubate.fleet.base.role_maker.UserDefinedCollectiveRoleMaker()
    ... except NotImplementedError as error:
    ...     print(str(error)[:40])
    UserDefinedCollectiveRoleMaker: gradient
    """

    def __init__(self, current_id: int = 0, worker_endpoints: Sequence[str] | None = None) -> None:
        """Refuse ``current_id`` and ``worker_endpoints``, whatever they are."""
        raise UnsupportedError("UserDefinedCollectiveRoleMaker: gradients are summed up by servers here. Use PaddleCloudRoleMaker: mode "
                               f"sync has the same numbers\n  your line: {user_line()}")


__all__ = ["Role", "RoleMakerBase", "MPISymetricRoleMaker", "UserDefinedRoleMaker", "UserDefinedCollectiveRoleMaker",
           "PaddleCloudRoleMaker", "GeneralRoleMaker"]
