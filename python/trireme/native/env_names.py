"""The environment variables of Trireme, and what is said of one that is none of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# As docs/env.md has them.
NAMES = frozenset("""
    ANEW ATTEMPT BACKTRACE BUILD CARRIERS CHECKPOINT CHECKPOINTS CHECKPOINT_FULL_EVERY CHECKPOINT_KEEP CHECKPOINT_REPORT
    CHECKPOINT_ROWS CHECKPOINT_SECONDS CHECKPOINT_STEPS CHECK_NAN COMPRESS COMPRESS_PARAMETERS DATA_HOME DEMO_OUTPUT FUZZ_ROUNDS
    FUZZ_SEED HOST_GROUPS JOB JOB_FOLDER JOB_PID KEEP_OPS KEEP_RUN LOCAL LOG LOG_SECONDS MATMUL_PRECISION MODE NUM_THREADS ON_NAN
    PEER_PYTHON PRELOAD PROFILE PROGRESS PSERVER RESUME RINGS RUN SCRIPTS SERVER_THREADS SHUFFLE SIMULATED_JOBS SIM_FIRST SIM_RUNS
    SIM_TRACE SOAK_SECONDS START_TIMEOUT STATE STORE_COMMAND STORE_TIMEOUT TABLE_MEMORY TABLE_SPILL TERMINAL TIMEOUT TRACE TRAINER
    TRANSPORT VENV WINOGRAD
""".split())

_PREFIX = "TRIREME_"


def unknown(environment: Mapping[str, str]) -> list[str]:
    """Return a line for each variable in ``environment`` that begins like those of Trireme and is none of them.

    >>> unknown(dict(TRIREME_TIMOUT="9", HOME="/"))
    ['TRIREME_TIMOUT is no variable of Trireme, and changes nothing; did you mean TRIREME_TIMEOUT?']
    """
    lines = []
    for name in sorted(name for name in environment if name.startswith(_PREFIX) and name[len(_PREFIX):] not in NAMES):
        from .suggest import near

        meant = "".join(f"; did you mean {_PREFIX}{one}?" for one in near(name[len(_PREFIX):], sorted(NAMES), most=1))
        lines.append(f"{name} is no variable of Trireme, and changes nothing{meant}")
    return lines


def warn(environment: Mapping[str, str]) -> None:
    """Say on standard error what ``unknown`` finds. Of a job's processes one says it: the launcher, or rank 0 where there is none."""
    if "TRIREME_JOB" in environment or environment.get("PMIX_RANK", environment.get("OMPI_COMM_WORLD_RANK", "0")) != "0":
        return
    for line in unknown(environment):
        print(f"trireme warning: {line}", file=sys.stderr)
