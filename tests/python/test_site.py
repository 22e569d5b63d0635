"""The site of the documentation: every page is on it once, and it builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import links  # noqa: E402
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


# -- the site as it is built ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site, without the pages of source text; a warning while it is built is an error."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-c", DOCS, "-t",
                           "without_search", "-D", "extensions=myst_nb,sphinx.ext.autodoc,draw",
                           "-d", folder / "pages", ROOT, folder / "html"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site):
    return links.pages(site)


def test_the_site_has_every_page(site, pages):
    built = {path.relative_to(site).with_suffix("") for path in pages}
    assert {path.relative_to(ROOT).with_suffix("") for path in PAGES} <= built
    page = (site / "docs" / "reference" / "layers-networks.html").read_text()
    assert "trireme.layers.fc" in page and "param_attr" in page
    assert "trireme launch" in (site / "docs" / "reference" / "commands.html").read_text()


def test_the_first_page_says_what_the_readme_says_and_leads_to_all_pages(site):
    target = re.search(r"url=([^\"]*)", (site / "index.html").read_text())[1]
    first = (site / target).read_text()
    for head in re.findall(r"^## (.*)$", (ROOT / "README.md").read_text(), re.M):
        assert f"<h2>{head}<" in first
    links_of = {(site / target).parent.joinpath(link).resolve() for link in re.findall(r'href="([^"#:]+\.html)', first)}
    lost = [page for page in entries(CONTENTS[0]) if page != ROOT / "README.md"
            and site / page.relative_to(ROOT).with_suffix(".html") not in links_of]
    assert lost == []


def test_code_is_shown_whole(site, pages):
    """Long lines of code go on in the next line: nothing is cut at the right edge."""
    styles = re.sub(r"\s+", " ", (site / "_static" / "site.css").read_text())
    assert re.search(r"\.highlight pre[^{]*\{[^}]*white-space: pre-wrap", styles)
    assert [str(path) for path in pages if "_static/site.css" not in path.read_text() and "http-equiv" not in path.read_text()] == []


def test_the_site_has_no_dead_link(pages):
    assert links.dead(pages) == []


def test_pages_load_nothing_from_another_host(site, pages):
    assert links.loaded_from_elsewhere(pages) == []
    assert [path for kind in ("*.css", "*.js") for path in (site / "_static").rglob(kind)
            if re.search(r"(?:url\(|import |from )[\s\"'(]*https?://", path.read_text())] == []


def test_formulas_and_diagrams_are_drawn(site):
    assert "<msqrt>" in (site / "docs" / "tutorials" / "failures.html").read_text()
    protocol = (site / "docs" / "protocol.html").read_text()
    assert protocol.count("data:image/svg+xml") == (DOCS / "protocol.md").read_text().count("```mermaid") > 3


@pytest.mark.parametrize("text, said", [("```mermaid\nsequenceDiagram\n  a -->\n```", "Mermaid cannot draw this diagram"),
                                        ("$\\frac$", "the formula '\\\\frac' cannot be drawn")])
def test_a_formula_or_diagram_that_cannot_be_drawn_is_named(text, said, tmp_path):
    pytest.importorskip("sphinx")
    (tmp_path / "conf.py").write_text(f"import sys\nsys.path.insert(0, {str(DOCS)!r})\nextensions = ['myst_parser', "
                                      "'draw']\nhtml_math_renderer = 'mathml'\nmyst_enable_extensions = "
                                      "['dollarmath']\nmyst_fence_as_directive = ['mermaid']\n")
    (tmp_path / "index.md").write_text(f"# A page\n\n{text}\n")
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", tmp_path, tmp_path / "out"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode != 0 and said in done.stderr, done.stderr


# -- the check of links ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#here">b</a> <a href="#top">up</a> <a href="mailto:x@y">x</a> <a '
                                     'href="https://one.example/x#y">1</a>')
    (tmp_path / "b.html").write_text('<p id="here"></p><img src="a.svg"><a href="https://two.example/">2</a>')
    (tmp_path / "a.svg").write_text("<svg/>")
    return tmp_path


def test_a_good_site_has_no_remark(small):
    assert links.report(small, lambda link: "") == (0, ["2 pages, 3 links inside the site checked", "2 links to other sites looked up"])


@pytest.mark.parametrize("text, said", [
    ('<a href="c.html">', "dead link in c.html: c.html"), ('<a href="b.html#there">', "dead link in c.html: b.html#there"),
    ('<img src="b.svg">', "dead link in c.html: b.svg"),
    ('<script src="https://cdn.example/a.js"></script>', "loaded from another host in c.html: https://cdn.example/a.js"),
    ('<script>import a from "https://cdn.example/b.mjs"</script>', "loaded from another host in c.html: https://cdn.example/b.mjs"),
    ('<link rel="stylesheet" href="//cdn.example/a.css">', "loaded from another host in c.html: //cdn.example/a.css"),
    ("<style>p { background: url(https://cdn.example/a.png) }</style>", "loaded from another host in c.html: https://cdn.example/a.png)"),
])
def test_a_bad_page_is_named(small, text, said):
    (small / "c.html").write_text(text.replace("c.html", "d.html"))
    code, lines = links.report(small, lambda link: "")
    assert code == 1 and said.replace(": c.html", ": d.html") in lines, lines


def test_without_a_network_links_to_other_sites_are_left_out(small):
    code, lines = links.report(small, lambda link: "unreachable")
    assert code == 0 and lines[-1] == "no network: 2 links to other sites were not looked up"


def test_with_a_network_a_dead_link_to_another_site_is_named(small):
    code, lines = links.report(small, lambda link: "answers 404" if "two" in link else "")
    assert code == 1 and "link to another site, https://two.example/: answers 404" in lines


def test_a_site_that_was_not_built(tmp_path):
    assert links.report(tmp_path) == (1, [f"{tmp_path} has no page: `make docs` builds the site"])


def test_links_are_looked_up(tmp_path):
    """By a server of this process, which knows one page."""
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/here" else 404)
            self.end_headers()

        def log_message(self, *text):
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_port}"
        assert (links.look_up(f"{at}/here"), links.look_up(f"{at}/gone")) == ("", "answers 404")
        server.shutdown()
    assert links.look_up(at) == "unreachable"
