"""Exported builds: folders of cubins that `tune export` writes, and binaries in any exported folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.classes import dataclass
from tuner.devices.builds.build import Needs, needs_from, needs_json
from tuner.errors import RequestError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.devices.builds.build import Build

BUNDLE = ("tuner bundle", 2)  # format and version of launch.json
_MOST_CHARACTERS = 10_000_000  # of a launch.json


@dataclass(frozen=True)
class ExportedBinary:
    """A binary of an exported build. `source` is the digest of its Source. `entries` maps a kernel's name in the source
    to its name in the binary, if they differ. `needs` are those of the build."""

    source: str
    binary: bytes
    entries: dict[str, str]
    needs: dict[str, Needs]


@dataclass(frozen=True)
class ExportedBuild:
    """A build in a bundle: a configuration, and a binary for each of its sources."""

    architecture: str
    config: dict[str, Any]
    binaries: tuple[ExportedBinary, ...]


def read(bundle: Path, kernel: str | None) -> list[ExportedBuild]:
    """The builds in a bundle. Raises RequestError if the folder is no bundle, or if `kernel` is not None and the bundle
    was exported for another kernel."""
    try:
        data = json.loads(paths.read_text(bundle / "launch.json", _MOST_CHARACTERS))
        if data["format"] != BUNDLE[0]:
            raise ValueError(data["format"])
        if data["version"] != BUNDLE[1]:
            raise RequestError(
                f"{bundle}: launch.json has version {quoted(data['version'])}; this tuner reads version {BUNDLE[1]}; "
                "export it again"
            )
        if kernel is not None and _stem(str(data["kernel"])) != _stem(kernel):
            # compares the last part only: the space's folder may have been renamed
            raise RequestError(f"{bundle}: was exported for {shown(str(data['kernel']))}, not for {kernel}")
        return [
            ExportedBuild(
                str(build["architecture"]),
                dict(build["config"]),
                tuple(exported_binary(bundle, cubin) for cubin in build["cubins"]),
            )
            for build in data["builds"]
        ]
    except OSError as error:
        why = f"{Path(str(error.filename)).name}: {error.strerror}"
    except (ValueError, LookupError, TypeError, RecursionError):
        why = "launch.json is damaged"
    raise RequestError(f"{bundle}: not a folder that `tune export --to cubin` wrote: {why}; export it again")


def exported_binary(bundle: Path, data: dict[str, Any]) -> ExportedBinary:
    """Read the binary of a bundle that `data` describes. Raises RequestError if its checksum differs."""
    file = bundle / Path(data["file"]).name
    binary = file.read_bytes()
    if paths.digest(binary) != data["checksum"]:  # loading it might crash the process
        raise RequestError(f"{bundle}: {shown(file.name)} has changed since it was exported; export it again")
    entries = {str(kernel): str(entry) for kernel, entry in data["entries"].items()}
    return ExportedBinary(str(data["source"]), binary, entries, needs_from(data))


def binary_json(file: str, source: str, build: Build) -> dict[str, Any]:
    """The JSON object that describes a binary, for `exported_binary`. `source` is the digest of its Source."""
    checksum = paths.digest(build.binary)
    return {"file": file, "source": source, "checksum": checksum, "entries": dict(build.entries), **needs_json(build)}


def _stem(kernel: str) -> str:
    """The last part of a kernel's name."""
    return kernel.rpartition("/")[2]
