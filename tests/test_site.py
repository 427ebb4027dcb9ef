"""The documentation as a site: it builds without a warning, and every link in it leads somewhere."""

from __future__ import annotations

import contextlib
import functools
import html
import importlib
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from helpers import ROOT
from helpers.browser import Browser
from helpers.folders import once
from helpers.processes import PATIENCE_SECONDS, Tune
from tuner.catalog import kernel_lists
from tuner.space.file import schema

HOOKS = ROOT / "docs/hooks"
WIDTHS, LAPTOP, SCREEN = (380, 1280, 1600), 1400, 900  # pixels
COMPLETE = "document.readyState == 'complete'"
WIDEST = 4  # pages with the longest lines of code, which a browser opens
FIRST = 5  # results of a search that a reader looks at
SOUGHT = {"ifdef": "from-your-file", "AMD": "tuners", "CI": "ci", "CMake": "cpp", "struct": "from-your-file"}
SMALLER = {  # what the notebook shows, and what runs here in its place
    'SIZE = \\"opencl\\", 128': 'SIZE = \\"opencl\\", 32',
    "block_size_y: [1, 4, 16]": "block_size_y: [4]",
    '\\"--budget\\", 6': '\\"--budget\\", 2',
    '\\"--budget\\", 40': '\\"--budget\\", 10',
}


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    return once(tmp_path_factory, "site", build)


@pytest.fixture(scope="module")
def site(folder: Path) -> dict[Path, Links]:
    """The links of each page."""
    return {page: Links(page.read_text()) for page in sorted(folder.rglob("*.html")) if page.name != "404.html"}


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "Documentation built" in done.stderr
    assert "WARNING" not in done.stderr, "with --quiet, --strict counts no warnings"


@pytest.mark.slow
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


def test_the_architecture_has_a_table_of_the_modules_of_each_room(folder: Path, site: dict[Path, Links]) -> None:
    rooms = {room.parent.relative_to(ROOT / "tuner").as_posix() for room in (ROOT / "tuner").glob("*/**/__init__.py")}
    assert {room.replace("/", "") for room in rooms} <= site[folder / "architecture/index.html"].anchors


@pytest.mark.slow
def test_the_notebook_runs_and_prints_and_draws_what_it_shows(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands run in this process, which has imported what they need."""
    shown = ROOT / "docs/notebooks/kernel_tuner_tutorial.ipynb"
    copy = tmp_path / shown.name
    text = shown.read_text()
    for large, small in SMALLER.items():
        assert large in text
        text = text.replace(large, small)
    copy.write_text(text)

    def answered(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "tuner"]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            done = tune(*command[3:])
        return subprocess.CompletedProcess(command, done.status, out.getvalue(), done.err)

    for name in ("TUNER_DEVICE", "TUNER_RESULTS", "TUNER_STATE"):  # which the notebook sets
        monkeypatch.setenv(name, "")
    monkeypatch.syspath_prepend(HOOKS)
    notebook = importlib.import_module("notebook")
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", answered)
        notebook.run_file(copy)

    def outputs(path: Path) -> list[tuple[int, list[str]]]:
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        return [(cell["execution_count"], [output["output_type"] for output in cell["outputs"]]) for cell in cells]

    assert outputs(copy) == outputs(shown)
    assert sum(kinds.count("display_data") for _, kinds in outputs(shown)) == 3
    assert "failed: none" in copy.read_text()


@pytest.mark.slow
def test_the_picture_of_the_ladder_is_of_the_records_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HOOKS)
    ladder = importlib.import_module("ladder")
    words = re.search("<desc>(.*?)</desc>", ladder.PICTURE.read_text(), re.DOTALL)
    assert words, "python docs/hooks/ladder.py draws it again"
    assert words[1] == ladder.described(ladder.ladders()), "python docs/hooks/ladder.py draws it again"


@pytest.mark.slow
def test_a_page_of_the_course_has_the_shares_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HOOKS)
    course, steps = importlib.import_module("course"), importlib.import_module("steps")
    ladders = steps.ladders()
    pages = course.pages(ladders)
    records = {step.kernel: step.record for ladder in ladders for step in ladder.steps if step.library}
    assert len(records) > 20
    for kernel, record in records.items():
        (tuned,) = re.findall(r"^\| tuned \| \S+ \| (\S+) \|", pages[course.name(kernel)], re.MULTILINE)
        assert tuned == f"{record.vs_library:.1%}", kernel


def test_the_site_begins_in_the_scheme_of_the_system(site: dict[Path, Links]) -> None:
    text = next(page for page in site if page.parent.name == "start").read_text()
    schemes = re.findall(r'data-md-color-media="([^"]*)" data-md-color-scheme="([^"]*)"', text)
    assert ("(prefers-color-scheme)", "default") in schemes


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where the site is served while the tests run: its search needs a server."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def widest(site: dict[Path, Links]) -> list[Path]:
    """The pages with the longest lines of code."""
    texts = {page: re.findall(r"<pre>.*?</pre>", page.read_text(), re.DOTALL) for page in site}
    lines = {
        page: max(len(html.unescape(re.sub("<[^>]*>", "", line))) for line in "\n".join(found).split("\n"))
        for page, found in texts.items()
    }
    return sorted(lines, key=lines.__getitem__)[-WIDEST:]


@pytest.mark.slow
def test_a_page_of_the_site_fits_the_window_and_shows_its_code_whole(
    folder: Path, site: dict[Path, Links], address: str, tab: Browser
) -> None:
    for page in (folder / "index.html", *widest(site)):
        tab.visit(f"{address}/{page.relative_to(folder)}", LAPTOP, until=COMPLETE)
        cut = "[...document.querySelectorAll('pre, pre code')].filter(e => e.scrollWidth > e.clientWidth)"
        assert tab.value(f"{cut}.map(e => e.textContent)") == [], page
    for width in WIDTHS:
        tab.visit(f"{address}/index.html", width, until=COMPLETE)
        assert tab.value("document.documentElement.scrollWidth") == width
        first = "[...document.querySelectorAll('article > :is(p, .highlight)')].slice(0, 2).map(e => e.innerText)"
        what, how = tab.value(first)
        assert ("fastest configuration of a GPU kernel" in what, ".ci/setup" in how) == (True, True)
        assert tab.value("document.querySelector('article .highlight').getBoundingClientRect().bottom") < SCREEN


@pytest.mark.slow
def test_the_search_of_the_site_finds_what_newcomers_look_for(address: str, tab: Browser) -> None:
    field = "document.querySelector('.md-search__input')"
    links = "[...document.querySelectorAll('.md-search-result__link')]"
    tab.visit(f"{address}/?q=tuner", LAPTOP, until=f"{links}.length")
    for word, page in SOUGHT.items():
        tab.value(f"{field}.value = '{word}', {field}.dispatchEvent(new Event('keyup'))")
        tab.wait(f"{links}.some(link => link.search.toLowerCase() == '?h={word.lower()}')")
        found = tab.value(f"{links}.map(link => link.pathname)")
        assert f"/{page}/" in found[:FIRST], (word, found)


def test_every_key_of_a_space_file_is_described() -> None:
    whole = schema.json_schema()
    for model in (whole, *whole["$defs"].values()):
        for key, value in model["properties"].items():
            assert value.get("description"), key


def test_the_course_has_a_page_for_each_stage_and_the_reference_one_for_each_source(site: dict[Path, Links]) -> None:
    names = {page.parent.name for page in site}
    stages = {name.replace("/", "-") for name in kernel_lists.names() if name.startswith(("sgemm/", "hgemm/"))}
    assert stages <= names
    assert {"space-file", "functions", "command-line", "python"} <= names
