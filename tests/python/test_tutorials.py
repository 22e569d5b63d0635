"""What tutorials and guides tell their readers to type works, and prints what they show. Notebooks run."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_support import needs_mpi
from page_support import Command, missing, play, steps

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [page for folder in ("tutorials", "how-to") for page in sorted((DOCS / folder).glob("*.md")) if any(steps(page))]
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page, tmp_path):
    assert play(page, tmp_path)


def test_each_tutorial_has_commands():
    assert [page.name for page in (DOCS / "tutorials").glob("*.md") if page not in PAGES] == []


def test_shown_lines_are_compared_without_their_numbers():
    shown = Command("x", ["epoch 1: loss 0.187", "trireme launch: 2 servers (...)", "..."])
    assert missing(shown, "epoch 3:  loss 1e-05\ntrireme launch: 1 servers (Open MPI 5.0.11)\n") == []
    assert missing(shown, "epoch 3: cost 0.2\ntrireme launch: 1 servers (Open MPI 5.0.11)\n") == ["epoch 1: loss 0.187"]


@needs_mpi
@pytest.mark.mpi
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    book = nbformat.read(notebook, as_version=4)
    nbformat.validate(book)
    assert [cell.outputs for cell in book.cells if cell.cell_type == "code" and cell.outputs] != []      # readers see what it prints
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
