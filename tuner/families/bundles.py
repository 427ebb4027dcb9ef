"""Binaries builds that `tuner.dispatch` takes in place of compiling."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.devices import Build, build_cache
from tuner.devices.build_cache import DISPATCH, DISPATCH_FILE, RECORDS, ExportedBinary
from tuner.errors import DeviceError, RequestError

MOST_CHARACTERS = 10_000_000  # of a dispatch.json


@dataclass(frozen=True)
class Binaries:
    """Builds by the digests of their sources. Of a folder that serves a family at any size there is the folder of its
    records, and the architecture that all its builds are for."""

    builds: dict[str, Build] = field(default_factory=dict)
    records: Path | None = None
    architecture: str | None = None
    folder: Path | None = None

    @staticmethod
    def read(folder: Path) -> Binaries:
        """What `tune export --to dispatch` wrote, or `--to cubin`, or a folder of several of the latter. Raises
        RequestError."""
        if (folder / DISPATCH_FILE).is_file():
            return _of_family(folder)
        files = (
            [folder] if (folder / "launch.json").is_file() else sorted(f.parent for f in folder.glob("*/launch.json"))
        )
        if not files:
            raise RequestError(
                f"{folder}: neither it nor a folder in it was written by `tune export --to cubin`, and it was not by "
                "--to dispatch"
            )
        bundled = (build for bundle in files for build in build_cache.read_bundle(bundle, None))
        return Binaries(_by_source(binary for each in bundled for binary in each.binaries))

    def check(self, kind: str, architecture: str) -> None:
        """Raise DeviceError where its builds are for another architecture."""
        if self.architecture is not None and self.architecture != f"{kind} {architecture}":
            raise DeviceError(
                f"{self.folder}: its builds are for {self.architecture}, not for {kind} {architecture}; export it there"
            )


def _by_source(binaries: Any) -> dict[str, Build]:
    return {each.source: Build(each.binary, entries=each.entries) for each in binaries}


def _of_family(folder: Path) -> Binaries:
    try:
        data = json.loads(paths.read_text(folder / DISPATCH_FILE, MOST_CHARACTERS))
        if (data["format"], data["version"]) != DISPATCH:
            raise ValueError(data["format"])
        binaries: list[ExportedBinary] = [build_cache.exported_binary(folder, each) for each in data["binaries"]]
        architecture = f"{data['kind']} {data['architecture']}"
    except OSError as error:
        why = f"{Path(str(error.filename)).name}: {error.strerror}"
    except (ValueError, LookupError, TypeError, RecursionError):
        why = f"{DISPATCH_FILE} is damaged, or of another version"
    else:
        return Binaries(_by_source(binaries), folder / RECORDS, architecture, folder)
    raise RequestError(f"{folder}: not a folder that `tune export --to dispatch` wrote: {why}; export it again")
