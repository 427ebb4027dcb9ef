"""Records side by side: of kernels, sizes, devices or stores."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import devices, paths
from tuner.errors import ExpressionError, RequestError
from tuner.report import page, vega
from tuner.report.charts import Chart, Spec, rows, spec
from tuner.report.page import Cell, Grid, Section
from tuner.report.words import number, percent, times
from tuner.space import catalog
from tuner.space.scope import Scope
from tuner.space.texts import config_text, short_size, types_text
from tuner.store import rates
from tuner.store import report as stored
from tuner.store.kept_ceilings import KeptCeilings
from tuner.store.rates import Rates
from tuner.store.store import Record, read
from tuner.version import VERSION

DIMENSIONS = ("kernel", "size", "device", "store")


@dataclass(frozen=True)
class Competitor:
    """A record and its place in every dimension: a kernel, a size with its types, a device, a store."""

    kernel: str
    size: str
    device: str
    store: str
    record: Record
    rates: Rates

    def place(self, dimensions: Sequence[str]) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in dimensions)

    @property
    def gain(self) -> float | None:
        """How many times as fast as with the default."""
        return self.record.default_ms / self.record.time_ms if self.record.default_ms else None


@dataclass(frozen=True)
class Comparison:
    """Competitors, ordered by their places, and the dimensions in which they differ."""

    competitors: list[Competitor]
    varying: tuple[str, ...]

    def ratio(self, competitor: Competitor) -> float | None:
        """How many times as fast as the first one that differs from it in the last dimension alone, the size apart;
        None where they differ in size alone, for then their times say nothing of each other."""
        named = [name for name in self.varying if name != "size"]
        if not named:
            return None
        others = [name for name in self.varying if name != named[-1]]
        first = next(c for c in self.competitors if c.place(others) == competitor.place(others))
        return first.record.time_ms / competitor.record.time_ms

    @property
    def title(self) -> str:
        """What all competitors share."""
        first = self.competitors[0]
        same = [name for name in ("kernel", "size", "device") if name not in self.varying]
        texts = {"kernel": first.kernel, "size": f"at {first.size}", "device": f"on {first.device}"}
        what = {"kernel": "kernels", "size": "sizes", "device": "devices", "store": "stores"}
        return " ".join([f"Compared: {' and '.join(what[name] for name in self.varying)}", *(texts[n] for n in same)])


def compare(
    kernels: Sequence[str],
    sizes: Sequence[str],
    on: Sequence[str],
    stores: Sequence[Path],
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """The records of these kernels: names, families, parts of names, or patterns with `*`. `sizes` and devices `on`
    which they are compared may be left out; `stores` of more than one folder are compared as they are, without the
    records that ship.

    `say` gets a message for each line that holds no record. Raises RequestError where nothing is left, or one record
    alone.
    """
    found = _records(stores, say)
    known = dict.fromkeys(kernel for _, kernel, _ in found)
    chosen = {name: None for text in kernels for name in _named(text, list(known))}
    ceilings = KeptCeilings(stores[0] if stores else None)
    latest: dict[tuple[str, ...], Competitor] = {}
    for store, kernel, record in found:
        at = short_size(record.sizes) + types_text(record.types)
        if kernel in chosen and (not sizes or at in sizes) and (not on or any(_is_on(record, name) for name in on)):
            one = Competitor(kernel, at, record.device, store, record, _rates(kernel, record, ceilings))
            old = latest.get(one.place(DIMENSIONS))
            if old is None or old.record.date < record.date:
                latest[one.place(DIMENSIONS)] = one
    if len(latest) < 2:
        had = [(short_size(r.sizes) + types_text(r.types), r.device) for _, kernel, r in found if kernel in chosen]
        at, where = (", ".join(dict.fromkeys(texts)) for texts in zip(*had, strict=True))
        raise RequestError(
            f"{paths.shown(', '.join(kernels))}: {len(latest) or 'no'} record fits, and two are needed; the store has "
            f"sizes {at} on {where}"
        )
    by_size = sorted(latest.values(), key=lambda c: math.prod(c.record.sizes.values()))
    orders = [
        list(dict.fromkeys(c.place((name,))[0] for c in (by_size if name == "size" else latest.values())))
        for name in DIMENSIONS
    ]
    competitors = sorted(
        latest.values(), key=lambda c: [o.index(v) for o, v in zip(orders, c.place(DIMENSIONS), strict=True)]
    )
    varying = tuple(name for name, order in zip(DIMENSIONS, orders, strict=True) if len(order) > 1)
    return Comparison(competitors, varying)


def _records(stores: Sequence[Path], say: Callable[[str], None]) -> list[tuple[str, str, Record]]:
    """Store, kernel and record of all records, by kernel, device and size."""
    if len(stores) < 2:
        return [("", row.kernel, row.record) for row in stored.rows("", stores[0] if stores else None, say)]
    found = []
    for folder in stores:
        if not os.path.isdir(folder):
            raise RequestError(f"--results {paths.shown(folder)}: there is no such folder")
        for file in sorted(folder.rglob("*.jsonl")):
            kernel = file.relative_to(folder).with_suffix("").as_posix()
            records, problems = read(file, kernel)
            for problem in problems:
                say(problem)
            found += [(str(folder), kernel, record) for record in records if record.is_plain]
    return sorted(found, key=lambda item: (item[1], item[2].device, tuple(item[2].sizes.values())))


def _named(text: str, names: list[str]) -> list[str]:
    """The kernels that a text names. Raises RequestError where there is none."""
    ways: Iterable[Callable[[str], bool]] = (
        lambda name: name == text,
        lambda name: fnmatch.fnmatchcase(name, text),
        lambda name: name.rpartition("/")[0] == text,
        lambda name: bool(text) and text in name,
    )
    for way in ways:
        if found := [name for name in names if way(name)]:
            return found
    raise RequestError(
        f"kernel {paths.quoted(text)}: the store has no record of such a kernel; `tune report` shows all"
    )


def _is_on(record: Record, name: str) -> bool:
    return name == record.kind or name.casefold() in record.device.casefold()


def _rates(kernel: str, record: Record, ceilings: KeptCeilings) -> Rates:
    """The rates of a record; its shares of ceilings from those that are known today, where the kernel is."""
    kept = Rates(record.gflops, record.peak, record.vs_peak, record.gbytes, record.memory, record.vs_memory)
    known = ceilings.of_name(record.kind, record.device, record.toolchain)
    backend = devices.BACKENDS.get(record.kind)
    if known is None or backend is None:
        return kept
    try:
        space = catalog.load(kernel)
        limits = backend.limits_of(record.architecture)
        scope = Scope(record.sizes, record.options, backend.language, limits, record.types)
        return rates.of(space, scope, record.time_ms, known)
    except (RequestError, ExpressionError, LookupError):
        return kept


def table(found: Comparison) -> tuple[list[str], list[list[Any]]]:
    """Header and rows, without empty columns."""
    header = [
        *found.varying, "ms", "as fast as the first", "GFLOP/s", "GB/s", "of the library", "of the ceiling",
        "gain over default", "configuration",
    ]  # fmt: skip
    lines = []
    for c in found.competitors:
        known, record = c.rates, c.record
        share, ceiling = max((known.vs_peak or 0.0, known.peak), (known.vs_memory or 0.0, known.memory), key=_first)
        lines.append(
            [
                *c.place(found.varying),
                number(record.time_ms),
                times(found.ratio(c)),
                number(known.gflops),
                number(known.gbytes),
                percent(record.vs_library),
                f"{percent(share)} of {ceiling}" if share else "",
                times(c.gain),
                config_text(record.config),
            ]
        )
    full = [i for i in range(len(header)) if any(line[i] for line in lines)]
    return [header[i] for i in full], [[line[i] for i in full] for line in lines]


def _first(pair: tuple[float, str | None]) -> float:
    return pair[0]


def chart(found: Comparison) -> Chart:
    """A bar for each competitor, with marks at the library and at the ceiling."""
    first, rest = found.varying[0], found.varying[1:]
    everyone = found.competitors
    unit, attribute = "ms", ""
    if all(c.rates.gflops for c in everyone):
        unit, attribute = "GFLOP/s", "gflops"
    elif all(c.rates.gbytes for c in everyone):
        unit, attribute = "GB/s", "gbytes"
    families = {c.kernel.rpartition("/")[0] for c in everyone}
    family = f"{families.pop()}/" if first == "kernel" and len(families) == 1 else ""
    data = []
    for c in everyone:
        value = getattr(c.rates, attribute) if attribute else c.record.time_ms
        share = (c.rates.vs_peak if attribute == "gflops" else c.rates.vs_memory) if attribute else None
        library = c.record.vs_library and (value / c.record.vs_library if attribute else c.record.library_ms)
        name = c.place((first,))[0]
        texts = name.removeprefix(family), ", ".join(c.place(rest)), f"{c.record.time_ms:.4g} ms"
        data.append((*texts, value, library or None, value / share if share else None))
    values = rows(("name", "group", "label", "value", "library", "ceiling"), data)
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 190}}
    offset: Spec = {"yOffset": {"field": "group", "sort": None}} if rest else {}
    x: Spec = {"type": "quantitative", "title": f"{unit}, {'less' if unit == 'ms' else 'more'} is better"}
    colour: Spec = (
        {"field": "group", "type": "nominal", "sort": None, "legend": {"orient": "bottom", "title": ", ".join(rest)}}
        if rest
        else {"value": {"expr": "accent"}}
    )
    tips = [{"field": field, "type": "nominal"} for field in ("name", "group", "label", "value")]
    layers: list[Spec] = [
        {"mark": "bar", "encoding": {"y": y, **offset, "x": {**x, "field": "value"}, "color": colour, "tooltip": tips}}
    ]
    marks = {"library": "warm", "ceiling": "ink"}
    named = [field for field in marks if any(row[field] for row in values)]
    layers += [
        {
            "transform": [{"filter": f"isValid(datum.{field})"}],
            "mark": {"type": "tick", "thickness": 2, "opacity": 1, "color": {"expr": marks[field]}},
            "encoding": {"y": y, **offset, "x": {**x, "field": field}, "tooltip": [{"field": field}]},
        }
        for field in named
    ]
    words = {"library": "the vendor's library, in the same rounds", "ceiling": "the measured ceiling of the device"}
    caption = " ".join(f"{'Orange' if f == 'library' else 'Dark'} marks: {words[f]}." for f in named)
    height = (26 if not rest else 16) * len(values)
    return Chart("compared", "Side by side", caption, spec(values, height, layers))


def html(found: Comparison) -> str:
    """The comparison as a page. Raises RequestError where vl-convert is not installed."""
    header, lines = table(found)
    cells = [[*line[:-1], Cell(line[-1], code=True)] for line in lines]
    section = Section.of(chart(found), Grid(header, cells))
    stores = dict.fromkeys(c.store for c in found.competitors if c.store)
    lead = [f"{len(found.competitors)} records.", *(f"Store: `{name}`" for name in stores)]
    return page.render(found.title, lead, [section], f"Made by tuner {VERSION}.")


def picture(found: Comparison, suffix: str) -> bytes:
    """The chart as an .svg or .png file. Raises RequestError where vl-convert is not installed."""
    return vega.picture([chart(found)], found.title, suffix)
