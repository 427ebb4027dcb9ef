"""Configurations that failed verification on this machine, which a look-up must not give silently: a file for each
kernel, with a line for each problem.

Whatever verifies writes it, and every look-up reads it. So a record that was proved wrong later serves no longer.
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
from tuner.errors import RequestError
from tuner.lockless import cached_property
from tuner.quoting import shown
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.texts import config_text, full_problem_text
from tuner.store import locks

if TYPE_CHECKING:
    from tuner.store.lookup import Candidate, Query

MOST_CONFIGURATIONS = 1000  # of a problem
MOST_BYTES = 1 << 20  # of a file; then the oldest problems are forgotten
LONGEST_REASON = 200  # characters


def keep(query: Query, reasons: Iterable[tuple[Config, str]] = (), right: Iterable[Config] = ()) -> None:
    """Write down which configurations of a problem failed verification, each with the reason, and forget it of those
    that were `right` since. A file that cannot be written stays as it is."""
    found = {config_key(config): shown(reason, LONGEST_REASON) for config, reason in reasons}
    cleared = {config_key(config) for config in right} - found.keys()
    with contextlib.suppress(OSError, RequestError):
        path = _path(paths.state(), query)
        if not found and not path.exists():
            return
        problem = _problem(query)
        path.parent.mkdir(parents=True, exist_ok=True)
        with locks.held(path):
            known = {**_known(query), **found}
            rejected = [[_config(key), why] for key, why in known.items() if key not in cleared][-MOST_CONFIGURATIONS:]
            others = [line for line in _lines(path) if _parsed(line).get("problem") != problem]
            data = {"problem": problem, "signature": _signature(query), "rejected": rejected}
            while len(line := json.dumps(data)) > MOST_BYTES and rejected:
                del rejected[: -(-len(rejected) // 2)]
            lines = [*others, *([line] if rejected else [])]
            while sum(map(len, lines)) > MOST_BYTES:
                del lines[0]
            paths.replace(path, "".join(f"{line}\n" for line in lines).encode())


def last(candidates: Iterable[Candidate], query: Query) -> Iterator[Candidate]:
    """`candidates` in their order, but those that failed verification here last."""
    return Rejections(query).last(candidates)


class Rejections:
    """What is known of a problem; it is read when the first candidate is judged."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def last(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """`candidates` in their order, but those that failed verification here last."""
        wrong: list[Candidate] = []
        for candidate in map(self.judged, candidates):
            if not candidate.rejected:
                yield candidate
            else:
                wrong.append(candidate)
        yield from wrong

    def judged(self, candidate: Candidate) -> Candidate:
        """The candidate, with the reason and a note where it failed verification here."""
        reason, query = self.reason(candidate.config), self._query
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
        """What was wrong with a configuration here; None where nothing is known to be."""
        return self._known.get(config_key(config)) if self._known else None

    @cached_property
    def _known(self) -> Mapping[ConfigKey, str]:
        return _known(self._query)


def _known(query: Query) -> Mapping[ConfigKey, str]:
    """The configurations that failed, with their reasons; of the space and all that verifying it reads as they are."""
    with contextlib.suppress(OSError, RequestError, ValueError, TypeError, LookupError, AttributeError):
        path = f"{paths.state_folder()}/{_name(query)}"  # each choice at a new size looks; a Path takes it longer
        status = os.stat(path)
        version = status.st_ino, status.st_mtime_ns, status.st_size
        data = _by_problem(path, version).get(json.dumps(_problem(query)), {})
        if data and data["signature"] == _signature(query):
            return {config_key(config): shown(reason) for config, reason in data["rejected"]}
    return {}


@functools.lru_cache(maxsize=64)  # a program dispatches at many sizes
def _by_problem(path: str, _version: tuple[int, ...]) -> Mapping[str, Mapping[str, Any]]:
    """The lines of a file as it is, by their problem as text. Whoever writes it puts a new file in its place."""
    return {json.dumps(data["problem"]): data for data in map(_parsed, _lines(Path(path))) if "problem" in data}


def _signature(query: Query) -> str:
    from tuner.space import identity  # a launch of what was tuned does not need it

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
    problem: list[Any] = json.loads(json.dumps([query.kind, query.device, *mappings]))
    return problem


def _lines(path: Path) -> list[str]:
    try:
        return paths.read_text(path, 2 * MOST_BYTES, errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _parsed(line: str) -> Mapping[str, Any]:
    """A line as a mapping; an empty one where it is none."""
    with contextlib.suppress(ValueError, RecursionError):
        data = json.loads(line)
        return data if isinstance(data, dict) else {}
    return {}
