"""A partial C preprocessor that tells which configurations have the same code.

A condition on a macro that the text does not define, such as `__CUDA_ARCH__`, remains, with all its branches. So equal
results prove equal code; different results prove nothing.
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
_GLUED = re.compile(r"##|^\s*#\s*include\s+\w", re.MULTILINE)  # names that do not appear as words in the text
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NOT = re.compile(r"!\s*(\w+|\([^()]*\))")
_SUFFIX = re.compile(r"(?<=[0-9])[uUlL]+\b")
LONGEST = 100_000  # characters of a line after macro expansion


def is_same_code(one: Instance, other: Instance) -> bool:
    """Whether two valid configurations of a space provably have the same code and launch.

    Any difference between their times is then noise. False means that it could not be proven.
    """
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
    """The remaining lines, with macros that take no arguments expanded.

    None if the text cannot be preprocessed: it pastes tokens, includes a file named by a macro, or nests macros too
    deeply.
    """
    code = without_comments(text).replace("\\\n", " ")
    try:
        return None if _GLUED.search(code) else "\n".join(_Reader(code.splitlines()).lines)
    except (OverflowError, RecursionError):
        return None


class _Reader:
    """Reads lines and collects the remaining ones in `lines`.

    They also contain a #define for each value of a macro that was redefined or undefined, because a macro with
    arguments, which is not expanded, may use that value.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines: list[str] = []
        self._macros: dict[str, str] = {}  # macros without arguments whose value is known at this line
        self._former: dict[str, str] = {}  # such macros after their #undef
        self._bodies: list[str] = []  # definitions of all other macros
        self._rest = iter(lines)
        self._read(is_sure=True)
        for name, value in self._former.items():
            self._lose(name, value)
        self.lines += [self._expanded(body) for body in self._bodies]

    def _read(self, is_sure: bool, is_reachable: bool = True) -> tuple[str, str]:
        """Read until a branch ends. Returns the name and the rest of the directive that ends it.

        is_sure: the compiler certainly reads this branch.
        is_reachable: the compiler may read this branch; if false, it is skipped.
        """
        for line in self._rest:
            match = _DIRECTIVE.fullmatch(line)
            name, rest = match.groups() if match else ("", "")
            if name in ("else", "elif", "endif"):
                return name, rest
            if name in ("if", "ifdef", "ifndef"):
                condition = rest if name == "if" else f"{'!' * (name == 'ifndef')}defined({rest})"
                self._branches(condition, is_sure, is_reachable)
            elif is_reachable:
                self._line(name, rest, line, is_sure)
        return "endif", ""

    def _branches(self, condition: str, is_sure: bool, is_reachable: bool) -> None:
        """Read all branches of a condition, up to its end."""
        value = self._value(condition)
        is_open, is_decided = is_reachable, True  # is_open: no earlier branch is certainly taken
        end = ""
        while end != "endif":
            if is_open and value is None:
                is_decided = False
                self.lines.append(f"#if {self._expanded(condition)}")
            elif is_open and value and not is_decided:
                self.lines.append("#else")
            taken = is_open and value is not False
            end, condition = self._read(is_sure and is_decided and value is True, taken)
            is_open = is_open and value is not True
            value = True if end == "else" else self._value(condition) if end == "elif" else False
        if not is_decided:
            self.lines.append("#endif")

    def _line(self, name: str, rest: str, line: str, is_sure: bool) -> None:
        """Process a line that is not a condition."""
        definition = _DEFINITION.fullmatch(rest) if name == "define" else None
        if definition is not None:
            self._define(definition[1], definition[3], line, is_sure and not definition[2])
        elif name == "undef":
            value = self._macros.pop(rest, None)
            if is_sure and value is not None:
                self._former[rest] = value  # usually undefined for one include and defined again after it
            elif value is not None:
                self._lose(rest, value)
            if not is_sure:
                self.lines.append(line)
        else:
            self.lines.append(line if name == "include" else self._expanded(line))

    def _define(self, name: str, body: str, line: str, has_one_value: bool) -> None:
        """Record a definition. A macro without one known value is not expanded; its definition remains."""
        earlier = self._macros.pop(name, self._former.pop(name, None))
        if earlier is not None and not (has_one_value and earlier == body):
            self._lose(name, earlier)
        if has_one_value:
            self._macros[name] = body
        else:
            self.lines.append(line)
            self._bodies.append(line)

    def _lose(self, name: str, value: str) -> None:
        """Emit the definition of a macro whose value is lost."""
        self.lines.append(f"#define {name} {self._expanded(value)}")

    def _expanded(self, text: str, hidden: frozenset[str] = frozenset()) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[0]
            return self._expanded(self._macros[name], hidden | {name}) if name in self._macros.keys() - hidden else name

        expanded = _WORD.sub(value, text)
        if len(expanded) > LONGEST:
            raise OverflowError
        return expanded

    def _value(self, condition: str) -> bool | None:
        """Whether a condition holds; None if unknown."""
        resolved = _DEFINED.sub(lambda match: "1" if (match[1] or match[2]) in self._macros else match[0], condition)
        text = _SUFFIX.sub("", self._expanded(resolved))
        text = _NOT.sub(r"(not \1)", text).replace("&&", " and ").replace("||", " or ").replace("/", "//")
        try:
            expression = expressions.parse(text)
            chained = any(isinstance(node, ast.Compare) and len(node.ops) > 1 for node in ast.walk(expression.tree))
            return None if chained or expression.names or "!(" in text else bool(expression.evaluate({}))
        except ExpressionError:
            return None
