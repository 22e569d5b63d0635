"""A rank that waits beside a job: ``python -m trireme.launch.standby SCRIPT ARGS``.

When a server of its host dies, the standby becomes that server. When it is called to replace a dead trainer, it runs the script as the
trainer of that number: the steps that were made are not computed again (distributed/replay.py). While it waits it imports neither the
script's modules, nor NumPy, nor the modules that make programs.
"""

from __future__ import annotations

import os
import runpy
import sys

from ..job import job


def main() -> None:
    script, *args = sys.argv[1:]
    if not job.wait_as_standby():
        return
    sys.argv = [script, *args]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
