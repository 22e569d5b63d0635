"""A job's work as the core takes it (trainer/job/partition.h): of a script's training, and of a saved job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._core import ffi
from ..checkpoint.kinds import SCHEDULE
from ..job import compression, on_nan
from ..job.session import session
from ..native.names import path_chars
from ..program import Program
from .transpiled import Transpiled, Value


class Keep:
    """Makes C values of Python's, and keeps them alive."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._texts: dict[str, Any] = {}               # a job names its parameters many times

    def chars(self, text: str | None) -> Any:
        if text is None:
            return ffi.NULL
        if text not in self._texts:
            self._texts[text] = ffi.new("char[]", path_chars(text))
        return self._texts[text]

    def texts(self, items: Sequence[str]) -> Any:
        return self.array("char *[]", [self.chars(item) for item in items])

    def array(self, kind: str, items: Any) -> Any:
        self.items.append(ffi.new(kind, items))
        return self.items[-1]

    def program(self, program: Program | None) -> Any:
        """A tr_job_program."""
        if program is None:
            return [ffi.NULL, 0]
        data = ffi.from_buffer(program.serialize_to_string())
        self.items.append(data)
        return [data, len(data)]


def fill_partition(partition: Any, keep: Keep, result: Transpiled, facts: Iterable[tuple[str, str]], own: Sequence[Value] = ()) -> None:
    """Fill in a ``tr_partition``. ``own``: values that trainers alone have, and pull from the servers at their start."""
    spec = partition.spec
    spec.mode, spec.compress = keep.chars(result.mode.text), keep.chars(compression.chosen_for(result.original, result.mode))
    spec.compress_parameters, spec.on_nan = keep.chars(compression.parameters()), keep.chars(on_nan.current())
    spec.cache_rows, spec.cache_staleness = session.row_cache
    spec.programs = keep.array("tr_job_program[]", [keep.program(one) for one in result.servers])
    spec.program_count = len(result.servers)
    spec.blocks = keep.array("tr_job_block[]", [[keep.chars(one.param), keep.chars(one.grad), one.server, int(one.dtype), one.bytes,
                                                 one.source in result.means, one.source in result.read_alone] for one in result.blocks])
    spec.block_count = len(result.blocks)
    partition.block_rows = keep.array("tr_partition_rows[]", [[keep.chars(result.means.get(one.source, one.source)), one.begin, one.end]
                                                              for one in result.blocks])
    values = [*result.values, *own]
    spec.values = keep.array("tr_job_value[]", len(values))
    spec.value_count = len(values)
    for i, value in enumerate(values):
        native = spec.values[i]
        native.server, native.name, native.for_trainers = value.server, keep.chars(value.name), i >= len(result.values)
        if value.source in result.fed:                 # checkpoints have it, unless the program keeps it as something else
            native.source, native.state = keep.chars(value.source), SCHEDULE
    partition.value_rows = keep.array("tr_partition_rows[]", [[keep.chars(one.source), one.begin, one.end] for one in values])
    told = [(keep.chars(key), keep.chars(text)) for key, text in facts]
    spec.facts, spec.fact_count = keep.array("tr_job_fact[]", told), len(told)
    remote = sorted(result.remote)
    partition.remote, partition.remote_count = keep.texts(remote), len(remote)
    partition.tables, partition.table_count = keep.texts(result.tables), len(result.tables)
