"""Records side by side: of kernels, sizes, devices or stores."""

from __future__ import annotations

import contextlib
import fnmatch
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog, folders
from tuner.errors import ExpressionError, RequestError
from tuner.quoting import quoted, shown
from tuner.report import roofline
from tuner.report import store_tables as stored
from tuner.report.roofline import Roofline
from tuner.space import operation
from tuner.space.scope import Scope
from tuner.space.texts import short_size, types_text
from tuner.store import rates, verdicts
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.rates import Rates
from tuner.store.record_file import read
from tuner.store.store import Record

DIMENSIONS = ("kernel", "size", "device", "store")
MOST_SIZES = 12  # that a message names


@dataclass(frozen=True)
class Competitor:
    """A record and its place in every dimension: a kernel, a size with its types and options, a device, a store. `roof`
    is the roofline above it, where kernel and ceilings are known."""

    kernel: str
    size: str
    device: str
    store: str
    record: Record
    rates: Rates
    roof: Roofline | None = None

    @property
    def ceiling(self) -> tuple[str, float] | None:
        """The name of the ceiling that bounds it, and the share of that which it reaches; what the record says of the
        nearest, where no roofline is known."""
        if self.roof is not None:
            return self.roof.bound, self.roof.share(self.rates)
        known = (self.rates.peak, self.rates.vs_peak), (self.rates.memory, self.rates.vs_memory)
        return max(((name, share) for name, share in known if name and share), key=itemgetter(1), default=None)

    def place(self, dimensions: Sequence[str]) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in dimensions)

    @property
    def gain(self) -> float | None:
        """How many times as fast as with the default."""
        return self.record.default_ms / self.record.time_ms if self.record.default_ms else None

    @property
    def gain_verdict(self) -> str:
        """Why that is no gain, where the spreads cannot carry it."""
        return verdicts.of_default(self.record)


@dataclass(frozen=True)
class Comparison:
    """Competitors, ordered by their places, and the dimensions in which they differ."""

    competitors: list[Competitor]
    varying: tuple[str, ...]

    def ratio(self, competitor: Competitor) -> float | None:
        """How many times as fast as the first one that differs from it in the last dimension alone, the size apart;
        None where there is none, or where they differ in size alone: then their times say nothing of each other."""
        first = self._first(competitor)
        return first.record.time_ms / competitor.record.time_ms if first else None

    def verdict(self, competitor: Competitor) -> str:
        """Why its time cannot be told from that of the first one, where it cannot."""
        first, own = self._first(competitor), competitor.record
        if first is None or first is competitor:
            return ""
        return verdicts.of_medians(first.record.time_ms, first.record.spread, own.time_ms, own.spread)

    def _first(self, competitor: Competitor) -> Competitor | None:
        named = [name for name in self.varying if name != "size"]
        others = [name for name in self.varying if name != (named or [""])[-1]]
        alike = [c for c in self.competitors if c.place(others) == competitor.place(others)]
        return alike[0] if named and len(alike) > 1 else None

    def axis(self, dimension: str) -> str:
        """The title of an axis of this dimension: a size says what its numbers are of."""
        first = self.competitors[0].record.sizes
        if dimension != "size" or any(c.record.sizes.keys() != first.keys() for c in self.competitors):
            return dimension
        names = [name for name in first if name != "batch"] or list(first)
        return f"size ({' x '.join(names)})"

    @property
    def title(self) -> str:
        """What all competitors share."""
        first = self.competitors[0]
        same = [name for name in ("kernel", "size", "device") if name not in self.varying]
        texts = {"kernel": f"of {first.kernel}", "size": f"at {first.size}", "device": f"on {first.device}"}
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
    known = dict.fromkeys(kernel for _, kernel, _, _ in found)
    chosen = {name: None for text in kernels for name in _named(text, list(known))}
    _check_filters([(kernel, record, options) for _, kernel, record, options in found if kernel in chosen], sizes, on)
    ceilings = StoredCeilings(stores[0] if stores else None)
    latest: dict[tuple[str, ...], Competitor] = {}
    for store, kernel, record, options in found:
        at = _size_of(record, options)
        fits = (not sizes or any(_is_at(record, kernel, options, text) for text in sizes)) and (
            not on or any(_is_on(record, name) for name in on)
        )
        if kernel in chosen and fits:
            one = Competitor(kernel, at, record.device, store, record, *_rates(kernel, record, ceilings))
            old = latest.get(one.place(DIMENSIONS))
            if old is None or old.record.date < record.date:
                latest[one.place(DIMENSIONS)] = one
    if len(latest) < 2:
        given = "".join(
            f" --{name} {shown(text)}" for name, texts in (("size", sizes), ("device", on)) for text in texts
        )
        alone = next(iter(latest.values()), None)
        what = f"one record alone, {alone.kernel} at {alone.size} on {alone.device}" if alone else "no record"
        raise RequestError(
            f"{shown(' '.join(kernels))}{given}: fits {what}, and two are compared; name another kernel"
            f"{', or leave out an option' if given else ', or tune one at another size'}"
        )
    by_size = sorted(latest.values(), key=lambda c: (math.prod(c.record.sizes.values()), c.size))
    orders = [
        list(dict.fromkeys(c.place((name,))[0] for c in (by_size if name == "size" else latest.values())))
        for name in DIMENSIONS
    ]
    competitors = sorted(
        latest.values(), key=lambda c: [o.index(v) for o, v in zip(orders, c.place(DIMENSIONS), strict=True)]
    )
    varying = tuple(name for name, order in zip(DIMENSIONS, orders, strict=True) if len(order) > 1)
    return Comparison(competitors, varying)


def _records(stores: Sequence[Path], say: Callable[[str], None]) -> list[tuple[str, str, Record, str]]:
    """Store, kernel, record, and options that are not at their defaults, of all records, by kernel, device and size."""
    for folder in stores:
        if not os.path.isdir(folder):
            raise RequestError(f"--results {shown(folder)}: there is no such folder")
    if len(stores) < 2:
        rows = stored.rows("", stores[0] if stores else None, say)
        return [("", row.kernel, row.record, row.options) for row in rows]
    found = list[tuple[str, str, Record]]()
    for folder in stores:
        for file in sorted(folder.rglob("*.jsonl")):
            kernel = file.relative_to(folder).with_suffix("").as_posix()
            records, problems = read(file, kernel)
            for problem in problems:
                say(problem)
            found += [(str(folder), kernel, record) for record in records if record.is_plain]
    found.sort(key=lambda item: (item[1], item[2].device, tuple(item[2].sizes.values())))
    defaults = stored.default_options(catalog.every()[0], {kernel for _, kernel, record in found if record.options})
    return [(*item, stored.changed_options(*item[1:], defaults)) for item in found]


def _named(text: str, names: list[str]) -> list[str]:
    """The kernels that a text names. Raises RequestError where there is none."""
    if Path(text).suffix in folders.SUFFIXES:
        text = catalog.find(text)[1]
    ways: Iterable[Callable[[str], bool]] = (
        lambda name: name == text,
        lambda name: fnmatch.fnmatchcase(name, text),
        lambda name: name.rpartition("/")[0] == text,
        lambda name: bool(text) and text in name,
    )
    for way in ways:
        if found := [name for name in names if way(name)]:
            return found
    raise RequestError(f"kernel {quoted(text)}: the store has no record of such a kernel; `tune report` shows all")


def _check_filters(found: Sequence[tuple[str, Record, str]], sizes: Sequence[str], on: Sequence[str]) -> None:
    """Raise RequestError for a size or a device that no record of the chosen kernels has."""
    for name in on:
        if not any(_is_on(record, name) for _, record, _ in found):
            where = ", ".join(dict.fromkeys(record.device for _, record, _ in found))
            raise RequestError(f"--device {quoted(name)}: the store has these kernels on {where}; name one")
    for text in sizes:
        if not any(_is_at(record, kernel, options, text) for kernel, record, options in found):
            known = dict.fromkeys(
                _size_of(record, options)
                for _, record, options in found
                if not on or any(_is_on(record, name) for name in on)
            )
            some = ", ".join([*known][:MOST_SIZES]) + f" and {len(known) - MOST_SIZES} more" * (len(known) > MOST_SIZES)
            raise RequestError(f"--size {quoted(text)}: the store has these kernels at {some}; name one")


def _size_of(record: Record, options: str) -> str:
    """How the size of a record is shown: with types, and with options that are not at their defaults."""
    return short_size(record.sizes) + types_text(record.types) + options


def _is_at(record: Record, kernel: str, options: str, text: str) -> bool:
    """Whether a text means the sizes of a record: as they are shown, or in any other form that the kernel takes."""
    plain = short_size(record.sizes)
    if text in (plain, plain + types_text(record.types), _size_of(record, options)):
        return True
    with contextlib.suppress(RequestError, LookupError):
        op = catalog.load(kernel).operation
        return operation.parse_size(text, op, record.types) == record.sizes
    return False


def _is_on(record: Record, name: str) -> bool:
    return name == record.kind or name.casefold() in record.device.casefold()


def _rates(kernel: str, record: Record, ceilings: StoredCeilings) -> tuple[Rates, Roofline | None]:
    """The rates of a record; its shares of ceilings, and its roofline, from those that are known today, where the
    kernel is."""
    kept = Rates(record.gflops, record.peak, record.vs_peak, record.gbytes, record.memory, record.vs_memory)
    known = ceilings.of_name(record.kind, record.device, record.toolchain)
    backend = devices.BACKENDS.get(record.kind)
    if known is None or backend is None:
        return kept, None
    try:
        space = catalog.load(kernel)
        limits = backend.limits_of(record.architecture)
        scope = Scope(record.sizes, record.options, backend.language, limits, record.types)
        found = rates.of(space, scope, record.time_ms, known)
    except (RequestError, ExpressionError, LookupError):
        return kept, None
    return found, roofline.of(found, known)
