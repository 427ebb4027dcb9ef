"""The package as users install it, made once for all tests: by the steps of the image that the page about CI has.

There is no daemon of containers here, so the steps run on this machine: as they are written, but in a folder that
stands for the image's root, with a virtual environment, and with programs in place of those that would change this
machine or need a network.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from helpers import ROOT
from helpers.documents import TEXTS, blocks
from helpers.folders import once
from tuner.version import VERSION

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"].keys()
PIP = (
    sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile",
    "--disable-pip-version-check",
)  # fmt: skip
# The same options, as pip takes them from the environment. 0 is what `build_isolation` and `compile` become.
_PIP_SETTINGS = {
    "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_NO_COMPILE": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}  # fmt: skip
# What is not installed already, apt is asked for: it knows the names of packages, and says what it would install.
_APT_GET = """\
case "$1" in update) exit 0 ;; esac
command -v {apt_get} >/dev/null || exit 0
packages=$(shift; for each; do case $each in -*) ;; *) echo "$each" ;; esac; done)
[ "$1" = install ] && dpkg-query -W $packages >/dev/null 2>&1 || exec {apt_get} --simulate "$@"
"""
_PIP = 'exec {python} -m pip --python "$(dirname "$0")/python" "$@"\n'


def installed(factory: pytest.TempPathFactory) -> Path:
    """The folder into which the image's steps install both wheels, without their dependencies, from the sdist."""
    (site,) = (image(factory) / "venv/lib").glob("python*/site-packages")
    return site


def image(factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for the root of the image."""
    return once(factory, "image", _build)


def instructions() -> list[tuple[str, str]]:
    """The instructions of the page's Containerfile, with their arguments."""
    (text,) = blocks(TEXTS["docs/ci.md"], "dockerfile")
    lines = text.replace("\\\n", "").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if not line.startswith("#"))]


def in_image(root: Path, command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """What a command of the image does in a folder of it. `root` stands for the root of the container."""
    words = [root / "venv/bin/python", root / "venv/bin" / command[0], *command[1:]]
    environment = {"HOME": f"{root}/root", "PATH": os.environ["PATH"]}
    return subprocess.run(words, cwd=f"{root}{folder}", env=environment, capture_output=True, text=True, check=False)


def _build(root: Path) -> None:
    run = {"cwd": root, "env": {"HOME": str(root / "root"), **_PIP_SETTINGS}}
    _run(sys.executable, "-m", "venv", "--without-pip", root / "venv")
    (site,) = (root / "venv/lib").glob("python*/site-packages")
    hook = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    build = with_dependencies([*PROJECT["build-system"]["requires"], *hook["dependencies"]])
    (site / "beside.pth").write_text(str(linked(root / "build", build)))
    for name, text in (("apt-get", _APT_GET), ("pip", _PIP)):
        program = root / "venv/bin" / name
        apt_get = shutil.which("apt-get") or "no-apt-get"
        program.write_text("#!/bin/sh\n" + text.format(apt_get=apt_get, python=shlex.quote(sys.executable)))
        program.chmod(0o755)
    run["env"]["PATH"] = f"{root}/venv/bin:{os.environ['PATH']}"
    for word, rest in instructions():
        if word == "RUN":
            inside = re.sub(r"""(?<![^\s'"])/(?=\w)""", f"{root}/", rest)
            assert not re.search(r"(?<![\w*.])/", inside.replace(str(root), "image")), (
                f"it names a path outside: {rest}"
            )
            done = subprocess.run(["sh", "-ec", inside], capture_output=True, text=True, check=False, **run)
            assert done.returncode == 0, f"RUN {rest}\n{done.stdout}{done.stderr}"
            extras = {name for each in re.findall(r"\[([\w,]+)\]", rest) for name in each.split(",")}
            assert extras <= EXTRAS, rest  # without dependencies, pip does not say that there is no such extra
        elif word == "COPY":
            source, target = rest.split()
            assert source == ".", "the checkout, in which the image is built"
            _checkout(Path(f"{root}{target}"))
        elif word == "WORKDIR":
            Path(f"{root}{rest}").mkdir()
        else:
            assert word in ("FROM", "ENTRYPOINT"), word
    (site / "beside.pth").write_text(sysconfig.get_path("purelib"))  # what the two wheels need


def with_dependencies(asked: Iterable[str]) -> set[str]:
    """The distributions that these requirements name, and what they ask for themselves."""
    found, waiting = set[str](), [*map(Requirement, asked)]
    while waiting:
        one = waiting.pop()
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found.add(one.name)
            waiting += map(Requirement, importlib.metadata.requires(one.name) or ())
    return found


def linked(folder: Path, distributions: Collection[str]) -> Path:
    """A new folder in which these distributions are, and nothing else."""
    folder.mkdir()
    for name in distributions:
        files = importlib.metadata.files(name) or []
        for part in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (folder / part).symlink_to(Path(str(importlib.metadata.distribution(name).locate_file(part))))
    return folder


def _checkout(folder: Path) -> None:
    """What Git has of this checkout, as the sdist packs it."""
    with tempfile.TemporaryDirectory() as made:
        _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", made)
        _run("tar", "-xf", Path(made) / f"tuner_gpu-{VERSION}.tar.gz", "-C", made)
        shutil.move(Path(made) / f"tuner_gpu-{VERSION}", folder)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def entry_point() -> list[str]:
    """The image's program, with its first arguments."""
    (entry,) = (json.loads(rest) for word, rest in instructions() if word == "ENTRYPOINT")
    return [*entry]
