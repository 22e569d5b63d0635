"""Looks at the links of the site that `make docs` has built: `python docs/links.py build/docs/html`.

Links inside the site are always checked, with their anchors, and so is that no page loads a script, a style or a picture from another
host. Links to other sites are looked up where there is a network; without one the program says so, and how many it has left out.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data", "embed": "src"}
LOADING_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch"}
SECONDS = 20


@dataclass
class Page:
    anchors: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)       # where its reader can go
    loads: set[str] = field(default_factory=set)       # what its browser asks for by itself


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page, self._inside = Page(), ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attributes}
        self._inside = tag
        self.page.anchors.update(known[name] for name in ("id", "name") if name in known)
        if tag == "a" and "href" in known:
            self.page.links.add(known["href"])
        if tag == "link" and LOADING_LINKS & set(known.get("rel", "").split()):
            self.page.loads.add(known.get("href", ""))
        if LOADS.get(tag) in known:
            self.page.loads.add(known[LOADS[tag]])

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):        # imports of a module, and urls of a style
            self.page.loads.update(word for word in data.replace("(", " ").replace('"', " ").replace("'", " ").split()
                                   if word.startswith(("http://", "https://")))


def pages(site: Path) -> dict[Path, Page]:
    """Read every page of a site."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        reader = _Reader()
        reader.feed(path.read_text(encoding="utf-8"))
        found[path.resolve()] = reader.page
    return found


def is_elsewhere(link: str) -> bool:
    return bool(urlsplit(link).scheme in ("http", "https") or link.startswith("//"))


def dead(found: dict[Path, Page]) -> list[str]:
    """The links and loads inside the site that lead to no file, or to no anchor of its page."""
    lost = []
    for path, page in found.items():
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            has_anchor = not parts.fragment or target not in found or unquote(parts.fragment) in found[target].anchors
            if not target.is_file() or not has_anchor:
                lost.append(f"{path.name}: {link}")
    return lost


def loaded_from_elsewhere(found: dict[Path, Page]) -> list[str]:
    return [f"{path.name}: {load}" for path, page in found.items() for load in sorted(page.loads) if is_elsewhere(load)]


def look_up(link: str) -> str:
    """Return what is wrong with a link to another site: "" if it answers, "unreachable" if nothing does."""
    request = urllib.request.Request(link, headers={"User-Agent": "Mozilla/5.0 (a check of links)"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            return ""
    except urllib.error.HTTPError as error:            # a site may refuse programs: only what is gone is dead
        return f"answers {error.code}" if error.code in (404, 410) else ""
    except OSError:
        return "unreachable"


def report(site: Path, look: Callable[[str], str] = look_up) -> tuple[int, list[str]]:
    """Return the exit code and what is to be said about a site."""
    found = pages(site)
    if not found:
        return 1, [f"{site} has no page: `make docs` builds the site"]
    wrong = [f"dead link in {one}" for one in dead(found)] + [f"loaded from another host in {one}" for one in loaded_from_elsewhere(found)]
    links = sorted({link.partition("#")[0] for page in found.values() for link in page.links if is_elsewhere(link)})
    answers = {link: look(link) for link in links}
    inside = sum(not is_elsewhere(link) for page in found.values() for link in page.links)
    said = [f"{len(found)} pages, {inside} links inside the site checked"]
    if links and set(answers.values()) == {"unreachable"}:
        said.append(f"no network: {len(links)} links to other sites were not looked up")
    else:
        wrong += [f"link to another site, {link}: {answer}" for link, answer in answers.items() if answer]
        said.append(f"{len(links)} links to other sites looked up")
    return int(bool(wrong)), wrong + said


def main() -> int:
    code, lines = report(Path(sys.argv[1]))
    print(*(f"docs-links: {line}" for line in lines), sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
