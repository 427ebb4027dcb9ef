"""Finds third-party packages that ship kernels, spaces and records, without importing them.

A distribution names such a package by an entry point of the group `tuner.spaces`. Reading entry points is slow, so it
is done only to list kernels, and for names that are found nowhere else.
"""

import functools
import os
import sys
from pathlib import Path

from tuner.catalog.project import safe
from tuner.classes import dataclass

GROUP = "tuner.spaces"


@dataclass(frozen=True)
class Wheel:
    """A package with the folders `kernels`, `spaces` and `results`.

    `name` is the entry point's name and the first part of its kernels' names. `distribution` is the name of the
    installed distribution.
    """

    name: str
    distribution: str
    folder: Path

    @property
    def spaces(self) -> Path:
        return self.folder / "spaces"

    def name_of(self, file: Path) -> str:
        """The kernel name of one of its space files."""
        return "/".join([self.name, *map(safe, file.relative_to(self.spaces).with_suffix("").parts)])


def installed() -> tuple[tuple[Wheel, ...], tuple[str, ...]]:
    """The installed wheels, sorted by name, and messages about entry points whose packages cannot be found."""
    return _installed(tuple(sys.path))


@functools.lru_cache(maxsize=4)
def _installed(_path: tuple[str, ...]) -> tuple[tuple[Wheel, ...], tuple[str, ...]]:
    from importlib import metadata

    found: list[Wheel] = []
    problems: list[str] = []
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        distribution = point.dist.name if point.dist else "a distribution"
        folder = _folder(point.value)
        if folder is None or not (folder / "spaces").is_dir():
            problem = "there is no such package" if folder is None else "the package has no folder spaces/"
            problems.append(
                f"{distribution}: its entry point {GROUP} names {point.value}, but {problem}; install it again"
            )
        else:
            found.append(Wheel(safe(point.name), distribution, folder))
    return tuple(found), tuple(problems)


def _folder(module: str) -> Path | None:
    """The folder of the package `module`, found without importing it; None if there is none."""
    from importlib.util import find_spec

    top, *rest = module.strip().split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return None
    locations = list(spec.submodule_search_locations or ()) if spec else []
    folders = (Path(os.path.realpath(location)).joinpath(*rest) for location in locations)
    return next((folder for folder in folders if folder.is_dir()), None)


def package_of(file: Path) -> Path | None:
    """The importable package whose `spaces` contains `file` (an absolute path without links); None if none does."""
    for entry in _import_folders(tuple(map(os.path.abspath, sys.path))):
        if file.is_relative_to(entry):
            parts = file.relative_to(entry).parts
            if "spaces" in parts[1:-1]:
                return Path(entry, *parts[: parts.index("spaces", 1)])
    return None


@functools.lru_cache(maxsize=4)
def _import_folders(folders: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of `sys.path`, without links."""
    return tuple(dict.fromkeys(map(os.path.realpath, folders)))


def name_of(file: Path) -> str | None:
    """The kernel name of `file`; None if it is not in a wheel."""
    package = package_of(file)
    if package is None or not _is_installed(package):
        return None
    return next((wheel.name_of(file) for wheel in installed()[0] if wheel.folder == package), None)


def _is_installed(package: Path) -> bool:
    """Whether the import folder of a package has installed distributions (*.dist-info)."""
    for folder in package.parents:
        if str(folder) in _import_folders(tuple(map(os.path.abspath, sys.path))):
            try:
                return any(name.endswith(".dist-info") for name in os.listdir(folder))
            except OSError:
                return False
    return False
