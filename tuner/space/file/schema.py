"""The keys of space and operation files as pydantic models, and the JSON Schema for editors."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    WithJsonSchema,
    WrapValidator,
    create_model,
)

from tuner.errors import ExpressionError
from tuner.languages import LANGUAGES, PYTHON_LANGUAGES
from tuner.quoting import quoted, shown
from tuner.space import expressions, kinds
from tuner.space.argument import Key
from tuner.space.dtypes import ALIASES, DTYPES, canonical
from tuner.space.expressions import Expression, braces
from tuner.space.file import loop_values, ranges
from tuner.space.model import MAX_VALUES
from tuner.space.routines import ROUTINES
from tuner.space.values.fills import DISTRIBUTIONS, SEQUENCES
from tuner.space.values.tolerance import TERMS

MAX_STEPS = 32
MAX_KERNEL = 300  # characters of a kernel's name
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]


def _expression(value: object) -> Expression:
    try:
        return expressions.parse(value)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


def _tolerance(value: object) -> object:
    """An expression, expressions by term or output, or mappings of terms by output."""
    if not isinstance(value, dict):
        return _expression(value)
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
    return [_expression(item) for item in value] if isinstance(value, list) else [_expression(value)]


def _value(value: object) -> object:
    """A parameter's value. It becomes source text, so a word must be a C identifier."""
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


def _restriction(value: object) -> object:
    return {"that": value} if isinstance(value, str) or callable(value) else value


def _condition(value: object) -> object:
    """An expression; or a function, which only a space in Python can have, and which is examined with its names."""
    return value if callable(value) else _expression(value)


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


_FORMULA: dict[str, Any] = {"type": ["string", "number"], "description": "an expression"}
Formula = Annotated[Any, BeforeValidator(_expression), WithJsonSchema(_FORMULA)]
Condition = Annotated[Any, BeforeValidator(_condition), WithJsonSchema(_FORMULA)]
Formulas = Annotated[
    Any, BeforeValidator(_expressions), WithJsonSchema({"anyOf": [_FORMULA, {"type": "array", "items": _FORMULA}]})
]
Allowed = Annotated[Any, BeforeValidator(_value), WithJsonSchema({"type": ["number", "boolean", "string"]})]
DTypeName = Annotated[
    Identifier, BeforeValidator(_dtype), WithJsonSchema({"anyOf": [{"enum": [*DTYPES, *ALIASES]}, {"type": "string"}]})
]
Types = dict[Identifier, Annotated[list[DTypeName], Field(min_length=1, max_length=len(DTYPES))]]
_RANGES: list[dict[str, Any]] = [
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
_BOUNDS: dict[str, Any] = {"type": "array", "items": _FORMULA, "minItems": 2, "maxItems": 2}
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
_EXTENTS: dict[str, Any] = {"anyOf": [_FORMULA, {"type": "array", "items": _FORMULA, "minItems": 1, "maxItems": 3}]}
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
        _FORMULA,
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
        {"type": "object", "additionalProperties": _FORMULA},
    ],
}


_TERMS: dict[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(TERMS, _FORMULA),
    "additionalProperties": False,
}
_TOLERANCE: dict[str, Any] = {
    "description": "one for all outputs, or one for each output by name",
    "anyOf": [_FORMULA, _TERMS, {"type": "object", "additionalProperties": {"anyOf": [_FORMULA, _TERMS]}}],
}
Tolerances = Annotated[Any, BeforeValidator(_tolerance), WithJsonSchema(_TOLERANCE)]
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


class StrictModel(BaseModel):
    """A model that rejects unknown keys and values of another type."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, strict=True)


class RestrictionModel(StrictModel):
    """A condition on configurations."""

    that: Condition = Field(description="must be true for every configuration")
    because: str = Field("", description="the reason, for error messages")


class FieldModel(StrictModel):
    """One field of a struct that is passed by value."""

    name: Identifier = Field(description="its name in the source")
    dtype: DTypeName | None = Field(None, description="its type, or a vector such as float4; none if it has `fields`")
    shape: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=4)] | None = Field(
        None, description="extents, if it is an array"
    )
    value: Formulas | None = Field(
        None, description="one expression for each of its numbers; if omitted, the size or option of its name"
    )
    offset: Annotated[int, Field(ge=0)] | None = Field(
        None, description="bytes from the beginning of the struct; where C puts it, if omitted"
    )
    fields: list["FieldModel"] | None = Field(None, description="of a struct in the struct")


class PlainArgumentModel(StrictModel):
    """One argument of the kernel, in the kernel's order."""

    name: Identifier = Field(description="the name in expressions and messages")
    dtype: DTypeName | None = Field(None, description="the type of its elements, or a name in `types`")
    shape: list[Formula] | None = Field(None, description="extents of an array; a scalar has none")
    role: Literal["in", "out", "inout", "scratch"] | None = Field(
        None,
        description="of an array: the kernel reads it, writes it, or both; scratch is memory that only the kernel uses",
    )
    value: Formulas | None = Field(
        None,
        description="of a scalar that is neither size nor option; or the elements of an array that no caller passes",
    )
    fill: Annotated[Any, WithJsonSchema(_FILL)] = None
    kind: KindName | None = Field(
        None, description="how it is passed to the kernel, unless it is a plain array or scalar"
    )
    strides: list[Formula] | None = Field(
        None,
        description="of an array whose rows may be padded: the stride of each axis in elements, the last 1; a scalar "
        "argument named here, which is no size, gets the stride of the array that is passed",
    )
    fields: list[FieldModel] | None = Field(None, description="of a struct that is passed by value, in its order")
    compared: bool = Field(
        True, description="of an output: false if its content has no answer, so the kernel may leave anything in it"
    )
    zeroed: Literal["never", "once", "each"] = Field(
        "never", description="of scratch: when it is set to 0; `once` suffices if each launch leaves it zeroed"
    )


def _kind_key(keys: list[Key]) -> tuple[Any, Any]:
    """The type and the field of a key, which several kinds may have."""
    key, words = keys[0], tuple(dict.fromkeys(choice for each in keys for choice in each.choices))
    owners = ", ".join(kind.name for kind in kinds.table().values() if any(own in keys for own in kind.keys.values()))
    annotation = Literal[words] if words else Identifier if key.is_name else Formulas
    return annotation | None, Field(None, description=f"of kind {owners}: {key.help}")


_KEYS: dict[str, list[Key]] = {}
for _kind in kinds.table().values():
    for _name, _key in _kind.keys.items():
        _KEYS.setdefault(_name, []).append(_key)
# `fill` is also a key of plain arrays, with any value; the kind checks its own.
_FIELDS: dict[str, Any] = {name: _kind_key(keys) for name, keys in _KEYS.items() if name != "fill"}

if TYPE_CHECKING:

    class ArgumentModel(PlainArgumentModel):
        """One argument of the kernel, with the keys of all kinds."""
else:
    ArgumentModel = create_model("ArgumentModel", __base__=PlainArgumentModel, **_FIELDS)


class DivisorsModel(StrictModel):
    """Kernel Tuner's grid divisors: blocks = extent / product of the divisors, rounded up."""

    x: Annotated[list[Formula], Field(description="divisors of the extent in x")] = []
    y: Annotated[list[Formula], Field(description="divisors of the extent in y")] = []
    z: Annotated[list[Formula], Field(description="divisors of the extent in z")] = []


class RequirementsModel(StrictModel):
    """Requirements on the device."""

    compute_capability: str = Field(
        pattern=r"^(>=|>|==|<=|<) *\d+(\.\d+)?$", examples=[">=7.0"], description="of an NVIDIA GPU"
    )


class OperationModel(StrictModel):
    """What a kernel computes; several spaces may share one."""

    sizes: dict[Identifier, int | None] = Field(min_length=1, description="name: default, or nothing if it is required")
    options: dict[Identifier, FiniteFloat] = Field({}, description="name: default; set at launch")
    types: Types = Field({}, description="name: the dtypes that it may stand for; the first is the default")
    extent: list[Formula] = Field([], max_length=3, description="of the result, x first; divided by `grid_divisors`")
    arguments: list[ArgumentModel] = Field(min_length=1, description="of the kernel, in its order")
    reference: Annotated[Any, WithJsonSchema(_REFERENCE)]
    tolerance: Tolerances | None = Field(None, description="the largest allowed error; `epsilon` is the unit round-off")
    derive: dict[Identifier, Annotated[Any, WithJsonSchema({"anyOf": [_FORMULA, _PYTHON]})]] = Field(
        {}, description="name: an expression or a Python function of outputs, which is compared in their place"
    )
    accept: list[MutantName] = Field([], description="wrong outputs that the tolerance is meant to accept")
    flops: Formula | None = Field(None, description="operations of one run, for its rate in GFLOP/s")
    bytes: Formula | None = Field(None, description="bytes that one run must move, for its rate in GB/s")
    library: RoutineName | None = Field(None, description="the vendor routine to compare with")


KernelName = Annotated[str, BeforeValidator(_kernel)]
Extents = Annotated[list[Formula], Field(min_length=1, max_length=3)]
_KERNEL = "entry point in the source; {NAME} stands for the value of a parameter, as in add<{threads}>"
_SOURCE = "kernel file, relative to this one"


class GeometryModel(StrictModel):
    """How a kernel is launched."""

    grid_divisors: DivisorsModel | None = Field(None, description="the number of blocks, as divisors of `extent`")
    grid: Extents | None = Field(None, description="blocks in x, y, z")
    block: list[Formula] = Field([], max_length=3, description="threads of a block in x, y, z")
    shared_memory: Annotated[Formula, WithJsonSchema({**_FORMULA, "description": "bytes of dynamic shared memory"})] = (
        expressions.parse(0)
    )
    cluster: Extents | None = Field(None, description="blocks of a cluster; CUDA, compute capability 9.0")
    cooperative: bool = Field(False, description="all blocks run at once; CUDA")


MOST_WHILE = 1_000_000  # passes
Repeat = Annotated[Any, BeforeValidator(loop_values.parsed), WithJsonSchema(loop_values.json_schema(_FORMULA))]


class StepModel(GeometryModel):
    """One of several launches, or a loop of such steps."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["kernel"]}, {"required": ["repeat", "steps"]}, {"required": ["while", "steps"]}]
        }
    )

    kernel: KernelName | None = Field(None, description=_KERNEL)
    source: str | None = Field(None, description=f"{_SOURCE}; the space's if omitted")
    arguments: list[Identifier] | None = Field(
        None, description="names of the kernel's arguments, in its order; all if omitted"
    )
    when: Formula | None = Field(None, description="the step is skipped unless this is true")
    repeat: Repeat | None = Field(
        None, description="the number of passes; or the values of loop variables by name, the outermost first"
    )
    while_: Identifier | None = Field(
        None, alias="while", description="scratch of one int32: the steps repeat until they leave it 0"
    )
    most: int | None = Field(None, ge=1, le=MOST_WHILE, description="of a `while`: the most passes")
    steps: Annotated[list["StepModel"], Field(min_length=1, max_length=MAX_STEPS)] | None = Field(
        None, description="of a loop: what each pass launches"
    )
    swap: Annotated[list[Any], Field(min_length=1, max_length=MAX_STEPS)] | None = Field(
        None, description="of a loop: two arrays that are exchanged after each pass, or a list of such pairs"
    )


class SpaceModel(GeometryModel):
    """A space: a kernel, or several steps, and its possible configurations."""

    title: str = Field(min_length=1, max_length=200, description="what it is, in a few words")
    operation: OperationModel = Field(description="what it computes, or the path of a file that declares it")
    kernel: KernelName | None = Field(None, description=_KERNEL)
    steps: Annotated[list[StepModel], Field(min_length=1, max_length=MAX_STEPS)] | None = Field(
        None, description="kernels that are launched in this order, instead of one `kernel`"
    )
    source: str | None = Field(None, description=_SOURCE)
    include: list[str] = Field([], max_length=100, description="folders of your own headers, relative to this file")
    languages: Annotated[list[WrittenName], Field(min_length=1)] | None = Field(
        None, description="of the source; determined by its suffix if omitted"
    )
    parameters: dict[
        Identifier, Annotated[list[Allowed], BeforeValidator(_values), Field(min_length=1, max_length=MAX_VALUES)]
    ] = Field(min_length=1, max_length=100, description="name: its possible values, as a list or a range")
    restrictions: list[Annotated[RestrictionModel, BeforeValidator(_restriction)]] = Field(
        [], max_length=1000, description="conditions that each configuration must meet"
    )
    derived: dict[Identifier, Formula] = Field({}, max_length=1000, description="name: an intermediate value")
    requires: RequirementsModel | None = Field(None, description="requirements on the device")
    alignment: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = Field(1, description="alignment of arrays in bytes")
    default: dict[Identifier, Allowed] = Field({}, description="the configuration that is launched before tuning")
    compiler: CompilerName | None = Field(
        None, description="of CUDA: nvrtc compiles device code only; nvcc compiles the whole file"
    )
    timing: Literal["returned"] | None = Field(
        None,
        description="of C: returned if the function returns its time in ms, as a float; a clock times it otherwise",
    )
    compile_options: dict[LanguageName, list[Annotated[str, BeforeValidator(_option)]]] = Field(
        {}, description="language: options of its compiler"
    )
    extent: Extents | None = Field(None, description="replaces that of the operation")
    arguments: list[ArgumentModel] | None = Field(None, description="replaces that of the operation")
    types: Types = Field({}, description="replaces that of the operation")
    source_note: str = Field("", description="a remark that `tune show` prints")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a space file, for editors."""
    # In a file, `operation:` is a path or a mapping, and a restriction may be a string.
    operation = Field(description=SpaceModel.model_fields["operation"].description)
    published: type[BaseModel] = create_model("Space", __base__=SpaceModel, operation=(str | OperationModel, operation))
    schema = published.model_json_schema()
    parameters = schema["properties"]["parameters"]["patternProperties"]
    for pattern, values in parameters.items():
        parameters[pattern] = {"anyOf": [values, *_RANGES]}
    restrictions = schema["properties"]["restrictions"]
    restrictions["items"] = {"anyOf": [{"type": "string"}, restrictions["items"]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "tuner space file"}
