"""Fluid's executor that trains over text files."""

from __future__ import annotations

from collections.abc import Sequence

from ..feeding.data_feed_desc import DataFeedDesc
from ..feeding.feeds import QueueDataset
from ..native.errors import InvalidArgumentError, check_whole
from ..native.tensor import CPUPlace
from ..native.scope import Scope
from ..program import Program, Variable, default_main_program
from ..run.scopes import global_scope
from ..train.executor import Executor


class AsyncExecutor:
    """Fluid's executor over text files: threads take batches and update the same parameters without waiting for each other (Hogwild).

    ``Executor.train_from_dataset`` does the same. In a job each trainer is given files of its own, and one thread runs.

    ``run_mode`` must be empty.

    >>> with open("feed.desc", "w") as file:
    ...     _ = file.write('name: "MultiSlotDataFeed" batch_size: 2 multi_slot_desc { '
    ...                    'slots { name: "x" type: "float" is_dense: true is_used: true dim: 1 } }')
    >>> with open("part-0", "w") as file:
    ...     _ = file.write("1 0.5\\n1 1.5\\n")
    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.data("x", [1]), 1))
    >>> _ = fluid.optimizer.SGD(0.1).minimize(loss)
    >>> exe = fluid.AsyncExecutor(fluid.CPUPlace())
    >>> _ = fluid.Executor().run(fluid.default_startup_program())
    >>> exe.run(fluid.default_main_program(), fluid.DataFeedDesc("feed.desc"), ["part-0"], thread_num=1, fetch=[loss])
    """

    def __init__(self, place: CPUPlace | None = None, run_mode: str = "") -> None:
        if run_mode:
            raise InvalidArgumentError(f"AsyncExecutor: run_mode={run_mode!r}; '' is possible: jobs are started by 'trireme launch'")
        self.executor = Executor(place)

    def run(self, program: Program | None, data_feed: DataFeedDesc, filelist: Sequence[str] | str, thread_num: int,
            fetch: Sequence[Variable | str], mode: str = "", debug: bool = False, *, scope: Scope | None = None) -> None:
        """Train over the files once. With ``debug`` the values of ``fetch`` are printed every 100 steps, and where the time went.
        ``data_feed`` describes the lines, ``filelist`` is a path or a list of paths. ``mode`` must be "".
        """
        if not isinstance(data_feed, DataFeedDesc):
            raise TypeError(f"AsyncExecutor.run: data_feed must be a DataFeedDesc, got {data_feed!r}")
        if mode:
            raise InvalidArgumentError(f"AsyncExecutor.run: mode={mode!r}; '' is possible")
        thread_num = check_whole("AsyncExecutor.run: thread_num", thread_num, 1, 256)
        program = program or default_main_program()
        files = [filelist] if isinstance(filelist, str) else list(filelist)
        dataset = QueueDataset()
        dataset.set_filelist(files)
        dataset.set_batch_size(data_feed.batch_size)
        dataset.set_pipe_command(data_feed.pipe_command)
        dataset.set_use_var(data_feed.slots_for(program))
        self.executor.train_from_dataset(program, dataset, scope or global_scope(), thread=thread_num, debug=debug,
                                         fetch_list=list(fetch) if debug else [])


__all__ = ["AsyncExecutor"]
