"""What MkDocs calls while it builds the site: the navigation, the pages that are made of code, links.

https://www.mkdocs.org/dev-guide/plugins/#events
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs/README.md"
OF_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}  # pages that lie above docs/

Nav = list[dict[str, Any]]


def navigation(index: str) -> Nav:
    """The navigation that the lists of the index are: a section for each heading, a page for each item."""
    nav: Nav = [{"tuner": "README.md"}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        items = re.findall(r"^- \[([^\]]+)\]\(([^)#]+)\)", section, re.MULTILINE)
        pages = [{title.replace("`", ""): _on_site(path)} for title, path in items]
        nav.append({section.partition("\n")[0]: pages})
    return nav


def _on_site(path: str) -> str:
    return OF_ROOT[path.removeprefix("../")] if path.startswith("../") else path


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index."""
    config.nav = navigation(INDEX.read_text(encoding="utf-8"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    for source, page in OF_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=re.sub(r"\]\(docs/", "](", text)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to the files above docs/ lead to their pages; those to the project's README lead to the start."""
    for source, target in {**OF_ROOT, "README.md": "README.md"}.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    return markdown
