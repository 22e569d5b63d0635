"""Fluid's class for the programs of a job."""

from __future__ import annotations

from typing import Any

from ..job import job as jobs
from ..job.mode import parse
from ..native.errors import InvalidArgumentError, check_whole, user_line
from ..program import Program, Variable, default_main_program, default_startup_program
from .transpiled import Transpiled, Value
from .transpiler import MEAN, transpile


class DistributeTranspilerConfig:
    """How a program is cut. ``slice_var_up``: whether parameters are cut. ``min_block_size``: the fewest elements of a part.

    ``mode`` is the consistency of the job. Without it Fluid's flags count: ``sync_mode = False`` is ``async``, and ``geo_sgd_mode`` is
    ``geo(N)`` with N from ``geo_sgd_need_push_nums``.

    ``slice_var_up`` is True and ``min_block_size`` is 8192 at first. ``split_method``, ``print_log``, ``wait_port``,
    ``runtime_split_send_recv`` and ``half_async`` are accepted for old programs. ``enable_dc_asgd`` is refused: a mode has its
    factor.

    >>> config = fluid.DistributeTranspilerConfig()
    >>> config.min_block_size = 4096
    >>> config.sync_mode = False
    >>> config.chosen_mode()
    'async'
    >>> t = fluid.DistributeTranspiler(config)
    """

    slice_var_up = True
    split_method = None
    min_block_size = 8192
    sync_mode = True
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    print_log = False
    wait_port = True
    runtime_split_send_recv = False
    half_async = False
    enable_dc_asgd = False
    mode: str | None = None            # "sync", "async", "ssp(3)", "geo(10)", ...; Fluid's "pserver": as the flags say

    def chosen_mode(self, sync_mode: bool = True) -> str:
        """Return the mode as a text. ``sync_mode`` is ``transpile``'s argument."""
        if self.enable_dc_asgd:
            raise InvalidArgumentError("DistributeTranspilerConfig: enable_dc_asgd=True; say how much gradients are corrected instead: "
                                       f"config.mode = 'async(compensation=0.04)'\n  your line: {user_line()}")
        if self.mode and self.mode != "pserver":
            return self.mode
        if self.geo_sgd_mode:
            return f"geo({self.geo_sgd_need_push_nums})"
        return "sync" if sync_mode and self.sync_mode else "async"


def _check_place(trainer_id: int, trainers: int) -> None:
    """In a job: refuse another number of trainers, or another place among them, which a script would use to divide its data."""
    job = jobs.current()
    if job is not None and (trainers, trainer_id) != (job.trainers, job.index):
        raise InvalidArgumentError(f"transpile(trainer_id={trainer_id}, trainers={trainers}): this is trainer {job.index} of a job of "
                                   f"{job.trainers}. A script that divides its data by these numbers would read a wrong part: take them "
                                   "from fluid.distributed.trainer_index() and trainer_count(); the launcher sets no PADDLE_TRAINER_ID "
                                   f"and PADDLE_TRAINERS_NUM\n  your line: {user_line()}")


class DistributeTranspiler:
    """Fluid's class for the programs of a job. A script need not use it: in a job ``Executor.run`` does so itself.

    ``config`` is a DistributeTranspilerConfig, or None for its defaults.

    >>> x = fluid.layers.data("x", [4])
    >>> loss = fluid.layers.mean(fluid.layers.fc(x, 1))
    >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
    >>> t = fluid.DistributeTranspiler()
    >>> t.transpile(trainer_id=0, pservers="a:1", trainers=2)
    >>> [op.type for op in t.get_trainer_program().global_block().ops][:4]
    ['send_sets', 'recv_wait', 'mul', 'recv_wait']
    >>> [op.type for op in t.get_trainer_program().global_block().ops][-5:]
    ['send_barrier', 'recv', 'recv', 'recv', 'fetch_barrier']
    >>> [op.type for op in t.get_pserver_program("a:1").global_block().ops]
    ['sgd', 'sgd', 'assign']
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        if config is not None and not isinstance(config, DistributeTranspilerConfig):
            raise InvalidArgumentError(f"DistributeTranspiler: config={config!r} is no DistributeTranspilerConfig")
        self.config = config or DistributeTranspilerConfig()
        self._result: Transpiled | None = None
        self._endpoints: list[str] = []
        self._startup: Program | None = None

    def transpile(self, trainer_id: int, program: Program | None = None, pservers: str = "127.0.0.1:6174",
                  trainers: int = 1, sync_mode: bool = True, startup_program: Program | None = None,
                  current_endpoint: str = "127.0.0.1:6174") -> None:
        """Cut ``program``. Of ``pservers`` only the number of names counts; MPI finds the servers.
        ``trainer_id`` counts from 0 and is less than ``trainers``. ``sync_mode`` False means the mode ``async``. ``current_endpoint``
        changes nothing.
        """
        mode = parse(self.config.chosen_mode(sync_mode))
        check_whole("DistributeTranspilerConfig: min_block_size", self.config.min_block_size, 1)
        trainers = check_whole("transpile: trainers", trainers, 1)
        trainer_id = check_whole("transpile: trainer_id", trainer_id, 0, trainers - 1)
        _check_place(trainer_id, trainers)
        if not isinstance(pservers, str) or not pservers.strip(" ,"):
            raise InvalidArgumentError(f"transpile: pservers={pservers!r}; the names of servers, such as 'a:6174,b:6174', are possible")
        self._endpoints = [name.strip() for name in pservers.split(",") if name.strip()]
        if len(set(self._endpoints)) != len(self._endpoints):
            raise InvalidArgumentError(f"transpile: a server stands twice in pservers={pservers!r}")
        self._startup = startup_program or default_startup_program()
        self._result = transpile(program or default_main_program(), len(self._endpoints), trainer=trainer_id,
                                 min_block_bytes=4 * self.config.min_block_size,
                                 slice_params=self.config.slice_var_up, mode=mode)
        self._result.trainer._transpiled = self._result

    def _done(self) -> Transpiled:
        if self._result is None:
            raise InvalidArgumentError("DistributeTranspiler: call transpile first")
        return self._result

    def _server(self, endpoint: str) -> int:
        self._done()
        if endpoint not in self._endpoints:
            raise InvalidArgumentError(f"there is no server {endpoint!r}; there are {', '.join(self._endpoints)}")
        return self._endpoints.index(endpoint)

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """Return the program of a trainer. ``wait_port`` changes nothing: trainers wait for servers by MPI."""
        return self._done().trainer

    def get_pserver_program(self, endpoint: str) -> Program:
        """Return the program that a server runs in each step. In a job ``trireme-pserver`` gets it from trainer 0.
        ``endpoint`` is one of the texts in ``pservers``.
        """
        program = self._done().servers[self._server(endpoint)]
        program._is_servers = True
        return program

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """Return the server's program and its startup program. ``endpoint`` is one of the texts in ``pservers``."""
        return self.get_pserver_program(endpoint), self.get_startup_program(endpoint)

    def get_startup_program(self, endpoint: str, pserver_program: Program | None = None,
                            startup_program: Program | None = None) -> Program:
        """Return a program that makes a server's first values: the values of one process, cut.
        ``endpoint`` is one of the texts in ``pservers``; ``pserver_program`` is what ``get_pserver_program`` returned, and may be None.
        """
        index = self._server(endpoint)
        result = (startup_program or self._startup or default_startup_program()).clone()
        block = result.global_block()
        for value in self._done().values:
            if value.server != index:
                continue
            if value.source.endswith(MEAN):
                var = self._done().servers[index].global_block().var(value.name)
                out = block.create_var(name=value.name, shape=var.desc.shape(), dtype=var.dtype, persistable=True)
                block.append_op(type="fill_constant", outputs={"Out": out},
                                attrs={"shape": var.desc.shape(), "dtype": int(var.dtype or 0), "value": 0.0})
            elif value.name != value.source:
                self._cut(block, value)
        return result

    @staticmethod
    def _cut(block: Any, value: Value) -> Variable:
        source = block.var(value.source)
        out: Variable = block.create_var(name=value.name, dtype=source.dtype, persistable=True)
        if value.begin < 0:
            block.append_op(type="assign", inputs={"X": source}, outputs={"Out": out})
        else:
            block.append_op(type="slice", inputs={"Input": source}, outputs={"Out": out},
                            attrs={"axes": [0], "starts": [value.begin], "ends": [value.end]})
        return out
