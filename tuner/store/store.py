"""The best configurations, one JSON record a line in results/<family>/<stage>.jsonl: written by tuning, read by all.

A file starts with a header line. It is rewritten aside and renamed, under a lock; lines that cannot be read are
reported, kept as they are and otherwise ignored.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.errors import RequestError
from tuner.space.model import Config, ConfigKey, config_key
from tuner.store import locks
from tuner.store.lookup import MATCHES, Asked, Found, Match, answers, ranked
from tuner.store.record import Record, better_first, rank

__all__ = ["FORMAT", "MATCHES", "VERSION", "WARM", "Found", "Match", "Record", "Store", "read"]

FORMAT = "tuner results"
VERSION = 1
SIMILAR, WARM = 3, 12  # records whose configurations begin a search; how many configurations
MOST_BYTES = 1 << 28  # of a file
_TOLD = 3  # unreadable lines that are reported one by one


class Store:
    """Records of one kernel from several folders, the first laid over the others; the first is written to."""

    def __init__(self, kernel: str, folder: Path | None = None) -> None:
        """`folder` instead of the user's own; the shipped results always lie below."""
        roots = dict.fromkeys(root.resolve() for root in (folder or paths.user_results(), paths.shipped("results")))
        self.paths = [(root / f"{kernel.lstrip('/')}.jsonl").resolve() for root in roots]
        self.kernel = kernel
        self.problems: list[str] = []
        self.records: list[Record] = []
        if folder is not None and not os.path.exists(folder):  # which an unreadable one is not, and raises nothing
            self.problems.append(f"{paths.shown(folder)}: there is no such folder; what ships is all that is known")
        for path in self.paths:
            # An imported record hides no verified one.
            above = {record.key for record in self.records if record.is_verified}
            found, problems = read(path, kernel)
            self.records += [record for record in better_first(found) if record.key not in above]
            self.problems += problems
        self._parsed: dict[str, Record] = {}

    def check_writable(self) -> None:
        """Raise RequestError where `add` could not write; to be asked before hours of tuning."""
        for line in _lines(self.paths[0])[:1]:
            self._check_header(line)
        try:
            paths.check_writable(self.paths[0].parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> RequestError:
        where = paths.shown(self.paths[0])
        return RequestError(f"{where}: cannot be written: {error.strerror}; name another folder with --results")

    def add(self, record: Record, competes: Callable[[Record], bool] = lambda old: True) -> bool:
        """Write `record`, unless the same toolchain has found a faster configuration that still `competes`, or it is
        the only one of the two that was not verified; returns whether.

        Every other line of the file stays, readable or not. Raises RequestError where the file cannot be written.
        """
        return bool(
            self._write([record], lambda old, new: _outranks(old, new) or (competes(old) and _still_better(old, new)))
        )

    def merge(self, records: Iterable[Record], usable: Callable[[Record], bool] = lambda old: True) -> list[Record]:
        """Write those of `records` that are better than what is known about the same thing and `usable`: verified where
        that is not, else faster (by less of whatever was made least). Merging in any order gives the same records.

        Returns what was written. Raises RequestError where the file cannot be written.
        """

        def stays(old: Record, new: Record) -> bool:
            return _outranks(old, new) or (rank(old) <= rank(new) and usable(old))

        known = {record.key: record for record in reversed(better_first(self.records))}
        best: dict[str, Record] = {}
        for record in records:
            old = best.get(record.key) or known.get(record.key)
            if old is None or not stays(old, record):
                best[record.key] = record
        return self._write(best.values(), stays) if best else []

    def _write(self, records: Iterable[Record], stays: Callable[[Record, Record], bool]) -> list[Record]:
        """Write each of `records`, of which no two have one key, unless the old one of its key `stays`."""
        path = self.paths[0]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locks.held(path):
                _clear(path)
                lines = _lines(path)
                if lines:
                    self._check_header(lines[0])
                keys = [self._key(line) for line in lines[1:]]
                there = [self._parsed[line] for line, key in zip(lines[1:], keys, strict=True) if key is not None]
                old = {record.key: record for record in reversed(better_first(there))}
                written = [r for r in records if r.key not in old or not stays(old[r.key], r)]
                if not written:
                    return []
                new = {record.key: record for record in written}
                header = json.dumps({"format": FORMAT, "version": VERSION, "kernel": self.kernel})
                kept = [line for line, key in zip(lines[1:], keys, strict=True) if key is None or key not in new]
                text = "\n".join([header, *kept, *(record.to_line() for record in written)]) + "\n"
                paths.replace(path, text.encode("utf-8", errors="surrogateescape"))
        except OSError as error:
            raise self._unwritable(error) from None
        seen = [r for r in self.records if r.key not in new or (r.is_verified and not new[r.key].is_verified)]
        self.records = [*written, *seen]
        return written

    def _check_header(self, line: str) -> None:
        """Raise RequestError where the file to be written is not ours, or of another kernel."""
        named = _check_header(self.paths[0], line)
        if named != self.kernel:
            raise RequestError(f"{_misplaced(self.paths[0], named, self.kernel)}; move the file away")

    def _key(self, line: str) -> str | None:
        """The key of the record in `line`; None where it holds none. A line is read once."""
        if line not in self._parsed:
            try:
                self._parsed[line] = Record.from_line(line)
            except ValueError:
                return None
        return self._parsed[line].key

    def look_up(self, asked: Asked) -> Found:
        """The best known configuration that is valid at this size on this device.

        In this order: the device at this size; the device, or a variant of it (`lookup.normalised`), at the nearest
        size, by the distance of the logarithms; the architecture; any other device; the space's default, or the first
        valid combination. Records that were imported, and so never verified, come after those of the architecture.
        Records of an earlier version of the source come after all others, and before them those that were tuned for
        energy or with cold caches. Where a record's best is not valid here, its first runner-up that is stands for it.
        Raises NoConfiguration where nothing is valid.
        """
        return next(self._answers(asked))

    def candidates(self, asked: Asked) -> list[Found]:
        """All that is known to be valid here, for whoever finds that the best does not launch: `look_up`'s answer
        first, each record's runners-up after its best, the default last. Raises as `look_up` does."""
        return list(self._answers(asked))

    def _answers(self, asked: Asked) -> Iterator[Found]:
        for found in answers(self.records, asked):
            yield replace(found, notes=(*self.problems, *found.notes))

    def similar(self, asked: Asked) -> list[Config]:
        """Configurations to begin a search with: the best of the SIMILAR records that a look-up would prefer, then
        their second best, and so on, at most WARM; valid at this size on this device."""
        space, scope = asked.space, asked.scope
        fits = (fit.record for fit in ranked(self.records, asked) if space.valid(fit.record.config, scope))
        nearest = [record.configs for record in itertools.islice(fits, SIMILAR)]
        configs: dict[ConfigKey, Config] = {}
        for config in itertools.chain.from_iterable(itertools.zip_longest(*nearest)):
            if config is not None and space.valid(config, scope):
                configs.setdefault(config_key(config), config)
        return list(configs.values())[:WARM]


def read(path: Path, kernel: str | None = None) -> tuple[list[Record], list[str]]:
    """The records of one file, and what there is to say of lines that hold none; none of a file whose header names
    another kernel than `kernel`.

    No file is no records. Raises RequestError for a file that is not ours, is of a newer version, or cannot be read.
    """
    records: list[Record] = []
    problems: list[str] = []
    skipped = 0
    for number, line in enumerate(_lines(path), 1):
        if number == 1:
            named = _check_header(path, line)
            if kernel is not None and named != kernel:
                return [], [f"{_misplaced(path, named, kernel)}; skipped"]
            continue
        try:
            records.append(Record.from_line(line))
        except ValueError as error:
            if line.strip():
                skipped += 1
                if skipped <= _TOLD:
                    problems.append(f"{paths.shown(path)}:{number}: skipped, not a record: {error}")
    if skipped > _TOLD:
        problems.append(f"{paths.shown(path)}: {skipped - _TOLD} more lines skipped")
    return records, problems


def _lines(path: Path) -> list[str]:
    where = paths.shown(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RequestError(f"{where}: the results cannot be read: not a file; move it away")
        if status.st_size > MOST_BYTES:
            raise RequestError(f"{where}: {status.st_size} bytes; results have at most {MOST_BYTES}; move it away")
        # What is not UTF-8 must come back as the bytes it was.
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RequestError(f"{where}: the results cannot be read: {error.strerror}") from None
    return text.removesuffix("\n").split("\n") if text else []


def _misplaced(path: Path, named: object, kernel: str) -> str:
    return f"{paths.shown(path)}:1: its header names kernel {str(named)[:60]!r}, not {kernel}, whose place this is"


def _check_header(path: Path, line: str) -> object:
    """What the header says the kernel is. Raises RequestError for a file that is not ours, or of a version that is not
    known yet."""
    where = paths.shown(path)
    try:
        header = json.loads(line)
        known = header["format"] == FORMAT
        version = header["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        known, version = False, None
    if not known or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RequestError(f"{where}:1: not a results file: its first line is not the header; move the file away")
    if version > VERSION:
        raise RequestError(
            f"{where}:1: written by a newer tuner: a version that reads format {version} is needed, this one reads "
            f"{VERSION}; update tuner"
        )
    return header.get("kernel")


def _clear(path: Path) -> None:
    """Remove what writers of `path` that were killed have left. Its lock is held, so none is at work."""
    for left in path.parent.iterdir():
        if left.name.startswith(f".{path.name}."):
            left.unlink(missing_ok=True)


def _outranks(old: Record, new: Record) -> bool:
    """Whether `old` alone is verified: then it stays, whatever it says."""
    return old.is_verified and not new.is_verified


def _still_better(old: Record, new: Record) -> bool:
    """Whether `old` is no worse verified, and of another configuration that the same toolchain made faster than
    `new`."""
    if old.is_verified != new.is_verified:
        return False
    return old.toolchain == new.toolchain and old.config != new.config and old.value < new.value
