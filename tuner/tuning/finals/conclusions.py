"""Conclusions from the finals: ties, times that are mostly launch overhead, and why times differ from the search's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.space.texts import config_text
from tuner.store import verdicts
from tuner.store.verdicts import NOISY, RELEVANT, TIE

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.tuning.finals.selection import Finalist, Selection

SAME = 0.02  # relative difference between a time in the search and in the finals that needs no explanation
MOST_NAMED = 4  # ties in a conclusion
LUCK = "the smallest of many medians is partly luck"
MISFORTUNE = "in the search, either another program ran at the same time, or the kernel's times vary from run to run"
LAUNCHES = 2.5  # times the launch overhead: of a shorter time, about half or more is launch overhead


def ties(selection: Selection) -> list[Finalist]:
    """The finalists whose times are indistinguishable from the best's."""
    if not selection.finalists:
        return []
    best, *others = selection.finalists
    timing = verdicts.of_times(best.final.times)
    return [other for other in others if timing.verdict(verdicts.of_times(other.final.times))]


def of(selection: Selection, device: DeviceInfo) -> Iterator[str]:
    """The conclusions, as one text each; none if nothing is remarkable."""
    if not selection.finalists:
        return
    if difference := _difference(selection, device):
        yield difference
    if tied := ties(selection):
        yield _tie(selection.finalists[0], tied)
    best_ms, launch_ms = selection.finalists[0].final.time_ms, selection.finals.launch_ms
    if launch_ms is not None and best_ms < LAUNCHES * launch_ms:
        yield (
            f"at this size much of a time is launch overhead: the best takes {best_ms:.4g} ms, a kernel that does "
            f"nothing {launch_ms:.4g} ms; tune at a larger size"
        )


def of_energy(selection: Selection) -> Iterator[str]:
    """The finalists whose energies are indistinguishable from the best's, as one text.

    Nothing if there are none, or if an energy is unknown.
    """
    if not selection.finalists or not all(finalist.final.energies for finalist in selection.finalists):
        return
    best, *others = selection.finalists
    least = verdicts.of_times(best.final.energies)
    tied = [other for other in others if least.verdict(verdicts.of_times(other.final.energies))]
    if not tied:
        return
    figures = [
        f"  {config_text(other.trial.config)} ({other.final.energy_mj:.4g} mJ, spread {other.final.energy_spread:.1%})"
        for other in tied
    ]
    more = [f"  and {len(tied) - MOST_NAMED} more"] if len(tied) > MOST_NAMED else []
    first = (
        f"these energies are too close to the best's, {best.final.energy_mj:.4g} mJ (spread {least.spread or 0:.1%}):"
    )
    yield "\n".join([first, *figures[:MOST_NAMED], *more])


def _tie(best: Finalist, tied: Sequence[Finalist]) -> str:
    """The verdict on one line, then a line for each tie."""
    fastest = best.final.time_ms
    is_noise = any(other.final.time_ms > fastest * (1 + RELEVANT) for other in tied)
    verdict = f"{NOISY} which is the fastest" if is_noise else TIE
    figures = [f"{other.final.time_ms / fastest - 1:+.1%}, spread {other.final.spread:.1%}" for other in tied]
    lines = [f"  {config_text(o.trial.config)} ({text})" for o, text in zip(tied, figures, strict=True)][:MOST_NAMED]
    more = [f"  and {len(tied) - MOST_NAMED} more"] if len(tied) > MOST_NAMED else []
    spread = f"{best.final.spread:.1%}"
    return "\n".join([f"{verdict}: these times are too close to the best's (spread {spread}):", *lines, *more])


def _difference(selection: Selection, device: DeviceInfo) -> str | None:
    """Why a time in the finals differs from the search's; None if none does.

    It explains the best's time, and names the search's fastest if that is another configuration. If the best's time is
    the same as in the search, it explains the time of the search's fastest.
    """
    best, lead = selection.finalists[0], min(selection.finalists, key=lambda finalist: finalist.trial.time_ms or 0.0)
    if _has_changed(best):
        explanation = f"the best took {_change(best)}: {_reason(selection, best, device)}"
        if lead is best:
            return explanation
        before, after = lead.trial.time_ms or 0.0, lead.final.time_ms
        return (
            f"{explanation}; the search had ranked {config_text(lead.trial.config)} first: {before:.4g} ms there, "
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
    """The most likely reason: throttling that the driver reports, else noise, else a change shared by all finalists."""
    finals, is_slower = selection.finals, changed.final.time_ms > (changed.trial.time_ms or 0.0)
    clock = f" at {finals.clock_mhz:.0f} MHz" if finals.clock_mhz else ""
    if is_slower and finals.throttled:
        return f"clocks: the GPU ran{clock or ' slower'}, throttled by {' and '.join(finals.throttled)}"
    before, after = verdicts.of_times(changed.trial.outcome.times), verdicts.of_times(changed.final.times)
    if before.verdict(after):
        return f"noise: its times spread by {max(before.spread or 0.0, after.spread or 0.0):.0%}"
    ratios = [f.final.time_ms / f.trial.time_ms for f in selection.finalists if f.trial.time_ms]
    if len(ratios) == 1 or not all((ratio > 1) == is_slower and abs(ratio - 1) > SAME for ratio in ratios):
        return f"noise: {LUCK if is_slower else MISFORTUNE}"
    if device.on_processor:
        load, speed = ("more", "slower") if is_slower else ("less", "faster")
        return (
            f"load or clocks: all finalists were {speed}, so either other programs used {load} of the processor, or "
            f"the finals' inputs are {load} work"
        )
    if is_slower:
        return (
            f"clocks or caches: all finalists were slower; the GPU ran{clock} without a pause, and between two runs of "
            "one finalist, the others evict its data from the caches; or the finals' inputs are more work"
        )
    return (
        f"clocks: all finalists were faster; the GPU ran{clock} without a pause, and in the search it idles between "
        "builds; or the finals' inputs are less work"
    )
