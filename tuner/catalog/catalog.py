"""Finds kernels by name or by the path of a YAML file, and loads them."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner import paths
from tuner.catalog import form_cache, kernel_names, no_such_kernel, project
from tuner.catalog.folders import SUFFIXES
from tuner.catalog.kernel_lists import (
    ENVIRONMENT,
    PROJECT,
    TUNED,
    CatalogEntry,
    is_elsewhere,
    names,
    of_wheels,
    own,
    shipped,
    shipped_file,
)
from tuner.errors import RequestError, TunerError
from tuner.quoting import quoted
from tuner.space import snapshot
from tuner.space.model import Space


def known(name: str) -> bool:
    """Whether exactly one kernel has this name."""
    if name in names():
        return True
    return len(_here(entry for entry in own()[0] if entry.name == name) or _named(of_wheels()[0], name)) == 1


def _here(entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
    """`entries` without those of other copies of the current project, which are known because they were tuned or
    because TUNER_SPACES names them, and without other files that have a name of this project's."""
    entries = list(entries)
    of_project = {entry.name for entry in entries if entry.origin.startswith(PROJECT)}
    current = _current_project()
    return [
        entry
        for entry in entries
        if entry.origin.startswith(PROJECT) or not (entry.name in of_project or _is_in_a_copy(entry, current))
    ]


def _is_in_a_copy(entry: CatalogEntry, current: project.Project | None) -> bool:
    """Whether a kernel belongs to another project of the current project's name."""
    if current is None or not entry.name.startswith(f"{current.name}/") or entry.origin not in (TUNED, ENVIRONMENT):
        return False
    home = project.above(Path(os.path.realpath(entry.file)).parent)
    return home is not None and home.name == current.name and home.root != current.root


def _current_project() -> project.Project | None:
    """The project of the current folder; None if it has none, or if one cannot be told."""
    with contextlib.suppress(OSError, RequestError):  # the folder has been deleted, or `own` reports the error
        return project.above(Path.cwd())
    return None


def _named(entries: Iterable[CatalogEntry], name: str) -> list[CatalogEntry]:
    return [entry for entry in entries if entry.name == name]


def find(kernel: str) -> tuple[Path, str]:
    """The file and the name of `kernel`: a name such as `sgemm/06_tiled`, a unique part of one, or a YAML file's path.

    Raises RequestError, with the nearest names, if no kernel or several kernels match.
    """
    path = Path(kernel)
    if path.suffix in SUFFIXES:
        if not os.path.isfile(path):
            near = paths.advice(path, SUFFIXES, "name a file, or one of `tune list`")
            raise RequestError(f"kernel {quoted(kernel)}: there is no such file; {near}")
        return path, kernel_names.of(path)
    if kernel in names():
        return shipped_file(kernel), kernel
    user_kernels, problems = own()
    candidates = [*shipped(), *user_kernels]
    anywhere = _matches(candidates, kernel)
    matches = _here(anywhere)
    if not matches:
        wheel_kernels, more = of_wheels()
        candidates, problems = [*candidates, *wheel_kernels], [*problems, *more]
        matches = _matches(wheel_kernels, kernel)
    if len(matches) == 1:
        return matches[0].file, matches[0].name
    if matches:
        raise no_such_kernel.ambiguous(kernel, matches)
    if anywhere:
        raise no_such_kernel.only_elsewhere(kernel, anywhere[0])
    raise no_such_kernel.missing(kernel, candidates, problems)


def _matches(entries: Iterable[CatalogEntry], kernel: str) -> list[CatalogEntry]:
    """The entries with this name; if there are none, those in the folder of this name, else those whose names contain
    it.

    Our kernels in Triton count only if no others match: most have the name of one in CUDA and OpenCL.
    """
    entries = list(entries)
    parts = [entry for entry in entries if is_part(kernel, entry.name)]
    inside = [entry for entry in parts if entry.name.startswith(f"{kernel}/")]
    others = [entry for entry in parts if not _is_ours_in_triton(entry)]
    return _named(entries, kernel) or inside or others or parts


def is_part(text: str, name: str) -> bool:
    """Whether `text` is a part of a kernel's name. Punctuation alone is none: `.` denotes a folder."""
    return text in name and any(map(str.isalnum, text))


def _is_ours_in_triton(entry: CatalogEntry) -> bool:
    return entry.origin == "tuner" and entry.name.startswith("triton/")


def load(kernel: str | Space) -> Space:
    """The Space of `kernel`, from its launch form if that is up to date, else from its YAML. If `kernel` is a Space,
    it is returned as it is.

    Reading YAML is slow, because it imports pydantic and yaml. Launch forms therefore ship with the package, and new
    ones are cached for the next launch. In a block of `snapshot.kept` a kernel is read once, with all its files. Raises
    RequestError if there is no such kernel or its file is invalid.
    """
    if isinstance(kernel, Space):
        return _with_files(kernel)
    return snapshot.once(("space", kernel), lambda: _kept(*find(kernel)))


def _kept(path: Path, name: str) -> Space:
    """The Space in a file. In a block of `snapshot.kept`, the files that it names are read at once, too; from then on,
    `load` finds the Space by its name even if these files vanish."""
    space = snapshot.once(("space", os.path.realpath(path)), lambda: _with_files(_read(path, name)))
    return snapshot.once(("space", space.name), lambda: space)


def _with_files(space: Space) -> Space:
    if snapshot.is_kept():
        from tuner.space import identity

        with contextlib.suppress(TunerError):  # whatever uses the file reports the error
            identity.of(space)
    return space


def _read(path: Path, name: str) -> Space:
    space = form_cache.find(path, name)
    if space is not None:
        return space
    try:
        from tuner.space.file import reader
    except ModuleNotFoundError as missing:
        raise RequestError(
            f"{path}: reading it needs {missing.name}, which is not installed; pip install pydantic pyyaml, or load "
            f"{name} on a machine that has it, copy that machine's cache folder, and set TUNER_CACHE to the copy"
        ) from None
    space = reader.read(path, name)
    form_cache.keep(path, space)
    return space


def loaded(entries: Iterable[CatalogEntry], problems: list[str]) -> Iterator[tuple[CatalogEntry, Space]]:
    """Each of `entries` with its Space. An entry with an invalid file is skipped, and `problems` gets a message, unless
    the file is only known from tuning it in another folder."""
    for entry in entries:
        try:
            yield entry, _read(entry.file, entry.name)
        except TunerError as error:
            if not is_elsewhere(entry.file, entry.origin):
                problems.append(str(error))
