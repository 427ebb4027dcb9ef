"""The declarations of a CUDA file: what each names, and whether it is of the host, of the device or a kernel.

There is no C parser. Names are taken as they are spelled, rather too many than too few.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tuner.classes import dataclass
from tuner.space.sources.cuda_tokens import CLOSE, WORDS, brackets, tokens

_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.DOTALL)
_DEVICE = frozenset({"__global__", "__device__", "__constant__", "__managed__", "__shared__"})
# Words whose parentheses hold no parameters.
_ATTRIBUTES = frozenset(
    {"__launch_bounds__", "__attribute__", "__declspec", "alignas", "__align__", "__cluster_dims__", "__maxnreg__",
     "decltype", "noexcept", "throw", "requires", "explicit"}
)  # fmt: skip
_AFTER_PARAMETERS = frozenset({"const", "noexcept", "volatile", "override", "final", "mutable", "try", "&", "throw"})
_TYPES = frozenset({"struct", "class", "union", "enum"})
# Words of declarations that are no variables of the host.
_CONSTANT = frozenset({"const", "constexpr", "typedef", "using", "namespace", "static_assert", "template", *_TYPES})
_FUNCTION = re.compile(r"\)\s*(?:const\s*)?\{")
# Names of std that CUDA's library lacks.
_OF_HOST = re.compile(
    r"w?(?:string|[io]?f?stream|[io]?stringstream)|vector|list|deque|queue|stack|(?:unordered_)?(?:multi)?(?:map|set)"
    r"|function|thread|mutex|future|(?:shared|weak)_ptr"
)
_ACCESS = frozenset({"public", "private", "protected"})
ALWAYS = "operator"  # a name that every kernel reaches: `a + b` does not spell it


@dataclass(frozen=True)
class Declaration:
    """A declaration outside functions: of a file, a namespace or a class.

    first, last: its tokens, both included.
    names: what it declares, rather too much than too little.
    is_host: whether it is a function or a variable of the host: not marked for the device, and no constant.
    is_kernel: whether it is marked as a kernel.
    members: those of a class or a namespace.
    is_unmarked: whether it is a constexpr function without a mark, which nvcc's users may call in kernels.
    is_refused: whether it is a member that NVRTC takes in no class, such as a string.
    """

    first: int
    last: int
    names: frozenset[str] = frozenset()
    is_host: bool = False
    is_kernel: bool = False
    members: tuple[Declaration, ...] = ()
    is_namespace: bool = False
    is_unmarked: bool = False
    is_refused: bool = False

    @property
    def host_members(self) -> Iterator[Declaration]:
        """The members of a class, and of classes in it, that are functions of the host."""
        for member in self.members:
            if member.is_host:
                yield member
            else:
                yield from member.host_members


def flat(declarations: Iterable[Declaration]) -> Iterator[Declaration]:
    """The declarations, with those in namespaces in the place of the namespaces."""
    for each in declarations:
        if each.is_namespace:
            yield from flat(each.members)
        else:
            yield each


class Declarations:
    """The declarations of a text, with its tokens and the texts of its macros.

    all: those of the file, in order; namespaces hold theirs.
    """

    def __init__(self, text: str) -> None:
        self.tokens = list(tokens(text))
        self._closes = brackets(self.tokens)
        defined = [match for token in self.tokens if token.is_directive and (match := _DEFINE.match(token.text))]
        self.macros: dict[str, str] = {}  # texts of all definitions, by name
        for match in defined:
            self.macros[match[1]] = self.macros.get(match[1], "") + match[2]
        self._brace_macros = {name for name, body in self.macros.items() if body.count("{") != body.count("}")}
        self._marks = self._meaning(_DEVICE)
        self._classes_of_host = set[str]()
        self.all = tuple(self._declarations(0, len(self.tokens)))

    @functools.cached_property
    def _kernel_marks(self) -> frozenset[str]:
        return self._meaning({"__global__"})

    def _meaning(self, words: Iterable[str]) -> frozenset[str]:
        """These words, and the macros in whose text one of them is, also through other macros."""
        bodies = {name: frozenset(WORDS.findall(body)) for name, body in self.macros.items()}
        found, more = frozenset[str](), frozenset(words)
        while more:
            found |= more
            more = frozenset(name for name, body in bodies.items() if name not in found and body & more)
        return found

    def _declarations(self, first: int, end: int, in_class: bool = False) -> Iterator[Declaration]:
        """The declarations among these tokens. Directives between them are none."""
        at = first
        while at < end:
            token = self.tokens[at]
            if token.is_directive or token.text in (";", "}"):
                at += 1
            elif in_class and token.text in _ACCESS and self.at(at + 1) == ":":
                at += 2
            elif token.text in self._brace_macros:  # `BEGIN_NAMESPACE` is no part of what follows it
                at = self._closes.get(at + 1, at) + 1 if self.at(at + 1) == "(" else at + 1
            else:
                declaration = self._macro(at) or self._declaration(at, end, in_class)
                yield declaration
                at = declaration.last + 1

    def _macro(self, first: int) -> Declaration | None:
        """The use of a macro that defines functions or types; None if the token begins something else."""
        body = self.macros.get(self.at(first), "")
        if self.at(first + 1) != "(" or first + 1 not in self._closes or not re.search(r"[{;]", body):
            return None
        last = self._closes[first + 1]
        if not self._marks.isdisjoint(WORDS.findall(body)):
            is_kernel = not self._kernel_marks.isdisjoint(WORDS.findall(body))
            return Declaration(first, last, frozenset({ALWAYS}), is_kernel=is_kernel)  # the names may be pasted
        is_host = _FUNCTION.search(body.replace("\\\n", " ")) is not None and _TYPES.isdisjoint(WORDS.findall(body))
        names = frozenset(token.text for token in self.tokens[first:last] if token.is_word)
        return Declaration(first, last, names, is_host)

    def _declaration(self, first: int, end: int, in_class: bool) -> Declaration:
        start = at = self.after_template(first)
        members, is_of_host = tuple[Declaration, ...](), False
        while at < end:
            text, close = self.at(at), self._closes.get(at)
            if text == ";" or text in CLOSE:
                break
            if text == "{" and close is not None:
                if self._is_namespace(start, at):
                    inner = tuple(self._declarations(at + 1, close))
                    return Declaration(first, close, members=inner, is_namespace=True)
                if self._is_body(start, at):
                    return self._function(first, start, at, close, in_class)
                before = {self.at(i) for i in self._outside(start, at)}
                if not before.isdisjoint(_TYPES) and before.isdisjoint({"enum", "="}):  # no initializer
                    members = tuple(self._declarations(at + 1, close, in_class=True))
                    is_of_host = self._is_class_of_host(start, at, close, members)
            at = (at if close is None else close) + 1
        last = min(at, end - 1)
        if self._is_prototype(start, last):
            return self._function(first, start, last, last, in_class)
        is_host = not in_class and not self._has(first, last + 1, {*self._marks, *_CONSTANT})
        if in_class and self._has(start, last, {"friend"}) and self._parameters(start, last) is not None:
            is_host = not self._has(first, last, self._marks)  # a function's: NVRTC refuses one without a mark
        takes_no_place = self.at(start) in ("using", "typedef", "friend", "static")
        is_foreign = self._is_of_host_library(start, last)
        names = self._names(start, last)
        if is_of_host:
            self._classes_of_host |= names
            # Kernels may name its enumerations; without any, it is left out whole.
            is_host = not any(self.at(each.first) == "enum" for each in members)
            members = tuple(replace(each, is_host=self.at(each.first) != "enum") for each in members)
        is_refused = is_of_host or (in_class and is_foreign and not takes_no_place)
        is_host |= takes_no_place and is_foreign
        is_host |= (
            in_class and self.at(start) == "static" and not self._has(first, last + 1, {*self._marks, *_CONSTANT})
        )
        return Declaration(first, last, names, is_host, members=members, is_refused=is_refused)

    def _is_class_of_host(self, start: int, opening: int, close: int, members: Iterable[Declaration]) -> bool:
        """Whether NVRTC takes a class no more than a class that it is derived from, and nothing of it is marked for the
        device."""
        bases = {self.at(at) for at in range(start, opening)} & self._classes_of_host
        is_refused = bool(bases) or any(each.is_refused for each in members)
        return is_refused and self._marks.isdisjoint(self.at(at) for at in range(start, close))

    def _function(self, first: int, start: int, opening: int, last: int, in_class: bool) -> Declaration:
        """The function whose body or semicolon is at `opening`."""
        parameters = self._parameters(start, opening)
        before = range(first, opening if parameters is None else parameters)
        name = before[-1]
        if self.at(name) == ">":  # of a specialisation
            depth = 0
            for name in reversed(before):
                depth += {">": 1, "<": -1}.get(self.at(name), 0)
                if depth == 0:
                    break
            name -= 1
        named = ALWAYS if self._has(first, before.stop, {ALWAYS}) else self.at(name)
        is_default = last == opening and self.at(last - 2) == "=" and self.at(last - 1) in ("default", "delete")
        words = {self.at(at) for at in before}
        is_host = words.isdisjoint(self._marks) and (not is_default or "virtual" in words)
        is_unmarked = is_host and "constexpr" in words and not in_class and named != ALWAYS
        return Declaration(
            first,
            last,
            frozenset({named}),
            is_host and not is_unmarked,
            not words.isdisjoint(self._kernel_marks),
            is_unmarked=is_unmarked,
        )

    def at(self, at: int) -> str:
        """The text of a token; empty for a directive, and after the last."""
        return self.tokens[at].text if at < len(self.tokens) and not self.tokens[at].is_directive else ""

    def after_template(self, at: int) -> int:
        """The position after `template <...>`, of which there may be several."""
        while self.at(at) == "template" and self.at(at + 1) == "<":
            depth, at = 0, at + 1
            while at < len(self.tokens):
                depth += {"<": 1, ">": -1}.get(self.at(at), 0)
                at = self._closes.get(at, at) + 1
                if depth == 0:
                    break
        return at

    def _outside(self, first: int, end: int) -> Iterator[int]:
        """The positions of the tokens that are in no brackets."""
        at = first
        while at < end:
            yield at
            at = self._closes.get(at, at) + 1

    def _has(self, first: int, end: int, words: Iterable[str]) -> bool:
        """Whether any of these words is outside brackets."""
        return not {self.at(at) for at in self._outside(first, end)}.isdisjoint(words)

    def _is_of_host_library(self, start: int, last: int) -> bool:
        """Whether a declaration names something of `std` that only hosts have, or a class that has it."""
        texts = [self.at(at) for at in self._outside(start, last)]
        triples = zip(texts, [*texts[1:], ""], [*texts[2:], "", ""], strict=False)
        return any(
            (one == "std" and _OF_HOST.fullmatch(third)) or (one in self._classes_of_host and second != "::")
            for one, second, third in triples
        )

    def _is_namespace(self, start: int, opening: int) -> bool:
        words = [self.at(at) for at in range(start, min(opening, start + 3))]
        return "namespace" in words[:2] or (words[:1] == ["extern"] and len(words) == 2)

    def _parameters(self, start: int, end: int) -> int | None:
        """The position of the parenthesis that opens the parameters of a function; None if there is none."""
        for at in self._outside(start, end):
            before = self.at(at - 1)
            if self.at(at) == "=" and ALWAYS not in (before, self.at(at - 2), self.at(at - 3)):
                return None
            if self.at(at) == "(" and at > start and before not in (*_ATTRIBUTES, ALWAYS):
                return at
        return None

    def _is_body(self, start: int, opening: int) -> bool:
        """Whether the brace at `opening` opens the body of a function."""
        parameters = self._parameters(start, opening)
        if parameters is None:
            return False
        after = self._closes.get(parameters, parameters) + 1
        texts = [self.at(at) for at in self._outside(after, opening) if not self.tokens[at].is_directive]
        if texts[:1] == [":"]:  # initializers of members: a brace after a name is one of these
            return not self.tokens[opening - 1].is_word
        if "->" in texts:
            return True
        if all(text in _AFTER_PARAMETERS or text in "()[]" or text in self.macros for text in texts):
            return True
        return not self._has(start, parameters, _TYPES) and not {"=", ","} & {*texts}

    def _is_prototype(self, start: int, last: int) -> bool:
        """Whether a declaration that ends with a semicolon is a function's: what is in its parentheses declares."""
        is_pure = self.at(last - 2) == "=" and self.at(last - 1) in ("0", "default", "delete")
        if self._has(start, last, {"typedef", "using", "static_assert", "friend"}):
            return False
        parameters = self._parameters(start, last - 2 if is_pure else last)
        if parameters is None or (close := self._closes.get(parameters)) is None or self.at(parameters + 1) == "*":
            return False
        inner = [self.tokens[at] for at in range(parameters + 1, close)]
        pairs = itertools.pairwise(inner)
        declares = any(one.is_word and (other.is_word or other.text in "*&") for one, other in pairs)
        return declares or not inner or [token.text for token in inner] == ["void"]

    def _names(self, start: int, last: int) -> frozenset[str]:
        """The names that a type, a variable or an alias declares."""
        names, outside = set[str](), list(self._outside(start, last + 1))
        is_typedef, is_enum = self.at(start) == "typedef", self._has(start, last, {"enum"})
        if is_typedef:  # std::map<key, value> names neither
            depths = itertools.accumulate({"<": 1, ">": -1}.get(self.at(at), 0) for at in outside)
            outside = [at for at, depth in zip(outside, depths, strict=True) if depth == 0]
        for number, at in enumerate(outside):
            text, following = self.at(at), self.at(outside[number + 1]) if number + 1 < len(outside) else ";"
            if text in _TYPES:
                names |= {self.at(other) for other in outside[number + 1 :][:3] if self.tokens[other].is_word}
            if self.tokens[at].is_word and following in ("=", "[", "(", ",", ";", "{", ":"):
                names.add(text)
            if text == "{" and is_enum:
                names |= {token.text for token in self.tokens[at : self._closes.get(at, at)] if token.is_word}
            if text == "(" and is_typedef and "(" not in map(self.at, outside[:number]):  # of a pointer to a function
                pointers = [i for i in range(at, self._closes.get(at, at)) if self.at(i) == "*"]
                names |= {self.at(i + 1) for i in pointers[-1:]}
        return frozenset(names - _TYPES - _ATTRIBUTES - {"static_assert"})
