"""Test modules that are imported before their tests are collected."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from _pytest.pathlib import import_path


def load(files: Iterable[Path], config: pytest.Config) -> None:
    """Import test modules as the collection does, which then finds them.

    It imports those again that cannot be imported, and reports their errors.
    """
    mode, namespaces = config.getoption("--import-mode"), config.getini("consider_namespace_packages")
    for file in files:
        before = {*sys.modules}
        try:
            import_path(file, mode=mode, root=config.rootpath, consider_namespace_packages=namespaces)
        except BaseException:
            for name in {*sys.modules} - before:
                if getattr(sys.modules[name], "__file__", None) == str(file):
                    del sys.modules[name]
