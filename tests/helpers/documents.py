"""The pages of the documentation, and what stands in them."""

from __future__ import annotations

import functools
import re
import shlex

import click

from helpers import ROOT
from tuner.cli import app

DOCS = sorted((ROOT / "docs").glob("*.md"))
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS)
}
_CONTEXT = click.Context(app.cli)
VERBS = {name: app.cli.get_command(_CONTEXT, name) for name in app.cli.list_commands(_CONTEXT)}


def blocks(text: str, *kinds: str) -> list[str]:
    """What stands in the fenced blocks of these kinds."""
    return [
        block for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if kind in kinds
    ]


def prose(text: str) -> str:
    """`text` without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def code_spans(text: str) -> list[str]:
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(text))]


@functools.cache
def shell_commands(text: str) -> tuple[list[str], ...]:
    """The commands of a page, as words: of its shell blocks, and those of `tune` in its sentences."""
    lines = "".join(blocks(text, "sh")).replace("\\\n", " ").splitlines()
    lines += [span for span in code_spans(text) if span.startswith("tune ")]
    commands = (command.partition(" > ")[0] for line in lines for command in line.split(" && "))
    split = (shlex.split(command.removeprefix(".venv/bin/"), comments=True) for command in commands)
    return tuple(words for words in split if words)


@functools.cache
def commands_of(program: str, text: str) -> tuple[str, ...]:
    """The commands of a page that begin with `program`, without it, in their order, each once."""
    return tuple(dict.fromkeys(shlex.join(words[1:]) for words in shell_commands(text) if words[0] == program))


def all_commands_of(program: str) -> list[str]:
    """Those of all pages."""
    return list(dict.fromkeys(line for text in TEXTS.values() for line in commands_of(program, text)))
