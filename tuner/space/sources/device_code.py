"""The device code of a CUDA file: what its kernels need, without the host code around it.

NVRTC compiles no host code, but an ordinary .cu file holds both. Functions of the host, and declarations that no kernel
reaches by name, are replaced by blanks, so every line keeps its number. Names are compared as they are spelled:
overloads, and members of several classes that share a name, count as one.

Text that NVRTC does not see, because the file excludes it by `__CUDACC_RTC__`, stays as it is. So does a file without
functions of the host.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tuner.space.sources.cuda_tokens import CLOSE, WORDS, brackets, tokens
from tuner.space.sources.source import STANDARD

_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.DOTALL)
# An include of a library, and the namespace without which nothing of it is used.
_LIBRARY = re.compile(rf"[ \t]*#[ \t]*include[ \t]*<(?:(thrust|cub)/|(?:{'|'.join(STANDARD)})>)")
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
_ACCESS = frozenset({"public", "private", "protected"})
_ALWAYS = "operator"  # a name that every kernel reaches: `a + b` does not spell it


@dataclass(frozen=True)
class _Declaration:
    """A declaration outside functions: of a file, a namespace or a class.

    first, last: its tokens, both included.
    names: what it declares, rather too much than too little.
    is_host: whether it is a function or a variable of the host: not marked for the device, and no constant.
    is_kernel: whether it is marked as a kernel.
    members: those of a class or a namespace.
    is_unmarked: whether it is a constexpr function without a mark, which nvcc's users may call in kernels.
    """

    first: int
    last: int
    names: frozenset[str] = frozenset()
    is_host: bool = False
    is_kernel: bool = False
    members: tuple[_Declaration, ...] = ()
    is_namespace: bool = False
    is_unmarked: bool = False

    @property
    def host_members(self) -> Iterator[_Declaration]:
        """The members of a class, and of classes in it, that are functions of the host."""
        for member in self.members:
            if member.is_host:
                yield member
            else:
                yield from member.host_members


@functools.lru_cache(maxsize=64)
def of(text: str, kernels: tuple[str, ...]) -> str:
    """`text` without what the kernels whose names match these patterns do not need; `text` if it has no host code.

    If no kernel matches, because a macro defines it, all kernels count.
    """
    file = _File(text)
    declarations = list(_flat(file.declarations))
    has_host_code = any(each.is_host or each.is_unmarked or any(each.host_members) for each in declarations)
    if not has_host_code or not any(each.is_kernel for each in declarations):
        return text  # kernels of a header's macros are not known as such
    return file.cut(file.reached(kernels))


def closed(first: Iterable[str], read: Callable[[str], Iterable[str]]) -> frozenset[str]:
    """The names `first`, and all that these read, directly or through others; `read` says what a name reads."""
    found, waiting = set[str](), {*first}
    while waiting:
        found.add(name := waiting.pop())
        waiting.update(each for each in read(name) if each not in found)
    return frozenset(found)


def _flat(declarations: Iterable[_Declaration]) -> Iterator[_Declaration]:
    """The declarations, with those in namespaces in the place of the namespaces."""
    for each in declarations:
        if each.is_namespace:
            yield from _flat(each.members)
        else:
            yield each


class _File:
    """The declarations of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._closes = brackets(self._tokens)
        defined = [match for token in self._tokens if token.is_directive and (match := _DEFINE.match(token.text))]
        self._macros: dict[str, str] = {}  # texts of all definitions, by name
        for match in defined:
            self._macros[match[1]] = self._macros.get(match[1], "") + match[2]
        self._marks = {*_DEVICE, *(name for name, body in self._macros.items() if _DEVICE & {*WORDS.findall(body)})}
        self.declarations = tuple(self._declarations(0, len(self._tokens)))

    def reached(self, kernels: Sequence[str]) -> frozenset[str]:
        """The words that the kernels reach. `kernels` are patterns of names, and words that only their users name."""
        by_name: dict[str, list[_Declaration]] = {}
        for each in _flat(self.declarations):
            for name in each.names if not each.is_host else ():
                by_name.setdefault(name, []).append(each)
        entries = frozenset[str]().union(*(each.names for each in _flat(self.declarations) if each.is_kernel))
        matching = {name for name in entries if any(re.fullmatch(kernel, name) for kernel in kernels)}
        first = {*(matching or entries), *filter(str.isidentifier, kernels), _ALWAYS}
        used = (each for each in _flat(self.declarations) if self._is_using(each))
        first |= {self._at(each.first + 2) for each in used} - {"std"}

        def read(name: str) -> set[str]:
            return {*WORDS.findall(self._macros.get(name, ""))}.union(*map(self._words, by_name.get(name, ())))

        return closed(first, read)

    @functools.cached_property
    def _kernel_marks(self) -> frozenset[str]:
        named = {name for name, body in self._macros.items() if "__global__" in WORDS.findall(body)}
        return frozenset({"__global__", *named})

    def _words(self, declaration: _Declaration) -> set[str]:
        """The words of a declaration, without those of a class's members for the host."""
        left_out = {at for each in declaration.host_members for at in range(each.first, each.last + 1)}
        found = set[str]()
        for at in range(declaration.first, declaration.last + 1):
            token = self._tokens[at]
            if at not in left_out and (token.is_word or token.is_directive):
                found.update(WORDS.findall(token.text))
        return found

    def cut(self, reached: frozenset[str]) -> str:
        """The text with blanks in place of what is not reached. Directives stay, except includes of libraries."""
        parts, end = list[str](), 0
        unmarked = {self._after_template(each.first) for each in _flat(self.declarations) if each.is_unmarked}
        unneeded = {at for first, last in self._unneeded(self.declarations, reached) for at in range(first, last + 1)}
        for at, token in enumerate(self._tokens):
            match = _LIBRARY.match(token.text) if token.is_directive else None
            is_library = match is not None and (match[1] or "std") not in reached
            if is_library or (at in unneeded and not token.is_directive):
                parts += [self._text[end : token.start], re.sub(r"[^\n]", " ", token.text)]
                end = token.end
            elif at in unmarked:
                parts += [self._text[end : token.start], "__device__ "]
                end = token.start
            elif token.text == "using" and self._at(at + 1) == "namespace":  # which its header may not declare here
                name = "".join(self._at(i) for i in range(at + 2, self._next(at, ";")))
                parts += [self._text[end : token.start], f"namespace {name} {{}} "]
                end = token.start
        return "".join([*parts, self._text[end:]])

    def _unneeded(self, declarations: Iterable[_Declaration], reached: frozenset[str]) -> Iterator[tuple[int, int]]:
        """The first and the last token of everything that is not reached or belongs to the host."""
        for each in declarations:
            if each.is_namespace:
                yield from self._unneeded(each.members, reached)
            elif each.is_host or not (each.names & reached or self._is_using(each)):
                yield each.first, each.last
            else:
                yield from ((member.first, member.last) for member in each.host_members)

    def _is_using(self, declaration: _Declaration) -> bool:
        return self._at(declaration.first) == "using" and self._at(declaration.first + 1) == "namespace"

    def _next(self, at: int, text: str) -> int:
        """The position of the next token with this text."""
        return next((i for i in range(at, len(self._tokens)) if self._at(i) == text), len(self._tokens))

    def _declarations(self, first: int, end: int, in_class: bool = False) -> Iterator[_Declaration]:
        """The declarations among these tokens. Directives between them are none."""
        at = first
        while at < end:
            token = self._tokens[at]
            if token.is_directive or token.text in (";", "}"):
                at += 1
            elif in_class and token.text in _ACCESS and self._at(at + 1) == ":":
                at += 2
            else:
                declaration = self._macro(at) or self._declaration(at, end, in_class)
                yield declaration
                at = declaration.last + 1

    def _macro(self, first: int) -> _Declaration | None:
        """The use of a macro that defines functions or types; None if the token begins something else."""
        body = self._macros.get(self._at(first), "")
        if self._at(first + 1) != "(" or first + 1 not in self._closes or not re.search(r"[{;]", body):
            return None
        last = self._closes[first + 1]
        if not self._marks.isdisjoint(WORDS.findall(body)):
            is_kernel = not self._kernel_marks.isdisjoint(WORDS.findall(body))
            return _Declaration(first, last, frozenset({_ALWAYS}), is_kernel=is_kernel)  # the names may be pasted
        return _Declaration(first, last, frozenset(token.text for token in self._tokens[first:last] if token.is_word))

    def _declaration(self, first: int, end: int, in_class: bool) -> _Declaration:
        start = at = self._after_template(first)
        members = tuple[_Declaration, ...]()
        while at < end:
            text, close = self._at(at), self._closes.get(at)
            if text == ";" or text in CLOSE:
                break
            if text == "{" and close is not None:
                if self._is_namespace(start, at):
                    inner = tuple(self._declarations(at + 1, close))
                    return _Declaration(first, close, members=inner, is_namespace=True)
                if self._is_body(start, at):
                    return self._function(first, start, at, close, in_class)
                before = {self._at(i) for i in self._outside(start, at)}
                if not before.isdisjoint(_TYPES) and before.isdisjoint({"enum", "="}):  # no initializer
                    members = tuple(self._declarations(at + 1, close, in_class=True))
            at = (at if close is None else close) + 1
        last = min(at, end - 1)
        if self._is_prototype(start, last):
            return self._function(first, start, last, last, in_class)
        is_host = not in_class and not self._has(first, last + 1, {*self._marks, *_CONSTANT})
        return _Declaration(first, last, self._names(start, last), is_host, members=members)

    def _function(self, first: int, start: int, opening: int, last: int, in_class: bool) -> _Declaration:
        """The function whose body or semicolon is at `opening`."""
        parameters = self._parameters(start, opening)
        before = range(first, opening if parameters is None else parameters)
        name = before[-1]
        if self._at(name) == ">":  # of a specialisation
            depth = 0
            for name in reversed(before):
                depth += {">": 1, "<": -1}.get(self._at(name), 0)
                if depth == 0:
                    break
            name -= 1
        named = _ALWAYS if self._has(first, before.stop, {_ALWAYS}) else self._at(name)
        is_default = last == opening and self._at(last - 2) == "=" and self._at(last - 1) in ("default", "delete")
        words = {self._at(at) for at in before}
        is_host = not is_default and words.isdisjoint(self._marks)
        is_unmarked = is_host and "constexpr" in words and not in_class and named != _ALWAYS
        return _Declaration(
            first,
            last,
            frozenset({named}),
            is_host and not is_unmarked,
            not words.isdisjoint(self._kernel_marks),
            is_unmarked=is_unmarked,
        )

    def _at(self, at: int) -> str:
        """The text of a token; empty for a directive, and after the last."""
        return self._tokens[at].text if at < len(self._tokens) and not self._tokens[at].is_directive else ""

    def _after_template(self, at: int) -> int:
        """The position after `template <...>`, of which there may be several."""
        while self._at(at) == "template" and self._at(at + 1) == "<":
            depth, at = 0, at + 1
            while at < len(self._tokens):
                depth += {"<": 1, ">": -1}.get(self._at(at), 0)
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
        return not {self._at(at) for at in self._outside(first, end)}.isdisjoint(words)

    def _is_namespace(self, start: int, opening: int) -> bool:
        words = [self._at(at) for at in range(start, min(opening, start + 3))]
        return "namespace" in words[:2] or (words[:1] == ["extern"] and len(words) == 2)

    def _parameters(self, start: int, end: int) -> int | None:
        """The position of the parenthesis that opens the parameters of a function; None if there is none."""
        for at in self._outside(start, end):
            before = self._at(at - 1)
            if self._at(at) == "=" and _ALWAYS not in (before, self._at(at - 2), self._at(at - 3)):
                return None
            if self._at(at) == "(" and at > start and before not in (*_ATTRIBUTES, _ALWAYS):
                return at
        return None

    def _is_body(self, start: int, opening: int) -> bool:
        """Whether the brace at `opening` opens the body of a function."""
        parameters = self._parameters(start, opening)
        if parameters is None:
            return False
        after = self._closes.get(parameters, parameters) + 1
        texts = [self._at(at) for at in self._outside(after, opening) if not self._tokens[at].is_directive]
        if texts[:1] == [":"]:  # initializers of members: a brace after a name is one of these
            return not self._tokens[opening - 1].is_word
        if "->" in texts:
            return True
        if all(text in _AFTER_PARAMETERS or text in "()[]" or text in self._macros for text in texts):
            return True
        return not self._has(start, parameters, _TYPES) and not {"=", ","} & {*texts}

    def _is_prototype(self, start: int, last: int) -> bool:
        """Whether a declaration that ends with a semicolon is a function's: what is in its parentheses declares."""
        is_pure = self._at(last - 2) == "=" and self._at(last - 1) in ("0", "default", "delete")
        if self._has(start, last, {"typedef", "using", "static_assert", "friend"}):
            return False
        parameters = self._parameters(start, last - 2 if is_pure else last)
        if parameters is None or (close := self._closes.get(parameters)) is None or self._at(parameters + 1) == "*":
            return False
        inner = [self._tokens[at] for at in range(parameters + 1, close)]
        pairs = itertools.pairwise(inner)
        declares = any(one.is_word and (other.is_word or other.text in "*&") for one, other in pairs)
        return declares or not inner or [token.text for token in inner] == ["void"]

    def _names(self, start: int, last: int) -> frozenset[str]:
        """The names that a type, a variable or an alias declares."""
        names, outside = set[str](), list(self._outside(start, last + 1))
        is_typedef, is_enum = self._at(start) == "typedef", self._has(start, last, {"enum"})
        for number, at in enumerate(outside):
            text, following = self._at(at), self._at(outside[number + 1]) if number + 1 < len(outside) else ";"
            if text in _TYPES:
                names |= {self._at(other) for other in outside[number + 1 :][:3] if self._tokens[other].is_word}
            if self._tokens[at].is_word and following in ("=", "[", "(", ",", ";", "{", ":"):
                names.add(text)
            if text == "{" and is_enum:
                names |= {token.text for token in self._tokens[at : self._closes.get(at, at)] if token.is_word}
            if text == "(" and is_typedef and "(" not in map(self._at, outside[:number]):  # of a pointer to a function
                pointers = [i for i in range(at, self._closes.get(at, at)) if self._at(i) == "*"]
                names |= {self._at(i + 1) for i in pointers[-1:]}
        return frozenset(names - _TYPES - _ATTRIBUTES)
