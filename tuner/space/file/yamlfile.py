"""Reads plain data and line numbers from an untrusted YAML file.

Anchors, aliases, tags and duplicate keys are rejected, and so are files above 1 MB or 12 levels. The parser's events
are checked one by one before nodes are made of them, so no input causes recursion.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tuner import paths
from tuner.errors import ExpressionError, SpaceError
from tuner.quoting import quoted, shown
from tuner.space import snapshot
from tuner.space.expressions.evaluator import MAX_CHARACTERS
from tuner.space.model import MAX_FILE_BYTES

MAX_LEVELS = 12
MOST_MESSAGE = 1000  # characters

_MISREAD = re.compile(r"[-+]?(?:(0[0-9_]+)|[^:]+(?::\d+)+\.?\d*)")  # in YAML 1.1, 016 is 14 and 1:8 is 68
_QUESTION = re.compile(r"(?:^|\s)# \? (.*)$")

# What is usually wrong where PyYAML says this.
_HINTS = {
    "\\t": " (indent with spaces, not tabs)",
    "mapping values are not allowed here": "; put a text that contains `: ` in quotes, or mend the line before, "
    "which may lack its `:` or be indented less",
    "but found '<block mapping start>'": "; indent the keys of a mapping by the same number of spaces",
}

_IN_C: Any = getattr(yaml, "CSafeLoader", None)  # part of most builds of PyYAML

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The data of one file, or of objects of Python.

    lines: the line of each key and list item, by its path.
    questions: the open questions that `tune new` writes as comments `# ?`, by line.
    origin: what messages name in place of the path and a line, if the data is of no file. Then only the folder of
        `path` means anything: the data names files relative to it.
    """

    path: Path
    data: dict[str, Any]
    lines: dict[Where, int]
    questions: dict[int, str]
    origin: str = ""

    def check_answered(self) -> None:
        """Raise SpaceError if there are open questions; the message lists them, one per line."""
        if not self.questions:
            return
        count = f"{len(self.questions)} open questions" if len(self.questions) > 1 else "an open question"
        lines = [
            f"  line {line}: {self._name(line)}{shown(question, MOST_MESSAGE)}"
            for line, question in self.questions.items()
        ]
        each = "each" if len(self.questions) > 1 else "it"
        advice = f"answer {each} on its line, and remove its `# ?` comment"
        raise SpaceError("\n".join([f"{shown(self.path)}: {count}; {advice}:", *lines]))

    def _name(self, line: int) -> str:
        """The key or the named list item that begins at a line, as a prefix of a message."""
        where = next((where for where, at in self.lines.items() if at == line), ())
        value: Any = self.data
        for part in where:
            value = value[part]
        name = (
            value.get("name")
            if where and isinstance(value, dict) and "name" in value
            else ".".join(map(str, where[-1:]))
        )
        return f"{shown(name)}: " if name else ""

    def error(self, where: Where, message: str) -> SpaceError:
        """A SpaceError with file and key of `where`, and the line of the nearest enclosing key that has one."""
        enclosing = where
        while enclosing and enclosing not in self.lines:
            enclosing = enclosing[:-1]
        message = shown(message, MOST_MESSAGE)  # it may quote long or unprintable text of the file
        key = shown(".".join(str(part) for part in where))
        place = self.origin or f"{shown(self.path)}:{self.lines.get(enclosing, 1)}"
        return SpaceError(f"{place}: {key}: {message}" if key else f"{place}: {message}")

    @contextlib.contextmanager
    def at(self, where: Where) -> Iterator[None]:
        """The context in which the value of the key `where` is read: what is wrong with it is told as by `error`."""
        try:
            yield
        except (ExpressionError, ValueError) as error:
            raise self.error(where, str(error)) from None


def read(path: Path) -> Document:
    """The mapping in `path`. Raises SpaceError with file and line for anything else."""
    try:
        if path.exists() and not path.is_file():
            raise SpaceError(f"{shown(path)}: not a file; name a YAML file")
        text = snapshot.read_text(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        near = paths.advice(path, (".yaml", ".yml"), "name a YAML file")
        raise SpaceError(f"{shown(path)}: there is no such file; {near}") from None
    except OSError as error:
        raise SpaceError(f"{shown(path)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpaceError(f"{shown(path)}: not a text file in UTF-8") from None
    except ValueError as error:
        raise SpaceError(f"{quoted(str(path))}: not the name of a file: {error}") from None
    try:
        node = _composed(path, text)
        reader = _NodeReader(path)
        root = reader.value(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = next((hint for problem, hint in _HINTS.items() if problem in str(error.problem)), "")
        raise SpaceError(f"{shown(path)}:{line}: not YAML: {error.problem}{hint}{_advice(path)}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise SpaceError(f"{shown(path)}: not YAML: {str(error).splitlines()[0]}{_advice(path)}") from None
    if not isinstance(root, dict):
        content = "nothing" if root is None else f"a {type(root).__name__}"
        raise SpaceError(
            f"{shown(path)}:1: holds {content}; a mapping of keys such as `title:` and `parameters:` is expected"
            f"{_advice(path)}"
        )
    return Document(path, root, reader.lines, _questions(text))


def _advice(path: Path) -> str:
    """The next step if `path` seems to be a kernel's source, whose name somebody wrote for that of its space file."""
    if path.suffix in ("", ".yaml", ".yml"):
        return ""
    return f"; if it is the source of a kernel, `tune new {shown(path)}` drafts the space file"


def _questions(text: str) -> dict[int, str]:
    matches = {number: _QUESTION.search(line) for number, line in enumerate(text.splitlines(), start=1)}
    return {number: match[1].strip() for number, match in matches.items() if match}


def _composed(path: Path, text: str) -> yaml.Node | None:
    """The nodes of the whole text. Raises SpaceError, or yaml.YAMLError.

    libyaml takes a seventh of the time. Where it refuses, the parser in Python says more, and it alone refuses tabs.
    """
    if _IN_C is not None and "\t" not in text:
        with contextlib.suppress(yaml.YAMLError):
            return _composed_by(_IN_C, path, text)
    return _composed_by(yaml.SafeLoader, path, text)


def _composed_by(loader: Any, path: Path, text: str) -> yaml.Node | None:
    _check(path, yaml.parse(text, Loader=loader))
    return yaml.compose(text, Loader=loader)


def _check(path: Path, events: Iterable[yaml.Event]) -> None:
    """Raise SpaceError for YAML that a space file may not use."""
    documents = levels = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SpaceError(
                f"{shown(path)}:{line}: anchors and aliases (& and *) are not supported; write out the value"
            )
        if tag := getattr(event, "tag", None):
            raise SpaceError(f"{shown(path)}:{line}: tags such as {shown(tag)} are not supported; remove it")
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise SpaceError(f"{shown(path)}:{line}: a second document; write one document per file")
        levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if levels > MAX_LEVELS:
            raise SpaceError(f"{shown(path)}:{line}: nested more than {MAX_LEVELS} levels deep")


class _NodeReader:
    """Makes plain data of the nodes of a file. `lines` are those of a `Document`."""

    def __init__(self, path: Path) -> None:
        self._path, self.lines = path, dict[Where, int]()
        self._constructor: Any = yaml.constructor.SafeConstructor()

    def value(self, node: Any, where: Where = ()) -> Any:
        """The value of a node, whose key is `where`."""
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            return self._list(node, where)
        return None if node is None else self._scalar(node)

    def _list(self, node: Any, where: Where) -> list[Any]:
        items = list[Any]()
        for item in node.value:
            if node.flow_style and items and _continues(items[-1], item):
                self._continue(items[-1], item)
            else:
                items.append(item)
        self.lines |= {(*where, position): item.start_mark.line + 1 for position, item in enumerate(items)}
        return [self.value(item, (*where, position)) for position, item in enumerate(items)]

    def _mapping(self, node: Any, where: Where) -> dict[str, Any]:
        found = dict[str, Any]()
        last: Any = None
        for key, item in node.value:
            if node.flow_style and last is not None and _continues(last, key) and item.value == "":
                self._continue(last, key)
                continue
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise SpaceError(f"{shown(self._path)}:{line}: a key must be a plain word")
            if key.value in found:
                raise SpaceError(f"{shown(self._path)}:{line}: the key {quoted(key.value)} appears twice; keep one")
            found[key.value], self.lines[*where, key.value], last = item, line, item
        return {key: self.value(item, (*where, key)) for key, item in found.items()}

    def _continue(self, before: yaml.ScalarNode, node: yaml.ScalarNode) -> None:
        before.value += f", {node.value}"
        if len(before.value) > MAX_CHARACTERS:  # joining a large file would take minutes
            at, start = f"{shown(self._path)}:{before.start_mark.line + 1}", shown(before.value[:40])
            raise SpaceError(f"{at}: `{start}...` has more than the {MAX_CHARACTERS} characters that are allowed")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        """The value of a scalar by YAML 1.1, except that dates remain text, and numbers in base 8 or 60 are errors."""
        if node.tag.rpartition(":")[2] not in ("int", "float", "bool", "null"):
            return node.value
        if misread := _MISREAD.fullmatch(node.value):
            first, last = f"{node.value}:".split(":")[:2]
            advice = "remove the leading zeros" if misread[1] else f"write a range as {{from: {first}, to: {last}}}"
            at = f"{shown(self._path)}:{node.start_mark.line + 1}"
            raise SpaceError(f"{at}: {shown(node.value)} is not a decimal number; {advice}, or put a text in quotes")
        try:
            return self._constructor.construct_object(node)
        except (ValueError, yaml.YAMLError):
            return node.value


def _continues(before: Any, node: Any) -> bool:
    """Whether a node in brackets goes on with a call, such as `ceil_div(n, 32)`, which YAML splits at the comma."""
    are_plain = all(isinstance(each, yaml.ScalarNode) and not each.style for each in (before, node))
    return are_plain and before.value.count("(") > before.value.count(")")


class _Dumper(yaml.SafeDumper):
    """Writes what `read` accepts: no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out."""
        return True


def dumped(data: Any) -> str:
    """Plain data as YAML that `read` reads back."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=116, allow_unicode=True)
    return text
