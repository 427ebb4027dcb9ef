"""Prototypes of the kernels in a source: their names and arguments, as far as the text alone tells them.

No compiler is asked, so macros are not expanded, except those that stand for a qualifier, such as `KERNEL`. What the
text leaves open (a type that is a macro or a typedef, parameters under an #if) is None here, and nothing is concluded
from it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.space.dtypes import DTYPES
from tuner.space.source import without_comments

_WORD = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.]*|::|\S')
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[ \t]+(.*))?$", re.MULTILINE)
_KERNEL_WORDS = {"__global__", "__kernel", "kernel"}
_QUALIFIERS = {
    "const", "volatile", "restrict", "__restrict__", "__restrict", "register", "struct", "__global", "global",
    "__constant", "constant", "__local", "local", "__private", "__grid_constant__",
}  # fmt: skip
_CONTROL = {"if", "for", "while", "switch", "return", "sizeof", "catch", "defined"}
_OPEN, _CLOSE = "([{", ")]}"

# The types that C, CUDA and OpenCL share, by more names than they have in our sources. `long` has 8 bytes in all of
# them on Linux. Pairs are read as vectors, and a type that stands for the bits of another as itself.
_DTYPES = {
    **{word: dtype.name for dtype in DTYPES.values() if not dtype.part for word in dtype.words},
    **{word: dtype.name for dtype in DTYPES.values() if dtype.kind == "integer" for word in dtype.words},
    **{f"{name}_t": name for name, dtype in DTYPES.items() if dtype.kind == "integer"},
    "char": "int8", "short int": "int16", "signed": "int32", "signed int": "int32", "unsigned": "uint32",
    "long int": "int64", "long long": "int64", "long long int": "int64", "ptrdiff_t": "int64",
    "unsigned long long": "uint64", "size_t": "uint64",
}  # fmt: skip
_TYPE_WORDS = {word for words in _DTYPES for word in words.split()}
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|half|float|double)([2348]|16)$")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its name, and its type without qualifiers, as it is written, or "" where that is open.

    `is_pointer` is None for a type that could be one by another name.
    """

    name: str
    type: str
    is_pointer: bool | None
    is_const: bool

    @property
    def dtype(self) -> str | None:
        """NumPy's name of the type, that of its elements for a vector such as float4; None where the text does not
        tell."""
        vector = self._vector
        return _DTYPES.get(vector[1].replace("longlong", "long long") if vector else self.type)

    @property
    def width(self) -> int:
        """How many numbers one element has: 4 for float4, 1 for float."""
        return int(self._vector[2]) if self._vector else 1

    @property
    def is_pair(self) -> bool:
        """Whether one element may be a complex number: float2, double2."""
        return self.width == 2 and self.dtype in {dtype.part for dtype in DTYPES.values()}

    @property
    def _vector(self) -> re.Match[str] | None:
        return _VECTOR.fullmatch(self.type)

    def __str__(self) -> str:
        return f"{self.type or '...'} {'*' * bool(self.is_pointer)}{self.name}"


@dataclass(frozen=True)
class Prototype:
    """A kernel of CUDA or OpenCL, or a function of C: its parameters in order, or None where they are open.

    `template` are the parameters of a template by name, with what they are (`typename`, `int`); None if it is none.
    `block` are the threads per block, as its launch bounds or its attribute say; empty if neither does.
    """

    name: str
    parameters: tuple[Parameter, ...] | None
    is_kernel: bool
    template: Mapping[str, str] | None = None
    block: tuple[str, ...] = ()


def prototypes(text: str) -> list[Prototype]:
    """The kernels that `text` defines. Where it defines none, the functions of C that are not static."""
    code = without_comments(text)
    macros = _MACRO.findall(code)
    portable = {name for name, value in macros if _KERNEL_WORDS & set(value.split())}
    lists = {name for name, value in macros if "," in value}
    types = {name for name, value in macros if not set(value.split()) <= _QUALIFIERS}
    kernels, functions = [], []
    for prefix, name, inner in _definitions(_WORD.findall(_without_directives(code))):
        if portable.intersection(prefix) or _KERNEL_WORDS & set(prefix):
            template, block = _template(prefix), _block(prefix)
            kernels.append(Prototype(name, _parameters(inner, lists, types), True, template, block))
        elif "static" not in prefix and "inline" not in prefix and "template" not in prefix:
            functions.append(Prototype(name, _parameters(inner, lists, types), False))
    return kernels or functions


def _template(prefix: list[str]) -> dict[str, str] | None:
    if "template" not in prefix:
        return None
    words = prefix[prefix.index("template") + 2 :]
    depth, end = 1, 0
    while end < len(words) and depth:
        depth += (words[end] == "<") - (words[end] == ">")
        end += 1
    parts = [_before(part, "=") for part in _split(words[: end - 1])]
    return {part[-1]: " ".join(part[:-1]) for part in parts if len(part) > 1}


def _block(prefix: list[str]) -> tuple[str, ...]:
    for word in ("reqd_work_group_size", "__launch_bounds__"):
        if word in prefix[:-1] and prefix[(at := prefix.index(word)) + 1] == "(":
            extents = [" ".join(part) for part in _split(prefix[at + 2 : _matching(prefix, at + 1)])]
            return tuple(extents if word == "reqd_work_group_size" else extents[:1])
    return ()


def _without_directives(code: str) -> str:
    """`code` with a # in place of each condition, and without other directives."""

    def mark(match: re.Match[str]) -> str:
        return "#" if re.match(r"\s*#\s*(if|el|endif)", match[0]) else ""

    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", mark, code, flags=re.MULTILINE)


def _definitions(words: Sequence[str]) -> Iterator[tuple[list[str], str, list[str]]]:
    """Each function definition outside other functions: the words before its name, the name, what is in parentheses."""
    start = position = 0
    while position < len(words):
        word = words[position]
        if word in (";", "}", "{"):
            start = position + 1
        elif word == "(":
            end = _matching(words, position)
            name = words[position - 1] if position > start else ""
            if end + 1 < len(words) and words[end + 1] == "{" and name.isidentifier() and name not in _CONTROL:
                yield list(words[start : position - 1]), name, list(words[position + 1 : end])
                end = _matching(words, end + 1)
                start = end + 1
            position = end
        elif word == "=" and position + 1 < len(words) and words[position + 1] == "{":
            position = _matching(words, position + 1)  # an initializer
        position += 1


def _matching(words: Sequence[str], position: int) -> int:
    """The position of the bracket that closes the one at `position`; the last one where none does."""
    depth = 0
    for i in range(position, len(words)):
        depth += (words[i] in _OPEN) - (words[i] in _CLOSE)
        if depth == 0:
            return i
    return len(words) - 1


def _split(words: Sequence[str]) -> list[list[str]]:
    """`words` at their outer commas; < and > count as brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word in "([{<") - (word in ")]}>")
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _parameters(words: Sequence[str], lists: set[str], types: set[str]) -> tuple[Parameter, ...] | None:
    """The parameters; None where a condition or one of the macros `lists` could make others of them. `types` are the
    macros that could stand for a type."""
    parts = _split(words)
    if parts in ([], [["void"]]):
        return () if parts else None  # in C, f() may take anything
    if "#" in words or lists.intersection(words):
        return None
    parameters = [_parameter(part, types) for part in parts]
    for parameter, part in zip(parameters, parts, strict=True):
        if parameter.is_pointer is None and (not parameter.name or "(" in part):
            return None  # a macro: of how many parameters, it alone knows
    return tuple(parameters)


def _parameter(words: list[str], types: set[str]) -> Parameter:
    declared = _before(words, "=")
    element = _before(declared, "[")
    plain = [word for word in _before(element, "(") if word not in _QUALIFIERS and word != "*"]
    to_array = "(" in element and element[element.index("(") + 1 :][:1] == ["*"]  # float (*x)[4]
    name = element[-2] if to_array else plain.pop() if len(plain) > 1 else ""
    known = [] if types.intersection(plain) else [w for w in plain if w in _TYPE_WORDS or _VECTOR.fullmatch(w)]
    is_last = bool(known) and plain[-len(known) :] == known  # what precedes is a macro such as GLOBAL
    text = " ".join(known) if is_last else " ".join(plain) if len(plain) == 1 and not types.intersection(plain) else ""
    is_pointer = True if "*" in element or "[" in declared else False if is_last and "(" not in element else None
    return Parameter(name, text, is_pointer, "const" in element)


def _before(words: list[str], word: str) -> list[str]:
    return words[: words.index(word)] if word in words else words
