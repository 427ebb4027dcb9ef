"""Read experiment files (YAML), and check them against the spaces of their stages."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tuner.catalog import catalog
from tuner.errors import NoConfiguration, RequestError
from tuner.experiments.experiment import Experiment, Loads, PublishedFigures, PublishedRow, Table
from tuner.quoting import quoted
from tuner.space import chosen_types, operation, parsing
from tuner.space.computation import Operation
from tuner.space.config import Config
from tuner.space.default import first_valid
from tuner.space.expressions import evaluator
from tuner.space.file import yamlfile
from tuner.space.file.schema import StrictModel
from tuner.space.file.validation import validated
from tuner.space.file.value_types import Allowed, Formula, Identifier
from tuner.space.file.yamlfile import Document, Where
from tuner.space.model import Space
from tuner.space.scope import COMMON_GPU, Limits

FOLDER = Path(__file__).parent
CONTRADICTS = 0.1  # relative difference of printed rate and time above which a note is needed; rounding makes 0.03

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_UNITS = {"time": "ms", "rate": "|gflops|tflops", "share": "%"}
_FACTORS = {"ms": 1.0, "": 1.0, "gflops": 1.0, "tflops": 1000.0, "%": 0.01}
_EXAMPLES = {"time": "840 ms", "rate": "~1,343 GFLOPS", "share": "11.6%"}


def _value(kind: str, text: str) -> float | None:
    """The number in a printed `text`, in ms, GFLOP/s or as a share (1 is 100 %); None if `text` is no such figure.

    A range counts as its middle.
    """
    match = re.fullmatch(rf"~?{_NUMBER}(?:-{_NUMBER})?\s*({_UNITS[kind]})", text.lower())
    if match is None:
        return None
    low, high, unit = match.groups()
    numbers = [float(number.replace(",", "")) for number in (low, high) if number]
    return sum(numbers) / len(numbers) * _FACTORS[unit]


def _printed(kind: str, text: object) -> object:
    """`text`, checked to be a figure of this kind. Raises ValueError if it is not."""
    if not isinstance(text, str) or not _value(kind, text):
        raise ValueError(f"{quoted(text)}: write it as it is printed, a number and its unit, such as {_EXAMPLES[kind]}")
    return text


Time = Annotated[str | None, BeforeValidator(partial(_printed, "time"))]
Rate = Annotated[str | None, BeforeValidator(partial(_printed, "rate"))]
Share = Annotated[str | None, BeforeValidator(partial(_printed, "share"))]


class LoadsModel(StrictModel):
    """The number of loads from global memory."""

    printed: str = Field(description="for one output, as printed")
    counted: Formula = Field(description="for all outputs, over sizes and parameters")


class RowModel(StrictModel):
    """One row as printed, with the stage or reference that it corresponds to."""

    name: str = Field(min_length=1, max_length=200)
    stage: str | None = Field(None, description="a kernel of the catalogue, or a space file beside this file")
    config: dict[Identifier, Allowed] = Field({}, description="the published constants")
    reference: Literal["library", "peak"] | None = None
    time: Time = None
    rate: Rate = None
    share: Share = None
    loads: LoadsModel | None = None
    note: str = ""


class TableModel(StrictModel):
    """A table: rows measured at one size."""

    title: str = Field(min_length=1, max_length=200)
    size: str | int
    small: str | int = Field(description="the size on a processor")
    rows: list[RowModel] = Field(min_length=1)
    note: str = ""


class ExperimentModel(StrictModel):
    """A published series of measurements."""

    title: str = Field(min_length=1, max_length=200)
    author: str
    where: str
    device: str
    note: str = ""
    tables: list[TableModel] = Field(min_length=1)


def names() -> list[str]:
    """The names of the experiments that ship with tuner."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find(name: str) -> Experiment:
    """Find an experiment by its name, by a unique part of its name, or by the path of a YAML file.

    Raises RequestError, with all names, if none or several match; SpaceError if the file is wrong.
    """
    if Path(name).suffix in (".yaml", ".yml"):
        return read(Path(name))
    shipped = names()
    matches = [name] if name in shipped else [candidate for candidate in shipped if name and name in candidate]
    if len(matches) != 1:
        problem = f"could be {', '.join(matches)}; write more of the name" if matches else "there is no such experiment"
        raise RequestError(f"experiment {quoted(name)}: {problem}; there are: {', '.join(shipped)}")
    return read(FOLDER / f"{matches[0]}.yaml")


def read(path: Path) -> Experiment:
    """Read the experiment in `path`. Raises SpaceError, with file, line and key, if the file is wrong."""
    document = yamlfile.read(path)
    model = validated(ExperimentModel, document)
    return Experiment(
        name=path.stem,
        title=model.title,
        author=model.author,
        where=model.where,
        device=model.device,
        tables=tuple(_table(document, ("tables", i), table) for i, table in enumerate(model.tables)),
        note=model.note,
    )


def _table(document: Document, where: Where, model: TableModel) -> Table:
    places: list[Where] = [(*where, "rows", position) for position in range(len(model.rows))]
    spaces = [_space(document, place, row) for place, row in zip(places, model.rows, strict=True)]
    if all(row.stage is None for row in model.rows):
        raise document.error((*where, "rows"), "no row has a `stage`, so there is nothing to measure")
    op = next((space.operation for space in spaces if space is not None), None)
    sizes = _sizes(document, (*where, "size"), model.size, op)
    small = _sizes(document, (*where, "small"), model.small, op)
    work = operation.gflops(op, op.scope(sizes, op.options, "", Limits(), {}), 1.0) if op else None
    library = next((_figures(row, work) for row in model.rows if row.reference == "library"), None)
    rows = [
        _row(document, place, row, space, sizes, _figures(row, work, library))
        for place, row, space in zip(places, model.rows, spaces, strict=True)
    ]
    return Table(model.title, sizes, small, op, tuple(rows), model.note)


def _space(document: Document, where: Where, row: RowModel) -> Space | None:
    """The row's space; None for a reference, or for a stage that the catalogue lacks."""
    if (row.stage is None) == (row.reference is None):
        raise document.error(where, f"{row.name}: a row has either `stage` or `reference`")
    if row.stage is None:
        return None
    if row.stage.endswith((".yaml", ".yml")):
        return catalog.load(str(document.path.parent / row.stage))
    return catalog.load(row.stage) if catalog.known(row.stage) else None


def _sizes(document: Document, where: Where, text: str | int, op: Operation | None) -> Mapping[str, int]:
    try:
        return parsing.parse_size(text, op) if op else {}
    except RequestError as error:
        raise document.error(where, str(error)) from None


def _figures(row: RowModel, work: float | None, library: PublishedFigures | None = None) -> PublishedFigures:
    """The figures that the row prints, and those derived from them. `work`: the rate in GFLOP/s of a run that takes
    1 ms."""
    printed = {kind: text for kind in _UNITS if (text := getattr(row, kind)) is not None}
    values = {kind: _value(kind, text) for kind, text in printed.items()}
    time_ms, gflops, share = values.get("time"), values.get("rate"), values.get("share")
    contradicts = False
    if work and time_ms and gflops:
        contradicts = abs(gflops * time_ms / work - 1) > CONTRADICTS
    elif work and time_ms:
        gflops = work / time_ms
    elif work and gflops:
        time_ms = work / gflops
    if share is None and time_ms and library and library.time_ms:
        share = library.time_ms / time_ms
    return PublishedFigures(time_ms, gflops, share, printed, contradicts)


def _row(
    document: Document,
    where: Where,
    row: RowModel,
    space: Space | None,
    sizes: Mapping[str, int],
    figures: PublishedFigures,
) -> PublishedRow:
    if figures.contradicts and not row.note:
        raise document.error((*where, "rate"), f"{row.rate} does not follow from {row.time}; say so in a `note`")
    if space is not None and row.loads is not None:
        names = {*space.operation.sizes, *space.parameters}
        for name in sorted(row.loads.counted.names - names):
            raise document.error((*where, "loads", "counted"), evaluator.unknown_name(name, names))
    return PublishedRow(
        name=row.name,
        published=figures,
        stage=row.stage,
        space=space,
        config=_config(document, (*where, "config"), row, space, sizes) if space else dict(row.config),
        reference=row.reference,
        loads=Loads(row.loads.printed, row.loads.counted) if row.loads else None,
        note=row.note,
    )


def _config(document: Document, where: Where, row: RowModel, space: Space, sizes: Mapping[str, int]) -> Config:
    """The published constants, completed with the space's default for every other parameter.

    If the space has no default, completed with the first values that make a valid configuration on a common GPU.
    """
    for name, value in row.config.items():
        if name not in space.parameters:
            raise document.error((*where, name), evaluator.unknown_name(name, space.parameters))
        if value not in space.parameters[name]:
            allowed = list(space.parameters[name])
            raise document.error(
                (*where, name), f"{quoted(value)} is not a declared value of {space.name}; allowed: {allowed}"
            )
    if space.default or row.config.keys() == space.parameters.keys():
        return {**space.default, **row.config}
    op, published = space.operation, {name: (value,) for name, value in row.config.items()}
    narrowed = replace(space, parameters={**space.parameters, **published})
    scope = op.scope(sizes, op.options, space.languages[0], COMMON_GPU, chosen_types.defaults(op))
    try:
        return first_valid(narrowed, scope)
    except NoConfiguration as error:
        raise document.error(
            where, f"{space.name} has no default, and no values of the other parameters are valid: {error}"
        ) from None
