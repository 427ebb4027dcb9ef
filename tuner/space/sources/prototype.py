"""Prototypes of the kernels in a source: names and parameters, read without a compiler.

Macros are not expanded, except those that stand for a qualifier, such as `KERNEL`, and those that make kernels or join
names. If the text leaves something open (a type that is a macro or a typedef, parameters under an #if), it is None
here, and callers draw no conclusion from it.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from tuner.classes import dataclass
from tuner.space.dtypes import DTYPES
from tuner.space.sources.includes import without_comments
from tuner.space.sources.made_kernels import written_out
from tuner.space.sources.tokens import angle_end, definitions, matching, split, words

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[ \t]+(.*))?$", re.MULTILINE)
_BOUNDS = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^()\n]*)\))?[ \t]+([^\n]*\b__launch_bounds__\b[^\n]*)$", re.MULTILINE
)
_KERNEL_WORDS = {"__global__", "__kernel", "kernel"}
_QUALIFIERS = {
    "const", "volatile", "restrict", "__restrict__", "__restrict", "register", "struct", "__global", "global",
    "__constant", "constant", "__local", "local", "__private", "__grid_constant__", "typename",
}  # fmt: skip
_READ_ONLY = {"const", "__constant", "constant"}
_ACCESS = {"read_only": "in", "write_only": "out", "read_write": "inout"}  # of images, as roles
_QUALIFIERS |= {f"{prefix}{word}" for word in _ACCESS for prefix in ("", "__")}
_OBJECT = re.compile(r"(image)[123]d\w*_t|(sampler)_t")

# Spellings of the types that C, CUDA and OpenCL share; `long` has 8 bytes in all three on Linux. Pairs such as float2
# are read as vectors, not as complex numbers, and an integer that holds another type's bits is read as an integer.
_DTYPES = {
    **{word: dtype.name for dtype in DTYPES.values() if not dtype.part for word in dtype.words},
    **{word: dtype.name for dtype in DTYPES.values() if dtype.kind == "integer" for word in dtype.words},
    **{f"{name}_t": name for name, dtype in DTYPES.items() if dtype.kind == "integer"},
    "char": "int8", "short int": "int16", "signed": "int32", "signed int": "int32", "unsigned": "uint32",
    "long int": "int64", "long long": "int64", "long long int": "int64", "ptrdiff_t": "int64",
    "unsigned long long": "uint64", "size_t": "uint64", "float_t": "float32", "double_t": "float64",
}  # fmt: skip
_TYPE_WORDS = {word for words in _DTYPES for word in words.split()}
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|half|float|double)([2348]|16)$")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    type: as written, without qualifiers; "" if the text leaves it open.
    is_pointer: None if the type may be a typedef or macro for a pointer.
    stars: levels of indirection; 2 for a pointer to pointers.
    access: the role that the access qualifier of an image gives; empty without a qualifier.
    extents: those of an array of several axes, as declared: of `C[n][4]`, n and 4. The first may be empty.
    """

    name: str
    type: str
    is_pointer: bool | None
    is_const: bool
    stars: int = 0
    access: str = ""
    extents: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The `kind:` of an argument of this type: image, sampler, texture, or empty for any other type."""
        if self.type == "cudaTextureObject_t" and not self.stars:
            return "texture"
        match = _OBJECT.fullmatch(self.type)
        return (match[1] or match[2]) if match else ""

    @property
    def dtype(self) -> str | None:
        """The DType name of the type, or of a component of a vector such as float4; None if the text leaves it open."""
        vector = self._vector
        return _DTYPES.get(vector[1].replace("longlong", "long long") if vector else self.type)

    @property
    def width(self) -> int:
        """Numbers per element: 4 for float4, 1 for float."""
        return int(self._vector[2]) if self._vector else 1

    @property
    def is_pair(self) -> bool:
        """Whether an element may be a complex number: float2 or double2."""
        return self.width == 2 and self.dtype in {dtype.part for dtype in DTYPES.values()}

    @property
    def _vector(self) -> re.Match[str] | None:
        return _VECTOR.fullmatch(self.type)

    def __str__(self) -> str:
        return f"{self.type or '...'} {'*' * self.stars}{self.name}"


@dataclass(frozen=True)
class Prototype:
    """A CUDA or OpenCL kernel, or a C function.

    parameters: in order; None if the text leaves them open.
    is_kernel: it has a kernel qualifier; false for a C function.
    template: template parameters by name, with their kinds (`typename`, `int`); None if it is not a template.
    block: threads per block in x, y, z, from launch bounds or an attribute; empty if it has neither.
    defaults: defaults of template parameters.
    namespace: the prefix of its qualified name, such as `ns::`.
    body: the tokens of its body.
    has_launch_bounds: it certainly has `__launch_bounds__`.
    cluster: blocks per cluster in x, y, z, from `__cluster_dims__`; empty if it has none.
    bounds: the arguments of `__launch_bounds__`, which may be in a macro; empty if the text leaves them open.
    """

    name: str
    parameters: tuple[Parameter, ...] | None
    is_kernel: bool
    template: Mapping[str, str] | None = None
    block: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    body: tuple[str, ...] = ()
    has_launch_bounds: bool = False
    cluster: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """The name with its namespaces."""
        return f"{self.namespace}{self.name}"


def prototypes(text: str) -> list[Prototype]:
    """The kernels that `text` defines; if there are none, its C functions that are not static; of C++, those that are
    `extern "C"`."""
    code = written_out(without_comments(text))
    macros = _MACRO.findall(code)
    portable = {name for name, value in macros if _KERNEL_WORDS & set(value.split())}
    lists = {name for name, value in macros if "," in value}  # may expand to several parameters
    types = {name for name, value in macros if not set(value.split()) <= _QUALIFIERS}  # may expand to a type
    bounds = _BOUNDS.findall(code)
    with_bounds = {"__launch_bounds__", *(name for name, _, _ in bounds)}
    spaces = {name: value for name, value in macros if value.isidentifier()} if "namespace" in code else {}
    kernels, functions, of_c = [], list[tuple[str, list[str], str, tuple[str, ...]]](), set[str]()
    for prefix, name, inner, namespace, body in definitions(words(code)):
        namespace = re.sub(r"\w+", lambda part: spaces.get(part[0], part[0]), namespace)
        is_kernel = bool(portable.intersection(prefix) or _KERNEL_WORDS & set(prefix))
        if is_kernel:
            template, defaults = template_parameters(prefix)
            declared = _declared(prefix)
            has_bounds, cluster = bool(with_bounds.intersection(declared)), _attribute("__cluster_dims__", declared)
            inside = (template, _block(prefix), defaults, namespace, body)
            found = (*inside, has_bounds, cluster, _launch_bounds(declared, bounds))
            kernels.append(Prototype(name, _parameters(inner, lists, types, True), True, *found))
        elif "static" not in prefix and "inline" not in prefix and "template" not in prefix:
            functions.append((name, inner, namespace, body))
            of_c |= {name} if '"C"' in prefix and "#" not in prefix else set()
    return kernels or [
        Prototype(name, _parameters(inner, lists, types, False), False, namespace=namespace, body=body)
        for name, inner, namespace, body in functions
        if not of_c or name in of_c  # C++ gives others another name
    ]


def is_type_word(word: str) -> bool:
    """Whether `word` is a built-in type or part of one: `unsigned`, `float4`."""
    return word in _TYPE_WORDS or word == "void" or _VECTOR.fullmatch(word) is not None


def dynamic_arrays(code: str) -> dict[str, int]:
    """The `extern __shared__` arrays that `code` declares, with bytes per element; 4 if the type is unknown."""
    found = dict[str, int]()
    for statement in re.split(r"[;{}]", code) if "__shared__" in code else ():
        declaration = re.split(r"\bextern\b", statement)[-1]
        array = re.search(r"\b(\w+)\s*\[\s*\]\s*$", declaration) if declaration != statement else None
        if array and "__shared__" in declaration:
            plain = re.sub(r"\b(?:alignas|__align__|__shared__)\b\s*(?:\([^()]*\))?", " ", declaration[: array.start()])
            element = Parameter("", " ".join(w for w in plain.split() if w not in _QUALIFIERS), False, False)
            found[array[1]] = DTYPES[element.dtype].itemsize * element.width if element.dtype else 4
    return found


def template_parameters(prefix: list[str]) -> tuple[dict[str, str] | None, dict[str, str]]:
    """The template parameters that tokens declare, None if there are none, with their kinds; and their defaults."""
    if "template" not in prefix:
        return None, {}
    words = prefix[prefix.index("template") + 2 :]
    depth, end = 1, 0
    while end < len(words) and depth:
        depth += (words[end] == "<") - (words[end] == ">")
        end += 1
    kinds, defaults = dict[str, str](), dict[str, str]()
    for part in split(words[: end - 1]):
        *kind, name = _before(part, "=")
        if kind:
            kinds[name] = " ".join(kind).replace(" :: ", "::")
            defaults |= {name: " ".join(part[part.index("=") + 1 :])} if "=" in part else {}
    return kinds, defaults


def _block(prefix: list[str]) -> tuple[str, ...]:
    return _attribute("reqd_work_group_size", prefix) or _attribute("__launch_bounds__", prefix)[:1]


def _launch_bounds(declared: list[str], macros: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """The arguments of `__launch_bounds__`; of that in a macro, the macro's arguments in place of its parameters.

    macros: the name, the parameters and the text of each macro with launch bounds. One with several texts is left open.
    """
    if "__launch_bounds__" in declared:
        return _attribute("__launch_bounds__", declared)
    used = [macro for macro in macros if macro[0] in declared]
    if len(used) != 1:
        return ()
    name, parameters, text = used[0]
    values = dict(zip(parameters.replace(" ", "").split(","), _attribute(name, declared), strict=False))
    return _attribute("__launch_bounds__", [part for word in words(text) for part in values.get(word, word).split()])


def _attribute(word: str, prefix: list[str]) -> tuple[str, ...]:
    """The arguments of an attribute of a kernel; empty if it has none."""
    if word not in prefix[:-1] or prefix[(at := prefix.index(word)) + 1] != "(":
        return ()
    return tuple(" ".join(part) for part in split(prefix[at + 2 : matching(prefix, at + 1)]))


def _declared(prefix: list[str]) -> list[str]:
    """The tokens from a kernel's first qualifier or attribute on; empty if an #if is among them."""
    known = [word for word in ("__global__", "__launch_bounds__", "__cluster_dims__") if word in prefix]
    declared = prefix[min(map(prefix.index, known)) :] if known else prefix
    return [] if "#" in declared else declared


def _parameters(
    words: Sequence[str], lists: set[str], types: set[str], is_kernel: bool
) -> tuple[Parameter, ...] | None:
    """The parameters; None if an #if or a macro may change how many there are.

    lists: macros that may expand to several parameters.
    types: macros that may expand to a type.
    """
    parts = split(words)
    if parts in ([], [["void"]]):
        return () if parts or is_kernel else None  # in C, f() takes unspecified arguments
    if "#" in words or lists.intersection(words):
        return None
    parameters = [parameter(part, types) for part in parts]
    for each, part in zip(parameters, parts, strict=True):
        if each.is_pointer is None and (not each.name or "(" in part):
            return None  # a macro that may expand to any number of parameters
    return tuple(parameters)


def parameter(words: list[str], types: Collection[str] = ()) -> Parameter:
    """The parameter, or the member of a struct, that these tokens declare. `types` are macros that may be types."""
    declared = _before(_whole_names(words), "=")
    element = _before(declared, "[")
    plain = [word for word in _before(element, "(") if word not in _QUALIFIERS and word != "*"]
    to_array = "(" in element and element[element.index("(") + 1 :][:1] == ["*"]  # float (*x)[4]
    name = element[-2] if to_array else plain.pop() if len(plain) > 1 else ""
    is_open = any(word in types for word in plain)
    known = [] if is_open else [w for w in plain if w in _TYPE_WORDS or _VECTOR.fullmatch(w)]
    is_last = bool(known) and plain[-len(known) :] == known  # any earlier word is a qualifier macro such as GLOBAL
    text = " ".join(known) if is_last else " ".join(plain) if len(plain) == 1 and not is_open else ""
    is_pointer = True if "*" in element or "[" in declared else False if is_last and "(" not in element else None
    stars = max(element.count("*") + ("[" in declared and not to_array), bool(is_pointer))
    access = next((role for word, role in _ACCESS.items() if {word, f"__{word}"} & {*element}), "")
    last = len(element) - element[::-1].index("*") if "*" in element else len(element)
    pointed_to = element[:last]  # `float *const x` may be written
    axes = ("",) * to_array + tuple(" ".join(inner) for inner in _in_brackets(declared[len(element) :]))
    return Parameter(
        name, text, is_pointer, not _READ_ONLY.isdisjoint(pointed_to), stars, access, axes if len(axes) > 1 else ()
    )


def _in_brackets(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """What is in each pair of square brackets."""
    while "[" in words:
        opening = words.index("[")
        closing = matching(words, opening)
        yield words[opening + 1 : closing]
        words = words[closing + 1 :]


def _whole_names(words: Sequence[str]) -> list[str]:
    """The tokens with `Pair<float, 4>` and `ns::Pair` as one, without the namespaces of the standard libraries."""
    found, at = list[str](), 0
    while at < len(words):
        word, at = words[at], at + 1
        if word == "::" and at < len(words):
            if found and found[-1] not in _QUALIFIERS:
                word = f"{found.pop()}::{words[at]}".removeprefix("cuda::").removeprefix("std::")
            else:
                word = words[at]
            at += 1
        elif word == "<" and found:
            end = angle_end(words, at - 1)
            inner = (" ".join(_whole_names(part)) for part in split(words[at:end]))
            word, at = f"{found.pop()}<{', '.join(inner)}>", end + 1
        found.append(word)
    return found


def _before(words: list[str], word: str) -> list[str]:
    return words[: words.index(word)] if word in words else words
