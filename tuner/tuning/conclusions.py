"""What may be concluded from the finals: which configurations tie, whether they say anything, and why times differ from
those of the search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING

from tuner.space.texts import config_text

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.tuning.selection import Finalist, Selection

TOLD = 0.01  # of a time: a difference that matters
SAME = 0.02  # of a time, by which the finals may differ from the search without a word
MOST_NAMED = 4  # ties
TIE, NOISY = "a tie", "too noisy to tell"  # why two times cannot be told apart
LAUNCHES = 2.5  # of a kernel that does nothing: below that, about half of a time or more is the launch


def ties(selection: Selection) -> list[Finalist]:
    """The finalists whose times cannot be told from those of the best: the middle halves of both overlap, the quarter
    that is fastest and the quarter that is slowest left out."""
    end = max((middle(best.final.times)[1] for best in selection.finalists[:1]), default=0.0)
    return [other for other in selection.finalists[1:] if middle(other.final.times)[0] <= end]


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
    is_noise = any(other.final.time_ms > fastest * (1 + TOLD) for other in tied)
    verdict = f"{NOISY} which is the fastest" if is_noise else TIE
    figures = [f"{other.final.time_ms / fastest - 1:+.1%}, spread {other.final.spread:.1%}" for other in tied]
    lines = [f"  {config_text(o.trial.config)} ({text})" for o, text in zip(tied, figures, strict=True)][:MOST_NAMED]
    more = [f"  and {len(tied) - MOST_NAMED} more"] if len(tied) > MOST_NAMED else []
    spread = f"{best.final.spread:.1%}"
    return "\n".join([f"{verdict}: times overlap with those of the best (spread {spread}):", *lines, *more])


def _difference(selection: Selection, device: DeviceInfo) -> str | None:
    """Why the search's best took another time in the finals; None where both agree."""
    lead = min(selection.finalists, key=lambda finalist: finalist.trial.time_ms or 0.0)
    before, after = lead.trial.time_ms or 0.0, lead.final.time_ms
    if abs(after / before - 1) <= SAME:
        return None
    reason = _reason(selection, lead, device, is_slower=after > before)
    which = "the best" if lead is selection.finalists[0] else f"the search's best, {config_text(lead.trial.config)},"
    change = f"{after / before - 1:+.0%}"
    return f"{which} took {before:.4g} ms in the search, {after:.4g} ms in the finals ({change}): {reason}"


def _reason(selection: Selection, lead: Finalist, device: DeviceInfo, is_slower: bool) -> str:
    """What most likely made the difference: what the board says, then noise, then what all finalists share."""
    finals = selection.finals
    clock = f" at {finals.clock_mhz:.0f} MHz" if finals.clock_mhz else ""
    if is_slower and finals.throttled:
        return f"clocks: the board ran{clock or ' slower'}, held down by {' and '.join(finals.throttled)}"
    (low, high), (first, last) = middle(lead.trial.outcome.times), middle(lead.final.times)
    if first <= high and low <= last:
        return "noise: both spread so far that they overlap"
    ratios = [f.final.time_ms / f.trial.time_ms for f in selection.finalists if f.trial.time_ms]
    if len(ratios) == 1 or not all((ratio > 1) == is_slower and abs(ratio - 1) > SAME for ratio in ratios):
        return "noise: the least of many medians is luck, too" if is_slower else "noise: something else ran meanwhile"
    if device.on_processor:
        load = "more" if is_slower else "less"
        return (
            f"load or clocks: all finalists changed alike, so other programs took {load} of the processor, or the "
            f"finals' own inputs are {load} work"
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


def middle(times: Sequence[float]) -> tuple[float, float]:
    """The ends of the middle half of times in ms: the first and the third quartile."""
    if len(times) < 2:
        return times[0], times[0]
    low, _, high = quantiles(times, n=4)
    return low, high
