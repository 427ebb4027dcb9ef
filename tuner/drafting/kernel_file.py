"""The kernels that a file defines, as a draft reads them: with headers, without host code, macros expanded."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.classes import cached_property
from tuner.drafting import repository
from tuner.drafting.expansion import expanded
from tuner.drafting.knobs import flags, singly
from tuner.drafting.reached import pointers, reached, without_others
from tuner.errors import RequestError, SpaceError
from tuner.languages import LANGUAGES
from tuner.quoting import quoted, shown
from tuner.space.expressions import arithmetic
from tuner.space.scope import DEVICE_NAMES
from tuner.space.sources import compiler_macros, device_code, includes, missing_headers
from tuner.space.sources.includes import without_comments
from tuner.space.sources.made_kernels import has_open_names, written_out
from tuner.space.sources.preprocessor import without
from tuner.space.sources.prototype import Parameter, Prototype, prototypes
from tuner.space.sources.tokens import definitions, unconditional, words
from tuner.space.sources.type_names import aliases, has_several, resolved

_NO_NAME = "__no_name__"  # a macro that no text has, so that the others are expanded
_DEFAULT = re.compile(
    r"^#if !defined\((\w+)\)\n(#[ \t]*define[ \t]+\1\b.*\n(?:#[ \t]*define\b.*\n)*)#endif\n", re.MULTILINE
)
_OF_TYPES = re.compile(
    r"\s*(?:typedef\b.*?(\w+)\s*;|using\s+(\w+)\s*="
    r"|#\s*define\s+(\w+)\s+(?:unsigned\s+)?(?:float|double|half|char|short|int|long|__half|__nv_bfloat16)\d*\s*$)"
)
_OTHER_SUFFIXES = {".clh", ".cuh", ".h", ".hip", ".hpp", ".ocl", ".opencl"}  # of several languages
MOST_FOLDERS, MOST_LETTERS = 4, 400_000  # that are found for missing headers; of the text with these: no library
_OF_CPP = {".cpp", ".cc", ".cxx", ".C"}
_ADVICE_FOR_CPP = (
    'a function in C++ for the CPU needs a .c file with an extern "C" function that calls it, '
    "and `compile_options: {c: [-xc++]}`"
)
MOST_FLAGS = 12  # that may tell the types of arguments
_MADE_NAME = re.compile(r"__global__\s+(?:[\w()]+\s+)*?void\s+(\w+)\s*\(([\w\s,]*)\)\s*\(")
_LOOKED_FOR = (
    "tuner looks for __global__ and __kernel functions, in .c for functions that are not static, "
    "and does not expand macros in argument lists"
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


class KernelFile:
    """A file, and the kernels that `entry` names, separated by commas; None: the only one. Headers are also searched in
    the folders `include`, and in those of the repository that alone have them.

    include: all these folders.
    code: the file's own text, without comments and without host code.
    text: the same with headers.
    missing: the message about a header that was not found; empty if none is missing.
    is_cuda: the file is CUDA, and may have host code.
    is_declared: its suffix does not say its language, which the space file must declare.
    steps: the kernels in the order of `entry`.
    reached: the names that they read.

    Raises RequestError if the file cannot be read, or if it has no kernel `entry`.
    """

    def __init__(self, source: Path, entry: str | None, include: Sequence[Path] = ()) -> None:
        self.source = source
        suffixes = {suffix for language in LANGUAGES.values() for suffix in language.suffixes}
        if source.suffix not in suffixes | _OTHER_SUFFIXES:
            known = f"{', '.join(sorted(suffixes))}, or in {', '.join(sorted(_OTHER_SUFFIXES))}"
            advice = f"; CUDA must end in .cu, HIP in .hip; {_ADVICE_FOR_CPP}" if source.suffix in _OF_CPP else ""
            raise RequestError(f"{shown(source)}: not a kernel file; name one that ends in {known}{advice}")
        try:
            whole = includes.text_of(source)
        except OSError as error:
            near = paths.advice(source, suffixes | _OTHER_SUFFIXES, "name a kernel file")
            raise RequestError(f"{shown(source)}: cannot be read: {error.strerror}; {near}") from None
        own = [name for name, language in LANGUAGES.items() if language.suffix == source.suffix]
        portable = [name for name, language in LANGUAGES.items() if source.suffix in language.suffixes]
        self.languages = own if own and "portable.h" not in whole else portable
        self.is_declared = not self.languages  # the space file must declare the language
        self.languages = self.languages or [_language(whole)]
        self.is_cuda = is_cuda = source.suffix == ".cu" or (self.is_declared and self.languages == ["cuda"])
        self.code = singly.declared(self._read_by_compiler(device_code.of(whole, ()) if is_cuda else whole))
        self.include, self._whole, self.missing = self._with_headers(include)
        self.text = singly.declared(self._whole)
        chosen = [self._chosen(name) for name in (entry.split(",") if entry else [None])]
        if not {each.name for each in prototypes(self.code)} >= {each.name for each in chosen}:
            self.code = self.text  # kernels are in headers, or made there
        self.reached = reached(self.text, chosen)
        self.own = self._own(self.include, chosen)
        self.defined: Sequence[str] = ()
        self._chosen_steps = chosen
        self.steps = [self._plain(each) for each in chosen]

    def _with_headers(self, include: Sequence[Path]) -> tuple[Sequence[Path], str, str]:
        """The folders of headers, the text with these, and the message about a missing one."""
        text, fault, header = self._read(include)
        for _ in range(MOST_FOLDERS):
            folders = repository.folders_of(header, self.source) if header else []
            more = self._read([*include, *folders]) if len(folders) == 1 else ("", "", "")
            if not folders or len(folders) > 1 or len(more[0]) > MOST_LETTERS:
                named = f": {' or '.join(map(str, folders[:3]))}" if folders else ""
                return include, text, f"{fault}{named}"
            include, (text, fault, header) = [*include, *folders], more
        return include, text, fault

    def _read(self, include: Sequence[Path]) -> tuple[str, str, str]:
        """The text with headers, the message about a missing one, and its name."""
        try:
            parts = includes.parts(self.source, include, kernels=() if self.is_cuda else None)
        except includes.MissingHeaderError as error:
            return self.code, str(error), error.header
        except SpaceError as error:
            return self.code, str(error), ""
        missing = [(part.fault, part.header) for part in missing_headers.missing(parts)]
        foreign = (p.header for p in parts if not missing and isinstance(p, includes.SystemInclude) and p.is_foreign)
        missing += [("", header) for header in foreign if self._is_device_code(header)]
        return self._read_by_compiler(includes.joined(parts)), *next(iter(missing), ("", ""))

    def _is_device_code(self, header: str) -> bool:
        """Whether one folder of the repository has a header in brackets, which has device code."""
        folders = repository.folders_of(header, self.source)
        try:
            return len(folders) == 1 and "__device__" in includes.text_of(folders[0] / header)
        except OSError:
            return False

    def _read_by_compiler(self, text: str) -> str:
        """A text without what compilers of other languages read, and with the kernels that macros make."""
        read = compiler_macros.read_by(self.languages[0], text) if len(self.languages) == 1 else text
        made = written_out(bare := without_comments(read))
        if has_open_names(bare):
            shown = "".join(f"\n#undef {name}" for name in {*_DEFINED.findall(bare)})  # else, values are only replaced
            made = written_out(bare, without(bare + shown, flags.names(bare)))
        return read if made == bare else made

    def build_with(self, options: Sequence[Collection[str]]) -> None:
        """Read the kernels as a build sees them with the first of these sets of flags with which all kernels are there
        and all types of their arguments are known; if there is none, with the first flag of the text with which they
        are. Flags on which the arguments depend are not defined."""
        untold = [name for name in dict.fromkeys(re.findall(r"\w+", self.text)) if name in self.untold]
        left = [name for name in untold if name not in self.flags_of_parameters]
        built = [[name for name in left if name in each] for each in options]
        for names in (*filter(None, built), [], *([name] for name in left[:MOST_FLAGS])):
            self._define(names)
            if not self._is_unknown():
                return
        self._define([])

    def _define(self, names: Sequence[str]) -> None:
        self.defined = names
        for name in ("_of_plain_build", "text_of_plain_build", "_of_defaults"):
            self.__dict__.pop(name, None)
        self.steps = [self._plain(each) for each in self._chosen_steps]

    def _is_unknown(self) -> bool:
        """Whether the build lacks a kernel, or the type of an argument."""
        if any(step.qualified not in self._of_plain_build for step in self.steps):
            return True
        return any(not parameter.type for step in self.steps for parameter in step.parameters or ())

    @cached_property
    def untold(self) -> set[str]:
        """The flags that the text tests and does not define."""
        return {*flags.names(self.text)}

    @property
    def flags_of_parameters(self) -> list[str]:
        """The flags on which the list of a kernel's parameters depends."""
        return [name for name in self.tested_by_parameters if name in self.untold and name not in self.defined]

    @property
    def flags_of_types(self) -> list[str]:
        """The flags that choose the type of an argument, as in `#ifdef DOUBLES` around two `typedef`."""
        if not has_several(self.text):
            return []
        plain, left = self._types(self.text_of_plain_build), sorted(self.untold - {*self.defined})
        found = list[str]()
        for name in left[:MOST_FLAGS]:
            head = "".join(f"#define {each} 1\n" for each in (*self.defined, name))
            text = without(head + self.text, {*self.untold, _NO_NAME} - {*self.defined, name})
            if any(plain.get(each, kind) != kind for each, kind in self._types(text).items()):
                found.append(name)
        return found

    def _types(self, text: str) -> dict[tuple[str, str], str]:
        """The built-in types of the arguments that have one in a build, by kernel and name."""
        types, names = aliases(text), {step.qualified for step in self.steps}
        every = [(each, p) for each in prototypes(text) if each.qualified in names for p in each.parameters or ()]
        found = {(each.qualified, p.name): resolved(p.type, types) for each, p in every}
        return {key: kind for key, kind in found.items() if Parameter("", kind, False, False).dtype is not None}

    @cached_property
    def tested_by_parameters(self) -> list[str]:
        """The names in the conditions within the list of a kernel's parameters."""
        names = "|".join(re.escape(step.name) for step in self.steps)
        lists = "".join(re.findall(rf"\b(?:{names})\s*\(([^{{}};]*)\{{", self.text))
        tested = re.findall(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)$", lists, re.MULTILINE)
        return [*dict.fromkeys(word for line in tested for word in re.findall(r"\w+", line))]

    @cached_property
    def tested_around_types(self) -> set[str]:
        """The names in conditions around definitions of the types in the lists of the kernels' parameters."""
        names = "|".join(re.escape(step.name) for step in self.steps)
        lists = {*re.findall(r"\w+", " ".join(re.findall(rf"\b(?:{names})\s*\(([^{{}};]*)\{{", self.text)))}
        found, around = set[str](), list[str]()
        for line in self.text.splitlines():
            if condition := re.match(r"[ \t]*#[ \t]*(if|el|endif)(.*)", line):
                if condition[1] == "if":
                    around.append(condition[2])
                elif condition[1] == "el" and around:
                    around[-1] += condition[2]
                elif around:
                    around.pop()
            elif defined := _OF_TYPES.match(line):
                is_taken = not lists.isdisjoint(defined.groups())
                found.update(re.findall(r"\w+", " ".join(around)) if is_taken else ())
        return found

    def _own(self, include: Sequence[Path], kernels: Sequence[Prototype]) -> str:
        """What the compiler gets for these kernels alone, without the code of others."""
        if not self.is_cuda:
            return without_comments(without_others(self.text, reached(self.text, kernels, conditions=False)))
        names = tuple(re.escape(each.name) for each in kernels)
        try:
            own = includes.joined(includes.parts(self.source, include, kernels=names))
            text = singly.declared(self._read_by_compiler(own))
            return without_comments(without_others(text, reached(text, kernels, conditions=False)))
        except SpaceError:
            return self.text

    def _made_by_macro(self) -> str:
        """What to do where a macro makes the name of a kernel, or all functions are static; else what is looked for."""
        match = _MADE_NAME.search(includes.without_comments(self._whole))
        static = [name for prefix, name, *_ in definitions(words(self.code)) if "static" in prefix]
        if static and self.languages == ["c"]:
            file = f'a .c file with #include "{shown(self.source.name)}" and a function of pointers and numbers'
            return f"static: {shown(', '.join(static))}; write {file} that calls one, and name that file"
        if match is None:
            return f"{_LOOKED_FOR}; {_ADVICE_FOR_CPP}" if self.is_declared and not self.is_cuda else _LOOKED_FOR
        made = f"{match[1]}({match[2].strip()})"
        return f"the name of a kernel is made by a macro, {made}: write the name itself in a copy"

    def _chosen(self, entry: str | None) -> Prototype:
        found = {p.qualified: p for p in prototypes(self._whole) if p.name != "main"}
        names = shown(", ".join(found))
        if entry is None and len(found) == 1:
            return next(iter(found.values()))
        if entry is None:
            choose = "choose one with --entry NAME, or list the steps in their order with --entry NAME,NAME"
            problem = f"several kernels: {names}; {choose}" if found else f"no kernel found; {self._made_by_macro()}"
            raise RequestError(f"{shown(self.source)}: {problem}")
        alike = [p for p in found.values() if p.name == entry]
        if entry not in found and len(alike) == 1:
            return alike[0]
        if entry not in found:
            raise RequestError(
                f"{shown(self.source)}: --entry {quoted(entry)}: there is no such kernel; it has {names or 'none'}"
            )
        return found[entry]

    @property
    def is_cpp(self) -> bool:
        """Whether a file in C is C++ in truth, which its compiler must be told."""
        return self.languages == ["c"] and 'extern "C"' in unconditional(self.text)

    @cached_property
    def _of_plain_build(self) -> dict[str, Prototype]:
        """The kernels as a compiler sees them that is told to define the flags `defined` alone."""
        return {prototype.qualified: prototype for prototype in prototypes(self.text_of_plain_build)}

    @cached_property
    def text_of_plain_build(self) -> str:
        """The text as a compiler sees it that is told to define the flags `defined` alone."""
        head = "".join(f"#define {name} 1\n" for name in self.defined)
        return without(head + self.text, {*self.untold, _NO_NAME} - {*self.defined})

    @property
    def _with_defaults(self) -> str:
        """The text of a plain build, in which the flags are defined that it defines itself unless a build does."""
        code = self.text_of_plain_build
        return without("".join(match[2] for match in _DEFAULT.finditer(code)) + _DEFAULT.sub("", code), [_NO_NAME])

    @cached_property
    def _of_defaults(self) -> dict[str, Prototype]:
        """The kernels as a compiler sees them that gets the macros as the text defines them."""
        return {prototype.qualified: prototype for prototype in prototypes(self._with_defaults)}

    @cached_property
    def overloaded(self) -> list[str]:
        """The kernels that share their names with others, which take other arguments."""
        every = {(p.qualified, p.parameters) for p in prototypes(self._with_defaults)} if self.is_cuda else set()
        names = [name for name, _ in every]
        return [step.qualified for step in self.steps if names.count(step.qualified) > 1]

    @property
    def types(self) -> dict[str, str]:
        """The types for which the file has other names, as it is built."""
        return aliases(self._with_defaults if has_several(self.text) else self.text)

    def _plain(self, step: Prototype) -> Prototype:
        """A kernel with its macros expanded, its types by their own names, and no scalar with the name of a word of
        ours or Python's."""
        types = self.types
        names = [p.name for p in step.parameters or ()]
        body = _without_arrows(expanded(step.body, self.text, names, with_functions=True), step)
        if step.parameters is None and (plain := self._of_defaults.get(step.qualified)) is not None:
            step = replace(step, parameters=plain.parameters)  # conditions on macros of the text are in its list
        elif "#" in step.body and (plain := self._of_plain_build.get(step.qualified)) is not None:
            step = replace(step, parameters=plain.parameters)  # it may be declared in each branch of a condition
        elif not all(p.type for p in step.parameters or ()):  # a macro hides it
            step = replace(step, parameters=self._with_types(step))
        if step.parameters is None:
            return replace(step, body=body)
        taken = {*arithmetic.FUNCTIONS, *DEVICE_NAMES, *keyword.kwlist}
        renamed = {p.name: f"{p.name}_" for p in step.parameters if p.name in taken and p.is_pointer is False}
        every = (
            replace(p, name=renamed.get(p.name, p.name), type=resolved(p.type, types))
            for p in self._with_pointers(step.parameters)
        )
        parameters = tuple(replace(p, is_pointer=False) if p.is_pointer is None and p.dtype else p for p in every)
        return replace(step, body=tuple(renamed.get(word, word) for word in body), parameters=parameters)

    def _with_pointers(self, parameters: Iterable[Parameter]) -> Iterator[Parameter]:
        """Parameters with pointers in the place of other names for them."""
        names = pointers(self.text)
        for each in parameters:
            is_other = each.type in names and not each.is_pointer
            yield replace(each, type=names[each.type], is_pointer=True, stars=1) if is_other else each

    def _with_types(self, step: Prototype) -> tuple[Parameter, ...] | None:
        """The parameters of a kernel with the types that macros hide."""
        plain = self._of_plain_build.get(step.qualified)
        known = {p.name: p for p in (plain.parameters or () if plain else ())}
        if any(not p.type and not known.get(p.name, p).type for p in step.parameters or ()):
            every = (
                p for each in prototypes(self._with_defaults) if each.name == step.name for p in each.parameters or ()
            )
            known |= {p.name: p for p in every if p.dtype is not None}
        return step.parameters and tuple(p if p.type else known.get(p.name, p) for p in step.parameters)


def _without_arrows(body: Sequence[str], step: Prototype) -> tuple[str, ...]:
    """The tokens of a body with `p[0].x` in the place of `p->x`, for the parameters of a kernel."""
    names, found = {p.name for p in step.parameters or () if p.is_pointer is not False}, list[str]()
    for at, word in enumerate(body):
        is_arrow = word == ">" and body[at - 1] == "-" and body[at - 2] in names and body[at - 3 : at - 2] != (".",)
        if is_arrow:
            found[-1:] = ["[", "0", "]", "."]
        else:
            found.append(word)
    return tuple(found)


def _language(text: str) -> str:
    """The language of a file whose suffix does not say it."""
    return "cuda" if "__global__" in text else "opencl" if re.search(r"\b(?:__kernel|kernel)\b", text) else "c"
