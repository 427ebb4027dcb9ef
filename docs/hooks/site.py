"""MkDocs hooks: the navigation, the pages generated from code and records, and links between pages.

https://www.mkdocs.org/dev-guide/plugins/#events
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import course
import notebook
import reference
import rooms
import steps
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
OF_ROOT = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}  # pages above docs/
RARELY_SOUGHT = ("architecture.md", "changelog.md", "contributing.md", "upgrading.md")  # which name everything
_LADDERS = steps.ladders()

Nav = list[Any]


def navigation(index: str, made: Mapping[str, Nav]) -> Nav:
    """The navigation, from the lists of the index: a section for each heading, a page for each item.

    `made` are the generated pages, by the heading whose list they are appended to.
    """
    nav: Nav = [{"Home": "README.md"}]
    sections = re.split(r"^## ", index, flags=re.MULTILINE)[1:]
    headings = [section.partition("\n")[0] for section in sections]
    assert made.keys() <= set(headings), f"docs/README.md has no heading {made.keys() - set(headings)}"
    for heading, section in zip(headings, sections, strict=True):
        items = re.findall(r"^- \[([^\]]+)\]\(([^)#]+)\)", section, re.MULTILINE)
        pages = [{title.replace("`", ""): _page(path)} for title, path in items]
        nav.append({heading: [*pages, *made.get(heading, [])]})
    return nav


def _page(path: str) -> str:
    """The page on the site for a link of the index."""
    return OF_ROOT.get(path.removeprefix("../"), path).replace(".ipynb", ".md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation from the index."""
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    stages: Nav = [{ladder.family: [course.name(step.kernel) for step in ladder.steps]} for ladder in _LADDERS]
    config.nav = navigation(index, {"Tutorials": stages, "Reference": [{t: p} for p, t in reference.TITLES.items()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    of_root = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in OF_ROOT.items()}
    texts = {page: re.sub(r"\]\(docs/", "](", text) for page, text in of_root.items()}
    for page, text in {**texts, **course.pages(_LADDERS), **reference.pages()}.items():
        files.append(File.generated(config, page, content=text))
    for path in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        text, pictures = notebook.page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links, insert the list of steps and the tables of modules, and let searches find RARELY_SOUGHT last.

    Links to files above docs/ lead to their pages, and links to the project's README to the start page. The list and
    the tables replace their markers.
    """
    if page.file.src_uri in RARELY_SOUGHT:
        page.meta["search"] = {"boost": 0.1}
    for source, target in {**OF_ROOT, "README.md": "start.md"}.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    markdown = re.sub(r"\]\((\w+/\w+)\.ipynb\)", r"](\1.md)", markdown)
    for marker, made in ((course.MARKER, lambda: course.contents(_LADDERS)), (rooms.MARKER, rooms.tables)):
        if marker in markdown:
            markdown = markdown.replace(marker, made())
    return markdown
