"""A kind of device is one folder and one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.short_finals import TUNE

pytestmark = pytest.mark.slow

TOY = '''\
"""The host under another name."""

from dataclasses import replace

from tuner.devices.base import Device
from tuner.devices.host import BACKEND as HOST


def _open(number: int) -> Device:
    from tuner.devices.host.device import HostDevice

    class ToyDevice(HostDevice):
        kind = BACKEND.kind

        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.id = "toy:0"

    return ToyDevice(number)


BACKEND = replace(HOST, kind="toy", open=_open)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package that has one more backend."""
    devices = tmp_path / "copy" / "tuner" / "devices"
    shutil.copytree(ROOT / "tuner", devices.parent)
    (devices / "toy").mkdir()
    (devices / "toy" / "__init__.py").write_text(TOY)
    table = devices.parent / "languages.py"
    before, kinds, after = table.read_text().partition("KINDS = (\n")
    entries, end, rest = after.partition(")\n")
    table.write_text(f'{before}{kinds}{entries}    "toy",\n{end}{rest}')
    return devices.parent.parent


def test_a_fourth_backend_is_one_folder_and_one_line(package: Path, stage: Stage) -> None:
    kernel = str(stage(c_kernel("product", MULTIPLY), "product", "{unused: [1, 2]}"))

    def tune(*arguments: str) -> Any:
        command = [sys.executable, *TUNE, *arguments, "--json"]
        environment = {**os.environ, "PYTHONPATH": str(package)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=package, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert {"host:0", "toy:0"} <= {row["device"] for row in tune("devices")}
    tuned = tune(kernel, "8", "--device", "toy", "--repeats", "1")
    assert (tuned["evaluated"], tuned["failed"], tuned["stored"]) == (2, {}, True)
    best = tune("best", kernel, "8", "--device", "toy")
    assert (best["match"], best["record"]["kind"]) == ("exact", "toy")
    ran = tune("run", kernel, "8", "--device", "toy")
    assert (ran["verified"], ran["config"]) == (True, best["config"])
    assert tune("best", kernel, "8")["match"] == "other_device", "the first that speaks C is the host still"
