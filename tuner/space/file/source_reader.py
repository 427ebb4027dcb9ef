"""Finds the kernel file, header folders and languages of a space file, and checks the names of kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from tuner.languages import LANGUAGES, PYTHON_LANGUAGES, PythonLanguage
from tuner.quoting import quoted, shown
from tuner.space import snapshot
from tuner.space.expressions import braces
from tuner.space.file.schema import SpaceModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.sources.includes import MAX_SOURCE, inlined, without_comments
from tuner.space.sources.made_kernels import has_open_names
from tuner.space.sources.prototype import prototypes

_PORTABLE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"portable\.h"', re.MULTILINE)


class SourceReader:
    """Reads the keys about the source. Each method raises SpaceError for the first error."""

    def __init__(self, document: Document, model: SpaceModel) -> None:
        self.document, self.model = document, model
        self.folder = document.path.resolve().parent

    def include(self) -> tuple[Path, ...]:
        """The folders of the user's own headers."""
        folders = [self.folder / folder for folder in self.model.include]
        for position, folder in enumerate(folders):
            if not os.path.isdir(folder):
                raise self.document.error(("include", position), f"{shown(folder)}: there is no such folder")
        return tuple(Path(os.path.normpath(folder)) for folder in folders)

    def source(self) -> Path:
        """The kernel file: `source:`, or a file with the stem of the space file.

        It is looked up beside the space file, then in the folder of `kernels/` that corresponds to its folder in
        `spaces/`.
        """
        candidates = self._candidates()
        existing = [c for c in candidates if os.path.isfile(c)]
        if not existing:
            files = " or ".join(shown(c) for c in candidates)
            name = self.model.source or ""
            others = [f / name for f in self._folders()[1:] if name and os.path.isfile(f / name)]
            other = f", such as {shown(os.path.relpath(others[0], self.folder))}" if others else ""
            message = f"the kernel file is missing: {files}; create it, or name another{other}"
            raise self.document.error(("source",), message)
        names = [c.name for c in existing if c.parent == existing[0].parent]
        if self.model.languages is None and len(names) > 1:
            message = f"{' and '.join(names)} exist; name one of them, or write `languages:`"
            raise self.document.error(("source",), message)
        return existing[0]

    def _candidates(self) -> list[Path]:
        model, stem = self.model, self.document.path.stem
        if model.source is not None:
            return [self.folder / model.source]
        # A Python file beside a space file need not be its kernel, so only a file that says so looks for one.
        suffixes = dict.fromkeys(s for name in model.languages or LANGUAGES for s in _suffixes(name))
        return [folder / f"{stem}{suffix}" for folder in self._folders() for suffix in suffixes]

    def _folders(self) -> list[Path]:
        """Where a kernel file without `source:` is looked for."""
        folders = [self.folder, self.folder.parent.parent / "kernels" / self.folder.name]
        spaces = next((f for f in (self.folder, *self.folder.parents) if f.name == "spaces"), None)
        if spaces is not None:
            folders.append(spaces.parent / "kernels" / self.folder.relative_to(spaces))
        return [*dict.fromkeys(folders)]

    def named(self, source: str, where: Where) -> Path:
        """The kernel file that a step names."""
        path = self.folder / source
        if not os.path.isfile(path):
            raise self.document.error(where, f"the kernel file is missing: {shown(path)}; create it, or name another")
        return path

    def python_language(self, source: Path) -> PythonLanguage | None:
        """The language of the kernels if the source is a Python file, else None."""
        names = self.model.languages
        if names is None:
            return next((each for each in PYTHON_LANGUAGES.values() if each.suffix == source.suffix), None)
        found = next((PYTHON_LANGUAGES[name] for name in names if name in PYTHON_LANGUAGES), None)
        if found is not None and len(names) > 1:
            message = f"{found.title} stands alone, because no other language has its files; remove the others"
            raise self.document.error(("languages",), message)
        if found is not None and source.suffix != found.suffix:
            raise self.document.error(("source",), f"{shown(source.name)}: a kernel in {found.title} is in a .py file")
        return found

    def languages(self, source: Path, kernels: Sequence[tuple[Where, str]]) -> tuple[str, ...]:
        """The declared languages, by default those of the source. One without C++ names must not have such a kernel.

        A Python language is one more compiler of another language, which it counts as.
        """
        if (python := self.python_language(source)) is not None:
            return (python.of,)
        names = self.model.languages
        if names is None:
            names = self._languages_of(source)
        if not names:
            raise self.document.error(
                ("languages",), f"unknown from the suffix of {shown(source.name)}; write {_written(LANGUAGES)}"
            )
        with_cpp = [name for name in names if LANGUAGES[name].has_cpp_names]
        where, kernel = next(((where, k) for where, k in kernels if braces.is_cpp(k)), ((), None))
        if kernel is not None and with_cpp != names:
            cpp = [name for name, language in LANGUAGES.items() if language.has_cpp_names]
            raise self.document.error(
                where,
                f"{quoted(kernel)}: templates and namespaces are for {' and '.join(cpp)} only, and the "
                f"languages are {', '.join(names)}; write `languages: [{', '.join(cpp)}]`, or a name without < and ::",
            )
        return tuple(names)

    def compiler(self, languages: Sequence[str], source: Path) -> str:
        """The chosen compiler; empty for the default of its language. That must be one of the languages."""
        chosen = self.model.compiler
        if (python := self.python_language(source)) is not None:
            if chosen is not None:
                raise self.document.error(("compiler",), f"{python.title} has one compiler; remove this key")
            return python.compiler
        if chosen is None:
            return ""
        language = next(each for each in LANGUAGES.values() if chosen in each.compilers)
        if language.name not in languages:
            raise self.document.error(
                ("compiler",),
                f"{chosen} compiles {language.title}, and the languages are {', '.join(languages)}; remove this key, "
                f"or write `languages: [{language.name}]`",
            )
        return "" if chosen == language.compilers[0] else chosen

    def check_languages(self, source: Path, languages: Collection[str], where: Where) -> None:
        """Raise SpaceError if the source of the step at `where` is not in the languages of the first step."""
        own = self._languages_of(source)
        if self.model.languages is None and source.suffix in {each.suffix for each in PYTHON_LANGUAGES.values()}:
            return
        if self.model.languages is None and not set(languages) <= set(own):
            raise self.document.error(
                (*where, "source"),
                f"{shown(source.name)} is {' and '.join(own) or 'of an unknown language'}, and the first step "
                f"{' and '.join(languages)}; write `languages:`, which applies to all steps",
            )

    def _languages_of(self, source: Path) -> list[str]:
        """The languages of a source: by its suffix, or CUDA and OpenCL if it includes portable.h."""
        names = [name for name, language in LANGUAGES.items() if language.suffix == source.suffix]
        portable = [name for name, language in LANGUAGES.items() if source.suffix in language.suffixes]
        return portable if len(portable) > 1 and _PORTABLE.search(self._text(source)) else names

    def check_kernel(self, source: Path, include: tuple[Path, ...], kernel: str, where: Where) -> None:
        """Raise SpaceError for the step at `where` unless its source mentions the kernel, perhaps in a macro call."""
        text = self._text(source)
        if not _mentions(text, kernel) and not _mentions(text := inlined(source, include), kernel):
            every = prototypes(text)
            if any(re.fullmatch(braces.pattern(kernel), each.name) for each in every) or has_open_names(text):
                return  # a macro makes its name, or may make it
            defined = ", ".join(sorted({each.qualified for each in every}))
            hint = f"; it defines {defined}" if defined else ""
            raise self.document.error(
                (*where, "kernel"), f"{shown(source)} has no entry point {quoted(kernel)}{shown(hint)}"
            )

    def check_braces(self, names: Collection[str], kernels: Sequence[tuple[Where, str]]) -> None:
        """Raise SpaceError for braces with an unknown name, in a kernel's name or a compiler option."""
        texts: list[tuple[Where, str]] = [
            *kernels,
            *(
                (("compile_options", language, position), option)
                for language, options in self.model.compile_options.items()
                for position, option in enumerate(options)
            ),
        ]
        for where, text in texts:
            if (fault := braces.fault(text, names)) is not None:
                raise self.document.error(where, fault)

    def _text(self, source: Path) -> str:
        try:
            return snapshot.read_text(source, MAX_SOURCE, errors="replace")
        except OSError as error:
            raise self.document.error(("source",), f"{shown(source)}: cannot be read: {error.strerror}") from None


def _mentions(text: str, kernel: str) -> bool:
    """Whether the source mentions the kernel as a function, or in a macro call at the start of a line.

    If parameters are part of its name, any word that fits counts.
    """
    code, name = without_comments(text), braces.pattern(kernel)
    if braces.names(braces.function(kernel)):
        return re.search(rf"\b{name}\b", code) is not None
    return re.search(rf"\b{name}\s*\(|^\w+\([^;{{}}]*\b{name}\b", code, re.MULTILINE) is not None


def _suffixes(language: str) -> tuple[str, ...]:
    """The suffixes of files in a language."""
    python = PYTHON_LANGUAGES.get(language)
    return LANGUAGES[language].suffixes if python is None else (python.suffix,)


def _written(languages: Collection[str]) -> str:
    return " or ".join(f"`languages: [{name}]`" for name in languages)
