"""The scripts of findings/ have the form that CONTRIBUTING.md gives. They need a network, so no test runs them."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from pathlib import Path

import pytest

from helpers import ROOT

SCRIPTS = sorted((ROOT / "findings").iterdir())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_is_an_executable_script_with_a_comment_and_pinned_packages(script: Path) -> None:
    text = script.read_text()
    assert (script.suffix, os.access(script, os.X_OK)) == (".sh", True)
    subprocess.run(["sh", "-n", script], check=True)
    first, *lines = text.splitlines()
    assert first.startswith("#!")
    comment = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    assert 3 <= len(comment) <= 8
    assert re.search("Packages?: |Seen with ", " ".join(comment)), "which version of what"
    packages = re.findall(r"^[^#\n]*pip.* install ([^\n]*)", text, re.MULTILINE)
    assert all("==" in word for line in packages for word in line.split() if re.match(r"[\"']?[a-zA-Z]", word))
