"""The package runs on newer versions of Python than the one that CI runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.processes import run

VERSIONS = [f"3.{minor}" for minor in range(sys.version_info.minor + 5, sys.version_info.minor, -1)]


def newest() -> str | None:
    """The newest Python on PATH that is newer than this one, if it starts: a shim of pyenv may not."""
    found = (shutil.which(f"python{version}") for version in VERSIONS)
    return next(
        (path for path in found if path and not subprocess.run([path, "--version"], check=False).returncode), None
    )


@pytest.mark.slow
def test_the_newest_python_that_is_installed_imports_the_package_and_tunes_a_kernel(tmp_path: Path) -> None:
    newer = newest()
    if newer is None:
        pytest.skip(f"no Python newer than 3.{sys.version_info.minor} is on PATH")
    run(newer, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = subprocess.run([*pip, *project["dependencies"]], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"{newer}: a dependency cannot be installed: {installed.stderr.strip()[-200:]}")
    run(*pip, "--no-deps", ROOT)
    assert run(python, "-c", "import tuner; print(tuner.Kernel.__name__)").stdout == "Kernel\n"
    done = run(python, "-m", "tuner", "sgemm/01_host_blocked", "64", "--budget", "4", "--json")
    assert json.loads(done.stdout)["best"]["time_ms"] > 0
