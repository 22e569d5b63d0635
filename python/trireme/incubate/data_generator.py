"""Commands that turn each line of a file into a line in the format ``multislot`` (docs/data.md).

A script of its own has a subclass and calls ``run_from_stdin``. ``Dataset.set_pipe_command("python that_script.py")`` sends each file
through it. The module loads neither NumPy nor the core, because such a command starts once a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any, TextIO

Sample = Sequence[tuple[str, Sequence[Any]]]           # the slots of a line: pairs of a name and its values


class DataGenerator:
    """Base of generators: ``generate_sample`` makes samples of a line, ``generate_batch`` may change some at a time.

    A generator with a format of its own overrides ``_gen_str``, which returns the text of a sample.

    >>> class Doubled(fluid.incubate.data_generator.DataGenerator):
    ...     def generate_sample(self, line):
    ...         return lambda: iter([[("x", [2, 4])]])
    ...     def _gen_str(self, line):
    ...         return ",".join(map(str, line[0][1])) + "\\n"
    >>> Doubled().run_from_memory()
    2,4
    """

    def __init__(self) -> None:
        self.batch_size_ = 32

    def set_batch(self, batch_size: int) -> None:
        """Let ``generate_batch`` get ``batch_size`` samples at a time: 32 at first."""
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"set_batch: batch_size={batch_size!r}; a whole number from 1 on is possible")
        self.batch_size_ = batch_size

    def generate_sample(self, line: str | None) -> Callable[[], Iterable[Sample | None]]:
        """Return a function that yields the samples of a ``line``: a list of pairs, such as ``[("words", [3, 7]), ("label", [1])]``.
        None is no sample. A subclass must override this."""
        raise NotImplementedError(f"{type(self).__name__} must have generate_sample(self, line): it returns a function that yields lists "
                                  "of pairs such as [('words', [3, 7]), ('label', [1])]")

    def generate_batch(self, samples: list[Sample]) -> Callable[[], Iterable[Sample]]:
        """Return a function that yields what becomes of these ``samples``. Unless a subclass overrides it they stay as they are."""
        return lambda: iter(samples)

    def run_from_stdin(self) -> None:
        """Write the samples of each line of standard input to standard output."""
        self._write((sample for line in sys.stdin for sample in self.generate_sample(line)()), sys.stdout)

    def run_from_memory(self) -> None:
        """Write the samples of ``generate_sample(None)`` to standard output: for a look, and to measure."""
        self._write(self.generate_sample(None)(), sys.stdout)

    def _write(self, samples: Iterable[Sample | None], out: TextIO) -> None:
        for batch in self._batches(samples):
            for sample in self.generate_batch(batch)():
                out.write(self._gen_str(sample))

    def _batches(self, samples: Iterable[Sample | None]) -> Iterator[list[Sample]]:
        batch: list[Sample] = []
        for sample in samples:
            if sample is not None:
                batch.append(sample)
            if len(batch) == self.batch_size_:
                yield batch
                batch = []
        if batch:
            yield batch

    def _gen_str(self, line: Sample) -> str:
        """Return the text of a sample."""
        raise NotImplementedError(f"{type(self).__name__} is no MultiSlotDataGenerator: it must have _gen_str(self, line)")


def _slots_of(sample: Any) -> list[tuple[str, list[Any]]]:
    """Return the slots of a sample, checked."""
    if not isinstance(sample, (list, tuple)):
        raise ValueError(f"a sample must be a list of pairs such as ('words', [3, 7]), got {sample!r}")
    slots = []
    for pair in sample:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"a slot must be a pair of a name and a list of values, got {pair!r}")
        name, values = pair
        if not isinstance(values, (list, tuple)):
            raise ValueError(f"slot {name!r}: its values must be a list, got {values!r}")
        slots.append((name, list(values)))
    return slots


class MultiSlotStringDataGenerator(DataGenerator):
    """Writes values that are texts already, without a look at them: faster than ``MultiSlotDataGenerator``.

    >>> class Words(fluid.incubate.data_generator.MultiSlotStringDataGenerator):
    ...     def generate_sample(self, line):
    ...         return lambda: iter([[("words", ["3", "7"]), ("label", ["1"])]])
    >>> Words().run_from_memory()
    2 3 7 1 1
    """

    def _gen_str(self, line: Sample) -> str:
        return " ".join(" ".join([str(len(values)), *values]) for _, values in _slots_of(line)) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """Writes lines in the format ``multislot``: for each slot, in order, how many values it has, and these numbers.

    All samples must have the same slots in the same order. Each slot must have a value: give one of padding where there is none.

    >>> class Words(fluid.incubate.data_generator.MultiSlotDataGenerator):
    ...     def generate_sample(self, line):
    ...         return lambda: iter([[("words", [3, 7]), ("weight", [0.5])]])
    >>> Words().run_from_memory()
    2 3 7 1 0.5
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] | None = None           # of the first sample's slots

    def _gen_str(self, line: Sample) -> str:
        slots = _slots_of(line)
        names = [name for name, _ in slots]
        if self._names is None:
            self._names = names
        if names != self._names:
            raise ValueError(f"the first sample has the slots {', '.join(self._names)}; this one has {', '.join(names)}")
        return " ".join(self._text_of(name, values) for name, values in slots) + "\n"

    @staticmethod
    def _text_of(name: str, values: list[Any]) -> str:
        if not values:
            raise ValueError(f"slot {name!r} has no value: give one of padding, such as 0")
        for value in values:
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ValueError(f"slot {name!r}: values must be whole numbers or floats, got {value!r}")
        return " ".join([str(len(values)), *(str(int(value)) if isinstance(value, Integral) else repr(float(value)) for value in values)])


__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
