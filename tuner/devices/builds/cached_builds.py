"""Builds in the cache: the binary in one file, the rest beside it, and whether both are still of their source."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.devices.builds import build_cache
from tuner.devices.builds.build import Build, needs_from, needs_json
from tuner.devices.builds.figures import Figures
from tuner.devices.builds.headers import Headers, may_read
from tuner.devices.builds.interface import Interface

if TYPE_CHECKING:
    from tuner.space.sources.source import Source


def find(name: str, source: Source, trusted: bool = False) -> Build | None:
    """The cached build `name`. None if it is missing or damaged, or if a file has changed that its compiler read.

    A build of an earlier version does not say which files that were. It serves if its source includes none, or if it is
    `trusted`.
    """
    binary, figures = build_cache.read(name), build_cache.read(name + build_cache.FIGURES)
    if binary is None or figures is None:
        return None
    try:
        metadata = json.loads(figures)
        by_kernel = {kernel: Figures.from_json(data) for kernel, data in metadata["figures"].items()}
        layout = metadata.get("interface")  # missing in builds of earlier versions
        interface = None if layout is None else Interface.from_json(layout)
        needs = needs_from(metadata)
        build = Build(
            binary, by_kernel, fresh=False, entries=dict(metadata["entries"]), interface=interface, needs=needs
        )
        if metadata.get("headers") is None:
            return build if trusted or not may_read(source.text, source.options) else None
        kept = Headers.from_json(metadata["headers"])
    except (ValueError, TypeError, AttributeError, KeyError):  # written by another version of this package
        return None
    headers = kept.now()
    if headers is None:
        return None
    build = replace(build, headers=headers)
    if headers != kept:  # other times, but the same content: it need not be read again
        _write_metadata(name, build)
    return build


def keep(name: str, source: Source, build: Build) -> None:
    """Write a build to the cache as `name`, unless it is unknown which files the compiler read for it."""
    if build.headers is None and may_read(source.text, source.options):
        return
    _write_metadata(name, replace(build, headers=build.headers or Headers()))
    build_cache.write(name, build.binary)


def _write_metadata(name: str, build: Build) -> None:
    """Write everything but the binary of a build to the cache."""
    metadata = {
        "figures": {kernel: figures.to_json() for kernel, figures in build.figures.items()},
        "entries": dict(build.entries),
        "interface": build.interface and build.interface.to_json(),
        "headers": build.headers and build.headers.to_json(),
        **needs_json(build),
    }
    build_cache.write(name + build_cache.FIGURES, json.dumps(metadata).encode())
