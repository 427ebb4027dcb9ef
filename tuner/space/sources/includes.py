"""The text of a kernel file with its headers, which are taken in."""

import errno
import functools
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner import paths
from tuner.errors import SpaceError
from tuner.quoting import shown

MAX_SOURCE = 10_000_000  # characters of a kernel file or header
MOST_KEPT = 64  # texts, because launches ask for one several times
SETTLED_NS = 2_000_000_000  # since a file was written: the clocks of file systems are that coarse
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_REGION = re.compile(r"^[ \t]*#[ \t]*(?:endif|else|elif)\b[^\n\\]*$", re.MULTILINE)  # ends one that may be skipped
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"[^\n]*$|<([^>\n]+)>)', re.MULTILINE)


def defined(macros: Mapping[str, str]) -> str:
    """Macros with these values, one `#define` per line."""
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


def inlined(path: Path, folders: Sequence[Path] = (), macros: Mapping[str, str] | None = None) -> str:
    """The text of `path` with every `#include "..."` expanded. Headers are looked up beside the file, in `folders`, in
    the folder above, and in the shipped kernels (portable.h). Those in <> are looked up in `folders` alone.

    The text then stands alone: it can be hashed, cached, exported and compiled anywhere. Other includes in <> are left
    to the compiler, and none of `macros` is defined in them. Each file is included once. Raises SpaceError for a
    missing file.
    """
    try:
        parts = _parts_of(path, tuple(folders))
        return "".join(part if isinstance(part, str) else part.shielded(macros) for part in parts)
    except RecursionError:
        raise SpaceError(f"{shown(path)}: its headers include one another too deeply; include fewer in a row") from None


@dataclass(frozen=True)
class _Left:
    """An include that is left to the compiler, and the line that says where it is."""

    include: str
    place: str

    def shielded(self, macros: Mapping[str, str] | None) -> str:
        """Without our macros, whose names a system header may use for its own. They are written again after it, because
        NVRTC's push_macro and pop_macro lose them over <mma.h>."""
        if not macros:
            return self.include
        undefined = "".join(f"#undef {name}\n" for name in macros)
        return f"{undefined}{self.place}{self.include}\n{defined(macros)}{self.place}"


_Stamp = tuple[int, int, int] | None  # of a file as it is; None where there is none
_Parts = list[str | _Left]
_kept: dict[tuple[Path, tuple[Path, ...]], tuple[_Parts, Mapping[Path, _Stamp]]] = {}


def _parts_of(path: Path, folders: tuple[Path, ...]) -> _Parts:
    """The text of `path` in parts. They are kept as long as every file that was looked for is as it was then: a launch
    asks for the same text several times."""
    parts, looked_for = _kept.get((path, folders), ([], {}))
    if not parts or any(_stamp(file) != stamp for file, stamp in looked_for.items()):
        files: dict[Path, _Stamp] = {}
        parts = _inlined(path, set(), folders, files)
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        recent = time.time_ns() - SETTLED_NS  # a pipe, and what may change again at the same time, is read each time
        if files[path] and all(stamp is None or stamp[1] < recent for stamp in files.values()):
            _kept[path, folders] = parts, files
    return parts


def _stamp(path: Path) -> _Stamp:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _inlined(path: Path, included: set[Path], folders: Sequence[Path], files: dict[Path, _Stamp]) -> _Parts:
    """The parts, and in `files` what was looked for."""
    files[path] = _stamp(path)
    try:
        text = paths.read_text(path, MAX_SOURCE)
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it says nothing of the file
        raise SpaceError(f"{path}: the kernel file cannot be read: {error}") from None

    def expand(match: re.Match[str]) -> _Parts:
        line = text.count("\n", 0, match.start()) + 1
        folder = path.resolve().parent
        searched = [folder, *folders, folder.parent, paths.shipped("kernels")] if match[1] else folders
        header = next((p for f in searched if files.setdefault(p := f / (match[1] or match[2]), _stamp(p))), None)
        if header is None and match[1] is None:
            return [_Left(match[0], f'#line {line} "{path.name}"\n')]
        if header is None:
            names = ", ".join(map(str, searched))
            raise SpaceError(
                f'{path}:{line}: #include "{match[1]}" is in none of {names}; name its folder in `include:`'
            )
        if header.resolve() in included:
            return []
        included.add(header.resolve())
        inner = _inlined(header, included, folders, files)
        return [f'#line 1 "{header.name}"\n', *inner, f'\n#line {line + 1} "{path.name}"']

    def counted(match: re.Match[str]) -> _Parts:
        line = text.count("\n", 0, match.end()) + 1
        return [f'{match[0]}\n#line {line + 1} "{path.name}"']

    # What stands for an include has more lines, and says where it is. A region that is skipped does not say it.
    places = [*_INCLUDE.finditer(text), *(_REGION.finditer(text) if _INCLUDE.search(text) else ())]
    parts, end = _Parts(), 0
    for place in sorted(places, key=lambda match: match.start()):
        parts += [text[end : place.start()], *(expand(place) if place.re is _INCLUDE else counted(place))]
        end = place.end()
    return [*parts, text[end:]]


@functools.lru_cache(maxsize=MOST_KEPT)
def without_comments(text: str) -> str:
    """C source without comments, blank lines, trailing space and #line directives. Strings stay unchanged."""
    code = _COMMENT.sub(lambda match: match[1] or " ", text)
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip() and not line.startswith("#line "))


@functools.lru_cache(maxsize=MOST_KEPT)
def words(text: str) -> frozenset[str]:
    """The words of the code in C source."""
    return frozenset(_WORD.findall(_STRING.sub("", without_comments(text))))
