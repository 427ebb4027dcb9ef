"""Find the headers of a source in the folders of its compiler, if the compiler does not report which files it reads,
or in which order it searches."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tuner.space.sources.includes import MAX_SOURCE, without_comments

MOST_FILES = 5000  # that one source may include
_DIRECTIVE = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*(include|include_next|import|embed)\b[ \t]*([^\n]*)$"
    r"|__has_(include|embed)\w*\s*\(([^)\n]*)\)",
    re.MULTILINE,
)
_NAME = re.compile(r'(?:<([^>\n]+)>|"([^"\n]+)")')
_SEPARATE = ("-I", "-isystem", "-iquote", "-idirafter", "--include-path")  # options whose value may be the next one


@dataclass
class HeaderSearch:
    """A search for the headers of one source in `folders`, the folders of a compiler in the order of its search.

    `version_of` returns the files that tell the version of a header of the compiler's own, which stand for all that it
    includes; None for any other header. `given` are the names of headers that the compiler does not look for.
    """

    folders: Sequence[str]
    version_of: Callable[[str], Sequence[str] | None] = lambda _: None
    given: frozenset[str] = frozenset()
    read: dict[str, tuple[str, ...]] = field(default_factory=dict)  # each file, and where it would be found otherwise
    absent: set[str] = field(default_factory=set)
    is_complete: bool = True  # whether each include was found that is not conditional, as far as text tells
    unfound: set[str] = field(default_factory=set)  # names that are in none of the folders

    def of_text(self, text: str, beside: str | None = None) -> None:
        """Find the headers of `text`, a file in the folder `beside` or the source itself, and theirs."""
        code = without_comments(text)
        if "incbin" in code:
            self.is_complete = False
        for name, is_quoted, is_asked in self._names(code):
            if name in self.given or len(self.read) > MOST_FILES:
                continue
            places = [os.path.join(folder, name) for folder in self.folders]
            if is_quoted and beside is not None:
                places.insert(0, os.path.join(beside, name))
            found = next((number for number, place in enumerate(places) if os.path.isfile(place)), None)
            self.absent.update(missing(place) for place in places[:found] if not os.path.exists(place))
            if found is None:
                if not is_asked:
                    self.unfound.add(name)
                continue
            self.take(places[found], places[found + 1 :])

    def take(self, path: str, later: Sequence[str] = ()) -> None:
        """Find the headers of a file that the compiler reads; it would read the first of `later` if it were missing."""
        path = os.path.abspath(path)
        if path in self.read:
            return
        if (version := self.version_of(path)) is not None:
            self.read.update(dict.fromkeys(version, ()))
            return
        self.read[path] = tuple(os.path.abspath(place) for place in later)
        if len(self.read) > MOST_FILES:
            self.is_complete = False
            return
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                self.of_text(file.read(MAX_SOURCE), os.path.dirname(path))
        except OSError:
            self.is_complete = False

    def _names(self, code: str) -> Iterator[tuple[str, bool, bool]]:
        """The headers that `code` names: the name, whether in quotes, and whether only its existence is asked for."""
        for match in _DIRECTIVE.finditer(code):
            named = _NAME.match((match[2] or match[4] or "").strip())
            if named is None:  # a macro
                self.is_complete = False
            else:
                yield named[1] or named[2], named[1] is None, match[3] is not None


def missing(place: str) -> str:
    """The first folder of a path that does not exist, or the path: many missing files are in one missing folder."""
    path = os.path.abspath(place)
    while not os.path.lexists(parent := os.path.dirname(path)):
        path = parent
    return path


def folders(options: Sequence[str]) -> list[str]:
    """The folders that a compiler's options add to its search, in their order."""
    found, rest = list[str](), iter(options)
    for option in rest:
        for name in sorted(_SEPARATE, key=len, reverse=True):
            if option == name:
                found.append(next(rest, ""))
            elif option.startswith(name):
                found.append(option.removeprefix(name).lstrip("= "))
            else:
                continue
            break
    return [folder for folder in found if folder]


def files(options: Sequence[str]) -> list[str]:
    """The existing files that a compiler's options name, such as `-include FILE`, `@FILE`, `FILE.o`, and `-lNAME` in
    the folders of `-L` and LIBRARY_PATH."""
    values = [value for option in options for value in (option, option.partition("=")[2], option.lstrip("@"))]
    places = [option.removeprefix("-L") for option in options if option.startswith("-L")]
    places += os.environ.get("LIBRARY_PATH", "").split(os.pathsep)
    libraries = [option.removeprefix("-l") for option in options if option.startswith("-l")]
    values += [
        os.path.join(place, f"lib{name}.{kind}")
        for name in libraries
        for place in places
        if place
        for kind in ("so", "a")
    ]
    return [os.path.abspath(value) for value in dict.fromkeys(values) if value and os.path.isfile(value)]


def shadowed(read: Sequence[str], searched: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """What a compiler would read instead of the files that it listed, in the folders `searched`, in their order: for
    each file the later places of the same name; and all earlier places, which are absent."""
    later, absent = dict[str, tuple[str, ...]](), set[str]()
    for path in read:
        others = list[str]()
        for number, folder in enumerate(searched):
            if path.startswith(f"{folder}/"):
                name = path.removeprefix(f"{folder}/")
                earlier = (os.path.join(each, name) for each in searched[:number])
                absent.update(missing(place) for place in earlier if not os.path.exists(place))
                others += [os.path.join(each, name) for each in searched[number + 1 :]]
        later[path] = tuple(others)
    return later, absent
