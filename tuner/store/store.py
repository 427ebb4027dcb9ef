"""The store of one kernel: its JSON records, one per line of results/<family>/<stage>.jsonl.

A file is replaced as a whole, under a lock. Unreadable lines are preserved, and otherwise ignored.
"""

import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space.config import config_key
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.store import locks, lookup, record_file
from tuner.store.lookup import MATCHES, Candidate, Match, Query
from tuner.store.record import Record, better_first, preference, rank
from tuner.store.rejected import Rejections

__all__ = ["MATCHES", "SIMILAR", "Candidate", "Match", "Record", "Store"]

SIMILAR = 4  # most problems that a search knows


@dataclass(frozen=True)
class Place:
    """A file that may hold records of a kernel, perhaps under another name.

    Its header names `kernel`, and those of its records that `accepts` allows are the kernel's. `adopted`: a store that
    is written copies them into its own file.
    """

    path: Path
    kernel: str
    accepts: Callable[[Record], bool] = lambda record: True
    adopted: bool = False


class Store:
    """The records of one kernel, from the user's results and those that ship with tuner.

    The user's take precedence, and only they are written. `records` are all records, `files` the files that may hold
    some, `problems` messages about what could not be read.
    """

    def __init__(
        self, kernel: str, folder: Path | None = None, more: Iterable[Place] = (), passes_over: bool = False
    ) -> None:
        """Read the records. `folder` replaces the folder of the user's results; `more` is read last.

        Raises RequestError for a file that cannot be read or is of a newer version. If the store `passes_over` such
        files, they are among the `problems` instead.
        """
        read = record_file.read_or_pass if passes_over else record_file.read
        roots = dict.fromkeys(map(os.path.realpath, (folder or paths.user_results(), paths.shipped("results"))))
        self.paths = [Path(os.path.realpath(os.path.join(root, f"{kernel.lstrip('/')}.jsonl"))) for root in roots]
        self.kernel = kernel
        self.problems: list[str] = []
        self.records: list[Record] = []
        if folder is not None and not os.path.exists(folder):  # also False if the folder is not accessible
            self.problems.append(f"{shown(folder)}: there is no such folder; only the shipped results are read")
        self._adopted: list[Record] = []
        places = [*(Place(path, kernel) for path in self.paths), *more]
        self.files = list(dict.fromkeys(place.path for place in places))
        for place in places:
            # A verified record takes precedence over an imported one, and a later protocol over an earlier one.
            own = {record.key: rank(record) for record in self.records if record.is_verified}
            records, problems = read(place.path, place.kernel)
            records = [record for record in records if place.accepts(record)]
            self._adopted += records if place.adopted else []
            others = [r for r in better_first(records) if r.key not in own or rank(r) < own[r.key]]
            outranked = {r.key for r in others} & own.keys()
            self.records = [r for r in self.records if r.key not in outranked or not r.is_verified] + others
            self.problems += (problem for problem in problems if problem not in self.problems)
        self._parsed: dict[str, Record | None] = {}

    @staticmethod
    def of(space: Space, folder: Path | None = None, names: Iterable[str] = ()) -> "Store":
        """The store of a space, with the records under its other names, and those of its wheel or project.

        Without `folder`, the store that the space's project names for commands is read, too: after the user's.

        Other names are those that a user's file had on other machines, may have on machines whose records were merged,
        or had in earlier versions of tuner, and `names`. A record under another name belongs to this kernel if its code
        is the same. A record of different code belongs to it only under the name that earlier versions of tuner gave to
        the file, if no other kernel has that name.
        """
        more_names = (*names, *kernel_names.other_names(space))
        names = [name for name in more_names if name != space.name]

        def held(root: Path) -> list[str]:
            others = dict.fromkeys([*names, *kernel_names.names_elsewhere(space, root)])
            return [name for name in others if os.path.isfile(f"{root}/{name}.jsonl")]

        results = kernel_names.wheel_results(space) or (None if folder else kernel_names.project_results(space))
        user = folder or paths.user_results()
        more: list[Place] = []
        if present := held(user):
            version, former = Version.of(space), kernel_names.former_name(space)
            for name in present:
                path = user / f"{name}.jsonl"
                more.append(Place(path, name, lambda record: record.is_of(version), adopted=True))
                if name == former:
                    more.append(Place(path, name, lambda record: not record.is_of(version)))
        if results is not None:
            more.append(Place(results / f"{space.name}.jsonl", space.name))
            code = functools.cache(lambda: Version.of(space))
            more += [Place(results / f"{name}.jsonl", name, lambda r: r.is_of(code())) for name in held(results)]
        return Store(space.name, folder, more)

    def check_writable(self) -> None:
        """Raise RequestError if `add` could not write. Call this before hours of tuning."""
        for line in record_file.lines(self.paths[0])[:1]:
            self._check_header(line)
        with paths.writing(self.paths[0]):
            paths.check_writable(self.paths[0].parent)

    def add(
        self, record: Record, competes: Callable[[Record], bool] = lambda old: True, noise: float = math.inf
    ) -> bool:
        """Write `record` unless the stored record of its key is better, and return whether it was written.

        The stored record is better if only it is verified, or if it is of a later protocol. It is also better if it is
        of the same protocol and toolchain, `competes` accepts it, and its configuration is faster; or is the same, with
        a spread of at most `noise` while that of `record` is above it. All other lines of the file are preserved.
        Raises RequestError if the file cannot be written.
        """

        def stays(old: Record, new: Record) -> bool:
            return _outranks(old, new) or (competes(old) and _still_better(old, new, noise))

        self._adopt()
        return bool(self._write([record], stays))

    def _adopt(self) -> None:
        """Copy the records under other names into the store's file, so that a worse record does not replace them."""
        best = {record.key: record for record in reversed(better_first(self._adopted))}
        if best:
            self._write(best.values(), lambda old, new: True)
        self._adopted = []

    def merge(self, records: Iterable[Record], usable: Callable[[Record], bool] = lambda old: True) -> list[Record]:
        """Write those of `records` that are better than the stored record of their key, and return them.

        A verified record is better than an unverified one, and a later protocol better than an earlier one. Otherwise
        the smaller `value` is better, and any record is better than a stored one that is not `usable`. The result does
        not depend on the order of merging. Raises RequestError if the file cannot be written.
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

    def supply(self, records: Iterable[Record]) -> list[Record]:
        """Write those of `records`, which are imported, that are better than the stored record of their key, and return
        them. A record that was measured here stays, verified or not. Raises RequestError if the file cannot be written.
        """

        def stays(old: Record, new: Record) -> bool:
            return not old.is_imported or preference(old) <= preference(new)

        present = {record.key: record for record in reversed(better_first(self.records))}
        best = {record.key: record for record in reversed(better_first(records))}
        new = [record for key, record in best.items() if key not in present or not stays(present[key], record)]
        return self._write(new, stays) if new else []

    def put(self, records: Iterable[Record]) -> None:
        """Write `records`, replacing the stored ones of their keys. Raises RequestError if the file cannot be written.

        Of several `records` with the same key, the best is written.
        """
        self._write({record.key: record for record in reversed(better_first(records))}.values(), lambda old, new: False)

    def _write(self, records: Iterable[Record], stays: Callable[[Record, Record], bool]) -> list[Record]:
        """Write each of `records`, which have different keys, unless `stays(stored, record)`; return those written."""
        path = self.paths[0]
        with locks.updating(path):
            lines = record_file.lines(path)
            if lines:
                self._check_header(lines[0])
            parsed = [(line, self._parse(line)) for line in lines[1:]]
            present = better_first(record for _, record in parsed if record is not None)
            stored = {record.key: record for record in reversed(present)}
            new = {r.key: r for r in records if r.key not in stored or not stays(stored[r.key], r)}
            if not new:
                return []
            others = [line for line, record in parsed if record is None or record.key not in new]
            text = [record_file.header(self.kernel), *others, *(record.to_line() for record in new.values()), ""]
            paths.replace(path, "\n".join(text).encode("utf-8", errors="surrogateescape"))
        rest = [r for r in self.records if r.key not in new or _outranks(r, new[r.key])]
        self.records = [*new.values(), *rest]
        return list(new.values())

    def _check_header(self, line: str) -> None:
        """Raise RequestError if the file to be written is no file of records, or belongs to another kernel."""
        where = shown(self.paths[0])
        if (kernel := record_file.kernel_of(where, line)) != self.kernel:
            raise RequestError(f"{record_file.misplaced(where, kernel, self.kernel)}; move the file away")

    def _parse(self, line: str) -> Record | None:
        """The record in `line`, None if it holds none. Each line is parsed once."""
        if line not in self._parsed:
            try:
                self._parsed[line] = Record.from_line(line)
            except ValueError:
                self._parsed[line] = None
        return self._parsed[line]

    def look_up(self, query: Query) -> Candidate:
        """The best known configuration that is valid for the query's problem and device.

        Records are considered in this order: the device at this size; the device at the nearest size, by the distance
        of logarithms; the architecture, first of boards with the same chip (`board_names.chip`); any other device.
        Imported records, which were never verified, follow those of the architecture. Then come records tuned for
        energy or with cold caches, and last those of an earlier version of the kernel.

        If a record's best configuration is not valid, its first valid runner-up replaces it. If no record serves, the
        result is the space's default, or its first valid configuration. Configurations that failed verification on this
        machine come after all of these. Raises NoConfiguration if none is valid.
        """
        return next(self._candidates(query))

    def candidates(self, query: Query) -> list[Candidate]:
        """All known configurations that are valid, in the order of `look_up`, in case the first does not launch.

        The runners-up of a record follow its best, and the default is last. Raises as `look_up` does.
        """
        return list(self._candidates(query))

    def _candidates(self, query: Query) -> Iterator[Candidate]:
        for candidate in Rejections(query).last(lookup.candidates(self.records, query)):
            yield replace(candidate, notes=(*self.problems, *candidate.notes))

    def similar(self, query: Query) -> list[Record]:
        """The records whose best configuration is valid, the best fit first, at most SIMILAR."""
        fits = lookup.best_fits(self.records, query)
        records = (fit.record for fit in fits if query.space.valid(fit.record.config, query.scope))
        return list(itertools.islice(records, SIMILAR))


def _outranks(old: Record, new: Record) -> bool:
    """Whether only `old` is verified, or it is of a later protocol, so that it stays whatever the values."""
    return rank(old) < rank(new)


def _still_better(old: Record, new: Record, noise: float) -> bool:
    """Whether `old` is comparable with `new` and is faster, or has the same configuration with less noise."""
    if rank(old) != rank(new) or old.toolchain != new.toolchain:
        return False
    if config_key(old.config) == config_key(new.config):
        return old.spread <= noise < new.spread
    return old.value < new.value
