"""Derives the name of a kernel in the store from the location of its space file, the same on every machine."""

import functools
import os
from pathlib import Path

from tuner import paths
from tuner.catalog import known_files, project, wheels
from tuner.catalog.project import Project, safe
from tuner.space.model import Space

MOST_PARTS = 5  # trailing parts of a file's path in `other_names`


def of(path: Path) -> str:
    """The name that the store uses for a space file.

    Shipped files are named by their path in `spaces`, files of wheels by the wheel and their path in it, files of a
    project by the project and their path in it. Any other file is named by its folder in TUNER_SPACES and the path in
    there, else by its folder and stem. It gets more parts of its path if a shipped kernel, or another file tuned
    before, has that name. A file tuned before keeps its name. Raises RequestError if a project file is invalid.
    """
    file = Path(os.path.realpath(path))
    if is_shipped(file):
        return file.relative_to(_real(paths.shipped("spaces"))).with_suffix("").as_posix()
    if name := wheels.name_of(file):
        return name
    if home := project.above(file.parent):
        return _unshipped_name(home.name_of(file), home, file)
    known = known_files.read()
    if file in known:
        return known[file]
    holders = {name: holder for holder, name in known.items() if os.path.isfile(holder)}
    candidates = _candidates(file)
    return next((name for name in candidates if name not in holders and not _ships(name)), candidates[-1])


def _unshipped_name(name: str, home: Project, file: Path) -> str:
    """The name of a file in a project: `name`, or a longer one if a shipped kernel has `name`."""
    longer = [
        name,
        "/".join(map(safe, [home.name, home.root.name, *file.relative_to(home.root).with_suffix("").parts])),
    ]
    return next((name for name in longer if not _ships(name)), longer[-1])


def _candidates(file: Path) -> list[str]:
    """The possible names of a file outside of projects, shortest first."""
    parts = [*map(safe, file.with_suffix("").parts[1:])]
    first = next((len(file.relative_to(f).parts) + 1 for f in folders_of_environment() if file.is_relative_to(f)), 2)
    counts = range(min(first, len(parts)), len(parts) + 1)
    return ["/".join(parts[-count:]) for count in counts]


def _ships(name: str) -> bool:
    return os.path.isfile(paths.shipped("spaces") / f"{name}.yaml")


def is_shipped(file: Path) -> bool:
    """Whether `file` (an absolute path without links) ships with tuner."""
    return _is_below(file, _real(paths.shipped("spaces")))


@functools.lru_cache(maxsize=4)
def _real(shipped: Path) -> str:
    """The path of a folder that ships, without links. A first launch asks some hundred times."""
    return os.path.realpath(shipped)


def _is_below(file: Path, folder: str | Path) -> bool:
    return str(file).startswith(f"{folder}{os.sep}") and ".." not in file.parts


def remember(space: Space) -> None:
    """Remember the file and the name of a user's kernel, so that it is found from every folder."""
    file = _own_file(space)
    if file is not None and wheels.name_of(file) is None:
        known_files.add(file, space.name)


def _own_file(space: Space) -> Path | None:
    """The file of a space, without links; None if it ships with tuner."""
    if not space.files or _is_below(space.files[0], _real(paths.shipped("spaces"))):
        return None
    file = Path(os.path.realpath(space.files[0]))
    return None if is_shipped(file) else file


def other_names(space: Space) -> list[str]:
    """Other names under which the store may have records of the same file.

    Earlier versions, other machines, and runs from before its project had a name may have used them. They are the
    trailing parts of its path, with and without the name of its project, and the names of tuned files that are called
    like it and are gone, because their folder may have become its folder.
    """
    file = _own_file(space)
    if file is None:
        return []
    parts = file.with_suffix("").parts[1:]
    ends = [parts[-count:] for count in range(1, min(len(parts), MOST_PARTS) + 1)]
    head = space.name.partition("/")[0]
    found = ["/".join(end) for end in ends[1:]]
    found += ["/".join(map(safe, end)) for end in ends[1:]] + ["/".join([head, *map(safe, end)]) for end in ends]
    alike = f"{os.sep}{file.name}"
    found += [n for known, n in known_files.read().items() if str(known).endswith(alike) and not os.path.isfile(known)]
    return [name for name in dict.fromkeys(found) if name != space.name]


def names_elsewhere(space: Space, results: Path) -> list[str]:
    """Names in the folder `results` of files that are called like the space's and are unknown on this machine.

    Records that were merged have them, if the file's folder has another name on the machine that tuned it.
    """
    if _own_file(space) is None:
        return []
    found = [f"{file.parent.name}/{file.stem}" for file in results.glob(f"*/{space.name.rpartition('/')[2]}.jsonl")]
    here = {name for known, name in known_files.read().items() if os.path.isfile(known)}
    return sorted(name for name in found if name not in here and name != space.name and not _ships(name))


def former_name(space: Space) -> str | None:
    """The name that earlier versions used: folder and stem. None for shipped files, or if another file has it."""
    file = _own_file(space)
    name = f"{file.parent.name}/{file.stem}" if file is not None else space.name
    if name == space.name or _ships(name):
        return None
    holders = (holder for holder, held in known_files.read().items() if held == name and holder != file)
    return None if any(map(os.path.isfile, holders)) else name


def address(space: Space) -> str:
    """What `load` takes to find the space in another process: its name if shipped or in a wheel, else its file."""
    file = _own_file(space)
    return space.name if file is None or wheels.name_of(file) == space.name else str(file)


def wheel_results(space: Space) -> Path | None:
    """The folder `results` of the package that the space is in; None if it is in no package."""
    file = _own_file(space)
    package = None if file is None else wheels.package_of(file)
    return package / "results" if package is not None else None


def project_results(space: Space) -> Path | None:
    """The folder that the space's project names by `results` under `[options]`, with which commands tune.

    None if the space is in no project, if its project names none, or if TUNER_RESULTS precedes it.
    """
    file = _own_file(space)
    if file is None or os.environ.get("TUNER_RESULTS"):
        return None
    home = project.above(file.parent)
    named = home.options.get("results") if home else None
    return home.root / named if home and named and isinstance(named, str) else None


def folders_of_environment() -> list[Path]:
    """The folders in TUNER_SPACES, without links."""
    folders = os.environ.get("TUNER_SPACES", "").split(os.pathsep)
    return [Path(os.path.realpath(folder)) for folder in dict.fromkeys(folders) if folder]
