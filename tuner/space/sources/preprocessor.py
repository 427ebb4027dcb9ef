"""What the preprocessor of C leaves of a source, as far as its text tells: which configurations have the same code.

A condition on what the text does not define, such as `__CUDA_ARCH__`, stays, with all its branches. So sources that
come out equal are the same code; others may be, too.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

from tuner.errors import ExpressionError
from tuner.space import expressions
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.sources import rendering
from tuner.space.sources.includes import without_comments

_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
_DEFINITION = re.compile(r"(\w+)(\(?)\s*(.*)")
_WORD = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*')
_GLUED = re.compile(r"##|^\s*#\s*include\s+\w", re.MULTILINE)  # names that no word of the text shows
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NOT = re.compile(r"!\s*(\w+|\([^()]*\))")
_SUFFIX = re.compile(r"(?<=[0-9])[uUlL]+\b")
LONGEST = 100_000  # characters of a line with the values of its macros


def is_same_code(one: Instance, other: Instance) -> bool:
    """Whether two valid configurations of a space certainly are the same code, launched alike: then only chance can
    tell their times apart."""
    space = one.space
    changed = {name for name in space.parameters if one.config[name] != other.config[name]}
    if changed & set(space.parameters_behind(_names_of_arguments(space))):
        return False
    pairs = zip(rendering.render(one), rendering.render(other), strict=True)
    return all(
        (a.kernel, a.geometry, a.arguments, a.source.options) == (b.kernel, b.geometry, b.arguments, b.source.options)
        and (left := preprocessed(a.source.text)) is not None
        and left == preprocessed(b.source.text)
        for a, b in pairs
    )


def _names_of_arguments(space: Space) -> Iterator[str]:
    for argument in space.operation.arguments:
        of_kind = argument.kind.expressions.values() if argument.kind else ()
        yield argument.dtype
        for each in (argument.shape or (), argument.value, argument.strides, *of_kind):
            for expression in each:
                yield from expression.names


@functools.lru_cache(maxsize=128)
def preprocessed(text: str) -> str | None:
    """The lines that are left, with the values of macros without arguments in place of their names; None where nothing
    can be told, because names are glued together, or too many macros nested."""
    code = without_comments(text).replace("\\\n", " ")
    try:
        return None if _GLUED.search(code) else "\n".join(_Reader(code.splitlines()).lines)
    except (OverflowError, RecursionError):
        return None


class _Reader:
    """`lines` are those that are left. A line for each value of a macro that is lost on the way is among them, since a
    macro with arguments, which is not expanded, may have used it."""

    def __init__(self, lines: list[str]) -> None:
        self.lines: list[str] = []
        self._macros: dict[str, str] = {}  # that take no arguments, and have one value here
        self._former: dict[str, str] = {}  # those of them that have been undefined
        self._bodies: list[str] = []  # the definitions of the others
        self._rest = iter(lines)
        self._read(is_sure=True)
        for name, value in self._former.items():
            self._lose(name, value)
        self.lines += [self._expanded(body) for body in self._bodies]

    def _read(self, is_sure: bool, is_left: bool = True) -> tuple[str, str]:
        """Read until a branch ends: the name and rest of the directive that ends it. `is_sure`: whether the compiler
        comes here for certain; if it is not `is_left`, it never does."""
        for line in self._rest:
            match = _DIRECTIVE.fullmatch(line)
            name, rest = match.groups() if match else ("", "")
            if name in ("else", "elif", "endif"):
                return name, rest
            if name in ("if", "ifdef", "ifndef"):
                condition = rest if name == "if" else f"{'!' * (name == 'ifndef')}defined({rest})"
                self._branches(condition, is_sure, is_left)
            elif is_left:
                self._line(name, rest, line, is_sure)
        return "endif", ""

    def _branches(self, condition: str, is_sure: bool, is_left: bool) -> None:
        """Read all branches of a condition, up to its end."""
        value, is_open, is_told = self._value(condition), is_left, True  # no branch before was certainly taken
        end = ""
        while end != "endif":
            if is_open and value is None:
                is_told = False
                self.lines.append(f"#if {self._expanded(condition)}")
            elif is_open and value and not is_told:
                self.lines.append("#else")
            taken = is_open and value is not False
            end, condition = self._read(is_sure and is_told and value is True, taken)
            is_open = is_open and value is not True
            value = True if end == "else" else self._value(condition) if end == "elif" else False
        if not is_told:
            self.lines.append("#endif")

    def _line(self, name: str, rest: str, line: str, is_sure: bool) -> None:
        definition = _DEFINITION.fullmatch(rest) if name == "define" else None
        if definition is not None:
            self._define(definition[1], definition[3], line, is_sure and not definition[2])
        elif name == "undef":
            value = self._macros.pop(rest, None)
            if is_sure and value is not None:
                self._former[rest] = value  # most likely for a header alone, after which it is defined again
            elif value is not None:
                self._lose(rest, value)
            if not is_sure:
                self.lines.append(line)
        else:
            self.lines.append(line if name == "include" else self._expanded(line))

    def _define(self, name: str, body: str, line: str, has_one_value: bool) -> None:
        earlier = self._macros.pop(name, self._former.pop(name, None))
        if earlier is not None and not (has_one_value and earlier == body):
            self._lose(name, earlier)
        if has_one_value:
            self._macros[name] = body
        else:
            self.lines.append(line)
            self._bodies.append(line)

    def _lose(self, name: str, value: str) -> None:
        self.lines.append(f"#define {name} {self._expanded(value)}")

    def _expanded(self, text: str, hidden: frozenset[str] = frozenset()) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[0]
            return self._expanded(self._macros[name], hidden | {name}) if name in self._macros.keys() - hidden else name

        found = _WORD.sub(value, text)
        if len(found) > LONGEST:
            raise OverflowError
        return found

    def _value(self, condition: str) -> bool | None:
        """Whether a condition holds; None where that cannot be told."""
        asked = _DEFINED.sub(lambda match: "1" if (match[1] or match[2]) in self._macros else match[0], condition)
        text = _SUFFIX.sub("", self._expanded(asked))
        text = _NOT.sub(r"(not \1)", text).replace("&&", " and ").replace("||", " or ").replace("/", "//")
        try:
            found = expressions.parse(text)
            chained = any(isinstance(node, ast.Compare) and len(node.ops) > 1 for node in ast.walk(found.tree))
            return None if chained or found.names or "!(" in text else bool(found.evaluate({}))
        except ExpressionError:
            return None
