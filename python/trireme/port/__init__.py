"""``trireme port SCRIPT.py``: what of a script of Fluid 1.x is there, what differs and what is missing, line by line.

The script is read, not run. The tables are those of docs/fluid.md; what is there is asked of the package itself.
"""

from __future__ import annotations

import re
import tokenize
from collections import Counter
from collections.abc import Iterable

from ..native.errors import FileError, FormatError
from ..native.files import open_regular

_MOST_BYTES = 16 << 20


def read_text(path: str) -> str:
    """Return the text of a script, in the encoding that it declares, or UTF-8."""
    with open_regular(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise FileError(f"{path}: it has more than {_MOST_BYTES >> 20} MiB: no script")
    try:
        lines = iter(data.splitlines(True))
        encoding, _ = tokenize.detect_encoding(lambda: next(lines, b""))
        return data.decode(encoding, "replace")
    except (SyntaxError, LookupError) as error:
        raise FormatError(f"{path}: it is no text of Python: {error}") from None


def _plain(text: str) -> str:
    """Return a text of the tables without marks: `[threads.md](threads.md)` becomes `docs/threads.md`."""
    return re.sub(r"\[[^\]]*\]\(([^)]*)\)", r"docs/\1", text).replace("`", "")


def report(path: str, text: str, shows_all: bool = True) -> tuple[list[str], Counter[str]]:
    """Return the lines that are said of a script, and how many names are there, differ and are missing.

    ``path`` stands in the lines, ``text`` is the script. ``shows_all`` has lines for names that are there as they are, too.

    >>> text = "import paddle.fluid as fluid\\nx = fluid.layers.prior_box(fluid.layers.data('x', [3]))\\n"
    >>> lines, counts = fluid.port.report("net.py", text)
    >>> print("\\n".join(lines))
    net.py:1: differs  import paddle.fluid as fluid: write import trireme as fluid
    net.py:2: missing  fluid.layers.prior_box: Trireme does not have it
    net.py:2: differs  fluid.layers.data: an unknown dimension is None in Variable.shape; -1, and any other negative number, is understood. A feed must have as many dimensions as were declared
    >>> counts["missing"]
    1
    """
    from .names import THERE, findings
    from .source import read_source

    found = findings(read_source(path, text))
    lines = [f"{path}:{one.line}: {one.status:<8} {one.name}" + (f": {_plain(one.text)}" if one.text else "")
             for one in found if shows_all or one.status != THERE]
    return lines, Counter(one.status for one in found)


def command(paths: Iterable[str], shows_all: bool) -> int:
    """Print the reports of scripts; return 1 where something is missing, else 0.

    ``paths`` are those of the scripts, ``shows_all`` is that of ``report``.

    >>> with open("net.py", "w") as file:
    ...     _ = file.write("import paddle.fluid as fluid\\nx = fluid.layers.data('x', [3])\\n")
    >>> fluid.port.command(["net.py"], shows_all=False)
    net.py:1: differs  import paddle.fluid as fluid: write import trireme as fluid
    net.py:2: differs  fluid.layers.data: an unknown dimension is None in Variable.shape; -1, and any other negative number, is understood. A feed must have as many dimensions as were declared
    0 there, 2 differ, 0 missing
    0
    """
    total: Counter[str] = Counter()
    for path in paths:
        lines, counts = report(path, read_text(path), shows_all)
        for line in lines:
            print(line)
        total += counts
        if not counts:
            print(f"{path}: it uses nothing of paddle")
    print(f"{total['there']} there, {total['differs']} differ, {total['missing']} missing")
    return 1 if total["missing"] else 0


__all__ = ["report", "command"]
