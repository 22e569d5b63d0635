"""Data for jobs/click.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from job_support import SCRIPT

CLICK = SCRIPT.with_name("click.py")


def click_files(folder: Path) -> tuple[Path, Path]:
    """Write lines whose clicks follow from hidden weights of users, ads and sites."""
    random, paths = np.random.RandomState(1), (folder / "train.tsv", folder / "held-out.tsv")
    weights = random.randn(3, 30)
    for path, count in zip(paths, (1280, 400)):
        chosen, price = random.randint(0, 30, (count, 3)), random.rand(count)
        score = 2 * (weights[np.arange(3), chosen].sum(axis=1) - price)
        clicks = random.rand(count) < 1 / (1 + np.exp(-score))
        lines = [f"u{u}\ta{a}\ts{s}\t{p:.3f}\t{int(c)}\n" for (u, a, s), p, c in zip(chosen, price, clicks)]
        path.write_text("user\tad\tsite\tprice\tclick\n" + "".join(lines))
    return paths
