"""Run by hatchling when it makes a wheel: puts in the launch form of every space, which is read instead of its YAML."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LaunchForms(BuildHookInterface[Any]):
    """Makes the forms as a first load does, in a cache of its own, and adds them to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._cache = tempfile.TemporaryDirectory()
        os.environ["TUNER_CACHE"] = self._cache.name
        sys.path.insert(0, self.root)
        from tuner.catalog import catalog

        for name in catalog.names():
            catalog.load(name)
        build_data["force_include"][f"{self._cache.name}/forms"] = "tuner/_shipped/forms"
