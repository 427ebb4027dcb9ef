"""What may be concluded from the finals: which configurations tie, whether they say anything, and why times differ from
those of the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.space.texts import config_text
from tuner.store import verdicts
from tuner.store.verdicts import NOISY, RELEVANT, TIE

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.tuning.finals.selection import Finalist, Selection

SAME = 0.02  # of a time, by which the finals may differ from the search without a word
MOST_NAMED = 4  # ties
LUCK = "the least of many medians is luck, too"
MISFORTUNE = "in the search, either something else ran meanwhile, or its runs differ by themselves"
LAUNCHES = 2.5  # of a kernel that does nothing: below that, about half of a time or more is the launch


def ties(selection: Selection) -> list[Finalist]:
    """The finalists whose times cannot be told from those of the best."""
    if not selection.finalists:
        return []
    best, *others = selection.finalists
    timing = verdicts.of_times(best.final.times)
    return [other for other in others if timing.verdict(verdicts.of_times(other.final.times))]


def of(selection: Selection, device: DeviceInfo) -> Iterator[str]:
    """The conclusions, a sentence each; none where nothing is remarkable."""
    if not selection.finalists:
        return
    if difference := _difference(selection, device):
        yield difference
    if tied := ties(selection):
        yield _tie(selection.finalists[0], tied)
    best_ms, launch_ms = selection.finalists[0].final.time_ms, selection.finals.launch_ms
    if launch_ms is not None and best_ms < LAUNCHES * launch_ms:
        yield (
            f"at this size times are of the launch as much as of the kernel: the best takes {best_ms:.4g} ms, a kernel "
            f"that does nothing {launch_ms:.4g} ms; tune at a larger size"
        )


def _tie(best: Finalist, tied: Sequence[Finalist]) -> str:
    """The verdict in one line, and a line for each tie."""
    fastest = best.final.time_ms
    is_noise = any(other.final.time_ms > fastest * (1 + RELEVANT) for other in tied)
    verdict = f"{NOISY} which is the fastest" if is_noise else TIE
    figures = [f"{other.final.time_ms / fastest - 1:+.1%}, spread {other.final.spread:.1%}" for other in tied]
    lines = [f"  {config_text(o.trial.config)} ({text})" for o, text in zip(tied, figures, strict=True)][:MOST_NAMED]
    more = [f"  and {len(tied) - MOST_NAMED} more"] if len(tied) > MOST_NAMED else []
    spread = f"{best.final.spread:.1%}"
    return "\n".join([f"{verdict}: times are too near to those of the best (spread {spread}):", *lines, *more])


def _difference(selection: Selection, device: DeviceInfo) -> str | None:
    """Why the best took another time in the finals than in the search, with the search's fastest if that is another
    configuration; where the best took as long, why that other one did not. None where all agree."""
    best, lead = selection.finalists[0], min(selection.finalists, key=lambda finalist: finalist.trial.time_ms or 0.0)
    if _has_changed(best):
        said = f"the best took {_change(best)}: {_reason(selection, best, device)}"
        if lead is best:
            return said
        before, after = lead.trial.time_ms or 0.0, lead.final.time_ms
        return (
            f"{said}; the search's fastest was another, {config_text(lead.trial.config)}: {before:.4g} ms there, "
            f"{after:.4g} ms in the finals"
        )
    if not _has_changed(lead):
        return None
    return (
        f"the search's fastest, {config_text(lead.trial.config)}, took {_change(lead)}: "
        f"{_reason(selection, lead, device)}"
    )


def _has_changed(finalist: Finalist) -> bool:
    return abs(finalist.final.time_ms / (finalist.trial.time_ms or 0.0) - 1) > SAME


def _change(finalist: Finalist) -> str:
    before, after = finalist.trial.time_ms or 0.0, finalist.final.time_ms
    return f"{before:.4g} ms in the search, {after:.4g} ms in the finals ({after / before - 1:+.0%})"


def _reason(selection: Selection, changed: Finalist, device: DeviceInfo) -> str:
    """What most likely made the difference: what the board says, then noise, then what all finalists share."""
    finals, is_slower = selection.finals, changed.final.time_ms > (changed.trial.time_ms or 0.0)
    clock = f" at {finals.clock_mhz:.0f} MHz" if finals.clock_mhz else ""
    if is_slower and finals.throttled:
        return f"clocks: the board ran{clock or ' slower'}, held down by {' and '.join(finals.throttled)}"
    before, after = verdicts.of_times(changed.trial.outcome.times), verdicts.of_times(changed.final.times)
    if before.verdict(after):
        return f"noise: its times spread by {max(before.spread or 0.0, after.spread or 0.0):.0%}"
    ratios = [f.final.time_ms / f.trial.time_ms for f in selection.finalists if f.trial.time_ms]
    if len(ratios) == 1 or not all((ratio > 1) == is_slower and abs(ratio - 1) > SAME for ratio in ratios):
        return f"noise: {LUCK if is_slower else MISFORTUNE}"
    if device.on_processor:
        load = "more" if is_slower else "less"
        return (
            f"load or clocks: all finalists changed alike, so either other programs took {load} of the processor, or "
            f"the finals' own inputs are {load} work"
        )
    if is_slower:
        return (
            f"clocks or caches: all finalists took longer; the board ran{clock or ' on'} without a pause, and between "
            "two runs of one, the others had the caches; or the finals' own inputs are more work"
        )
    return (
        f"clocks: all finalists were faster; the board ran{clock or ' on'} without a pause, and in the search it idles "
        "between builds; or the finals' own inputs are less work"
    )
