"""What travels with the project: metadata that agree, a sampler of its own, an sdist that installs."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers import ROOT
from helpers.packages import installed
from helpers.processes import Tune, run
from tuner.version import DISTRIBUTION, VERSION

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
SHIPPED = "tuner/_shipped/results/"
STATEMENT = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"][0]


def test_one_licence_and_one_author_are_stated_everywhere() -> None:
    licences = {
        PROJECT["license"],
        CITATION["license"],
        STATEMENT["SPDX-License-Identifier"],
        recipe()["about"]["license"],
    }
    assert licences == {"Apache-2.0"}
    assert STATEMENT["path"] == "**"
    assert (ROOT / "LICENSES/Apache-2.0.txt").read_text() == (ROOT / "LICENSE").read_text()
    authors = [PROJECT["authors"][0]["name"], CITATION["authors"][0]["name"], STATEMENT["SPDX-FileCopyrightText"]]
    assert set(authors) == {"The tuner contributors"}
    assert CITATION["version"] == VERSION


@pytest.mark.slow
def test_setup_that_has_nothing_to_do_says_so(tmp_path: Path) -> None:
    for name in (".ci/setup", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for program in ("python", "tune"):
        (tmp_path / ".venv/bin" / program).write_text('#!/bin/sh\necho "$@"\n')
        (tmp_path / ".venv/bin" / program).chmod(0o755)
    os.utime(tmp_path / "pyproject.toml", (0, 0))
    setup = ("sh", tmp_path / ".ci/setup")
    assert "-e .[opencl]" in run(*setup).stdout
    assert "everything is installed already" in run(*setup).stdout
    assert "-e .[report]" in run(*setup, "report").stdout  # something else
    (tmp_path / "pyproject.toml").touch()
    assert "-e .[opencl]" in run(*setup).stdout  # the package may need something else now
    (tmp_path / ".venv/bin/tune").unlink()
    assert "-e .[opencl]" in run(*setup).stdout


def recipe() -> dict[str, Any]:
    """The conda recipe, with the values of its own context put in."""
    text = (ROOT / "conda/recipe/recipe.yaml").read_text()
    context = yaml.safe_load(text)["context"]
    rendered: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\{ (\w+) \}\}", lambda m: context.get(m[1], m[0]), text))
    return rendered


def in_conda(*requirements: str) -> set[str]:
    """Requirements as conda writes them: a space before the version, and the names of conda-forge's packages."""
    names = {"kernel_tuner": "kernel-tuner", "torch": "pytorch", "matplotlib": "matplotlib-base"}
    parts = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?(.*)", each) for each in requirements]
    return {f"{names.get(part[1], part[1])} {part[2]}" for part in parts if part}


def test_the_conda_recipe_is_of_this_package() -> None:
    conda = recipe()
    assert conda["package"] == {"name": DISTRIBUTION, "version": VERSION}
    assert PROJECT["name"] == DISTRIBUTION
    assert conda["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]
    assert [conda["about"]["license_file"]] == PROJECT["license-files"]
    assert PROJECT["description"].startswith(conda["about"]["summary"])
    for test in conda["tests"]:
        assert all((ROOT / file).is_file() for file in test.get("files", {}).get("source", []))


def test_the_conda_recipe_asks_for_what_the_package_asks_for() -> None:
    asked = recipe()["requirements"]
    python = PROJECT["requires-python"].removeprefix(">=")
    assert set(asked["run"]) == {"__linux", f"python >={python}"} | in_conda(*PROJECT["dependencies"])
    hook = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["dependencies"]
    build = in_conda(*PYPROJECT["build-system"]["requires"], *hook)
    assert set(asked["host"]) == {f"python {python}.*", "pip"} | build


def test_the_conda_recipe_bounds_what_the_extras_ask_for() -> None:
    extras = PROJECT["optional-dependencies"]
    for_work_on_it = "dev", "docs", "methodology"
    used = [each for name in extras for each in extras[name] if name not in for_work_on_it]
    # NVIDIA's own wheels are toolkits of other names there, and a package does not bound itself. The version of Triton
    # is that of an environment's torch: another one than ours is refused where a kernel is compiled, not installed.
    bounded = [each for each in used if not each.startswith(("nvidia-cu", "tuner-gpu", "triton"))]
    assert set(recipe()["requirements"]["run_constraints"]) == in_conda(*bounded)


def files(folder: Path) -> set[str]:
    """The paths of the files in a folder, without those that lock others."""
    found = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock")
    return {file.relative_to(folder).as_posix() for file in found}


@pytest.mark.slow
def test_two_small_wheels_hold_all_results(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = installed(tmp_path_factory)
    packed = {name: _files_of(site, name) for name in (DISTRIBUTION, f"{DISTRIBUTION}-results")}
    assert sum(len(zlib.compress((site / name).read_bytes())) for name in packed[DISTRIBUTION]) < 6_000_000
    first, second = ({name for name in names if name.startswith(SHIPPED)} for names in packed.values())
    assert not first & second
    every = {name.removeprefix(SHIPPED) for name in first | second}
    assert every == files(ROOT / "results") - {"pyproject.toml"}
    assert PROJECT["optional-dependencies"]["results"] == [f"tuner-gpu-results=={VERSION}"]


def _files_of(site: Path, distribution: str) -> set[str]:
    """The paths of what a distribution installed into a folder, without its metadata."""
    (record,) = site.glob(f"{distribution.replace('-', '_')}-{VERSION}.dist-info/RECORD")
    names = {row[0] for row in csv.reader(record.read_text().splitlines())}
    return {name for name in names if ".dist-info/" not in name and not name.startswith("../")}


@pytest.mark.slow
def test_the_sampler_of_optunahub_runs_without_this_package(tmp_path: Path) -> None:
    """Its examples, loaded as OptunaHub loads a module, where `tuner` cannot be imported."""
    subprocess.run([sys.executable, ROOT / "optunahub/assemble.py", tmp_path], check=True, capture_output=True)
    script = f"""
import importlib.util, sys, types, typing
import optuna, scipy.linalg, scipy.optimize, threadpoolctl
sys.modules["tuner"] = None
typing.TYPE_CHECKING = True  # the imports that only annotations need are made, too
def load_module(package):
    spec = importlib.util.spec_from_file_location("pool_gp", f"{tmp_path}/{{package}}/__init__.py")
    sys.modules["pool_gp"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
sys.modules["optunahub"] = types.SimpleNamespace(load_module=load_module)
exec(open("{tmp_path}/samplers/pool_gp/example.py").read())
exec(open("{tmp_path}/samplers/pool_gp/README.md").read().split("```python\\n")[1].partition("```")[0])
assert len(study.trials) == 5
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.125 ")


def test_the_command_tells_its_version(tune: Tune) -> None:
    assert tune("--version").out == f"tune, version {VERSION}\n"


def test_the_page_of_optunahub_has_the_front_matter_that_its_registry_asks_for() -> None:
    page = (ROOT / "optunahub/pool_gp/README.md").read_text()
    front = yaml.safe_load(page.split("---")[1])
    assert front.keys() == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert "sampler" in front["tags"]
    for heading in ("Abstract", "APIs", "Installation", "Example"):
        assert f"\n## {heading}\n" in page
