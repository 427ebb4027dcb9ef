"""A wheel ships kernels, spaces and records, which are found without importing it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.documents import TEXTS, blocks
from helpers.folders import once
from helpers.own_kernels import SOURCE, SPACE, scaled
from helpers.packages import PIP
from helpers.processes import Tune, run
from tuner import paths
from tuner.catalog import wheels

pytestmark = pytest.mark.slow

POINTS = "mine-1.0.dist-info/entry_points.txt"
CONTENTS = {
    "fast_vision/__init__.py": "raise ImportError('it is not to be imported')\n",
    "fast_vision/kernels/filters/edges.c": SOURCE.format(factor=2),
    "fast_vision/spaces/filters/edges.yaml": SPACE.format(factor=2, source="").replace("source: \n", ""),
    "fast_vision/kernels/plain.c": SOURCE.format(factor=5),
    "fast_vision/spaces/plain.yaml": SPACE.format(factor=5, source="").replace("source: \n", ""),
}
RECORD = "fast_vision/results/vision/filters/edges.jsonl"


def written(folder: Path, contents: Mapping[str, str]) -> Path:
    for path, text in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, tune: Tune) -> Path:
    """Where the wheel is installed, which its author has tuned and built as the page says."""

    def fill(folder: Path) -> None:
        (pyproject,) = (text for text in blocks(TEXTS["docs/projects.md"], "toml") if "entry-points" in text)
        author = written(folder / "author", {**CONTENTS, "pyproject.toml": pyproject})
        done = tune(author / "fast_vision/spaces/filters/edges.yaml", "--device", "host",
                    "--results", author / "fast_vision/results", "--json")  # fmt: skip
        assert done.json["kernel"] == "vision/filters/edges"
        run(*PIP, "--target", folder / "site", author)

    return once(tmp_path_factory, "site of a wheel", fill) / "site"


@pytest.fixture
def elsewhere(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is installed, beside nothing that was tuned, and the current folder is another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "fresh"))


LAUNCH = """
import sys, numpy as np, tuner
x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
kernel = tuner.load("filters/edges", device="host", strict=True)
kernel(y, x)
assert (y == 2).all() and kernel.space.name == "vision/filters/edges"
import pickle
assert pickle.loads(pickle.dumps(kernel)).match == "exact"
print(kernel.match, "fast_vision" in sys.modules)
"""


@pytest.mark.usefixtures("elsewhere")
def test_kernels_of_a_wheel_are_listed_after_ours_and_launched_with_its_records(tune: Tune, site: Path) -> None:
    rows = tune("list", "--json").json
    assert rows[0]["origin"] == "tuner"
    names = {row["kernel"]: row["origin"] for row in rows if row["origin"] != "tuner"}
    assert names == dict.fromkeys(["vision/filters/edges", "vision/plain"], "wheel fast-vision")
    assert rows[-1]["origin"] == "wheel fast-vision"
    for kernel in ("vision/filters/edges", "filters/edges", str(site / "fast_vision/spaces/filters/edges.yaml")):
        best = tune("best", kernel, "--device", "host", "--json")
        assert best.status == 0, best.err
        assert [best.json[key] for key in ("kernel", "match", "stale")] == ["vision/filters/edges", "exact", False]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    launched = subprocess.run([sys.executable, "-c", LAUNCH], capture_output=True, text=True, check=False, env=here)
    assert (launched.stdout, launched.stderr) == ("exact False\n", "")
    assert "| vision/filters/edges |" in tune("report", "--device", "host").out


@pytest.mark.usefixtures("elsewhere")
def test_the_users_own_records_lie_over_those_of_a_wheel(tune: Tune, site: Path) -> None:
    shipped = site / RECORD
    before = shipped.read_bytes()
    tuned = tune("filters/edges", "--device", "host", "--fresh", "--json")
    assert tuned.status == 0, tuned.err
    assert tuned.json["stored"]
    (own,) = paths.user_results().rglob("edges.jsonl")
    assert own == paths.user_results() / "vision/filters/edges.jsonl"
    best = tune("best", "filters/edges", "--device", "host", "--json").json
    assert best["record"]["date"] == json.loads(own.read_text().splitlines()[1])["date"]
    assert shipped.read_bytes() == before
    assert not (site / RECORD).with_suffix(".lock").exists()


def test_a_launch_of_a_kernel_that_is_found_elsewhere_looks_for_no_wheel(site: Path, tmp_path: Path) -> None:
    file = scaled(tmp_path / "work" / "tuning", "triple", 3)
    (tmp_path / "work" / "tuner.toml").write_text('name = "work"\nspaces = ["tuning"]\n')
    program = """
import sys
from importlib import metadata
def refuse(*args, **kwargs): raise AssertionError("it looks for wheels")
if sys.argv[1] == "warm":
    metadata.entry_points = refuse
import tuner
for kernel in sys.argv[2:]:
    tuner.load(kernel, 64, device="host")
print("loaded")
"""
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    for cache in ("cold", "warm"):
        command = [sys.executable, "-c", program, cache, "sgemm/01_host_blocked", "work/triple", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=here, cwd=tmp_path / "work")
        assert done.stdout == "loaded\n", done.stderr


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("vision = no_such_package", "names no_such_package, but there is no such package"),
        ("vision = ..", "names .., but there is no such package"),
        ("vision = fast_vision.filters", "there is no such package"),
        ("vision = fast_vision.kernels", "the package has no folder spaces/"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named_by_the_list(
    point: str, message: str, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"mine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"}
    written(tmp_path, {**CONTENTS, **about, POINTS: f"[tuner.spaces]\n{point}\n"})
    monkeypatch.syspath_prepend(tmp_path)
    assert [d.name for d in importlib.metadata.distributions(path=[str(tmp_path)])] == ["mine"]
    done = tune("list")
    assert (done.status, "sgemm/03_naive" in done.out) == (0, True)
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert wheels.installed()[0] == ()
