"""The documentation as a site: it builds without a warning, and every link in it leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from helpers import ROOT


class Links(HTMLParser):
    """What a page of HTML asks for, leads to, and can be reached by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []  # by the browser, as the page opens
        self.leading: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors.add(of.get("id", ""))
        if "src" in of:
            self.loaded.append(of["src"])
        if "href" in of:
            stylesheet = tag == "link" and of.get("rel") != "canonical"
            (self.loaded if stylesheet else self.leading).append(of["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Links]:
    """The links of each page."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return {page: Links(page.read_text()) for page in sorted(folder.rglob("*.html")) if page.name != "404.html"}


def test_the_site_builds_without_a_warning_and_every_link_leads_somewhere(site: dict[Path, Links]) -> None:
    pages = {page.resolve(): links for page, links in site.items()}
    dead = []
    for page, links in pages.items():
        for link in links.leading:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and anchor not in pages[target].anchors):
                dead.append(f"{page.name}: {link}")
    assert dead == []


def test_no_page_asks_another_host_for_anything(site: dict[Path, Links]) -> None:
    for page, links in site.items():
        assert [link for link in links.loaded if re.match(r"(https?:)?//", link)] == [], page


def test_the_site_has_a_page_for_each_document(site: dict[Path, Links]) -> None:
    names = {page.parent.name for page in site}
    documents = {path.stem for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"}
    assert documents | {"contributing", "changelog"} <= names
