"""The package as users install it, made once for all tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.folders import once
from tuner.version import VERSION

PIP = (
    sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile",
    "--disable-pip-version-check",
)  # fmt: skip


def installed(factory: pytest.TempPathFactory) -> Path:
    """The folder into which the sdist is installed, without its dependencies."""
    return once(factory, "installed", _install)


def _install(site: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
        _run(*PIP, "--target", site, Path(folder) / f"tuner_gpu-{VERSION}.tar.gz")


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
