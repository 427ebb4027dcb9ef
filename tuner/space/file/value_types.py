"""The types of values in space and operation files: how each is checked, and its JSON Schema."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, FiniteFloat, WithJsonSchema, WrapValidator

from tuner.languages import LANGUAGES, PYTHON_LANGUAGES
from tuner.quoting import quoted, shown
from tuner.space import kinds
from tuner.space.config import MAX_VALUES
from tuner.space.dtypes import ALIASES, DTYPES, canonical
from tuner.space.expressions import Expression, braces, parse_value
from tuner.space.file import ranges
from tuner.space.routines import ROUTINES
from tuner.space.values.fills import DISTRIBUTIONS, SEQUENCES
from tuner.space.values.tolerance import TERMS

MAX_KERNEL = 300  # characters of a kernel's name
_EXPONENT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d{1,3}")
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]


def _tolerance(value: object) -> object:
    """An expression, expressions by term or output, or mappings of terms by output."""
    if not isinstance(value, dict):
        return parse_value(value)
    if not value:
        raise ValueError(f"an empty mapping; write an expression, or some of {', '.join(TERMS)}")
    parsed: dict[str, object] = {}
    for name, inner in value.items():
        try:
            parsed[str(name)] = _tolerance(inner)
        except ValueError as error:
            raise ValueError(f"{shown(name)}: {error}") from None
    return parsed


def _expressions(value: object) -> list[Expression]:
    return [parse_value(item) for item in value] if isinstance(value, list) else [parse_value(value)]


def _number(value: object) -> object:
    """A number for a text such as `1e-12`: YAML 1.1 demands a point and a sign in it, which hardly anybody knows.

    Expressions keep the text, which is part of the identity of stored trials.
    """
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _fill(value: object) -> object:
    if not isinstance(value, dict) or not isinstance(value.get("choice"), list):
        return value
    return {**value, "choice": [_number(each) for each in value["choice"]]}


def _value(value: object) -> object:
    """A parameter's value. It becomes source text, so a word must be a C identifier."""
    value = _number(value)
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", value):
        raise ValueError(
            f"{quoted(value)} is not a word; values are numbers, true, false, or words of letters, digits and _"
        )
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{quoted(value)} is not a number, true, false, or a word")
    if isinstance(value, int | float) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{quoted(value)} does not fit 64 bits")
    return value


def _dtype(value: object) -> object:
    return canonical(value) if isinstance(value, str) else value


def _condition(value: object) -> object:
    """An expression; or a function, which only a space in Python can have, and which is examined with its names."""
    return value if callable(value) else parse_value(value)


def _values(value: object) -> object:
    return ranges.expanded(value) if isinstance(value, dict) else value


def _kernel(value: object) -> object:
    if isinstance(value, str) and (len(value) > MAX_KERNEL or not braces.KERNEL.fullmatch(value)):
        raise ValueError(f"{quoted(value)} is not the name of a kernel, such as add, ns::add or add<{{threads}}>")
    return value


def _option(value: object) -> object:
    """A compiler option. -I is rejected: the names of cached builds would not depend on the headers that it finds."""
    if isinstance(value, str) and value.startswith(("-I", "--include", "-include", "-isystem", "-iquote")):
        raise ValueError(f"{quoted(value)}: name folders of your own headers in `include:`, a key of the space")
    return value


Number = Annotated[FiniteFloat, BeforeValidator(_number)]
FORMULA: dict[str, Any] = {"type": ["string", "number"], "description": "an expression"}
Formula = Annotated[Any, BeforeValidator(parse_value), WithJsonSchema(FORMULA)]
Condition = Annotated[Any, BeforeValidator(_condition), WithJsonSchema(FORMULA)]
Formulas = Annotated[
    Any, BeforeValidator(_expressions), WithJsonSchema({"anyOf": [FORMULA, {"type": "array", "items": FORMULA}]})
]
Allowed = Annotated[Any, BeforeValidator(_value), WithJsonSchema({"type": ["number", "boolean", "string"]})]
DTypeName = Annotated[
    Identifier, BeforeValidator(_dtype), WithJsonSchema({"anyOf": [{"enum": [*DTYPES, *ALIASES]}, {"type": "string"}]})
]
Types = dict[Identifier, Annotated[list[DTypeName], Field(min_length=1, max_length=len(DTYPES))]]
RANGES: list[dict[str, Any]] = [
    {
        "type": "object",
        "description": "numbers, both ends included",
        "properties": {name: {"type": "number"} for name in ("from", "to", "step")},
        "required": ["from", "to"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "description": "the first and the last value",
        "properties": {"powers_of_two": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}},
        "required": ["powers_of_two"],
        "additionalProperties": False,
    },
]
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}, "minItems": 1}
_BOUNDS: dict[str, Any] = {"type": "array", "items": FORMULA, "minItems": 2, "maxItems": 2}
_FILL: dict[str, Any] = {
    "description": "the contents of an input during tuning; random numbers if omitted",
    "anyOf": [
        {"enum": [*SEQUENCES, None]},
        {
            "type": "object",
            "properties": {
                "choice": _NUMBERS,
                **dict.fromkeys(DISTRIBUTIONS, _BOUNDS),
                "file": {"type": "string"},
                "fit": {"const": "tile"},
                "drawn": {"type": "boolean"},
                "python": {"type": "string"},
            },
            "additionalProperties": False,
        },
    ],
}
_EXTENTS: dict[str, Any] = {"anyOf": [FORMULA, {"type": "array", "items": FORMULA, "minItems": 1, "maxItems": 3}]}
_PYTHON: dict[str, Any] = {
    "type": "object",
    "properties": {"python": {"type": "string"}},
    "required": ["python"],
    "additionalProperties": False,
}
_REFERENCE: dict[str, Any] = {
    "description": "the expected output as a NumPy expression; `tune schema --functions` lists its functions. Or what "
    "computes it: a Python function, a kernel or a configuration; or `none`",
    "anyOf": [
        FORMULA,
        {"const": "none"},
        *(
            {"type": "object", "properties": keys, "required": [*keys][:1], "additionalProperties": False}
            for keys in (
                {"python": {"type": "string"}},
                {
                    "kernel": {"type": "string"},
                    "source": {"type": "string"},
                    "arguments": {"type": "array", "items": {"type": "string"}},
                    "grid": _EXTENTS,
                    "block": _EXTENTS,
                },
                {"config": {"anyOf": [{"const": "default"}, {"type": "object"}]}},
            )
        ),
        {"type": "object", "additionalProperties": FORMULA},
    ],
}


_TERMS: dict[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(TERMS, FORMULA),
    "additionalProperties": False,
}
_TOLERANCE: dict[str, Any] = {
    "description": "one for all outputs, or one for each output by name",
    "anyOf": [FORMULA, _TERMS, {"type": "object", "additionalProperties": {"anyOf": [FORMULA, _TERMS]}}],
}
Tolerances = Annotated[Any, BeforeValidator(_tolerance), WithJsonSchema(_TOLERANCE)]
KernelName = Annotated[str, BeforeValidator(_kernel)]
Extents = Annotated[list[Formula], Field(min_length=1, max_length=3)]
Fill = Annotated[Any, BeforeValidator(_fill), WithJsonSchema(_FILL)]
Reference = Annotated[Any, WithJsonSchema(_REFERENCE)]
Derivation = Annotated[Any, WithJsonSchema({"anyOf": [FORMULA, _PYTHON]})]
Python = Annotated[Any, WithJsonSchema(_PYTHON)]
Option = Annotated[str, BeforeValidator(_option)]
Values = Annotated[list[Allowed], BeforeValidator(_values), Field(min_length=1, max_length=MAX_VALUES)]
MutantName = Literal["zeros", "shift", "replaced", "rounded_inputs", "rounded_outputs"]

BY_PARAMETER = r"^\{\w+\}$"  # a kind that a parameter chooses


def is_by_parameter(kind: object) -> bool:
    """Whether `kind:` names a parameter, in braces, whose value is the kind."""
    return isinstance(kind, str) and re.match(BY_PARAMETER, kind) is not None


if TYPE_CHECKING:
    from typing import TypeAlias

    LanguageName: TypeAlias = str
    WrittenName: TypeAlias = str
    CompilerName: TypeAlias = str
    RoutineName: TypeAlias = str
    KindName: TypeAlias = str
else:  # the names in the tables
    LanguageName, RoutineName = Literal[tuple(LANGUAGES)], Literal[tuple(ROUTINES)]
    WrittenName = Literal[(*LANGUAGES, *PYTHON_LANGUAGES)]
    CompilerName = Literal[tuple(name for language in LANGUAGES.values() for name in language.compilers)]
    _KINDS = ("array", *kinds.table())
    KindName = Annotated[
        Literal[_KINDS],
        WrapValidator(lambda value, check: value if is_by_parameter(value) else check(value)),
        WithJsonSchema({"anyOf": [{"enum": list(_KINDS)}, {"type": "string", "pattern": BY_PARAMETER}]}),
    ]
