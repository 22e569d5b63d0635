"""The version, under the names of Fluid's ``paddle.version``.

>>> fluid.version.full_version == fluid.__version__
True
"""

from __future__ import annotations

from ..native.threads import __version__ as full_version

major, minor, patch = full_version.split(".")[:3]
rc = "0"
istaged = False
with_mkl = "OFF"


def mkl() -> str:
    """Return "OFF": matrix products are OpenBLAS's and Trireme's own.

    >>> fluid.version.mkl()
    'OFF'
    """
    return with_mkl


def show() -> None:
    """Print the version.

    >>> fluid.version.show()
    full_version: ...
    """
    print(f"full_version: {full_version}\nmajor: {major}\nminor: {minor}\npatch: {patch}")


__all__ = ["full_version", "major", "minor", "patch", "rc", "istaged", "with_mkl", "mkl", "show"]
