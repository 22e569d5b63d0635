"""What a process finds around it: its working folder, and variables of a job that it may not belong to.

A shell that a job has started, or a script that its mpirun has left behind, hands variables of Open MPI on to all that they start.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from ..native.errors import NotFoundError

_RANK = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK")          # a process with one of these counts as a rank (tr_job_is_launched)
_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun", "orted", "prted", "prte", "srun", "slurmstepd")
# Variables by which mpirun tells a rank its place. OMPI_MCA_* may be the user's settings, but these are not.
_PLACES = ("OMPI_COMM_WORLD_", "OMPI_WORLD_", "PMIX_", "PRTE_LAUNCHED", "PRTE_MCA_", "OMPI_FIRST_RANKS", "OMPI_APP_CTX", "OMPI_NUM_APP",
           "OMPI_UNIVERSE_SIZE", "OMPI_FILE_LOCATION", "OMPI_ARGV", "OMPI_COMMAND", "OMPI_VERSION", "OMPI_MCA_orte_", "OMPI_MCA_ess_",
           "OMPI_MCA_initial_wdir",
           "OMPI_MCA_num_procs", "OMPI_MCA_num_restarts", "OMPI_MCA_btl_sm_backing_directory", "TRIREME_JOB", "TRIREME_STATE",
           "TRIREME_ATTEMPT",
           "TRIREME_RESUME")


def rank_words() -> str:
    """Return the variables that make this process a rank, as "OMPI_COMM_WORLD_SIZE=2, PMIX_RANK=1"; "" in no job."""
    return ", ".join(f"{name}={os.environ[name]}" for name in _RANK if name in os.environ)


def has_launcher(proc: str | os.PathLike[str] = "/proc") -> bool:
    """Return whether a launcher of MPI is among the parents of this process. ``proc`` is the kernel's folder."""
    pid = os.getpid()
    while pid > 1:
        try:
            with open(os.path.join(proc, str(pid), "stat")) as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            return False
        if name in _LAUNCHERS:
            return True
        pid = int(rest.split()[1])
    return False


def forget_rank(environment: MutableMapping[str, str]) -> list[str]:
    """Remove the variables of another job's rank, and return their names."""
    left = [name for name in environment if name.startswith(_PLACES)]
    for name in left:
        del environment[name]
    return left


def check_folder() -> None:
    """Refuse a working folder that was deleted: neither mpirun nor a script can start there."""
    try:
        os.getcwd()
    except OSError as error:
        raise NotFoundError(f"trireme launch: the working folder of this shell is gone ({error.strerror}); was it deleted? Change to one "
                            "that exists") from None
