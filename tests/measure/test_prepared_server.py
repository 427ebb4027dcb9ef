"""What a fork server imports before its children need it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.processes import wait_until
from tuner.children import child
from tuner.children.child import Child

TOLD = """
import os, sys

def main() -> None:
    print('rarely_needed' in sys.modules, os.environ.get('KMP_DUPLICATE_LIB_OK'), flush=True)
"""


def answer(environment: dict[str, str]) -> str:
    with tempfile.TemporaryFile() as log:
        told = Child("told", log, environment)
        line = told.stdout.readline().decode().strip()
        told.wait()
        told.close()
        return line


def test_a_server_imports_what_it_is_told_when_it_is_idle(tmp_path: Path) -> None:
    """A module that cannot be imported does no harm: whoever needs it reports the error. The same server serves when a
    library has set a variable since."""
    (tmp_path / "told.py").write_text(TOLD)
    (tmp_path / "rarely_needed.py").write_text("")
    environment = {"PYTHONPATH": f"{Path(child.__file__).parents[2]}:{tmp_path}"}
    assert answer(environment) == "False None"
    child.prepare(environment, ["no_such_module", "rarely_needed"])
    wait_until(lambda: answer(environment) == "True None", pause=0.2)
    assert answer({**environment, child.SET_BY_LIBRARIES: "True"}) == "True True"
