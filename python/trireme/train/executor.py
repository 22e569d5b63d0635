"""The executor: it runs programs, and trains over data sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..native.scope import Scope
from ..program import Program, default_main_program
from ..run.runner import Runner


class Executor(Runner):
    """Runs programs.

    >>> x = fluid.layers.data("x", [2])
    >>> y = fluid.layers.scale(x, scale=3.0)
    >>> exe = fluid.Executor(fluid.CPUPlace())
    >>> exe.run(fluid.default_main_program(), feed={"x": np.ones((1, 2), "float32")}, fetch_list=[y])
    [array([[3., 3.]], dtype=float32)]

    ``check_nan`` lets every run look at what each operator writes, and fail with ``NotFiniteError`` at the first value that is NaN or
    infinite, by the operator's name and the line that made it; ``train_from_dataset`` and ``Trainer`` do so, too. It costs a pass over all
    values. None, the default, takes what ``TRIREME_CHECK_NAN`` says (``1``: yes), else False; ``trireme launch --check-nan`` sets that.

    ``matmul_precision`` is ``"float32"`` or ``"bfloat16"``: how matrix products of float32 tensors are computed. None, the default, takes
    what ``fluid.set_matmul_precision`` says at the time of each run. ``train_from_dataset`` and ``Trainer`` have it, too.
    """

    def train_from_dataset(self, program: Program | None = None, dataset: Any = None, scope: Scope | None = None,
                           thread: int = 0, debug: bool = False, fetch_list: Sequence[Any] | None = None,
                           fetch_info: Sequence[str] | None = None, print_period: int = 100, *, epochs: int = 1,
                           steps: int = 0, callbacks: Sequence[Any] | None = None, validation: Any = None) -> Any:
        """Run ``program`` for each batch of ``dataset``, in the core: without any Python per batch.

        Every ``print_period`` steps a line shows the values of ``fetch_list``, called as ``fetch_info`` says, the rate, and the time that
        is left where that is known. One process of a job prints, for all. ``epochs`` are passes over the data, ``steps`` ends them after so
        many. ``callbacks`` is a list of ``fluid.callbacks``; ``validation`` a Dataset, which is gone over at the end of each epoch
        (docs/callbacks.md). With either the history is returned; its numbers are those of the whole job, and steps that are printed are the
        batches that callbacks hear of. With ``thread`` above 1 so many threads take batches
        and update the same parameters without waiting for each other (Hogwild): faster for small steps, and no longer
        repeatable; in a job there is one. ``debug`` prints where the time went. Threads of the script that share the scope, the
        program or the executor take turns, as in ``run``: theirs comes when the loop is over.

        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.csv")
        >>> _ = open(path, "w").write("x,y\\n1,2\\n2,4\\n3,6\\n")
        >>> x, y = fluid.layers.data("x", [1]), fluid.layers.data("y", [1])
        >>> loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
        >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
        >>> exe = fluid.Executor(fluid.CPUPlace())
        >>> _ = exe.run(fluid.default_startup_program())
        >>> data = fluid.Dataset(path, "csv", batch_size=3, header=True, slots=[x, y])
        >>> exe.train_from_dataset(dataset=data, epochs=300, fetch_list=[loss], fetch_info=["loss"], print_period=300)
        step 300: loss=...
        """
        from .loop import ask, run_loop  # loaded where it is used: most scripts make their steps by `run`

        asked, epochs, steps = ask("train_from_dataset", self, program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period,
                                   epochs, steps)
        if callbacks is not None or validation is not None:
            from .dataset_session import run_session

            return run_session(asked, dataset, epochs, steps, callbacks, validation)
        run_loop(asked, dataset, epochs, steps)
        return None

    def infer_from_dataset(self, program: Program | None = None, dataset: Any = None, scope: Scope | None = None,
                           thread: int = 0, debug: bool = False, fetch_list: Sequence[Any] | None = None,
                           fetch_info: Sequence[str] | None = None, print_period: int = 100) -> None:
        """As ``train_from_dataset``, once over the data and without the operators that only training needs.
        ``dataset``, ``thread``, ``debug``, ``fetch_list``, ``fetch_info`` and ``print_period`` are those of ``train_from_dataset``.
        """
        from .loop import ask, run_loop

        program = (program or default_main_program()).clone(for_test=True)
        asked, epochs, steps = ask("infer_from_dataset", self, program, dataset, scope, thread, debug, fetch_list, fetch_info, print_period,
                                   trains=False)
        run_loop(asked, dataset, epochs, steps)


__all__ = ["Executor"]
