"""Kernel files with their headers inlined, and C source without comments."""

import errno
import functools
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import SpaceError
from tuner.quoting import shown
from tuner.space import snapshot
from tuner.space.sources.library_headers import OF_COMPILERS, OF_CUDA

MAX_SOURCE = 10_000_000  # characters of a kernel file or header
MOST_CACHED = 64  # texts; a launch asks for the same text several times
SETTLED_NS = 2_000_000_000  # a younger file may change again without a new time stamp: some file systems count in 2 s
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_REGION = re.compile(r"^[ \t]*#[ \t]*(?:endif|else|elif)\b[^\n\\]*$", re.MULTILINE)  # ends a conditional region
_BRANCH = re.compile(  # with the name of an include guard, which excludes nothing
    r"^[ \t]*#[ \t]*(?:(endif)\b|ifndef[ \t]+(\w+)[^\n]*\n\s*#[ \t]*define[ \t]+\2\b|if)", re.MULTILINE
)
_LINE = re.compile(r'#line (\d+) "(.*)"')
_HAS_INCLUDE = re.compile(r'\b__has_include[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[ \t]*\)')
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"[^\n]*$|<([^>\n]+)>)', re.MULTILINE)


def defined(macros: Mapping[str, str]) -> str:
    """One `#define` per line for each macro."""
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


def inlined(path: Path, folders: Sequence[Path]) -> str:
    """The text of `path` with every `#include "..."` expanded: its `parts`, joined."""
    return joined(parts(path, folders))


@dataclass(frozen=True)
class SystemInclude:
    """An include that is left to the compiler, and the #line directive of its position.

    fault: the message if the header should have been found and was not.
    is_optional: without the header, the compiler goes on with a warning. It often belongs to the host code that has
        been cut, or to a branch that no build takes; else the compiler names what it misses.
    """

    include: str
    line: str
    fault: str = ""
    is_optional: bool = False

    def shielded(self, macros: Mapping[str, str] | None) -> str:
        """The include with `macros` undefined around it, because a system header may use their names.

        The macros are defined again after it, since NVRTC's push_macro and pop_macro lose them across <mma.h>.
        """
        text = self._optional() if self.is_optional else self.include
        if not macros:
            return f"{text}\n{self.line}" if self.is_optional else text
        undefined = "".join(f"#undef {name}\n" for name in macros)
        return f"{undefined}{self.line}{text}\n{defined(macros)}{self.line}"

    def _optional(self) -> str:
        name = self.name
        warning = f"#warning {name} is not found, and taken as empty"
        return f"#if __has_include({name})\n{self.include}\n#else\n{warning}\n#endif"

    @property
    def name(self) -> str:
        """The header with its quotes or brackets."""
        match = _INCLUDE.match(self.include)
        return "" if match is None else f'"{match[1]}"' if match[1] else f"<{match[2]}>"

    @property
    def header(self) -> str:
        """The header as a path."""
        return self.name[1:-1]

    @property
    def is_foreign(self) -> bool:
        """Whether the header is in brackets, and of neither C, C++ nor CUDA and its libraries."""
        known = re.fullmatch(OF_COMPILERS, self.header) or re.fullmatch(OF_CUDA, self.header)
        return self.name[:1] == "<" and "." in self.header and known is None


class MissingHeaderError(SpaceError):
    """A header that should have been found is missing."""

    def __init__(self, fault: str, header: str) -> None:
        super().__init__(fault)
        self.header = header


Parts = list[str | SystemInclude]
_Key = tuple[Path, tuple[Path, ...], tuple[str, ...] | None]
_cache: dict[_Key, tuple[Parts, Mapping[Path, snapshot.Stamp | None]]] = {}


def joined(parts: Parts) -> str:
    """The text that consists of these parts."""
    return "".join(part if isinstance(part, str) else part.include for part in parts)


def parts(path: Path, folders: Sequence[Path] = (), kernels: tuple[str, ...] | None = None) -> Parts:
    """The text of `path` with every `#include "..."` expanded, each file once; includes of system headers are parts of
    their own.

    If `kernels` are given, patterns of names, only the device code that these kernels need remains (see `device_code`).

    These headers are looked up beside the including file, in `folders`, in the parent folder, and in the shipped
    kernels (portable.h). Headers in <> are looked up in `folders` only; if they are not there, the include is left to
    the compiler, and so are those of C and CUDA in quotes, such as "cuda_runtime.h", unless they are in a folder.

    The text is self-contained: it can be hashed, cached, exported and compiled anywhere. Raises SpaceError for a
    missing file, unless a build may skip its include.
    """
    return _parts_of(path, tuple(folders), kernels)


def files(path: Path, folders: Sequence[Path] = ()) -> list[Path]:
    """`path` and the headers that are expanded in its text. Raises SpaceError for a missing file."""
    found: dict[Path, snapshot.Stamp | None] = {}
    _expanded(path, folders, found)
    return [file for file, stamp in found.items() if stamp]


def lines(text: str, name: str) -> dict[int, str]:
    """The lines that a text with headers expanded has of its first file, called `name`, by their numbers there."""
    found, file, number = dict[int, str](), name, 1
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            file, number = match[2], int(match[1])
            continue
        if file == name:
            found[number] = line
        number += 1
    return found


def _parts_of(path: Path, folders: tuple[Path, ...], kernels: tuple[str, ...] | None) -> Parts:
    """`parts`, cached until any file that was looked up changes, appears or vanishes."""
    parts, stamps = _cache.get((path, folders, kernels), ([], {}))
    if not parts or any(snapshot.stamp(file) != stamp for file, stamp in stamps.items()):
        files: dict[Path, snapshot.Stamp | None] = {}
        parts = _expanded(path, folders, files)
        if kernels is not None:
            parts = _device_parts(parts, kernels)
        else:
            _check_found(parts)
        if len(_cache) >= MOST_CACHED:
            _cache.clear()
        recent = time.time_ns() - SETTLED_NS  # pipes and files changed since then are not cached
        if files[path] and all(stamp is None or stamp[1] < recent for stamp in files.values()):
            _cache[path, folders, kernels] = parts, files
    return parts


def _device_parts(parts: Parts, kernels: tuple[str, ...]) -> Parts:
    """The parts of a text without its host code. Includes of libraries that only host code uses are gone, too."""
    from tuner.space.sources import device_code  # a launch of a shipped kernel does not need it

    text = joined(parts)
    code = device_code.of(text, kernels)
    if code == text:
        _check_found(parts)
        return [replace(p, is_optional=True) if isinstance(p, SystemInclude) and p.is_foreign else p for p in parts]
    found, end = Parts(), 0
    for include in (part for part in parts if isinstance(part, SystemInclude)):
        start = code.find(include.include, end)
        if start >= 0:
            found += [code[end:start], replace(include, is_optional=True)]
            end = start + len(include.include)
    return [*found, code[end:]]


def text_of(path: Path) -> str:
    """The text of a file in UTF-8, else in Latin-1: bytes that are not ASCII stand in comments. Raises OSError."""
    try:
        return snapshot.read_text(path, MAX_SOURCE)
    except UnicodeDecodeError:
        return snapshot.read_text(path, MAX_SOURCE, encoding="latin-1")


def _check_found(parts: Parts) -> None:
    """Raise SpaceError for a header that should have been found."""
    for part in parts:
        if isinstance(part, SystemInclude) and part.fault and not part.is_optional:
            raise MissingHeaderError(part.fault, part.header)


def _is_in_branch(text: str, position: int) -> bool:
    """Whether a build may skip what stands at this position, because it is in a conditional region."""
    regions = list[bool]()
    for end, guard in _BRANCH.findall(without_comments(text[:position])):
        if not end:
            regions.append(not guard)
        elif regions:
            regions.pop()
    return any(regions)


def _expanded(path: Path, folders: Sequence[Path], files: dict[Path, snapshot.Stamp | None]) -> Parts:
    """`_inlined` of a whole source. Raises SpaceError if its includes are nested too deeply."""
    try:
        return _inlined(path, set(), folders, files)
    except RecursionError:
        raise SpaceError(f"{shown(path)}: its includes are nested too deeply; nest fewer headers") from None


def _inlined(
    path: Path, included: set[Path], folders: Sequence[Path], files: dict[Path, snapshot.Stamp | None]
) -> Parts:
    """The parts of the text. Adds the stamp of every file that was looked up to `files`."""
    files[path] = snapshot.stamp(path)
    try:
        text = text_of(path).removeprefix("\ufeff")  # a byte order mark
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # out of file descriptors: not the file's fault
        raise SpaceError(f"{path}: the kernel file cannot be read: {error}") from None

    folder = snapshot.real(path).parent

    def found(match: re.Match[str]) -> tuple[Sequence[Path], Path | None]:
        """Where a header is looked up, and the header."""
        searched = [folder, *folders, folder.parent, paths.shipped("kernels")] if match[1] else folders
        candidates = (f / (match[1] or match[2]) for f in searched)
        return searched, next((p for p in candidates if files.setdefault(p, snapshot.stamp(p))), None)

    text = _HAS_INCLUDE.sub(lambda match: "1" if found(match)[1] else match[0], text)  # compilers do not see these

    def expand(match: re.Match[str]) -> Parts:
        line = text.count("\n", 0, match.start()) + 1
        searched, header = found(match)
        if header is None and (match[1] is None or re.fullmatch(OF_COMPILERS, match[1])):
            return [SystemInclude(match[0], f'#line {line} "{path.name}"\n')]
        if header is None:
            names = ", ".join(map(str, searched))
            fault = f'{path}:{line}: #include "{match[1]}" is not in {names}; add its folder to `include:`'
            is_optional = _is_in_branch(text, match.start())
            return [SystemInclude(match[0], f'#line {line} "{path.name}"\n', fault, is_optional)]
        if (place := snapshot.real(header)) in included:
            return []
        included.add(place)
        inner = _inlined(header, included, folders, files)
        return [f'#line 1 "{header.name}"\n', *inner, f'\n#line {line + 1} "{path.name}"']

    def counted(match: re.Match[str]) -> Parts:
        line = text.count("\n", 0, match.end()) + 1
        return [f'{match[0]}\n#line {line + 1} "{path.name}"']

    # An expanded include ends with a #line directive. If it is in a skipped conditional region, the directive has no
    # effect, so one also follows the end of each region.
    places = [*_INCLUDE.finditer(text), *(_REGION.finditer(text) if _INCLUDE.search(text) else ())]
    parts, end = Parts(), 0
    for place in sorted(places, key=lambda match: match.start()):
        parts += [text[end : place.start()], *(expand(place) if place.re is _INCLUDE else counted(place))]
        end = place.end()
    return [*parts, text[end:]]


@functools.lru_cache(maxsize=MOST_CACHED)
def without_comments(text: str) -> str:
    """C source without comments, blank lines, trailing spaces and #line directives. String literals are unchanged."""
    code = _COMMENT.sub(lambda match: match[1] or " ", text)
    lines = code.splitlines()
    return "\n".join([bare for line in lines if (bare := line.rstrip()) and not line.startswith("#line ")])


@functools.lru_cache(maxsize=MOST_CACHED)
def blanked(text: str) -> str:
    """C source with blanks in place of comments, so that every position stays."""
    return _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)


@functools.lru_cache(maxsize=MOST_CACHED)
def words(text: str) -> frozenset[str]:
    """The identifiers and keywords in C source, without those in comments and string literals."""
    return frozenset(_WORD.findall(_STRING.sub("", without_comments(text))))
