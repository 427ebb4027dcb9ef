"""The keys of space and operation files as pydantic models, and the JSON Schema for editors."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
)

from tuner.space import expressions, kinds
from tuner.space.argument import Key
from tuner.space.file import loop_values, stride_values
from tuner.space.file.value_types import (
    FORMULA,
    RANGES,
    Allowed,
    CompilerName,
    Condition,
    Derivation,
    DTypeName,
    Extents,
    Fill,
    Formula,
    Formulas,
    Identifier,
    KernelName,
    KindName,
    LanguageName,
    MutantName,
    Number,
    Option,
    Python,
    Reference,
    RoutineName,
    Tolerances,
    Types,
    Values,
    WrittenName,
)

MAX_STEPS = 32


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
    align: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="alignment in bytes that the source demands, as by alignas; of the first, the whole struct's"
    )
    fields: list["FieldModel"] | None = Field(None, description="of a struct in the struct")
    array: Identifier | Annotated[list[Identifier], Field(min_length=1)] | None = Field(
        None, description="of a pointer: the array that it points to; of an array of pointers, one for each"
    )


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
    fill: Fill = None
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


Arguments = Annotated[list[ArgumentModel], BeforeValidator(stride_values.written)]


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
    options: dict[Identifier, Number] = Field({}, description="name: default; set at launch")
    types: Types = Field({}, description="name: the dtypes that it may stand for; the first is the default")
    extent: list[Formula] = Field([], max_length=3, description="of the result, x first; divided by `grid_divisors`")
    arguments: Arguments = Field(min_length=1, description="of the kernel, in its order")
    reference: Reference
    tolerance: Tolerances | None = Field(None, description="the largest allowed error; `epsilon` is the unit round-off")
    derive: dict[Identifier, Derivation] = Field(
        {}, description="name: an expression or a Python function of outputs, which is compared in their place"
    )
    also: Python | None = Field(
        None, description="a Python function of other contents of inputs, on which the finals verify and time nothing"
    )
    accept: list[MutantName] = Field([], description="wrong outputs that the tolerance is meant to accept")
    flops: Formula | None = Field(None, description="operations of one run, for its rate in GFLOP/s")
    bytes: Formula | None = Field(None, description="bytes that one run must move, for its rate in GB/s")
    library: RoutineName | None = Field(None, description="the vendor routine to compare with")


_KERNEL = "entry point in the source; {NAME} stands for the value of a parameter, as in add<{threads}>"
_SOURCE = "kernel file, relative to this one"


class GeometryModel(StrictModel):
    """How a kernel is launched."""

    grid_divisors: DivisorsModel | None = Field(None, description="the number of blocks, as divisors of `extent`")
    grid: Extents | None = Field(None, description="blocks in x, y, z")
    block: list[Formula] = Field([], max_length=3, description="threads of a block in x, y, z")
    shared_memory: Annotated[Formula, WithJsonSchema({**FORMULA, "description": "bytes of dynamic shared memory"})] = (
        expressions.parse(0)
    )
    cluster: Extents | None = Field(None, description="blocks of a cluster; CUDA, compute capability 9.0")
    cooperative: bool = Field(False, description="all blocks run at once; CUDA")


MOST_WHILE = 1_000_000  # passes
Repeat = Annotated[Any, BeforeValidator(loop_values.parsed), WithJsonSchema(loop_values.json_schema(FORMULA))]


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
    programmatic: bool = Field(
        False, description="it may begin before the step before it has ended, and waits by itself; CUDA"
    )
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


def _restriction(value: object) -> object:
    return {"that": value} if isinstance(value, str) or callable(value) else value


def _by_language(value: object) -> object:
    if isinstance(value, list):
        options = ", ".join(map(str, value[:4]))
        raise ValueError(f"a list; write the language of these options, as in {{cuda: [{options}]}}")
    return value


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
    parameters: dict[Identifier, Values] = Field(
        min_length=1, max_length=100, description="name: its possible values, as a list or a range"
    )
    restrictions: list[Annotated[RestrictionModel, BeforeValidator(_restriction)]] = Field(
        [], max_length=1000, description="conditions that each configuration must meet"
    )
    derived: dict[Identifier, Formula] = Field({}, max_length=1000, description="name: an intermediate value")
    requires: RequirementsModel | None = Field(None, description="requirements on the device")
    alignment: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = Field(1, description="alignment of arrays in bytes")
    default: dict[Identifier, Allowed] = Field({}, description="the configuration that is launched before tuning")
    compiler: CompilerName | None = Field(
        None,
        description="of CUDA: nvrtc (device code only), nvcc (whole files) or cublaslt (algorithms of that library)",
    )
    timing: Literal["returned"] | None = Field(
        None,
        description="of C: returned if the function returns its time in ms, as a float; a clock times it otherwise",
    )
    compile_options: Annotated[dict[LanguageName, list[Option]], BeforeValidator(_by_language)] = Field(
        {}, description="language: options of its compiler"
    )
    extent: Extents | None = Field(None, description="replaces that of the operation")
    arguments: Arguments | None = Field(None, description="replaces that of the operation")
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
        parameters[pattern] = {"anyOf": [values, *RANGES]}
    restrictions = schema["properties"]["restrictions"]
    restrictions["items"] = {"anyOf": [{"type": "string"}, restrictions["items"]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "tuner space file"}
