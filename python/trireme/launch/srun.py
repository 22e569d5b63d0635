"""Does by srun what `ssh HOST COMMAND` does, on a node of the Slurm allocation that this process is in. Imports nothing of the
package.

    python srun.py HOST COMMAND

Each call is a step of its own, so the end of one does not end another. Each step may use all of the job's share of its node.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys

_PR_SET_PDEATHSIG = 1
_OPTIONS = ["--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--chdir=/",
            "--quiet"]


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    host, *words = sys.argv[1:]
    # Waiting for a node that is gone would take as long as Slurm waits.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    shell = pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    command = ["srun", *_OPTIONS, f"--nodelist={host}", shell, "-c", " ".join(words)]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"srun: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
