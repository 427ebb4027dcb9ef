"""Read exported builds, with which `tuner.dispatch` runs without compiling."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.classes import dataclass
from tuner.devices import BACKENDS, Build, Device
from tuner.devices.builds import bundles
from tuner.devices.builds.bundles import ExportedBinary
from tuner.errors import DeviceError, RequestError
from tuner.space.model import Space
from tuner.space.sources import rendering as sources

DISPATCH = ("tuner dispatch bundle", 2)  # format and version of DISPATCH_FILE
DISPATCH_FILE, RECORDS = "dispatch.json", "records"  # in a folder that `tune export --to dispatch` wrote
MOST_CHARACTERS = 10_000_000  # of a dispatch.json


@dataclass(frozen=True)
class Binaries:
    """Exported builds, by the digests of their sources.

    The other fields are set only for a folder that `tune export --to dispatch` wrote: `folder` itself; `records`, its
    folder of records; `kernels`, the code of each exported kernel by name; and `target`, the devices that its builds
    are for, in words.
    """

    builds: dict[str, Build] = field(default_factory=dict)
    records: Path | None = None
    kernels: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    folder: Path | None = None

    @staticmethod
    def read(folder: Path) -> Binaries:
        """Read a folder that `tune export` wrote with `--to dispatch` or `--to cubin`, or a folder of the latter.

        Raises RequestError if it is none of these.
        """
        if (folder / DISPATCH_FILE).is_file():
            return _of_family(folder)
        files = (
            [folder] if (folder / "launch.json").is_file() else sorted(f.parent for f in folder.glob("*/launch.json"))
        )
        if not files:
            if not folder.is_dir():
                raise RequestError(f"{folder}: there is no such folder")
            raise RequestError(
                f"{folder}: not a folder that `tune export` wrote with --to dispatch or --to cubin, and no folder of "
                "the latter"
            )
        bundled = (build for bundle in files for build in bundles.read(bundle, None))
        return Binaries(_by_source(binary for each in bundled for binary in each.binaries))

    def names_of(self, code: str) -> list[str]:
        """The names under which a kernel with this code was exported; its file may have another name now."""
        return [name for name, exported in self.kernels.items() if exported == code]

    def check_kernels(self, family: str, spaces: Iterable[Space]) -> None:
        """Warn about each kernel that has changed since the export. Raises RequestError if all have."""
        if not self.kernels:
            return
        codes = {space.name: sources.code(space) for space in spaces}
        if set(codes.values()).isdisjoint(self.kernels.values()):
            raise RequestError(
                f"{self.folder}: was exported for {_some(self.kernels)}; no kernel of {family} has that code; dispatch "
                "what was exported, or export it again"
            )
        for name, code in self.kernels.items():
            if name in codes and not self.names_of(codes[name]):
                why = f"{name} has changed since it was exported: the export has no records and no builds for it"
            elif code not in codes.values():
                why = f"no kernel of {family} has the code that {name} had when it was exported"
            else:
                continue
            warnings.warn(f"{self.folder}: {why}; export it again", stacklevel=4)

    def check(self, device: Device) -> None:
        """Raise DeviceError if the builds do not run on this device."""
        target = _target(device.kind, device.architecture, device.name)
        if self.target not in (None, target):
            raise DeviceError(f"{self.folder}: its builds are for {self.target}, not for {target}; export it there")


def _target(kind: str, architecture: str, name: str) -> str:
    """The devices on which builds run, in words: those of an architecture, or only those of one name.

    The number of cores at the end of a CPU's name is ignored.
    """
    if BACKENDS[kind].binaries is not None:
        return f"{kind} {architecture}"
    return f"{kind} {architecture}, {re.sub(' x[0-9]+$', '', name)}"


def _some(names: Iterable[str]) -> str:
    """The first name and the number of others, in words."""
    first, *others = names
    return f"{first} and {len(others)} more" if others else first


def _by_source(binaries: Any) -> dict[str, Build]:
    return {each.source: Build(each.binary, entries=each.entries) for each in binaries}


def _of_family(folder: Path) -> Binaries:
    try:
        data = json.loads(paths.read_text(folder / DISPATCH_FILE, MOST_CHARACTERS))
        if (data["format"], data["version"]) != DISPATCH:
            raise ValueError(data["format"])
        binaries: list[ExportedBinary] = [bundles.exported_binary(folder, each) for each in data["binaries"]]
        kernels = {str(name): str(code) for name, code in data["kernels"].items()}
        target = _target(data["kind"], str(data["architecture"]), str(data["device"]))
    except OSError as error:
        why = f"{Path(str(error.filename)).name}: {error.strerror}"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        why = f"{DISPATCH_FILE} is damaged, or of another version"
    else:
        return Binaries(_by_source(binaries), folder / RECORDS, kernels, target, folder)
    raise RequestError(f"{folder}: not a folder that `tune export --to dispatch` wrote: {why}; export it again")
