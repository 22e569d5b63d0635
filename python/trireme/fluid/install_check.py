"""Does it work here?"""

from __future__ import annotations

import numpy as np

from .. import layers
from ..native import unique_name
from ..native.tensor import CPUPlace
from ..native.scope import Scope
from ..optimize import optimizer
from ..program import Program, program_guard
from ..run.scopes import scope_guard
from ..train.executor import Executor


def run_check() -> None:
    """Train a small network for some steps and print that it has learnt; raise what keeps it from that.

    >>> fluid.install_check.run_check()
    Trireme ... works: a layer learnt a plane in 50 steps on ...
    """
    from ..native.threads import __version__, num_threads

    main, startup = Program(), Program()
    with program_guard(main, startup), unique_name.guard(), scope_guard(Scope()):
        x, y = layers.data("x", [2]), layers.data("y", [1])
        loss = layers.mean(layers.square_error_cost(layers.fc(x, 1), y))
        optimizer.SGD(0.5).minimize(loss)
        exe = Executor(CPUPlace())
        exe.run(startup)
        a = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32")
        costs = [exe.run(main, feed={"x": a, "y": a[:, :1] - 2 * a[:, 1:]}, fetch_list=[loss])[0].item() for _ in range(50)]
    if not costs[-1] < 0.1 * costs[0]:
        raise RuntimeError(f"run_check: the loss should fall in 50 steps, but went from {costs[0]} to {costs[-1]}")
    print(f"Trireme {__version__} works: a layer learnt a plane in 50 steps on {num_threads()} threads")


__all__ = ["run_check"]
