"""Every test has folders of its own; builds are shared, because compiling again proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tuner import devices
from tuner.cli import app
from tuner.devices import Device
from tuner.space import operation
from tuner.space.model import Scope, Space

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("TUNER_CACHE", str(shared))
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TUNER_RESULTS", str(tmp_path / "results"))


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """The `tune` command, in this process."""

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["tune", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            app.main()
        captured = capsys.readouterr()
        return Done(int(leaving.value.code or 0), captured.out, captured.err)

    return run


def start(*arguments: str, limit: int | None = None) -> subprocess.Popen[str]:
    """The `tune` command in a process of its own, as a shell starts it; `limit` is the largest file in bytes that it
    may write: beyond, writing fails as on a full disk."""
    command = [sys.executable, "-m", "tuner", *arguments]
    if limit is not None:
        command = ["prlimit", f"--fsize={limit}", *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


@pytest.fixture(scope="session")
def opencl() -> Iterator[Device]:
    device = devices.open("opencl")
    yield device
    device.close()


@pytest.fixture(scope="session")
def host() -> Device:
    return devices.open("host")


@pytest.fixture(scope="session")
def cuda() -> Iterator[Device]:
    device = devices.open("cuda")
    yield device
    device.close()


def scope_of(space: Space, device: Device, size: str, **options: float) -> Scope:
    sizes = operation.parse_size(size, space.operation)
    return Scope(sizes, operation.parse_options(options, space.operation), device.language, device.limits)


STAGE = """\
title: a test's own stage
operation: {root}/spaces/sgemm/operation.yaml
kernel: {kernel}
source: {source}
languages: [{languages}]
parameters: {parameters}
{more}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Callable[..., Path]:
    """Writes a stage of the user's own: C source, entry point, parameters, any more YAML."""

    def write(text: str, kernel: str, parameters: str, languages: str = "c", more: str = "") -> Path:
        source = tmp_path / f"{kernel}.{'c' if languages == 'c' else 'cu'}"
        source.write_text(text)
        file = tmp_path / f"{kernel}.yaml"
        file.write_text(
            STAGE.format(root=ROOT, kernel=kernel, source=source, languages=languages, parameters=parameters, more=more)
        )
        return file

    return write
