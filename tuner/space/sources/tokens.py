"""The tokens of C, CUDA and OpenCL code: its brackets, its lists, and the definitions of its functions.

Nothing is preprocessed: a condition stands among the tokens as a single #, and macros are not expanded.
"""

import re
from collections.abc import Iterator, Sequence

_WORD = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.]*|::|\S')
_BRACE = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[{}]')
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|el|endif|)(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_CONTROL = {"if", "for", "while", "switch", "return", "sizeof", "catch", "defined"}
_OF_METHODS = {"const", "volatile", "noexcept", "override", "final", "&", "throw"}  # after the parameters of a method
_OPEN, _CLOSE = "([{", ")]}"


def words(code: str) -> list[str]:
    """The tokens of `code`, which has no comments. Each conditional directive becomes a single #; other directives are
    dropped."""
    return _WORD.findall(_without_directives(code))


def unconditional(code: str) -> str:
    """`code` without directives and without lines under a preprocessor condition."""
    depth, lines = 0, list[str]()
    for line in code.splitlines():
        directive = re.match(r"\s*#\s*(if|endif)", line)
        depth += 0 if directive is None else 1 if directive[1] == "if" else -1
        if depth == 0 and directive is None:
            lines.append(line)
    return "\n".join(lines)


def matching(words: Sequence[str], position: int) -> int:
    """The position of the bracket that closes the one at `position`; the last position if none does."""
    depth = 0
    for i in range(position, len(words)):
        depth += (words[i] in _OPEN) - (words[i] in _CLOSE)
        if depth == 0:
            return i
    return len(words) - 1


def angle_end(words: Sequence[str], position: int) -> int:
    """The position of the `>` that closes the `<` at a position; the last position if none does."""
    depth, at = 0, position
    while at < len(words):
        depth += (words[at] == "<") - (words[at] == ">")
        if depth == 0:
            return at
        at = (matching(words, at) if words[at] in _OPEN else at) + 1
    return len(words) - 1


def split(words: Sequence[str]) -> list[list[str]]:
    """`words` split at top-level commas; < and > count as brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word in "([{<") - (word in ")]}>")
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def definitions(words: Sequence[str]) -> Iterator[tuple[list[str], str, list[str], str, tuple[str, ...]]]:
    """Each function definition outside other functions.

    Yields the tokens before its name, the name, the tokens of its parameter list, its namespaces, and the tokens of its
    body.
    """
    start = position = 0
    scopes: list[str] = []
    while position < len(words):
        word = words[position]
        if word in (";", "}", "{"):
            if word == "{":
                scopes.append(_namespace(words[start:position]))
            elif word == "}" and scopes:
                scopes.pop()
            start = position + 1
        elif word == "(":
            end = matching(words, position)
            name = words[position - 1] if position > start else ""
            is_named = name.isidentifier() and name not in _CONTROL
            if is_named and (opening := _opening(words, end + 1)):
                last = matching(words, opening)
                body = tuple(words[opening + 1 : last])
                yield list(words[start : position - 1]), name, list(words[position + 1 : end]), "".join(scopes), body
                end, start = last, last + 1
            position = end
        elif word == "=" and position + 1 < len(words) and words[position + 1] == "{":
            position = matching(words, position + 1)  # an initializer
        position += 1


def _opening(words: Sequence[str], at: int) -> int:
    """The position of the `{` of a function whose parameter list ends before `at`; 0 if it has no body there.

    Before it may be qualifiers, a trailing return type, and what a constructor does with its members.
    """
    while at < len(words) and words[at] in _OF_METHODS:
        at = matching(words, at + 1) + 1 if words[at + 1 : at + 2] in (["("], ("(",)) else at + 1
    if list(words[at : at + 2]) == ["-", ">"]:
        at = next((i for i in range(at, min(at + 12, len(words))) if words[i] in "{;"), len(words))
    if words[at : at + 1] in ([":"], (":",)):
        at = _after_members(words, at + 1)
    return at if at < len(words) and words[at] == "{" else 0


def _after_members(words: Sequence[str], at: int) -> int:
    """The position after the members that a constructor initializes, as in `n(rows), x{y}`."""
    while at + 1 < len(words) and words[at].isidentifier() and words[at + 1] in "({":
        at = matching(words, at + 1) + 1
        if at >= len(words) or words[at] != ",":
            break
        at += 1
    return at


def _namespace(opening: Sequence[str]) -> str:
    """The name prefix that `{` after the tokens `opening` adds.

    Empty if they do not open a namespace, or one that is inline or anonymous.
    """
    if "namespace" not in opening or "inline" in opening:
        return ""
    name = "".join(opening[opening.index("namespace") + 1 :])
    return f"{name}::" if name else ""


def _without_directives(code: str) -> str:
    """`code` with a # in place of each condition, and without other directives.

    Of branches that open or close braces, as two heads of one function do, only the last remains, which is read if no
    flag is defined: so braces have their partners.
    """
    outer, branches = list[list[list[str]]](), [list[str]()]
    for line in _DIRECTIVE.sub(lambda match: f"#{match[1]}" if match[1] in ("if", "el", "endif") else "", code).split(
        "\n"
    ):
        if line == "#if":
            outer.append(branches)
            branches = [[]]
        elif line == "#el" and outer:
            branches.append([])
        elif line == "#endif" and outer:
            is_whole = len(branches) == 1 or not any(map(_opened, branches))
            kept = ["#", *(line for branch in branches for line in (*branch, "#"))] if is_whole else branches[-1]
            branches = outer.pop()
            branches[-1] += kept
        else:
            branches[-1].append(line)
    while outer:  # without its #endif
        left, branches = branches, outer.pop()
        branches[-1] += [line for branch in left for line in ("#", *branch)]
    return "\n".join(line for branch in branches for line in branch)


def _opened(lines: Sequence[str]) -> int:
    """How many more braces these lines open than they close."""
    found = _BRACE.findall("\n".join(lines))
    return found.count("{") - found.count("}")
