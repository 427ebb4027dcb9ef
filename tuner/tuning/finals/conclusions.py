"""Conclusions from the finals: ties, times that are mostly launch overhead, and why times differ from the search's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.measure.timing.clock import NOISE
from tuner.space.texts import config_text
from tuner.store import verdicts
from tuner.store.verdicts import NOISY, TIE
from tuner.tuning.finals.finalist import is_far

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.tuning.finals.finalist import Finalist
    from tuner.tuning.finals.selection import Selection

REASONS = {  # why a configuration is the best of those that are tied
    "record": "the record that is there stays",
    "default": "the default comes before others",
    "bit class": "more configurations have the best's bits than those of another",
    "registers": "the best takes fewer registers",
    "name": "the best comes first in alphabetical order",
}
LAUNCHES = 2.5  # times the launch overhead: of a shorter time, about half or more is launch overhead


def ties(selection: Selection) -> list[Finalist]:
    """The finalists, besides the winner, that are tied with the fastest. None if the winner is not, because the
    objective is not time."""
    tied = [tie.finalist for tie in selection.ties]
    if not selection.finalists or selection.finalists[0] not in tied:
        return []
    return [each for each in selection.finalists[1:] if each in tied]


def of(selection: Selection, device: DeviceInfo) -> Iterator[str]:
    """The conclusions, as one text each; none if nothing is remarkable."""
    if not selection.finalists:
        return
    tied = ties(selection)
    if difference := _difference(selection, device, tied):
        yield difference
    if tied:
        yield _tie(selection.finalists[0], tied, selection.decided_by)
    best_ms, launch_ms = selection.finalists[0].final.time_ms, selection.finals.launch_ms
    if launch_ms is not None and best_ms < LAUNCHES * launch_ms:
        yield (
            f"at this size much of a time is launch overhead: the best takes {best_ms:.4g} ms, a kernel that does "
            f"nothing {launch_ms:.4g} ms; tune at a larger size"
        )


def of_energy(selection: Selection) -> Iterator[str]:
    """The number of finalists whose energies are indistinguishable from the best's, as one text.

    Nothing if there are none, or if an energy is unknown.
    """
    if not selection.finalists or not all(finalist.final.energies for finalist in selection.finalists):
        return
    best, *others = selection.finalists
    least_mj, spread = best.final.energy_mj or 0.0, best.final.energy_spread or 0.0
    least = verdicts.of_times(best.final.energies)
    tied = [other for other in others if least.verdict(verdicts.of_times(other.final.energies))]
    if not tied:
        return
    ratios = [(other.final.energy_mj or 0.0) / least_mj for other in tied]
    yield f"{_others(ratios, 'energy', 'energies')} too close to the best's, {least_mj:.4g} mJ (spread {spread:.1%})"


def _tie(best: Finalist, tied: Sequence[Finalist], decided_by: str) -> str:
    """The verdict, the number of ties, and what decided. Reports list the ties."""
    fastest = best.final.time_ms
    is_noise = any(verdicts.tie_or_noisy(fastest, other.final.time_ms) == NOISY for other in tied)
    verdict = f"{NOISY} which is the fastest" if is_noise else TIE
    why = f"; {REASONS[decided_by]}" if decided_by in REASONS else ""
    others = _others([other.final.time_ms / fastest for other in tied], "time", "times")
    return f"{verdict}: {others} too close to the best's (spread {best.final.spread:.1%}){why}"


def _others(ratios: Sequence[float], one: str, several: str) -> str:
    """`1 other time (+0.4%) is`, `3 other times (-1.2% to +0.4%) are`: their number, and their ratios to the best's."""
    least, most = (f"{round(ratio - 1, 3) + 0.0:+.1%}" for ratio in (min(ratios), max(ratios)))  # never -0.0%
    if len(ratios) == 1:
        return f"1 other {one} ({least}) is"
    return f"{len(ratios)} other {several} ({least} to {most}) are"


def _difference(selection: Selection, device: DeviceInfo, tied: Sequence[Finalist]) -> str | None:
    """Why a time in the finals differs from the search's; None if none does.

    It explains the best's time, and names the search's fastest if that is another configuration, and not tied with the
    best. If the best's time is the same as in the search, it explains the time of the search's fastest. If the best's
    times are so noisy that its record is doubtful, `summary.doubts` says so instead.
    """
    best = selection.finalists[0]
    if best.final.spread > NOISE and not selection.finals.throttled:
        return None
    lead = min(selection.finalists, key=lambda finalist: finalist.searched.time_ms or 0.0)
    if best.has_changed:
        explanation = f"the best took {_change(best)}: {_reason(selection, best, device)}"
        if lead is best or lead in tied:
            return explanation
        before, after = lead.searched.time_ms or 0.0, lead.final.time_ms
        return (
            f"{explanation}; the search had ranked {config_text(lead.trial.config)} first: {before:.4g} ms there, "
            f"{after:.4g} ms in the finals"
        )
    if not lead.has_changed:
        return None
    return (
        f"the search's fastest, {config_text(lead.trial.config)}, took {_change(lead)}: "
        f"{_reason(selection, lead, device)}"
    )


def _change(finalist: Finalist) -> str:
    before, after = finalist.searched.time_ms or 0.0, finalist.final.time_ms
    return f"{before:.4g} ms in the search, {after:.4g} ms in the finals ({after / before - 1:+.0%})"


def _reason(selection: Selection, changed: Finalist, device: DeviceInfo) -> str:
    """The most likely reason: throttling that the driver reports, else their spread, else what was measured again."""
    finals, is_slower = selection.finals, changed.final.time_ms > (changed.searched.time_ms or 0.0)
    if is_slower and finals.throttled:
        clock = f" at {finals.clock_mhz:.0f} MHz" if finals.clock_mhz else " slower"
        return f"clocks: the GPU ran{clock}, throttled by {' and '.join(finals.throttled)}{_again(changed)}"
    if changed.is_spread:
        return f"noise: its times spread by {changed.spread:.0%}"
    if changed.earlier is None or (again_ms := changed.trial.time_ms) is None:
        return "it could not be measured again as in the search"
    again = f"measured once more as in the search, it took {again_ms:.4g} ms"
    is_as_in_finals = not is_far(again_ms, changed.final.time_ms)
    if not is_far(again_ms, changed.earlier.time_ms or 0.0):
        return f"{again}, as before: {_of_finals(selection, is_slower, device)}"
    if is_as_in_finals:
        return f"{again}, as in the finals: the search's time was wrong, and this one has replaced it"
    return f"{again}, which is neither: its times vary from run to run; this one has replaced the search's"


def _again(changed: Finalist) -> str:
    again_ms = changed.trial.time_ms
    if changed.earlier is None or again_ms is None:
        return ""
    return f"; measured once more as in the search, it took {again_ms:.4g} ms"


def _of_finals(selection: Selection, is_slower: bool, device: DeviceInfo) -> str:
    """Why the finals may differ from the search if the search's time repeats."""
    clock = f" at {selection.finals.clock_mhz:.0f} MHz" if selection.finals.clock_mhz else ""
    times = [(f.final.time_ms, f.searched.time_ms) for f in selection.finalists if f.searched.time_ms]
    if len(times) == 1 or not all((after > before) == is_slower and is_far(before, after) for after, before in times):
        return (
            f"the finals' inputs are {'more' if is_slower else 'less'} work for it, or between two of its runs the "
            "others change what the caches hold"
        )
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
