"""Defaults of options, from the environment and from the project's file.

An option that is not on the command line has the value of its variable, `TUNER_` and its name; else that of the table
`options` in the tuner.toml, or `tool.tuner.options` in the pyproject.toml, that is nearest above the current folder.
"""

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tuner.catalog import project
from tuner.catalog.project import Project
from tuner.cli import output
from tuner.errors import RequestError
from tuner.quoting import quoted, shown

TUNE = "tune"  # the table of `tune KERNEL SIZE`, which is no verb
RESULTS = "TUNER_RESULTS"  # which `--results` precedes by itself

_CHOSEN = {"device": "device", "option": "set", "type": "type"}  # how messages begin about a value of these options

Verb = Callable[[str], click.Command | None]


def listen_to_environment(command: click.Command) -> None:
    """Give each option the variable that is called like it."""
    for option in _options(command):
        name = f"TUNER_{_name(option).upper().replace('-', '_')}"
        if name != RESULTS:
            option.envvar = name


class Defaults:
    """The defaults of one command, and where they come from."""

    def __init__(self) -> None:
        self._home: Project | None = None
        self._origins: dict[str, str] = {}  # of the options that are not on the command line, by their names
        self._told = ""  # what is wrong with the file, once that has been said

    def _find(self, is_told: bool) -> None:
        """Read the file. One that cannot be read is said, unless the verb `is_told` anyway, and left out."""
        self._home, self._origins = None, {}
        try:
            self._home = project.above(Path.cwd())
        except OSError:
            return  # the current folder is gone
        except RequestError as error:
            if not is_told:
                self._told = str(error)
                output.say(f"warning: {error}; no default is taken from it")

    def of(
        self, name: str, command: click.Command, words: Sequence[str], verbs: Mapping[str, str], get: Verb
    ) -> dict[str, Any]:
        """The defaults of `command`, which the file calls `name`, as click's `default_map`.

        `words` follow it on the command line. `verbs` are the names of the commands, by what the file calls them; `get`
        gives the command of a name. Raises RequestError, with the file and the key, for what no option is called, or
        what an option cannot be.
        """
        self._find(is_told=name == "list")
        table = self._table(name, command, verbs, get) if self._home else {}
        on_line = {word.partition("=")[0] for word in words}
        found = {}
        for option in _options(command):
            own, value = table.get(_name(option), ("", None))
            if value is not None:
                found[str(option.name)] = value
            if not on_line & {*option.opts}:
                self._origins[_name(option)] = str(option.envvar) if os.environ.get(str(option.envvar)) else own
        return found

    def _table(
        self, name: str, command: click.Command, verbs: Mapping[str, str], get: Verb
    ) -> dict[str, tuple[str, Any]]:
        """The place in the file and the value of each option that the file gives, by the option's name."""
        assert self._home
        table: dict[str, tuple[str, Any]] = {}
        for key, value in self._home.options.items():
            if key in verbs and isinstance(value, Mapping):
                continue
            if self._option(command, key):
                table[key] = (f"options.{key}", value)
            elif not any(self._option(other, key) for other in map(get, verbs.values()) if other):
                raise self._unknown(f"options.{key}", key, [*_names(map(get, verbs.values())), *verbs])
        for key, value in self._of_verb(name).items():
            if not self._option(command, key):
                raise self._unknown(f"options.{name}.{key}", key, list(_names([command])))
            table[key] = (f"options.{name}.{key}", value)
        found = {}
        for key, (where, value) in table.items():
            option = self._option(command, key)
            if option and not (_name(option) == "results" and os.environ.get(RESULTS)):
                place = f"{where} in {shown(self._home.file)}"
                found[_name(option)] = (place, self._checked(where, value, option))
        return found

    def explain(self, message: str) -> str:
        """`message` without what has been said of the file, and with the origin of each option in it that is not on the
        command line. It names the option, or its first word is what the option chooses."""
        if self._told:
            message = message.replace(f"; {self._told}", "; the warning above may say why")
        words = message.replace("'", " ").replace(":", " ").split()
        named = {word[2:] for word in words if word.startswith("--")} | {_CHOSEN.get(words[0] if words else "")}
        origins = [origin for name, origin in self._origins.items() if origin and name in named]
        return f"{message}; it comes from {' and '.join(origins)}" if origins else message

    def _of_verb(self, name: str) -> Mapping[str, Any]:
        value = self._home.options.get(name, {}) if self._home else {}
        return value if isinstance(value, Mapping) else {}

    @staticmethod
    def _option(command: click.Command, key: str) -> click.Option | None:
        return next((option for option in _options(command) if f"--{key}" in option.opts), None)

    def _checked(self, where: str, value: object, option: click.Option) -> Any:
        """A value as it would stand on the command line; a path from the folder of the file."""
        assert self._home
        if option.is_flag:
            if isinstance(value, bool):
                return value
            raise self._wrong(where, value, "write true or false")
        values = value if option.multiple and isinstance(value, list) else [value]
        if any(isinstance(each, bool) or not isinstance(each, str | int | float) for each in values):
            raise self._wrong(where, value, "write a text or a number" + (", or a list" if option.multiple else ""))
        texts = [str(each) for each in values]
        if isinstance(option.type, click.Path):
            texts = [str(self._home.root / text) for text in texts]
        return texts if option.multiple else texts[0]

    def _wrong(self, where: str, value: object, advice: str) -> RequestError:
        assert self._home
        return RequestError(f"{shown(self._home.file)}: {where} = {quoted(value)}: {advice}")

    def _unknown(self, where: str, key: str, known: list[str]) -> RequestError:
        assert self._home
        near = difflib.get_close_matches(key, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"names are those of `tune --help`, such as {known[0]}"
        return RequestError(f"{shown(self._home.file)}: {shown(where)}: there is no such option; {advice}")


def _options(command: click.Command) -> Iterator[click.Option]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield parameter


def _names(commands: Any) -> dict[str, None]:
    """The names of all options."""
    return {_name(option): None for command in commands if command for option in _options(command)}


def _name(option: click.Option) -> str:
    """`budget` for `--budget`."""
    return next(text for text in option.opts if text.startswith("--"))[2:]
