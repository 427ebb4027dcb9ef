"""Exported builds that `tuner.dispatch` takes in place of compiling."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.devices import BACKENDS, Build, Device, bundles
from tuner.devices.bundles import ExportedBinary
from tuner.errors import DeviceError, RequestError
from tuner.space.model import Space
from tuner.space.sources import rendering as sources

DISPATCH = ("tuner dispatch bundle", 2)  # format and version of DISPATCH_FILE
DISPATCH_FILE, RECORDS = "dispatch.json", "records"  # in the folder that serves a family
MOST_CHARACTERS = 10_000_000  # of a dispatch.json


@dataclass(frozen=True)
class Binaries:
    """Builds by the digests of their sources. Of a folder that serves a family at any size there is the folder of its
    records, the code of its kernels by their names, and what all its builds are for."""

    builds: dict[str, Build] = field(default_factory=dict)
    records: Path | None = None
    kernels: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
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
            if not folder.is_dir():
                raise RequestError(f"{folder}: there is no such folder")
            raise RequestError(
                f"{folder}: not a folder that `tune export` wrote by --to dispatch or --to cubin, nor one of the latter"
            )
        bundled = (build for bundle in files for build in bundles.read(bundle, None))
        return Binaries(_by_source(binary for each in bundled for binary in each.binaries))

    def names_of(self, code: str) -> list[str]:
        """The names under which a kernel of this code was exported: its file may have another name here."""
        return [name for name, held in self.kernels.items() if held == code]

    def check_kernels(self, family: str, spaces: Iterable[Space]) -> None:
        """Warn where a kernel of a family is not what it was when it was exported. Raise RequestError where none is."""
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
                why = f"{name} has changed since it was exported: it has no records and no builds there"
            elif code not in codes.values():
                why = f"no kernel of {family} has the code that {name} had when it was exported"
            else:
                continue
            warnings.warn(f"{self.folder}: {why}; export it again", stacklevel=4)

    def check(self, device: Device) -> None:
        """Raise DeviceError where its builds do not run on a device."""
        here = _target(device.kind, device.architecture, device.name)
        if self.target not in (None, here):
            raise DeviceError(f"{self.folder}: its builds are for {self.target}, not for {here}; export it there")


def _target(kind: str, architecture: str, name: str) -> str:
    """What builds of a kind are for: the devices of an architecture, or only those of one name. Of a processor, the
    number of cores at the end of its name does not matter."""
    if BACKENDS[kind].binaries is not None:
        return f"{kind} {architecture}"
    return f"{kind} {architecture}, {re.sub(' x[0-9]+$', '', name)}"


def _some(names: Iterable[str]) -> str:
    """The first name, and how many more there are."""
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
