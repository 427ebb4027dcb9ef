"""The files that a compiler read, as it lists them, and the folders in which it looked for them."""

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.devices.builds import build_cache
from tuner.devices.builds.headers import Headers
from tuner.devices.commands import process

if TYPE_CHECKING:
    from tuner.space.model import Space

_LOCAL = "/usr/local/include"  # where a compiler looks for headers that somebody has installed by hand
_LIST = re.compile(r"search starts here:\n(.*?)End of search list", re.DOTALL)
_IGNORED = re.compile(r'^ignoring nonexistent directory "(.*)"$', re.MULTILINE)
_GCC = re.compile(r"(.*-)?gcc(-\d+)?")  # the name of its file
# The variables that GCC reads for this. Other programs, such as wrappers, may read more.
_READ_BY_GCC = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
    "LIBRARY_PATH", "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD",
)  # fmt: skip


def read_files(rule: Path) -> list[str]:
    """The files that a compiler read, from the rule of a Makefile that it wrote, each once."""
    names = _prerequisites(rule.read_text(errors="surrogateescape"))
    return list(dict.fromkeys(os.path.abspath(name) for name in names))


def headers(read: Iterable[str], searched: Sequence[str], options: Sequence[str]) -> Headers | None:
    """The files that a compiler `read` or that its options name, found in the folders `searched`; None if one has
    gone."""
    from tuner.devices.builds import header_search  # a launch from the cache searches nothing

    later, absent = header_search.shadowed(list(read), searched)
    named = dict.fromkeys(header_search.files(options), ())
    try:
        return Headers.of({**named, **later}, absent)
    except OSError:
        return None


def surroundings(options: Iterable[str], variables: Iterable[str]) -> str:
    """The folders of headers that environment variables name, and the current one if a folder is relative to it; empty
    if there are none."""
    named = {name: os.environ[name] for name in variables if os.environ.get(name)}
    is_relative = any(map(_is_relative, options))
    if not named and not is_relative:
        return ""
    folders = [folder for value in named.values() for folder in value.split(os.pathsep)]
    is_relative = is_relative or not all(map(os.path.isabs, folders))
    return f" {sorted(named.items())} {os.getcwd() if is_relative else ''}"


def folders(command: Sequence[str], variables: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The folders in which a compiler looks for headers, in their order; before them those that do not exist.

    `command` makes it list them, as `cc -E -v` does; `variables` is its environment. The list of GCC is kept in the
    cache of builds, because each process that compiles needs it.
    """
    return _folders_of(tuple(command), tuple(sorted(variables.items())), os.getcwd())


def contents(space: "Space", options: Sequence[str], variables: Iterable[str]) -> str:
    """A digest of the headers that the sources of a space include from folders of the user's, which `options` and
    environment `variables` name, and of the files that `options` name; empty without any."""
    from tuner.devices.builds import header_search
    from tuner.space.sources.includes import inlined

    listed = [folder for name in variables for folder in os.environ.get(name, "").split(os.pathsep)]
    search = header_search.HeaderSearch([*header_search.folders(options), *filter(None, listed), _LOCAL])
    for path in space.sources:
        search.of_text(inlined(path, space.include))
    files = [file for file in (*search.read, *header_search.files(options)) if os.access(file, os.R_OK)]
    return paths.digest(*(Path(file).read_bytes() for file in files)) if files else ""


def _is_relative(option: str) -> bool:
    """Whether an option of a compiler names a file or folder relative to the current folder."""
    value = re.sub(r"^(-I|-isystem|-iquote|-idirafter|-include|-imacros|-L|--sysroot)=?", "", option)
    return option.startswith(("-I", "-i", "-L", "--sysroot")) and not value.startswith("/")


def _prerequisites(rule: str) -> list[str]:
    """The files that a rule of a Makefile, as a compiler writes it, depends on."""
    words = re.findall(r"(?:\\[ #]|\S)+", rule.partition(":")[2].replace("\\\n", " "))
    return [re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words]


@functools.lru_cache(maxsize=64)
def _folders_of(command: tuple[str, ...], variables: tuple[tuple[str, str], ...], current: str) -> tuple[str, ...]:
    name = _kept_as(command, dict(variables), current)
    if name is not None and (kept := _kept(name)) is not None:
        return kept
    _, log = process.told(command, dict(variables))
    listed = _LIST.search(log)
    lines = listed[1].splitlines() if listed else []
    found = [os.path.abspath(line.strip()) for line in lines if line.startswith(" ")]
    absent = [os.path.abspath(folder) for folder in _IGNORED.findall(log)]
    if name is not None and found:
        build_cache.write(name, json.dumps([absent, found]).encode())
    return (*absent, *found)


def _kept_as(command: Sequence[str], variables: Mapping[str, str], current: str) -> str | None:
    """The name in the cache of builds of what `command` lists; None if it is not GCC."""
    program = os.path.realpath(command[0])
    if not _GCC.fullmatch(os.path.basename(program)):
        return None
    try:
        status = os.stat(program)
    except OSError:
        return None
    read = [variables.get(name) for name in _READ_BY_GCC]
    about = program, status.st_size, status.st_mtime_ns, status.st_ctime_ns, *command[1:], *read, current
    return f"folders-{paths.digest(repr(about))}"


def _kept(name: str) -> tuple[str, ...] | None:
    """The list of this name in the cache of builds; None without one, or if one of the folders has come or gone."""
    try:
        absent, found = json.loads(build_cache.read(name) or b"")
        return None if any(map(os.path.exists, absent)) or not all(map(os.path.isdir, found)) else (*absent, *found)
    except (ValueError, TypeError):
        return None
