"""The names of kernels in the store: they say where a space file belongs, and stay true on another machine."""

import os
from pathlib import Path

from tuner import paths
from tuner.catalog import known_files, project, wheels
from tuner.catalog.project import Project, safe
from tuner.space.model import Space

MOST_PARTS = 5  # of a file's path that another name of it may have


def of(path: Path) -> str:
    """The name that the store uses for a space file: one of ours if it ships, a wheel's if it is in one; else the
    project's and the path in it.

    A file in no project is called by the folder of TUNER_SPACES that it is in and the path there, else by its folder
    and stem; by more of its path where one of ours, or another file that was tuned, has that name. The name that it was
    tuned with stays. Raises RequestError for a project that cannot be read.
    """
    file = Path(os.path.realpath(path))
    if is_shipped(file):
        root = Path(os.path.realpath(paths.shipped("spaces")))
        return file.relative_to(root).with_suffix("").as_posix()
    if name := wheels.name_of(file):
        return name
    if home := project.above(file.parent):
        return _free(home.name_of(file), home, file)
    known = known_files.read()
    if file in known:
        return known[file]
    holders = {name: holder for holder, name in known.items() if os.path.isfile(holder)}
    candidates = _candidates(file)
    return next((name for name in candidates if name not in holders and not _ships(name)), candidates[-1])


def _free(name: str, home: Project, file: Path) -> str:
    """The name of a file in a project, which is that of no kernel of ours."""
    longer = [
        name,
        "/".join(map(safe, [home.name, home.root.name, *file.relative_to(home.root).with_suffix("").parts])),
    ]
    return next((name for name in longer if not _ships(name)), longer[-1])


def _candidates(file: Path) -> list[str]:
    """What a file outside of projects may be called, the best first."""
    parts = [*map(safe, file.with_suffix("").parts[1:])]
    first = next((len(file.relative_to(f).parts) + 1 for f in folders_of_environment() if file.is_relative_to(f)), 2)
    counts = range(min(first, len(parts)), len(parts) + 1)
    return ["/".join(parts[-count:]) for count in counts]


def _ships(name: str) -> bool:
    return os.path.isfile(paths.shipped("spaces") / f"{name}.yaml")


def is_shipped(file: Path) -> bool:
    """Whether a file, an absolute path without links, is one of ours."""
    return file.is_relative_to(os.path.realpath(paths.shipped("spaces")))


def remember(space: Space) -> None:
    """Keep file and name of a kernel of the user's, so that it is found from every folder."""
    file = _own_file(space)
    if file is not None and wheels.name_of(file) is None:
        known_files.add(file, space.name)


def _own_file(space: Space) -> Path | None:
    """The file of a space, without links; None where it ships."""
    file = Path(os.path.realpath(space.files[0])) if space.files else None
    return None if file is None or is_shipped(file) else file


def other_names(space: Space) -> list[str]:
    """Names under which records of the same file may lie: those of earlier versions, of other machines, and of the time
    before its project had one. They are the ends of its path, with and without the name of its project."""
    file = _own_file(space)
    if file is None:
        return []
    parts = file.with_suffix("").parts[1:]
    ends = [parts[-count:] for count in range(1, min(len(parts), MOST_PARTS) + 1)]
    head = space.name.partition("/")[0]
    found = ["/".join(end) for end in ends[1:]]
    found += ["/".join(map(safe, end)) for end in ends[1:]] + ["/".join([head, *map(safe, end)]) for end in ends]
    return [name for name in dict.fromkeys(found) if name != space.name]


def former_name(space: Space) -> str | None:
    """The name that earlier versions gave to the user's file, its folder and stem, if no other is known by it."""
    file = _own_file(space)
    name = f"{file.parent.name}/{file.stem}" if file is not None else space.name
    if name == space.name or _ships(name):
        return None
    holders = (holder for holder, held in known_files.read().items() if held == name and holder != file)
    return None if any(map(os.path.isfile, holders)) else name


def address(space: Space) -> str:
    """What `load` finds the space by in another process: its name where it has one everywhere, else its file."""
    file = _own_file(space)
    return space.name if file is None or wheels.name_of(file) == space.name else str(file)


def wheel_results(space: Space) -> Path | None:
    """The folder of records beside the space in the package that it is in, if there is one."""
    file = _own_file(space)
    package = None if file is None else wheels.package_of(file)
    return package / "results" if package is not None else None


def folders_of_environment() -> list[Path]:
    """The folders in TUNER_SPACES, without links."""
    folders = os.environ.get("TUNER_SPACES", "").split(os.pathsep)
    return [Path(os.path.realpath(folder)) for folder in dict.fromkeys(folders) if folder]
