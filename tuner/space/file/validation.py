"""Validates a YAML file with a pydantic model; the first error becomes one message with file, line and key."""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from tuner.quoting import quoted
from tuner.space.file.yamlfile import Document, Where

_PLURALS = ("steps", "parameters", "restrictions", "arguments")  # keys whose entries have the key's name

M = TypeVar("M", bound=BaseModel)


def validated(kind: type[M], document: Document) -> M:
    """The document as a model of type `kind`. Raises SpaceError for its first error."""
    try:
        return kind.model_validate(document.data)
    except ValidationError as error:
        # A misspelt key may also make a required one missing: report the misspelling.
        fault = min(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        raise document.error(_where(fault["loc"], document), _message(fault, kind)) from None


def _where(loc: Iterable[int | str], document: Document) -> Where:
    """Pydantic's location as a path in the file, without the names of union members that pydantic adds."""
    where: Where = ()
    data: Any = document.data
    for part in loc:
        if isinstance(data, dict):
            if part not in data:
                return (*where, part) if isinstance(part, str) and part.isidentifier() else where
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        where = (*where, part)
    return where


def _message(error: Any, kind: type[BaseModel]) -> str:
    value = error["input"]
    match error["type"]:
        case "extra_forbidden":
            allowed = _fields(kind, error["loc"][:-1])
            near = difflib.get_close_matches(str(error["loc"][-1]), allowed, n=1)
            return "unknown key; " + (f"did you mean `{near[0]}`?" if near else f"allowed: {', '.join(allowed)}")
        case "missing":
            return "this key is missing; add it"
        case "value_error":
            return str(error["ctx"]["error"])
        case "too_long" | "too_short" as fault:
            noun = str(error["loc"][-1]) if error["loc"][-1] in _PLURALS else "entries"
            bounds = error["ctx"]
            most, least = f"most {bounds.get('max_length')} are allowed", f"least {bounds.get('min_length')} is needed"
            return f"{bounds['actual_length']} {noun}; at {most if fault == 'too_long' else least}"
        case "string_pattern_mismatch" if error["loc"][-1] == "compute_capability":
            number = re.search(r"\d+(\.\d+)?", value)
            return f"{quoted(value)} is not a comparison; write one such as '>={number[0] if number else '7.0'}'"
        case "string_pattern_mismatch":
            return f"{quoted(value)} is not a name; use letters, digits and _"
    text = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else quoted(value)
    match error["type"]:
        case "list_type":
            return f"{text}: a list is needed" + (
                "" if value is None or isinstance(value, dict) else f"; write [{value}]"
            )
        case "dict_type" | "model_type":
            return f"{text}: a mapping is needed, as in `name: value`"
    said, _, _ = error["msg"].partition(" or instance of ")  # a class of ours, which no file can hold
    return f"{text}: {said[0].lower()}{said[1:]}"


def _fields(kind: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys of the model at `loc`."""
    for part in loc:
        if isinstance(part, str) and part in kind.model_fields:
            kind = next(_models(kind.model_fields[part].annotation), kind)
    return list(kind.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation such as `list[RowModel] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
