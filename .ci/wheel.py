"""Run by hatchling when it makes a wheel: puts in the records, and the launch form of every space, which is read
instead of its YAML. What else results/ holds is in a wheel of its own, which results/pyproject.toml describes."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SMALL = (".json", ".jsonl")  # the ceilings and the records


class Contents(BuildHookInterface[Any]):
    """Makes the forms as a first load does, in a cache of its own, and adds them to the wheel with the records."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._cache = tempfile.TemporaryDirectory()
        os.environ["TUNER_CACHE"] = self._cache.name
        sys.path.insert(0, self.root)
        from tuner.catalog import catalog, kernel_lists

        for name in kernel_lists.names():
            catalog.load(name)
        included = build_data["force_include"]
        included[f"{self._cache.name}/forms"] = "tuner/_shipped/forms"
        results = Path(self.root, "results")
        for file in sorted(results.rglob("*")):
            if file.suffix in SMALL and "recordings" not in file.parts:
                included[str(file)] = f"tuner/_shipped/results/{file.relative_to(results)}"
