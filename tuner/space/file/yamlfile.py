"""Reads plain data and line numbers from an untrusted YAML file.

Anchors, aliases, tags and duplicate keys are rejected, and so are files above 1 MB or 12 levels. The parser's events
are processed one by one, so no input causes recursion.
"""

import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tuner import paths
from tuner.errors import SpaceError
from tuner.quoting import quoted, shown
from tuner.space import snapshot
from tuner.space.model import MAX_FILE_BYTES

MAX_LEVELS = 12
MOST_MESSAGE = 1000  # characters

_QUESTION = re.compile(r"(?:^|\s)# \? (.*)$")

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
        builder = _built(path, text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = " (indent with spaces, not tabs)" if "\\t" in str(error.problem) else ""
        raise SpaceError(f"{shown(path)}:{line}: not YAML: {error.problem}{hint}{_advice(path)}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise SpaceError(f"{shown(path)}: not YAML: {str(error).splitlines()[0]}{_advice(path)}") from None
    if not isinstance(builder.root, dict):
        content = "nothing" if builder.root is None else f"a {type(builder.root).__name__}"
        raise SpaceError(
            f"{shown(path)}:1: holds {content}; a mapping of keys such as `title:` and `parameters:` is expected"
            f"{_advice(path)}"
        )
    return Document(path, builder.root, builder.lines, _questions(text))


def _advice(path: Path) -> str:
    """The next step if `path` seems to be a kernel's source, whose name somebody wrote for that of its space file."""
    if path.suffix in ("", ".yaml", ".yml"):
        return ""
    return f"; if it is the source of a kernel, `tune new {shown(path)}` drafts the space file"


def _questions(text: str) -> dict[int, str]:
    matches = {number: _QUESTION.search(line) for number, line in enumerate(text.splitlines(), start=1)}
    return {number: match[1].strip() for number, match in matches.items() if match}


@dataclass
class _Level:
    """A mapping or list under construction.

    last: the path of its last scalar if that is an unclosed call, such as `ceil_div(n` in [ceil_div(n, 32)], which YAML
        splits at the comma.
    ends: the end of a call was read as a key, so an empty value follows.
    """

    value: dict[str, Any] | list[Any]
    where: Where
    in_brackets: bool
    key: str | None = None
    key_line: int = 0
    last: Where = ()
    ends: bool = False


@dataclass
class _DocumentBuilder:
    """Builds the data from parser events, with a stack of open collections."""

    path: Path
    root: Any = None
    lines: dict[Where, int] = field(default_factory=dict)
    stack: list[_Level] = field(default_factory=list)
    documents: int = 0

    def take(self, event: yaml.Event) -> None:
        """Process one event. Raises SpaceError for YAML that a space file may not use."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise SpaceError(
                f"{shown(self.path)}:{line}: anchors and aliases (& and *) are not supported; write out the value"
            )
        if tag := getattr(event, "tag", None):
            raise SpaceError(f"{shown(self.path)}:{line}: tags such as {shown(tag)} are not supported; remove it")
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise SpaceError(f"{shown(self.path)}:{line}: a second document; write one document per file")
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(self.stack) >= MAX_LEVELS:
                raise SpaceError(f"{shown(self.path)}:{line}: nested more than {MAX_LEVELS} levels deep")
            value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.stack.append(_Level(value, self._put(value, line), bool(event.flow_style)))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.stack.pop()

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and top.in_brackets and self._continues(top, event):
            return
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if event.value in top.value:
                raise SpaceError(f"{shown(self.path)}:{line}: the key {quoted(event.value)} appears twice; keep one")
            top.key, top.key_line = event.value, line
            return
        where = self._put(_resolve(event), line)
        if top is not None:
            top.last = where if event.implicit[0] and event.value.count("(") > event.value.count(")") else ()

    def _continues(self, top: _Level, event: yaml.ScalarEvent) -> bool:
        """Append a scalar to the unclosed call that it continues; returns whether it does."""
        if top.ends:
            top.ends = False
            return not event.value
        if not top.last or not event.implicit[0]:
            return False
        key: Any = top.last[-1]
        values: Any = top.value
        values[key] = text = f"{values[key]}, {event.value}"
        top.ends = isinstance(values, dict)
        if text.count("(") <= text.count(")"):
            top.last = ()
        return True

    def _put(self, value: Any, line: int) -> Where:
        """Put `value` into the innermost open collection; returns its path."""
        if not self.stack:
            self.root = value
            return ()
        top = self.stack[-1]
        if isinstance(top.value, list):
            where: Where = (*top.where, len(top.value))
            top.value.append(value)
        else:
            if top.key is None:
                raise SpaceError(f"{shown(self.path)}:{line}: a key must be a plain word")
            where = (*top.where, top.key)
            top.value[top.key] = value
            top.key, line = None, top.key_line
        self.lines[where] = line
        return where


def _built(path: Path, text: str) -> _DocumentBuilder:
    """The builder after the whole text. Raises SpaceError, or yaml.YAMLError.

    libyaml takes a seventh of the time. Where it refuses, the parser in Python says more, and it alone refuses tabs.
    """
    if _IN_C is not None and "\t" not in text:
        with contextlib.suppress(yaml.YAMLError):
            return _built_by(_IN_C, path, text)
    return _built_by(yaml.SafeLoader, path, text)


def _built_by(loader: Any, path: Path, text: str) -> _DocumentBuilder:
    builder = _DocumentBuilder(path)
    for event in yaml.parse(text, Loader=loader):
        builder.take(event)
    return builder


_CONSTRUCTOR: Any = yaml.SafeLoader("")  # the type stubs lack `resolve`


def _resolve(event: yaml.ScalarEvent) -> Any:
    """The value of a scalar by YAML 1.1, except that dates remain text."""
    tag = _CONSTRUCTOR.resolve(yaml.ScalarNode, event.value, event.implicit)
    kind = tag.rpartition(":")[2]
    if kind not in ("int", "float", "bool", "null"):
        return event.value
    try:
        return _CONSTRUCTOR.construct_object(yaml.ScalarNode(tag, event.value))
    except (ValueError, yaml.YAMLError):
        return event.value


class _Dumper(yaml.SafeDumper):
    """Writes what `read` accepts: no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out."""
        return True


def dumped(data: Any) -> str:
    """Plain data as YAML that `read` reads back."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=116, allow_unicode=True)
    return text
