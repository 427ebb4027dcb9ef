"""The record of an imported recording: its best valid configuration, unverified."""

import datetime
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tuner import devices
from tuner.classes import dataclass
from tuner.errors import RequestError, SpaceError
from tuner.exchange.interop import provenance
from tuner.exchange.interop.provenance import Provenance, Statements
from tuner.exchange.interop.truths import names_of_truths, truths_differ
from tuner.measure.timing.clock import spread
from tuner.quoting import shown
from tuner.space import operation
from tuner.space.config import Config, contains
from tuner.space.instance import checked
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.store.board_names import chip
from tuner.store.record import RUNNERS_UP, UNVERIFIED, Record
from tuner.store.store import Store
from tuner.tuning.recordings.recording import Entry, Recording
from tuner.version import VERSION

STRATEGY, UNKNOWN = "imported", "unknown"

_Timed = tuple[Config, Entry, float]  # a configuration with its entry and its time in ms


@dataclass(frozen=True)
class Made:
    """The record of a recording, its provenance, and messages for the user."""

    origin: Provenance
    record: Record
    notes: tuple[str, ...]


def made_of(file: Path, recording: Recording, statements: Statements) -> Made:
    """The record of a recording's best valid configuration. Raises RequestError if no configuration with a time is
    valid."""
    where = shown(file)
    origin = provenance.of(where, recording, statements)
    space, backend = origin.space, devices.BACKENDS[origin.kind]
    architecture = _architecture(origin, recording, statements.results)
    limits = backend.widest(architecture)
    scope = space.operation.scope(origin.sizes, origin.options, backend.language, limits, origin.types)
    ranking = _ranking(recording, space)
    if not ranking:
        raise RequestError(f"{where}: no configuration with a time")
    valid = list(itertools.islice((trial for trial in ranking if space.valid(trial[0], scope)), 1 + RUNNERS_UP))
    if not valid:
        fastest = f"the fastest of {len(ranking)}: {_why_invalid(space, ranking[0][0], scope)}"
        raise RequestError(f"{where}: no configuration with a time is valid; {fastest}")
    (config, best, time_ms), *others = valid
    notes = _faster(where, ranking, valid[0], space, scope)
    if truths := names_of_truths(recording.parameters):
        notes.append(f"{where}: {truths_differ(truths)}")
    record = Record(
        device=origin.device,
        kind=origin.kind,
        architecture=architecture,
        sizes=origin.sizes,
        types=origin.types,
        options=origin.options,
        config=config,
        time_ms=time_ms,
        spread=spread(best.times),
        rounds=max(1, len(best.times)),
        gflops=operation.gflops(space.operation, scope, time_ms),
        gbytes=operation.gbytes(space.operation, scope, time_ms),
        **UNVERIFIED,
        signature=rendering.signature(space),
        code=rendering.code(space),
        toolchain=UNKNOWN,
        configurations=len(recording.entries),
        evaluated=len(recording.entries),
        failed=dict(Counter(shown(e.failure[:100]) for e in recording.entries.values() if e.failure is not None)),
        strategy=STRATEGY,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
        next=[{"config": config, "time_ms": time_ms} for config, _, time_ms in others],
    )
    return Made(origin, record, tuple(notes))


def _faster(where: str, ranking: Sequence[_Timed], best: _Timed, space: Space, scope: Scope) -> list[str]:
    """A note if the file has faster configurations than the best valid one."""
    number = ranking.index(best)
    if not number:
        return []
    config, _, time_ms = ranking[0]
    which = "a configuration" if number == 1 else f"{number} configurations"
    why = _why_invalid(space, config, scope)
    return [f"{where}: left out {which} faster than the best valid one; the fastest takes {time_ms:.4g} ms: {why}"]


def _why_invalid(space: Space, config: Config, scope: Scope) -> str:
    try:
        checked(space, config, scope)
    except SpaceError as error:
        return shown(str(error)[:400])
    return ""


def with_constants(space: Space, config: Config) -> Config:
    """A recording's configuration with the space's parameters, in its order; one that it lacks has a single value.

    Numbers are as the space declares them: a table that makes 64.0 of 64 would give another macro.
    """
    given = {name: config.get(name, values[0]) for name, values in space.parameters.items()}
    return {
        name: next((declared for declared in space.parameters[name] if contains([declared], value)), value)
        for name, value in given.items()
    }


def _ranking(recording: Recording, space: Space) -> list[_Timed]:
    """The configurations that have a time, the fastest first, with their entries and times in ms."""
    trials = [
        (with_constants(space, config), entry, entry.time_ms)
        for config, entry in recording.configs()
        if entry.time_ms is not None
    ]
    return sorted(trials, key=lambda trial: trial[2])


def _architecture(origin: Provenance, recording: Recording, results: Path | None) -> str:
    """The architecture that the file names, else the one of the device's records in the store; empty if unknown."""
    architecture = recording.about.get("architecture")
    if isinstance(architecture, str) and architecture.isprintable() and 0 < len(architecture) <= provenance.LONGEST:
        return architecture
    name = chip(origin.device)
    records = Store.of(origin.space, results).records
    return next((r.architecture for r in records if r.kind == origin.kind and chip(r.device) == name), "")
