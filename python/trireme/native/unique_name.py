"""Names that no other variable of the program has: ``fc_0``, ``fc_1``, ``fc_0.w_0``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class UniqueNameGenerator:
    """Counts how often each key was asked for; ``prefix`` is put before every name.

    >>> names = fluid.unique_name.UniqueNameGenerator("tower_")
    >>> names("fc"), names("fc"), names("mean")
    ('tower_fc_0', 'tower_fc_1', 'tower_mean_0')
    """

    def __init__(self, prefix: str = "") -> None:
        self._next: dict[str, int] = {}
        self.prefix = prefix

    def __call__(self, key: str) -> str:
        number = self._next.get(key, 0)
        self._next[key] = number + 1
        return f"{self.prefix}{key}_{number}"


_generator = UniqueNameGenerator()


def generate(key: str) -> str:
    """Return ``key`` with a number that makes it new.

    >>> with fluid.unique_name.guard():
    ...     [fluid.unique_name.generate("fc") for _ in range(2)]
    ['fc_0', 'fc_1']
    """
    return _generator(key)


def switch(new_generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Use another generator (a new one by default) from now on; return the one before.

    ``new_generator`` is a UniqueNameGenerator or None.

    >>> old = fluid.unique_name.switch()
    >>> fluid.unique_name.generate("fc")
    'fc_0'
    >>> _ = fluid.unique_name.switch(old)
    """
    global _generator
    old, _generator = _generator, new_generator if new_generator is not None else UniqueNameGenerator()
    return old


@contextlib.contextmanager
def guard(new_generator: UniqueNameGenerator | str | None = None) -> Iterator[None]:
    """Use another generator, or one that begins every name with the given text, inside the block.

    ``new_generator`` is the generator, the text, or None for a new one.

    Two programs whose parameters are to have the same names are built in such blocks:

    >>> for _ in range(2):
    ...     with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
    ...         print(fluid.layers.fc(fluid.layers.data("x", [2]), 1).name)
    fc_0.tmp_1
    fc_0.tmp_1
    >>> with fluid.unique_name.guard("left_"):
    ...     fluid.unique_name.generate("fc")
    'left_fc_0'
    """
    if isinstance(new_generator, (str, bytes)):
        text = new_generator.decode() if isinstance(new_generator, bytes) else new_generator
        new_generator = UniqueNameGenerator(text)
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(old)


__all__ = ["UniqueNameGenerator", "generate", "guard", "switch"]
