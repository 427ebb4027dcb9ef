"""Pages in a real browser: they draw every chart, ask no network for anything, and fit a telephone."""

from __future__ import annotations

import json
import math
import operator
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import vl_convert

from helpers import ROOT, ceilings
from helpers.browser import Browser
from helpers.folders import common
from helpers.own_kernels import scaled
from helpers.processes import Tune, run
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.report.findings import BUILD
from tuner.report.pages import vega
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.recording import Entry, Recording

pytestmark = pytest.mark.slow

WIDE, MIDDLE, NARROW = 1600, 1280, 380
RECORDED = ROOT / "results/recordings/12_warptiled-4096.json.gz"
CHARTS = {"contest", "roofline", "convergence", "distribution", "importance", "neighbours", "slices"}
MOST_BYTES = 2_000_000


def study(folder: Path, trials: int = 500) -> Path:
    """A recording of so many configurations of a real space: the best, its neighbours, and others, of which some have
    failed."""
    whole = recording.read(RECORDED)
    best = min(whole.entries, key=lambda row: whole.entries[row].time_ms or math.inf)
    near = [row for row in whole.entries if sum(map(operator.ne, row, best)) <= 1]
    others = [row for row in whole.entries if row not in near]
    rows = others[:: len(others) // (trials - len(near))][: trials - len(near)]
    entries = {row: whole.entries[row] for row in near + rows}
    for position, row in enumerate(rows[::10]):
        entries[row] = Entry(None, failure="compile" if position % 2 else "wrong result")
    file = folder / "study.json.gz"
    recording.write(file, Recording(whole.kernel, whole.device, whole.parameters, entries, whole.size))
    return file


@dataclass(frozen=True)
class Reported:
    """What one `tune report` has written of a recording."""

    recording: Path
    page: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """The report of 500 trials: the page and the document."""
    recorded = study(tmp_path_factory.mktemp("study"))
    file = recorded.with_name("study.html")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TUNER_CACHE", str(common(tmp_path_factory) / "cache"))
        done = run(sys.executable, "-m", "tuner", "report", "--recording", recorded, "-o", file, "--json")
    return Reported(recorded, file, done.stdout, done.stderr)


@pytest.fixture
def page(reported: Reported) -> Path:
    return reported.page


def check_tables(tab: Browser, width: int) -> None:
    """A table is whole where there is room. Elsewhere one with long text does not scroll on a telephone, and any other
    says that it does by a shade, and has no row that is high for a text outside."""
    cut = "[...document.querySelectorAll('.wide')].filter(each => each.scrollWidth > each.clientWidth + 1)"
    if width == WIDE:
        assert tab.value(f"{cut}.length") == 0
        return
    if width == NARROW:
        assert tab.value(f"{cut}.filter(each => each.querySelector('code')).length") == 0
    shades = "getComputedStyle(each).backgroundImage.split('linear-gradient').length - 1"
    assert set(tab.value(f"{cut}.map(each => {shades})")) <= {4}
    heights = "[...each.querySelectorAll('tr')].map(row => row.offsetHeight)"
    assert max(tab.value(f"{cut}.flatMap(each => {heights})"), default=0) < 60


def test_a_study_of_500_trials_is_right_on_a_telephone_a_laptop_and_a_wide_screen(page: Path, tab: Browser) -> None:
    assert page.stat().st_size < MOST_BYTES
    colours = set()
    for width, dark in ((NARROW, False), (MIDDLE, False), (WIDE, True)):
        visit = tab.visit(page, width, dark)
        assert (visit.requests, visit.errors) == ([], [])
        drawn = tab.value("[...document.querySelectorAll('.chart')].filter(c => c.querySelector('svg path')).length")
        assert drawn == len(CHARTS)
        assert tab.value("document.documentElement.scrollWidth") == width  # nothing sticks out
        check_tables(tab, width)
        outside = "e => e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().width < 200"
        assert tab.value(f"[...document.querySelectorAll('.chart svg')].filter({outside}).length") == 0
        colours.add(tab.value("getComputedStyle(document.body).backgroundColor"))
        colours.add(tab.value("getComputedStyle(document.querySelector('.chart svg text')).fill"))
    assert len(colours) == 4  # paper and ink of each scheme


def charts_of(page: Path) -> dict[str, Any]:
    """The specifications of the charts in a page."""
    found = re.search(r'id="charts">(.*?)</script>', page.read_text())
    assert found
    specs: dict[str, Any] = json.loads(found[1])
    return specs


@pytest.mark.usefixtures("untuned")
def test_a_kernel_that_memory_bounds_is_shown_under_that_ceiling_and_what_is_missing_is_said(
    tmp_path: Path, tune: Tune, host: Device
) -> None:
    file, page = scaled(tmp_path, "mine"), tmp_path / "page.html"
    file.write_text(file.read_text().replace("  reference:", "  flops: n\n  reference:"))
    assert tune(file, "--device", "host").status == 0
    assert tune("report", file, "-o", page).status == 0
    sections = dict(re.findall(r'<section id="(\w+)".*?>\n(.*?)</section>', page.read_text(), re.DOTALL))
    assert "tune devices --measure" in sections["roofline"]
    assert "importance needs at least 20" in sections["importance"]
    assert "Fewer than two parameters vary" in sections["slices"]
    assert "Occupancy" not in sections["leaders"]

    ceilings.keep(tmp_path / "results", host, 1)
    shown = tune("report", file, "-o", page)
    assert "of the copy ceiling)" in shown.out
    assert "FMA" not in shown.out
    contest = charts_of(page)["contest"]
    assert "GB/s, more is better" in json.dumps(contest)
    assert "copy ceiling" in json.dumps(contest)
    assert not any(contest["data"]["columns"]["inside"]), "no label stands in a bar that is too short for it"
    assert "so memory may not be the bound" not in page.read_text()

    assert tune(file, "512", "--device", "host").status == 0
    compared = tune("compare", file, "--json", "-o", tmp_path / "sizes.svg")
    assert compared.status == 0, compared.err
    picture = (tmp_path / "sizes.svg").read_text()
    for text in ("GB/s, more is better", "the ceiling that bounds it", "size (n)"):
        assert text in picture
    assert "of copy" in tune("compare", file).out


def test_a_page_can_be_used_by_keyboard_alone(page: Path, tab: Browser) -> None:
    tab.visit(page, WIDE)
    texts = "[...document.querySelectorAll('#chart-slices svg text')].map(t => t.textContent)"
    before = tab.value(texts)
    first, second = tab.value("document.querySelector('#chart-slices option').textContent").split(" and ")
    assert {first, second} <= set(before), "the axes are titled"
    reached = []
    while "SELECT" not in reached[-1:]:
        tab.press("Tab")
        reached.append(tab.value("document.activeElement.tagName"))
        assert len(reached) < 60
    assert {"A", "SUMMARY", "DIV"} <= set(reached)  # links, what unfolds, tables to be scrolled
    tab.press("ArrowDown")
    assert tab.value("document.activeElement.value") == "1"
    assert tab.value(texts) != before


def test_text_of_a_file_is_text_in_a_page(tmp_path: Path, tune: Tune, tab: Browser) -> None:
    evil = "</script><script>document.title='taken'</script><img src=http://example.invalid/x>"
    values = ("a", evil, "a.b[0]")
    rows = {(x, y): Entry(1.0 + x + len(y)) for x in range(12) for y in values}
    file, page = tmp_path / "evil.json", tmp_path / "evil.html"
    recording.write(file, Recording(evil, evil, {evil: tuple(range(12)), "datum.x": values}, rows, [evil]))
    assert tune("report", "--recording", file, "-o", page).status == 0
    visit = tab.visit(page, WIDE)
    assert (visit.requests, visit.errors) == ([], [])
    assert tab.value("document.title").startswith("</script>")
    assert tab.value("document.images.length") == 0


def test_a_ladder_is_drawn_against_the_library_and_the_ceiling(tmp_path: Path, tune: Tune, tab: Browser) -> None:
    page = tmp_path / "ladder.html"
    done = tune("compare", "sgemm", "--size", "4096", "--device", "H200", "-o", page)
    assert done.status == 0, done.err
    for width, dark in ((NARROW, False), (MIDDLE, False), (WIDE, True)):
        visit = tab.visit(page, width, dark)
        assert (visit.requests, visit.errors) == ([], [])
        assert tab.value("document.documentElement.scrollWidth") == width
        check_tables(tab, width)
        marks = tab.value("document.querySelectorAll('.chart svg .mark-rect.role-mark path').length")
        stages = len(re.findall(r"^sgemm/", done.out, re.MULTILINE))
        assert marks == 3 * stages > 30  # the bar, the library, the ceiling


def test_charts_are_pictures_too(tmp_path: Path, tune: Tune) -> None:
    request = ("report", "--recording", study(tmp_path, 100), "-o")
    assert tune(*request, tmp_path / "study.svg").status == 0
    text = (tmp_path / "study.svg").read_text()
    assert text.startswith("<svg")
    for title in ("Roofline", "Distribution of times", "Importance of parameters", "Two parameters at a time: "):
        assert title in text
    assert tune("compare", "07_tiled_1xn", "-o", tmp_path / "sizes.png").status == 0
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    done = tune(*request, tmp_path / "study.pdf")
    assert (done.status, "write a name in .html, .svg or .png" in done.err) == (2, True)


def test_the_script_of_pages_is_bundled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled: list[str] = []
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet, **_: bundled.append(snippet) or "a script")
    in_another_process = vega.script.__wrapped__
    assert [in_another_process(), in_another_process()] == ["a script", "a script"]
    assert len(bundled) == 1
    (kept,) = tmp_path.rglob("*.js")
    kept.write_bytes(kept.read_bytes()[1:])
    assert in_another_process() == "a script"
    assert len(bundled) == 2, "a damaged one is not used"


def test_what_a_page_says_is_what_was_measured(reported: Reported) -> None:
    assert "analysing the trials" in reported.err
    found, whole = json.loads(reported.out), recording.read(reported.recording)
    assert any("not that of a search" in note for note in found["notes"])
    times = {row: entry.time_ms for row, entry in whole.entries.items() if entry.time_ms is not None}
    best = min(times, key=lambda row: times[row])
    space = catalog.load(whole.kernel)
    assert found["file"] == str(reported.page)
    assert found["command"] == "tune record sgemm/12_warptiled 4096 --device cuda"
    assert not {"its search", "its finals", "verified"} & found["environment"].keys(), "those are of another search"
    assert "of another search: " in found["environment"]["the store's record"]
    assert (found["trials"], found["succeeded"]) == (500, len(times))
    assert found["best"] == dict(zip(whole.parameters, best, strict=True))
    assert sum(count for _, _, count in found["distribution"]["bins"]) == len(times)
    assert found["distribution"]["within_5_percent"] == sum(t <= 1.05 * times[best] for t in times.values())
    assert found["importance"]["method"] == "fANOVA of Optuna"
    assert 0.1 < sum(found["importance"]["shares"].values()) < 1, "what parameters explain together is of none of them"
    failed = [entry for entry in whole.entries.values() if entry.time_ms is None]
    reasons = Counter(entry.extra.get("reason", entry.failure) for entry in failed)
    assert {f["reason"]: f["count"] for f in found["failures"]} == reasons
    assert len(reasons) == 2
    ranked = sorted(times.values())[:20]
    assert [leader["time_ms"] for leader in found["leaders"]] == ranked
    assert all(leader["registers"] > 0 for leader in found["leaders"])
    columns = {name: f">{title}</th>" in reported.page.read_text() for name, title in BUILD.items()}
    assert columns == {name: any(leader[name] for leader in found["leaders"]) for name in BUILD}, "none of zeros alone"

    for neighbour in found["neighbours"]:
        config = {**found["best"], neighbour["parameter"]: neighbour["value"]}
        row = tuple(config.values())
        assert neighbour["time_ms"] == times.get(row)
        assert (neighbour["time_ms"] is None) == bool(neighbour["reason"])
        broken = [r for r in space.restrictions if r.that.text in neighbour["reason"]]
        assert broken or not neighbour["reason"].startswith("not valid")

    contest = {c["name"]: c for c in found["contenders"]}
    flops = 2 * 4096**3
    assert contest["best"]["gflops"] == pytest.approx(flops / times[best] / 1e6, rel=1e-3)
    measured = json.loads((ROOT / "results/ceilings.json").read_text())["devices"][0]["rates"]
    roof = found["roofline"]
    assert roof["peak"] == ["FMA", measured["FMA"]["rate"]]
    assert roof["attainable"] == min(roof["peak"][1], roof["intensity"] * roof["memory"][1])

    removed = {r["that"]: r for r in found["restrictions"]["removed"]}
    assert found["restrictions"]["combinations"] == math.prod(map(len, space.parameters.values()))
    assert removed.keys() == {r.that.text for r in space.restrictions}
    assert all(r["alone"] <= r["share"] <= 1 - found["restrictions"]["valid"] for r in removed.values())
