"""Record files: names of ``trireme.feeding.recordio_writer``."""

from .feeding.recordio_writer import *  # noqa: F403
from .feeding.recordio_writer import __all__ as __all__
