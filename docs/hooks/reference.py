"""The reference pages: space file keys, expression functions, the command line and the Python interface."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

import tuner
from tuner import errors
from tuner.cli import app
from tuner.cli.verb_names import VERBS
from tuner.search import ListSearch, PoolGPSampler
from tuner.space.expressions import arithmetic, array_expressions
from tuner.space.file import schema

TITLES = {
    "reference/space-file.md": "Keys of space files",
    "reference/functions.md": "Functions of expressions",
    "reference/command-line.md": "Command line",
    "reference/python.md": "Python",
}
READERS = {  # whom each page is for
    "reference/space-file.md": "who write a space file",
    "reference/functions.md": "who write expressions in a space file",
    "reference/command-line.md": "who use the command line",
    "reference/python.md": "who call `tuner` from Python",
}
OF_MODELS = {
    "SpaceModel": "A space file",
    "OperationModel": "operation",
    "ArgumentModel": "An item of arguments",
    "FieldModel": "An item of fields",
    "StepModel": "An item of steps",
    "RestrictionModel": "An item of restrictions",
    "DivisorsModel": "grid_divisors",
    "RequirementsModel": "requires",
}
_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    texts = (space_file(), functions(), command_line(), python())
    return {
        page: f"# {title}\n\nThis page is for people {READERS[page]}.\n\n{text}"
        for (page, title), text in zip(TITLES.items(), texts, strict=True)
    }


def space_file() -> str:
    """The keys of space and operation files, one table per mapping."""
    whole = schema.json_schema()
    intro = (
        "These are the keys that `tune schema` allows, with its descriptions. [Space files](../space-files.md) "
        "explains them in context. A key in bold is required."
    )
    parts = [intro]
    for model, title in OF_MODELS.items():
        described = whole if model == "SpaceModel" else whole["$defs"][model]
        lines = [f"## {title}", "", "| key | value | meaning |", "|---|---|---|"]
        for key, value in described["properties"].items():
            shown = f"**`{key}`**" if key in described.get("required", []) else f"`{key}`"
            lines.append(f"| {shown} | {_cell(_kind(value))} | {_cell(description(value))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def description(value: Mapping[str, Any]) -> str:
    """The schema's description of a key."""
    return str(value.get("description", ""))


def _kind(value: Mapping[str, Any]) -> str:
    """The kind of value of a key, in words."""
    if "$ref" in value:
        return f"see {OF_MODELS[value['$ref'].rpartition('/')[2]]}"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_kind(each) for each in value["anyOf"] if each.get("type") != "null"))
    if "enum" in value or "const" in value:
        return ", ".join(f"`{'nothing' if each is None else each}`" for each in value.get("enum", [value.get("const")]))
    kind = value.get("type")
    if kind == "array":
        return f"list of: {_kind(value['items'])}" if value.get("items") else "list"
    if kind == "object":
        inner = value.get("additionalProperties") or next(iter(value.get("patternProperties", {}).values()), None)
        if value.get("properties"):
            return "mapping of " + ", ".join(f"`{key}`" for key in value["properties"])
        return f"mapping of names to: {_kind(inner)}" if isinstance(inner, dict) else "mapping"
    if isinstance(kind, list):
        return "an expression" if set(kind) == {"string", "number"} else " or ".join(_WORDS[each] for each in kind)
    return _WORDS.get(str(kind), "anything")


def functions() -> str:
    """The functions that expressions over numbers, and references over arrays, may call."""
    of_arrays = {name: usage for name, usage in array_expressions.usage().items() if "numbers alone" not in usage}
    lines = ["## Of numbers", "", "Restrictions, grids, shapes and all other expressions may call these.", ""]
    lines += ["| function | meaning |", "|---|---|"]
    for name, function in sorted(arithmetic.FUNCTIONS.items()):
        lines.append(f"| `{name}{_signature(function)}` | {_cell(_first_line(function))} |")
    lines += [
        "",
        "## Of arrays",
        "",
        "A `reference:` may also call these, which have NumPy's names and meaning.",
        "",
        "```text",
    ]
    return "\n".join([*lines, *of_arrays.values(), "```"])


def command_line() -> str:
    """Every verb, with its arguments and options."""
    parts = ["Each verb prints this with `--help`. [Using `tune`](../using.md) shows which verb to use when."]
    context = click.Context(app.cli, info_name="tune")
    for verb in ["kernel", *VERBS]:
        command = app.cli.get_command(context, verb)
        assert command
        usage = command.get_usage(click.Context(command, info_name=f"tune {verb}")).partition(" ")[2]
        usage = usage.replace("tune kernel", "tune") if verb == "kernel" else usage
        help_ = inspect.cleandoc(command.help or "")
        prose, _, example = help_.partition("Example: ")
        lines = [f"## tune {verb}" if verb != "kernel" else "## tune KERNEL SIZE", "", "```text", _joined(usage), "```"]
        lines += ["", _plain(prose), "", "```sh", example.strip(), "```", "", "| option | meaning |", "|---|---|"]
        parts.append("\n".join([*lines, *_options(command)]))
    return "\n\n".join(parts)


def _options(command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            yield f"| `{record[0]}` | {_cell(_plain(record[1]))} |"


def python() -> str:
    """The public names of the package, and the searches."""
    public = {name: getattr(tuner, name) for name in tuner.__all__ if not hasattr(errors, name)}
    parts = [
        "`import tuner` provides these names. "
        "[Stability](../upgrading.md#stability-and-compatibility) says what they promise.",
        *(_function(f"tuner.{name}", value) for name, value in public.items() if inspect.isfunction(value)),
        f"## tuner.matmul\n\n{_block(type(tuner.matmul).__call__, 'matmul')}\n\n{_text(type(tuner.matmul))}",
        _member("matmul", "explain", type(tuner.matmul).explain),
        *(_class(name, value) for name, value in public.items() if inspect.isclass(value)),
        f"## Errors\n\n{_text(errors)}",
        *(f"### tuner.{name}\n\n{_text(getattr(tuner, name))}" for name in tuner.__all__ if hasattr(errors, name)),
        f"## tuner.search.PoolGPSampler\n\n{_block(PoolGPSampler.__init__)}\n\n{_text(PoolGPSampler)}",
        f"## tuner.search.ListSearch\n\n{_block(ListSearch.__init__, 'ListSearch')}\n\n{_text(ListSearch)}",
        *(_member("search", name, getattr(ListSearch, name)) for name in ("ask", "tell", "best")),
    ]
    return "\n\n".join(parts)


def _function(name: str, function: Callable[..., Any]) -> str:
    return f"## {name}\n\n{_block(function)}\n\n{_text(function)}"


def _class(name: str, kind: type) -> str:
    """A class with its public members, called on a variable that has the class's name in lower case."""
    members = [(n, m) for n, m in vars(kind).items() if not n.startswith("_") or n == "__call__"]
    shown = [_member(name.lower(), n, m) for n, m in members if inspect.isfunction(m) or isinstance(m, property)]
    init = kind.__init__
    made = [_block(init, name), _text(init)] if "Args:" in (init.__doc__ or "") else []  # by the user
    return "\n\n".join([f"## tuner.{name}\n\n{_text(kind)}", *made, *shown])


def _member(of: str, name: str, member: Any) -> str:
    if isinstance(member, property):
        kind = _signature(member.fget).partition("-> ")[2]
        return f"### {of}.{name}\n\n`{kind}`\n\n{_text(member)}"
    call = f"{of}(...)" if name == "__call__" else f"{of}.{name}"
    return f"### {call}\n\n{_block(member, of)}\n\n{_text(member)}"


def _block(function: Callable[..., Any], of: str = "PoolGPSampler") -> str:
    """The signature, one argument per line."""
    name = of if function.__name__ in ("__init__", "__call__") else function.__name__
    text = _signature(function)
    text = text.replace("(self, ", "(").replace("(self)", "()")
    inner, closing, rest = text[1:].rpartition(")")
    arguments = re.split(r", (?=[\w*]+(?::|,|$))", inner)
    body = "".join(f"    {argument},\n" for argument in arguments if argument)
    body = f"\n{body}" if body else ""
    return f"```text\n{name}({body}{closing}{rest}\n```"


def _signature(function: Callable[..., Any]) -> str:
    try:
        text = str(inspect.signature(function)).replace("'", "")
    except ValueError:  # built in, such as min
        return "(...)"
    return re.sub(r"\b(?:collections\.abc|pathlib|typing|tuner(?:\.\w+)+)\.(?=[A-Z])", "", text)


def _text(what: Any) -> str:
    """A docstring as Markdown: `Args:` is a list, other indented parts are code, everything else is prose."""
    text = inspect.cleandoc(what.__doc__ or "").replace("Example::", "Example:")
    return _plain(re.sub(r"^Args:\n((?: {4}.*\n)+)", _argument_list, text, flags=re.MULTILINE))


def _argument_list(section: re.Match[str]) -> str:
    """The items of an `Args:` section as a Markdown list."""
    items = re.sub(r"\n {4,}", " ", textwrap.dedent(section[1])).splitlines()
    return "".join(re.sub(r"^(\w+): ", r"- `\1`: ", item) + "\n" for item in items)


def _plain(text: str) -> str:
    """Prose with the characters that Markdown and HTML would interpret escaped."""
    lines = text.replace("\b", "").splitlines()
    escaped = [
        line if line.startswith("    ") else re.sub(r"[*<](?![^`]*`)", lambda match: f"&#{ord(match[0])};", line)
        for line in lines
    ]
    return "\n".join(escaped).strip()


def _first_line(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _joined(text).replace("|", "\\|")
