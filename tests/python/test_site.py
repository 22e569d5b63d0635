"""The site of the documentation: every page is on it once, and it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import make_reference  # noqa: E402

CONTENTS = [DOCS / "index.md", DOCS / "adr" / "index.md"]
PAGES = [path for kind in ("*.md", "*.ipynb") for path in DOCS.rglob(kind) if ".ipynb_checkpoints" not in path.parts]


def entries(page):
    """The pages in the tables of contents of a page."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", make_reference.with_toctrees(page.read_text()), re.M | re.S)
    return [(page.parent / line).resolve() for block in blocks for line in block.splitlines() if line and not line.startswith(":")]


def test_every_page_is_in_the_contents_once():
    listed = [one for page in CONTENTS for one in entries(page)]
    assert len(listed) == len(set(listed))
    assert [str(page) for page in listed if not page.is_file()] == []
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in listed and page != CONTENTS[0]] == []


def test_the_contents_have_the_four_kinds():
    heads = re.findall(r"^## (.*)$", CONTENTS[0].read_text(), re.M)
    assert heads[:4] == ["Tutorials", "How-to guides", "Reference", "Explanation"]


def test_links_to_folders_become_plain():
    text = "see [adr/](adr/), [one](adr/0001-plans.md), [`docs/`](.) and ![](images/architecture.svg)"
    assert make_reference.without_folders(text, DOCS) == (
        "see `adr/`, [one](adr/0001-plans.md), `docs/` and ![](images/architecture.svg)")


@pytest.mark.soak
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-c", DOCS, "-d", tmp_path / "pages", ROOT, tmp_path / "html"],
                          capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "docs" / "reference" / "layers-networks.html").read_text()
    assert "trireme.layers.fc" in page and "param_attr" in page
    assert "trireme launch" in (tmp_path / "html" / "docs" / "reference" / "commands.html").read_text()
