"""The settings of the site that `make docs` builds, and the three things that it does to a page's text as it is read.

The folder of sources is the whole tree, since pages link to the README and to files of the code. A page's text stays Markdown that can be
read on its own: what Sphinx needs beyond it is made here (docs/make_reference.py explains the comments that stand for generated text).
"""

from __future__ import annotations

import gc
import re
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import make_reference  # noqa: E402

project = "Trireme"
version = release = re.search(r"project\(trireme VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

root_doc = "README"                                    # the first page is what a visitor of the code sees, too
contents = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "framework/README.md",
                    "kernels/README.md", "pserver/README.md", "storage/README.md", "trainer/README.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "wheelhouse", "output", "docs/**/.ipynb_checkpoints", "**/*.txt"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "draw"]
html_math_renderer = "mathml"

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["mermaid"]
nb_execution_mode = "off"                              # tests/python/test_tutorials.py runs the notebooks
highlight_language = "default"                         # what is no Python is shown as it is

autodoc_typehints = "description"
autodoc_typehints_description_target = "all"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"Trireme {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False


# All pages stay in memory until the end, so looking for what is forgotten there finds little: a fifth of the time otherwise.
gc.set_threshold(200_000, 50, 100)


def _prepare(app, name: str, source: list[str]) -> None:
    """Change the text of one page before it is parsed."""
    if not (ROOT / f"{name}.md").exists():             # a notebook
        return
    text = make_reference.expand(source[0])
    if name == root_doc:
        text += make_reference.contents((ROOT / f"{contents}.md").read_text(encoding="utf-8"), "docs", f"{root_doc}.md")
        text += f"\n```{{toctree}}\n:hidden:\n\n{contents}.md\n```\n"
    if name == "docs/adr/index":
        text = make_reference.with_toctrees(text)
    source[0] = make_reference.without_folders(text, (ROOT / name).parent)


def _mend_links_back(app, page: str, template: str, context: dict, doctree) -> None:
    """Let a page of source text lead to its things in the reference, where a module's things are shown under several modules' names."""
    if not page.startswith("_modules/"):
        return
    names = app.env.domains.python_domain.objects

    def mended(found: re.Match[str]) -> str:
        at, name = found[1], found[2]
        places = [name] if name in names else [one for one in names if one.endswith("." + name.split(".", 2)[2])]
        return f'class="viewcode-back" href="{at}#{places[0]}"' if places else 'class="viewcode-back"'

    context["body"] = re.sub(r'class="viewcode-back" href="([^"#]*)#(trireme\.[\w.]+)"', mended, context["body"])


@cache
def _titles(env) -> dict:
    """The contents of each page without what stands inside it: its title, and the pages that it lists."""
    from sphinx import addnodes

    found = {page: toc.deepcopy() for page, toc in env.tocs.items()}
    for item in (item for toc in found.values() for item in toc.children if len(item) > 1):
        lists = list(item.findall(addnodes.toctree))
        item[1:] = [item[1].copy()] if lists else []
        if lists:
            item[1].extend(lists)
    return found


def _list_titles(app, page: str, template: str, context: dict, doctree) -> None:
    """Let the list of all pages, which has titles alone, be made of titles. Sphinx copies all contents for each page, and then throws them
    away."""
    toctree = context["toctree"]

    def of_titles(**options) -> str:
        contents = app.env.tocs
        app.env.tocs = _titles(app.env) if options.get("titles_only") else contents
        try:
            return toctree(**options)
        finally:
            app.env.tocs = contents

    context["toctree"] = of_titles


def _lead_to_the_first_page(app, error: Exception | None) -> None:
    """Let the site's address lead to its first page."""
    if app.builder.name == "html" and error is None:
        (Path(app.outdir) / "index.html").write_text('<!doctype html><meta http-equiv="refresh" content="0; '
                                                     f'url={root_doc}.html"><title>Trireme</title>')


def _leave_out(app) -> None:
    """Make no index for the search, a tenth of the work, where only the pages count: ``-t without_search``."""
    if app.tags.has("without_search"):
        app.builder.search = False


def setup(app) -> None:
    app.connect("builder-inited", _leave_out)
    app.connect("build-finished", _lead_to_the_first_page)
    app.connect("html-page-context", _mend_links_back)
    app.connect("html-page-context", _list_titles, priority=400)       # the theme makes its list at 500
    app.connect("source-read", _prepare)
    app.connect("autodoc-process-docstring", make_reference.describe_arguments)
