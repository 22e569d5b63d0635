"""The object ``fleet`` of scripts: what its kinds have in common.

Nothing here makes steps. ``Executor.run`` of a training program does that in a job, with or without Fleet. Fleet's calls set the mode, say
which trainer this is, and save. Calls for servers have no effect: the servers of a job are ``trireme-pserver``, and run no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....checkpoint.folder import say
from ....job import job as jobs
from ....job.mode import set_mode
from ....job.session import session
from ....native.errors import InvalidArgumentError, UnsupportedError, check_whole, user_line
from ....program import Program, Variable, default_main_program, default_startup_program
from ....saving import io
from ....train.executor import Executor
from ....transpiler.distribute_transpiler import DistributeTranspilerConfig
from .role_maker import MPISymetricRoleMaker, RoleMakerBase


class Mode:
    """The kinds of Fleet in Fluid.

    >>> fluid.incubate.fleet.base.fleet_base.Mode.TRANSPILER
    1
    """

    TRANSPILER = 1
    PSLIB = 2
    COLLECTIVE = 3


_said: set[str] = set()


def _say_once(call: str, why: str) -> None:
    """Let one process of a job say that a call has no effect."""
    if call not in _said:
        _said.add(call)
        if jobs.leads():
            say(f"fleet.{call} does nothing: {why}")


def _only(what: str, given: Any) -> Any:
    """Return the one element of a list, or what is no list."""
    if not isinstance(given, (list, tuple)):
        return given
    if len(given) != 1:
        raise UnsupportedError(f"minimize: {len(given)} {what} are given; a job trains one program: minimize the sum of the losses, or "
                               f"train each in a job of its own\n  your line: {user_line()}")
    return given[0]


class DistributedOptimizer:
    """An optimizer whose ``minimize`` also says how the job trains. ``fleet.distributed_optimizer`` makes one.

    ``optimizer`` is one of ``fluid.optimizer``, ``config`` says the mode and how parameters are cut.

    >>> base = fluid.incubate.fleet.base.fleet_base
    >>> optimizer = base.DistributedOptimizer(fluid.optimizer.SGD(0.1), fluid.DistributeTranspilerConfig())
    >>> updates, pairs = optimizer.minimize(fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [2]), 1)))
    >>> len(pairs)
    2
    """

    def __init__(self, optimizer: Any, config: DistributeTranspilerConfig, owner: Fleet | None = None) -> None:
        """Wrap an optimizer. ``owner`` is told the program that ``minimize`` has changed."""
        if not hasattr(optimizer, "minimize"):
            raise InvalidArgumentError(f"distributed_optimizer: optimizer={optimizer!r}; one of fluid.optimizer is possible")
        self._optimizer, self._config, self._owner = optimizer, config, owner

    def backward(self, loss: Variable, startup_program: Program | None = None, parameter_list: Sequence[Any] | None = None,
                 no_grad_set: Iterable[Any] | None = None, callbacks: Any = None) -> Any:
        """Append the gradients of ``loss`` and return pairs of a parameter and its gradient, as the optimizer's own method does."""
        return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Sequence[Any]) -> Any:
        """Append the updates of these pairs, as the optimizer's own method does, and set the mode of the job."""
        made = self._optimizer.apply_gradients(params_grads)
        self._choose()
        return made

    def minimize(self, losses: Any, scopes: Any = None, startup_programs: Any = None, parameter_list: Sequence[Any] | None = None,
                 no_grad_set: Iterable[Any] | None = None) -> Any:
        """Append all it takes to make a loss smaller, and set the mode of the job. Return the updates' operators and the pairs.

        ``losses`` is a Variable, or a list of one; so is ``startup_programs`` a Program. ``scopes`` changes nothing: a job trains in the
        scope of its first step.
        """
        loss, startup = _only("losses", losses), _only("startup programs", startup_programs)
        made = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        self._choose()
        if self._owner is not None:
            self._owner._has_minimized(loss.block.program, startup or default_startup_program())
        return made

    def _choose(self) -> None:
        """Let the job train as the configuration says."""
        config = self._config
        set_mode(config.chosen_mode())
        session.min_block_bytes = 4 * check_whole("DistributeTranspilerConfig: min_block_size", config.min_block_size, 1)
        session.slice_params = bool(config.slice_var_up)


class Fleet:
    """The object ``fleet`` of a script.

    >>> from trireme.incubate.fleet.parameter_server.distribute_transpiler import fleet
    >>> fleet.init()
    >>> fleet.is_worker(), fleet.worker_index(), fleet.worker_num()
    (True, 0, 1)
    """

    def __init__(self) -> None:
        self._role_maker: RoleMakerBase | None = None
        self._main: Program | None = None
        self._startup: Program | None = None

    # -- roles ----------------------------------------------------------------------------------------------

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Begin. ``role_maker`` is one of ``base.role_maker``; None is ``MPISymetricRoleMaker()``. A role that this process does not have
        is refused."""
        role_maker = MPISymetricRoleMaker() if role_maker is None else role_maker
        if not isinstance(role_maker, RoleMakerBase):
            raise TypeError(f"fleet.init: role_maker must be one of incubate.fleet.base.role_maker, got {role_maker!r}")
        role_maker.generate_role()
        self._role_maker = role_maker

    @property
    def _role(self) -> RoleMakerBase:
        if self._role_maker is None:
            raise InvalidArgumentError(f"call fleet.init(role_maker) first\n  your line: {user_line()}")
        return self._role_maker

    def is_worker(self) -> bool:
        """Return True: a process that runs a script is a trainer."""
        return self._role.is_worker()

    def is_server(self) -> bool:
        """Return False: servers run no script."""
        return self._role.is_server()

    def is_first_worker(self) -> bool:
        """Return whether this is trainer 0."""
        return self._role.is_first_worker()

    def worker_index(self) -> int:
        """Return this trainer's number, from 0."""
        return self._role.worker_index()

    def worker_num(self) -> int:
        """Return the number of trainers; 1 in one process."""
        return self._role.worker_num()

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """Return a name for each trainer; ``to_string``: in one text, with commas. MPI finds the trainers, these are no addresses."""
        names = self._role.get_trainer_endpoints()
        return ",".join(names) if to_string else names

    def server_index(self) -> int:
        """Return -1: no server runs a script."""
        return self._role.server_index()

    def server_num(self) -> int:
        """Return the number of servers; 0 in one process."""
        return self._role.server_num()

    def server_endpoints(self, to_string: bool = False) -> Any:
        """Return a name for each server; ``to_string``: in one text, with commas. MPI finds the servers, these are no addresses."""
        names = self._role.get_pserver_endpoints()
        return ",".join(names) if to_string else names

    def split_files(self, files: Sequence[str]) -> list[str]:
        """Return this trainer's part of a list of ``files``: consecutive ones, the same number for each trainer. If they do not divide,
        the first trainers have one more."""
        if not isinstance(files, (list, tuple)):
            raise TypeError(f"fleet.split_files: files must be a list of paths, got {files!r}")
        each, more = divmod(len(files), self.worker_num())
        me = self.worker_index()
        begin = me * each + min(me, more)
        return list(files[begin:begin + each + (me < more)])

    def barrier_worker(self) -> None:
        """Wait until all trainers have called this."""
        self._role.barrier_worker()

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Put the sum of all trainers' ``input``, an array or a list of numbers, into ``output``, which has as many."""
        self._role.all_reduce_worker(input, output)

    # -- the programs ---------------------------------------------------------------------------------------

    @property
    def main_program(self) -> Program:
        """The program to train. It is the script's own: an executor puts the trainer's part in its place."""
        return self._main or default_main_program()

    @property
    def startup_program(self) -> Program:
        """The program that gives parameters their first values."""
        return self._startup or default_startup_program()

    @property
    def _origin_program(self) -> Program:              # scripts of 1.5 to 1.7 save it
        return self.main_program

    @property
    def _origin_main_program(self) -> Program:         # scripts of 1.8 do
        return self.main_program

    def _has_minimized(self, main: Program, startup: Program) -> None:
        self._main, self._startup = main, startup

    # -- the begin and the end of ranks ---------------------------------------------------------------------

    def init_worker(self) -> None:
        """Do nothing: the job begins with the first step, which waits for the servers."""
        _ = self._role

    def stop_worker(self) -> None:
        """Do nothing: a trainer leaves its job at the end of its script."""
        _ = self._role

    def init_server(self, model_dir: str | None = None, **kwargs: Any) -> None:
        """Do nothing, and say so once: servers get their first values from trainer 0. ``model_dir`` is refused: trainers load it."""
        if model_dir:
            raise UnsupportedError(f"fleet.init_server({model_dir!r}): servers run no script, so they do not load it here. Let all "
                                   "trainers call fluid.io.load_persistables(exe, model_dir, fleet.main_program) after the startup program"
                                   f"\n  your line: {user_line()}")
        _say_once("init_server", "trainer 0 gives the servers their first values")

    def run_server(self) -> None:
        """Do nothing, and say so once."""
        _say_once("run_server", "the servers of a job are trireme-pserver, which trireme launch or mpirun starts; they run no script")

    # -- files ----------------------------------------------------------------------------------------------

    def save_inference_model(self, executor: Executor | None, dirname: str, feeded_var_names: Sequence[str],
                             target_vars: Sequence[Variable], main_program: Program | None = None,
                             export_for_deployment: bool = True) -> list[str]:
        """Write what computes ``target_vars`` from the variables ``feeded_var_names``: ``fluid.io.save_inference_model``.
        ``export_for_deployment`` changes nothing."""
        if not feeded_var_names or not target_vars:
            raise InvalidArgumentError("fleet.save_inference_model: name the variables to feed and the targets, as for "
                                       f"fluid.io.save_inference_model\n  your line: {user_line()}")
        return io.save_inference_model(dirname, feeded_var_names, target_vars, executor or Executor(), main_program or self.main_program,
                                       export_for_deployment=export_for_deployment)

    def save_persistables(self, executor: Executor | None, dirname: str, main_program: Program | None = None) -> None:
        """Write parameters, tables and what optimizers remember: ``fluid.io.save_persistables``. In a job trainer 0 writes."""
        io.save_persistables(executor or Executor(), dirname, main_program or self.main_program)


__all__ = ["Fleet", "DistributedOptimizer", "Mode"]
