"""Configurations that failed verification on this machine, so that a look-up does not offer them silently.

Each kernel has a file with one line per problem. Every verification writes it, and every look-up reads it, so that a
record that proves wrong later is no longer used.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.classes import cached_property
from tuner.devices.conditions import Conditions
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.texts import config_text, full_problem_text
from tuner.store import locks

if TYPE_CHECKING:
    from tuner.store.lookup import Candidate, Query

MOST_CONFIGURATIONS = 1000  # of a problem
MOST_BYTES = 1 << 20  # of a file; beyond it, the oldest problems are dropped
LONGEST_REASON = 200  # characters


def keep(query: Query, reasons: Iterable[tuple[Config, str]] = (), right: Iterable[Config] = ()) -> None:
    """Record the configurations of a problem that failed verification, each with the reason.

    Those in `right`, which have passed since, are removed from the file. Does nothing if the file cannot be written.
    """
    failed = {config_key(config): shown(reason, LONGEST_REASON) for config, reason in reasons}
    cleared = {config_key(config) for config in right} - failed.keys()
    with contextlib.suppress(OSError, RequestError):
        path = _path(paths.state(), query)
        if not failed and not path.exists():
            return
        problem = _problem(query)
        paths.make(path.parent)
        with locks.held(path):
            known = {**_known(query), **failed}
            rejected = [[_config(key), why] for key, why in known.items() if key not in cleared][-MOST_CONFIGURATIONS:]
            others = [line for line in _lines(path) if _parsed(line).get("problem") != problem]
            data = {"problem": problem, "signature": _signature(query), "rejected": rejected}
            while len(line := json.dumps(data)) > MOST_BYTES and rejected:
                del rejected[: -(-len(rejected) // 2)]
            lines = [*others, *([line] if rejected else [])]
            while sum(map(len, lines)) > MOST_BYTES:
                del lines[0]
            paths.replace(path, "".join(f"{line}\n" for line in lines).encode())


class Rejections:
    """The configurations of a problem that failed verification; the file is read when first needed."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def last(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """`candidates` in their order, except that those that failed verification on this machine come last."""
        rejected: list[Candidate] = []
        for candidate in map(self.judged, candidates):
            if not candidate.rejected:
                yield candidate
            else:
                rejected.append(candidate)
        yield from rejected

    def judged(self, candidate: Candidate) -> Candidate:
        """The candidate, with a reason and a note if it failed verification on this machine."""
        reason, query = self.reason(candidate.config), self._query
        if reason is None and candidate.conditions and candidate.record is not None:  # was it right where it was timed?
            there = replace(query, conditions=Conditions(candidate.record.conditions))
            reason = _known(there).get(config_key(candidate.config))
        if reason is None or candidate.rejected:
            return candidate
        scope = query.scope
        where = full_problem_text(scope.sizes, scope.types, scope.options, query.space.operation.options)
        note = (
            f"{query.space.name}: {config_text(candidate.config)} failed verification on {query.device} at {where}: "
            f"{reason}; mend the kernel, and tune it again"
        )
        return replace(candidate, notes=(*candidate.notes, note), rejected=reason)

    def reason(self, config: Config) -> str | None:
        """Why a configuration failed verification on this machine; None if it is not known to have failed."""
        return self._known.get(config_key(config)) if self._known else None

    @cached_property
    def _known(self) -> Mapping[ConfigKey, str]:
        return _known(self._query)


def _known(query: Query) -> Mapping[ConfigKey, str]:
    """The configurations that failed, with their reasons, for the current space, reference and data."""
    with contextlib.suppress(OSError, RequestError, ValueError, TypeError, LookupError, AttributeError):
        path = f"{paths.state_folder()}/{_name(query)}"  # faster than a Path, for every look-up at a new size
        status = os.stat(path)
        version = status.st_ino, status.st_mtime_ns, status.st_size
        data = _by_problem(path, version).get(json.dumps(_problem(query)), {})
        if data and data["signature"] == _signature(query):
            return {config_key(config): shown(reason) for config, reason in data["rejected"]}
    return {}


@functools.lru_cache(maxsize=64)  # a program dispatches at many sizes
def _by_problem(path: str, _version: tuple[int, ...]) -> Mapping[str, Mapping[str, Any]]:
    """The lines of a file by their problem as JSON. A file that is replaced has another `_version`."""
    return {json.dumps(data["problem"]): data for data in map(_parsed, _lines(Path(path))) if "problem" in data}


def _signature(query: Query) -> str:
    from tuner.space import identity  # imported only if a configuration was rejected

    return identity.of(query.space)


def _config(key: ConfigKey) -> Config:
    return {name: value for name, _, value in key}


def _path(state: Path, query: Query) -> Path:
    return state / _name(query)


def _name(query: Query) -> str:
    return f"rejected/{query.space.name.lstrip('/')}.jsonl"


def _problem(query: Query) -> list[Any]:
    scope = query.scope
    mappings = [sorted(each.items()) for each in (scope.sizes, scope.options, scope.types)]
    conditions = [sorted(query.conditions.values.items())] if query.conditions else []
    problem: list[Any] = json.loads(json.dumps([query.kind, query.device, *mappings, *conditions]))
    return problem


def _lines(path: Path) -> list[str]:
    try:
        return paths.read_text(path, 2 * MOST_BYTES, errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _parsed(line: str) -> Mapping[str, Any]:
    """A line as a mapping; empty if it is none."""
    with contextlib.suppress(ValueError, RecursionError):
        data = json.loads(line)
        return data if isinstance(data, dict) else {}
    return {}
