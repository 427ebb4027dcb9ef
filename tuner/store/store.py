"""The store: one JSON record per line in results/<family>/<stage>.jsonl, written by tuning, read by all.

A file is replaced as a whole, under a lock. Lines that cannot be read are kept as they are and otherwise ignored.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tuner import paths
from tuner.catalog import kernel_names
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.store import locks, lookup, record_file, rejected
from tuner.store.lookup import MATCHES, Candidate, Match, Query
from tuner.store.record import Record, better_first, preference, rank

__all__ = ["MATCHES", "WARM", "Candidate", "Match", "Record", "Store"]

SIMILAR, WARM = 3, 12  # of a warm start: records, and configurations from them


@dataclass(frozen=True)
class Place:
    """A file that may hold records of a kernel besides its own: its header names `kernel`, and those that it `accepts`
    are the kernel's. `adopted`: a store that is written takes them over."""

    path: Path
    kernel: str
    accepts: Callable[[Record], bool] = lambda record: True
    adopted: bool = False


class Store:
    """The records of one kernel from several folders. Those of the first hide the others, and only it is written."""

    def __init__(self, kernel: str, folder: Path | None = None, more: Iterable[Place] = ()) -> None:
        """`folder` replaces the user's own; the shipped results are always read too, and `more` after them."""
        roots = dict.fromkeys(root.resolve() for root in (folder or paths.user_results(), paths.shipped("results")))
        self.paths = [(root / f"{kernel.lstrip('/')}.jsonl").resolve() for root in roots]
        self.kernel = kernel
        self.problems: list[str] = []
        self.records: list[Record] = []
        if folder is not None and not os.path.exists(folder):  # false for an unreadable folder, without an exception
            self.problems.append(f"{shown(folder)}: there is no such folder; only the shipped results are read")
        self._adopted: list[Record] = []
        places = [*(Place(path, kernel) for path in self.paths), *more]
        self.files = list(dict.fromkeys(place.path for place in places))  # that may hold records of it
        for place in places:
            # An imported record hides no verified one, and one of an earlier protocol none of a later one.
            own = {record.key: rank(record) for record in self.records if record.is_verified}
            records, problems = record_file.read(place.path, place.kernel)
            records = [record for record in records if place.accepts(record)]
            self._adopted += records if place.adopted else []
            others = [r for r in better_first(records) if r.key not in own or rank(r) < own[r.key]]
            outranked = {r.key for r in others} & own.keys()
            self.records = [r for r in self.records if r.key not in outranked or not r.is_verified] + others
            self.problems += (problem for problem in problems if problem not in self.problems)
        self._parsed: dict[str, Record | None] = {}

    @staticmethod
    def of(space: Space, folder: Path | None = None, names: Iterable[str] = ()) -> "Store":
        """The records of a space: those under its name; those of a user's file under other names that it had, on other
        machines or in earlier versions, and under these `names`; and those of the wheel that it is in.

        Under another name, a record of the same code is this kernel's. One of other code is so only under the name that
        earlier versions gave to the file, if no other kernel is known by it.
        """
        more_names = (*names, *kernel_names.other_names(space))
        names = [name for name in dict.fromkeys(more_names) if name != space.name]
        results = kernel_names.wheel_results(space)
        user = folder or paths.user_results()
        more: list[Place] = []
        present = [(name, path) for name in names if os.path.isfile(path := user / f"{name}.jsonl")]
        if present:
            version, former = Version.of(space), kernel_names.former_name(space)
            for name, path in present:
                more.append(Place(path, name, lambda record: record.is_of(version), adopted=True))
                if name == former:
                    more.append(Place(path, name, lambda record: not record.is_of(version)))
        if results is not None:
            more += [Place(results / f"{name}.jsonl", name) for name in (space.name, *names)]
        return Store(space.name, folder, more)

    def check_writable(self) -> None:
        """Raise RequestError if `add` could not write. To be called before hours of tuning."""
        for line in record_file.lines(self.paths[0])[:1]:
            self._check_header(line)
        try:
            paths.check_writable(self.paths[0].parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> RequestError:
        where = shown(self.paths[0])
        return RequestError(f"{where}: cannot be written: {error.strerror}; name another folder with --results")

    def add(
        self, record: Record, competes: Callable[[Record], bool] = lambda old: True, noise: float = math.inf
    ) -> bool:
        """Write `record`, and return whether it was written.

        The old record of its key stays if it alone was verified, or if it is of a later protocol. It also stays if it
        is of the same protocol and toolchain, still `competes`, and has a faster configuration, or the same one whose
        spread is no `noise`, while that of `record` is more than that. Every other line of the file stays, readable or
        not. Raises RequestError if the file cannot be written.
        """

        def stays(old: Record, new: Record) -> bool:
            return _outranks(old, new) or (competes(old) and _still_better(old, new, noise))

        self._adopt()
        return bool(self._write([record], stays))

    def _adopt(self) -> None:
        """Write what lies under other names, where it stays, so that a worse record cannot hide it."""
        best = {record.key: record for record in reversed(better_first(self._adopted))}
        if best:
            self._write(best.values(), lambda old, new: True)
        self._adopted = []

    def merge(self, records: Iterable[Record], usable: Callable[[Record], bool] = lambda old: True) -> list[Record]:
        """Write those of `records` that are better than the old record of their key, and return them.

        A verified record is better than an imported one, and one of a later protocol better than one of an earlier.
        Otherwise the one of lesser `value` is better, and any is better than an old one that is not `usable`. Merging
        in any order gives the same records. Raises RequestError if the file cannot be written.
        """

        def stays(old: Record, new: Record) -> bool:
            return _outranks(old, new) or (preference(old) <= preference(new) and usable(old))

        present = {record.key: record for record in reversed(better_first(self.records))}
        best: dict[str, Record] = {}
        for record in records:
            old = best.get(record.key) or present.get(record.key)
            if old is None or not stays(old, record):
                best[record.key] = record
        return self._write(best.values(), stays) if best else []

    def put(self, records: Iterable[Record]) -> None:
        """Write `records` in the place of those with their keys, whatever else is known. Raises RequestError if the
        file cannot be written."""
        self._write({record.key: record for record in reversed(better_first(records))}.values(), lambda old, new: False)

    def _write(self, records: Iterable[Record], stays: Callable[[Record, Record], bool]) -> list[Record]:
        """Write each of `records`, which have different keys, unless the old record of its key `stays`."""
        path = self.paths[0]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locks.held(path):
                record_file.remove_leftovers(path)
                lines = record_file.lines(path)
                if lines:
                    self._check_header(lines[0])
                parsed = [(line, self._parse(line)) for line in lines[1:]]
                stored = better_first(record for _, record in parsed if record is not None)
                old = {record.key: record for record in reversed(stored)}
                new = {r.key: r for r in records if r.key not in old or not stays(old[r.key], r)}
                if not new:
                    return []
                others = [line for line, record in parsed if record is None or record.key not in new]
                text = [record_file.header(self.kernel), *others, *(record.to_line() for record in new.values()), ""]
                paths.replace(path, "\n".join(text).encode("utf-8", errors="surrogateescape"))
        except OSError as error:
            raise self._unwritable(error) from None
        rest = [r for r in self.records if r.key not in new or _outranks(r, new[r.key])]
        self.records = [*new.values(), *rest]
        return list(new.values())

    def _check_header(self, line: str) -> None:
        """Raise RequestError if the file to be written is not ours, or belongs to another kernel."""
        kernel = record_file.kernel_of(self.paths[0], line)
        if kernel != self.kernel:
            raise RequestError(f"{record_file.misplaced(self.paths[0], kernel, self.kernel)}; move the file away")

    def _parse(self, line: str) -> Record | None:
        """The record in `line`, if any. Each line is parsed once."""
        if line not in self._parsed:
            try:
                self._parsed[line] = Record.from_line(line)
            except ValueError:
                self._parsed[line] = None
        return self._parsed[line]

    def look_up(self, query: Query) -> Candidate:
        """The best known configuration that is valid at this size on this device.

        Records are taken in this order: the device at this size; the device, or a variant of it (`lookup.normalised`),
        at the nearest size, by the distance of the logarithms; the architecture; any other device. Imported records,
        which were never verified, come after those of the architecture. Records tuned for energy or with cold caches
        come next, and records of an earlier version of the source last.

        If a record's best is not valid here, its first runner-up that is takes its place. If no record serves, it is
        the space's default, or the first valid combination. What failed verification here comes after all of these.
        Raises NoConfiguration if nothing is valid.
        """
        return next(self._candidates(query))

    def candidates(self, query: Query) -> list[Candidate]:
        """All configurations known to be valid here, in case the best does not launch: `look_up`'s first, each record's
        runners-up after its best, the default last. Raises as `look_up` does."""
        return list(self._candidates(query))

    def _candidates(self, query: Query) -> Iterator[Candidate]:
        for candidate in rejected.last(lookup.candidates(self.records, query), query):
            yield replace(candidate, notes=(*self.problems, *candidate.notes))

    def similar(self, query: Query) -> list[Config]:
        """At most WARM configurations to begin a search with, valid at this size on this device.

        They are the best of the SIMILAR records that fit best, then their second best, and so on.
        """
        space, scope = query.space, query.scope
        fits = lookup.best_fits(self.records, query)
        records = (fit.record for fit in fits if space.valid(fit.record.config, scope))
        rankings = [record.configs for record in itertools.islice(records, SIMILAR)]
        configs: dict[ConfigKey, Config] = {}
        for config in itertools.chain.from_iterable(itertools.zip_longest(*rankings)):
            if config is not None and space.valid(config, scope):
                configs.setdefault(config_key(config), config)
        return list(configs.values())[:WARM]


def _outranks(old: Record, new: Record) -> bool:
    """Whether only `old` is verified, or it is of a later protocol. Then it stays, whatever the values."""
    return rank(old) < rank(new)


def _still_better(old: Record, new: Record, noise: float) -> bool:
    """Whether `old` is verified if `new` is, of the same protocol and toolchain, and has a faster configuration, or the
    same one without the noise."""
    if rank(old) != rank(new) or old.toolchain != new.toolchain:
        return False
    if config_key(old.config) == config_key(new.config):
        return old.spread <= noise < new.spread
    return old.value < new.value
