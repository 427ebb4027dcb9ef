"""Why the best configuration is faster than the default: parameter by parameter, and what limits each of the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.errors import RequestError
from tuner.report import contenders, landscape, limiting, noise
from tuner.report.contenders import FINALS, SEARCH, Contender
from tuner.report.limiting import Limiting
from tuner.report.noise import SAME_CODE
from tuner.report.words import spread, times
from tuner.store import verdicts
from tuner.store.verdicts import NOISY
from tuner.tuning.finals.selection import SLOW, is_too_slow

if TYPE_CHECKING:
    from tuner.exchange.recording import Row
    from tuner.measure.results import Final
    from tuner.report.subject import Subject
    from tuner.space.config import Value
    from tuner.store.verdicts import Timing

TURNS = "in turns"  # how times were measured; else they are of the search
ALIKE = 0.01  # of a time: what a parameter changes by less does not matter


@dataclass(frozen=True)
class Change:
    """A parameter in which best and default differ. `without` is the time in ms of the best with the default's value,
    `alone` that of the default with the best's value; None with a reason where there is none. A verdict says why the
    time cannot be told from that of the best, or of the default."""

    name: str
    default: Value
    best: Value
    without: float | None
    alone: float | None
    without_reason: str = ""
    alone_reason: str = ""
    without_spread: float | None = None
    alone_spread: float | None = None
    without_verdict: str = ""
    alone_verdict: str = ""


@dataclass(frozen=True)
class Contrast:
    """Best against default: the times of both, measured `TURNS`, in the FINALS or in the SEARCH; the changes, the most
    important first; what limits both.

    The times of the changes are of `origin`, `TURNS` or SEARCH, and so are `best_ms` and `default_ms`, to which alone
    they can be compared; `default_ms` is None where only the finals timed the default.
    """

    subject: Subject
    best: Contender
    default: Contender
    origin: str
    best_ms: float
    default_ms: float | None
    changes: list[Change]
    bounds: Mapping[str, Limiting | None]


def rows(subject: Subject) -> list[Row]:
    """What an explanation needs times of: the best, the default, and each with one value of the other. Only valid ones.

    Raises RequestError where there is no default to compare with.
    """
    default = _default(subject)
    mixed = [row for i in _differing(subject, default) for row in _mixed(subject.best, default, i)]
    return [row for row in dict.fromkeys([subject.best, default, *mixed]) if _is_valid(subject, row)]


def _default(subject: Subject) -> Row:
    if subject.default is None:
        raise RequestError(f"{subject.kernel}: has no default that is known here, so there is nothing to compare with")
    return subject.default


def _differing(subject: Subject, default: Row) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(subject.best, default, strict=True)) if a != b]


def _mixed(best: Row, default: Row, position: int) -> tuple[Row, Row]:
    """The best with the default's value at a position, and the reverse."""

    def put(row: Row, value: Value) -> Row:
        return (*row[:position], value, *row[position + 1 :])

    return put(best, default[position]), put(default, best[position])


def _is_valid(subject: Subject, row: Row) -> bool:
    space, scope = subject.space, subject.scope
    return space is not None and scope is not None and space.valid(subject.config(row), scope)


def explain(subject: Subject, in_turns: Mapping[Row, Final]) -> Contrast:
    """The explanation, from what was measured in turns, else from the times of the finals and of the search.

    Raises RequestError where the default has no time.
    """
    default = _default(subject)
    in_finals = any(contender.name == "default" for contender in contenders.contenders(subject))
    if default not in {**subject.times, **in_turns} and not in_finals:
        reason = landscape.why_no_time(subject, default)
        raise RequestError(
            f"{subject.kernel}: the default has no time ({reason}), so there is nothing to compare the best with; run "
            f"this where {subject.recording.device} is"
        )
    # Times of the search and times in turns can be compared only where they are far apart.
    turns = {row: verdicts.of_times(final.times) for row, final in in_turns.items()}
    with_slow = {**_slow(subject, turns), **turns}
    origin = TURNS if subject.best in turns and default in with_slow else SEARCH
    measured = with_slow if origin == TURNS else subject.timings
    best = measured[subject.best] if origin == TURNS else noise.of_best(subject)
    base = measured[default] if origin == TURNS else noise.of_default(subject)
    changes = []
    for i in _differing(subject, default):
        without, alone = _mixed(subject.best, default, i)
        changed, beside = measured.get(without), measured.get(alone)
        changes.append(
            Change(
                list(subject.parameters)[i],
                default[i],
                subject.best[i],
                changed.time_ms if changed else None,
                beside.time_ms if beside else None,
                "" if changed else _reason(subject, without),
                "" if beside else _reason(subject, alone),
                changed.spread if changed else None,
                beside.spread if beside else None,
                _verdict(subject, (subject.best, best), (without, changed)),
                _verdict(subject, (default, base), (alone, beside)),
            )
        )
    changes.sort(key=lambda change: -(change.without or 0.0))
    bounds = {name: limiting.bounds_of(subject, row) for name, row in (("best", subject.best), ("default", default))}
    times_ms = best.time_ms, base.time_ms if base else None
    both = _of_turns(subject, default, with_slow, turns) if origin == TURNS else _of_search(subject, default)
    return Contrast(subject, *both, origin, *times_ms, changes, bounds)


def _verdict(subject: Subject, one: tuple[Row, Timing | None], other: tuple[Row, Timing | None]) -> str:
    (row, timing), (other_row, other_timing) = one, other
    if subject.is_same_code(row, other_row):
        return SAME_CODE
    return timing.verdict(other_timing) if timing and other_timing else ""


def _of_turns(
    subject: Subject, default: Row, measured: Mapping[Row, Timing], turns: Mapping[Row, Timing]
) -> tuple[Contender, Contender]:
    """Best and default as they were measured in turns, except for a default that is too slow for that."""
    best, other = turns[subject.best], measured[default]
    return _pair(subject, default, (best, TURNS), (other, TURNS if default in turns else SEARCH))


def _of_search(subject: Subject, default: Row) -> tuple[Contender, Contender]:
    """Best and default as the finals timed them, where both were in them or are far apart, or where nothing else has
    timed the default; else as the search did."""
    found = {contender.name: contender for contender in contenders.contenders(subject)}
    best, other = found["best"], found["best"] if default == subject.best else found.get("default")
    is_known = default in subject.timings
    if other is not None and (not is_known or best.origin == other.origin or other.time_ms > SLOW * best.time_ms):
        return best, other
    return _pair(subject, default, (subject.timings[subject.best], SEARCH), (subject.timings[default], SEARCH))


def _pair(
    subject: Subject, default: Row, best: tuple[Timing, str], other: tuple[Timing, str]
) -> tuple[Contender, Contender]:
    """Best and default, each by a Timing and where that is from."""
    (one, origin), (two, default_origin) = best, other
    ties = bool(one.verdict(two)) or subject.is_same_code(subject.best, default)
    found = (
        Contender("best", one.time_ms, origin, subject.config(subject.best), one.spread),
        Contender("default", two.time_ms, default_origin, subject.config(default), two.spread, ties=ties),
    )
    return contenders.with_rates(subject, found[0]), contenders.with_rates(subject, found[1])


def _slow(subject: Subject, turns: Mapping[Row, Timing]) -> dict[Row, Timing]:
    """The times of what was too slow in the search to be timed in turns; none where nothing was."""
    best_ms = subject.times[subject.best]
    return {row: found for row, found in subject.timings.items() if turns and is_too_slow(found.time_ms, best_ms)}


def _reason(subject: Subject, row: Row) -> str:
    if row in subject.times:
        return f"{subject.times[row]:.4g} ms in the {subject.source}"
    return landscape.why_no_time(subject, row)


def sentences(found: Contrast) -> list[str]:
    """The explanation in words."""
    best, default, source = found.best, found.default, found.subject.source
    ways = {TURNS: "measured in turns", FINALS: "in turns in the finals", SEARCH: f"in the {source}"}
    best_text, default_text = (f"{c.time_ms:.4g} ms{spread(c.spread)}" for c in (best, default))
    if not found.changes:
        return [f"The best configuration is the default: {best_text}, {ways[best.origin]}.", *_limits(found)]
    verdict = best.verdict(default) or f"{times(default.time_ms / best.time_ms)[:-2]} times as fast"
    where = f", {ways[best.origin]}" if best.origin != default.origin else ""
    lines = [f"The best takes {best_text}{where}, the default {default_text}, {ways[default.origin]}: {verdict}."]
    if found.origin != best.origin:
        other = "" if found.default_ms is None else f" and the default {found.default_ms:.4g} ms"
        lines.append(
            f"Parameters are compared by the times of the {source}, where the best took {found.best_ms:.4g} ms{other}."
        )
    noisy = [change for change in found.changes if change.without_verdict == NOISY]
    same = [change for change in found.changes if change.without_verdict == SAME_CODE]
    sure = [change for change in found.changes if change.without and change not in (*noisy, *same)]
    needed = [change for change in sure if (change.without or 0.0) > (1 + ALIKE) * found.best_ms]
    better = [change for change in sure if (change.without or 0.0) < (1 - ALIKE) * found.best_ms]
    idle = [change for change in sure if change not in (*needed, *better)]
    unmeasured = [change for change in found.changes if change.without is None and change not in same]
    unknown = [change for change in unmeasured if change.without_reason == landscape.NOT_MEASURED]
    tied = [change for change in unmeasured if change not in unknown]
    if needed:
        first = needed[0]
        lines.append(
            f"{first.name} = {first.best} in place of {first.default} matters most: without it, the best takes "
            f"{times((first.without or 0.0) / found.best_ms)[:-2]} times as long."
        )
    if len(needed) > 1:
        rest = ", ".join(f"{s.name} ({times((s.without or 0.0) / found.best_ms)})" for s in needed[1:])
        lines.append(f"Then come {rest}.")
    if noisy:
        lines.append(f"{_names(noisy)}: {NOISY}; the times with the default's value and without it spread too far.")
    if same:
        lines.append(
            f"{_names(same)}: the best has the same code with the default's value; only chance parts their times."
        )
    if idle:
        lines.append(f"{_names(idle)}: the default's value would cost less than {ALIKE:.0%}.")
    if better:
        lines.append(
            f"{_names(better)}: with the default's value the best is faster still; the same `tune` command goes on "
            "from what is known now."
        )
    if tied:
        lines.append(f"{_names(tied)}: cannot be changed back alone; the table says why.")
    if unknown:
        lines.append(f"{_names(unknown)}: nobody has measured the best with the default's value.")
    return [*lines, *_limits(found)]


def _names(changes: list[Change]) -> str:
    return ", ".join(change.name for change in changes)


def _limits(found: Contrast) -> list[str]:
    return limiting.sentences(found.best, found.subject.ceilings, found.bounds["best"])
