"""Compare records of several kernels, sizes, devices or stores."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog, kernel_lists
from tuner.catalog.matching import matching
from tuner.classes import dataclass
from tuner.devices.conditions import Conditions
from tuner.errors import ExpressionError, RequestError
from tuner.quoting import quoted, shown
from tuner.report import roofline
from tuner.report import store_tables as stored
from tuner.report.roofline import Roofline
from tuner.space import parsing
from tuner.space.texts import short_size, types_text
from tuner.store import rates, verdicts
from tuner.store.ceilings_file import StoredCeilings
from tuner.store.rates import Rates
from tuner.store.record import Record
from tuner.store.record_file import read_or_pass

DIMENSIONS = ("kernel", "size", "device", "store")
MOST_SIZES = 12  # a message lists at most this many sizes


@dataclass(frozen=True)
class Competitor:
    """A record and its place in each of DIMENSIONS. `size` includes the types and the changed options.

    rates: the record's rates, with shares of the device's current ceilings if possible, else as stored.
    roof: the roofline; None if the kernel or the device's ceilings are unknown.
    """

    kernel: str
    size: str
    device: str
    store: str
    record: Record
    rates: Rates
    roof: Roofline | None = None

    @property
    def ceiling(self) -> tuple[str, float] | None:
        """The name of the ceiling that bounds the kernel, and the share of it that the kernel attains (0 to 1).

        Without a roofline: the ceiling with the largest share in the record; None if the record has no share.
        """
        if self.roof is not None:
            return self.roof.bound, self.roof.share(self.rates)
        known = (self.rates.peak, self.rates.vs_peak), (self.rates.memory, self.rates.vs_memory)
        return max(((name, share) for name, share in known if name and share), key=itemgetter(1), default=None)

    def place(self, dimensions: Sequence[str]) -> tuple[str, ...]:
        """Its values in these dimensions."""
        return tuple(getattr(self, name) for name in dimensions)

    @property
    def gain(self) -> float | None:
        """The speedup over the default configuration; None if the default has no time."""
        return self.record.default_ms / self.record.time_ms if self.record.default_ms else None

    @property
    def gain_verdict(self) -> str:
        """Why the best is indistinguishable from the default, given their spreads; else an empty string."""
        return verdicts.of_default(self.record)


@dataclass(frozen=True)
class Comparison:
    """Competitors, sorted by their places, and the dimensions in which they differ (`varying`)."""

    competitors: list[Competitor]
    varying: tuple[str, ...]

    def ratio(self, competitor: Competitor) -> float | None:
        """The speedup over the baseline: the first competitor that has the same place in all dimensions but one.

        That dimension is the last varying one, apart from the size, because times at different sizes are not
        comparable. None if there is no baseline: only the size varies, or no other competitor has the same place in the
        other dimensions.
        """
        baseline = self._baseline(competitor)
        return baseline.record.time_ms / competitor.record.time_ms if baseline else None

    def verdict(self, competitor: Competitor) -> str:
        """Why its time is indistinguishable from the baseline's; else an empty string."""
        baseline, record = self._baseline(competitor), competitor.record
        if baseline is None or baseline is competitor:
            return ""
        return verdicts.of_medians(baseline.record.time_ms, baseline.record.spread, record.time_ms, record.spread)

    def _baseline(self, competitor: Competitor) -> Competitor | None:
        """The baseline of `competitor`, as defined in `ratio`."""
        comparable = [name for name in self.varying if name != "size"]
        fixed = [name for name in self.varying if name != (comparable or [""])[-1]]
        group = [c for c in self.competitors if c.place(fixed) == competitor.place(fixed)]
        return group[0] if comparable and len(group) > 1 else None

    def axis(self, dimension: str) -> str:
        """The axis title of this dimension. For sizes it has their names, as in `size (M x N x K)`."""
        first = self.competitors[0].record.sizes
        if dimension != "size" or any(c.record.sizes.keys() != first.keys() for c in self.competitors):
            return dimension
        names = [name for name in first if name != "batch"] or list(first)
        return f"size ({' x '.join(names)})"

    @property
    def title(self) -> str:
        """A title that names the varying dimensions and what all competitors have in common."""
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
    """A comparison of the latest record of each kernel, size, device and store that matches.

    Args:
        kernels: Names of kernels or families, parts of names, or patterns with `*`.
        sizes: Sizes as text. Default (empty): all sizes.
        on: Kinds of devices, or parts of device names. Default (empty): all devices.
        stores: Folders of records. Several folders are compared with each other, without the shipped records. A single
            one replaces the user's own store. Default (empty): the user's own store and the shipped records.
        say: Is called with a message for each line of a store that is not a record.

    Raises RequestError if fewer than two records match, or if a kernel, a size, a device or a folder has no match.
    """
    records = _records(stores, say)
    known = dict.fromkeys(kernel for _, kernel, _, _ in records)
    chosen = {name: None for text in kernels for name in matching(text, list(known))}
    _check_filters([(kernel, record, options) for _, kernel, record, options in records if kernel in chosen], sizes, on)
    ceilings = StoredCeilings(stores[0] if stores else None)
    latest: dict[tuple[str, ...], Competitor] = {}
    for store, kernel, record, options in records:
        size = _size_of(record, options)
        matches = (not sizes or any(_is_at(record, kernel, options, text) for text in sizes)) and (
            not on or any(_is_on(record, name) for name in on)
        )
        if kernel in chosen and matches:
            competitor = Competitor(kernel, size, record.device, store, record, *_rates(kernel, record, ceilings))
            previous = latest.get(competitor.place(DIMENSIONS))
            if previous is None or previous.record.date < record.date:
                latest[competitor.place(DIMENSIONS)] = competitor
    if len(latest) < 2:
        given = "".join(
            f" --{name} {shown(text)}" for name, texts in (("size", sizes), ("device", on)) for text in texts
        )
        only = next(iter(latest.values()), None)
        matched = f"only one record, {only.kernel} at {only.size} on {only.device}" if only else "no record"
        raise RequestError(
            f"{shown(' '.join(kernels))}{given}: matches {matched}; a comparison needs two: name another kernel"
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
    """All records as (store, kernel, record, changed options), sorted by kernel, device and size."""
    for folder in stores:
        if not os.path.isdir(folder):
            raise RequestError(f"--results {shown(folder)}: there is no such folder; name one that holds records")
    if len(stores) < 2:
        rows = stored.rows("", stores[0] if stores else None, say)
        return [("", row.kernel, row.record, row.options) for row in rows]
    found = list[tuple[str, str, Record]]()
    for folder in stores:
        for file in sorted(folder.rglob("*.jsonl")):
            kernel = file.relative_to(folder).with_suffix("").as_posix()
            records, problems = read_or_pass(file, kernel)
            for problem in problems:
                say(problem)
            found += [(str(folder), kernel, record) for record in records if record.is_plain]
    found.sort(key=lambda item: (item[1], item[2].device, tuple(item[2].sizes.values())))
    defaults = stored.default_options(
        kernel_lists.every()[0], {kernel for _, kernel, record in found if record.options}
    )
    return [(*item, stored.changed_options(*item[1:], defaults)) for item in found]


def _check_filters(found: Sequence[tuple[str, Record, str]], sizes: Sequence[str], on: Sequence[str]) -> None:
    """Raise RequestError if the chosen kernels (`found`) have no record at one of these sizes or devices."""
    for name in on:
        if not any(_is_on(record, name) for _, record, _ in found):
            names = ", ".join(dict.fromkeys(record.device for _, record, _ in found))
            raise RequestError(f"--device {quoted(name)}: the store has these kernels on {names}; name one")
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
    """The size of a record as text, with its types and changed options."""
    return short_size(record.sizes) + types_text(record.types) + options


def _is_at(record: Record, kernel: str, options: str, text: str) -> bool:
    """Whether `text` denotes the size of a record, as reports show it or in any other form that the kernel accepts."""
    plain = short_size(record.sizes)
    if text in (plain, plain + types_text(record.types), _size_of(record, options)):
        return True
    with contextlib.suppress(RequestError, LookupError):
        op = catalog.load(kernel).operation
        return parsing.parse_size(text, op, record.types) == record.sizes
    return False


def _is_on(record: Record, name: str) -> bool:
    """Whether `name` is the kind of the record's device or a part of its name."""
    return name == record.kind or name.casefold() in record.device.casefold()


def _rates(kernel: str, record: Record, ceilings: StoredCeilings) -> tuple[Rates, Roofline | None]:
    """The rates of a record and its roofline, from the device's current ceilings.

    If the kernel or the ceilings are unknown: the stored rates, without a roofline.
    """
    as_stored = Rates(record.gflops, record.peak, record.vs_peak, record.gbytes, record.memory, record.vs_memory)
    conditions = Conditions(record.conditions)
    known = ceilings.of_name(record.kind, record.device, record.toolchain, conditions)
    backend = devices.BACKENDS.get(record.kind)
    if known is None or backend is None:
        return as_stored, None
    try:
        space = catalog.load(kernel)
        limits = backend.limits_of(record.architecture)
        scope = space.operation.scope(record.sizes, record.options, backend.language, limits, record.types)
        computed = rates.of(space, scope, record.time_ms, known)
    except (RequestError, ExpressionError, LookupError):
        return as_stored, None
    return computed, roofline.of(computed, known)
