"""Why the best configuration is faster than the default: parameter by parameter, and what limits each of the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.report import bits, contenders, landscape, limiting, noise
from tuner.report.contenders import FINALS, SEARCH, Contender
from tuner.report.limiting import Limiting
from tuner.report.noise import SAME_CODE
from tuner.report.words import spread, times
from tuner.store import verdicts
from tuner.store.verdicts import NOISY
from tuner.tuning.finals.entrants import SLOW, is_too_slow

if TYPE_CHECKING:
    from tuner.measure.results import Final
    from tuner.report.subject import Subject
    from tuner.space.config import Value
    from tuner.store.verdicts import Timing
    from tuner.tuning.recordings.recording import Row

TURNS = "in turns"  # the origin of times that were measured interleaved
ALIKE = 0.01  # relative change of a time below which a parameter does not matter


@dataclass(frozen=True)
class Change:
    """A parameter in which best and default differ.

    `without` is the time in ms of the best with the default's value, `alone` that of the default with the best's value;
    if unknown, None with a reason. Their verdicts say why the time is indistinguishable from the best's and the
    default's; they are empty if it is not.
    """

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
    """The best against the default, with their differences, the most important first, and what limits each of the two.

    The times of `best` and `default` are from TURNS, FINALS or SEARCH. Those of the changes are from `origin`, TURNS or
    SEARCH; compare them to `best_ms` and `default_ms`, which have the same origin. `default_ms` is None if only the
    finals timed the default.
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
    """The configurations to measure: the best, the default, and the valid ones of each with one value of the other.

    Raises RequestError if the default is unknown.
    """
    default = _default(subject)
    mixed = [row for i in _differing(subject, default) for row in _mixed(subject.best, default, i)]
    return [row for row in dict.fromkeys([subject.best, default, *mixed]) if _is_valid(subject, row)]


def _default(subject: Subject) -> Row:
    if subject.default is None:
        raise RequestError(f"{subject.kernel}: its default is unknown here, so there is nothing to compare with")
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
    """Explain the best from `in_turns`, the interleaved measurements, or else from times of the finals and the search.

    Raises RequestError if the default has no time.
    """
    default = _default(subject)
    in_finals = any(contender.name == "default" for contender in contenders.contenders(subject))
    if default not in {**subject.times, **in_turns} and not in_finals:
        reason = landscape.why_no_time(subject, default)
        raise RequestError(
            f"{subject.kernel}: the default has no time ({reason}), so there is nothing to compare the best with; run "
            f"this on a machine with {subject.recording.device}"
        )
    # A time of the search and one measured in turns can be compared only if they are far apart.
    turns = {row: verdicts.of_times(final.times) for row, final in in_turns.items()}
    with_slow = {**_slow(subject, turns), **turns}
    origin = TURNS if subject.best in turns and default in with_slow else SEARCH
    measured = with_slow if origin == TURNS else subject.timings
    best = measured[subject.best] if origin == TURNS else noise.of_best(subject)
    base = measured[default] if origin == TURNS else noise.of_default(subject)
    changes = []
    for i in _differing(subject, default):
        without, alone = _mixed(subject.best, default, i)
        without_timing, alone_timing = measured.get(without), measured.get(alone)
        changes.append(
            Change(
                list(subject.parameters)[i],
                default[i],
                subject.best[i],
                without_timing.time_ms if without_timing else None,
                alone_timing.time_ms if alone_timing else None,
                "" if without_timing else _reason(subject, without),
                "" if alone_timing else _reason(subject, alone),
                without_timing.spread if without_timing else None,
                alone_timing.spread if alone_timing else None,
                _verdict(subject, (subject.best, best), (without, without_timing)),
                _verdict(subject, (default, base), (alone, alone_timing)),
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
    """Best and default as measured in turns; a default that is too slow for that has its time of the search."""
    best, other = turns[subject.best], measured[default]
    return _pair(subject, default, (best, TURNS), (other, TURNS if default in turns else SEARCH))


def _of_search(subject: Subject, default: Row) -> tuple[Contender, Contender]:
    """Best and default as the search timed them, or as the finals did.

    The finals' times are used if both were in the finals, if the times are far apart, or if the search has no time of
    the default.
    """
    by_name = {contender.name: contender for contender in contenders.contenders(subject)}
    best, other = by_name["best"], by_name["best"] if default == subject.best else by_name.get("default")
    is_known = default in subject.timings
    if other is not None and (not is_known or best.origin == other.origin or other.time_ms > SLOW * best.time_ms):
        return best, other
    return _pair(subject, default, (subject.timings[subject.best], SEARCH), (subject.timings[default], SEARCH))


def _pair(
    subject: Subject, default: Row, best: tuple[Timing, str], other: tuple[Timing, str]
) -> tuple[Contender, Contender]:
    """Best and default as contenders with rates, each from a Timing and its origin."""
    (one, origin), (two, default_origin) = best, other
    ties = bool(one.verdict(two)) or subject.is_same_code(subject.best, default)
    pair = (
        Contender("best", one.time_ms, origin, subject.config(subject.best), one.spread),
        Contender("default", two.time_ms, default_origin, subject.config(default), two.spread, ties=ties),
    )
    return contenders.with_rates(subject, pair[0]), contenders.with_rates(subject, pair[1])


def _slow(subject: Subject, turns: Mapping[Row, Timing]) -> dict[Row, Timing]:
    """The search's times of configurations that are too slow to be measured in turns; none if `turns` is empty."""
    best_ms = subject.times[subject.best]
    return {row: timing for row, timing in subject.timings.items() if turns and is_too_slow(timing.time_ms, best_ms)}


def _reason(subject: Subject, row: Row) -> str:
    if row in subject.times:
        return f"{subject.times[row]:.4g} ms in the {subject.source}"
    return landscape.why_no_time(subject, row)


def sentences(contrast: Contrast) -> list[str]:
    """The explanation in words."""
    return [*_of_times(contrast), *bits.sentences(contrast.subject)]


def _of_times(contrast: Contrast) -> list[str]:
    best, default, source = contrast.best, contrast.default, contrast.subject.source
    ways = {TURNS: "measured in turns", FINALS: "in turns in the finals", SEARCH: f"in the {source}"}
    best_text, default_text = (f"{c.time_ms:.4g} ms{spread(c.spread)}" for c in (best, default))
    if not contrast.changes:
        return [f"The best configuration is the default: {best_text}, {ways[best.origin]}.", *_limits(contrast)]
    finals = contrast.subject.finals if best.origin == default.origin == FINALS else None
    remark = verdicts.by_least(finals) if finals is not None else ""
    verdict = best.verdict(default) or f"{times(default.time_ms / best.time_ms)[:-2]} times as fast{remark}"
    where = f", {ways[best.origin]}" if best.origin != default.origin else ""
    lines = [f"The best takes {best_text}{where}, the default {default_text}, {ways[default.origin]}: {verdict}."]
    if contrast.origin != best.origin:
        other = "" if contrast.default_ms is None else f" and the default {contrast.default_ms:.4g} ms"
        lines.append(
            f"Parameters are compared by the times of the {source}, where the best took {contrast.best_ms:.4g} ms"
            f"{other}."
        )
    noisy = [change for change in contrast.changes if change.without_verdict == NOISY]
    same = [change for change in contrast.changes if change.without_verdict == SAME_CODE]
    sure = [change for change in contrast.changes if change.without and change not in (*noisy, *same)]
    needed = [change for change in sure if (change.without or 0.0) > (1 + ALIKE) * contrast.best_ms]
    better = [change for change in sure if (change.without or 0.0) < (1 - ALIKE) * contrast.best_ms]
    idle = [change for change in sure if change not in (*needed, *better)]
    unmeasured = [change for change in contrast.changes if change.without is None and change not in same]
    unknown = [change for change in unmeasured if change.without_reason == landscape.NOT_MEASURED]
    tied = [change for change in unmeasured if change not in unknown]
    if needed:
        first = needed[0]
        lines.append(
            f"{first.name} = {first.best} in place of {first.default} matters most: without it, the best takes "
            f"{times((first.without or 0.0) / contrast.best_ms)[:-2]} times as long."
        )
    if len(needed) > 1:
        rest = ", ".join(f"{s.name} ({times((s.without or 0.0) / contrast.best_ms)})" for s in needed[1:])
        lines.append(f"Then come {rest}.")
    if noisy:
        lines.append(f"{_names(noisy)}: {NOISY}; the times with either value spread too widely.")
    if same:
        lines.append(
            f"{_names(same)}: the best has the same code with the default's value; their times differ only by chance."
        )
    if idle:
        lines.append(f"{_names(idle)}: the default's value would cost less than {ALIKE:.0%}.")
    if better:
        lines.append(
            f"{_names(better)}: with the default's value the best is even faster; run the same `tune` command again, "
            "which continues from these trials."
        )
    if tied:
        lines.append(f"{_names(tied)}: cannot be changed back alone; the table says why.")
    if unknown:
        lines.append(f"{_names(unknown)}: the best with the default's value has not been measured.")
    return [*lines, *_limits(contrast)]


def _names(changes: list[Change]) -> str:
    return ", ".join(change.name for change in changes)


def _limits(contrast: Contrast) -> list[str]:
    return limiting.sentences(contrast.best, contrast.subject.ceilings, contrast.bounds["best"])
