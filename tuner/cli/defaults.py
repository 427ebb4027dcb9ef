"""Read defaults of options from the environment and from the project file.

An option that is not on the command line takes the value of its environment variable, such as TUNER_BUDGET for
`--budget`. If that is unset, it takes the value in the nearest project file above the current folder: the table
`options` of a tuner.toml, or `tool.tuner.options` of a pyproject.toml.
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

TUNE = "tune"  # the table of `tune KERNEL SIZE` in project files
RESULTS = "TUNER_RESULTS"  # not bound to `--results`: the store reads this variable itself

_CHOSEN = {"device": "device", "option": "set", "type": "type"}  # a message's first word -> the option that it is about

Verb = Callable[[str], click.Command | None]


def bind_environment(command: click.Command) -> None:
    """Bind each option to its environment variable, such as `TUNER_BUDGET` for `--budget`."""
    for option in _options(command):
        name = f"TUNER_{_name(option).upper().replace('-', '_')}"
        if name != RESULTS:
            option.envvar = name


class Defaults:
    """The defaults of one command's options, and the origin of each."""

    def __init__(self) -> None:
        self._project: Project | None = None
        self._origins: dict[str, str] = {}  # by option name, for options that are not on the command line
        self._warned = ""  # the error in the project file, once the user has been warned of it

    def _find(self, verb_warns: bool) -> None:
        """Find the project file. If it cannot be read, ignore it, with a warning unless the verb gives one itself."""
        self._project, self._origins = None, {}
        try:
            self._project = project.above(Path.cwd())
        except OSError:
            return  # the current folder has been deleted
        except RequestError as error:
            if not verb_warns:
                self._warned = str(error)
                output.say(f"warning: {error}; its defaults are ignored")

    def of(
        self, name: str, command: click.Command, words: Sequence[str], verbs: Mapping[str, str], get: Verb
    ) -> dict[str, Any]:
        """The defaults of `command`, as click's `default_map`.

        name: the command's name in project files.
        words: the words that follow the command on the command line.
        verbs: the names of all commands, by their names in project files.
        get: returns the command of a name.

        Raises RequestError, with the file and the key, for an unknown option or a value that its option does not allow.
        """
        self._find(verb_warns=name == "list")
        table = self._table(name, command, verbs, get) if self._project else {}
        given = {word.partition("=")[0] for word in words}
        values = {}
        for option in _options(command):
            place, value = table.get(_name(option), ("", None))
            if value is not None:
                values[str(option.name)] = value
            if not given & {*option.opts}:
                self._origins[_name(option)] = str(option.envvar) if os.environ.get(str(option.envvar)) else place
        return values

    def _table(
        self, name: str, command: click.Command, verbs: Mapping[str, str], get: Verb
    ) -> dict[str, tuple[str, Any]]:
        """The options of `command` that the project file sets: option name -> (key and file, value)."""
        assert self._project
        table: dict[str, tuple[str, Any]] = {}  # by key, before the checks; a verb's own table precedes the general one
        for key, value in self._project.options.items():
            if key in verbs and isinstance(value, Mapping):
                continue
            if self._option(command, key):
                table[key] = (f"options.{key}", value)
            elif not any(self._option(other, key) for other in map(get, verbs.values()) if other):
                raise self._unknown(f"options.{key}", key, [*_names(map(get, verbs.values())), *verbs])
        for key, value in self._verb_table(name).items():
            if not self._option(command, key):
                raise self._unknown(f"options.{name}.{key}", key, list(_names([command])))
            table[key] = (f"options.{name}.{key}", value)
        checked = {}
        for key, (where, value) in table.items():
            option = self._option(command, key)
            if option and not (_name(option) == "results" and os.environ.get(RESULTS)):
                place = f"{where} in {shown(self._project.file)}"
                checked[_name(option)] = (place, self._checked(where, value, option))
        return checked

    def explain(self, message: str) -> str:
        """`message`, with the origin of each option that it is about and that is not on the command line.

        A message is about an option if it names the option, or if its first word is in `_CHOSEN`. An error in the
        project file is not repeated if the user has been warned of it.
        """
        if self._warned:
            message = message.replace(f"; {self._warned}", "; the warning above may say why")
        words = message.replace("'", " ").replace(":", " ").split()
        named = {word[2:] for word in words if word.startswith("--")} | {_CHOSEN.get(words[0] if words else "")}
        origins = [origin for name, origin in self._origins.items() if origin and name in named]
        return f"{message}; it comes from {' and '.join(origins)}" if origins else message

    def _verb_table(self, name: str) -> Mapping[str, Any]:
        value = self._project.options.get(name, {}) if self._project else {}
        return value if isinstance(value, Mapping) else {}

    @staticmethod
    def _option(command: click.Command, key: str) -> click.Option | None:
        return next((option for option in _options(command) if f"--{key}" in option.opts), None)

    def _checked(self, where: str, value: object, option: click.Option) -> Any:
        """`value` as it would be written on the command line. Paths are relative to the folder of the project file."""
        assert self._project
        if option.is_flag:
            if isinstance(value, bool):
                return value
            raise self._wrong(where, value, "write true or false")
        values = value if option.multiple and isinstance(value, list) else [value]
        if any(isinstance(item, bool) or not isinstance(item, str | int | float) for item in values):
            raise self._wrong(where, value, "write a text or a number" + (", or a list" if option.multiple else ""))
        texts = [str(item) for item in values]
        if isinstance(option.type, click.Path):
            texts = [str(self._project.root / text) for text in texts]
        return texts if option.multiple else texts[0]

    def _wrong(self, where: str, value: object, advice: str) -> RequestError:
        assert self._project
        return RequestError(f"{shown(self._project.file)}: {where} = {quoted(value)}: {advice}")

    def _unknown(self, where: str, key: str, known: list[str]) -> RequestError:
        assert self._project
        near = difflib.get_close_matches(key, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"`tune VERB --help` lists the names, such as {known[0]}"
        return RequestError(f"{shown(self._project.file)}: {shown(where)}: there is no such option; {advice}")


def _options(command: click.Command) -> Iterator[click.Option]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield parameter


def _names(commands: Any) -> dict[str, None]:
    """The option names of all `commands`, as the keys of a dict to keep their order."""
    return {_name(option): None for command in commands if command for option in _options(command)}


def _name(option: click.Option) -> str:
    """The option's name without dashes: `budget` for `--budget`."""
    return next(text for text in option.opts if text.startswith("--"))[2:]
