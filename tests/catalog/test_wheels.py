"""A wheel ships kernels, spaces and records, which are found without importing it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.own_kernels import SOURCE, SPACE, scaled, wheel
from helpers.processes import Tune
from tuner import paths
from tuner.catalog import wheels

pytestmark = pytest.mark.slow

POINTS = "mine-1.0.dist-info/entry_points.txt"
CONTENTS = {
    "fast_scaling/__init__.py": "raise ImportError('it is not to be imported')\n",
    "fast_scaling/kernels/vector/double.c": SOURCE.format(factor=2),
    "fast_scaling/spaces/vector/double.yaml": SPACE.format(factor=2, source="").replace("source: \n", ""),
    "fast_scaling/kernels/plain.c": SOURCE.format(factor=5),
    "fast_scaling/spaces/plain.yaml": SPACE.format(factor=5, source="").replace("source: \n", ""),
    POINTS: "[tuner.spaces]\nscaling = fast_scaling\n",
}


def installed(folder: Path, **contents: str) -> Path:
    """A folder in which the wheel with these contents is installed."""
    folder.mkdir()
    file = wheel(folder, "mine", {**CONTENTS, **contents})
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check"]
    site = folder / "site"
    done = subprocess.run([*command, "--target", site, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture
def site(tmp_path: Path, tune: Tune) -> Path:
    """Where the wheel is installed; its record was measured here, as its author does, in a project of that name."""
    author = scaled(tmp_path / "author" / "spaces" / "vector", "double")
    (tmp_path / "author" / "tuner.toml").write_text('name = "scaling"\nspaces = ["spaces"]\n')
    done = tune(author, "--device", "host", "--results", tmp_path / "shipped", "--json")
    assert done.json["kernel"] == "scaling/vector/double"
    record = (tmp_path / "shipped" / "scaling/vector/double.jsonl").read_text()
    return installed(tmp_path / "install", **{"fast_scaling/results/scaling/vector/double.jsonl": record})


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
kernel = tuner.load("vector/double", device="host", strict=True)
kernel(y, x)
assert (y == 2).all() and kernel.space.name == "scaling/vector/double"
import pickle
assert pickle.loads(pickle.dumps(kernel)).match == "exact"
print(kernel.match, "fast_scaling" in sys.modules)
"""


@pytest.mark.usefixtures("elsewhere")
def test_kernels_of_a_wheel_are_listed_after_ours_and_launched_with_its_records(tune: Tune, site: Path) -> None:
    rows = tune("list", "--json").json
    assert rows[0]["origin"] == "tuner"
    names = {row["kernel"]: row["origin"] for row in rows if row["origin"] != "tuner"}
    assert names == dict.fromkeys(["scaling/plain", "scaling/vector/double"], "wheel mine")
    assert rows[-1]["origin"] == "wheel mine"
    for kernel in ("scaling/vector/double", "vector/double", str(site / "fast_scaling/spaces/vector/double.yaml")):
        best = tune("best", kernel, "--device", "host", "--json")
        assert best.status == 0, best.err
        assert [best.json[key] for key in ("kernel", "match", "stale")] == ["scaling/vector/double", "exact", False]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    launched = subprocess.run([sys.executable, "-c", LAUNCH], capture_output=True, text=True, check=False, env=here)
    assert (launched.stdout, launched.stderr) == ("exact False\n", "")
    assert "| scaling/vector/double |" in tune("report", "--device", "host").out


@pytest.mark.usefixtures("elsewhere")
def test_the_users_own_records_lie_over_those_of_a_wheel(tune: Tune, site: Path) -> None:
    shipped = site / "fast_scaling/results/scaling/vector/double.jsonl"
    before = shipped.read_bytes()
    tuned = tune("vector/double", "--device", "host", "--fresh", "--json")
    assert tuned.status == 0, tuned.err
    assert tuned.json["stored"]
    (own,) = paths.user_results().rglob("double.jsonl")
    assert own == paths.user_results() / "scaling/vector/double.jsonl"
    best = tune("best", "vector/double", "--device", "host", "--json").json
    assert best["record"]["date"] == json.loads(own.read_text().splitlines()[1])["date"]
    assert shipped.read_bytes() == before
    assert not (site / "fast_scaling/results/scaling/vector/double.lock").exists()


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
        ("scaling = no_such_package", "names no_such_package, but there is no such package"),
        ("scaling = ..", "names .., but there is no such package"),
        ("scaling = fast_scaling.vector", "there is no such package"),
        ("scaling = fast_scaling.kernels", "the package has no folder spaces/"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named_by_the_list(
    point: str, message: str, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, text in {**CONTENTS, POINTS: f"[tuner.spaces]\n{point}\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "mine-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [d.name for d in importlib.metadata.distributions(path=[str(tmp_path)])] == ["mine"]
    done = tune("list")
    assert (done.status, "sgemm/03_naive" in done.out) == (0, True)
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert wheels.installed()[0] == ()
