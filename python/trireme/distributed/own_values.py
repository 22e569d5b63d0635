"""First values of variables that trainers alone have: frozen parameters, moving averages, constants, counters.

A job trains with the contents of trainer 0's scope. Parameters come from the servers, which had them from trainer 0. The values here take
the same way: the servers keep trainer 0's first values, use them for nothing, and each trainer pulls them at its start. So a trainer that
comes later, such as a standby in a dead trainer's place, gets them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from .._core import ffi, lib
from ..job.compression import accumulators
from ..job.job import Job
from ..native.dtypes import VarType
from ..native.errors import check
from ..native.tensor import LoDTensor
from ..native.scope import Scope
from .transpiled import Transpiled, Value

_SUFFIX = "@OWN"
_CUT_BYTES = 1 << 20                                   # a larger value is spread over all servers


def _tensor(scope: Scope, name: str) -> LoDTensor | None:
    """Return the dense tensor of a variable that has a value."""
    var = scope.find_var(name)
    if var is None or var.kind() != VarType.LOD_TENSOR:
        return None
    tensor = var.get_tensor()
    is_plain = tensor._is_initialized() and not lib.tr_tensor_lod_levels(tensor._ptr) and lib.tr_tensor_bytes(tensor._ptr)
    return tensor if is_plain else None


class OwnValues:
    """``names`` are the variables that the program keeps."""

    def __init__(self, result: Transpiled, scope: Scope, names: Collection[str], servers: int) -> None:
        params = {block.source for block in result.blocks}
        used, on_servers = result.trainer._used_names(), {value.source for value in result.values}
        left_out = params.union(accumulators(result.original))
        wanted = [name for name in sorted(names) if name not in left_out and (name in used or name not in on_servers)]
        self._tensors = {name: tensor for name in wanted if (tensor := _tensor(scope, name)) is not None}
        self.values = [part for i, name in enumerate(self._tensors) for part in self._parts(name, i, servers)]

    def _parts(self, name: str, number: int, servers: int) -> Iterator[Value]:
        tensor = self._tensors[name]
        rows = (tensor.shape() or [1])[0]
        count = min(servers, rows) if lib.tr_tensor_bytes(tensor._ptr) > _CUT_BYTES else 1
        for i in range(count):
            begin, end = (rows * i // count, rows * (i + 1) // count) if tensor.shape() else (-1, -1)
            yield Value((number + i) % servers, f"{name}{_SUFFIX}.{i}", name, begin, end)

    def names(self) -> list[str]:
        return list(self._tensors)

    def facts(self) -> list[tuple[str, str]]:
        """Return what trainers must agree on: the variables that have values."""
        return [(f"value of {name}", f"{tensor._dtype()}{tensor.shape()}") for name, tensor in self._tensors.items()]

    def _memory(self, value: Value) -> Any:
        """Return the address of a part."""
        tensor = self._tensors[value.source]
        row = lib.tr_tensor_bytes(tensor._ptr) // (tensor.shape() or [1])[0]
        return ffi.cast("char *", lib.tr_tensor_data(tensor._ptr)) + max(value.begin, 0) * row

    def pull(self, job: Job, is_left_out: Callable[[str], bool]) -> None:
        """Get trainer 0's values, but not those of some variables."""
        places = ffi.new("void *[]", [ffi.NULL if is_left_out(value.source) else self._memory(value) for value in self.values])
        ticket = ffi.new("tr_ticket *")
        check(lib.tr_job_pull_first(job.ptr, len(self.values), places, ticket))
        check(lib.tr_job_wait(job.ptr, ticket[0]))
