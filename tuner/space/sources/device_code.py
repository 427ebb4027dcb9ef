"""The device code of a CUDA file: what its kernels need, without the host code around it.

NVRTC compiles no host code, but an ordinary .cu file holds both. Functions of the host, and declarations that no kernel
reaches by name, are replaced by blanks, so every line keeps its number. Names are compared as they are spelled:
overloads, and members of several classes that share a name, count as one.

Text that NVRTC does not see, because the file excludes it by `__CUDACC_RTC__`, stays as it is. So does a file without
functions of the host.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from tuner.space.sources.closure import closed
from tuner.space.sources.cuda_tokens import WORDS
from tuner.space.sources.device_declarations import ALWAYS, Declaration, Declarations, flat
from tuner.space.sources.library_headers import STANDARD

# An include of a library, and the namespace without which nothing of it is used.
_LIBRARY = re.compile(rf"[ \t]*#[ \t]*include[ \t]*<(?:(thrust|cub)/|(?:{'|'.join(STANDARD)})>)")

_EMPTY_ARRAY = re.compile(r"\[\s*\]\s*=\s*\{\s*\}")  # `int list[] = {};`, which compilers of the host take

_NAMESPACE = re.compile(r"\bnamespace\s+(?:\w+\s*::\s*)*(\w+)[^;{}()=]*\{")

# What an assertion may name besides what the kernels name.
_ASSERTS = frozenset(
    {"static_assert", "sizeof", "alignof", "true", "false", "and", "or", "not", "const", "unsigned", "signed", "int",
     "short", "long", "char", "bool", "float", "double"}
)  # fmt: skip

_WHOLE = re.compile(r"(?:un)?signed|int|long|short|char|bool|auto|u?int\w*_t|size_t|ptrdiff_t|uint|ushort|ulong|uchar")


@functools.lru_cache(maxsize=64)
def of(text: str, kernels: tuple[str, ...]) -> str:
    """`text` without what the kernels whose names match these patterns do not need; `text` if it has no host code.

    If no kernel matches, because a macro defines it, all kernels count.
    """
    file = _File(text)
    declarations = list(flat(file.declarations))
    has_host_code = any(each.is_host or each.is_unmarked or any(each.host_members) for each in declarations)
    has_host_code = has_host_code or _EMPTY_ARRAY.search(text) is not None
    if not has_host_code or not any(each.is_kernel for each in declarations):
        return text  # kernels of a header's macros are not known as such
    return file.cut(file.reached(kernels))


class _File:
    """A text with its declarations."""

    def __init__(self, text: str) -> None:
        self._text, self._read = text, Declarations(text)
        self.declarations, self._tokens, self._at = self._read.all, self._read.tokens, self._read.at

    def reached(self, kernels: Sequence[str]) -> frozenset[str]:
        """The words that the kernels reach. `kernels` are patterns of names, and words that only their users name."""
        by_name: dict[str, list[Declaration]] = {}
        for each in flat(self.declarations):
            for name in each.names if not each.is_host else ():
                by_name.setdefault(name, []).append(each)
        entries = frozenset[str]().union(*(each.names for each in flat(self.declarations) if each.is_kernel))
        matching = {name for name in entries if any(re.fullmatch(kernel, name) for kernel in kernels)}
        first = {*(matching or entries), *filter(str.isidentifier, kernels), ALWAYS}
        used = (each for each in flat(self.declarations) if self._is_using(each))
        first |= {self._at(each.first + 2) for each in used} - {"std"}

        def read(name: str) -> set[str]:
            return {*WORDS.findall(self._read.macros.get(name, ""))}.union(*map(self._words, by_name.get(name, ())))

        return closed(first, read)

    def _words(self, declaration: Declaration) -> set[str]:
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
        unmarked = {self._read.after_template(each.first) for each in flat(self.declarations) if each.is_unmarked}
        computed = {*self._computed()}
        spaces = {match[1]: match.start() for match in reversed([*_NAMESPACE.finditer(self._text)])}  # by last names
        unneeded = {at for first, last in self._unneeded(self.declarations, reached) for at in range(first, last + 1)}
        for at, token in enumerate(self._tokens):
            match = _LIBRARY.match(token.text) if token.is_directive else None
            is_library = match is not None and (match[1] or "std") not in reached
            if is_library or (at in unneeded and not token.is_directive):
                parts += [self._text[end : token.start], re.sub(r"[^\n]", " ", token.text)]
                end = token.end
            elif at in computed:  # its "const" is at most a part of the declaration
                parts += [self._text[end : token.start], "constexpr"]
                end = token.end
            elif at in unmarked:
                parts += [self._text[end : token.start], "__device__ "]
                end = token.start
            elif token.text == "using" and self._at(at + 1) == "namespace":  # which its header may not declare here
                name = "".join(self._at(i) for i in range(at + 2, self._next(at, ";")))
                if spaces.get(name.rpartition("::")[2], token.start) < token.start:
                    continue
                parts += [self._text[end : token.start], f"namespace {name} {{}} "]
                end = token.start
        return "".join([*parts, self._text[end:]])

    def _computed(self) -> Iterator[int]:
        """Where the `const` is of a floating-point constant that follows from others, as `const float B = 2 * A`. NVRTC
        takes only a constexpr there, and of B if A is one."""
        values = dict[str, tuple[int, frozenset[str]]]()
        for each in flat(self.declarations):
            texts = [self._at(at) for at in range(each.first, each.last + 1)]
            equals = texts.index("=") if "=" in texts else 0
            head = [text for text in texts[: max(0, equals - 1)] if text != "static"]
            if head[:1] == ["const"] and len(head) == 2 and head[1].isidentifier() and not _WHOLE.fullmatch(head[1]):
                place = each.first + texts.index("const")
                values[texts[equals - 1]] = place, frozenset(filter(str.isidentifier, texts[equals:]))
        pending = [name for name, (_, words) in values.items() if words & values.keys()]
        found = set[str]()
        while pending:
            found.add(name := pending.pop())
            pending += values[name][1] & values.keys() - found
        yield from (values[name][0] for name in found)

    def _unneeded(self, declarations: Iterable[Declaration], reached: frozenset[str]) -> Iterator[tuple[int, int]]:
        """The first and the last token of everything that is not reached or belongs to the host."""
        for each in declarations:
            if each.is_namespace:
                yield from self._unneeded(each.members, reached)
            elif self._at(each.first) == "static_assert":
                if not self._words(each) <= (reached - self._host_names) | _ASSERTS:
                    yield each.first, each.last
            elif each.is_host or not (each.names & reached or self._is_using(each)):
                yield each.first, each.last
            else:
                yield from ((member.first, member.last) for member in each.host_members)

    @functools.cached_property
    def _host_names(self) -> frozenset[str]:
        those = (each for each in flat(self.declarations) if each.is_host or each.is_refused)
        return frozenset[str]().union(*(each.names for each in those))

    def _is_using(self, declaration: Declaration) -> bool:
        return self._at(declaration.first) == "using" and self._at(declaration.first + 1) == "namespace"

    def _next(self, at: int, text: str) -> int:
        """The position of the next token with this text."""
        return next((i for i in range(at, len(self._tokens)) if self._at(i) == text), len(self._tokens))
