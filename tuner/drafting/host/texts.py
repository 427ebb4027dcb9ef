"""Reads the host code around a kernel: its file with headers, and files beside it that launch the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tuner.drafting.knobs import singly
from tuner.errors import SpaceError
from tuner.languages import OF_PROGRAMS
from tuner.space.sources import includes
from tuner.space.sources.tokens import definitions, words

_LAUNCHES = re.compile(r"<<\s*<|(?:cuda|hip|cu)Launch|clSetKernelArg|\bsetArg|EnqueueArgs")
_HANDLE = re.compile(r"(\w+)\s*(?:\.|->)\s*(\w+)\s*=\s*clCreateKernel\s*\([^;]*\"(\w+)\"")
_MAIN = re.compile(r"\bmain\s*\([^();]*\)\s*\{")
_LITERAL, _OPTION = re.compile(r'"((?:\\.|[^"\\\n])*)"'), re.compile(r"-D\s*([A-Za-z_]\w*)")
_JOINED = re.compile(r'-D\s*(\w+)="\s*(?:\+|<<)\s*(?:(?:std\s*::\s*)?to_string\s*\(\s*)?([A-Za-z_]\w*)\s*(?=[)+<;,])')
_PRINTED = re.compile(r'"((?:\\.|[^"\\\n])*-D(?:\\.|[^"\\\n])*)"\s*,([^;{}"]*)\)\s*;')
_PLACE = re.compile(r"(?:-D\s*(\w+)=)?%\w+")
MOST_FILES, MOST_BYTES = 100, 400_000
MOST_ROUNDS = 2  # a file that launches the kernel, and a file that calls its function
MOST_OF_REPOSITORY = 2000  # files
_REPOSITORY = (".git", ".hg", ".svn")
_OF_TESTS = re.compile(r"(?i)(?:.*[-_.])?tests?(?:[-_.].*)?|test_?\w+")  # whose launches are small instances


def texts(
    source: Path,
    folders: Sequence[Path],
    kernels: Collection[str],
    named: Sequence[Path] = (),
    is_marked: bool = True,
) -> list[str]:
    """The texts that may hold host code of these kernels; empty if none launches them or, where they are not marked as
    kernels, calls them. Files beside the source are read if none are `named`, and if these do not launch them, those of
    its repository."""
    own = [file for each in (source, *named) for file in _with_headers(each, folders)]
    beside = [] if named else _beside([source.parent, *folders], own)
    found = _launching(own, beside, folders, kernels, is_marked)
    every = [] if found or named else _of_repository(source, own, kernels)
    return _launching(own, every, folders, kernels, is_marked) if every else found


def _launching(
    own: Sequence[Path], beside: Sequence[Path], folders: Sequence[Path], kernels: Collection[str], is_marked: bool
) -> list[str]:
    """The texts of a source's own files and of those files `beside` that launch these kernels, or call a function that
    does; empty if none does."""
    files = {file: text for file in own if (text := _read(file))}
    names = set(kernels)
    is_program = any(map(_MAIN.search, files.values()))
    left = {file: text for file in beside if (text := _read(file)) and not _defines(text, kernels)}
    left = {file: text for file, text in left.items() if not (is_program and _MAIN.search(text))}  # another program
    for _ in range(MOST_ROUNDS):
        names |= _callers([*files.values()], names)
        names |= {".".join(each) for text in files.values() for each in _handles(text, kernels)}
        for file in [file for file, text in left.items() if _mentions(text, names)]:
            for each in _with_headers(file, folders):
                if each == file or each.parent == file.parent:
                    files[each] = left.pop(each, "") or _read(each)
    found = [*dict.fromkeys(files.values())]
    launched = {*kernels, *(".".join(each) for text in found for each in _handles(text, kernels))}
    if not is_marked:
        every = (each for text in found if _mentions(text, kernels) for each in definitions(words(text)))
        callers = (name for _, name, _, _, body in every if not {*kernels}.isdisjoint(body))
        return found if any(name not in kernels for name in callers) else []
    return found if any(_mentions(text, launched) and _LAUNCHES.search(text) for text in found) else []


def defined(found: Sequence[str]) -> list[set[str]]:
    """The names that texts define in the options of a build, as in "-DREAL=float -D USE_LOCAL", by string."""
    literals = (literal for text in found for literal in _LITERAL.findall(text))
    return [{*names} for literal in literals if (names := _OPTION.findall(literal))]


def as_built(code: str) -> str:
    """Host code in which the variables whose values a build gives to macros of a kernel have the names of these: `wg`
    in `"-DWG=" + std::to_string(wg)` and in `"-DWG=%d", wg`."""
    pairs = {*_JOINED.findall(code)}
    for text, given in _PRINTED.findall(code):
        pairs |= {*zip(_PLACE.findall(text), map(str.strip, given.split(",")), strict=False)}
    for macro, name in pairs:
        is_one = [each[0] for each in pairs if each[1] == name] == [macro] and [m for m, _ in pairs].count(macro) == 1
        if macro and name.isidentifier() and is_one and not re.search(rf"\w\s+{macro}\s*[=;(]", code):
            code = re.sub(rf"\b{name}\b", macro, code)
    return code


def _with_headers(file: Path, folders: Sequence[Path]) -> list[Path]:
    try:
        return includes.files(file, folders)
    except SpaceError:
        return [file]


def _beside(folders: Sequence[Path], own: Collection[Path]) -> list[Path]:
    """The files in these folders that may hold host code, without those that the source includes."""
    known = {file.resolve() for file in own}
    beside = [file for folder in folders for file in sorted(folder.resolve().iterdir()) if file.suffix in OF_PROGRAMS]
    return [file for file in beside if file.resolve() not in known][:MOST_FILES]


def _of_repository(source: Path, own: Collection[Path], kernels: Collection[str]) -> list[Path]:
    """The files of a source's repository that may hold host code; empty if there are too many, or if kernels of these
    names are defined in several files, as in several programs."""
    root = next(
        (each for each in source.resolve().parents if any((each / name).exists() for name in _REPOSITORY)), None
    )
    files, known = [*_below(root)] if root else [], {file.resolve() for file in own}
    names = [name.encode() for name in kernels]
    named = [file for file in files if file not in known and any(name in _bytes(file) for name in names)]
    if any(_defines(_read(file), kernels) for file in named):
        return []
    handles = [last.encode() for file in named for _, last in _handles(_read(file), kernels)]
    return [*named, *(f for f in files if handles and f not in named and any(each in _bytes(f) for each in handles))]


def _below(root: Path) -> Iterator[Path]:
    """The files below a folder that may hold host code; none if there are too many."""
    found = list[Path]()
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not _OF_TESTS.fullmatch(name))
        kept = (name for name in sorted(names) if not _OF_TESTS.fullmatch(name))
        found += [Path(folder, name) for name in kept if Path(name).suffix in OF_PROGRAMS]
        if len(found) > MOST_OF_REPOSITORY:
            return
    yield from found


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes() if file.stat().st_size <= MOST_BYTES else b""
    except OSError:
        return b""


def _read(file: Path) -> str:
    try:
        return singly.declared(includes.text_of(file)) if file.stat().st_size <= MOST_BYTES else ""
    except OSError:
        return ""


def _mentions(text: str, names: Collection[str]) -> bool:
    every = (re.escape(name).replace("\\.", r"\s*(?:\.|->)\s*") for name in sorted(names))
    return re.search(rf"\b(?:{'|'.join(every)})\b", text) is not None


def _handles(text: str, kernels: Collection[str]) -> list[tuple[str, str]]:
    """The members that hold kernels of these names, as in `context->kernels.sum = clCreateKernel(program, "sum", 0)`,
    each with the object it is in."""
    return [(owner, last) for owner, last, kernel in _HANDLE.findall(text) if kernel in kernels]


def _defines(text: str, kernels: Collection[str]) -> bool:
    """Whether a text is another program, with a kernel of the same name."""
    return (
        re.search(rf"__global__[^;{{}}]*\b(?:{'|'.join(map(re.escape, sorted(kernels)))})\b[^;{{}}]*\{{", text)
        is not None
    )


def _callers(found: Collection[str], names: Collection[str]) -> set[str]:
    """The functions that mention any of these names."""
    return {
        name
        for text in found
        if _mentions(text, names)
        for _, name, _, _, body in definitions(words(text))
        if name != "main" and not {*names, *(f'"{each}"' for each in names)}.isdisjoint(body)
    }
