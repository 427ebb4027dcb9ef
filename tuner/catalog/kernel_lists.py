"""Lists of the known kernels: shipped ones, the user's own, and those of installed wheels."""

import os
from collections.abc import Iterator
from pathlib import Path

from tuner import paths
from tuner.catalog import kernel_names, known_files, project, wheels
from tuner.catalog.folders import is_space, space_files
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import shown

TUNED, ENVIRONMENT, PROJECT = "file", "TUNER_SPACES", "project "  # origins; a project's continues with its name


@dataclass(frozen=True)
class CatalogEntry:
    """A kernel's name, space file and origin: `tuner`, `project NAME`, `TUNER_SPACES`, `file` or `wheel NAME`."""

    name: str
    file: Path
    origin: str


def names() -> list[str]:
    """The names of the shipped kernels, `family/stage`, sorted."""
    root = os.path.join(paths.shipped("spaces"), "")
    files = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if is_space(name))
    return sorted(file.removeprefix(root).replace(os.sep, "/").removesuffix(".yaml") for file in files)


def shipped() -> list[CatalogEntry]:
    """The kernels that ship with tuner."""
    return [CatalogEntry(name, shipped_file(name), "tuner") for name in names()]


def shipped_file(name: str) -> Path:
    """The space file of a shipped kernel."""
    return paths.shipped("spaces") / f"{name}.yaml"


def own() -> tuple[list[CatalogEntry], list[str]]:
    """The user's kernels, each file once, and messages about files and folders that could not be read. There is no
    message about a file that is only known because it was tuned before, and that is not below the current folder.

    They come from the project of the current folder, the folders in TUNER_SPACES, and the files tuned before, if these
    still exist.
    """
    entries: dict[Path, CatalogEntry] = {}
    problems: list[str] = []
    for file, origin in _own_files(problems):
        resolved = Path(os.path.realpath(file))
        if resolved in entries or kernel_names.is_shipped(resolved):
            continue
        try:
            entries[resolved] = CatalogEntry(kernel_names.of(resolved), file, origin)
        except RequestError as error:
            if not is_elsewhere(file, origin):
                problems.append(str(error))
    return list(entries.values()), list(dict.fromkeys(problems))


def is_elsewhere(file: Path, origin: str) -> bool:
    """Whether a space file is known only because it was tuned before, and is not in the current folder or below it."""
    try:
        return origin == TUNED and not Path(os.path.realpath(file)).is_relative_to(Path.cwd())
    except OSError:  # the current folder has been deleted
        return origin == TUNED


def _own_files(problems: list[str]) -> Iterator[tuple[Path, str]]:
    """The user's space files with their origins. A file may appear several times."""
    try:
        current = project.above(Path.cwd())
    except OSError:  # the current folder has been deleted
        current = None
    except RequestError as error:
        current = None
        problems.append(str(error))
    if current is not None:
        for folder in current.spaces:
            yield from ((file, f"{PROJECT}{current.name}") for file in _in(folder, problems, shown(current.file)))
    for folder in kernel_names.folders_of_environment():
        yield from ((file, ENVIRONMENT) for file in _in(folder, problems, "TUNER_SPACES"))
    try:
        known = known_files.read()
    except RequestError as error:
        problems.append(str(error))
        return
    yield from ((file, TUNED) for file in known if os.path.isfile(file))


def _in(folder: Path, problems: list[str], named_by: str) -> Iterator[Path]:
    found: list[str] = []
    yield from space_files(folder, found)
    problems += [f"{named_by}: {problem}" for problem in found]


def of_wheels() -> tuple[list[CatalogEntry], list[str]]:
    """The kernels of installed wheels, and messages about those that could not be read. Slow."""
    found, problems = wheels.installed()
    messages = list(problems)
    entries = [
        CatalogEntry(wheel.name_of(file), file, f"wheel {wheel.distribution}")
        for wheel in found
        for file in sorted(space_files(wheel.spaces, messages))
    ]
    return entries, messages


def every() -> tuple[list[CatalogEntry], list[str]]:
    """All kernels (shipped, the user's own, from wheels), each file once, and messages about unreadable files."""
    (user_kernels, problems), (wheel_kernels, more) = own(), of_wheels()
    files = {Path(os.path.realpath(entry.file)) for entry in user_kernels}
    rest = [entry for entry in wheel_kernels if Path(os.path.realpath(entry.file)) not in files]
    return [*shipped(), *user_kernels, *rest], [*problems, *more]
