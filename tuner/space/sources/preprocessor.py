"""A partial C preprocessor. If its results for two texts are equal, the texts are the same code.

A condition on a macro that the text does not define, such as `__CUDA_ARCH__`, remains, with all its branches. So equal
results prove equal code; different results prove nothing.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.space.expressions import evaluator
from tuner.space.sources.includes import without_comments

_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)")
_DEFINITION = re.compile(r"(\w+)(\(?)\s*(.*)")
_WORD = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*')
_GLUED = re.compile(r"##|^\s*#\s*include\s+\w", re.MULTILINE)  # names that do not appear as words in the text
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NOT = re.compile(r"!\s*(\w+|\([^()]*\))")
_INCLUDE_GUARD = re.compile(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)\n[ \t]*#[ \t]*define[ \t]+\1$", re.MULTILINE)
_SUFFIX = re.compile(r"(?<=[0-9])[uUlL]+\b")
LONGEST = 100_000  # characters of a line after macro expansion


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


@dataclass(frozen=True)
class Remainder:
    """What remains of a text for one definition of a macro.

    lines: the remaining lines, without definitions of that macro and without `#error`.
    defines: the text may define the macro itself.
    refuses: the text certainly reaches an `#error`.
    """

    lines: tuple[str, ...]
    defines: bool
    refuses: bool


def remainder(code: str, name: str, value: str | None) -> Remainder | None:
    """What remains of `code`, which has no comments, if macro `name` has this value, or is undefined if that is None.

    The name itself as its value stands for any value. An undefined macro is 0 in conditions, as in C, and remains in
    other lines. Include guards are undefined at first. None if the macros of the text are nested too deeply.
    """
    return _remainder(code, frozenset([name]), value)


def without(code: str, names: Iterable[str]) -> str:
    """What remains of `code`, which has no comments, if no macro has one of these names."""
    every = frozenset(names)
    rest = _remainder(code, every, None) if every else None
    return code if rest is None else "\n".join(rest.lines)


def _remainder(code: str, names: frozenset[str], value: str | None) -> Remainder | None:
    try:
        reader = _Reader(code.replace("\\\n", " ").splitlines(), names, value)
    except (OverflowError, RecursionError):
        return None
    return Remainder(tuple(reader.lines), reader.defines, reader.refuses)


class _Reader:
    """Reads lines and collects the remaining ones in `lines`.

    They also contain a #define for each value of a macro that was redefined or undefined, because a macro with
    arguments, which is not expanded, may use that value.
    """

    def __init__(self, lines: list[str], assumed: frozenset[str] = frozenset(), value: str | None = None) -> None:
        """`assumed` are macros whose definition is `value`, whatever the lines say; None if they have none."""
        self.lines: list[str] = []
        self.defines = self.refuses = False
        self._assumed, self._assumed_value = assumed, value
        self._guards = {*_INCLUDE_GUARD.findall("\n".join(lines))} - assumed if assumed else set[str]()
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
            if name in ("elifdef", "elifndef"):
                return "elif", _existence(rest, name == "elifdef")
            if name in ("if", "ifdef", "ifndef"):
                condition = rest if name == "if" else _existence(rest, name == "ifdef")
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
                self.lines.append(f"#if {self._expanded(self._settled(condition))}")
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
        if self._assumed and (name == "error" or (name in ("define", "undef") and _named(rest) in self._assumed)):
            self.defines |= name == "define"
            self.refuses |= name == "error" and is_sure
        elif definition is not None:
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
            if name in self._assumed and self._assumed_value is not None:
                return self._assumed_value
            is_known = name in self._macros and name not in hidden
            return self._expanded(self._macros[name], hidden | {name}) if is_known else name

        if self._macros.keys().isdisjoint(words := _WORD.findall(text)) and self._assumed.isdisjoint(words):
            return text  # most lines; longer than the limit only if they were so in the file
        expanded = _WORD.sub(value, text)
        if len(expanded) > LONGEST:
            raise OverflowError
        return expanded

    def _value(self, condition: str) -> bool | None:
        """Whether a condition holds; None if unknown."""
        resolved = _DEFINED.sub(self._existing, self._settled(condition))
        text = _SUFFIX.sub("", self._expanded(resolved))
        text = _NOT.sub(r"(not \1)", text).replace("&&", " and ").replace("||", " or ").replace("/", "//")
        try:
            return None if "!(" in text else _truth(evaluator.checked(text.strip(), evaluator.check_tree))
        except ExpressionError:
            return None

    def _existing(self, match: re.Match[str]) -> str:
        """The value of `defined(NAME)`; a name that nothing defines if it is unknown."""
        name = match[1] or match[2]
        return "1" if name in self._macros else "0" if name in self._guards else f"defined_{name}"

    def _settled(self, condition: str) -> str:
        """A condition in which the assumed macro is replaced."""
        if not self._assumed:
            return condition
        is_undefined = self._assumed_value is None
        text = _DEFINED.sub(lambda m: str(int(not is_undefined)) if self._assumed & {*m.groups()} else m[0], condition)
        return _WORD.sub(lambda m: "0" if m[0] in self._assumed else m[0], text) if is_undefined else text


def _existence(name: str, is_defined: bool) -> str:
    """The condition that a macro is defined, or is not."""
    return f"{'' if is_defined else '!'}defined({name.strip()})"


def _named(definition: str) -> str:
    """The macro of a #define or #undef, from the text after that word."""
    match = _DEFINITION.fullmatch(definition)
    return match[1] if match else ""


def _truth(tree: ast.expr) -> bool | None:
    """Whether a condition holds; None if that depends on a name, or if C and Python read it differently."""
    if isinstance(tree, ast.BoolOp):
        parts, deciding = [_truth(part) for part in tree.values], isinstance(tree.op, ast.Or)
        return deciding if deciding in parts else None if None in parts else not deciding
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        inner = _truth(tree.operand)
        return None if inner is None else not inner
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Name) or (isinstance(node, ast.Compare) and len(node.ops) > 1) for node in nodes):
        return None
    return bool(evaluator.value_of(evaluator.evaluator_of(tree), {}, ast.unparse(tree)))
