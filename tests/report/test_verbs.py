"""`tune report KERNEL SIZE`, `tune explain` and `tune compare` on what was tuned here."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from helpers.own_kernels import scaled
from helpers.processes import Tune
from helpers.records import H100, H200, KERNEL, SPACE, at, config, sizes, stored
from tuner import devices
from tuner.catalog import catalog
from tuner.devices import BACKENDS
from tuner.exchange.exports.target import Problem
from tuner.report import counters, restrictions
from tuner.search.listing import listed
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.recording import Entry, Recording

BLOCKED = "sgemm/01_host_blocked"


@pytest.mark.slow
def test_a_ledger_is_shown_filled_and_explained(tune: Tune) -> None:
    tuned = tune(BLOCKED, "64", "--device", "host", "--budget", "4", "--seed", "3")
    assert tuned.status == 0
    said = tune("best", BLOCKED, "64", "--device", "host", "--json").json["record"]["conclusions"]
    assert any(" in the finals (" in text for text in said) == (" in the finals (" in tuned.err)
    assert all(text in tuned.err for text in said)
    before = tune("report", BLOCKED, "64", "--json").json
    assert (before["from"], before["trials"], before["file"]) == ("ledger", 4, None)
    assert before["command"] == f"tune {BLOCKED} 64 --device host --budget 4 --seed 3"
    assert before["environment"]["verified"].startswith("on ")
    times = [step["time_ms"] for step in before["improvements"]]
    assert times == sorted(times, reverse=True)

    missing = [n for n in before["neighbours"] if n["reason"] == "not measured"]
    assert missing
    filled = tune("report", BLOCKED, "64", "--measure", "--json")
    assert filled.status == 0, filled.err
    assert filled.json["best"] == before["best"]
    assert all(n["time_ms"] or n["reason"].startswith("failed") for n in filled.json["neighbours"])
    assert filled.json["trials"] == 4 + len(missing)

    done = tune("explain", BLOCKED, "64", "--json")
    assert done.status == 0, done.err
    found = done.json
    best, default = found["best"]["config"], found["default"]["config"]
    assert {c["name"] for c in found["parameters"]} == {name for name in best if best[name] != default[name]}
    assert found["timed"] == ("search" if best == default else "in turns")  # on a busy machine it may be either
    for change in found["parameters"]:
        assert (change["default"], change["best"]) == (default[change["name"]], best[change["name"]])
        assert change["without"] > 0 < change["alone"]
    words = tune("explain", BLOCKED, "64", "--no-measure")
    assert words.status == 0, words.err
    assert "default" in words.out
    assert tune("report", BLOCKED, "64", "--json").json["trials"] >= filled.json["trials"]  # all is in the ledger


@pytest.mark.slow
def test_a_faster_neighbour_that_a_report_has_measured_is_told_with_the_command_that_makes_it_the_best(
    tune: Tune, tmp_path: Path
) -> None:
    file = scaled(tmp_path, "pausing")
    (tmp_path / "pausing.c").write_text(
        "#include <unistd.h>\nvoid scale(float *y, const float *x, int n) {\n if (pause) usleep(pause);\n"
        " for (int i = 0; i < n; i++) y[i] = 2 * x[i];\n}\n"
    )
    file.write_text(file.read_text().replace("unroll: [1, 2]", "pause: [1000, 0]"))
    assert tune(file, "--budget", "1").status == 0
    page = tmp_path / "page.html"
    measured = tune("report", file, "--measure", "-o", page, "--json").json
    found = tune("report", file, "--json").json  # of a ledger that knows which trials were no search's
    assert measured["notes"] == found["notes"]
    told = next(note for note in found["notes"] if "and measured after its finals: pause = 0 at " in note)
    command = re.search("Run `tune (.*)` for new finals with them.", told)
    assert command is not None
    assert (found["trials"], found["besides_the_search"], len(found["improvements"])) == (2, 1, 1)
    assert [n["after_finals"] for n in found["neighbours"]] == [True]
    text = page.read_text()
    assert "trial 1 found it. Not shown, because they are not part of the search: 1 more, measured for" in text
    assert "Measured for a report, after the finals: pause = 0." in text
    assert "but not in the finals" not in text

    assert tune(*command[1].split()).status == 0
    again = tune("report", file, "--json").json
    assert again["best"] == {"pause": 0}
    assert not any("after its finals" in note for note in again["notes"])


@pytest.mark.slow
def test_a_best_that_is_the_default_is_explained_without_a_measurement(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    assert tune(file, "--budget", "1", "--repeats", "1").status == 0
    done = tune("explain", file)
    assert (done.status, done.err) == (0, "")
    assert "The best configuration is the default" in done.out


@pytest.mark.slow
def test_a_device_that_is_not_here_is_explained_by_the_times_of_the_search(tune: Tune) -> None:
    done = tune("explain", "sgemm/12_warptiled", "4096", "--json")
    assert done.status == 0, done.err
    found = done.json
    assert (found["device"], found["timed"]) == ("NVIDIA H200", "search")
    assert found["limits"]["best"]["figures"]["registers"] > 0
    assert any("of the roofline" in sentence for sentence in found["words"])
    assert "showing the times of the recording" in done.err


def around(time_ms: float, spread: float) -> Entry:
    """A trial of nine times whose middle half is as wide as `spread` says."""
    return Entry(time_ms, tuple(time_ms * (1 + spread * step / 5) for step in range(-4, 5)))


@pytest.mark.slow
@pytest.mark.usefixtures("untuned")
def test_what_tune_called_noise_is_noise_in_report_and_explanation(tmp_path: Path, tune: Tune) -> None:
    best = {**config(4), "tile_size_x": 8, "fixed_sizes": 1}
    noise = (
        "the best took 7.1 ms in the search, 19.3 ms in the finals (+172%): noise: the smallest of many medians is "
        "partly luck"
    )
    stored(
        tmp_path,
        at(
            520,
            config=best,
            time_ms=19.3,
            spread=1.1,
            conclusions=[noise],
            default_ms=22.6,
            default_spread=1.2,
            default_ties=True,
            finalists=[
                {"config": best, "time_ms": 19.3, "spread": 1.1, "tied": False},
                {"config": {**best, "fixed_sizes": 0}, "time_ms": 20.0, "spread": 1.1, "tied": True},
                {"config": {**best, "tile_size_x": 4}, "time_ms": 21.0, "spread": 0.1, "tied": False},
                {"config": {**best, "tile_size_x": 2}, "time_ms": 22.0, "spread": 1.1, "tied": True},  # in no trial
            ],
        ),
    )
    trials = {
        (32, 8, 8, 4, 1): around(7.1, 0.2),  # the best, by luck
        (32, 8, 8, 4, 0): around(22.0, 1.1),  # without its fixed_sizes
        (32, 8, 4, 4, 1): around(60.0, 0.2),  # without its tile_size_x
        (32, 8, 4, 4, 0): around(24.0, 1.2),  # the default
    }
    (tmp_path / "recordings").mkdir()
    file = tmp_path / "recordings/07_tiled_1xn-520.json"
    recording.write(file, Recording(KERNEL, H200, SPACE.parameters, trials, sizes(520)))
    about = (KERNEL, "520", "--results", tmp_path)

    reported = tune("report", *about, "--json").json
    assert any(note.casefold() == f"{noise}." for note in reported["notes"])
    assert any("spread by" in note and "either other programs" in note for note in reported["notes"])
    verdicts = {(n["parameter"], n["value"]): n["verdict"] for n in reported["neighbours"] if n["time_ms"]}
    assert verdicts == {("tile_size_x", 4): "", ("fixed_sizes", 0): "too noisy to tell"}
    leaders = [(leader["finals_ms"], leader["time_ms"], leader["verdict"]) for leader in reported["leaders"]]
    in_order = [(19.3, 7.1, ""), (20.0, 22.0, "too noisy to tell"), (21.0, 60.0, ""), (None, 24.0, "too noisy to tell")]
    assert leaders == in_order, "those of the finals first, as the finals order them"
    assert reported["ties"] == [best, {**best, "fixed_sizes": 0}, {**best, "tile_size_x": 2}]
    page = tmp_path / "page.html"
    printed = tune("report", *about, "-o", page)
    assert "The default configuration, 22.6 ms (spread 120.0%): too noisy to tell." in printed.out
    assert "times as fast as the default" not in printed.out
    assert re.search(r"^ms +spread +tied, .*\n19.3 +110.0% .*\n20 +110.0% ", printed.out, re.MULTILINE), printed.out
    text = page.read_text()
    assert "relative to the best&#x27;s 7.1 ms" in text
    default = {(32, 8, 4, 4, 0): around(24.0, 1.2)}
    recording.write(tmp_path / "alone.json", Recording(KERNEL, H200, SPACE.parameters, default, sizes(520)))
    alone = tune("report", "--recording", tmp_path / "alone.json", "-o", tmp_path / "alone.html").out
    assert "\nNo gain: the default configuration is the best.\n" in alone
    assert "Ties: noise hides which of 3 is the fastest" in text

    done = tune("explain", *about, "--no-measure")
    assert done.status == 0, done.err
    assert "19.3 ms (spread 110.0%), the default 22.6 ms (spread 120.0%), in turns in the finals: too noisy" in done.out
    assert "tile_size_x = 8 in place of 4 matters most" in done.out
    assert "fixed_sizes: too noisy to tell" in done.out


@pytest.mark.slow
@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"default_ms": 4.02, "spread": 0.8, "default_spread": 0.9, "default_ties": True}, "too noisy to tell"),
        ({"default_ms": 2.01, "spread": 0.01, "default_spread": 0.01, "default_ties": True}, "a tie"),
        ({"default_ms": 4.02, "spread": 0.01, "default_spread": 0.02}, "2.01 x"),
        ({"default_ms": 4.02, "spread": 1.5}, "too noisy to tell"),  # of a version that kept no spread of defaults
        ({"default_ms": 4.02, "spread": 0.01}, "2.01 x"),
    ],
)
def test_all_verbs_say_the_same_of_a_gain(figures: dict[str, Any], said: str, tmp_path: Path, tune: Tune) -> None:
    stored(tmp_path, at(520, time_ms=2.0, **figures), at(1032, time_ms=1.0))
    compared = tune("compare", KERNEL, "--results", tmp_path, "--size", "520", "--size", "1032").out.splitlines()
    start = compared[1].index("gain over default")
    assert compared[2][start:].split("  ")[0] == said
    table = tune("report", "--results", tmp_path, "--device", "H200").out
    assert f"2 ms, {said}, " in table.replace(" |", ", ")
    best = tune("best", KERNEL, "520", "--device", "H200", "--results", tmp_path).out
    lines = tune("report", KERNEL, "520", "--device", "H200", "--results", tmp_path, "-o", tmp_path / "x.html").out
    words = tune("explain", KERNEL, "520", "--device", "H200", "--results", tmp_path, "--no-measure").out
    for text in (best, lines, words):
        assert ("2.01" in text and "as fast" in text) == said.endswith("x"), text
        assert said.endswith("x") or said in text, text


def test_two_stores_whose_times_spread_tie(tmp_path: Path, tune: Tune) -> None:
    one, other = (at(4096, time_ms=ms, spread=0.48) for ms in (1.16, 1.0))
    folders = stored(tmp_path / "one", one, at(2048, time_ms=1.0)), stored(tmp_path / "other", other)
    done = tune("compare", KERNEL, "--results", folders[0], "--results", folders[1])
    header, *rows = done.out.splitlines()[1:]
    found = [row[header.index("as fast as the first") :].split("  ")[0].strip() for row in rows]
    assert found == ["", "1.00 x", "too noisy to tell"], "the first has no partner"
    assert all("48.0%" in row for row in rows[1:])
    assert done.out.startswith(f"Compared: sizes and stores of {KERNEL} on NVIDIA H200")


TURNED = """
void scale(float *y, const float *x, int n) {
#if turn == 3 || !defined(turn)
    this does not compile
#endif
    for (int i = 0; i < n; i += unroll)
        for (int j = i; j < i + unroll && j < n; j++) y[j] = 2 * x[j];
}
"""


def test_a_knob_that_changes_no_code_is_told_so_whatever_its_times(tune: Tune, tmp_path: Path) -> None:
    """As in a recording of the host on which one of two equal builds was lucky."""
    file = scaled(tmp_path, "turned")
    (tmp_path / "turned.c").write_text(TURNED)
    knobs = "parameters: {unroll: [1, 2], turn: [0, 1, 2]}\ndefault: {unroll: 1, turn: 0}"
    file.write_text(file.read_text().replace("parameters: {unroll: [1, 2]}", knobs))
    trials = {
        (2, 2): around(1.0, 0.01),
        (2, 0): around(1.78, 0.01),
        (1, 2): around(3.0, 0.01),
        (1, 0): around(3.1, 0.01),
    }
    space = catalog.load(str(file))
    folder = tmp_path / "store" / "recordings"
    folder.mkdir(parents=True)
    recording.write(folder / "turned-1000.json", Recording(space.name, "A CPU", space.parameters, trials, {"n": 1000}))
    about = (file, "--results", folder.parent)
    words = tune("explain", *about, "--no-measure")
    assert words.status == 0, words.err
    assert "turn: the best has the same code with the default's value; their times differ only by chance." in words.out
    assert "unroll = 2 in place of 1 matters most: without it, the best takes 3.00 times as long." in words.out
    assert "Then come" not in words.out
    found = tune("report", *about, "--json").json
    verdicts = {(n["parameter"], n["value"]): n["verdict"] for n in found["neighbours"] if n["time_ms"]}
    assert verdicts == {("unroll", 1): "", ("turn", 0): "the same code"}
    alike = {(1, 0): trials[1, 0], (1, 2): trials[2, 2]}
    recording.write(folder / "turned-1000.json", Recording(space.name, "A CPU", space.parameters, alike, {"n": 1000}))
    assert "as fast" not in tune("explain", *about, "--no-measure").out


@pytest.mark.slow
def test_the_share_of_valid_combinations_is_counted_or_has_its_error(tune: Tune, tmp_path: Path) -> None:
    space = catalog.load("sgemm/16_stream_k")
    scope = Problem.parse(space, "4096", {}).scope("cuda", BACKENDS["cuda"].limits_of("sm_90a"))
    drawn = restrictions.removals(space, scope)
    assert drawn.known is None
    assert drawn.examined < drawn.combinations
    assert 0 < drawn.margin(drawn.valid) < 0.02
    counted = len(listed(space, scope))
    assert abs(counted / drawn.combinations - drawn.valid) < 3 * drawn.margin(drawn.valid)
    page = tmp_path / "page.html"
    done = tune("report", "sgemm/16_stream_k", "4096", "--device", "H200", "-o", page, "--json")
    found = done.json["restrictions"]
    assert (found["valid"], found["valid_is_counted"]) == (counted / drawn.combinations, True)
    assert f"{counted:,} ({counted / drawn.combinations:.2%}) are valid here. The share that each" in page.read_text()


def test_the_lines_of_a_report_need_no_drawing_library(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # as if it were not installed
    monkeypatch.chdir(tmp_path)
    request = ("report", "sgemm/03_naive", "4096")
    done = tune(*request)
    assert done.status == 0, done.err
    assert "Best: " in done.out
    assert "vl-convert, which is not installed" in done.err
    assert "no page was written" in done.err
    assert not list(tmp_path.glob("*.html"))
    refused = tune(*request, "-o", "page.html")
    assert (refused.status, "pip install vl-convert-python, or leave out --output" in refused.err) == (2, True)


WRONG = {
    ("report", BLOCKED, "64"): "nothing has been measured",
    ("report", "--measure"): "only for the page of one kernel",
    ("report", "--output", "x.html"): "only for the page of one kernel",
    ("report", BLOCKED, "64", "--write", __file__): "--write: only for the tables of the store",
    ("report", "--recording", "nowhere.json"): "nowhere.json",
    ("report", "sgemm/13_double_buffered", "4096", "--measure", "--json"): "this machine has no NVIDIA H200",
    ("report", "--recording", "nowhere.json", "--device", "H200", "--set", "a=1"): "leave out --device and --set",
    ("report", "nothing", "--output", "x.pdf"): "write a name in .html, .svg or .png",
    ("compare", "nothing", "--output", "x.pdf"): "write a name in .html, .svg or .png",
    ("compare", "nothing"): "the store has no record of such a kernel",
    ("compare", "sgemm", "--size", "77"): "--size '77': the store has these kernels at ",
    ("compare", "sgemm", "--size", "abc", "--size", "4096"): "--size 'abc': the store has these kernels at ",
    ("compare", "sgemm", "--device", "H300"): "--device 'H300': the store has these kernels on NVIDIA H200; name one",
    ("compare", "13_double_buffered", "--size", "4096"): "13_double_buffered --size 4096: matches only one record",
    ("compare", "sgemm", "--results", "/nowhere"): "--results /nowhere: there is no such folder",
    ("compare", "sgemm", "--results", "/none", "--results", "/nowhere"): "there is no such folder",
    ("explain", BLOCKED, "64"): "nothing has been measured",
}


@pytest.mark.slow
@pytest.mark.parametrize("request_", WRONG, ids=lambda words: " ".join(words[:5]))
def test_a_wrong_request_is_one_message(request_: tuple[str, ...], tune: Tune, tmp_path: Path) -> None:
    done = tune(*request_)
    assert (done.status, done.out) == (2, ""), done.err
    assert WRONG[request_] in done.err
    assert len(done.err.splitlines()) == 1


NCU = """\
==PROF== Connected to process 5551 (/usr/bin/python3)
"ID","Kernel Name","sm__throughput.avg.pct_of_peak_sustained_elapsed","dram__bytes.sum","gpu__time_duration.sum"
"","","%","byte","ns"
"0","sgemm_tiled","73.20","36,091,648","548,512"
"""


def test_what_the_profiler_prints_is_read() -> None:
    assert counters.parse(NCU) == {
        "time under the profiler": "548,512 ns",
        "arithmetic and issue, of peak": "73.20%",
        "bytes of device memory": "36,091,648 byte",
    }
    assert counters.parse("==ERROR== ERR_NVGPUCTRPERM") == {}


@pytest.mark.gpu
def test_counters_of_best_and_default(tune: Tune) -> None:
    assert tune("sgemm/09_coarsened_2d", "512", "--budget", "5").status == 0
    done = tune("explain", "sgemm/09_coarsened_2d", "512", "--counters", "--json")
    assert done.status == 0, done.err
    assert done.json["counters"].keys() == {"best", "default"}
    for profile in done.json["counters"].values():
        assert {"arithmetic and issue, of peak", "issue slots used", "occupancy reached"} <= profile.keys()
    assert done.json["limits"]["best"]["waves"] > 0


def test_counters_need_the_profiler(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if devices.count("cuda"):
        pytest.skip("a machine with GPUs has the profiler elsewhere")
    done = tune("explain", "sgemm/12_warptiled", "4096", "--counters")
    assert (done.status, "ncu is not installed" in done.err) == (2, True)


@pytest.mark.slow
def test_a_kernel_without_flops_or_default_is_reported_too(tmp_path: Path, tune: Tune) -> None:
    file = scaled(tmp_path, "mine")
    assert tune(file, "--device", "host").status == 0
    done = tune("report", file, "--json")
    assert done.status == 0, done.err
    assert done.json["contenders"][0]["gbytes"] > 0
    assert done.json["roofline"] is None


def test_two_stores_are_compared_as_they_are(tmp_path: Path, tune: Tune) -> None:
    old = stored(tmp_path / "old", at(4096, time_ms=4.0), at(2048, time_ms=1.0))
    new = stored(tmp_path / "new", at(4096, time_ms=2.0), at(2048, time_ms=1.0))
    done = tune("compare", KERNEL, "--results", old, "--results", new, "--json")
    assert done.status == 0, done.err
    assert done.json["varying"] == ["size", "store"]
    ratios = {(r["record"]["sizes"]["M"], r["store"]): r["as_fast_as_the_first"] for r in done.json["records"]}
    assert ratios == {(4096, str(old)): 1, (4096, str(new)): 2, (2048, str(old)): 1, (2048, str(new)): 1}


@pytest.mark.usefixtures("untuned")
def test_devices_and_sizes_are_compared(tmp_path: Path, tune: Tune) -> None:
    folder = stored(tmp_path, at(4096, time_ms=2.0), at(4096, H100, time_ms=3.0), at(1024, time_ms=0.1))
    found = tune("compare", "07_tiled", "--results", folder, "--json").json
    assert found["varying"] == ["size", "device"]
    assert len(found["records"]) == 3
    for size in ("4096", "4096x4096x4096", "M=4096,N=4096,K=4096"):
        shown = tune("compare", KERNEL, "--results", folder, "--size", size)
        assert shown.status == 0
        assert [line.split("  ")[0] for line in shown.out.splitlines()[2:]] == [H100, H200]
    by_path = tune("compare", ROOT / f"spaces/{KERNEL}.yaml", "--results", folder, "--json").json
    assert by_path["records"] == tune("compare", KERNEL, "--results", folder, "--json").json["records"]
    only = tune("compare", KERNEL, "--results", folder, "--device", "H200", "--json").json
    assert only["varying"] == ["size"]
    assert {record["as_fast_as_the_first"] for record in only["records"]} == {None}


@pytest.mark.usefixtures("untuned")
def test_records_of_other_options_have_rows_of_their_own(tmp_path: Path, tune: Tune) -> None:
    twice = at(4096, time_ms=3.0, options={"alpha": 2.0, "beta": 0.0}, date="2026-12-01T00:00:00+00:00")
    folder = stored(tmp_path, at(4096, time_ms=2.0), twice)
    lines = tune("report", "--results", folder, "--device", "H200").out.splitlines()
    assert len([line for line in lines if line.startswith(f"| {KERNEL} |")]) >= 1
    assert any(line.startswith(f"| {KERNEL}, alpha=2 |") for line in lines)
    compared = tune("compare", KERNEL, "--results", folder).out.splitlines()
    assert [line.split("  ")[0] for line in compared[2:]] == ["4096", "4096, alpha=2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{"format": "tuner results", "version": 99, "kernel": "a/b"}',
            "written by a newer tuner: the file has format",
        ),
        ('\ufeff{"format": "tuner results", "version": 1, "kernel": "a/b"}', "begins with a byte order mark (BOM)"),
        ("no JSON", "not a results file"),
    ],
)
def test_a_file_that_cannot_be_read_does_not_stop_a_report(content: str, said: str, tmp_path: Path, tune: Tune) -> None:
    here, other = stored(tmp_path / "r", at(1000)), tmp_path / "other"
    for name in (KERNEL, "a/b"):
        for folder in (here, other):
            file = folder / f"{name}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            if folder != here or name != KERNEL:
                file.write_text(content)
    where = ("--results", here)
    for request in (("report", *where), ("report", "--results", other), ("compare", "07_tiled", *where)):
        done = tune(*request)
        assert done.status == 0, done.err
        assert done.err.count(f"b.jsonl:1: {said}") == 1
        assert done.err.count("; the file is passed over") == len(done.err.splitlines())
    assert "1000" in tune("report", *where).out
    stores = ("--results", here, "--results", other)
    assert said in tune("compare", "07_tiled", *stores).err
