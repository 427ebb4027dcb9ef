"""Finds kernels by name (shipped, the user's own, from installed wheels) or by the path of a YAML file."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner import paths
from tuner.catalog import form_cache, kernel_names, known_files, project, wheels
from tuner.catalog.folders import SUFFIXES, is_space, space_files
from tuner.classes import dataclass
from tuner.errors import RequestError, TunerError
from tuner.quoting import quoted, shown
from tuner.space import snapshot
from tuner.space.model import Space

TUNED, ENVIRONMENT, PROJECT = "file", "TUNER_SPACES", "project "  # origins; a project's continues with its name
MOST_NAMED = 6  # kernels in a message


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
    return [CatalogEntry(name, _shipped_file(name), "tuner") for name in names()]


def _shipped_file(name: str) -> Path:
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
            if not _is_elsewhere(file, origin):
                problems.append(str(error))
    return list(entries.values()), list(dict.fromkeys(problems))


def _is_elsewhere(file: Path, origin: str) -> bool:
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
        return _shipped_file(kernel), kernel
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
        raise _ambiguous(kernel, matches)
    raise _missing(kernel, candidates, problems) if not anywhere else _only_elsewhere(kernel, anywhere[0])


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


def _ambiguous(kernel: str, matches: list[CatalogEntry]) -> RequestError:
    rest = f" or one of {len(matches) - MOST_NAMED} more" if len(matches) > MOST_NAMED else ""
    if len({entry.name for entry in matches}) == len(matches):
        choices = ", ".join(entry.name for entry in matches[:MOST_NAMED])
        more = "write more of the name"
        if all(entry.name.startswith(f"{kernel}/") for entry in matches):
            more += f"; to use all of them, write `tune {kernel} SIZE` or tuner.dispatch"
        return RequestError(f"kernel {quoted(kernel)} could be {choices}{rest}; {more}")
    choices = ", ".join(shown(entry.file) for entry in matches[:MOST_NAMED])
    return RequestError(
        f"kernel {quoted(kernel)} could be {choices}{rest}; write the path of one, or give their projects "
        "different names (`name` in tuner.toml)"
    )


def _only_elsewhere(kernel: str, entry: CatalogEntry) -> RequestError:
    return RequestError(
        f"kernel {quoted(kernel)}: this project has no such kernel; another copy of the project has it: write "
        f"{shown(entry.file)} to use that file"
    )


def _missing(kernel: str, entries: list[CatalogEntry], problems: list[str]) -> RequestError:
    import difflib

    aliases = {entry.name.rpartition("/")[2]: entry.name for entry in entries}
    aliases |= {entry.name: entry.name for entry in entries}
    near = dict.fromkeys(aliases[match] for match in difflib.get_close_matches(kernel, aliases, n=3))
    hint = f"did you mean {' or '.join(near)}?" if near else "`tune list` shows all kernels, `tune --help` all verbs"
    hint = paths.advice(Path(kernel), SUFFIXES, hint)
    if kernel == "tune":
        hint = "tuning needs no verb: write `tune KERNEL SIZE`"
    elif os.path.isfile(kernel) and not kernel.endswith(SUFFIXES):
        hint = f"it is a file, but not a space file; `tune new {shown(kernel)}` drafts one"
    elif os.path.isdir(kernel):
        hint = "it is a folder; name a space file in it, or one of `tune list`"
    elif _has_records(kernel):
        hint = "there are records of it, but its file is not known; write its path, or add its folder to tuner.toml"
    reason = f"; {problems[0]}" if problems else ""
    return RequestError(f"kernel {quoted(kernel)}: there is no such kernel; {hint}{reason}")


def _has_records(kernel: str) -> bool:
    return ".." not in kernel.split("/") and os.path.isfile(paths.user_results() / f"{kernel.lstrip('/')}.jsonl")


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
            if not _is_elsewhere(entry.file, entry.origin):
                problems.append(str(error))
