"""Every operator as a function: ``trireme.operator.<name>(X=x, Y=y, attribute=value)``: names of ``trireme.program.operator``."""

from typing import TYPE_CHECKING

from .program.operator import create_operator as create_operator
from .program.operator import doc_of as doc_of

if TYPE_CHECKING:
    from .program.operator import *  # noqa: F403
else:
    from .program.operator import __dir__, __getattr__  # noqa: F401
