"""Programs that run as replicas: names of ``trireme.run``."""

from .run.compiler import CompiledProgram as CompiledProgram
from .run.strategies import BuildStrategy as BuildStrategy
from .run.strategies import ExecutionStrategy as ExecutionStrategy

__all__ = ["CompiledProgram", "ExecutionStrategy", "BuildStrategy"]
