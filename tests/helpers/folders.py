"""Folders that all processes of a test run share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def common(factory: pytest.TempPathFactory) -> Path:
    """The folder of this run of the tests, whichever of its processes asks."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]) -> Path:
    """The folder of this name, which the first process that asks for it fills: what takes seconds is made once."""
    folder = common(factory) / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            new = folder.with_suffix(".new")
            new.mkdir()
            fill(new)
            new.rename(folder)
    return folder
